// SPDX-License-Identifier: Apache-2.0
// Exact match of whole addresses: four banks, each with its own CRC-32 as hash, read at once.
//
// All banks are read at the same edge, so an entry that moves from one bank to another (copied
// first, then overwritten) is found at any time.
//
// Latency : Latency edges of clk_i from valid_i to valid_o: hash, read, compare.
// Clock   : clk_i.
// Drops   : never; a lookup may begin every cycle.
// Source  : crates/fib (exact); CRCs are linear, hence one XOR mask for each index bit.
module exact_match
  import fib_pkg::*;
#(
  /// Width of an address.
  parameter int unsigned KeyW = 128,
  /// Entries of a bank: a power of two.
  parameter int unsigned Depth = 1024,
  /// Edges from address to data of the banks.
  parameter int unsigned ReadLatency = 2,
  /// 1: a register between hashing and reading.
  parameter int unsigned HashRegister = 1,
  /// Memory id of the first bank; the others follow.
  parameter memory_e FirstBank = MemV6Host0,
  localparam int unsigned Latency = exact_latency(ReadLatency, HashRegister)
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic               valid_i,
  input  logic    [KeyW-1:0] addr_i,
  output logic               valid_o,
  output leaf_t              leaf_o,
  input  logic               wr_valid_i,
  input  fib_wr_t            wr_i
);
  localparam int unsigned IndexW = $clog2(Depth);

  typedef struct packed {
    logic [KeyW-1:0] key;
    leaf_t           leaf;
  } entry_t;

  // For each bit of the CRC over a whole key the key bits it is the sum of.
  function automatic logic [31:0][KeyW-1:0] hash_masks(logic [31:0] polynomial);
    logic [31:0][KeyW-1:0] masks;
    logic [31:0]           state;
    // The last bit is divided once, each bit before it once more.
    state = polynomial;
    for (int unsigned bit_index = 0; bit_index < KeyW; bit_index++) begin
      for (int unsigned i = 0; i < 32; i++) masks[i][bit_index] = state[i];
      state = {state[30:0], 1'b0} ^ (state[31] ? polynomial : 32'd0);
    end
    return masks;
  endfunction

  logic  [    Latency:0] valid;
  logic  [     KeyW-1:0] key_read;
  logic  [HostBanks-1:0] found;
  leaf_t [HostBanks-1:0] leaf;

  fib_valid #(
    .Cycles(Latency)
  ) u_valid (
    .clk_i,
    .rst_i,
    .valid_i,
    .valid_o(valid)
  );

  fib_delay #(
    .data_t(logic [KeyW-1:0]),
    .Cycles(ReadLatency + HashRegister)
  ) u_key (
    .clk_i,
    .data_i(addr_i),
    .data_o(key_read)
  );

  for (genvar b = 0; b < int'(HostBanks); b++) begin : gen_bank
    // Only the low IndexW masks are wanted.
    // verilator lint_off UNUSEDSIGNAL
    localparam logic [31:0][KeyW-1:0] Masks = hash_masks(HostPolynomials[b]);
    // verilator lint_on UNUSEDSIGNAL
    logic [IndexW-1:0] hash, index;
    entry_t entry;

    for (genvar i = 0; i < int'(IndexW); i++) begin : gen_hash
      assign hash[i] = ^(addr_i & Masks[i]);
    end

    fib_delay #(
      .data_t(logic [IndexW-1:0]),
      .Cycles(HashRegister)
    ) u_index (
      .clk_i,
      .data_i(hash),
      .data_o(index)
    );

    fib_ram #(
      .data_t     (entry_t),
      .Depth      (Depth),
      .ReadLatency(ReadLatency)
    ) u_bank (
      .clk_i,
      .we_i   (wr_valid_i && wr_i.mem == memory_e'(5'(FirstBank) + 5'(b))),
      .waddr_i(wr_i.addr[IndexW-1:0]),
      .wdata_i(wr_i.data[$bits(entry_t)-1:0]),
      .re_i   (valid[HashRegister]),
      .raddr_i(index),
      .rdata_o(entry)
    );

    assign found[b] = entry.key == key_read;
    assign leaf[b]  = entry.leaf;
  end

  leaf_t leaf_d, leaf_q;

  // Two banks hold the same entry while it moves, hence "or" of equal leaves; an empty entry has
  // the leaf zero, whatever its key.
  always_comb begin
    leaf_d = '0;
    for (int unsigned b = 0; b < HostBanks; b++) begin
      if (found[b]) leaf_d |= leaf[b];
    end
  end

  always_ff @(posedge clk_i) leaf_q <= leaf_d;

  assign leaf_o  = leaf_q;
  assign valid_o = valid[Latency];

`ifndef SYNTHESIS
  initial begin
    a_power_of_two :
    assert (Depth == 1 << IndexW)
    else $fatal(1, "Depth is a power of two");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && valid[Latency-1]) begin
      for (int unsigned b = 0; b < HostBanks; b++) begin
        a_one_answer : assert (!found[b] || leaf[b] == '0 || leaf[b] == leaf_d);
      end
    end
  end
`endif
endmodule
