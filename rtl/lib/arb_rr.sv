// SPDX-License-Identifier: Apache-2.0
// Round-robin arbiter with lock.
//
// Latency   : grant is combinational from req_i; the turn passes at the edge with ack_i.
// Clock     : clk_i.
// Handshake : gnt_o is one-hot or zero. ack_i says that the grant is used at this edge; with lock_i
//             as well the winner keeps the grant until an ack_i without lock_i (one frame, say).
// Source    : common practice.
module arb_rr #(
  /// Requesters; 1 or more.
  parameter int unsigned N = 4,
  localparam int unsigned IdxW = N > 1 ? $clog2(N) : 1
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic [   N-1:0] req_i,
  input  logic            ack_i,
  input  logic            lock_i,
  output logic [   N-1:0] gnt_o,
  output logic [IdxW-1:0] gnt_idx_o,
  output logic            gnt_valid_o
);
  // Requesters behind the last winner go first: those whose bit is set in after_q.
  logic [N-1:0] after_q, after_d, owner_q;
  logic locked_q;
  logic [N-1:0] first, any, lowest;

  assign first       = req_i & after_q;
  assign any         = |first ? first : req_i;
  assign lowest      = any & (~any + 1'b1);

  assign gnt_o       = locked_q ? owner_q & req_i : lowest;
  assign gnt_valid_o = |gnt_o;

  always_comb begin
    gnt_idx_o = '0;
    after_d   = '0;
    for (int unsigned i = 0; i < N; i++) begin
      if (gnt_o[i]) gnt_idx_o |= IdxW'(i);
      for (int unsigned j = 0; j < i; j++) after_d[i] |= gnt_o[j];
    end
  end

  always_ff @(posedge clk_i) begin
    if (ack_i && gnt_valid_o) owner_q <= gnt_o;
    if (rst_i) begin
      after_q  <= '0;
      locked_q <= 1'b0;
    end else if (ack_i && gnt_valid_o) begin
      after_q  <= after_d;
      locked_q <= lock_i;
    end
  end
endmodule
