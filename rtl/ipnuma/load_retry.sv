// SPDX-License-Identifier: Apache-2.0
// Loads of sessions that may have to be sent again: the requests or their completions can get lost, and
// completions are not acknowledged.
//
// While such loads are out, a scan looks at one a cycle; one that has waited for retry_us_i since it was last
// sent is offered until it is sent or answered.
//
// Latency   : offered within LoadTags + 2 cycles of clk_i of the change of now_us_i that makes it due, if no
//             other is.
// Clock     : clk_i (PCIe).
// Handshake : sent_i only with valid_o; an offer is withdrawn when its load is answered.
// Drops     : never.
// Source    : ours; PCI Express itself leaves a read without answer to its time-out.
module load_retry #(
  /// Tags; a power of two from 2 to 32.
  parameter int unsigned LoadTags = 32,
  localparam int unsigned IndexW = $clog2(LoadTags)
) (
  input logic        clk_i,
  input logic        rst_i,
  input logic [31:0] now_us_i,
  /// 0: never.
  input logic [15:0] retry_us_i,

  /// A load of a session goes out with tag index put_idx_i.
  input logic                             put_i,
  input logic              [  IndexW-1:0] put_idx_i,
  input tlp_pkg::page_op_t                put_op_i,
  /// Loads that still want an answer.
  input logic              [LoadTags-1:0] live_i,

  output logic                           valid_o,
  output logic              [IndexW-1:0] idx_o,
  output tlp_pkg::page_op_t              op_o,
  input  logic                           sent_i,
  output logic                           busy_o
);
  tlp_pkg::page_op_t                op_q      [LoadTags];
  logic              [        15:0] sent_q    [LoadTags];  // when, microseconds
  logic              [LoadTags-1:0] waiting_q;
  logic              [  IndexW-1:0] idx_q;
  logic due_q, due;
  logic [15:0] age;

  assign age     = now_us_i[15:0] - sent_q[idx_q];
  assign due     = waiting_q[idx_q] && live_i[idx_q] && retry_us_i != '0 && age >= retry_us_i;
  assign valid_o = due_q && live_i[idx_q];
  assign idx_o   = idx_q;
  assign op_o    = op_q[idx_q];
  assign busy_o  = |waiting_q;

  always_ff @(posedge clk_i) begin
    if (put_i) op_q[put_idx_i] <= put_op_i;
    if (put_i) sent_q[put_idx_i] <= now_us_i[15:0];
    else if (sent_i) sent_q[idx_q] <= now_us_i[15:0];
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      waiting_q <= '0;
      idx_q     <= '0;
      due_q     <= 1'b0;
    end else begin
      if (|waiting_q) begin
        waiting_q <= waiting_q & live_i;
        due_q     <= due && !sent_i;
        // It stays at the load that is due.
        if (!due || sent_i) idx_q <= idx_q + 1'b1;
      end else begin
        due_q <= 1'b0;
      end
      if (put_i) waiting_q[put_idx_i] <= 1'b1;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) sent_i |-> valid_o && !put_i)
  else $error("load_retry: a load was sent again that is not due");
`endif
  // Intervals are short.
  logic unused;
  assign unused = ^now_us_i[31:16];
endmodule
