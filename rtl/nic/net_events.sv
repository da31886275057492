// SPDX-License-Identifier: Apache-2.0
// What the network side has to tell the host, in one stream: events of the sessions, error reports
// about operations that were of no session, changes of the link.
//
// Latency   : 1 cycle for error reports, 2 to 3 for the link; none for the sessions' events.
// Clock     : clk_i (network).
// Handshake : valid and ready; until it is taken event_o may give way to a more urgent one, or to a link
//             that is as it was.
// Drops     : error reports that find their queue full; counted. A link that comes and goes while its
//             last event waits is one event, which says how the link is.
// Source    : ours.
module net_events
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Error reports that can wait; a power of two.
  parameter int unsigned Depth = 4
) (
  input  logic          clk_i,
  input  logic          rst_i,
  /// Asynchronous.
  input  logic          link_up_i,
  input  logic          session_valid_i,
  input  event_t        session_event_i,
  output logic          session_ready_o,
  /// Pulse: an error report that belongs to no session.
  input  logic          report_valid_i,
  input  logic   [ 7:0] report_code_i,
  input  logic   [ 7:0] report_op_i,
  input  logic   [15:0] report_sequence_i,
  input  logic   [63:0] report_address_i,
  output logic          event_valid_o,
  output event_t        event_o,
  input  logic          event_ready_i,
  output logic          cnt_event_lost_o,
  output logic          busy_o
);
  // Who is meant by an event that is of no session.
  localparam logic [15:0] Nobody = '1;

  logic link, told_q, link_valid, link_taken;
  logic report_valid, report_full, report_taken, report_room;
  event_t report, report_event, link_event;

  sync_ff #(
    .Width(1)
  ) u_link (
    .clk_i,
    .d_i(link_up_i),
    .q_o(link)
  );

  assign report_event = '{
          code: report_code_i,
          op: report_op_i,
          number: report_sequence_i,
          who: Nobody,
          address: report_address_i
      };

  sync_fifo #(
    .data_t(event_t),
    .Depth (Depth)
  ) u_reports (
    .clk_i,
    .rst_i,
    .wdata_i (report_event),
    .wvalid_i(report_valid_i),
    .wready_o(report_room),
    .rdata_o (report),
    .rvalid_o(report_valid),
    .rready_i(report_taken),
    .count_o ()
  );
  assign report_full = report_valid_i && !report_room;

  assign link_valid = link != told_q;
  assign link_event = '{
          code: link ? EVENT_LINK_UP : EVENT_LINK_DOWN,
          op: '0,
          number: '0,
          who: Nobody,
          address: '0
      };

  // Sessions first: their events are few, and each is said once.
  assign event_valid_o = session_valid_i || report_valid || link_valid;
  assign event_o = session_valid_i ? session_event_i : report_valid ? report : link_event;
  assign session_ready_o = event_ready_i;
  assign report_taken = event_ready_i && !session_valid_i;
  assign link_taken = event_ready_i && !session_valid_i && !report_valid && link_valid;

  always_ff @(posedge clk_i) begin
    if (rst_i) told_q <= 1'b0;
    else if (link_taken) told_q <= link;
  end

  always_ff @(posedge clk_i) cnt_event_lost_o <= report_full && !rst_i;

  assign busy_o = event_valid_o || cnt_event_lost_o;
endmodule
