// SPDX-License-Identifier: Apache-2.0
// The verdict on each received frame, lines 10 to 16 of the table in docs/wire-format.md, and what
// follows from it: a slot taken, a refusal to report, one counter.
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
  input logic           last_i,
  /// Lines 1 to 9; Open if none applies.
  input verdict_e       headers_i,
  input logic           end_ok_i,
  input rx_head_t       op_i,
  input error_report_t  report_i,
  input region_result_t region_i,
  /// A slot was free when this frame's data began.
  input logic           slot_i,

  /// The slot is this frame's.
  output logic          commit_o,
  output rx_op_t        commit_op_o,
  /// Pulse.
  output logic          deny_valid_o,
  output deny_t         deny_o,
  /// Pulse.
  output logic          report_valid_o,
  output error_report_t report_o,
  /// Pulse; verdict_o says which counter.
  output logic          count_o,
  output verdict_e      verdict_o
);
  verdict_e verdict, verdict_q;
  logic refused, count_q, deny_valid_q, report_valid_q;
  logic          [7:0] code;
  deny_t               deny_q;
  error_report_t       report_q;

  always_comb begin
    verdict = headers_i;
    refused = 1'b0;
    code    = '0;
    if (headers_i == Open) begin
      if (op_i.is_store || op_i.is_load) begin
        refused = 1'b1;
        if (!region_i.key_ok) begin
          verdict = BadKey;
          code    = wire_pkg::ERR_BAD_KEY;
        end else if (!end_ok_i) begin
          verdict = BadEndCode;
          refused = 1'b0;
        end else if (!region_i.source_ok) begin
          verdict = BadSource;
          code    = wire_pkg::ERR_BAD_SOURCE;
        end else if (!region_i.rights_ok) begin
          verdict = BadRights;
          code    = wire_pkg::ERR_BAD_RIGHTS;
        end else if (!region_i.bounds_ok) begin
          verdict = BadBounds;
          code    = wire_pkg::ERR_BAD_BOUNDS;
        end else begin
          verdict = !slot_i ? Overflow : op_i.is_store ? Store : Load;
          refused = 1'b0;
        end
      end else if (!end_ok_i) begin
        verdict = BadEndCode;
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
          peer: op_i.peer
      };

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      count_q        <= 1'b0;
      deny_valid_q   <= 1'b0;
      report_valid_q <= 1'b0;
    end else begin
      count_q        <= last_i;
      deny_valid_q   <= last_i && refused;
      report_valid_q <= last_i && verdict == ErrorReport;
    end
    if (last_i) begin
      verdict_q <= verdict;
      report_q <= report_i;
      deny_q <= '{
          code: code,
          is_load: op_i.is_load,
          sequence_number: op_i.sequence_number,
          address: {16'd0, op_i.key, op_i.offset},
          length: op_i.length,
          net_tag: op_i.tag,
          peer: op_i.peer
      };
    end
  end

  assign deny_valid_o   = deny_valid_q;
  assign deny_o         = deny_q;
  assign report_valid_o = report_valid_q;
  assign report_o       = report_q;
  assign count_o        = count_q;
  assign verdict_o      = verdict_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && commit_o && op_i.is_store | op_i.is_load) begin
      a_checked :
      assert (region_i.key_ok && region_i.source_ok && region_i.rights_ok &&
                          region_i.bounds_ok && end_ok_i)
      else $error("an operation was accepted without its check");
    end
    if (!rst_i && last_i) begin
      a_judged :
      assert (verdict != Open)
      else $error("a frame without a verdict");
    end
  end
`endif
endmodule
