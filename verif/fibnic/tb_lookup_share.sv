// SPDX-License-Identifier: Apache-2.0
// The shared lookup beside one lookup for each port: the same answers, N - 1 cycles later.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_lookup_share
  import fib_pkg::*;
#(
  parameter int unsigned ByteDelay = 0
) (
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic [  3:0]        v4_valid_i,
  input  logic [  3:0]        v6_valid_i,
  input  logic [  3:0][127:0] addr_i,
  input  logic                wr_valid_i,
  output logic                wr_ready_o,
  input  logic [196:0]        wr_i,
  output logic [ 31:0]        compared_o,
  output logic [ 31:0]        hits_o,
  output logic [ 31:0]        wrong_o
);
  localparam int unsigned N = 4;

  logic [N-1:0] share4_valid, share6_valid;
  answer_t [N-1:0] share4, share6;

  lookup_share #(
    .N        (N),
    .ByteDelay(ByteDelay)
  ) dut (
    .clk_i,
    .rst_i,
    .v4_valid_i,
    .v6_valid_i,
    .addr_i,
    .v4_valid_o (share4_valid),
    .v4_answer_o(share4),
    .v6_valid_o (share6_valid),
    .v6_answer_o(share6),
    .wr_valid_i,
    .wr_ready_o,
    .wr_i
  );

  logic [N-1:0][N-1:0] own4_valid, own6_valid;
  answer_t [N-1:0][N-1:0] own4, own6;

  for (genvar p = 0; p < int'(N); p++) begin : gen_own
    logic ready, valid4, valid6;
    answer_t answer4, answer6;
    fib_lookup #(
      .ByteDelay(ByteDelay)
    ) u_lookup (
      .clk_i,
      .rst_i,
      .v4_valid_i (v4_valid_i[p]),
      .v4_addr_i  (addr_i[p][127:96]),
      .v4_valid_o (valid4),
      .v4_answer_o(answer4),
      .v6_valid_i (v6_valid_i[p]),
      .v6_addr_i  (addr_i[p]),
      .v6_valid_o (valid6),
      .v6_answer_o(answer6),
      .wr_valid_i,
      .wr_ready_o (ready),
      .wr_i
    );
    always_comb begin
      own4_valid[p][0] = valid4;
      own6_valid[p][0] = valid6;
      own4[p][0]       = answer4;
      own6[p][0]       = answer6;
    end
    for (genvar i = 1; i < int'(N); i++) begin : gen_late
      always_ff @(posedge clk_i) begin
        own4_valid[p][i] <= own4_valid[p][i-1];
        own6_valid[p][i] <= own6_valid[p][i-1];
        own4[p][i]       <= own4[p][i-1];
        own6[p][i]       <= own6[p][i-1];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      compared_o <= '0;
      hits_o     <= '0;
      wrong_o    <= '0;
    end else begin
      for (int unsigned p = 0; p < N; p++) begin
        if (own4_valid[p][N-1] != share4_valid[p] || own6_valid[p][N-1] != share6_valid[p] ||
            (share4_valid[p] && share4[p] != own4[p][N-1]) ||
            (share6_valid[p] && share6[p] != own6[p][N-1]))
          wrong_o <= wrong_o + 1'b1;
        if (share4_valid[p] || share6_valid[p]) compared_o <= compared_o + 1'b1;
        if ((share4_valid[p] && share4[p].hit) || (share6_valid[p] && share6[p].hit))
          hits_o <= hits_o + 1'b1;
      end
    end
  end
endmodule
