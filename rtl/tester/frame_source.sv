// SPDX-License-Identifier: Apache-2.0
// Source of a trial's frames: IPv4 or IPv6, UDP, numbered, stamped, with a filler that shows damage.
//
// While a frame leaves, the next one's address and checksums are made. The stamp comes back from
// the pins, where the preamble is by the time its word is made.
//
// Latency   : start_i to the first frame's start_o: 4 edges for IPv4, 8 for IPv6; then as
//             frame_schedule and the MAC permit.
// Clock     : clk_i.
// Handshake : to the MAC as xgmii_tx and gmii_tx want it: start_o, then beats without a stall.
// Drops     : none.
// Source    : RFC 2544 sections 9 and 26, appendix C.
module frame_source #(
  /// Byte times of a cycle.
  parameter int unsigned CycleBytes = 8
) (
  input  logic                                            clk_i,
  input  logic                                            rst_i,
  /// Constant while running_o.
  input  tester_pkg::source_cfg_t                         cfg_i,
  /// Begin a trial; ignored in a trial.
  input  logic                                            start_i,
  /// End it behind this frame.
  input  logic                                            stop_i,
  output logic                                            running_o,
  input  logic                                            list_lo_we_i,
  input  logic                                            list_hi_we_i,
  input  logic                    [tester_pkg::ListW-1:0] list_addr_i,
  input  logic                    [                 63:0] list_data_i,
  /// Of the frame under way, from the pins.
  input  tester_pkg::stamp_t                              stamp_i,
  output logic                                            start_o,
  input  logic                                            ready_start_i,
         axis_if.src                                      m_axis
);
  import tester_pkg::*;
  import eth_pkg::*;

  // Words of the headers; the last of IPv6 holds the filler's first half block.
  localparam int unsigned V4Words = V4Fill / 8;
  localparam int unsigned V6Words = (V6Fill + 4) / 8;
  localparam int unsigned IdxW = SizeW - 3;
  typedef logic [IdxW-1:0] idx_t;

  // ---- Trial ------------------------------------------------------------------------------------
  logic running_q, load, launch, due, sum_ready;
  seq_t         seq_q;  // of the frame being prepared
  logic [ 47:0] left_q;
  logic [127:0] address;
  logic [ 15:0] ip_sum;
  logic [ 31:0] header_sum;
  logic sending_q, done;

  assign load   = start_i && !running_q && !sending_q;
  assign done   = m_axis.tvalid && m_axis.tready && m_axis.tlast;
  assign launch = running_q && due && sum_ready && ready_start_i && !sending_q;

  always_ff @(posedge clk_i) begin
    if (load) begin
      seq_q  <= '0;
      left_q <= cfg_i.count;
    end else if (launch) begin
      seq_q  <= seq_q + 1'b1;
      left_q <= left_q - 1'b1;
    end
    if (rst_i) begin
      running_q <= 1'b0;
      sending_q <= 1'b0;
    end else begin
      if (load) running_q <= 1'b1;
      else if (stop_i || (launch && left_q == 48'd1)) running_q <= 1'b0;
      if (launch) sending_q <= 1'b1;
      else if (done) sending_q <= 1'b0;
    end
  end

  assign start_o   = launch;
  assign running_o = running_q || sending_q;

  frame_schedule #(
    .CycleBytes(CycleBytes)
  ) u_schedule (
    .clk_i,
    .rst_i,
    .run_i     (running_q),
    .interval_i(cfg_i.interval),
    .burst_i   (cfg_i.burst),
    .start_i   (launch),
    .due_o     (due)
  );

  frame_address u_address (
    .clk_i,
    .load_i   (load),
    .next_i   (launch),
    .base_i   (cfg_i.dst_ip),
    .step_i   (cfg_i.step),
    .sweep_i  (cfg_i.sweep),
    .list_i   (cfg_i.list),
    .address_o(address),
    .we_lo_i  (list_lo_we_i),
    .we_hi_i  (list_hi_we_i),
    .waddr_i  (list_addr_i),
    .wdata_i  (list_data_i)
  );

  // ---- Frame under way --------------------------------------------------------------------------
  seq_t         cur_seq_q;
  logic [127:0] cur_dst_q;
  logic [ 15:0] cur_ip_sum_q;
  logic [ 31:0] cur_sum_q;
  logic [ 15:0] udp_sum;

  always_ff @(posedge clk_i) begin
    if (launch) begin
      cur_seq_q    <= seq_q;
      cur_dst_q    <= address;
      cur_ip_sum_q <= ip_sum;
      cur_sum_q    <= header_sum;
    end
  end

  frame_sum u_sum (
    .clk_i,
    .rst_i,
    .cfg_i,
    .begin_i     (load || launch),
    .seq_i       (seq_q),
    .address_i   (address),
    .ready_o     (sum_ready),
    .ip_sum_o    (ip_sum),
    .header_sum_o(header_sum),
    .header_sum_i(cur_sum_q),
    .cur_seq_i   (cur_seq_q),
    .stamp_i,
    .udp_sum_o   (udp_sum)
  );

  logic [15:0] ip_length, udp_length;
  logic [       31:0]       first_fill;
  logic [V4Words-1:0][63:0] head4;
  logic [V6Words-1:0][63:0] head6;

  assign ip_length = 16'(cfg_i.size) - 16'(EthHeader + FcsBytes);
  assign udp_length = ip_length - 16'(cfg_i.v6 ? V6Header : V4Header);
  assign first_fill = fill_base(cfg_i.stream, cur_seq_q, stamp_i);

  // First byte on the wire on top: the first word has the highest index.
  assign head4 = {
    cfg_i.dst_mac,
    cfg_i.src_mac,
    TypeV4,
    V4VersionIhl,
    cfg_i.tos,
    ip_length,
    cur_seq_q[15:0],
    V4DontFragment,
    cfg_i.ttl,
    ProtocolUdp,
    cur_ip_sum_q,
    cfg_i.src_ip[31:0],
    cur_dst_q[31:0],
    cfg_i.src_port,
    cfg_i.dst_port,
    udp_length,
    16'd0,
    Mark,
    8'(cfg_i.stream),
    cur_seq_q,
    stamp_i
  };
  assign head6 = {
    cfg_i.dst_mac,
    cfg_i.src_mac,
    TypeV6,
    4'd6,
    cfg_i.tos,
    20'd0,
    udp_length,
    ProtocolUdp,
    cfg_i.ttl,
    cfg_i.src_ip,
    cur_dst_q,
    cfg_i.src_port,
    cfg_i.dst_port,
    udp_length,
    udp_sum,
    Mark,
    8'(cfg_i.stream),
    cur_seq_q,
    stamp_i,
    first_fill
  };

  // ---- Words ------------------------------------------------------------------------------------
  idx_t idx_q, idx_d, last_idx;
  logic [SizeW-1:0] bytes;  // without FCS
  logic [63:0] word, data_q;
  logic [7:0] keep_q, last_keep;
  logic last_q, in_head;
  logic [31:0] fill, fill_before;

  assign bytes     = cfg_i.size - SizeW'(FcsBytes);
  assign last_idx  = IdxW'((bytes - 1'b1) >> 3);
  assign last_keep = bytes[2:0] == '0 ? '1 : bytes_keep(4'(bytes[2:0]));
  assign idx_d     = launch ? '0 : idx_q + 1'b1;

  always_comb begin
    in_head     = idx_d < (cfg_i.v6 ? IdxW'(V6Words) : IdxW'(V4Words));
    // A word of IPv6 has the second half of a block and the first of the next.
    fill_before = first_fill + 32'(idx_d - IdxW'(cfg_i.v6 ? V6Words : V4Words));
    fill        = fill_before + 32'd1;
    if (in_head) begin
      word = cfg_i.v6 ? head6[4'(IdxW'(V6Words-1)-idx_d)] : head4[3'(IdxW'(V4Words-1)-idx_d)];
    end else begin
      word = cfg_i.v6 ? {~fill_before, fill} : {fill_before, ~fill_before};
    end
  end

  always_ff @(posedge clk_i) begin
    if (launch || (m_axis.tvalid && m_axis.tready)) begin
      idx_q  <= idx_d;
      data_q <= wire_order(word);
      keep_q <= idx_d == last_idx ? last_keep : '1;
      last_q <= idx_d == last_idx;
    end
  end

  assign m_axis.tdata  = data_q;
  assign m_axis.tkeep  = keep_q;
  assign m_axis.tvalid = sending_q;
  assign m_axis.tlast  = last_q;
  assign m_axis.tuser  = '0;

`ifndef SYNTHESIS
  initial begin
    assert (m_axis.DataW == 64 && m_axis.UserW == 1)
    else $fatal(1, "frame_source: stream is not 64 + 1");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && running_q) begin
      a_size :
      assert (cfg_i.size >= SizeW'(cfg_i.v6 ? V6Fill + FcsBytes : MinFrame))
      else $error("a test frame does not fit its size");
    end
  end
`endif
endmodule
