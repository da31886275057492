// SPDX-License-Identifier: Apache-2.0
// What a frame passes at 10G from the answer of its lookup to the line, for tools/timing: the directory of IPv4
// routes, 2^18 words, makes the whole switch too large for it.
//
// Latency : as frame_plan, rewrite, host_policer, forward_fifo, egress and port_tx_10g.
// Clock   : clk_i.
// Source  : fibnic_core, with one input and one output.
module port_chain_10g
  import fibnic_pkg::*;
#(
  /// Network ports.
  parameter int unsigned N = 4
) (
  input  logic                            clk_i,
  input  logic                            rst_i,
  input  port_cfg_t                       cfg_i,
  input  logic              [N-1:0][47:0] mac_i,
  input  logic              [N-1:0][15:0] mtu_i,
  input  logic                            hdr_valid_i,
  input  hdr_t                            hdr_i,
  input  logic                            v4_valid_i,
  input  fib_pkg::answer_t                v4_answer_i,
  input  logic                            v6_valid_i,
  input  fib_pkg::answer_t                v6_answer_i,
  input  logic                            acl_valid_i,
  input  logic                            acl_deny_i,
  input  logic                            acl_hit_i,
  input  logic              [  5:0]       acl_rule_i,
  input  logic                            wr_valid_i,
  input  fib_pkg::fib_wr_t                wr_i,
  input  logic                            store_i,
  input  logic                            beat_valid_i,
  input  beat_t                           beat_i,
  output logic                            beat_pop_o,
  input  logic                            end_valid_i,
  input  end_t                            end_i,
  output logic                            end_pop_o,
  // The other FIFOs; N is the host's.
  input  logic              [  N:1]       room_i,
  output logic              [  N:1]       w_start_o,
  output logic              [  N:1]       w_valid_o,
  input  logic              [  N:1]       req_i,
  input  logic              [  N:1]       active_i,
  input  beat_t             [  N:1]       others_i,
  output logic              [  N:1]       start_o,
  output logic              [  N:1]       next_o,
  input  link_fault_t                     fault_i,
  output logic              [ 63:0]       xgmii_txd_o,
  output logic              [  7:0]       xgmii_txc_o,
  output port_stat_t                      stat_o,
  output logic                            refused_o,
  output eth_pkg::tx_stat_t               tx_stat_o,
  output logic                            acl_hit_o,
  output logic              [  5:0]       acl_rule_o,
  output logic                            busy_o
);
  logic plan_valid, plan_pop, room, w_start, w_valid, req, start, active, next;
  logic plan_busy, rewrite_busy, fifo_busy, tx_busy, open, host_room;
  plan_t    plan;
  verdict_e verdict;
  beat_t w_beat, beat;
  to_mac_t   to_mac;
  from_mac_t from_mac;

  frame_plan #(
    .N(N)
  ) u_plan (
    .clk_i,
    .rst_i,
    .mtu_i,
    .hdr_valid_i,
    .hdr_i,
    .v4_valid_i,
    .v4_answer_i,
    .v6_valid_i,
    .v6_answer_i,
    .acl_valid_i,
    .acl_deny_i,
    .acl_hit_i,
    .acl_rule_i,
    .wr_valid_i,
    .wr_i,
    .plan_valid_o(plan_valid),
    .plan_o      (plan),
    .plan_pop_i  (plan_pop),
    .acl_hit_o,
    .acl_rule_o,
    .busy_o      (plan_busy)
  );

  rewrite #(
    .N(N)
  ) u_rewrite (
    .clk_i,
    .rst_i,
    .mac_i,
    .store_i,
    .plan_valid_i(plan_valid),
    .plan_i      (plan),
    .plan_pop_o  (plan_pop),
    .beat_valid_i,
    .beat_i,
    .beat_pop_o,
    .end_valid_i,
    .end_i,
    .end_pop_o,
    .room_i      ({host_room, room_i[N-1:1], room}),
    .w_start_o   ({w_start_o, w_start}),
    .w_valid_o   ({w_valid_o, w_valid}),
    .beat_o      (w_beat),
    .verdict_o   (verdict),
    .stat_o,
    .open_o      (open),
    .busy_o      (rewrite_busy)
  );

  host_policer u_policer (
    .clk_i,
    .rst_i,
    .police_i(cfg_i.police),
    .offer_i (|(stat_o.verdict & ToHost)),
    .room_i  (room_i[N]),
    .room_o  (host_room),
    .refused_o
  );

  forward_fifo #(
    .MaxFrame(1518)
  ) u_fifo (
    .clk_i,
    .rst_i,
    .room_o   (room),
    .w_start_i(w_start),
    .w_valid_i(w_valid),
    .wdata_i  (w_beat),
    .req_o    (req),
    .start_i  (start),
    .active_o (active),
    .rdata_o  (beat),
    .next_i   (next),
    .busy_o   (fifo_busy)
  );

  egress #(
    .N(N + 1)
  ) u_egress (
    .clk_i,
    .rst_i,
    .req_i   ({req_i, req}),
    .start_o ({start_o, start}),
    .active_i({active_i, active}),
    .beat_i  ({others_i, beat}),
    .next_o  ({next_o, next}),
    .mac_o   (to_mac),
    .mac_i   (from_mac)
  );

  port_tx_10g u_tx (
    .clk_i,
    .rst_i,
    .cfg_i,
    .fault_i,
    .mac_i (to_mac),
    .mac_o (from_mac),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o(tx_stat_o),
    .busy_o(tx_busy)
  );

  assign busy_o = plan_busy || rewrite_busy || fifo_busy || tx_busy || open || verdict != VForward;
endmodule
