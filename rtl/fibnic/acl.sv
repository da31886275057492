// SPDX-License-Identifier: Apache-2.0
// Access list on the 5-tuple and the port of arrival: all rules at once, the lowest that matches
// decides. What no rule matches is permitted, unless the default says deny.
//
// Latency   : Latency edges of clk_i from valid_i to valid_o. The rules that decide are those in
//             place when valid_i is sampled; a rule changes as a whole, at the edge that takes its
//             word 4.
// Clock     : clk_i, rst_i synchronous; reset empties the list and permits.
// Handshake : a key may come every cycle; answers are in order. wr_ready_o does not depend on
//             wr_valid_i; words of other memories pass without effect.
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

  logic write, commit;
  logic      [      7:0] rule;
  logic      [WordW-1:0] word;
  prefixes_t             prefixes_q;
  terms_t                terms;
  logic                  default_q;
  logic [Rules-1:0] match, deny_q;
  answer_t             answer_q;
  logic    [Latency:0] valid;

  // Addresses are shorter than those of other memories, and so are words.
  assign write      = wr_valid_i && wr_i.mem == fib_pkg::MemAcl;
  assign word       = wr_i.addr[WordW-1:0];
  assign rule       = wr_i.addr[WordW+:8];
  assign terms      = wr_i.data[$bits(terms_t)-1:0];
  assign commit     = write && word == WordTerms;
  assign wr_ready_o = 1'b1;

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
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) default_q <= 1'b0;
    else if (write && word == WordDefault) default_q <= wr_i.data[0];
  end

  for (genvar i = 0; i < int'(Rules); i++) begin : gen_rule
    rule_t rule_q;

    always_ff @(posedge clk_i) begin
      if (commit && rule == 8'(i)) rule_q <= {prefixes_q, terms};
      if (rst_i) rule_q.terms.valid <= 1'b0;
    end

    // Nothing is compared while no key is there: an idle list costs no time in simulation.
    always_comb begin
      match[i] = 1'b0;
      if (valid_i) match[i] = rule_matches(rule_q, port_i, key_i);
    end

    assign deny_q[i] = rule_q.terms.deny;
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
      assert (32'(rule) < Rules)
      else $error("a rule that this list has no room for");
    end
  end
`endif
endmodule
