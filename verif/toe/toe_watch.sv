// SPDX-License-Identifier: Apache-2.0
// Never acknowledge, never tell, never place a byte whose checksum has not passed.
//
// A second bookkeeping, of bytes instead of gaps: each byte of a segment whose payload result was good is
// marked, and per peer the edge moves over what is marked. Peers are known by their port.
//
// Latency : none.
// Clock   : clk_i.
// Source  : bench only.
module toe_watch
  import toe_pkg::*;
#(
  parameter int unsigned Peers = 64,
  /// Port of the first peer.
  parameter int unsigned FirstPort = 4000,
  /// Bytes ahead of the edge that can be marked; a power of two.
  parameter int unsigned Ahead = 131072
) (
  input logic    clk_i,
  input logic    rst_i,
  input header_t header_i,
  input logic    header_valid_i,
  input result_t result_i,
  input logic    result_valid_i,
  input order_t  order_i,
  input logic    order_valid_i,
  input place_t  place_i,
  input logic    place_valid_i
);
  localparam int unsigned AheadW = $clog2(Ahead);

  header_t headers[  256];
  bit      marked [Peers] [Ahead];
  bit      known  [Peers];
  seq_t    behind [Peers];

  function automatic void mark(int unsigned peer, seq_t first, int unsigned bytes);
    for (int unsigned i = 0; i < bytes; i++) begin
      seq_t at;
      at = first + i;
      // What lies behind the edge was marked before.
      if (at - behind[peer] < Ahead) marked[peer][at[AheadW-1:0]] = 1'b1;
    end
    while (marked[peer][behind[peer][AheadW-1:0]]) begin
      marked[peer][behind[peer][AheadW-1:0]] = 1'b0;
      behind[peer]++;
    end
  endfunction

  // A program, not registers: results count from the edge behind.
  function automatic void look();
    header_t     h;
    int unsigned peer;
    if (rst_i) begin
      for (int unsigned p = 0; p < Peers; p++) begin
        known[p] = 1'b0;
        for (int unsigned i = 0; i < Ahead; i++) marked[p][i] = 1'b0;
      end
    end else begin
      // Outputs first: a result counts from the next edge on.
      if (order_valid_i && order_i.flags.ack && !order_i.flags.rst) begin
        peer = 32'(order_i.peer_port) - FirstPort;
        a_acknowledged :
        assert (peer < Peers && known[peer] && !precedes(behind[peer], order_i.ack))
        else $fatal(1, "peer %0d: %0d acknowledged, %0d verified", peer, order_i.ack, behind[peer]);
      end
      if (place_valid_i && place_i.slot && place_i.bytes != '0) begin
        peer = 32'(headers[place_i.tag].src_port) - FirstPort;
        for (int unsigned i = 0; i < place_i.bytes; i++) begin
          seq_t at;
          at = place_i.seq + i;
          a_placed :
          assert (precedes(at, behind[peer]) || marked[peer][at[AheadW-1:0]])
          else $fatal(1, "peer %0d: byte %0d placed, not verified", peer, at);
        end
      end
      if (place_valid_i && place_i.tell && place_i.slot) begin
        peer = 32'(headers[place_i.tag].src_port) - FirstPort;
        a_told :
        assert (!precedes(behind[peer], place_i.event_.rcv_nxt))
        else
          $fatal(1, "peer %0d: %0d told, %0d verified", peer, place_i.event_.rcv_nxt, behind[peer]);
      end
      if (header_valid_i) headers[header_i.tag] = header_i;
      if (result_valid_i && result_i.ok) begin
        h    = headers[result_i.tag];
        peer = 32'(h.src_port) - FirstPort;
        if (h.tcp && peer < Peers) begin
          if (h.flags.syn && !known[peer]) begin
            known[peer]  = 1'b1;
            behind[peer] = h.seq + 1;
          end
          if (known[peer] && !h.flags.syn) mark(peer, h.seq, 32'(h.bytes) + 32'(h.flags.fin));
        end
      end
    end
  endfunction

  always_ff @(posedge clk_i) look();
endmodule
