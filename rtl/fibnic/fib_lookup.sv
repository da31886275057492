// SPDX-License-Identifier: Apache-2.0
// The switch's lookup: longest prefix match of both families behind a fixed latency.
//
// IPv4: run vectors and, beside them, an exact match for /32. IPv6: trie up to /64 and, beside it,
// an exact match for /128 and a TCAM for the lengths between. Where nothing matches, the family's
// default-route register answers. With Sram22 it is the dissertation's instead: its SRAM for IPv4,
// the TCAM alone for IPv6, and the default-route registers.
//
// Latency : LatencyV4 edges of clk_i from v4_valid_i to v4_valid_o, LatencyV6 for IPv6, for every
//           address and every table. With OutRegister = 0 the answer comes from a memory through
//           multiplexers. At the default ReadLatency of 2: 6 and 18. With Sram22: 20 after the last
//           byte of an IPv4 address, 20 after the eighth of an IPv6 address.
// Clock   : clk_i, rst_i synchronous; rst_i empties the TCAM and the default routes only, the
//           memories begin as zeros, which is an empty table.
// Drops   : never; each family takes an address every cycle. Writes have a handshake, wait at
//           drain markers, and do not disturb lookups.
// Sizes   : the defaults are for trials. 1.3 million and 300,000 routes want what crates/fib's
//           Config::default has.
// Source  : crates/fib; dissertation section 5.2.3 and 5.2.4 for the task.
module fib_lookup
  import fib_pkg::*;
#(
  /// Words of the IPv4 leaf memory.
  parameter int unsigned V4Leaves = 4096,
  /// IPv4 groups of 256 leaves.
  parameter int unsigned V4Groups = 16,
  /// Entries of each of the four /32 banks: a power of two.
  parameter int unsigned V4Hosts = 256,
  /// Nodes of the IPv6 trie, levels 1 to 7.
  parameter int unsigned V6Nodes[V6Levels-1] = '{256, 256, 256, 256, 256, 256, 256},
  /// Words of the IPv6 leaf memory.
  parameter int unsigned V6Leaves = 4096,
  /// Entries of each of the four /128 banks: a power of two.
  parameter int unsigned V6Hosts = 256,
  /// Entries of the IPv6 TCAM.
  parameter int unsigned V6TcamEntries = 32,
  /// Edges from address to data of each memory.
  parameter int unsigned ReadLatency = 2,
  /// 1: a register between counting bits and the next read.
  parameter int unsigned SumRegister = 0,
  /// 1: a register behind the answers.
  parameter int unsigned OutRegister = 0,
  /// Cycles an address byte: 0 when the whole address comes with valid; 1 when valid comes with
  /// its first three (IPv4) or two (IPv6) bytes and the others follow, one of them a cycle late at
  /// times (see fib_key).
  parameter int unsigned ByteDelay = 0,
  /// 1: the dissertation's lookup.
  parameter int unsigned Sram22 = 0,
  /// Address bits of its SRAM: 22 for 4 MB.
  parameter int unsigned Sram22IndexW = 22,
  /// More cycles that drain markers wait, for tables that are read behind the answer.
  parameter int unsigned DrainExtra = 8,
  localparam int unsigned LatencyV4 =
      v4_latency(ReadLatency, SumRegister, ByteDelay, Sram22) + OutRegister,
  localparam int unsigned LatencyV6 =
      v6_latency(ReadLatency, SumRegister, ByteDelay, Sram22) + OutRegister
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            v4_valid_i,
  input  logic    [ 31:0] v4_addr_i,
  output logic            v4_valid_o,
  output answer_t         v4_answer_o,
  input  logic            v6_valid_i,
  input  logic    [127:0] v6_addr_i,
  output logic            v6_valid_o,
  output answer_t         v6_answer_o,
  input  logic            wr_valid_i,
  output logic            wr_ready_o,
  input  fib_wr_t         wr_i
);
  // Where the parts begin, and how long their leaves wait for the slowest.
  localparam int unsigned HostAt4 = v4_whole(ByteDelay);
  localparam int unsigned HostAt6 = v6_whole(ByteDelay);
  localparam int unsigned HashRegister = hash_register(ByteDelay);
  localparam int unsigned HostCycles = exact_latency(ReadLatency, HashRegister);
  localparam int unsigned Mux4 = LatencyV4 - OutRegister;
  localparam int unsigned Mux6 = LatencyV6 - OutRegister;

  logic    wr_valid;
  fib_wr_t wr;

  fib_writer #(
    // One edge in the writer, one in the memory.
    .DrainCycles(larger(LatencyV4, LatencyV6) + DrainExtra + 2)
  ) u_writer (
    .clk_i,
    .rst_i,
    .wr_valid_i,
    .wr_ready_o,
    .wr_i,
    .wr_valid_o(wr_valid),
    .wr_o      (wr)
  );

  leaf_t default4_q, default6_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      default4_q <= '0;
      default6_q <= '0;
    end else if (wr_valid && wr.mem == MemRegister) begin
      if (wr.addr == RegisterDefault4) default4_q <= wr.data[LeafW-1:0];
      if (wr.addr == RegisterDefault6) default6_q <= wr.data[LeafW-1:0];
    end
  end

  // --- Valid --------------------------------------------------------------------------------

  logic [LatencyV4:0] out4;
  logic [LatencyV6:0] out6;

  fib_valid #(
    .Cycles(LatencyV4)
  ) u_out4 (
    .clk_i,
    .rst_i,
    .valid_i(v4_valid_i),
    .valid_o(out4)
  );

  fib_valid #(
    .Cycles(LatencyV6)
  ) u_out6 (
    .clk_i,
    .rst_i,
    .valid_i(v6_valid_i),
    .valid_o(out6)
  );

  assign v4_valid_o = out4[LatencyV4];
  assign v6_valid_o = out6[LatencyV6];

  // --- IPv4 ---------------------------------------------------------------------------------

  leaf_t leaf4;

  if (Sram22 != 0) begin : gen_sram22
    // From the last byte on, though it does not look at it.
    logic  [ByteDelay+1:0]       valid4;
    logic  [ByteDelay+1:0][31:0] key4;
    logic                        sram_valid;
    leaf_t                       sram_leaf;

    fib_valid #(
      .Cycles(ByteDelay + 1)
    ) u_valid4 (
      .clk_i,
      .rst_i,
      .valid_i(v4_valid_i),
      .valid_o(valid4)
    );

    fib_key #(
      .Bytes     (4),
      .FirstBytes(V4FirstBytes),
      .ByteDelay (ByteDelay),
      .Cycles    (ByteDelay + 1)
    ) u_key4 (
      .clk_i,
      .key_i(v4_addr_i),
      .key_o(key4)
    );

    sram22_lookup #(
      .IndexW (Sram22IndexW),
      .Latency(Sram22Latency)
    ) u_sram22 (
      .clk_i,
      .rst_i,
      .valid_i   (valid4[ByteDelay]),
      .addr_i    (key4[ByteDelay]),
      .valid_o   (sram_valid),
      .leaf_o    (sram_leaf),
      .wr_valid_i(wr_valid),
      .wr_i      (wr)
    );

    assign leaf4 = sram_leaf != '0 ? sram_leaf : default4_q;

`ifndef SYNTHESIS
    always_ff @(posedge clk_i) begin
      if (!rst_i) begin
        a_sram : assert (sram_valid == out4[Mux4]);
      end
    end
`endif
  end else begin : gen_runvec
    logic [HostAt4+1:0]       valid4;
    logic [HostAt4+1:0][31:0] key4;
    logic runvec_valid, host4_valid;
    leaf_t runvec_leaf, runvec_late, host4_leaf, host4_late;

    fib_valid #(
      .Cycles(HostAt4 + 1)
    ) u_valid4 (
      .clk_i,
      .rst_i,
      .valid_i(v4_valid_i),
      .valid_o(valid4)
    );

    fib_key #(
      .Bytes     (4),
      .FirstBytes(V4FirstBytes),
      .ByteDelay (ByteDelay),
      .Cycles    (HostAt4 + 1)
    ) u_key4 (
      .clk_i,
      .key_i(v4_addr_i),
      .key_o(key4)
    );

    runvec_lookup #(
      .Leaves     (V4Leaves),
      .Groups     (V4Groups),
      .ReadLatency(ReadLatency),
      .SumRegister(SumRegister),
      .ByteDelay  (ByteDelay)
    ) u_runvec (
      .clk_i,
      .rst_i,
      .valid_i   (v4_valid_i),
      .addr_i    (v4_addr_i),
      .valid_o   (runvec_valid),
      .leaf_o    (runvec_leaf),
      .wr_valid_i(wr_valid),
      .wr_i      (wr)
    );

    exact_match #(
      .KeyW        (32),
      .Depth       (V4Hosts),
      .ReadLatency (ReadLatency),
      .HashRegister(HashRegister),
      .FirstBank   (MemV4Host0)
    ) u_host4 (
      .clk_i,
      .rst_i,
      .valid_i   (valid4[HostAt4]),
      .addr_i    (key4[HostAt4]),
      .valid_o   (host4_valid),
      .leaf_o    (host4_leaf),
      .wr_valid_i(wr_valid),
      .wr_i      (wr)
    );

    fib_delay #(
      .data_t(leaf_t),
      .Cycles(Mux4 - runvec_latency(ReadLatency, SumRegister))
    ) u_runvec_late (
      .clk_i,
      .data_i(runvec_leaf),
      .data_o(runvec_late)
    );

    fib_delay #(
      .data_t(leaf_t),
      .Cycles(Mux4 - HostAt4 - HostCycles)
    ) u_host4_late (
      .clk_i,
      .data_i(host4_leaf),
      .data_o(host4_late)
    );

    assign leaf4 = host4_late != '0 ? host4_late : runvec_late != '0 ? runvec_late : default4_q;

`ifndef SYNTHESIS
    always_ff @(posedge clk_i) begin
      if (!rst_i) begin
        a_runvec : assert (runvec_valid == out4[runvec_latency(ReadLatency, SumRegister)]);
        a_host4 : assert (host4_valid == out4[HostAt4+HostCycles]);
      end
    end
`endif
  end

  fib_delay #(
    .data_t(answer_t),
    .Cycles(OutRegister)
  ) u_answer4 (
    .clk_i,
    .data_i(answer(leaf4)),
    .data_o(v4_answer_o)
  );

  // --- IPv6 ---------------------------------------------------------------------------------

  logic [HostAt6+1:0]        valid6;
  logic [HostAt6+1:0][127:0] key6;
  logic                      tcam_valid;
  leaf_t tcam_leaf, tcam_late, leaf6;

  fib_valid #(
    .Cycles(HostAt6 + 1)
  ) u_valid6 (
    .clk_i,
    .rst_i,
    .valid_i(v6_valid_i),
    .valid_o(valid6)
  );

  fib_key #(
    .Bytes     (16),
    .FirstBytes(V6FirstBytes),
    .ByteDelay (ByteDelay),
    .Cycles    (HostAt6 + 1)
  ) u_key6 (
    .clk_i,
    .key_i(v6_addr_i),
    .key_o(key6)
  );

  tcam32 #(
    .Entries(V6TcamEntries)
  ) u_tcam (
    .clk_i,
    .rst_i,
    .valid_i   (valid6[HostAt6]),
    .addr_i    (key6[HostAt6]),
    .valid_o   (tcam_valid),
    .leaf_o    (tcam_leaf),
    .wr_valid_i(wr_valid),
    .wr_i      (wr)
  );

  fib_delay #(
    .data_t(leaf_t),
    .Cycles(Mux6 - HostAt6 - TcamLatency)
  ) u_tcam_late (
    .clk_i,
    .data_i(tcam_leaf),
    .data_o(tcam_late)
  );

  if (Sram22 != 0) begin : gen_tcam_alone
    assign leaf6 = tcam_late != '0 ? tcam_late : default6_q;
  end else begin : gen_trie
    logic trie_valid, host6_valid;
    leaf_t trie_leaf, trie_late, host6_leaf, host6_late;

    trie6_lookup #(
      .Nodes      (V6Nodes),
      .Leaves     (V6Leaves),
      .ReadLatency(ReadLatency),
      .SumRegister(SumRegister),
      .ByteDelay  (ByteDelay)
    ) u_trie (
      .clk_i,
      .rst_i,
      .valid_i   (v6_valid_i),
      .addr_i    (v6_addr_i[127-:64]),
      .valid_o   (trie_valid),
      .leaf_o    (trie_leaf),
      .wr_valid_i(wr_valid),
      .wr_i      (wr)
    );

    exact_match #(
      .KeyW        (128),
      .Depth       (V6Hosts),
      .ReadLatency (ReadLatency),
      .HashRegister(HashRegister),
      .FirstBank   (MemV6Host0)
    ) u_host6 (
      .clk_i,
      .rst_i,
      .valid_i   (valid6[HostAt6]),
      .addr_i    (key6[HostAt6]),
      .valid_o   (host6_valid),
      .leaf_o    (host6_leaf),
      .wr_valid_i(wr_valid),
      .wr_i      (wr)
    );

    fib_delay #(
      .data_t(leaf_t),
      .Cycles(Mux6 - trie6_latency(ReadLatency, SumRegister))
    ) u_trie_late (
      .clk_i,
      .data_i(trie_leaf),
      .data_o(trie_late)
    );

    fib_delay #(
      .data_t(leaf_t),
      .Cycles(Mux6 - HostAt6 - HostCycles)
    ) u_host6_late (
      .clk_i,
      .data_i(host6_leaf),
      .data_o(host6_late)
    );

    always_comb begin
      if (host6_late != '0) leaf6 = host6_late;
      else if (tcam_late != '0) leaf6 = tcam_late;
      else if (trie_late != '0) leaf6 = trie_late;
      else leaf6 = default6_q;
    end

`ifndef SYNTHESIS
    always_ff @(posedge clk_i) begin
      if (!rst_i) begin
        a_trie : assert (trie_valid == out6[trie6_latency(ReadLatency, SumRegister)]);
        a_host6 : assert (host6_valid == out6[HostAt6+HostCycles]);
      end
    end
`endif
  end

  fib_delay #(
    .data_t(answer_t),
    .Cycles(OutRegister)
  ) u_answer6 (
    .clk_i,
    .data_i(answer(leaf6)),
    .data_o(v6_answer_o)
  );

`ifndef SYNTHESIS
  // The parts' own latency is what was reckoned with.
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_tcam : assert (tcam_valid == out6[HostAt6+TcamLatency]);
    end
  end
`endif
endmodule
