// SPDX-License-Identifier: Apache-2.0
// The verdict on each received frame, lines 9b to 16 of the table in docs/wire-format.md, and what
// follows from it: a slot taken, a refusal to report, news for its session, one counter.
//
// Latency : commit_o in the cycle of last_i, combinational; everything else 1 cycle later.
// Clock   : clk_i (network).
// Drops   : what is not accepted; each good frame is counted exactly once.
// Source  : docs/wire-format.md.
module rx_verdict
  import ipnuma_pkg::*;
  import rx_pkg::*;
(
  input logic clk_i,
  input logic rst_i,

  /// Last word of a frame that the MAC found good.
  input logic                  last_i,
  /// Lines 1 to 9; Open if none applies.
  input verdict_e              headers_i,
  input logic                  end_ok_i,
  /// It may be right with another tag.
  input logic                  end_but_tag_i,
  input rx_head_t              op_i,
  input error_report_t         report_i,
  input region_result_t        region_i,
  /// A slot was free when this frame's data began.
  input logic                  slot_i,
  /// The frame's session, if it has one: it exists and is with who sent the frame; it is a sealed one.
  input logic                  session_ok_i,
  input logic                  session_sealed_i,
  /// The session sends with it now.
  input logic           [ 5:0] session_epoch_i,
  /// The frame came sealed.
  input logic                  unsealed_i,
  /// The frame's number in its session, and the upper half of it.
  input order_e                order_i,
  input logic           [15:0] fold_i,
  /// The frame that the session expects was refused before: so.
  input logic                  held_i,
  input refusal_t              refusal_i,
  /// A session begins anew: nothing that came before counts for it.
  input logic                  reset_i,
  input logic           [ 7:0] reset_index_i,

  /// The slot is this frame's.
  output logic                 commit_o,
  output rx_op_t               commit_op_o,
  /// Pulse.
  output logic                 deny_valid_o,
  output deny_t                deny_o,
  /// With deny_valid_o, a frame of a session (pulse).
  output logic                 refuse_o,
  output refusal_t             refuse_as_o,
  /// Pulse.
  output logic                 report_valid_o,
  output error_report_t        report_o,
  /// Pulses for the session: its next frame was taken; acknowledge again; a frame is missing.
  output logic          [ 7:0] session_o,
  output logic          [15:0] number_o,
  output logic                 taken_o,
  output logic                 again_o,
  output logic                 gap_o,
  /// Pulses for the sending half.
  output logic                 ack_valid_o,
  output ack_t                 ack_o,
  output logic                 refused_valid_o,
  output refused_t             refused_o,
  /// Pulse; verdict_o says which counter.
  output logic                 count_o,
  output verdict_e             verdict_o
);
  verdict_e verdict, verdict_q;
  logic bad_session, wrong_order, again, refused, taken, of_session, forgotten;
  logic same, refused_again, both_bad_keys, several_q, refuse_q;
  logic
      count_q, deny_valid_q, report_valid_q, taken_q, again_q, gap_q, ack_valid_q, refused_valid_q;
  logic          [7:0] code;
  verdict_e            misplaced;
  deny_t               deny_q;
  error_report_t       report_q;
  ack_t                ack_q;
  logic          [7:0] session_q;

  // Line 9b.
  always_comb begin
    if (op_i.session.valid) begin
      bad_session = !session_ok_i || session_sealed_i != unsealed_i || op_i.unnumbered;
    end else begin
      bad_session = op_i.is_void || op_i.is_ack || unsealed_i;
    end
  end

  // Refused before.
  assign same = refusal_i.is_load == op_i.is_load && refusal_i.key == op_i.key &&
      refusal_i.offset == op_i.offset;
  assign refused_again = op_i.session.valid && held_i &&
      (same || (refusal_i.several && op_i.is_store));
  assign both_bad_keys = refusal_i.code == wire_pkg::ERR_BAD_KEY && code == wire_pkg::ERR_BAD_KEY;

  // Line 11b, for stores, loads and voids.
  assign wrong_order = op_i.session.valid && order_i != InOrder;
  assign misplaced = order_i == Old ? Duplicate : Gap;

  always_comb begin
    verdict = headers_i;
    refused = 1'b0;
    again   = 1'b0;
    code    = '0;
    if (headers_i == Open) begin
      if (bad_session) begin
        verdict = BadSession;
      end else if (op_i.is_store || op_i.is_load) begin
        if (!region_i.key_ok && !(op_i.session.valid ? end_ok_i : end_but_tag_i)) begin
          // A load must not get zeros because its key was altered on the way. In a session the entry's tag counts,
          // which it keeps when its region is revoked: who guesses is not answered.
          verdict = BadEndCode;
        end else if (!region_i.key_ok) begin
          verdict = BadKey;
          code    = wire_pkg::ERR_BAD_KEY;
          refused = !wrong_order;
          // It may have been taken before its region went away.
          again   = wrong_order && order_i == Old;
        end else if (!end_ok_i) begin
          verdict = BadEndCode;
        end else if (wrong_order) begin
          verdict = misplaced;
          again   = order_i == Old;
        end else if (refused_again) begin
          unique case (refusal_i.code)
            wire_pkg::ERR_BAD_SOURCE: verdict = BadSource;
            wire_pkg::ERR_BAD_RIGHTS: verdict = BadRights;
            wire_pkg::ERR_BAD_BOUNDS: verdict = BadBounds;
            default:                  verdict = BadKey;
          endcase
          code    = refusal_i.code;
          refused = 1'b1;
        end else if (!region_i.source_ok) begin
          verdict = BadSource;
          code    = wire_pkg::ERR_BAD_SOURCE;
          refused = 1'b1;
        end else if (!region_i.rights_ok) begin
          verdict = BadRights;
          code    = wire_pkg::ERR_BAD_RIGHTS;
          refused = 1'b1;
        end else if (!region_i.bounds_ok) begin
          verdict = BadBounds;
          code    = wire_pkg::ERR_BAD_BOUNDS;
          refused = 1'b1;
        end else begin
          verdict = !slot_i ? Overflow : op_i.is_store ? Store : Load;
        end
      end else if (!end_ok_i) begin
        verdict = BadEndCode;
      end else if (op_i.is_void) begin
        verdict = wrong_order ? misplaced : Void;
        again   = wrong_order && order_i == Old;
      end else if (op_i.is_ack) begin
        verdict = Ack;
      end else if (op_i.is_completion) begin
        verdict = slot_i ? Completion : Overflow;
      end else begin
        verdict = ErrorReport;
      end
    end
  end

  assign commit_o = last_i && verdict inside {Store, Load, Completion};
  assign commit_op_o = '{
          kind: op_i.is_store ? RX_STORE : op_i.is_load ? RX_LOAD : RX_COMPLETION,
          address: region_i.address,
          data_dw: op_i.data_dw,
          length: op_i.length,
          first_be: op_i.first_be,
          last_be: op_i.last_be,
          net_tag: op_i.tag,
          status: op_i.status,
          byte_count: op_i.byte_count,
          lower_address: op_i.lower_address,
          peer: op_i.peer,
          session: op_i.session,
          notify: op_i.is_store && region_i.notify,
          load_number: op_i.load_number,
          epoch: session_epoch_i
      };

  assign forgotten = reset_i && reset_index_i == op_i.session.index;
  assign of_session = last_i && op_i.session.valid && !forgotten;
  assign taken = of_session && verdict inside {Store, Load, Void};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      count_q         <= 1'b0;
      deny_valid_q    <= 1'b0;
      report_valid_q  <= 1'b0;
      taken_q         <= 1'b0;
      again_q         <= 1'b0;
      gap_q           <= 1'b0;
      ack_valid_q     <= 1'b0;
      refused_valid_q <= 1'b0;
      refuse_q        <= 1'b0;
    end else begin
      count_q         <= last_i;
      deny_valid_q    <= last_i && refused;
      report_valid_q  <= last_i && verdict == ErrorReport;
      taken_q         <= taken;
      again_q         <= of_session && again;
      gap_q           <= of_session && verdict == Gap;
      ack_valid_q     <= (taken && op_i.has_ack) || (of_session && verdict == Ack);
      refused_valid_q <= of_session && verdict == ErrorReport;
      refuse_q        <= of_session && refused;
    end
    if (last_i) begin
      verdict_q <= verdict;
      several_q <= held_i && both_bad_keys && (refusal_i.several || !same);
      report_q <= report_i;
      session_q <= op_i.session.index;
      ack_q <= '{
          session: op_i.session.index,
          sequence_number: op_i.ack_number,
          short_number: !op_i.is_ack,
          nack: op_i.is_ack && op_i.nack,
          interval: op_i.sequence_number[11:0]
      };
      deny_q <= '{
          code: code,
          is_load: op_i.is_load,
          sequence_number: {op_i.session.valid ? fold_i : 16'd0, op_i.sequence_number},
          address: {16'd0, op_i.key, op_i.offset},
          length: op_i.length,
          byte_count: 9'(read_byte_count(op_i.length, op_i.first_be, op_i.last_be)),
          first_byte: first_byte(op_i.first_be),
          net_tag: op_i.tag,
          peer: op_i.peer,
          session: op_i.session,
          load_number: op_i.load_number,
          epoch: session_epoch_i
      };
    end
  end

  // A session that begins anew now gets nothing of the old one.
  logic live;
  assign live = !(reset_i && reset_index_i == session_q);

  assign deny_valid_o = deny_valid_q && (live || !deny_q.session.valid);
  assign deny_o = deny_q;
  assign refuse_o = refuse_q && live;
  assign refuse_as_o = '{
          several: several_q,
          code: deny_q.code,
          is_load: deny_q.is_load,
          key: deny_q.address[47:32],
          offset: deny_q.address[31:0]
      };
  assign report_valid_o = report_valid_q;
  assign report_o = report_q;
  assign session_o = session_q;
  assign number_o = deny_q.sequence_number[15:0];
  assign taken_o = taken_q && live;
  assign again_o = again_q && live;
  assign gap_o = gap_q && live;
  assign ack_valid_o = ack_valid_q && live;
  assign ack_o = ack_q;
  assign refused_valid_o = refused_valid_q && live;
  assign refused_o = '{
          session: session_q,
          code: report_q.code,
          op: report_q.op,
          sequence_number: report_q.sequence_number,
          address: report_q.address
      };
  assign count_o = count_q;
  assign verdict_o = verdict_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && commit_o && (op_i.is_store || op_i.is_load)) begin
      a_checked :
      assert (region_i.key_ok && region_i.source_ok && region_i.rights_ok &&
                          region_i.bounds_ok && end_ok_i)
      else $error("an operation was accepted without its check");
      a_in_order :
      assert (!op_i.session.valid || (session_ok_i && order_i == InOrder))
      else $error("an operation of a session was accepted out of order");
    end
    if (!rst_i && last_i) begin
      a_judged :
      assert (verdict != Open)
      else $error("a frame without a verdict");
    end
  end
`endif
endmodule
