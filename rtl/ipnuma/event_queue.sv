// SPDX-License-Identifier: Apache-2.0
// Events for the host: from the network side to entries of a ring in the host's memory.
//
// Entry number n (from 1) is written at base + 16 * ((n - 1) mod entries) while the host has consumed all but
// fewer than `entries` of those before it; else events wait here. Events for which there is no room here
// are counted, and told as one event when there is room again.
//
// Latency   : 2 edges of clk_pcie_i from an event's edge to write_valid_o.
// Clock     : events on clk_net_i, the ring on clk_pcie_i.
// Handshake : event_ready_o is low for single cycles only: events never hold their source up. A write is
//             done in the cycle with write_valid_o and write_take_i; its data hold until then, unless the
//             ring is begun anew or moved.
// Drops     : events that find no room: counted. Without a ring all events, not counted.
// Source    : ours; event queues of NVM Express and of RDMA adapters work alike.
module event_queue
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

  input  logic                clk_pcie_i,
  input  logic                rst_pcie_i,
  /// Address of the ring, 16-byte aligned.
  input  logic         [63:0] base_i,
  /// Entries of the ring, as a power of two, 16 at most; 0: no ring.
  input  logic         [ 4:0] log2_i,
  /// Pulse: the ring begins anew with entry 1.
  input  logic                restart_i,
  /// Entries that the host has consumed, counted from the beginning.
  input  logic         [31:0] tail_i,
  output logic                write_valid_o,
  output logic         [63:0] write_address_o,
  output event_entry_t        write_entry_o,
  input  logic                write_take_i,
  output logic                busy_pcie_o
);
  localparam logic [4:0] MaxLog2 = 5'd16;

  // ---- Network side ---------------------------------------------------------------------------
  event_t pushed, told;
  logic push, room, lost_any, drop;
  logic [31:0] lost_q;
  logic        lost_pulse_q;

  assign lost_any      = lost_q != '0;
  assign push          = event_valid_i || lost_any;
  assign event_ready_o = !(lost_any && room);
  assign drop          = event_valid_i && !room;
  always_comb begin
    pushed = event_i;
    if (lost_any) begin
      pushed = '{code: EVENT_OVERFLOW, op: '0, number: '0, who: '0, address: {32'd0, lost_q}};
    end
  end

  always_ff @(posedge clk_net_i) begin
    if (rst_net_i) begin
      lost_q       <= '0;
      lost_pulse_q <= 1'b0;
    end else begin
      lost_pulse_q <= drop;
      if (drop) lost_q <= lost_q + 32'd1;
      else if (lost_any && room) lost_q <= '0;
    end
  end
  assign cnt_event_lost_o = lost_pulse_q;
  // What waits for the host alone does not keep the clocks running.
  assign busy_net_o       = event_valid_i || (lost_any && room) || lost_pulse_q;

  // ---- Across ---------------------------------------------------------------------------------
  logic here, pop;
  async_fifo #(
    .data_t(event_t),
    .Depth (Depth)
  ) u_fifo (
    .wclk_i  (clk_net_i),
    .wrst_i  (rst_net_i),
    .wdata_i (pushed),
    .wvalid_i(push),
    .wready_o(room),
    .wcount_o(),
    .rclk_i  (clk_pcie_i),
    .rrst_i  (rst_pcie_i),
    .rdata_o (told),
    .rvalid_o(here),
    .rready_i(pop)
  );

  // ---- PCIe side ------------------------------------------------------------------------------
  logic [31:0] head_q, entries, place;
  logic [4:0] log2;
  logic off, full;

  assign off = log2_i == '0;
  assign log2 = log2_i > MaxLog2 ? MaxLog2 : log2_i;
  assign entries = 32'd1 << log2;
  assign place = head_q & (entries - 32'd1);
  assign full = head_q - tail_i >= entries;

  assign write_valid_o = here && !off && !full && !restart_i;
  assign write_address_o = {base_i[63:4], 4'd0} + 64'({place, 4'd0});
  assign write_entry_o = '{
          address: told.address,
          number: told.number,
          who: told.who,
          count: head_q[15:0] + 16'd1,
          op: told.op,
          code: told.code
      };
  assign pop = off || (write_valid_o && write_take_i);
  assign busy_pcie_o = here && (off || !full);

  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i || restart_i) head_q <= '0;
    else if (write_valid_o && write_take_i) head_q <= head_q + 32'd1;
  end

  // The ring is aligned.
  logic unused;
  assign unused = ^base_i[3:0];
endmodule
