// SPDX-License-Identifier: Apache-2.0
// State of the queue pairs. Each half of the engine holds at most one QP at a time, reads what there is
// of it, and writes it back when it lets go.
//
// Latency   : a grant to the state 1 edge, during which it is to be taken over.
// Clock     : clk_i.
// Handshake : acquire_i until granted_o; release_i until released_o, with the new state if write_i. A
//             half waits while the other one holds the same QP. init_i only while both are idle.
// Drops     : never.
module uzura_context
  import uzura_qp_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  /// The host sets a QP; with init_i it begins anew.
  input  logic           cfg_write_i,
  input  logic           init_i,
  input  logic [QpW-1:0] cfg_qp_i,
  input  cfg_t           cfg_i,
  /// The requester of cfg_qp_i begins anew, the responder goes on: read_i, and resume_i in the next cycle.
  input  logic           read_i,
  input  logic           resume_i,
  input  logic [   23:0] sq_psn_i,
  input  logic [   23:0] rq_psn_i,
  // 0: requester; 1: receiver, which goes first.
  input  logic [    1:0] acquire_i,
  input  logic [QpW-1:0] qp_i       [2],
  output logic [    1:0] granted_o,
  output cfg_t           cfg_o      [2],
  output ctx_t           ctx_o,
  input  logic [    1:0] release_i,
  input  logic [    1:0] write_i,
  input  ctx_t           ctx_i      [2],
  output logic [    1:0] released_o
);
  logic [    1:0] held_q;
  logic [QpW-1:0] held_qp_q[2];
  logic [1:0] blocked, writes;
  logic read, write;
  logic [QpW-1:0] read_qp, write_qp;
  ctx_t write_ctx, fresh;

  // Queue pairs that were set since the reset. All others are as after power-up, whatever the memory still has of them.
  logic [Qps-1:0] known_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) known_q <= '0;
    else if (cfg_write_i) known_q[cfg_qp_i] <= 1'b1;
  end

  for (genvar i = 0; i < 2; i++) begin : gen_half
    cfg_t looked;
    logic looked_known_q;
    always_ff @(posedge clk_i) looked_known_q <= known_q[qp_i[i]];
    always_comb begin
      cfg_o[i] = looked;
      if (!looked_known_q) cfg_o[i].state = QpReset;
    end
    // What the host has set is read with each look, held or not.
    ram_1r1w #(
      .data_t(cfg_t),
      .Depth (Qps)
    ) u_cfg (
      .clk_i,
      .we_i   (cfg_write_i),
      .waddr_i(cfg_qp_i),
      .wdata_i(cfg_i),
      .re_i   (1'b1),
      .raddr_i(qp_i[i]),
      .rdata_o(looked)
    );
    assign blocked[i] = held_q[1-i] && held_qp_q[1-i] == qp_i[i];
    always_ff @(posedge clk_i) begin
      if (granted_o[i]) held_qp_q[i] <= qp_i[i];
      if (rst_i) held_q[i] <= 1'b0;
      else held_q[i] <= granted_o[i] || (held_q[i] && !released_o[i]);
    end
  end

  assign granted_o[1]  = acquire_i[1] && !blocked[1];
  assign granted_o[0]  = acquire_i[0] && !blocked[0] && !granted_o[1];
  assign read          = |granted_o || read_i;
  assign read_qp       = read_i ? cfg_qp_i : qp_i[granted_o[1]];

  assign writes        = release_i & write_i;
  assign released_o[1] = release_i[1];
  assign released_o[0] = release_i[0] && !(writes[1] && writes[0]);

  always_comb begin
    fresh             = resume_i ? ctx_o : '0;
    fresh.error       = 1'b0;
    fresh.sq_una      = '0;
    fresh.sq_next     = '0;
    fresh.rnr_wait    = 1'b0;
    fresh.rewound     = 1'b0;
    fresh.reads       = '0;
    fresh.una_psn     = sq_psn_i;
    fresh.una_first   = sq_psn_i;
    fresh.next_psn    = sq_psn_i;
    fresh.next_first  = sq_psn_i;
    fresh.max_psn     = sq_psn_i;
    fresh.retries     = cfg_i.retry;
    fresh.rnr_retries = cfg_i.rnr_retry;
    if (!resume_i) fresh.epsn = rq_psn_i;
  end
  assign write     = |writes || init_i || resume_i;
  assign write_qp  = init_i || resume_i ? cfg_qp_i : held_qp_q[writes[1]];
  assign write_ctx = init_i || resume_i ? fresh : ctx_i[writes[1]];

  ram_1r1w #(
    .data_t(ctx_t),
    .Depth (Qps)
  ) u_ctx (
    .clk_i,
    .we_i   (write),
    .waddr_i(write_qp),
    .wdata_i(write_ctx),
    .re_i   (read),
    .raddr_i(read_qp),
    .rdata_o(ctx_o)
  );

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      !(held_q == 2'b11 && held_qp_q[0] == held_qp_q[1]))
  else $error("uzura_context: both halves hold one QP");
  assert property (@(posedge clk_i) disable iff (rst_i) (release_i & ~held_q) == '0)
  else $error("uzura_context: let go of what is not held");
  assert property (@(posedge clk_i) disable iff (rst_i)
      init_i || read_i || resume_i |-> held_q == '0 && granted_o == '0)
  else $error("uzura_context: begun anew while it is held");
`endif
endmodule
