// SPDX-License-Identifier: Apache-2.0
// Remembers of each session the refusal of the frame that it expects, so that a copy of that frame is refused
// again even when its region permits it by then: the sender may have been told, and sends a void in its place.
//
// A refusal for a bad key is not verified: without the region's tag the end code says nothing. It never takes
// the place of one that is; and since only the same operation on the same address is refused again, it does not
// stop the true frame when the key was altered on the way. Where two of them name different operations
// (`several`) any may be the true frame's, of which the sender was told: then every store is refused until the
// void. A load that is served after all does no harm.
//
// Latency : 1 cycle from judge_i to held_o and refusal_o, which stay to the next.
// Clock   : clk_i (network).
// Source  : ours.
module refusal_table
  import ipnuma_pkg::*;
  import rx_pkg::*;
#(
  /// Sessions; a power of two, 256 at most.
  parameter int unsigned Sessions = 64,
  localparam int unsigned IndexW = $clog2(Sessions)
) (
  input logic              clk_i,
  input logic              rst_i,
  /// A session begins anew.
  input logic              reset_i,
  input logic [IndexW-1:0] reset_index_i,

  /// A frame of this session comes.
  input  logic                  judge_i,
  input  logic     [IndexW-1:0] judge_session_i,
  /// The frame that it expects was refused before: so.
  output logic                  held_o,
  output refusal_t              refusal_o,

  /// The frame judged last is refused; it was taken (pulses).
  input logic                  refuse_i,
  input refusal_t              refuse_as_i,
  input logic                  taken_i,
  input logic     [IndexW-1:0] session_i
);
  logic [Sessions-1:0] refused_q;
  logic held_q, write;

  assign write = refuse_i && (!held_q || refusal_o.code == wire_pkg::ERR_BAD_KEY ||
                              refuse_as_i.code != wire_pkg::ERR_BAD_KEY);

  ram_1r1w #(
    .data_t(refusal_t),
    .Depth (Sessions)
  ) u_ram (
    .clk_i,
    .we_i   (write),
    .waddr_i(session_i),
    .wdata_i(refuse_as_i),
    .re_i   (judge_i),
    .raddr_i(judge_session_i),
    .rdata_o(refusal_o)
  );

  always_ff @(posedge clk_i) begin
    if (judge_i) held_q <= refused_q[judge_session_i];
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      refused_q <= '0;
    end else begin
      if (refuse_i) refused_q[session_i] <= 1'b1;
      if (taken_i) refused_q[session_i] <= 1'b0;
      if (reset_i) refused_q[reset_index_i] <= 1'b0;
    end
  end

  assign held_o = held_q;
endmodule
