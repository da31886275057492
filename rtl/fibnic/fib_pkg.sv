// SPDX-License-Identifier: Apache-2.0
// Memories of the lookup and the fields of their words, as crates/fib lays them out.
//
// Latency : none, types only.
// Source  : crates/fib/src/layout.rs; dissertation section 5.2.3 for sram22.
package fib_pkg;
  /// Index into the next-hop table.
  localparam int unsigned NextHopW = 12;
  /// Width of a leaf.
  localparam int unsigned LeafW = 18;
  /// IPv4 address bits that index the directory.
  localparam int unsigned V4DirIndexW = 18;
  /// IPv6 address bits that index the direct table.
  localparam int unsigned V6DirectW = 16;
  /// IPv6 address bits a node consumes.
  localparam int unsigned V6StrideW = 6;
  /// Levels of the IPv6 trie: the direct table and seven node memories.
  localparam int unsigned V6Levels = 8;
  /// Banks of an exact-match table.
  localparam int unsigned HostBanks = 4;
  /// CRC-32 polynomials of the banks' hashes.
  localparam logic [HostBanks-1:0][31:0] HostPolynomials = {
    32'h8141_41AB, 32'h741B_8CD7, 32'h1EDC_6F41, 32'h04C1_1DB7
  };

  /// Egress codes above the network ports.
  localparam logic [4:0] PortHost = 5'd16;
  localparam logic [4:0] PortDiscard = 5'd17;

  /// Answer of a route: the egress port and the next hop; all zero is "no route here".
  typedef struct packed {
    logic                escape;    // the other 17 bits are the number of a group (IPv4 only)
    logic [4:0]          port;
    logic [NextHopW-1:0] next_hop;
  } leaf_t;

  /// Word of the IPv4 directory.
  typedef struct packed {
    logic [21:0] base;  // first leaf of the run, or the leaf itself when runs is zero
    logic [63:0] runs;  // bit i: slot i has another leaf than slot i-1
  } v4_dir_t;

  /// Node of the IPv6 trie.
  typedef struct packed {
    logic [19:0] leaf_base;   // first leaf of the run, or the leaf itself when runs is zero
    logic [19:0] child_base;  // first child in the next level's memory
    logic [63:0] runs;        // run vector over the slots without a child
    logic [63:0] children;    // bit i: slot i continues in the next level
  } v6_node_t;

  /// Entry of the TCAM; a leaf of zero marks it empty.
  typedef struct packed {
    logic [127:0] value;
    logic [7:0]   len;
    leaf_t        leaf;
  } tcam_t;

  /// Memories, as write lists name them.
  typedef enum logic [4:0] {
    MemV4Dir         = 5'd0,
    MemV4Leaf        = 5'd1,
    MemV4Group       = 5'd2,
    MemV4Host0       = 5'd3,
    MemV4Host1       = 5'd4,
    MemV4Host2       = 5'd5,
    MemV4Host3       = 5'd6,
    MemV6Node0       = 5'd7,
    MemV6Node1       = 5'd8,
    MemV6Node2       = 5'd9,
    MemV6Node3       = 5'd10,
    MemV6Node4       = 5'd11,
    MemV6Node5       = 5'd12,
    MemV6Node6       = 5'd13,
    MemV6Node7       = 5'd14,
    MemV6Leaf        = 5'd15,
    MemV6Host0       = 5'd16,
    MemV6Host1       = 5'd17,
    MemV6Host2       = 5'd18,
    MemV6Host3       = 5'd19,
    MemV6Tcam        = 5'd20,
    MemNextHop       = 5'd21,
    MemRegister      = 5'd22,
    MemSram22        = 5'd23,
    MemSram22NextHop = 5'd24,
    MemAcl           = 5'd25,  // access list, see acl.sv
    MemPort          = 5'd26,  // settings of a port, see fibnic_pkg::port_cfg_t
    MemDrain         = 5'd31   // no memory: wait until every lookup under way has ended
  } memory_e;

  /// Address of the default route's leaf in MemRegister.
  localparam logic [23:0] RegisterDefault4 = 24'd0;
  localparam logic [23:0] RegisterDefault6 = 24'd1;

  /// Widest word of any memory.
  localparam int unsigned WordW = 168;

  /// One word of one memory.
  typedef struct packed {
    memory_e          mem;
    logic [23:0]      addr;
    logic [WordW-1:0] data;
  } fib_wr_t;

  /// What a lookup says.
  typedef struct packed {
    logic                hit;       // there is a route; without it the rest is zero
    logic                punt;      // to the host port
    logic                discard;   // to nowhere, counted
    logic [3:0]          port;      // network port, unless punt or discard
    logic [NextHopW-1:0] next_hop;  // index into the next-hop table
  } answer_t;

  /// Edges through the parts of a lookup; the modules' Latency is computed here so that the pipeline
  /// around them can be, too.
  localparam int unsigned TcamLatency = 2;

  /// Three dependent reads.
  function automatic int unsigned runvec_latency(int unsigned read, int unsigned sum);
    return 3 * read + sum;
  endfunction

  /// Nine dependent reads.
  function automatic int unsigned trie6_latency(int unsigned read, int unsigned sum);
    return V6Levels * (read + sum) + read;
  endfunction

  /// Hash, with a register behind it or not; read, compare.
  function automatic int unsigned exact_latency(int unsigned read, int unsigned hash_register = 1);
    return hash_register + read + 1;
  endfunction

  /// Edges of the dissertation's lookup, from the last address byte it wants: 20 there, of which one is frame_plan's
  /// here, where the verdict is registered.
  localparam int unsigned Sram22Latency = 19;
  /// Address bytes that the dissertation's build for IPv6 waits for.
  localparam int unsigned Sram22V6Bytes = 8;

  /// The larger one.
  function automatic int unsigned larger(int unsigned a, int unsigned b);
    return a > b ? a : b;
  endfunction

  /// Edges from valid to the one at which byte `index` of an address is taken. Bytes that follow
  /// may come a cycle late: a receive clock that is slower than ours leaves out one, now and then.
  function automatic int unsigned byte_at(int unsigned index, int unsigned first_bytes,
                                          int unsigned byte_delay);
    if (byte_delay == 0 || index < first_bytes) return 0;
    return byte_delay * (index + 1 - first_bytes) + 1;
  endfunction

  /// Bytes of an address that are there with valid.
  localparam int unsigned V4FirstBytes = 3;
  localparam int unsigned V6FirstBytes = 2;

  /// Edges from valid until exact matches begin, for which the address must be whole.
  function automatic int unsigned v4_whole(int unsigned byte_delay);
    return byte_at(3, V4FirstBytes, byte_delay);
  endfunction

  function automatic int unsigned v6_whole(int unsigned byte_delay);
    return byte_at(15, V6FirstBytes, byte_delay);
  endfunction

  /// The register behind the hash pays for a wait that bytes on their way don't have.
  function automatic int unsigned hash_register(int unsigned byte_delay);
    return byte_delay == 0 ? 1 : 0;
  endfunction

  /// The whole lookup of IPv4: run vectors, and /32 beside them after the last byte. Or sram22.
  function automatic int unsigned v4_latency(int unsigned read, int unsigned sum,
                                             int unsigned byte_delay, int unsigned sram22 = 0);
    if (sram22 != 0) return byte_delay + Sram22Latency;
    return larger(
        runvec_latency(
            read, sum
        ),
        v4_whole(
            byte_delay
        ) + exact_latency(
            read, hash_register(byte_delay))
    );
  endfunction

  /// The whole lookup of IPv6: trie, and TCAM and /128 beside it after the last byte. Or, beside
  /// sram22, the TCAM alone.
  function automatic int unsigned v6_latency(int unsigned read, int unsigned sum,
                                             int unsigned byte_delay, int unsigned sram22 = 0);
    if (sram22 != 0) return byte_delay * (Sram22V6Bytes - V6FirstBytes) + Sram22Latency;
    return larger(
        trie6_latency(
            read, sum
        ),
        v6_whole(
            byte_delay
        ) + exact_latency(
            read, hash_register(byte_delay))
    );
  endfunction

  /// Bits that are set.
  function automatic logic [6:0] ones64(logic [63:0] vector);
    // Six bits are one level of LUTs; what follows are narrow additions, without a carry from one to the next.
    logic [71:0]      padded;
    logic [11:0][2:0] six;
    logic [ 5:0][3:0] twelve;
    logic [ 2:0][4:0] part;
    padded = 72'(vector);
    for (int unsigned i = 0; i < 12; i++) six[i] = 3'($countones(padded[6*i+:6]));
    for (int unsigned i = 0; i < 6; i++) twelve[i] = 4'(six[2*i]) + 4'(six[2*i+1]);
    for (int unsigned i = 0; i < 3; i++) part[i] = 5'(twelve[2*i]) + 5'(twelve[2*i+1]);
    return 7'(part[0]) + 7'(part[1]) + 7'(part[2]);
  endfunction

  /// What a leaf means to the pipeline behind the lookup.
  function automatic answer_t answer(leaf_t leaf);
    answer_t result;
    result.hit      = leaf != '0;
    result.discard  = leaf.port == PortDiscard;
    // Codes that this build does not know go to the host, which does.
    result.punt     = leaf.port[4] && !result.discard;
    result.port     = leaf.port[3:0];
    result.next_hop = leaf.next_hop;
    return result;
  endfunction
endpackage
