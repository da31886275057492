// SPDX-License-Identifier: Apache-2.0
// Which QP's send queue is looked at next: those with a reason, in turn.
//
// Reasons are a doorbell, news from the receiver, work left, and, for a QP that waits for something, the
// clock: one QP every ScanCycles. A QP that waits for nothing is never looked at.
//
// Latency   : a reason to valid_o 2 edges.
// Clock     : clk_i.
// Handshake : take_i takes qp_o; a reason that comes at the same edge counts again.
// Drops     : never.
module uzura_scheduler
  import uzura_qp_pkg::*;
#(
  /// Between two looks at QPs that wait.
  parameter int unsigned ScanCycles = 64
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           ring_i,
  input  logic [QpW-1:0] ring_qp_i,
  input  logic           kick_i,
  input  logic [QpW-1:0] kick_qp_i,
  input  logic           again_i,
  /// The QP whose look ends now: does it wait for something?
  input  logic           end_i,
  input  logic           waits_i,
  input  logic [QpW-1:0] end_qp_i,
  output logic           valid_o,
  output logic [QpW-1:0] qp_o,
  input  logic           take_i,
  output logic           busy_o
);
  localparam int unsigned ScanW = $clog2(ScanCycles);
  logic [Qps-1:0] work_q, waits_q, work_d, choice, grant;
  logic [QpW-1:0] pick, scan_q;
  logic [ScanW-1:0] count_q;
  logic any, scan;

  assign choice = work_q & ~(take_i ? Qps'(1) << qp_o : '0);
  arb_rr #(
    .N(Qps)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i      (choice),
    .ack_i      (any && (!valid_o || take_i)),
    .lock_i     (1'b0),
    .gnt_o      (grant),
    .gnt_idx_o  (pick),
    .gnt_valid_o(any)
  );
  assign scan = count_q == ScanW'(ScanCycles - 1);

  always_comb begin
    work_d = choice;
    if (ring_i) work_d[ring_qp_i] = 1'b1;
    if (kick_i) work_d[kick_qp_i] = 1'b1;
    if (end_i && again_i) work_d[end_qp_i] = 1'b1;
    if (scan && waits_q[scan_q]) work_d[scan_q] = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!valid_o || take_i) qp_o <= pick;
    if (rst_i) begin
      work_q  <= '0;
      waits_q <= '0;
      valid_o <= 1'b0;
      count_q <= '0;
      scan_q  <= '0;
    end else begin
      work_q <= work_d;
      if (!valid_o || take_i) valid_o <= any;
      if (end_i) waits_q[end_qp_i] <= waits_i;
      // It stands still while nobody waits.
      if (|waits_q) begin
        count_q <= scan ? '0 : count_q + 1'b1;
        if (scan) scan_q <= scan_q + 1'b1;
      end
    end
  end
  assign busy_o = |work_q || |waits_q;
  logic unused;
  assign unused = ^grant;
endmodule
