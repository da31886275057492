// SPDX-License-Identifier: Apache-2.0
// Two engines for a bench, the ports of each as one vector in and one out: a bench reads and writes
// signals at a high price. Fields are listed in uzura_host.py.
module uzura_pair #(
  parameter int unsigned MemLatency = 1,
  parameter int unsigned MemW = 10,
  /// Cycles of what the engines take for a microsecond.
  parameter int unsigned TickCycles = 16,
  localparam int unsigned InW = 242,
  localparam int unsigned OutW = 379
) (
  input  logic                 clk_i,
  input  logic                 rst_i,
  input  logic [1:0][ InW-1:0] in_i,
  output logic [1:0][OutW-1:0] out_o
);
  typedef struct packed {
    logic        rx_tuser;
    logic [7:0]  rx_tkeep;
    logic [63:0] rx_tdata;
    logic        rd_bad;
    logic        rd_last;
    logic [2:0]  rd_cookie;
    logic [63:0] rd_data;
    logic [63:0] reg_wdata;
    logic [18:0] reg_addr;
    logic        rx_tlast;
    logic        reg_write;
    // Handshakes at the bottom.
    logic        tx_ready;
    logic        wr_data_ready;
    logic        wr_ready;
    logic        rd_ready;
    logic        rx_valid;
    logic        rd_valid;
    logic        reg_valid;
    logic [7:0]  unused;
  } in_t;
  typedef struct packed {
    logic [5:0]  event_cq;
    logic [63:0] reg_rdata;
    logic        tx_last;
    logic [7:0]  tx_keep;
    logic [63:0] tx_data;
    logic        wr_last;
    logic [63:0] wr_data;
    logic [12:0] wr_bytes;
    logic [63:0] wr_addr;
    logic [2:0]  rd_cookie;
    logic [12:0] rd_bytes;
    logic [63:0] rd_addr;
    logic        busy;
    logic        event_valid;
    logic        rd_data_ready;
    logic        reg_rvalid;
    logic        tx_valid;
    logic        wr_data_valid;
    logic        wr_valid;
    logic        rd_valid;
    logic        alarm;
    logic [4:0]  zero;
  } out_t;

  logic [31:0] now_q, tick_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      now_q  <= '0;
      tick_q <= '0;
    end else begin
      tick_q <= tick_q == TickCycles - 1 ? '0 : tick_q + 1;
      if (tick_q == TickCycles - 1) now_q <= now_q + 1;
    end
  end

  for (genvar i = 0; i < 2; i++) begin : gen_engine
    in_t  in;
    out_t out;
    logic reg_ready;
    assign in       = in_t'(in_i[i]);
    assign out_o[i] = OutW'(out);
    assign out.zero = '0;
    uzura #(
      .MemLatency(MemLatency),
      .MemW      (MemW)
    ) u_engine (
      .clk_i,
      .rst_i,
      .now_us_i        (now_q),
      .mac_o           (),
      .ip_o            (),
      .reg_valid_i     (in.reg_valid),
      .reg_ready_o     (reg_ready),
      .reg_write_i     (in.reg_write),
      .reg_addr_i      (in.reg_addr),
      .reg_wdata_i     (in.reg_wdata),
      .reg_rvalid_o    (out.reg_rvalid),
      .reg_rdata_o     (out.reg_rdata),
      .rd_addr_o       (out.rd_addr),
      .rd_bytes_o      (out.rd_bytes),
      .rd_cookie_o     (out.rd_cookie),
      .rd_valid_o      (out.rd_valid),
      .rd_ready_i      (in.rd_ready),
      .rd_data_i       (in.rd_data),
      .rd_data_cookie_i(in.rd_cookie),
      .rd_data_last_i  (in.rd_last),
      .rd_data_bad_i   (in.rd_bad),
      .rd_data_valid_i (in.rd_valid),
      .rd_data_ready_o (out.rd_data_ready),
      .wr_addr_o       (out.wr_addr),
      .wr_bytes_o      (out.wr_bytes),
      .wr_valid_o      (out.wr_valid),
      .wr_ready_i      (in.wr_ready),
      .wr_data_o       (out.wr_data),
      .wr_data_last_o  (out.wr_last),
      .wr_data_valid_o (out.wr_data_valid),
      .wr_data_ready_i (in.wr_data_ready),
      .rx_tdata_i      (in.rx_tdata),
      .rx_tkeep_i      (in.rx_tkeep),
      .rx_tvalid_i     (in.rx_valid),
      .rx_tlast_i      (in.rx_tlast),
      .rx_tuser_i      (in.rx_tuser),
      .tx_tdata_o      (out.tx_data),
      .tx_tkeep_o      (out.tx_keep),
      .tx_tvalid_o     (out.tx_valid),
      .tx_tlast_o      (out.tx_last),
      .tx_own_o        (),
      .tx_tready_i     (in.tx_ready),
      .event_valid_o   (out.event_valid),
      .event_cq_o      (out.event_cq),
      .alarm_o         (out.alarm),
      .busy_o          (out.busy)
    );
    logic unused;
    assign unused = ^{in.unused, reg_ready};
  end
endmodule
