// SPDX-License-Identifier: Apache-2.0
// Vocabulary of the FIBNIC switch: what a receiver tells the core, headers, verdicts, settings.
//
// Latency : none, types only.
// Source  : dissertation chapter 5. Memories, leaves and answers of the lookup are in fib_pkg.
package fibnic_pkg;
  /// Word of the next-hop table, as crates/fib lays it out.
  typedef struct packed {
    logic [47:0] mac;       // first byte on the wire on top
    logic [4:0]  port;
    logic        resolved;
  } next_hop_t;

  /// What of a port's frames may reach the host, see host_policer.
  typedef struct packed {
    logic [11:0] burst;  // frames that may come at once; 0 with a rate: none ever
    logic [23:0] rate;   // frames a second; 0: all may
  } police_t;

  /// After reset. Of a host that can take 100,000 frames a second four ports that flood it leave
  /// more than half. BGP has 116 Mbit/s of a port's rate with full segments, and a burst is more
  /// than the neighbours of a subnet say at once.
  localparam police_t PoliceReset = '{burst: 12'd1024, rate: 24'd10_000};

  /// Settings of a port. Written one field at a time to fib_pkg::MemPort, address {port, field}.
  typedef struct packed {
    logic [47:0] mac;        // field 0; first byte on the wire on top
    logic [15:0] mtu;        // field 1; longest IP packet that leaves here
    logic        tag_out;    // field 2, bit 25: frames leave with a tag
    logic [11:0] vid_out;    // field 2, 24:13
    logic        tag_in;     // field 2, bit 12: frames must come with this tag, which is removed
    logic [11:0] vid_in;     // field 2, 11:0
    logic [7:0]  check_off;  // field 3, 17:10: store-and-check ends at a window of at most so many
    logic [7:0]  check_on;   // field 3, 9:2: and begins when a window has more bad frames than this
    logic [1:0]  check;      // field 3, 1:0: check_e
    police_t     police;     // field 4, 35:24 burst, 23:0 rate
  } port_cfg_t;

  localparam int unsigned PortFieldW = 3;
  typedef enum logic [PortFieldW-1:0] {
    FieldMac,
    FieldMtu,
    FieldVlan,
    FieldCheck,
    FieldPolice
  } port_field_e;

  /// When a port stores frames and checks them before they leave.
  typedef enum logic [1:0] {
    CheckNever,  // cut-through always
    CheckAuto,   // by the rate of bad frames
    CheckAlways
  } check_e;

  /// One beat of a frame inside the switch; the FCS is not part of it.
  typedef struct packed {
    logic [63:0] data;
    logic [7:0]  keep;
    logic        last;
    logic        bad;   // with last: to be spoiled
  } beat_t;

  /// What the receiver knows of a frame when its destination address is complete.
  typedef struct packed {
    logic [19:0] checksum;    // of the IPv4 header, carries on top; 0xffff if it is checked
    logic        brief;       // ended before its header did
    logic        vlan_bad;    // without the tag the port wants
    logic        mac_mine;    // to the MAC address of the port
    logic        mac_group;   // to a multicast or broadcast MAC address
    logic        v4;
    logic        v6;
    logic        bad_header;  // version, length or checksum of the header
    logic        options;     // IPv4 options, IPv6 hop-by-hop options
    logic        martian;     // source or destination that must not be on a wire
    logic        local_only;  // multicast, limited broadcast, link-local
    logic        expires;     // TTL or hop limit 0 or 1
    logic [15:0] length;      // of the IP packet, bytes (65535 for more)
  } hdr_t;

  /// What the access list looks at. Ports are zero unless has_ports.
  typedef struct packed {
    logic         v6;
    logic [127:0] src;        // an IPv4 address is in 127:96, the rest is zero
    logic [127:0] dst;
    logic [7:0]   protocol;   // IPv6: the first next header
    logic         has_ports;  // TCP, UDP or SCTP right behind the header, first fragment
    logic [15:0]  src_port;
    logic [15:0]  dst_port;
  } acl_key_t;

  /// What the line says of a link (IEEE 802.3 subclause 46.3.4).
  typedef struct packed {
    logic remote;  // the other side does not receive
    logic here;    // nothing comes here
  } link_fault_t;

  /// How a frame ended.
  typedef struct packed {
    logic bad;    // FCS wrong, RX_ER, cut off, too long, or shorter than its IP packet
    logic brief;  // shorter than 64 bytes
  } end_t;

  /// From a receiver to the core, in the core's clock. Exactly one hdr, acl and end for each frame
  /// that has a beat; a req4 or req6 for those with an IP header, ByteDelay as fib_lookup wants it.
  typedef struct packed {
    logic         req4;
    logic         req6;
    logic [127:0] addr;        // of req4 in 127:96
    logic         hdr_valid;   // pulse
    hdr_t         hdr;
    logic         acl_valid;   // pulse, not before hdr_valid
    acl_key_t     acl;
    logic         beat_valid;  // the oldest beat not popped
    beat_t        beat;
    logic         end_valid;   // the oldest end not popped
    end_t         ending;
    logic         clear;       // what is held of the port's frames is forgotten
  } from_rx_t;

  typedef struct packed {
    logic beat_pop;
    logic end_pop;
    logic idle;      // nothing is held of the port's frames
    logic open;      // a frame has begun to leave, and not ended
  } to_rx_t;

  /// To the transmit MAC: start promises a frame whose first beat is there from the next cycle on.
  typedef struct packed {
    logic  start;
    logic  valid;
    beat_t beat;
  } to_mac_t;

  typedef struct packed {
    logic ready_start;
    logic ready;
  } from_mac_t;

  /// What happens to a frame, and why; also the index of its counter.
  typedef enum logic [4:0] {
    VForward,        // to a network port
    VHostNotIp,      // to the host: neither IPv4 nor IPv6
    VHostLink,       // to the host: to a group MAC address
    VHostLocal,      // to the host: multicast, broadcast or link-local IP address
    VHostOptions,    // to the host: options
    VHostExpires,    // to the host: TTL or hop limit
    VHostRoute,      // to the host: the route says so (own addresses)
    VHostNoRoute,    // to the host: no route, or one this build can't follow
    VHostNeighbour,  // to the host: MAC address of the next hop not known
    VHostMtu,        // to the host: longer than the MTU of its egress port
    VDropNotMine,    // dropped: to another MAC address
    VDropHeader,     // dropped: bad IP header
    VDropMartian,    // dropped: impossible address
    VDropRoute,      // dropped: the route says so
    VDropAcl,        // dropped: the access list says so
    VDropVlan,       // dropped: not of the port's VLAN
    VDropRunt,       // dropped: shorter than 64 bytes, known before it left
    VDropBad         // dropped whole: stored, checked and found bad
  } verdict_e;

  localparam int unsigned Verdicts = 18;

  /// The verdicts that lead to the host, one bit each.
  localparam logic [Verdicts-1:0] ToHost = Verdicts'((1 << (VHostMtu + 1)) - (1 << VHostNotIp));

  /// Beats that come while a frame waits for the slowest lookup, and for what is around it.
  localparam int unsigned BeatsOfLookup = 128;

  /// What becomes of a frame: all that rewriting it takes.
  typedef struct packed {
    verdict_e    verdict;
    logic        v6;
    logic [3:0]  port;     // of VForward: where it leaves
    logic [47:0] mac;      // of VForward: to whom
  } plan_t;

  /// Beats of a port that may wait for their plan or their end, a power of two: in cut-through the
  /// longest lookup, in store-and-check a frame (and while its beats leave, as many come).
  function automatic int unsigned beats_held(int unsigned max_frame, int unsigned store);
    return 1 << $clog2(BeatsOfLookup + (store != 0 ? max_frame / 8 : 0));
  endfunction

  /// Frames that those beats may be, a power of two: on the line two frames take three cycles.
  function automatic int unsigned frames_held(int unsigned max_frame, int unsigned store);
    return 1 << $clog2((BeatsOfLookup + (store != 0 ? max_frame / 8 : 0)) * 2 / 3);
  endfunction

  /// Counters of a port, one pulse each.
  typedef struct packed {
    logic                spoiled;  // left, or went to the host, although it ended bad
    logic                full;     // dropped whole: no room in the FIFO to the output
    logic [Verdicts-1:0] verdict;  // by verdict_e; exactly one for each frame
  } port_stat_t;
endpackage
