// SPDX-License-Identifier: Apache-2.0
// Access list on the 5-tuple and the port of arrival: all rules at once, the lowest that matches
// decides. What no rule matches is permitted, unless the default says deny.
//
// Rules are kept as columns (acl_pkg) in small memories, which takes few flip-flops but 16 writes a
// rule. The rule written last is also kept as it came and compared
// with the key by itself: it counts at once and as a whole, while its columns are still being
// written in cycles without a key.
//
// Latency   : Latency edges of clk_i from valid_i to valid_o. The rules that decide are those in
//             place when valid_i is sampled; a rule changes at the edge that takes its word 4.
// Clock     : clk_i, rst_i synchronous; reset empties the list and permits.
// Handshake : a key may come every cycle; answers are in order. wr_ready_o, a register's decode, is
//             low until 16 cycles without a key have passed since a rule; words of other memories
//             pass without effect.
// Drops     : never.
// Source    : common practice; words as acl_pkg and crates/fib lay them out.
module acl
  import acl_pkg::*;
#(
  /// Rules; up to 256.
  parameter  int unsigned Rules   = 64,
  /// 1 or 2.
  parameter  int unsigned Latency = 2,
  localparam int unsigned RuleW   = Rules > 1 ? $clog2(Rules) : 1
) (
  input  logic                             clk_i,
  input  logic                             rst_i,
  /// Port of arrival.
  input  logic                 [      3:0] port_i,
  input  logic                             valid_i,
  input  fibnic_pkg::acl_key_t             key_i,
  output logic                             valid_o,
  output logic                             deny_o,
  /// A rule decided, and which; without it the default did, and rule_o is zero.
  output logic                             hit_o,
  output logic                 [RuleW-1:0] rule_o,
  input  logic                             wr_valid_i,
  output logic                             wr_ready_o,
  input  fib_pkg::fib_wr_t                 wr_i
);
  typedef struct packed {
    logic             deny;
    logic             hit;
    logic [RuleW-1:0] rule;
  } answer_t;

  // Words for the list.
  logic write, commit;
  logic      [      7:0] number;
  logic      [WordW-1:0] word;
  terms_t                terms;
  prefixes_t             prefixes_q;
  logic                  default_q;

  // The rule written last, and the columns on their way from it.
  rule_t                 last_q;
  logic      [Rules-1:0] last_select_q;  // which rule it is
  logic busy_q, scan;
  logic     [NibbleW-1:0] entry_q;
  nibbles_t               nibbles;
  bits_t                  last_bits;

  // Rules.
  logic [Rules-1:0] used_q, deny_q;
  logic    [Rules-1:0] row      [Columns];
  logic    [Rules-1:0] match;
  answer_t             answer_q;
  logic    [Latency:0] valid;

  assign write      = wr_valid_i && wr_ready_o && wr_i.mem == fib_pkg::MemAcl;
  assign word       = wr_i.addr[WordW-1:0];
  assign number     = wr_i.addr[WordW+:8];
  assign terms      = wr_i.data[$bits(terms_t)-1:0];
  assign commit     = write && word == WordTerms;
  assign wr_ready_o = !busy_q;

  always_ff @(posedge clk_i) begin
    if (write) begin
      unique case (word)
        WordSrcValue: prefixes_q.src_value <= wr_i.data[127:0];
        WordSrcMask:  prefixes_q.src_mask <= wr_i.data[127:0];
        WordDstValue: prefixes_q.dst_value <= wr_i.data[127:0];
        WordDstMask:  prefixes_q.dst_mask <= wr_i.data[127:0];
        default:      ;
      endcase
    end
    if (commit) begin
      last_q <= {prefixes_q, terms};
      for (int unsigned i = 0; i < Rules; i++) begin
        last_select_q[i] <= number == 8'(i);
        if (number == 8'(i)) deny_q[i] <= terms.deny;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      default_q <= 1'b0;
      used_q    <= '0;
      busy_q    <= 1'b0;
    end else begin
      if (write && word == WordDefault) default_q <= wr_i.data[0];
      if (commit) begin
        // Columns of a rule that is not there mean nothing.
        busy_q <= terms.valid;
        for (int unsigned i = 0; i < Rules; i++) if (number == 8'(i)) used_q[i] <= terms.valid;
      end else if (scan && entry_q == '1) begin
        busy_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (commit) entry_q <= '0;
    else if (scan) entry_q <= entry_q + 1'b1;
  end

  // Keys go first.
  assign scan = busy_q && !valid_i;

  always_comb begin
    nibbles   = '0;
    last_bits = '0;
    if (valid_i || scan) begin
      nibbles   = valid_i ? key_nibbles(key_i, port_i) : {Columns{entry_q}};
      last_bits = rule_bits(last_q, nibbles);
    end
  end

  for (genvar i = 0; i < int'(Columns); i++) begin : gen_column
    acl_column #(
      .Rules(Rules)
    ) u_column (
      .clk_i,
      .read_i  (valid_i || scan),
      .nibble_i(nibbles[i]),
      .row_o   (row[i]),
      .write_i (scan),
      .rules_i (last_select_q),
      .bit_i   (last_bits[i])
    );
  end

  always_comb begin
    logic [Rules-1:0] lo, hi, rule_match;
    logic last_lo, last_hi, last_match;
    match      = '0;
    lo         = '1;
    hi         = '1;
    rule_match = '1;
    last_lo    = 1'b1;
    last_hi    = 1'b1;
    last_match = 1'b0;
    if (valid_i) begin
      for (int unsigned i = 0; i < PlainColumns; i++) rule_match &= row[i];
      last_match = &last_bits[PlainColumns-1:0];
      for (int unsigned which = 0; which < 2; which++) begin
        lo      = '1;
        hi      = '1;
        last_lo = 1'b1;
        last_hi = 1'b1;
        for (int unsigned i = 0; i < PortNibbles; i++) begin
          lo = row[range_column(which, i)] | (row[range_column(which, i)+1] & lo);
          hi = row[range_column(which, i)+2] | (row[range_column(which, i)+3] & hi);
          last_lo = last_bits[range_column(which, i)] ||
              (last_bits[range_column(which, i)+1] && last_lo);
          last_hi = last_bits[range_column(which, i)+2] ||
              (last_bits[range_column(which, i)+3] && last_hi);
        end
        rule_match &= lo & hi;
        last_match = last_match && last_lo && last_hi;
      end
      match = used_q & ((rule_match & ~last_select_q) | (last_select_q & {Rules{last_match}}));
    end
  end

  /// The lowest rule that matches.
  function automatic answer_t first(logic [Rules-1:0] matched, logic [Rules-1:0] deny,
                                    logic otherwise);
    answer_t result;
    result.deny = otherwise;
    result.hit  = |matched;
    result.rule = '0;
    for (int i = int'(Rules) - 1; i >= 0; i--) begin
      if (matched[i]) begin
        result.deny = deny[i];
        result.rule = RuleW'(i);
      end
    end
    return result;
  endfunction

  if (Latency == 1) begin : gen_one
    always_ff @(posedge clk_i) if (valid_i) answer_q <= first(match, deny_q, default_q);
  end else begin : gen_two
    // What a rule says is as old as what it matched.
    logic [Rules-1:0] match_q, late_deny_q;
    logic late_default_q;

    always_ff @(posedge clk_i) begin
      if (valid_i) begin
        match_q        <= match;
        late_deny_q    <= deny_q;
        late_default_q <= default_q;
      end
      if (valid[1]) answer_q <= first(match_q, late_deny_q, late_default_q);
    end
  end

  fib_valid #(
    .Cycles(Latency)
  ) u_valid (
    .clk_i,
    .rst_i,
    .valid_i,
    .valid_o(valid)
  );

  assign valid_o = valid[Latency];
  assign deny_o  = answer_q.deny;
  assign hit_o   = answer_q.hit;
  assign rule_o  = answer_q.rule;

`ifndef SYNTHESIS
  initial begin
    assert (Latency == 1 || Latency == 2)
    else $fatal(1, "acl: Latency is 1 or 2");
    assert (Rules >= 1 && Rules <= 256)
    else $fatal(1, "acl: 1 to 256 rules");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && commit) begin
      a_rule_there :
      assert (32'(number) < Rules)
      else $error("a rule that this list has no room for");
    end
  end
`endif
endmodule
