// SPDX-License-Identifier: Apache-2.0
// Brings packets from host memory to the send buffer, in the order of their descriptors, several at
// once; moves HEAD when they have left.
//
// A packet has a slot of the buffer. It is read in as many reads as the max read request makes of it;
// when all have ended, in whatever order, and it is its turn, it is handed to the network side.
//
// Latency   : order_valid_i to the first op_valid_o 1 cycle, then a read whenever one is taken; the
//             last read's done_i to send_valid_o 1 cycle; sent_valid_i to HEAD 1 cycle, without report.
// Clock     : clk_i (PCIe).
// Handshake : orders, reads and packets are taken with valid and ready; a write-back is held until
//             write_done_i.
// Drops     : packets of an impossible length, and those that could not be read; counted.
// Source    : dissertation figure 3.5, steps 7 and 8.
module packet_fetch
  import ring_types_pkg::*;
#(
  /// Packets on their way; a power of two from 2 to 16.
  parameter int unsigned Slots = 8,
  /// Longest frame without FCS, bytes.
  parameter int unsigned MaxBytes = 1514,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  /// New packets may begin.
  input  logic              run_i,
  /// Max read request: 128 << this.
  input  logic       [ 1:0] max_read_i,
  input  logic       [63:0] base_i,
  input  logic       [15:0] mask_i,
  /// Pulse: HEAD is 0 again. Only while idle_o.
  input  logic              restart_i,
  input  order_t            order_i,
  input  logic              order_valid_i,
  output logic              order_take_o,
  output read_op_t          op_o,
  output logic              op_valid_o,
  input  logic              op_ready_i,
  input  read_done_t        done_i,
  output send_t             send_o,
  output logic              send_valid_o,
  input  logic              send_ready_i,
  /// The oldest packet handed over has left, or was dropped.
  input  logic              sent_valid_i,
  output logic              sent_ready_o,
  output write_op_t         write_o,
  output logic              write_valid_o,
  input  logic              write_done_i,
  output logic       [15:0] head_o,
  output logic              idle_o,
  output logic              cnt_bad_o,
  output logic              cnt_lost_o,
  output logic              cnt_packet_o
);
  localparam int unsigned MinBytes = 14;
  // Reads of a packet in flight: bounded by the tags.
  localparam int unsigned PendingW = 5;

  typedef struct packed {
    logic        bad;
    logic        report;
    logic [2:0]  offset;
    logic [13:0] bytes;
  } packet_t;

  packet_t packet_q[Slots];
  logic [Slots-1:0] asked_q, failed_q;  // all reads have been asked for; one failed
  logic [Slots-1:0][PendingW-1:0] pending_q;
  // Slots in use from free_q on; from send_q on they wait for their turn.
  logic [SlotW:0] next_q, send_q, free_q;
  logic [SlotW-1:0] next_slot, send_slot, free_slot;

  logic reading_q, bad;
  logic [63:0] address_q;
  logic [13:0] left_q;
  logic [14:0] place_q;
  logic [9:0] most, room, chunk;
  logic last, ask, full;
  logic [15:0] head_q;
  logic        sent;

  assign next_slot = next_q[SlotW-1:0];
  assign send_slot = send_q[SlotW-1:0];
  assign free_slot = free_q[SlotW-1:0];
  assign full = next_q == {!free_q[SlotW], free_slot};

  // ---- Reads ------------------------------------------------------------------------------------
  assign order_take_o = run_i && !reading_q && !full && order_valid_i;
  assign bad = order_i.bytes < 16'(MinBytes) || order_i.bytes > 16'(MaxBytes);

  assign most = 10'd128 << max_read_i;
  assign room = most - (address_q[9:0] & (most - 10'd1));
  assign chunk = left_q < 14'(room) ? left_q[9:0] : room;
  assign last = left_q <= 14'(room);
  assign ask = op_valid_o && op_ready_i;
  assign op_valid_o = reading_q;
  assign op_o = '{
          address: address_q,
          bytes: chunk,
          about: '{reader: ForPacket, slot: 4'(next_slot), end_byte: place_q + 15'(chunk)}
      };

  always_ff @(posedge clk_i) begin
    if (order_take_o) begin
      address_q <= order_i.address;
      left_q <= order_i.bytes[13:0];
      place_q <= 15'(order_i.address[2:0]);
      packet_q[next_slot] <= '{
          bad: bad,
          report: order_i.report,
          offset: order_i.address[2:0],
          bytes: order_i.bytes[13:0]
      };
    end else if (ask) begin
      address_q <= address_q + 64'(chunk);
      left_q    <= left_q - 14'(chunk);
      place_q   <= place_q + 15'(chunk);
    end
  end

  logic             done;
  logic [SlotW-1:0] done_slot;
  assign done      = done_i.valid && done_i.reader == ForPacket;
  assign done_slot = done_i.slot[SlotW-1:0];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      reading_q <= 1'b0;
      next_q    <= '0;
      asked_q   <= '0;
      failed_q  <= '0;
      pending_q <= '0;
    end else begin
      if (order_take_o) begin
        asked_q[next_slot]  <= bad;
        failed_q[next_slot] <= 1'b0;
        if (bad) next_q <= next_q + 1'b1;
        else reading_q <= 1'b1;
      end
      if (ask && last) begin
        reading_q          <= 1'b0;
        asked_q[next_slot] <= 1'b1;
        next_q             <= next_q + 1'b1;
      end
      if (done && !done_i.ok) failed_q[done_slot] <= 1'b1;
      for (int unsigned s = 0; s < Slots; s++) begin
        pending_q[s] <= pending_q[s] + PendingW'(ask && next_slot == SlotW'(s)) -
            PendingW'(done && done_slot == SlotW'(s));
      end
    end
  end

  // ---- To the network ---------------------------------------------------------------------------
  assign send_valid_o = send_q != next_q && asked_q[send_slot] && pending_q[send_slot] == '0;
  assign send_o = '{
          drop: packet_q[send_slot].bad || failed_q[send_slot],
          slot: 4'(send_slot),
          offset: packet_q[send_slot].offset,
          bytes: packet_q[send_slot].bytes
      };
  assign cnt_packet_o = send_valid_o && send_ready_i && !send_o.drop;
  assign cnt_bad_o = send_valid_o && send_ready_i && packet_q[send_slot].bad;
  assign cnt_lost_o = send_valid_o && send_ready_i && failed_q[send_slot];

  // ---- Sent -------------------------------------------------------------------------------------
  assign write_valid_o = sent_valid_i && packet_q[free_slot].report;
  assign write_o = '{
          address: {base_i[63:7], 7'd0} + 64'({head_q, 4'hC}),
          immediate: 1'b1,
          data: {1'b1, packet_q[free_slot].bad || failed_q[free_slot], 30'd0},
          word: '0,
          bytes: '0
      };
  assign sent_ready_o = !packet_q[free_slot].report || write_done_i;
  assign sent = sent_valid_i && sent_ready_o;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      send_q <= '0;
      free_q <= '0;
      head_q <= '0;
    end else begin
      if (send_valid_o && send_ready_i) send_q <= send_q + 1'b1;
      if (sent) free_q <= free_q + 1'b1;
      if (restart_i) head_q <= '0;
      else if (sent) head_q <= (head_q + 16'd1) & mask_i;
    end
  end

  assign head_o = head_q;
  assign idle_o = !reading_q && next_q == free_q;

`ifndef SYNTHESIS
  initial
    assert (Slots >= 2 && Slots <= 16 && (Slots & (Slots - 1)) == 0)
    else $fatal(1, "packet_fetch needs a power of two of slots, from 2 to 16");
  assert property (@(posedge clk_i) disable iff (rst_i) restart_i |-> idle_o)
  else $error("packet_fetch: begun anew while packets are under way");
`endif
  // Bits that a slot or an alignment leaves over.
  logic unused;
  assign unused = ^{done_i.slot, base_i[6:0]};
endmodule
