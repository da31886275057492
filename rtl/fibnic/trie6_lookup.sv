// SPDX-License-Identifier: Apache-2.0
// IPv6 longest prefix match up to /64: a direct table for 16 bits, seven levels of six bits, leaf.
//
// A node has a bit for each of its 64 slots that continues in the next level and a run vector over
// the others. One count of bits a level gives either the child's or the leaf's address. Each level
// has its own memory, so a lookup can begin every cycle.
//
// Latency : Latency edges of clk_i from valid_i to valid_o, whatever the level that answers.
//           leaf_o comes straight from a memory and a multiplexer.
// Clock   : clk_i.
// Drops   : never. Memories are written in any cycle; a write is seen by reads from the next edge
//           on.
// Source  : crates/fib (trie6); dissertation section 5.2.4 for the task.
module trie6_lookup
  import fib_pkg::*;
#(
  /// Nodes of levels 1 to 7.
  parameter int unsigned Nodes[V6Levels-1] = '{256, 256, 256, 256, 256, 256, 256},
  /// Words of the leaf memory.
  parameter int unsigned Leaves = 4096,
  /// Edges from address to data of each memory.
  parameter int unsigned ReadLatency = 2,
  /// 1: a register between counting bits and the next read, at each level.
  parameter int unsigned SumRegister = 0,
  /// Cycles an address byte, the first two being there with valid_i (see fib_key).
  parameter int unsigned ByteDelay = 0,
  localparam int unsigned Latency = trie6_latency(ReadLatency, SumRegister)
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           valid_i,
  input  logic    [63:0] addr_i,
  output logic           valid_o,
  output leaf_t          leaf_o,
  input  logic           wr_valid_i,
  input  fib_wr_t        wr_i
);
  localparam int unsigned LeafAddrW = $clog2(Leaves);
  localparam int unsigned LevelCycles = ReadLatency + SumRegister;
  localparam int unsigned LeafAt = V6Levels * LevelCycles;

  /// A lookup between two levels.
  typedef struct packed {
    logic        done;     // the leaf is found; there is no node to read
    logic        uniform;  // and it is the value itself
    logic [19:0] value;    // address of the node or of the leaf, or the leaf
  } walk_t;

  logic  [ Latency:0]       valid;
  logic  [ Latency:0][63:0] key;
  walk_t [V6Levels:0]       walk;

  fib_valid #(
    .Cycles(Latency)
  ) u_valid (
    .clk_i,
    .rst_i,
    .valid_i,
    .valid_o(valid)
  );

  fib_key #(
    .Bytes     (8),
    .FirstBytes(V6FirstBytes),
    .ByteDelay (ByteDelay),
    .Cycles    (Latency)
  ) u_key (
    .clk_i,
    .key_i(addr_i),
    .key_o(key)
  );

  assign walk[0] = '{done: 1'b0, uniform: 1'b0, value: 20'(key[0][63-:V6DirectW])};

  for (genvar level = 0; level < int'(V6Levels); level++) begin : gen_level
    localparam int unsigned Depth = level == 0 ? 1 << V6DirectW : Nodes[(level+6)%7];
    localparam int unsigned AddrW = Depth > 1 ? $clog2(Depth) : 1;
    localparam int unsigned At = level * LevelCycles;
    localparam memory_e Memory = memory_e'(5'(MemV6Node0) + 5'(level));

    v6_node_t node;
    walk_t came, goes;
    logic [5:0] slot;
    logic       child;
    logic [19:0] child_at, leaf_at;

    fib_ram #(
      .data_t     (v6_node_t),
      .Depth      (Depth),
      .ReadLatency(ReadLatency)
    ) u_node (
      .clk_i,
      .we_i   (wr_valid_i && wr_i.mem == Memory),
      .waddr_i(wr_i.addr[AddrW-1:0]),
      .wdata_i(wr_i.data[$bits(v6_node_t)-1:0]),
      .re_i   (valid[At] && !walk[level].done),
      .raddr_i(walk[level].value[AddrW-1:0]),
      .rdata_o(node)
    );

    fib_delay #(
      .data_t(walk_t),
      .Cycles(ReadLatency)
    ) u_came (
      .clk_i,
      .data_i(walk[level]),
      .data_o(came)
    );

    assign slot     = key[At+ReadLatency][47-V6StrideW*level-:V6StrideW];
    assign child    = node.children[slot];
    // Children in front of the slot; changes of leaf up to and including it. Both are counted before it is known
    // which of them counts: the longest path of the lookup goes through here.
    assign child_at = node.child_base + 20'(ones64(node.children & ~({64{1'b1}} << slot)));
    assign leaf_at  = node.leaf_base + 20'(ones64(node.runs & ({64{1'b1}} >> (6'd63 - slot))));

    always_comb begin
      goes = came;
      if (!came.done) begin
        goes.done    = !child;
        goes.uniform = node.runs == '0;
        goes.value   = child ? child_at : leaf_at;
      end
    end

    fib_delay #(
      .data_t(walk_t),
      .Cycles(SumRegister)
    ) u_goes (
      .clk_i,
      .data_i(goes),
      .data_o(walk[level+1])
    );

`ifndef SYNTHESIS
    initial begin
      a_late_byte :
      assert (byte_at(
          (V6DirectW + V6StrideW * level + V6StrideW - 1) / 8, V6FirstBytes, ByteDelay
      ) <= At + ReadLatency)
      else $fatal(1, "a byte of the address comes too late");
    end
    always_ff @(posedge clk_i) begin
      if (!rst_i && valid[At] && !walk[level].done) begin
        a_node_there : assert (32'(walk[level].value) < Depth);
      end
    end
`endif
  end

  leaf_t leaf_read;
  // Always done by then, as asserted below.
  // verilator lint_off UNUSEDSIGNAL
  walk_t last;
  // verilator lint_on UNUSEDSIGNAL

  ram_1r1w #(
    .data_t     (leaf_t),
    .Depth      (Leaves),
    .ReadLatency(ReadLatency)
  ) u_leaf (
    .clk_i,
    .we_i   (wr_valid_i && wr_i.mem == MemV6Leaf),
    .waddr_i(wr_i.addr[LeafAddrW-1:0]),
    .wdata_i(wr_i.data[LeafW-1:0]),
    .re_i   (valid[LeafAt] && !walk[V6Levels].uniform),
    .raddr_i(walk[V6Levels].value[LeafAddrW-1:0]),
    .rdata_o(leaf_read)
  );

  fib_delay #(
    .data_t(walk_t),
    .Cycles(ReadLatency)
  ) u_last (
    .clk_i,
    .data_i(walk[V6Levels]),
    .data_o(last)
  );

  assign leaf_o  = last.uniform ? last.value[LeafW-1:0] : leaf_read;

  assign valid_o = valid[Latency];

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && valid[LeafAt]) begin
      a_ends : assert (walk[V6Levels].done);
      a_leaf_there : assert (walk[V6Levels].uniform || 32'(walk[V6Levels].value) < Leaves);
    end
  end
`endif
endmodule
