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

  // A rule as hardware compares it: the key is cut into nibbles, and a column says for each value of
  // a nibble whether the rule can match; a rule matches when all of its columns agree. Ranges of
  // ports take four columns a nibble, and are joined from the upper nibble down.

  /// Bits of a nibble, and its values.
  localparam int unsigned NibbleW = 4;
  localparam int unsigned Entries = 2 ** NibbleW;
  localparam int unsigned AddrNibbles = 128 / NibbleW;
  localparam int unsigned PortNibbles = 16 / NibbleW;

  /// Columns that must all agree: addresses, protocol, port of arrival, family and ports.
  localparam int unsigned ColumnSrc = 0;
  localparam int unsigned ColumnDst = ColumnSrc + AddrNibbles;
  localparam int unsigned ColumnProtocol = ColumnDst + AddrNibbles;
  localparam int unsigned ColumnIngress = ColumnProtocol + 8 / NibbleW;
  localparam int unsigned ColumnKind = ColumnIngress + 1;
  localparam int unsigned PlainColumns = ColumnKind + 1;
  /// Then, for each nibble of the source and of the destination port, from the lowest: above lo, at
  /// lo, below hi, at hi.
  localparam int unsigned Columns = PlainColumns + 2 * PortNibbles * 4;

  typedef logic [Columns-1:0][NibbleW-1:0] nibbles_t;
  typedef logic [Columns-1:0] bits_t;

  /// First of the four columns of a nibble; which is 0 for the source and 1 for the destination.
  function automatic int unsigned range_column(int unsigned which, int unsigned nibble);
    return PlainColumns + 4 * (PortNibbles * which + nibble);
  endfunction

  /// The nibble that each column looks at.
  function automatic nibbles_t key_nibbles(fibnic_pkg::acl_key_t key, logic [3:0] port);
    nibbles_t result;
    for (int unsigned i = 0; i < AddrNibbles; i++) begin
      result[ColumnSrc+i] = key.src[NibbleW*i+:NibbleW];
      result[ColumnDst+i] = key.dst[NibbleW*i+:NibbleW];
    end
    result[ColumnProtocol]   = key.protocol[3:0];
    result[ColumnProtocol+1] = key.protocol[7:4];
    result[ColumnIngress]    = port;
    result[ColumnKind]       = {2'd0, key.v6, key.has_ports};
    for (int unsigned i = 0; i < PortNibbles; i++) begin
      for (int unsigned j = 0; j < 4; j++) begin
        result[range_column(0, i)+j] = key.src_port[NibbleW*i+:NibbleW];
        result[range_column(1, i)+j] = key.dst_port[NibbleW*i+:NibbleW];
      end
    end
    return result;
  endfunction

  /// What a rule's columns say, each about its nibble.
  function automatic bits_t rule_bits(rule_t rule, nibbles_t nibbles);
    bits_t  result;
    range_t range;
    logic [NibbleW-1:0] lo, hi;
    for (int unsigned i = 0; i < AddrNibbles; i++) begin
      result[ColumnSrc+i] = ((nibbles[ColumnSrc+i] ^ rule.prefixes.src_value[NibbleW*i+:NibbleW]) &
          rule.prefixes.src_mask[NibbleW*i+:NibbleW]) == '0;
      result[ColumnDst+i] = ((nibbles[ColumnDst+i] ^ rule.prefixes.dst_value[NibbleW*i+:NibbleW]) &
          rule.prefixes.dst_mask[NibbleW*i+:NibbleW]) == '0;
    end
    for (int unsigned i = 0; i < 2; i++) begin
      result[ColumnProtocol+i] = rule.terms.every_protocol ||
          nibbles[ColumnProtocol+i] == rule.terms.protocol[NibbleW*i+:NibbleW];
    end
    result[ColumnIngress] = rule.terms.ingress[nibbles[ColumnIngress]];
    // Bit 1 is v6, bit 0 has_ports. Every port is the whole range, so that only here it matters
    // whether there are ports.
    result[ColumnKind] = (nibbles[ColumnKind][1] ? rule.terms.v6 : rule.terms.v4) &&
        (nibbles[ColumnKind][0] || (rule.terms.src.every && rule.terms.dst.every));
    for (int unsigned which = 0; which < 2; which++) begin
      range = which == 0 ? rule.terms.src : rule.terms.dst;
      for (int unsigned i = 0; i < PortNibbles; i++) begin
        lo                               = range.every ? '0 : range.lo[NibbleW*i+:NibbleW];
        hi                               = range.every ? '1 : range.hi[NibbleW*i+:NibbleW];
        result[range_column(which, i)]   = nibbles[range_column(which, i)] > lo;
        result[range_column(which, i)+1] = nibbles[range_column(which, i)] == lo;
        result[range_column(which, i)+2] = nibbles[range_column(which, i)] < hi;
        result[range_column(which, i)+3] = nibbles[range_column(which, i)] == hi;
      end
    end
    return result;
  endfunction
endpackage
