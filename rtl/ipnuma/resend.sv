// SPDX-License-Identifier: Apache-2.0
// Sender of sessions: keeps every sequenced frame until its peer has acknowledged it, sends all
// from the first missing one again (go back N) on a negative acknowledgement or a time-out, gives a
// peer up that does not answer, and tells the host.
//
// One engine serves all sessions, an operation at a time: pick it and read the session's state, load (differences), run,
// sometimes check. What is urgent goes first: new frames, then acknowledgements, error reports, sessions to clear,
// marks, status, frames to send again, and time. Long operations (a cumulative acknowledgement frees a slot a cycle)
// make way for a new frame and go on from the state they left.
//
// A refused frame keeps its place and number and goes out again as a void, which the receiver takes
// instead; the host gets an event with the address. Since a receiver reports the frame that it
// expects, only the first frame of a session can be one.
//
// The time-out of a session is the register's, doubled as often as its round trip needs. That is
// measured with each frame that finds nothing in flight, if it is sent only once; until then the
// round trip is taken for long, and a time-out may mean that it has become longer.
//
// Latency   : open_o at the latest 6 cycles after start_i as the frame leaves it; an acknowledgement of n frames in 5
//             + n cycles, a frame to be sent again offered 10 to 18 cycles after the negative acknowledgement that asks
//             for it. A time-out comes up to 2 ticks and some 4 cycles per session in flight behind its time.
// Clock     : clk_i (network).
// Handshake : start_i is a pulse while word 0 is on the stream, at most every 8 cycles, only for open sessions (of the
//             cycle before); copy_frame_we_i follows once, and copy_we_i per word, up to the frame's last beat.
//             rs_valid_o and rs_frame_o hold once rs_lock_i is high, which may be combinational. mark_valid_i and
//             event_valid_o with ready; status_o is there from status_done_o on. give_up_i ends with a reset.
// Drops     : acknowledgements and reports that find 16 others waiting; the next ones make up for them. Frames of
//             sessions that are reset or lost: the host knows. With give_up_i marks fail, or find no room.
// Source    : dissertation section 3.3.4; docs/wire-format.md.
module resend
  import ipnuma_pkg::*;
  import resend_pkg::*;
  import wire_pkg::*;
#(
  /// Sessions; a power of two, 2 to 256.
  parameter int unsigned Sessions = 64,
  /// Frames that wait for acknowledgement, of all sessions; a power of two, at most 256.
  parameter int unsigned SendSlots = 128,
  /// Cycles of a tick; a power of two.
  parameter int unsigned TickCycles = SESSION_TICK_CYCLES,
  localparam int unsigned SessionW = $clog2(Sessions)
) (
  input logic        clk_i,
  input logic        rst_i,
  /// REG_RESEND_TICKS, REG_RESEND_LIMIT, REG_WINDOW, REG_PACE.
  input logic [15:0] resend_ticks_i,
  input logic [ 7:0] resend_limit_i,
  input logic [ 3:0] backoff_i,
  input logic [ 3:0] stretch_i,
  input logic [ 7:0] window_i,
  input logic [ 7:0] pace_frames_i,
  input logic [ 3:0] pace_up_i,
  input logic [11:0] pace_max_i,
  input logic [ 3:0] pace_down_i,
  input logic [15:0] pace_ticks_i,

  /// Sessions that exist; pulse when one is written.
  input logic [Sessions-1:0] valid_i,
  input logic                reset_i,
  input logic [         7:0] reset_index_i,
  /// Number of its first frame.
  input logic [        31:0] reset_start_i,

  /// No session sends a new frame any more, and lost_o says so.
  input  logic                     give_up_i,
  /// A new frame may start; new frames will never be delivered.
  output logic      [Sessions-1:0] open_o,
  output logic      [Sessions-1:0] lost_o,
  input  logic                     start_i,
  input  logic      [         7:0] start_session_i,
  /// From the next cycle until the next start_i.
  output logic      [        31:0] start_sequence_o,
  input  logic                     copy_frame_we_i,
  input  tx_frame_t                copy_frame_i,
  input  logic                     copy_we_i,
  input  logic      [         4:0] copy_idx_i,
  input  logic      [        63:0] copy_word_i,

  output logic             rs_valid_o,
  output tx_frame_t        rs_frame_o,
  output logic      [31:0] rs_sequence_o,
  /// From the cycle in which the frame is chosen to its last beat.
  input  logic             rs_lock_i,
  input  logic      [ 4:0] pay_idx_i,
  output logic      [63:0] pay_word_o,
  input  logic             rs_pop_i,

  input logic     ack_valid_i,
  input ack_t     ack_i,
  input logic     refused_valid_i,
  input refused_t refused_i,

  input  logic        mark_valid_i,
  input  logic [15:0] mark_session_i,
  input  logic [15:0] mark_cookie_i,
  output logic        mark_ready_o,

  output logic   event_valid_o,
  output event_t event_o,
  input  logic   event_ready_i,

  input  logic                  status_read_i,
  input  logic            [7:0] status_index_i,
  output logic                  status_done_o,
  /// `expected` is the receiver's to fill in.
  output session_status_t       status_o,

  output logic cnt_tx_timeout_o,
  output logic busy_o
);
  localparam int unsigned SlotW = $clog2(SendSlots);
  localparam int unsigned TickW = $clog2(TickCycles);
  localparam int unsigned EventDepth = 4;

  typedef logic [SessionW-1:0] index_t;
  typedef logic [Sessions-1:0] set_t;

  // ---- Settings ----
  settings_t settings;
  always_comb begin
    settings = '{
        ticks: resend_ticks_i,
        limit: resend_limit_i,
        backoff: backoff_i,
        stretch: stretch_i,
        window: window_i,
        pace_frames: pace_frames_i,
        pace_ticks: pace_ticks_i,
        pace_down: pace_down_i,
        pace_up: pace_up_i,
        pace_max: pace_max_i
    };
    if (window_i == '0) settings.window = 8'd1;
    if (window_i > MOST_IN_FLIGHT) settings.window = MOST_IN_FLIGHT;
  end

  // ---- Sets of sessions ----
  set_t known_q;  // the stored state holds; before the first reset it is all zeros
  set_t open_q;
  set_t lost_q;  // the peer did not answer
  set_t dead_q;  // gives its slots back, takes no acknowledgement
  set_t reset_q;  // was written; waits for the engine
  set_t clear_q;  // dead with slots, or written
  set_t active_q;  // frames in flight: time runs
  set_t want_q;  // frames to send again
  set_t blocked;  // by their pace

  // ---- What waits for the engine ----
  // A start.
  logic start_q, forget_q, given_up_q;
  index_t start_session_q;
  logic [SlotW-1:0] alloc_slot, start_slot_q, chain_next;
  logic any_slot, no_slot, copying_q;
  index_t start_index, reset_index;
  assign start_index = start_session_i[SessionW-1:0];
  assign reset_index = reset_index_i[SessionW-1:0];

  // Acknowledgements and reports.
  ack_t     ack;
  refused_t refused;
  logic ack_valid, refused_valid, ack_pop, refused_pop;
  sync_fifo #(
    .data_t(ack_t),
    .Depth (16)
  ) u_acks (
    .clk_i,
    .rst_i,
    .wdata_i (ack_i),
    .wvalid_i(ack_valid_i),
    .wready_o(),
    .rdata_o (ack),
    .rvalid_o(ack_valid),
    .rready_i(ack_pop),
    .count_o ()
  );
  sync_fifo #(
    .data_t(refused_t),
    .Depth (16)
  ) u_refused (
    .clk_i,
    .rst_i,
    .wdata_i (refused_i),
    .wvalid_i(refused_valid_i),
    .wready_o(),
    .rdata_o (refused),
    .rvalid_o(refused_valid),
    .rready_i(refused_pop),
    .count_o ()
  );

  // A mark, a look at the status.
  logic mark_q, mark_failed_q, marks_room, status_q;
  logic [15:0] mark_session_q, mark_cookie_q;
  index_t status_session_q;
  assign mark_ready_o = !mark_q && (marks_room || given_up_q);

  // The session whose turn it is, of each set; one cycle old, so the engine looks again.
  index_t clear_pick_q, want_pick_q, scan_pick_q;
  logic clear_any_q, want_any_q, scan_any_q;
  index_t want_last_q, scan_last_q;
  index_t [2:0] pick_last, picked, picked_q;
  set_t [2:0] pick_from;
  logic [2:0] any, any_q;
  assign pick_from = {clear_q, want_q & ~blocked, active_q};
  assign pick_last = {index_t'(Sessions - 1), want_last_q, scan_last_q};
  for (genvar s = 0; s < 3; s++) begin : gen_picks
    ring_pick #(
      .N(Sessions)
    ) u_pick (
      .set_i  (pick_from[s]),
      .after_i(pick_last[s]),
      .any_o  (any[s]),
      .index_o(picked[s])
    );
  end
  always_ff @(posedge clk_i) begin
    picked_q <= picked;
    any_q    <= rst_i ? '0 : any;
  end
  assign {clear_pick_q, want_pick_q, scan_pick_q} = picked_q;
  assign {clear_any_q, want_any_q, scan_any_q}    = any_q;

  // Time: ticks, and a look at one session every fourth cycle, while frames are in flight.
  logic [     31:0] now_q;
  logic [TickW-1:0] part_q;
  logic scan_due_q, scan_taken;
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      now_q      <= '0;
      part_q     <= '0;
      scan_due_q <= 1'b0;
    end else if (scan_any_q || scan_due_q) begin
      part_q <= part_q + 1'b1;
      if (part_q == '1) now_q <= now_q + 1'b1;
      if (scan_taken || !scan_any_q) scan_due_q <= 1'b0;
      else if (part_q[(TickW>2?1 : 0):0] == '1) scan_due_q <= 1'b1;
    end
  end

  // ---- The engine's turn ----
  phase_e phase_q;
  op_e op_q, pick_op;
  index_t who_q, pick_who;
  logic pick, finish, check;
  logic scan_ready, scan_first_q;  // after an offer it is time's turn
  logic offer_room, offer_empty;
  logic [2:0] event_count;

  assign scan_ready = scan_due_q && scan_any_q && event_count < 3'(EventDepth - 1);
  always_comb begin
    pick_op  = OP_NONE;
    pick_who = start_session_q;
    if (start_q) begin
      pick_op = OP_START;
    end else if (ack_valid) begin
      pick_op  = OP_ACK;
      pick_who = ack.session[SessionW-1:0];
    end else if (refused_valid && event_count < 3'(EventDepth - 1)) begin
      pick_op  = OP_REFUSED;
      pick_who = refused.session[SessionW-1:0];
    end else if (clear_any_q) begin
      pick_op  = OP_CLEAR;
      pick_who = clear_pick_q;
    end else if (mark_q) begin
      pick_op  = OP_MARK;
      pick_who = mark_session_q[SessionW-1:0];
    end else if (status_q) begin
      pick_op  = OP_STATUS;
      pick_who = status_session_q;
    end else if (want_any_q && offer_room && !(scan_first_q && scan_ready)) begin
      pick_op  = OP_OFFER;
      pick_who = want_pick_q;
    end else if (scan_ready) begin
      pick_op  = OP_SCAN;
      pick_who = scan_pick_q;
    end
  end
  assign pick       = phase_q == PICK && pick_op != OP_NONE;
  assign scan_taken = pick && pick_op == OP_SCAN;

  always_ff @(posedge clk_i) begin
    if (pick) begin
      op_q  <= pick_op;
      who_q <= pick_who;
      if (pick_op == OP_OFFER) want_last_q <= pick_who;
      if (pick_op == OP_SCAN) scan_last_q <= pick_who;
      if (pick_op == OP_OFFER || pick_op == OP_SCAN) scan_first_q <= pick_op == OP_OFFER;
    end
    if (rst_i) begin
      phase_q <= PICK;
    end else begin
      unique case (phase_q)
        PICK: if (pick) phase_q <= LOAD;
        LOAD: phase_q <= RUN;
        RUN: begin
          if (finish) phase_q <= PICK;
          else if (check) phase_q <= CHECK;
        end
        CHECK: phase_q <= PICK;
        default: ;
      endcase
    end
  end

  // ---- State of the sessions ----
  sender_t stored, loaded, state_q, next;
  logic store;
  ram_1r1w #(
    .data_t(sender_t),
    .Depth (Sessions)
  ) u_state (
    .clk_i,
    .we_i   (store),
    .waddr_i(who_q),
    .wdata_i(next),
    .re_i   (pick),
    .raddr_i(pick_who),
    .rdata_o(stored)
  );
  always_comb begin
    loaded = known_q[who_q] ? stored : '0;
    // The register may have been written since.
    if (loaded.stretch > settings.stretch) loaded.stretch = settings.stretch;
    if (settings.pace_max == '0) loaded.asked = '0;
  end

  logic [31:0] first_q[Sessions];  // number of the first frame, of sessions that are written
  always_ff @(posedge clk_i) if (reset_i) first_q[reset_index] <= reset_start_i;

  // The number of the next new frame, una + count, once more: it is needed in the cycle after a
  // start.
  logic nxt_write;
  logic [31:0] nxt_value, sum_q;
  ram_1r1w #(
    .data_t(logic [31:0]),
    .Depth (Sessions)
  ) u_nxt (
    .clk_i,
    .we_i   (nxt_write),
    .waddr_i(who_q),
    .wdata_i(nxt_value),
    .re_i   (start_i),
    .raddr_i(start_index),
    .rdata_o(start_sequence_o)
  );

  // What loading finds out.
  logic [31:0] delta_q;  // frames that the acknowledgement takes, if it is one
  logic [31:0] elapsed_q, limit_q;
  logic [15:0] pace_age_q;
  logic [11:0] interval_q;  // from frame to frame
  logic        late_q;
  logic        step;  // the slot `head` is given back
  logic is_dead, is_reset;
  assign is_dead  = dead_q[who_q];
  assign is_reset = reset_q[who_q];

  always_ff @(posedge clk_i) begin
    if (phase_q == LOAD) begin
      state_q <= loaded;
      sum_q   <= loaded.una + {24'd0, op_q == OP_OFFER ? loaded.sent : loaded.count};
      if (op_q == OP_REFUSED) begin
        delta_q <= refused.sequence_number - loaded.una;
      end else if (ack.short_number) begin
        delta_q <= {16'd0, ack.sequence_number[15:0] - loaded.una[15:0]};
      end else begin
        delta_q <= ack.sequence_number - loaded.una;
      end
      elapsed_q  <= now_q - loaded.since;
      limit_q    <= {16'd0, settings.ticks} << doublings(loaded, settings.backoff);
      pace_age_q <= now_q[15:0] - loaded.paced_at;
      interval_q <= loaded.pace > loaded.asked ? loaded.pace : loaded.asked;
    end else if (phase_q == RUN) begin
      state_q <= next;
      late_q  <= elapsed_q > limit_q;
      if (step) delta_q <= delta_q - 1'b1;
    end
  end

  // ---- Run ----
  logic release_start;  // so is the slot of a start that is forgotten
  logic link, back, init, give_up, match;
  logic offer, timeout, push_event, mark_insert, paced, dead, lost, fits;
  sent_op_t sent_op;
  event_t   pushed;
  resent_t  offered;

  assign paced = interval_q != '0;
  assign match = sent_op.is_load == (refused.op == TLP_MRD64) &&
      {16'd0, sent_op.address} == refused.address && refused.op inside {TLP_MRD64, TLP_MWR64};

  // Out of every operation comes the next state and what is to be done with it.
  always_comb begin
    next          = state_q;
    finish        = 1'b0;
    check         = 1'b0;
    store         = 1'b0;
    step          = 1'b0;
    back          = 1'b0;
    init          = 1'b0;
    give_up       = 1'b0;
    link          = 1'b0;
    release_start = 1'b0;
    offer         = 1'b0;
    timeout       = 1'b0;
    push_event    = 1'b0;
    mark_insert   = 1'b0;
    ack_pop       = 1'b0;
    refused_pop   = 1'b0;
    dead          = is_dead;
    lost          = lost_q[who_q];
    fits          = 1'b0;
    if (phase_q == RUN) begin
      unique case (op_q)
        OP_START: begin
          finish        = 1'b1;
          release_start = forget_q;
          if (!forget_q) begin
            store      = 1'b1;
            link       = (is_dead ? state_q.sent : state_q.count) != '0;
            next.tail  = slot_t'(start_slot_q);
            next.count = state_q.count + 1'b1;
            if (!link) next.head = slot_t'(start_slot_q);
            if (is_dead || state_q.sent == state_q.count) next.sent = state_q.sent + 1'b1;
            if (state_q.count == '0) begin
              next.since = now_q;
              next.timed = settings.stretch != '0;
            end
          end
        end

        OP_ACK: begin
          fits = !is_dead && !is_reset && delta_q <= {24'd0, state_q.count};
          if (fits && !ack.short_number) {next.asked, next.heard} = {ack.interval, 1'b1};
          if (!fits) begin
            // Slots may have been given back before a reset came.
            finish  = 1'b1;
            ack_pop = 1'b1;
            store   = 1'b1;
          end else if (delta_q != '0) begin
            step    = 1'b1;
            ack_pop = delta_q == 32'd1 && !ack.nack;
            finish  = ack_pop || start_q;
            store   = finish;
          end else begin
            finish  = 1'b1;
            ack_pop = 1'b1;
            store   = 1'b1;
            if (ack.nack && state_q.sent != '0) begin
              back = 1'b1;
              // Frames behind a refused one are missing because of it.
              if (!state_q.voided) begin
                next.pace     = slower(state_q.pace, settings.pace_up, settings.pace_max);
                next.acked    = '0;
                next.paced_at = now_q[15:0];
              end
            end
          end
        end

        OP_REFUSED: begin
          if (is_dead || is_reset || delta_q >= {24'd0, state_q.count}) begin
            finish      = 1'b1;
            refused_pop = 1'b1;
            store       = 1'b1;
          end else if (start_q) begin
            finish = 1'b1;
            store  = 1'b1;
          end else if (delta_q != '0) begin
            step = 1'b1;
          end else begin
            check = 1'b1;
          end
        end

        OP_CLEAR: begin
          dead = 1'b1;
          if (!is_dead) begin
            if (is_reset) begin
              next.sent = state_q.count;
              store     = start_q;
              finish    = start_q;
            end else begin
              finish = 1'b1;
              dead   = 1'b0;
            end
          end else if (state_q.sent != '0) begin
            step   = 1'b1;
            finish = start_q;
            store  = start_q;
          end else begin
            finish = 1'b1;
            store  = 1'b1;
            if (is_reset) begin
              init         = 1'b1;
              next         = '0;
              next.una     = first_q[who_q];
              next.stretch = settings.stretch;
              dead         = 1'b0;
              lost         = 1'b0;
            end
          end
        end

        OP_MARK: begin
          finish      = 1'b1;
          mark_insert = 1'b1;
        end

        OP_OFFER: begin
          finish = 1'b1;
          if (!is_dead && !is_reset && state_q.sent < state_q.count &&
              (!paced || offer_empty)) begin
            offer       = 1'b1;
            store       = 1'b1;
            next.sent   = state_q.sent + 1'b1;
            next.cursor = slot_t'(chain_next);
            if (state_q.sent == '0) next.since = now_q;
          end
        end

        OP_SCAN: begin
          finish = start_q || is_dead || is_reset || state_q.count == '0;
          check  = !finish;
        end

        default: finish = 1'b1;  // OP_STATUS
      endcase
    end else if (phase_q == CHECK) begin
      if (op_q == OP_REFUSED) begin
        refused_pop = 1'b1;
        store       = 1'b1;
        if (match && !state_q.voided && !is_reset) begin
          push_event  = 1'b1;
          next.voided = 1'b1;
          back        = 1'b1;
        end
      end else if (late_q && state_q.sent != '0 && !is_reset) begin
        timeout = 1'b1;
        store   = 1'b1;
        if (state_q.retries >= settings.limit) begin
          give_up    = 1'b1;
          push_event = 1'b1;
          dead       = 1'b1;
          lost       = 1'b1;
          next.sent  = state_q.count;
        end else begin
          back         = 1'b1;
          next.retries = state_q.retries + 1'b1;
          if (state_q.stretch < settings.stretch) next.stretch = state_q.stretch + 1'b1;
          next.pace     = slower(state_q.pace, 4'd2, settings.pace_max);
          next.acked    = '0;
          next.paced_at = now_q[15:0];
        end
      end else if (paced && pace_age_q >= settings.pace_ticks) begin
        store         = 1'b1;
        next.pace     = faster(state_q.pace, settings.pace_down);
        next.acked    = '0;
        next.paced_at = now_q[15:0];
        next.heard    = 1'b0;
        if (!state_q.heard) next.asked = '0;
      end
    end

    if (step) begin
      next.head = slot_t'(chain_next);
      if (state_q.sent != '0) next.sent = state_q.sent - 1'b1;
      else next.cursor = slot_t'(chain_next);
      if (!is_dead) begin
        next.una     = state_q.una + 1'b1;
        next.count   = state_q.count - 1'b1;
        next.voided  = 1'b0;
        next.retries = '0;
        next.since   = now_q;
        next.timed   = 1'b0;
        if (state_q.timed) begin
          next.stretch = fitting(state_q.stretch, settings.stretch, elapsed_q, limit_q);
        end
        if (paced) begin
          next.acked = state_q.acked + 1'b1;
          if (next.acked >= settings.pace_frames) begin
            next.pace     = faster(state_q.pace, settings.pace_down);
            next.acked    = '0;
            next.paced_at = now_q[15:0];
          end
        end
      end
    end
    if (back) begin
      next.sent   = '0;
      next.cursor = state_q.head;
      next.timed  = 1'b0;
    end
  end

  // ---- Consequences for the session ----
  logic alive, wanted, open;
  assign alive  = !dead && valid_i[who_q] && (!is_reset || init);
  assign wanted = next.sent < next.count;
  assign open   = alive && !wanted && next.count < settings.window;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      known_q  <= '0;
      open_q   <= '0;
      lost_q   <= '0;
      dead_q   <= '0;
      reset_q  <= '0;
      clear_q  <= '0;
      active_q <= '0;
      want_q   <= '0;
    end else begin
      if (phase_q == RUN || phase_q == CHECK) begin
        dead_q[who_q] <= dead;
        lost_q[who_q] <= lost;
        if (init) begin
          known_q[who_q] <= 1'b1;
          reset_q[who_q] <= 1'b0;
        end
        if (store) begin
          open_q[who_q]   <= open;
          active_q[who_q] <= !dead && next.count != '0;
          want_q[who_q]   <= !dead && wanted;
          clear_q[who_q]  <= (is_reset && !init) || (dead && next.sent != '0);
        end else if (finish && op_q == OP_CLEAR) begin
          clear_q[who_q] <= 1'b0;
        end
      end
      // Closed at once; what the engine found just now does not know of it.
      if (start_q && op_q != OP_START) open_q[start_session_q] <= 1'b0;
      if (start_i) open_q[start_index] <= 1'b0;
      if (give_up_i) open_q <= '0;
      if (reset_i) begin
        open_q[reset_index]  <= 1'b0;
        reset_q[reset_index] <= 1'b1;
        clear_q[reset_index] <= 1'b1;
      end
    end
  end

  assign open_o = any_slot ? open_q & ~blocked : '0;
  always_ff @(posedge clk_i) given_up_q <= !rst_i && give_up_i;
  assign lost_o    = (lost_q & ~reset_q) | ~valid_i | {Sessions{given_up_q}};

  assign nxt_write = store && (init || op_q == OP_START);
  assign nxt_value = init ? first_q[who_q] : sum_q + 1'b1;

  // ---- New frames ----
  // A frame whose session is reset before the engine saw it belongs to the old session.
  always_ff @(posedge clk_i) begin
    if (start_i) begin
      start_session_q <= start_index;
      start_slot_q    <= alloc_slot;
      forget_q        <= reset_q[start_index];
    end
    if (reset_i && reset_index == (start_i ? start_index : start_session_q)) forget_q <= 1'b1;
    if (rst_i) begin
      start_q   <= 1'b0;
      copying_q <= 1'b0;
    end else begin
      if (start_i) start_q <= 1'b1;
      else if (phase_q == RUN && op_q == OP_START) start_q <= 1'b0;
      if (copy_frame_we_i) copying_q <= 1'b0;
      else if (start_i) copying_q <= 1'b1;
    end
  end

  send_slots #(
    .Slots(SendSlots)
  ) u_slots (
    .clk_i,
    .rst_i,
    .any_o       (any_slot),
    .alloc_i     (start_i),
    .alloc_slot_o(alloc_slot),
    .free_i      (step || release_start),
    .free_slot_i (release_start ? start_slot_q : state_q.head[SlotW-1:0]),
    .link_i      (link),
    .link_from_i (state_q.tail[SlotW-1:0]),
    .link_to_i   (start_slot_q),
    .look_i      (op_q == OP_OFFER ? state_q.cursor[SlotW-1:0] : state_q.head[SlotW-1:0]),
    .next_o      (chain_next),
    .empty_o     (no_slot)
  );

  // ---- Frames to be sent again ----
  logic take, read_frame, arm_offer;
  slot_t     read_slot;
  resent_t   resent;
  set_t      released;
  tx_frame_t kept;

  assign take = offer && !(reset_i && reset_index == who_q);
  assign offered = '{
          session: 8'(who_q),
          slot: state_q.cursor,
          sequence_number: sum_q,
          voided: state_q.voided && state_q.sent == '0,
          pace: interval_q
      };

  resend_offer #(
    .Sessions(Sessions)
  ) u_offer (
    .clk_i,
    .rst_i,
    .room_o        (offer_room),
    .empty_o       (offer_empty),
    .take_i        (take),
    .take_frame_i  (offered),
    .back_i        (back || give_up),
    .acked_i       (step && !is_dead),
    .acked_number_i(state_q.una[7:0]),
    .session_i     (who_q),
    .reset_i,
    .reset_index_i (reset_index),
    .copying_i     (start_i || copying_q),
    .read_o        (read_frame),
    .read_slot_o   (read_slot),
    .valid_o       (rs_valid_o),
    .frame_o       (resent),
    .lock_i        (rs_lock_i),
    .pop_i         (rs_pop_i),
    .arm_o         (arm_offer),
    .release_o     (released)
  );

  always_comb begin
    rs_frame_o         = kept;
    rs_frame_o.session = '{valid: 1'b1, index: resent.session};
    rs_frame_o.pc_id   = {8'd0, resent.session};
    if (resent.voided) begin
      rs_frame_o.compact = 1'b1;
      rs_frame_o.control = 1'b1;
      rs_frame_o.trail   = CONTROL_VOID;
      rs_frame_o.address = '0;
      rs_frame_o.data_dw = '0;
      rs_frame_o.tag     = '0;
    end
  end
  assign rs_sequence_o = resent.sequence_number;

  send_buffer #(
    .Slots(SendSlots)
  ) u_buffer (
    .clk_i,
    .copy_slot_i (start_i ? alloc_slot : start_slot_q),
    .copy_frame_we_i,
    .copy_frame_i,
    .copy_we_i,
    .copy_idx_i,
    .copy_word_i,
    .frame_read_i(read_frame),
    .frame_slot_i(read_slot[SlotW-1:0]),
    .frame_o     (kept),
    .pay_read_i  (rs_valid_o),
    .pay_slot_i  (resent.slot[SlotW-1:0]),
    .pay_idx_i,
    .pay_word_o,
    .op_read_i   (check),
    .op_slot_i   (state_q.head[SlotW-1:0]),
    .op_o        (sent_op)
  );

  // ---- Pace ----
  // Some cycles are over when the engine gets to a start, and some pass until the block is gone.
  localparam logic [11:0] PaceBehind = 12'd8;
  logic arm_start, pacer_busy;
  logic [11:0] arm_pace;
  assign arm_start = phase_q == RUN && op_q == OP_START && !forget_q && paced;
  assign arm_pace  = arm_offer ? resent.pace : interval_q;

  session_pacer #(
    .Sessions(Sessions)
  ) u_pacer (
    .clk_i,
    .rst_i,
    .hold_i        (take && paced),
    .hold_session_i(who_q),
    .arm_i         (arm_start || arm_offer),
    .arm_session_i (arm_offer ? resent.session[SessionW-1:0] : who_q),
    .arm_cycles_i  (arm_pace < PaceBehind ? '0 : arm_pace - PaceBehind),
    .release_i     (released),
    .blocked_o     (blocked),
    .busy_o        (pacer_busy)
  );

  // ---- Marks, events, status ----
  logic mark_failed, mark_event_valid, mark_event_ready, marks_busy;
  event_t mark_event;

  always_ff @(posedge clk_i) begin
    if (mark_valid_i && mark_ready_o) begin
      mark_session_q <= mark_session_i;
      mark_cookie_q  <= mark_cookie_i;
      mark_failed_q  <= given_up_q;  // what is in front of it may have been dropped
    end
    if (reset_i && 16'(reset_index) == (mark_q ? mark_session_q : mark_session_i)) begin
      mark_failed_q <= 1'b1;
    end
    if (status_read_i) status_session_q <= status_index_i[SessionW-1:0];
    if (rst_i) begin
      mark_q   <= 1'b0;
      status_q <= 1'b0;
    end else begin
      if (mark_valid_i && mark_ready_o) mark_q <= marks_room;
      else if (mark_insert) mark_q <= 1'b0;
      if (status_read_i) status_q <= 1'b1;
      else if (phase_q == RUN && op_q == OP_STATUS) status_q <= 1'b0;
    end
  end

  assign mark_failed = mark_failed_q || is_dead || is_reset || !valid_i[who_q] ||
      mark_session_q >= 16'(Sessions);

  flush_marks u_marks (
    .clk_i,
    .rst_i,
    .room_o          (marks_room),
    .insert_i        (mark_insert),
    .insert_failed_i (mark_failed),
    .insert_session_i(mark_session_q),
    .insert_cookie_i (mark_cookie_q),
    .insert_left_i   (state_q.count),
    .acked_i         (step && !is_dead),
    .failed_i        (give_up || init),
    .session_i       (16'(who_q)),
    .event_valid_o   (mark_event_valid),
    .event_o         (mark_event),
    .event_ready_i   (mark_event_ready),
    .busy_o          (marks_busy)
  );

  // The engine begins nothing that may need an event unless two are free; a mark takes one only if
  // that leaves them.
  assign mark_event_ready = event_count <= 3'd1 && !push_event;
  always_comb begin
    pushed = mark_event;
    if (push_event) pushed = give_up ? lost_event(state_q.una, sum_q) : refused_event(refused);
    if (push_event) pushed.who = 16'(who_q);
  end

  sync_fifo #(
    .data_t(event_t),
    .Depth (EventDepth)
  ) u_events (
    .clk_i,
    .rst_i,
    .wdata_i (pushed),
    .wvalid_i(push_event || (mark_event_valid && mark_event_ready)),
    .wready_o(),
    .rdata_o (event_o),
    .rvalid_o(event_valid_o),
    .rready_i(event_ready_i),
    .count_o (event_count)
  );

  always_ff @(posedge clk_i) begin
    if (phase_q == RUN && op_q == OP_STATUS) begin
      status_o           <= '0;
      status_o.lost      <= lost_q[who_q];
      status_o.open      <= open_o[who_q];
      status_o.resending <= want_q[who_q];
      status_o.idle      <= state_q.count == '0;
      status_o.valid     <= valid_i[who_q];
      status_o.una       <= state_q.una;
      status_o.nxt       <= sum_q;
      status_o.pace      <= {20'd0, interval_q};
      status_o.retries   <= state_q.retries;
    end
    status_done_o <= !rst_i && phase_q == RUN && op_q == OP_STATUS;
  end

  assign cnt_tx_timeout_o = timeout;
  assign busy_o = phase_q != PICK || start_q || copying_q || ack_valid || refused_valid || mark_q ||
      status_q || status_done_o || |active_q || |clear_q || |want_q || scan_any_q || scan_due_q ||
      !offer_empty || pacer_busy || marks_busy || event_valid_o || !no_slot;

  logic unused;  // larger sessions do not exist
  assign unused = ^{reset_index_i, start_session_i, status_index_i, read_slot};

`ifndef SYNTHESIS
  set_t open_before_q;
  always_ff @(posedge clk_i) open_before_q <= open_o;

  initial
    assert (Sessions >= 2 && Sessions <= 256 && SendSlots <= 256)
    else $fatal(1, "resend has 2 to 256 sessions and at most 256 slots");
  assert property (@(posedge clk_i) disable iff (rst_i) start_i |-> open_before_q[start_index])
  else $error("resend: a frame of a session that is not open");
  assert property (@(posedge clk_i) disable iff (rst_i) start_i |-> !start_q && !copying_q)
  else $error("resend: a frame starts before the last one is copied");
  assert property (@(posedge clk_i) disable iff (rst_i) copy_frame_we_i |-> start_i || copying_q)
  else $error("resend: a frame is copied that did not start");
  assert property (@(posedge clk_i) disable iff (rst_i) !(arm_start && arm_offer))
  else $error("resend: two frames begin at once");
  assert property (@(posedge clk_i) disable iff (rst_i) status_read_i |-> !status_q)
  else $error("resend: a second look at the status before the first was answered");
`endif
endmodule
