// SPDX-License-Identifier: Apache-2.0
// What the NIC tells the host on its own: events into a ring in memory, and interrupts.
//
// Latency   : as in event_queue and msi, 1 cycle of clk_pcie_i more to the first beat of the TLP.
// Clock     : events on clk_net_i, all else on clk_pcie_i.
// Handshake : as in event_queue; m_tlp as in axis_if. An interrupt is offered behind the event that it
//             tells of; one for an arrival is offered after arrival_i.
// Drops     : events that find no room; counted.
// Source    : ours.
module host_notice
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Events that can wait; a power of two from 4.
  parameter int unsigned Depth = 8
) (
  input  logic   clk_net_i,
  input  logic   rst_net_i,
  input  logic   event_valid_i,
  input  event_t event_i,
  output logic   event_ready_o,
  output logic   cnt_event_lost_o,
  output logic   busy_net_o,

  input  logic              clk_pcie_i,
  input  logic              rst_pcie_i,
  input  logic       [15:0] completer_id_i,
  /// Memory requests may be sent; else what there is to tell waits.
  input  logic              bus_master_i,
  input  logic       [31:0] now_us_i,
  input  logic       [63:0] event_base_i,
  input  logic       [ 4:0] event_log2_i,
  /// Pulse: the ring begins anew; tail and base may change with it.
  input  logic              event_restart_i,
  input  logic       [31:0] event_tail_i,
  input  logic       [63:0] msi_address_i,
  input  logic       [31:0] msi_data_i,
  input  logic       [15:0] msi_moderation_us_i,
  /// [0] on arrival, [1] on events.
  input  logic       [ 1:0] msi_control_i,
  /// Pulse: a store that its region announces has left.
  input  logic              arrival_i,
         axis_if.src        m_tlp,
  output logic              cnt_event_written_o,
  output logic              cnt_msi_o,
  output logic              busy_pcie_o
);
  logic entry_valid, msi_valid, take, busy_queue, busy_msi, busy_write;
  logic         [63:0] entry_address;
  event_entry_t        entry;

  event_queue #(
    .Depth(Depth)
  ) u_queue (
    .clk_net_i,
    .rst_net_i,
    .event_valid_i,
    .event_i,
    .event_ready_o,
    .cnt_event_lost_o,
    .busy_net_o,
    .clk_pcie_i,
    .rst_pcie_i,
    .base_i         (event_base_i),
    .log2_i         (event_log2_i),
    .restart_i      (event_restart_i),
    .tail_i         (event_tail_i),
    .write_valid_o  (entry_valid),
    .write_address_o(entry_address),
    .write_entry_o  (entry),
    .write_take_i   (take),
    .busy_pcie_o    (busy_queue)
  );

  msi u_msi (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .now_us_i,
    .moderation_us_i(msi_moderation_us_i),
    .on_arrival_i   (msi_control_i[0]),
    .on_event_i     (msi_control_i[1]),
    .arrival_i,
    .event_i        (cnt_event_written_o),
    .valid_o        (msi_valid),
    .take_i         (take && !entry_valid),
    .busy_o         (busy_msi)
  );

  // Events first: one interrupt does for all that are there, and the ring bounds them.
  posted_write u_write (
    .clk_i    (clk_pcie_i),
    .rst_i    (rst_pcie_i),
    .completer_id_i,
    .bus_master_i,
    .valid_i  (entry_valid || msi_valid),
    .address_i(entry_valid ? entry_address : msi_address_i),
    .data_i   (entry_valid ? entry : 128'(msi_data_i)),
    .four_i   (entry_valid),
    .take_o   (take),
    .m_tlp,
    .busy_o   (busy_write)
  );

  assign cnt_event_written_o = entry_valid && take;
  assign cnt_msi_o           = msi_valid && take && !entry_valid;
  assign busy_pcie_o         = busy_queue || busy_msi || busy_write;
endmodule
