// SPDX-License-Identifier: Apache-2.0
// Decides when the host gets a message-signalled interrupt: after what it is to see has been written, and not
// more often than once in moderation_us_i.
//
// Latency   : 1 cycle of clk_i from a cause to valid_o, or the rest of the interval and 1 cycle.
// Clock     : clk_i (PCIe).
// Handshake : the interrupt goes in the cycle with valid_o and take_i. A cause in that cycle or later
//             makes another one.
// Drops     : causes that are switched off. Causes within an interval give one interrupt at its end.
// Source    : PCI Express Base 2.0, 6.1.4; moderation as in Ethernet adapters.
module msi (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [31:0] now_us_i,
  /// Shortest time from one interrupt to the next, microseconds.
  input  logic [15:0] moderation_us_i,
  input  logic        on_arrival_i,
  input  logic        on_event_i,
  /// Pulses: a store that its region announces, or an event, is on its way to memory.
  input  logic        arrival_i,
  input  logic        event_i,
  output logic        valid_o,
  input  logic        take_i,
  output logic        busy_o
);
  logic pending_q, sent_q, open_q, cause, go;
  logic [31:0] last_q, since;

  assign cause   = (arrival_i && on_arrival_i) || (event_i && on_event_i);
  assign since   = now_us_i - last_q;
  assign valid_o = pending_q && open_q;
  assign go      = valid_o && take_i;
  assign busy_o  = pending_q;

  // Compared a cycle ahead: what valid_o decides is late in its cycle.
  always_ff @(posedge clk_i) begin
    if (go) last_q <= now_us_i;
    if (go) open_q <= moderation_us_i == '0;
    else open_q <= !(sent_q && since < 32'(moderation_us_i));
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      pending_q <= 1'b0;
      sent_q    <= 1'b0;
    end else begin
      if (cause) pending_q <= 1'b1;
      else if (go || !(on_arrival_i || on_event_i)) pending_q <= 1'b0;
      // From the first interrupt on there is a last one.
      if (go) sent_q <= 1'b1;
    end
  end
endmodule
