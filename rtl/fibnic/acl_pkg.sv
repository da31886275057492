// SPDX-License-Identifier: Apache-2.0
// Words of the access list, and when a rule matches.
//
// A rule is five words at addresses {rule[7:0], word[2:0]} of fib_pkg::MemAcl. Words 0 to 3 are
// kept aside, for whichever rule comes next; word 4 puts the whole rule in place at once.
//
// Latency : none, types only.
// Source  : crates/fib/src/acl.rs has the same layout.
package acl_pkg;
  /// Address bits that select a word.
  localparam int unsigned WordW = 3;
  localparam logic [WordW-1:0] WordSrcValue = 3'd0;
  localparam logic [WordW-1:0] WordSrcMask = 3'd1;
  localparam logic [WordW-1:0] WordDstValue = 3'd2;
  localparam logic [WordW-1:0] WordDstMask = 3'd3;
  localparam logic [WordW-1:0] WordTerms = 3'd4;
  /// Not of a rule: bit 0 denies what no rule matches. Its rule number is not looked at.
  localparam logic [WordW-1:0] WordDefault = 3'd5;

  /// Ports from lo to hi, inclusive.
  typedef struct packed {
    logic        every;  // also frames without ports
    logic [15:0] hi;
    logic [15:0] lo;
  } range_t;

  /// Word 4.
  typedef struct packed {
    logic        valid;           // 94
    logic        deny;            // 93
    logic        v6;              // 92: matches IPv6
    logic        v4;              // 91: matches IPv4
    logic        every_protocol;  // 90
    logic [7:0]  protocol;        // 89:82
    range_t      src;             // 81: every, 80:65: hi, 64:49: lo
    range_t      dst;             // 48, 47:32, 31:16
    logic [15:0] ingress;         // 15:0, one bit a port
  } terms_t;

  /// Words 0 to 3. Only bits of the address that are set in the mask are compared.
  typedef struct packed {
    logic [127:0] src_value;
    logic [127:0] src_mask;
    logic [127:0] dst_value;
    logic [127:0] dst_mask;
  } prefixes_t;

  typedef struct packed {
    prefixes_t prefixes;
    terms_t    terms;
  } rule_t;

  /// Whether a range takes a port.
  function automatic logic in_range(range_t range, logic has_ports, logic [15:0] port);
    return range.every || (has_ports && port >= range.lo && port <= range.hi);
  endfunction

  /// Whether a rule matches a frame that came in by a port.
  function automatic logic rule_matches(rule_t rule, logic [3:0] port, fibnic_pkg::acl_key_t key);
    return rule.terms.valid && (key.v6 ? rule.terms.v6 : rule.terms.v4) &&
        rule.terms.ingress[port] &&
        (rule.terms.every_protocol || key.protocol == rule.terms.protocol) &&
        in_range(rule.terms.src, key.has_ports, key.src_port) &&
        in_range(rule.terms.dst, key.has_ports, key.dst_port) &&
        ((key.src ^ rule.prefixes.src_value) & rule.prefixes.src_mask) == '0 &&
        ((key.dst ^ rule.prefixes.dst_value) & rule.prefixes.dst_mask) == '0;
  endfunction
endpackage
