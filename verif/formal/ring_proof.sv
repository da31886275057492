// SPDX-License-Identifier: Apache-2.0
// What the send side of the ring NIC reads from host memory: descriptors between HEAD and TAIL, and bytes
// of the packets that they describe, whatever the memory answers, whenever, and whenever the wire takes
// a packet. HEAD never passes TAIL.
//
// The driver is free to write TAIL in any cycle, as long as it leaves an entry unused; descriptors,
// the ends of reads and the ends of packets are free.
//
// Clock  : clk_i.
// Source : docs/ring-nic.md.
module ring_proof
  import ring_types_pkg::*;
#(
  parameter int unsigned Slots = 4
) (
  input logic              clk_i,
  input logic              rst_i,
  input logic              run_i,
  input logic       [15:0] added_i,
  input read_data_t        data_i,
  input read_done_t        done_i,
  input logic              descriptor_ready_i,
  input logic              packet_ready_i,
  input logic       [ 1:0] max_read_i,
  input logic              send_ready_i,
  input logic              sent_valid_i,
  input logic              write_done_i
);
  localparam int unsigned SlotW = $clog2(Slots);

  // ---- Arbitrary, constant: the ring ------------------------------------------------------------
  logic [63:0] base_q;
  logic [15:0] mask_q;
  always_ff @(posedge clk_i) begin
    base_q <= base_q;
    mask_q <= mask_q;
  end

  // ---- The driver -------------------------------------------------------------------------------
  logic begun_q;
  logic [15:0] tail_q, head;
  initial begun_q = 1'b0;
  always_ff @(posedge clk_i) begin
    begun_q <= 1'b1;
    if (rst_i) tail_q <= '0;
    else tail_q <= (tail_q + added_i) & mask_q;
  end

  // ---- The design -------------------------------------------------------------------------------
  read_op_t descriptor_op, packet_op;
  logic descriptor_valid, packet_valid, order_valid, order_take, sent_ready;
  order_t order;
  send_t  send;
  logic   send_valid;

  descriptor_fetch #(
    .Reader(ForTxDescriptors)
  ) u_descriptors (
    .clk_i,
    .rst_i,
    .run_i,
    .base_i    (base_q),
    .mask_i    (mask_q),
    .tail_i    (tail_q),
    .restart_i (1'b0),
    .op_o      (descriptor_op),
    .op_valid_o(descriptor_valid),
    .op_ready_i(descriptor_ready_i),
    .data_i,
    .done_i,
    .order_o   (order),
    .valid_o   (order_valid),
    .take_i    (order_take),
    .empty_o   (),
    .waiting_o (),
    .fault_o   (),
    .busy_o    ()
  );

  packet_fetch #(
    .Slots(Slots)
  ) u_packets (
    .clk_i,
    .rst_i,
    .run_i,
    .max_read_i,
    .base_i       (base_q),
    .mask_i       (mask_q),
    .restart_i    (1'b0),
    .order_i      (order),
    .order_valid_i(order_valid),
    .order_take_o (order_take),
    .op_o         (packet_op),
    .op_valid_o   (packet_valid),
    .op_ready_i   (packet_ready_i),
    .done_i,
    .send_o       (send),
    .send_valid_o (send_valid),
    .send_ready_i,
    .sent_valid_i,
    .sent_ready_o (sent_ready),
    .write_o      (),
    .write_valid_o(),
    .write_done_i,
    .head_o       (head),
    .idle_o       (),
    .cnt_bad_o    (),
    .cnt_lost_o   (),
    .cnt_packet_o ()
  );

  // ---- The order under way, kept a second time --------------------------------------------------
  logic [63:0] from_q;
  logic [15:0] bytes_q;
  always_ff @(posedge clk_i) begin
    if (order_take) begin
      from_q  <= order.address;
      bytes_q <= order.bytes;
    end
  end

  // ---- Distances round the ring -----------------------------------------------------------------
  logic [16:0] in_use, held, coming, left;
  logic [SlotW:0] slots, handed;
  assign slots  = u_packets.next_q - u_packets.free_q;
  assign handed = u_packets.send_q - u_packets.free_q;
  assign in_use = 17'((u_descriptors.taken_q - head) & mask_q);
  assign held   = 17'((u_descriptors.have_q - u_descriptors.taken_q) & mask_q);
  assign coming = 17'((u_descriptors.asked_q - u_descriptors.have_q) & mask_q);
  assign left   = 17'((tail_q - u_descriptors.asked_q) & mask_q);

  logic [63:0] entry;
  assign entry = descriptor_op.address - {base_q[63:7], 7'd0};

  always_comb begin
    if (!begun_q) m_reset : assume (rst_i);
    // A ring is a power of two, of 16 entries at least, below the end of memory.
    m_mask : assume ((mask_q & (mask_q + 16'd1)) == '0 && mask_q >= 16'd15);
    m_base : assume (base_q < 64'hFFFF_FFFF_0000_0000);
    m_max_read : assume (max_read_i != 2'd3);
    if (begun_q && !rst_i) begin
      // The driver leaves an entry unused.
      m_tail : assume (17'((tail_q - head) & mask_q) + 17'(added_i) <= 17'(mask_q));
      // A read that ends was asked for; a packet that has left was handed over.
      if (done_i.valid && done_i.reader == ForTxDescriptors) begin
        m_done : assume (u_descriptors.waiting_q);
      end
      if (sent_valid_i) m_sent : assume (handed != '0);

      // HEAD, what was taken, what is here, what is being read, TAIL: in this order round the ring.
      a_ring : assert (17'((tail_q - head) & mask_q) == in_use + held + coming + left);
      a_slots : assert (in_use == 17'(slots) + 17'(u_packets.reading_q));
      a_handed : assert (handed <= slots && slots + (SlotW + 1)'(u_packets.reading_q) <= Slots);

      if (descriptor_valid) begin
        a_inside : assert (entry[3:0] == '0 && entry[63:4] <= 60'(mask_q));
        a_end : assert (entry + 64'(descriptor_op.bytes) <= 64'({17'(mask_q) + 17'd1, 4'd0}));
        a_given : assert (entry[19:4] == u_descriptors.asked_q);
        a_not_beyond : assert (17'(descriptor_op.bytes >> 4) <= left && descriptor_op.bytes != '0);
      end
      if (packet_valid) begin
        a_from : assert (packet_op.address - from_q < 64'(bytes_q));
        a_to : assert (packet_op.address - from_q + 64'(packet_op.bytes) <= 64'(bytes_q));
        a_some : assert (packet_op.bytes != '0);
        a_boundary :
        assert (64'(packet_op.address[8:0] & 9'((10'd128 << max_read_i) - 10'd1)) +
                64'(packet_op.bytes) <= 64'd128 << max_read_i);
      end

      // What ties the registers together.
      t_masked :
      assert (((u_descriptors.taken_q | u_descriptors.have_q | u_descriptors.asked_q | tail_q |
                head) & ~mask_q) == '0);
      if (u_packets.reading_q) begin
        t_left : assert (u_packets.address_q - from_q + 64'(u_packets.left_q) == 64'(bytes_q));
        t_some : assert (u_packets.left_q != '0 && 16'(u_packets.left_q) <= bytes_q);
      end
      if (!u_descriptors.waiting_q && !u_descriptors.fault_q) t_here : assert (coming == '0);
      t_stale : assert (!u_descriptors.stale_q);
      t_held : assert (held + coming <= 17'd16);
    end
  end
endmodule
