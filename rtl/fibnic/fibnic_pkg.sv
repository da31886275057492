// SPDX-License-Identifier: Apache-2.0
// Vocabulary of the FIBNIC switch: lookup requests and answers, table writes, headers, verdicts.
//
// Source  : dissertation chapter 5; memory ids and words as crates/fib's layout has them.
package fibnic_pkg;
  /// Bits of a leaf: {escape, port, next hop}.
  localparam int unsigned LeafW = 18;

  // A package is used in part.
  // verilator lint_off UNUSEDPARAM
  /// Port codes of a leaf beyond the network ports 0 to 15.
  localparam logic [4:0] PortHost = 5'd16;
  localparam logic [4:0] PortDiscard = 5'd17;
  localparam logic [4:0] PortGroup = 5'd18;
  // verilator lint_on UNUSEDPARAM

  /// Memories that a table write names.
  typedef enum logic [4:0] {
    MemV4Dir,
    MemV4Leaf,
    MemV4Group,
    MemV4Host0,
    MemV4Host1,
    MemV4Host2,
    MemV4Host3,
    MemV6Node0,
    MemV6Node1,
    MemV6Node2,
    MemV6Node3,
    MemV6Node4,
    MemV6Node5,
    MemV6Node6,
    MemV6Node7,
    MemV6Leaf,
    MemV6Host0,
    MemV6Host1,
    MemV6Host2,
    MemV6Host3,
    MemV6Tcam,
    MemNextHop,
    MemRegister,
    MemSram22,
    MemSram22NextHop
  } mem_e;

  typedef struct packed {
    logic         v6;
    logic [127:0] addr;  // an IPv4 address is in 127:96
  } lookup_req_t;

  typedef struct packed {
    logic        hit;
    logic [11:0] next_hop;
    logic [4:0]  port;      // a network port or one of the codes above
    logic        punt;      // the table knows no answer: the host decides
  } lookup_rsp_t;

  /// One word of a table.
  typedef struct packed {
    logic [4:0]   mem;   // mem_e
    logic [23:0]  addr;
    logic [167:0] data;  // from bit 0; the widest word is a node of the IPv6 trie
  } fib_wr_t;

  /// Word of the next-hop table.
  typedef struct packed {
    logic [47:0] mac;       // first byte on the wire on top
    logic [4:0]  port;
    logic        resolved;
  } next_hop_t;

  /// One beat of a frame inside the switch; the FCS is not part of it.
  typedef struct packed {
    logic [63:0] data;
    logic [7:0]  keep;
    logic        last;
    logic        bad;   // with last: to be spoiled
  } beat_t;

  /// What the receiver knows of a frame when the key of the lookup is complete.
  typedef struct packed {
    logic brief;       // ended before its header did
    logic mac_mine;    // to the MAC address of the port
    logic mac_group;   // to a multicast or broadcast MAC address
    logic v4;
    logic v6;
    logic bad_header;  // version, length or checksum of the header
    logic options;     // IPv4 options, IPv6 hop-by-hop options
    logic martian;     // source or destination that must not be on a wire
    logic local_only;  // multicast, limited broadcast, link-local
    logic expires;     // TTL or hop limit 0 or 1
  } hdr_t;

  /// What happens to a frame, and why; also the index of its counter.
  typedef enum logic [3:0] {
    VForward,        // to a network port
    VHostNotIp,      // to the host: neither IPv4 nor IPv6
    VHostLink,       // to the host: to a group MAC address
    VHostLocal,      // to the host: multicast, broadcast or link-local IP address
    VHostOptions,    // to the host: options
    VHostExpires,    // to the host: TTL or hop limit
    VHostRoute,      // to the host: the route says so (own addresses)
    VHostNoRoute,    // to the host: no route, or one this build can't follow
    VHostNeighbour,  // to the host: MAC address of the next hop not known
    VDropNotMine,    // dropped: to another MAC address
    VDropHeader,     // dropped: bad IP header
    VDropMartian,    // dropped: impossible address
    VDropRoute,      // dropped: the route says so
    VDropRunt        // dropped: shorter than 64 bytes
  } verdict_e;

  localparam int unsigned Verdicts = 14;

  /// Counters of a port.
  typedef struct packed {
    logic                spoiled;  // forwarded or given to the host although the FCS was wrong
    logic                full;     // dropped whole: a frame already waits for the output
    logic [Verdicts-1:0] verdict;  // by verdict_e; exactly one for each frame
  } port_stat_t;
endpackage
