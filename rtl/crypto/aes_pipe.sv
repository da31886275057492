// SPDX-License-Identifier: Apache-2.0
// AES-128 encryption as a pipeline: a block and its key go in together, the round keys are made on
// the way. Five stages, each of which every block passes twice.
//
// Latency   : block_o in the 9th cycle after valid_i, combinational from the last round; always, and
//             whatever the block and the key are.
// Clock     : clk_i.
// Handshake : a block is taken when valid_i and ready_o; ready_o is low only in the 5th cycle after
//             a block was taken (it needs the first stage itself). So one block every 2 cycles
//             always finds room, and so do 5 in a row.
// Drops     : never.
// Source    : FIPS 197; the structure is ours.
module aes_pipe
  import aes_pkg::*;
#(
  /// What travels with a block.
  parameter type user_t = logic
) (
  input  logic   clk_i,
  input  logic   rst_i,
  input  logic   valid_i,
  output logic   ready_o,
  input  block_t key_i,
  input  block_t block_i,
  input  user_t  user_i,
  /// done_o follows in the next cycle, for the block of soon_user_o.
  output logic   soon_o,
  output user_t  soon_user_o,
  output logic   done_o,
  output block_t block_o,
  output user_t  user_o,
  output logic   busy_o
);
  localparam int unsigned Stages = 5;

  typedef struct packed {
    block_t state;
    block_t key;    // of the round before
    logic   again;  // second time through the stages
    user_t  user;
  } stage_t;

  // in_d[i] is what stage i works on in this cycle; from 1 on it is a register.
  logic   [Stages-1:0] valid_q;
  stage_t              stage_q     [Stages];
  stage_t              first;
  logic                first_valid;

  assign ready_o     = !valid_q[Stages-1];
  assign first_valid = valid_q[Stages-1] || valid_i;

  always_comb begin
    first       = stage_q[Stages-1];
    first.again = 1'b1;
    if (!valid_q[Stages-1]) begin
      first = '{state: block_i ^ key_i, key: key_i, again: 1'b0, user: user_i};
    end
  end

  function automatic stage_t pass(stage_t from, logic [7:0] rcon);
    stage_t to;
    to       = from;
    to.key   = next_key(from.key, rcon);
    to.state = mix_columns(sub_shift(from.state)) ^ to.key;
    return to;
  endfunction

  always_ff @(posedge clk_i) begin
    if (first_valid) stage_q[0] <= pass(first, first.again ? RCON[5] : RCON[0]);
  end

  for (genvar i = 1; i < int'(Stages); i++) begin : gen_stage
    // Round 10 leaves through block_o.
    always_ff @(posedge clk_i) begin
      if (valid_q[i-1] && !(i == int'(Stages) - 1 && stage_q[i-1].again)) begin
        stage_q[i] <= pass(stage_q[i-1], stage_q[i-1].again ? RCON[i+5] : RCON[i]);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) valid_q <= '0;
    else begin
      valid_q[0] <= first_valid;
      for (int unsigned i = 1; i < Stages; i++) valid_q[i] <= valid_q[i-1];
      valid_q[Stages-1] <= valid_q[Stages-2] && !stage_q[Stages-2].again;
    end
  end

  assign done_o      = valid_q[Stages-2] && stage_q[Stages-2].again;
  assign user_o      = stage_q[Stages-2].user;
  assign soon_o      = valid_q[Stages-3] && stage_q[Stages-3].again;
  assign soon_user_o = stage_q[Stages-3].user;
  assign busy_o      = valid_q != '0;

  always_comb begin
    block_o = '0;
    if (done_o) begin
      block_o = sub_shift(stage_q[Stages-2].state) ^ next_key(stage_q[Stages-2].key, RCON[9]);
    end
  end

`ifndef SYNTHESIS
  // The time from a block to its result, whatever it is.
  logic [9:1] taken_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) taken_q <= '0;
    else if (valid_i || taken_q != '0) taken_q <= {taken_q[8:1], valid_i && ready_o};
    if (!rst_i) begin
      a_constant :
      assert (done_o == taken_q[9])
      else $error("aes_pipe: a result at another time than the 9th cycle");
      a_taken :
      assert (!valid_i || ready_o)
      else $error("aes_pipe: a block came while the first stage was needed");
    end
  end
`endif
endmodule
