// SPDX-License-Identifier: Apache-2.0
// Types inside the sender of sessions: its phases, its settings, the state of a session, its events,
// and how a session's pace changes.

package resend_pkg;
  import ipnuma_pkg::*;
  import wire_pkg::*;

  // A place in the send buffer.
  typedef logic [7:0] slot_t;

  // Cycles between two frames of a session that lost one for the first time.
  localparam logic [12:0] PACE_FIRST = 13'd12;
  // A pace below this is none: frames need that long on the line.
  localparam logic [12:0] PACE_LEAST = 13'd10;
  // Frames in flight whose numbers the receiver still tells from old ones, and that `count` holds.
  localparam logic [7:0] MOST_IN_FLIGHT = 8'd127;

  // The engine's phases, and what it works on.
  typedef enum logic [1:0] {
    PICK,
    LOAD,
    RUN,
    CHECK
  } phase_e;
  typedef enum logic [3:0] {
    OP_NONE,
    OP_START,
    OP_ACK,
    OP_REFUSED,
    OP_CLEAR,
    OP_MARK,
    OP_STATUS,
    OP_OFFER,
    OP_SCAN
  } op_e;

  // Registers of the sender.
  typedef struct packed {
    logic [15:0] ticks;        // time-out
    logic [7:0]  limit;        // time-outs without progress before the peer is lost
    logic [3:0]  backoff;      // how often the time-out doubles
    logic [3:0]  stretch;      // the same while the round trip is not known; 0: never measured
    logic [7:0]  window;       // frames in flight
    logic [7:0]  pace_frames;  // the pace gets faster after so many acknowledged frames,
    logic [15:0] pace_ticks;   // or after so many ticks,
    logic [3:0]  pace_down;    // by pace >> this, and 1;
    logic [3:0]  pace_up;      // slower by pace >> this, and 1, when a frame is missing,
    logic [11:0] pace_max;     // but never slower than this; 0: frames are never paced
  } settings_t;

  // State of one session. Its frames in the buffer are a chain of slots from `head` to `tail`.
  typedef struct packed {
    logic [31:0] una;       // number of the first frame that is not acknowledged, in slot `head`
    logic [7:0]  count;     // frames that are not acknowledged
    logic [7:0]  sent;      // of them sent since the last time the session went back; of a dead
                            // session: slots that it has still to give back
    logic [7:0]  retries;   // time-outs since the last progress
    logic        voided;    // the frame in `head` was refused and is sent as a void
    logic [11:0] pace;      // cycles from frame to frame, 0: as they come
    logic [7:0]  acked;     // acknowledged frames since the pace last changed
    logic [15:0] paced_at;  // tick at which the pace last changed
    logic [11:0] asked;     // the same, asked for by the peer; the longer one holds
    logic        heard;     // the peer has said so since a look at the time
    logic [31:0] since;     // tick at which the time-out began
    logic        timed;     // it began with the frame in `head`, which was sent once
    logic [3:0]  stretch;   // how often the time-out is doubled for the sake of the round trip
    slot_t       head;
    slot_t       tail;
    slot_t       cursor;    // slot of frame una + sent, if sent < count
  } sender_t;

  // A frame on its way from the send buffer to the frame builder.
  typedef struct packed {
    logic [7:0]  session;
    slot_t       slot;
    logic [31:0] sequence_number;
    logic        voided;
    logic [11:0] pace;
  } resent_t;

  // What an error report is compared with.
  typedef struct packed {
    logic        is_load;
    logic [47:0] address;  // wire address, DW aligned
  } sent_op_t;

  // A peer was given up that had acknowledged all before `una`, of all before `nxt`; `who` is left
  // open here and in the next.
  function automatic event_t lost_event(logic [31:0] una, logic [31:0] nxt);
    return '{code: EVENT_PEER_LOST, op: '0, number: una[15:0], who: '0, address: {nxt, una}};
  endfunction

  // An operation was refused.
  function automatic event_t refused_event(refused_t refused);
    event_t told;
    told = '{
        code: refused.code,
        op: refused.op,
        number: refused.sequence_number[15:0],
        who: '0,
        address: refused.address
    };
    return told;
  endfunction

  // How often the time-out of a session is doubled: for its round trip, or for the time-outs that
  // came, whichever is more.
  function automatic logic [3:0] doublings(sender_t session, logic [3:0] backoff);
    logic [3:0] waits;
    waits = session.retries < 8'(backoff) ? session.retries[3:0] : backoff;
    return waits < session.stretch ? session.stretch : waits;
  endfunction

  // The doublings after a round trip of `ticks` that was measured under a time-out of `limit`: the
  // least with which the time-out has twice the round trip, but one more and three less at most.
  function automatic logic [3:0] fitting(logic [3:0] now, logic [3:0] most, logic [31:0] ticks,
                                         logic [31:0] limit);
    logic [35:0] twice, most_ticks;
    twice      = {3'd0, ticks, 1'b0};
    most_ticks = {4'd0, limit};
    if (twice > most_ticks) return now < most ? now + 4'd1 : now;
    for (int unsigned less = 3; less > 0; less--) begin
      if (now >= 4'(less) && twice << less <= most_ticks) return now - 4'(less);
    end
    return now;
  endfunction

  // The pace after a loss.
  function automatic logic [11:0] slower(logic [11:0] pace, logic [3:0] shift, logic [11:0] most);
    logic [12:0] sum;
    sum = {1'b0, pace} + {1'b0, pace >> shift} + 13'd1;
    if (sum < PACE_FIRST) sum = PACE_FIRST;
    return sum > {1'b0, most} ? most : sum[11:0];
  endfunction

  // The pace after some time without a loss.
  function automatic logic [11:0] faster(logic [11:0] pace, logic [3:0] shift);
    logic [12:0] less;
    less = {1'b0, pace >> shift} + 13'd1;
    return {1'b0, pace} < less + PACE_LEAST ? '0 : pace - less[11:0];
  endfunction
endpackage
