// SPDX-License-Identifier: Apache-2.0
// Where a packet's bytes lie: asks for one piece or two, cut where 4 KB end.
//
// Latency   : start_i to done_o 2 edges and the answer's (uzura_access).
// Clock     : clk_i.
// Handshake : start_i while nothing is asked; done_o is a pulse, and what comes with it stays until the
//             next start_i.
// Drops     : never.
module uzura_resolve
  import uzura_qp_pkg::*;
#(
  /// Which asker of uzura_access this is.
  parameter bit Asker = 1'b0
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           start_i,
  input  access_t        access_i,
  output logic           done_o,
  output logic           ok_o,
  output logic    [63:0] first_pa_o,
  output logic    [12:0] first_bytes_o,
  output logic    [63:0] second_pa_o,
  /// 0: there is no second piece.
  output logic    [12:0] second_bytes_o,
  output access_t        req_o,
  output logic           req_second_o,
  output logic           req_valid_o,
  input  logic           req_ready_i,
  input  logic           answer_valid_i,
  input  answer_t        answer_i
);
  localparam int unsigned CutLog2 = 12;
  localparam logic [12:0] Cut = 13'd1 << CutLog2;

  access_t        access_q;
  logic    [12:0] room;
  logic           split;
  logic [1:0] ask_q, wait_q, wait_d;  // pieces
  logic mine;

  assign room         = Cut - 13'(access_i.va[CutLog2-1:0]);
  assign split        = access_i.translate && access_i.bytes > 32'(room);
  assign mine         = answer_valid_i && answer_i.id[1] == Asker;

  // The first piece goes first.
  assign req_valid_o  = |ask_q;
  assign req_second_o = !ask_q[0];
  always_comb begin
    req_o = access_q;
    if (access_q.translate) req_o.bytes = 32'(first_bytes_o);
    if (req_second_o) begin
      req_o.va    = {access_q.va[63:CutLog2] + 52'd1, 12'd0};
      req_o.bytes = 32'(second_bytes_o);
    end
  end

  always_comb begin
    wait_d = wait_q;
    if (mine) wait_d[answer_i.id[0]] = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      access_q       <= access_i;
      first_bytes_o  <= split ? room : access_i.bytes[12:0];
      second_bytes_o <= split ? 13'(access_i.bytes) - room : '0;
      ok_o           <= 1'b1;
    end else if (mine) begin
      ok_o <= ok_o && answer_i.ok;
      if (answer_i.id[0]) second_pa_o <= answer_i.pa;
      else first_pa_o <= answer_i.pa;
    end
    if (rst_i) begin
      ask_q  <= '0;
      wait_q <= '0;
      done_o <= 1'b0;
    end else begin
      done_o <= mine && wait_d == '0;
      if (start_i) begin
        ask_q  <= {split, 1'b1};
        wait_q <= {split, 1'b1};
      end else begin
        if (req_valid_o && req_ready_i) ask_q <= ask_q & (req_second_o ? 2'b00 : 2'b10);
        wait_q <= wait_d;
      end
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) start_i |-> wait_q == '0)
  else $error("uzura_resolve: asked while it waits");
`endif
endmodule
