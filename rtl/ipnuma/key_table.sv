// SPDX-License-Identifier: Apache-2.0
// Keys of the sealed sessions for one direction, with the hash key and the packet number of each: one of a
// session for what is sent, two, side by side, for what is received.
//
// The hash key is the encryption of zeros, made once when a key is written, by the AES of whoever
// uses the table: setup_valid_o asks for it, setup_ready_i grants it, and in the next cycle
// setup_issue_o says that key_o must be encrypted now. Until setup_done_i there is no key.
//
// Latency   : 1 cycle from look_i to key_o, salt_o, phase_o, hash_key_o, and from number_look_i to number_o;
//             they stay until the next look, or until a setup is granted.
// Clock     : clk_i (network).
// Handshake : whoever grants a setup needs none of the entry it looked up before, and looks up
//             nothing in the next cycle.
// Drops     : never; a number written for an entry whose key changed meanwhile is ignored.
// Source    : docs/wire-format.md, sealed sessions. A bit says that no number was written since the
//             key was: such a number is 0.
module key_table
  import aes_pkg::*;
#(
  /// Entries; a power of two from 2.
  parameter int unsigned Keys = 64,
  localparam int unsigned IndexW = $clog2(Keys)
) (
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic                key_write_i,
  input  logic   [IndexW-1:0] key_index_i,
  input  block_t              key_i,
  input  logic   [      31:0] salt_i,
  input  logic                phase_i,
  /// With key_write_i: there is no key any more in the entry beside it, whose index differs in bit 0.
  input  logic                forget_i,
  /// Entries whose key may be used.
  output logic   [  Keys-1:0] known_o,
  input  logic                look_i,
  input  logic   [IndexW-1:0] look_index_i,
  output block_t              key_o,
  output logic   [      31:0] salt_o,
  output logic                phase_o,
  output block_t              hash_key_o,
  input  logic                number_look_i,
  input  logic   [IndexW-1:0] number_index_i,
  output logic   [      47:0] number_o,
  input  logic                number_write_i,
  input  logic   [IndexW-1:0] number_write_index_i,
  input  logic   [      47:0] number_i,
  output logic                setup_valid_o,
  input  logic                setup_ready_i,
  output logic                setup_issue_o,
  input  logic                setup_done_i,
  input  block_t              setup_block_i,
  output logic                busy_o
);
  typedef struct packed {
    logic        phase;
    block_t      key;
    logic [31:0] salt;
  } entry_t;

  entry_t entry, new_entry;
  logic [Keys-1:0] known_q, todo_q, fresh_q;
  logic [IndexW-1:0] next_todo, setup_index_q;
  logic setup_grant, setup_busy_q, setup_issue_q, number_write;
  logic              setup_void_q;  // the key whose hash key is made was forgotten meanwhile
  logic              forget;
  logic [IndexW-1:0] beside;  // of the entry that is written
  logic              zero_q;  // the number looked up was not written since its key was
  logic [      47:0] number;

  assign new_entry     = '{phase: phase_i, key: key_i, salt: salt_i};
  assign forget        = key_write_i && forget_i;
  assign beside        = key_index_i ^ IndexW'(1);
  assign setup_valid_o = todo_q != '0 && !setup_busy_q;
  assign setup_grant   = setup_valid_o && setup_ready_i;
  assign setup_issue_o = setup_issue_q;

  always_comb begin
    next_todo = '0;
    if (todo_q != '0) begin
      for (int unsigned i = 0; i < Keys; i++) begin
        if (todo_q[i]) next_todo = IndexW'(i);
      end
    end
  end

  ram_1r1w #(
    .data_t(entry_t),
    .Depth (Keys)
  ) u_keys (
    .clk_i,
    .we_i   (key_write_i),
    .waddr_i(key_index_i),
    .wdata_i(new_entry),
    .re_i   (look_i || setup_grant),
    .raddr_i(setup_grant ? next_todo : look_index_i),
    .rdata_o(entry)
  );

  ram_1r1w #(
    .data_t(block_t),
    .Depth (Keys)
  ) u_hash_keys (
    .clk_i,
    .we_i   (setup_done_i),
    .waddr_i(setup_index_q),
    .wdata_i(setup_block_i),
    .re_i   (look_i),
    .raddr_i(look_index_i),
    .rdata_o(hash_key_o)
  );

  assign number_write = number_write_i && known_q[number_write_index_i];

  ram_1r1w #(
    .data_t(logic [47:0]),
    .Depth (Keys)
  ) u_numbers (
    .clk_i,
    .we_i   (number_write),
    .waddr_i(number_write_index_i),
    .wdata_i(number_i),
    .re_i   (number_look_i),
    .raddr_i(number_index_i),
    .rdata_o(number)
  );

  always_ff @(posedge clk_i) begin
    // As the RAM does: a key written in this cycle does not count yet.
    if (number_look_i) zero_q <= fresh_q[number_index_i];
    if (setup_grant) setup_index_q <= next_todo;
    if (setup_grant) setup_void_q <= forget && beside == next_todo;
    else if (forget && beside == setup_index_q) setup_void_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      known_q       <= '0;
      todo_q        <= '0;
      fresh_q       <= '0;
      setup_busy_q  <= 1'b0;
      setup_issue_q <= 1'b0;
    end else begin
      setup_issue_q <= setup_grant;
      if (setup_grant) begin
        setup_busy_q      <= 1'b1;
        todo_q[next_todo] <= 1'b0;
      end
      if (setup_done_i) begin
        setup_busy_q <= 1'b0;
        // Not if its key was written again meanwhile, or forgotten.
        if (!todo_q[setup_index_q] && !setup_void_q) known_q[setup_index_q] <= 1'b1;
      end
      if (number_write) fresh_q[number_write_index_i] <= 1'b0;
      if (forget) begin
        known_q[beside] <= 1'b0;
        todo_q[beside]  <= 1'b0;
      end
      if (key_write_i) begin
        known_q[key_index_i] <= 1'b0;
        todo_q[key_index_i]  <= 1'b1;
        fresh_q[key_index_i] <= 1'b1;
      end
    end
  end

  assign known_o  = known_q;
  assign key_o    = entry.key;
  assign salt_o   = entry.salt;
  assign phase_o  = entry.phase;
  assign number_o = zero_q ? '0 : number;
  assign busy_o   = todo_q != '0 || setup_busy_q;

`ifndef SYNTHESIS
  initial
    assert (Keys >= 2 && Keys <= 512 && (Keys & (Keys - 1)) == 0)
    else $fatal(1, "key_table needs a power of two of entries, 2 to 512");
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_free :
      assert (!(look_i && (setup_grant || setup_issue_q)))
      else $error("key_table: a look-up while a key is set up");
      a_done :
      assert (!setup_done_i || setup_busy_q)
      else $error("key_table: a hash key that nobody asked for");
    end
  end
`endif
endmodule
