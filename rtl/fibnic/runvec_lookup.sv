// SPDX-License-Identifier: Apache-2.0
// IPv4 longest prefix match in three dependent reads: directory of run vectors, leaf, group.
//
// The upper 18 address bits name a word for 64 slots of a /24; a bit of its run vector says that
// the slot has another leaf than the one before, so the leaf's address is the base plus the bits
// set up to the slot. A leaf with the escape flag leads to 256 leaves for the last address byte.
//
// Latency : Latency edges of clk_i from valid_i to valid_o, for every address and table.
//           leaf_o comes straight from a memory and a multiplexer.
// Clock   : clk_i.
// Drops   : never; a lookup may begin every cycle. Memories are written in any cycle; a write is
//           seen by reads from the next edge on.
// Source  : crates/fib (runvec); dissertation section 5.2.3 for the task.
module runvec_lookup
  import fib_pkg::*;
#(
  /// Words of the leaf memory.
  parameter int unsigned Leaves = 4096,
  /// Groups of 256 leaves.
  parameter int unsigned Groups = 16,
  /// Edges from address to data of each memory.
  parameter int unsigned ReadLatency = 2,
  /// 1: a register between counting the runs and reading the leaf.
  parameter int unsigned SumRegister = 0,
  /// Cycles that the last address byte comes after valid_i (see fib_key).
  parameter int unsigned ByteDelay = 0,
  localparam int unsigned Latency = runvec_latency(ReadLatency, SumRegister)
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           valid_i,
  input  logic    [31:0] addr_i,
  output logic           valid_o,
  output leaf_t          leaf_o,
  input  logic           wr_valid_i,
  input  fib_wr_t        wr_i
);
  localparam int unsigned LeafAddrW = $clog2(Leaves);
  localparam int unsigned GroupAddrW = $clog2(Groups) + 8;
  // Stages at which the leaf is read, and at which it is there.
  localparam int unsigned LeafAt = ReadLatency + SumRegister;
  localparam int unsigned GroupAt = LeafAt + ReadLatency;

  /// What is known between the directory and the leaf.
  typedef struct packed {
    logic        uniform;
    logic [21:0] value;    // leaf address, or the leaf when uniform
  } run_t;

  logic [Latency:0]       valid;
  logic [Latency:0][31:0] key;

  fib_valid #(
    .Cycles(Latency)
  ) u_valid (
    .clk_i,
    .rst_i,
    .valid_i,
    .valid_o(valid)
  );

  fib_key #(
    .Bytes     (4),
    .FirstBytes(V4FirstBytes),
    .ByteDelay (ByteDelay),
    .Cycles    (Latency)
  ) u_key (
    .clk_i,
    .key_i(addr_i),
    .key_o(key)
  );

  // First read: the directory.
  v4_dir_t dir;

  fib_ram #(
    .data_t     (v4_dir_t),
    .Depth      (1 << V4DirIndexW),
    .ReadLatency(ReadLatency)
  ) u_dir (
    .clk_i,
    .we_i   (wr_valid_i && wr_i.mem == MemV4Dir),
    .waddr_i(wr_i.addr[V4DirIndexW-1:0]),
    .wdata_i(wr_i.data[$bits(v4_dir_t)-1:0]),
    .re_i   (valid[0]),
    .raddr_i(key[0][31-:V4DirIndexW]),
    .rdata_o(dir)
  );

  logic [5:0] slot;
  run_t run_d, run, run_late;

  assign slot = key[ReadLatency][13:8];

  always_comb begin
    run_d.uniform = dir.runs == '0;
    run_d.value   = dir.base + 22'(ones64(dir.runs & ({64{1'b1}} >> (6'd63 - slot))));
  end

  fib_delay #(
    .data_t(run_t),
    .Cycles(SumRegister)
  ) u_sum (
    .clk_i,
    .data_i(run_d),
    .data_o(run)
  );

  // Second read: the leaf.
  leaf_t leaf_read, leaf, leaf_late;

  ram_1r1w #(
    .data_t     (leaf_t),
    .Depth      (Leaves),
    .ReadLatency(ReadLatency)
  ) u_leaf (
    .clk_i,
    .we_i   (wr_valid_i && wr_i.mem == MemV4Leaf),
    .waddr_i(wr_i.addr[LeafAddrW-1:0]),
    .wdata_i(wr_i.data[LeafW-1:0]),
    .re_i   (valid[LeafAt] && !run.uniform),
    .raddr_i(run.value[LeafAddrW-1:0]),
    .rdata_o(leaf_read)
  );

  fib_delay #(
    .data_t(run_t),
    .Cycles(ReadLatency)
  ) u_run (
    .clk_i,
    .data_i(run),
    .data_o(run_late)
  );

  assign leaf = run_late.uniform ? run_late.value[LeafW-1:0] : leaf_read;

  // Third read: the group.
  // A build with fewer groups than the leaf can name leaves the upper bits alone.
  // verilator lint_off UNUSEDSIGNAL
  logic  [24:0] group_addr;
  // verilator lint_on UNUSEDSIGNAL
  leaf_t        group_read;

  assign group_addr = {leaf[LeafW-2:0], key[GroupAt][7:0]};

  ram_1r1w #(
    .data_t     (leaf_t),
    .Depth      (Groups * 256),
    .ReadLatency(ReadLatency)
  ) u_group (
    .clk_i,
    .we_i   (wr_valid_i && wr_i.mem == MemV4Group),
    .waddr_i(wr_i.addr[GroupAddrW-1:0]),
    .wdata_i(wr_i.data[LeafW-1:0]),
    .re_i   (valid[GroupAt] && leaf.escape),
    .raddr_i(group_addr[GroupAddrW-1:0]),
    .rdata_o(group_read)
  );

  fib_delay #(
    .data_t(leaf_t),
    .Cycles(ReadLatency)
  ) u_late (
    .clk_i,
    .data_i(leaf),
    .data_o(leaf_late)
  );

  assign leaf_o  = leaf_late.escape ? group_read : leaf_late;

  assign valid_o = valid[Latency];

`ifndef SYNTHESIS
  initial begin
    a_late_byte :
    assert (v4_whole(ByteDelay) <= GroupAt)
    else $fatal(1, "the last byte comes too late");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && valid[LeafAt] && !run.uniform) begin
      a_leaf_there : assert (run.value < 22'(Leaves));
    end
    if (!rst_i && valid[GroupAt] && leaf.escape) begin
      a_group_there : assert (leaf[LeafW-2:0] < 17'(Groups));
    end
  end
`endif
endmodule
