// SPDX-License-Identifier: Apache-2.0
// When the host gets an interrupt: a ring's HEAD is not what software has seen, or the link has
// changed, and the cause is armed. An interrupt disarms its causes.
//
// Latency   : a cause to write_valid_o 1 cycle, or the rest of the moderation interval.
// Clock     : clk_i (PCIe).
// Handshake : a write is held until write_done_i.
// Drops     : causes that are not armed; they are told when they are.
// Source    : dissertation figure 3.5, step 8; PCI Express Base 2.0, 6.1.4.
module ring_interrupt
  import ring_types_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic      [31:0] now_us_i,
  input  logic      [15:0] moderation_us_i,
  input  logic      [63:0] address_i,
  input  logic      [31:0] data_i,
  input  logic      [15:0] rx_head_i,
  input  logic      [15:0] tx_head_i,
  /// In step with clk_i.
  input  logic             link_i,
  /// Pulses: software has seen the entries before index_i.
  input  logic             rx_arm_i,
  input  logic             tx_arm_i,
  input  logic      [15:0] index_i,
  /// Pulse: which causes are armed.
  input  logic             armed_write_i,
  input  logic      [ 2:0] armed_i,
  output logic      [ 2:0] armed_o,
  output logic      [ 2:0] cause_o,
  output write_op_t        write_o,
  output logic             write_valid_o,
  input  logic             write_done_i,
  output logic             cnt_msi_o,
  output logic             busy_o
);
  logic [15:0] rx_seen_q, tx_seen_q;
  logic link_seen_q, busy_msi, go, fire;
  logic [2:0] armed_q, cause;

  assign cause = {link_i != link_seen_q, tx_head_i != tx_seen_q, rx_head_i != rx_seen_q};
  assign fire  = |(cause & armed_q);
  assign go    = write_valid_o && write_done_i;

  msi u_msi (
    .clk_i,
    .rst_i,
    .now_us_i,
    .moderation_us_i,
    .on_arrival_i(|armed_q),
    .on_event_i  (1'b0),
    // The interrupt that leaves now is for what is there now.
    .arrival_i   (fire && !go),
    .event_i     (1'b0),
    .valid_o     (write_valid_o),
    .take_i      (write_done_i),
    .busy_o      (busy_msi)
  );

  assign write_o = '{address: address_i, immediate: 1'b1, data: data_i, word: '0, bytes: '0};

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      rx_seen_q   <= '0;
      tx_seen_q   <= '0;
      link_seen_q <= 1'b0;
      armed_q     <= '0;
    end else begin
      if (go) armed_q <= armed_q & ~cause;
      if (armed_write_i) armed_q <= armed_i;
      if (armed_write_i && armed_i[2]) link_seen_q <= link_i;
      if (rx_arm_i) begin
        rx_seen_q  <= index_i;
        armed_q[0] <= 1'b1;
      end
      if (tx_arm_i) begin
        tx_seen_q  <= index_i;
        armed_q[1] <= 1'b1;
      end
    end
  end

  assign armed_o   = armed_q;
  assign cause_o   = cause;
  assign cnt_msi_o = go;
  assign busy_o    = fire || busy_msi;
endmodule
