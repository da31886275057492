// SPDX-License-Identifier: Apache-2.0
// Flat ports around the engine; a send memory whose content is a function of its address; the watch.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_toe
  import toe_pkg::*;
#(
  parameter int unsigned Policy = 4,
  parameter int unsigned Slots = 64,
  parameter int unsigned EpochLen = 1,
  parameter int unsigned StallAfter = 32,
  parameter int unsigned Analyzers = 5,
  parameter int unsigned BytesPerCycle = 8,
  parameter int unsigned PaceNum = 1,
  parameter int unsigned PaceDen = 1,
  parameter int unsigned PayloadTicks = 1,
  parameter int unsigned Words = 16384,
  parameter int unsigned Mtu = 1500,
  parameter int unsigned RxBytes = 65536,
  parameter int unsigned HalfOpen = 4,
  /// Edges of a microsecond.
  parameter int unsigned UsCycles = 4,
  parameter int unsigned MemLatency = 12
) (
  input  logic                          clk_i,
  input  logic                          rst_i,
  output logic [                  31:0] now_us_o,
  input  logic [                  63:0] tdata_i,
  input  logic [                   7:0] tkeep_i,
  input  logic                          tvalid_i,
  input  logic                          tlast_i,
  input  logic                          tuser_i,
  output logic [                  63:0] tdata_o,
  output logic [                   7:0] tkeep_o,
  output logic                          tvalid_o,
  output logic                          tlast_o,
  input  logic                          tready_i,
  input  logic [  $bits(command_t)-1:0] command_i,
  input  logic                          command_valid_i,
  output logic                          command_ready_o,
  output logic [    $bits(event_t)-1:0] event_o,
  output logic                          event_valid_o,
  output logic [$bits(mem_write_t)-1:0] write_o,
  output logic                          write_valid_o,
  input  logic                          write_ready_i,
  output logic [   $bits(counts_t)-1:0] counts_o,
  output logic                          overflow_o
);
  axis_if s_eth ();
  axis_if m_eth ();
  assign s_eth.tdata  = tdata_i;
  assign s_eth.tkeep  = tkeep_i;
  assign s_eth.tvalid = tvalid_i;
  assign s_eth.tlast  = tlast_i;
  assign s_eth.tuser  = tuser_i;
  assign tdata_o      = m_eth.tdata;
  assign tkeep_o      = m_eth.tkeep;
  assign tvalid_o     = m_eth.tvalid;
  assign tlast_o      = m_eth.tlast;
  assign m_eth.tready = tready_i;

  us_t         now_q;
  int unsigned part_q;
  always_ff @(posedge clk_i) begin
    part_q <= rst_i || part_q == UsCycles - 1 ? 0 : part_q + 1;
    if (rst_i) now_q <= '0;
    else if (part_q == UsCycles - 1) now_q <= now_q + 1'b1;
  end
  assign now_us_o = now_q;

  // ---- The send memory ---------------------------------------------------------------------------
  logic                            read_valid;
  conn_id_t                        read_conn;
  logic     [          28:0]       read_word;
  logic     [MemLatency-1:0][64:0] line_q;
  always_ff @(posedge clk_i) begin
    line_q <= {
      line_q[MemLatency-2:0],
      {read_valid && !rst_i, 64'(read_word) * 64'h9E37_79B9_7F4A_7C15 + 64'(read_conn)}
    };
  end

  event_t     told;
  mem_write_t write;
  counts_t    counts;
  assign event_o  = told;
  assign write_o  = write;
  assign counts_o = counts;

  toe_core #(
    .Policy       (policy_e'(Policy)),
    .Slots        (Slots),
    .EpochLen     (EpochLen),
    .StallAfter   (StallAfter),
    .Analyzers    (Analyzers),
    .BytesPerCycle(BytesPerCycle),
    .PaceNum      (PaceNum),
    .PaceDen      (PaceDen),
    .PayloadTicks (PayloadTicks),
    .Words        (Words),
    .Mtu          (Mtu),
    .RxBytes      (RxBytes),
    .HalfOpen     (HalfOpen),
    .FirstRtoUs   (1000),
    .MinRtoUs     (500),
    .LingerUs     (2000),
    .DelayUs      (50),
    .MaxTries     (4)
  ) u_dut (
    .clk_i,
    .rst_i,
    .now_us_i      (now_q),
    .secret_i      (64'h0123_4567_89AB_CDEF),
    .mac_i         (48'h02_00_00_00_00_01),
    .ip_i          (32'h0A_00_00_01),
    .s_eth,
    .m_eth,
    .command_i     (command_t'(command_i)),
    .command_valid_i,
    .command_ready_o,
    .event_o       (told),
    .event_valid_o,
    .write_o       (write),
    .write_valid_o,
    .write_ready_i,
    .read_conn_o   (read_conn),
    .read_word_o   (read_word),
    .read_valid_o  (read_valid),
    .read_ready_i  (1'b1),
    .data_i        (line_q[MemLatency-1][63:0]),
    .data_valid_i  (line_q[MemLatency-1][64]),
    .alarm_o       (),
    .counts_o      (counts),
    .cnt_overflow_o(overflow_o)
  );

  toe_watch u_watch (
    .clk_i,
    .rst_i,
    .header_i      (u_dut.header),
    .header_valid_i(u_dut.header_valid),
    .result_i      (u_dut.result),
    .result_valid_i(u_dut.result_valid),
    .order_i       (u_dut.order),
    .order_valid_i (u_dut.order_valid),
    .place_i       (u_dut.place),
    .place_valid_i (u_dut.place_valid)
  );
endmodule
