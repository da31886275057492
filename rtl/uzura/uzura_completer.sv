// SPDX-License-Identifier: Apache-2.0
// Writes completions into the host's completion queues, in the order in which they come.
//
// Latency   : a completion taken to its DMA write's request 3 edges; 4 beats.
// Clock     : clk_i.
// Handshake : valid/ready on both sides. cfg_* only while idle.
// Drops     : completions that find their queue full; counted, as the specification's CQ overrun.
// Source    : UZURA document, 4.2.2: notice by a write to host memory that is polled.
module uzura_completer
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_i,
  /// Sets up a queue, empty.
  input  logic                  cfg_write_i,
  input  logic        [CqW-1:0] cfg_cq_i,
  input  logic        [   63:0] cfg_base_i,
  input  logic        [    4:0] cfg_log2_i,
  /// The host has read up to here; arm asks for one event, when there are more than it knows of.
  input  logic                  seen_i,
  input  logic        [CqW-1:0] seen_cq_i,
  input  logic        [   15:0] seen_index_i,
  input  logic        [   15:0] seen_known_i,
  input  logic                  seen_arm_i,
  input  completion_t           in_i,
  input  logic                  in_valid_i,
  output logic                  in_ready_o,
  output wr_req_t               m_wr_o,
  output logic                  m_wr_valid_o,
  input  logic                  m_wr_ready_i,
  output beat_t                 m_data_o,
  output logic                  m_data_valid_o,
  input  logic                  m_data_ready_i,
  /// A queue that was armed has a new completion.
  output logic                  event_o,
  output logic        [CqW-1:0] event_cq_o,
  output logic                  cnt_cqe_o,
  output logic                  cnt_error_o,
  /// There was no room in this one.
  output logic                  cnt_overflow_o,
  output logic        [CqW-1:0] overflow_cq_o,
  output logic                  busy_o
);
  localparam int unsigned Beats = CqeBytes / 8;
  typedef struct packed {
    logic [63:0] base;
    logic [4:0]  log2;
  } queue_t;
  typedef enum logic [1:0] {
    Idle,
    Look,
    Ask,
    Move
  } state_e;

  queue_t queue;
  logic [15:0] write_q[Cqs], read_q[Cqs];
  logic        [Cqs-1:0] armed_q;
  state_e                state_q;
  completion_t           now_q;
  logic [15:0] index_q, seen_q;
  logic [ 16:0] mask;
  logic [  1:0] beat_q;
  logic [255:0] bits;
  logic full, wrote, fires, tells;
  // One that is armed: what had come by then, and what the host knew of.
  logic check_q;
  logic [15:0] check_write_q, check_known_q;
  // An event that has to wait for that one's.
  logic late_q;
  logic [CqW-1:0] check_cq_q, late_cq_q;
  logic [CqW-1:0] read_at, write_at;

  ram_1r1w #(
    .data_t(queue_t),
    .Depth (Cqs)
  ) u_queues (
    .clk_i,
    .we_i   (cfg_write_i),
    .waddr_i(cfg_cq_i),
    .wdata_i('{base: cfg_base_i, log2: cfg_log2_i}),
    .re_i   (state_q == Idle),
    .raddr_i(in_i.cq),
    .rdata_o(queue)
  );

  assign mask = (17'd1 << queue.log2) - 17'd1;
  assign full = 17'(16'(index_q - seen_q)) > mask;
  assign in_ready_o = state_q == Idle;
  assign overflow_cq_o = now_q.cq;
  assign m_wr_valid_o = state_q == Ask;
  assign m_wr_o = '{addr: queue.base + {43'd0, index_q & mask[15:0], 5'd0}, bytes: 13'(CqeBytes)};
  assign bits = now_q.cqe;
  assign m_data_valid_o = state_q == Move;
  assign m_data_o = '{data: bits[64*beat_q+:64], bytes: 4'd8, last: beat_q == 2'(Beats - 1)};
  // The host's word on a queue that it sets up anew counts for nothing.
  assign read_at = cfg_write_i ? cfg_cq_i : seen_cq_i;
  assign write_at = cfg_write_i ? cfg_cq_i : now_q.cq;
  assign wrote = state_q == Move && m_data_ready_i && m_data_o.last;
  assign tells = wrote && armed_q[now_q.cq];
  // On its way when the host looked, and no event behind it: it would never be told of.
  assign fires = check_q && armed_q[check_cq_q] && check_write_q != check_known_q;
  assign busy_o = state_q != Idle || in_valid_i;

  always_ff @(posedge clk_i) begin
    event_o        <= fires || tells || late_q;
    cnt_cqe_o      <= 1'b0;
    cnt_error_o    <= 1'b0;
    cnt_overflow_o <= 1'b0;
    event_cq_o     <= fires ? check_cq_q : tells ? now_q.cq : late_cq_q;
    late_q         <= fires ? tells || late_q : tells && late_q;
    if (fires && tells) late_cq_q <= now_q.cq;
    check_q       <= seen_i && seen_arm_i;
    check_cq_q    <= seen_cq_i;
    check_known_q <= seen_known_i;
    check_write_q <= wrote && now_q.cq == seen_cq_i ? index_q + 16'd1 : write_q[seen_cq_i];
    if (tells) armed_q[now_q.cq] <= 1'b0;
    if (fires) armed_q[check_cq_q] <= 1'b0;
    if (seen_i || cfg_write_i) read_q[read_at] <= cfg_write_i ? '0 : seen_index_i;
    if (wrote || cfg_write_i) write_q[write_at] <= cfg_write_i ? '0 : index_q + 16'd1;
    if (seen_i && seen_arm_i) armed_q[seen_cq_i] <= 1'b1;
    unique case (state_q)
      Idle: begin
        now_q   <= in_i;
        index_q <= write_q[in_i.cq];
        seen_q  <= read_q[in_i.cq];
        beat_q  <= '0;
        if (in_valid_i) state_q <= Look;
      end
      Look: begin
        // 0 in the first turn of the queue becomes 1, so that zeroed memory is not taken for new.
        now_q.cqe.owner <= (17'(index_q) & (mask + 17'd1)) == '0;
        state_q         <= full ? Idle : Ask;
        cnt_overflow_o  <= full;
      end
      Ask: if (m_wr_ready_i) state_q <= Move;
      default:
      if (m_data_ready_i) begin
        beat_q <= beat_q + 1'b1;
        if (m_data_o.last) begin
          state_q     <= Idle;
          cnt_cqe_o   <= 1'b1;
          cnt_error_o <= now_q.cqe.status != StSuccess;
        end
      end
    endcase
    if (cfg_write_i) begin
      armed_q[cfg_cq_i] <= 1'b0;
    end
    if (rst_i) begin
      state_q        <= Idle;
      armed_q        <= '0;
      check_q        <= 1'b0;
      late_q         <= 1'b0;
      event_o        <= 1'b0;
      cnt_cqe_o      <= 1'b0;
      cnt_error_o    <= 1'b0;
      cnt_overflow_o <= 1'b0;
    end
  end
  logic unused;
  assign unused = now_q.solicited;
endmodule
