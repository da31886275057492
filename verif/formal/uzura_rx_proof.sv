// SPDX-License-Identifier: Apache-2.0
// The receiver applies a PSN once and in order, and touches host memory only where it was permitted.
//
// A request is placed, and the QP's state goes on, only for the packet whose PSN is the expected one,
// and each time by one packet at least (a READ's answers count). Each DMA write, also of each part where
// several segments are written, and the read of an atomic, follows a question of the same packet that
// uzura_access has answered with yes, and no question is between them.
// Packets, settings, state and answers are free; a packet stays at the head until it is taken.
//
// Clock  : clk_i.
// Source : InfiniBand Architecture Specification, 9.7.
module uzura_rx_proof
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
  import uzura_rx_pkg::*;
(
  input logic            clk_i,
  input logic            rst_i,
  input logic     [31:0] now_us_i,
  input logic            stop_i,
  input packet_t         head_i,
  input logic            head_valid_i,
  input logic            granted_i,
  input cfg_t            cfg_i,
  input ctx_t            ctx_i,
  input logic            released_i,
  input sent_t           sent_i,
  input logic     [15:0] rq_index_i,
  input srq_t            srq_i,
  input logic            resolve_done_i,
  input logic            resolve_ok_i,
  input logic     [63:0] first_pa_i,
  input logic            place_done_i,
  input logic            m_rd_ready_i,
  input rd_data_t        s_rd_i,
  input logic            s_rd_valid_i,
  input logic            owe_ready_i,
  input logic            cqe_ready_i
);
  logic head_take, release_qp, write, place, rd_valid, asked;
  ctx_t written;

  uzura_rx u_rx (
    .idle_o          (),
    .head_take_o     (head_take),
    .qp_o            (),
    .acquire_o       (),
    .release_o       (release_qp),
    .write_o         (write),
    .ctx_o           (written),
    .sent_addr_o     (),
    .kick_o          (),
    .srq_take_o      (),
    .srq_link_o      (),
    .resolve_start_o (asked),
    .resolve_o       (),
    .end_o           (),
    .end_key_o       (),
    .end_pd_o        (),
    .place_start_o   (place),
    .place_word_o    (),
    .place_from_o    (),
    .place_data_o    (),
    .m_rd_o          (),
    .m_rd_valid_o    (rd_valid),
    .owe_o           (),
    .owe_valid_o     (),
    .cqe_o           (),
    .cqe_valid_o     (),
    .cnt_packet_o    (),
    .cnt_no_qp_o     (),
    .cnt_duplicate_o (),
    .cnt_sequence_o  (),
    .cnt_invalid_o   (),
    .cnt_access_o    (),
    .cnt_operation_o (),
    .cnt_not_ready_o (),
    .cnt_ghost_o     (),
    .cnt_rewind_o    (),
    .cnt_congestion_o(),
    .*
  );

  // ---- Environment ------------------------------------------------------------------------------
  logic begun_q, valid_q, waits_q;
  packet_t head_q;
  cfg_t    cfg_q;
  initial begun_q = 1'b0;
  always_ff @(posedge clk_i) begin
    begun_q <= 1'b1;
    head_q  <= head_i;
    cfg_q   <= cfg_i;
    valid_q <= head_valid_i && !head_take;
    waits_q <= !rst_i && (asked || (waits_q && !resolve_done_i));
  end
  logic busy, answer, ud;
  logic [10:0] kind, head_kind;
  assign kind = {
    u_rx.send,
    u_rx.write,
    u_rx.read,
    u_rx.atomic,
    u_rx.first,
    u_rx.last,
    u_rx.imm,
    u_rx.inv,
    u_rx.response,
    u_rx.read_response,
    u_rx.ud
  };
  assign head_kind = {
    u_rx.head_send,
    u_rx.head_write,
    u_rx.head_read,
    u_rx.head_atomic,
    u_rx.head_first,
    u_rx.head_last,
    u_rx.head_imm,
    u_rx.head_inv,
    u_rx.head_response,
    u_rx.head_read_response,
    u_rx.head_ud
  };
  assign busy = u_rx.state_q != Idle;
  assign ud = head_i.opcode inside {UdSendOnly, UdSendOnlyImm};
  assign answer = head_i.opcode inside {[RcReadResponseFirst : RcAtomicAcknowledge]};
  always_comb begin
    if (!begun_q) m_reset : assume (rst_i);
    if (begun_q && valid_q) m_head : assume (head_valid_i && head_i == head_q);
    // A question has one answer.
    if (!begun_q || !waits_q) m_answer : assume (!resolve_done_i);
    // What the host sets it sets while no packet is under way; it is read a cycle late.
    if (begun_q && busy && u_rx.looked_q) m_cfg : assume (cfg_i == cfg_q);
  end

  // ---- What was found when the QP was taken, and permitted ------------------------------------
  logic [23:0] epsn_q;
  logic        permitted_q;
  always_ff @(posedge clk_i) begin
    if (u_rx.state_q == Load) epsn_q <= ctx_i.epsn;
    if (u_rx.state_q == Idle) permitted_q <= 1'b0;
    else if (resolve_done_i) permitted_q <= resolve_ok_i;
    else if (asked) permitted_q <= 1'b0;
  end

  logic request, expected_state, behind_load;
  assign request = !answer && !ud;
  assign expected_state = u_rx.state_q inside {
    Sequence, Rqe, RqeWait, Accept, Place, Segment, Resolve, Long,
    Write, AtomicRead, AtomicWait, AtomicWrite, Update
  };
  assign behind_load = !(u_rx.state_q inside {Idle, Cfg, Acquire, Load});

  logic [23:0] step;
  assign step = written.epsn - epsn_q;
  always_comb begin
    if (begun_q && !rst_i) begin
      if (place && request) a_in_order : assert (head_i.psn == epsn_q);
      if (place) a_permitted : assert (permitted_q);
      if (rd_valid && u_rx.state_q == AtomicRead) begin
        a_read_permitted : assert (permitted_q);
        a_read_in_order : assert (head_i.psn == epsn_q);
      end
      // The number goes on only with the packet that was expected, and not by nothing.
      if (release_qp && write && request && step != '0) a_step : assert (head_i.psn == epsn_q);
      if (release_qp && write && answer) a_answer : assert (step == '0);
    end
    // ---- Ties -------------------------------------------------------------------------------------
    if (begun_q) begin
      if (waits_q) i_waits : assert (u_rx.state_q inside {Region, Resolve, Long});
      if (busy) begin
        i_head : assert (head_valid_i);
        i_kept : assert (u_rx.p == head_i && kind == head_kind);
        i_answer : assert (u_rx.requester_q == answer || answer);
      end
      if (expected_state && request) begin
        i_psn : assert (head_i.psn == epsn_q && u_rx.ctx_q.epsn == epsn_q);
      end
      if (u_rx.state_q == Region) begin
        i_region : assert (request && u_rx.ctx_q.epsn == epsn_q);
        i_region_psn : assert (head_i.psn == epsn_q || is_before(head_i.psn, epsn_q));
      end
      if (u_rx.state_q inside {Judge, Again, AgainAtomic, Nak})
        i_untouched : assert (u_rx.ctx_q.epsn == epsn_q);
      if (u_rx.state_q inside {Again, AgainAtomic, Nak}) i_again : assert (request);
      if (u_rx.state_q inside {Write, AtomicRead, AtomicWait, AtomicWrite})
        i_permitted : assert (permitted_q);
      if (u_rx.state_q inside {AtomicRead, AtomicWait, AtomicWrite}) i_atomic : assert (request);
      if (behind_load && answer) i_epsn : assert (u_rx.ctx_q.epsn == epsn_q);
      if (behind_load && request && head_i.psn != epsn_q)
        i_unmoved : assert (u_rx.ctx_q.epsn == epsn_q);
      if (answer)
        i_no_update : assert (!(u_rx.state_q inside {Sequence, Accept, Place, Long, Update}));
      if (u_rx.state_q inside {AnswerPlace, Rqe, RqeWait, Segment, Resolve, Write} && answer)
        i_requester : assert (u_rx.requester_q);
      if (u_rx.state_q inside {Answer, AnswerRead, AnswerCheck, AnswerCqe,
                               AnswerAct, AnswerPlace, AnswerDone})
        i_answers : assert (answer);
    end
  end
endmodule
