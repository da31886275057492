// SPDX-License-Identifier: Apache-2.0
// Memory of the frames that were sent and are not acknowledged: descriptor, payload, and what an
// error report about them must say.
//
// Latency : 1 cycle from frame_read_i to frame_o and head_o, which then stay; 1 cycle from pay_idx_i
//           to pay_word_o, and from op_slot_i to op_o.
// Clock   : clk_i (network).
// Drops   : never; who frees a slot sees to it that nobody reads it any more.
// Source  : ours. Of a session's frames the PC ID and the source port are known from the session,
//           so they are not kept; head and address are never both there.
module send_buffer
  import ipnuma_pkg::*;
  import resend_pkg::*;
#(
  /// Slots; a power of two, at most 256.
  parameter int unsigned Slots = 128,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input logic                  clk_i,
  /// The slot that is written.
  input logic      [SlotW-1:0] copy_slot_i,
  input logic                  copy_frame_we_i,
  // verilator lint_off UNUSEDSIGNAL
  input tx_frame_t             copy_frame_i,
  // verilator lint_on UNUSEDSIGNAL
  input logic                  copy_we_i,
  input logic      [      4:0] copy_idx_i,
  input logic      [     63:0] copy_word_i,

  input  logic                  frame_read_i,
  input  logic      [SlotW-1:0] frame_slot_i,
  output tx_frame_t             frame_o,
  input  logic                  pay_read_i,
  input  logic      [SlotW-1:0] pay_slot_i,
  input  logic      [      4:0] pay_idx_i,
  output logic      [     63:0] pay_word_o,
  input  logic                  op_read_i,
  input  logic      [SlotW-1:0] op_slot_i,
  output sent_op_t              op_o
);
  typedef struct packed {
    logic         compact;
    logic [47:0]  dst_mac;
    logic [31:0]  dst_ip;
    logic [11:0]  tag;
    logic [127:0] body;
    logic [6:0]   data_dw;
  } kept_t;

  kept_t kept, stored;
  sent_op_t op;

  // A DW of a TLP header in wire order.
  function automatic logic [31:0] dw(logic [31:0] bytes);
    return {bytes[7:0], bytes[15:8], bytes[23:16], bytes[31:24]};
  endfunction

  always_comb begin
    kept = '{
        compact: copy_frame_i.compact,
        dst_mac: copy_frame_i.dst_mac,
        dst_ip: copy_frame_i.dst_ip,
        tag: copy_frame_i.tag,
        body: copy_frame_i.head,
        data_dw: copy_frame_i.data_dw
    };
    // compact: key 12, offset 28; on the wire of an error report: 16 zeros, key 16, offset 32.
    op.is_load = 1'b0;
    op.address = {4'd0, copy_frame_i.address[39:28], 4'd0, copy_frame_i.address[27:2], 2'b00};
    if (copy_frame_i.compact) begin
      kept.body = {86'd0, copy_frame_i.trail, copy_frame_i.address};
    end else begin
      op.is_load = copy_frame_i.head[7:0] == TLP_MRD64;
      op.address = 48'({dw(copy_frame_i.head[95:64]), dw(copy_frame_i.head[127:96])});
    end
  end

  always_comb begin
    frame_o           = '0;
    frame_o.compact   = stored.compact;
    frame_o.kind      = wire_pkg::KIND_TLP;
    frame_o.sequenced = 1'b1;
    frame_o.dst_mac   = stored.dst_mac;
    frame_o.dst_ip    = stored.dst_ip;
    frame_o.tag       = stored.tag;
    frame_o.head      = stored.body;
    frame_o.address   = stored.body[39:0];
    frame_o.trail     = stored.body[41:40];
    frame_o.data_dw   = stored.data_dw;
  end

  ram_1r1w #(
    .data_t(kept_t),
    .Depth (Slots)
  ) u_frame (
    .clk_i,
    .we_i   (copy_frame_we_i),
    .waddr_i(copy_slot_i),
    .wdata_i(kept),
    .re_i   (frame_read_i),
    .raddr_i(frame_slot_i),
    .rdata_o(stored)
  );

  ram_1r1w #(
    .data_t(sent_op_t),
    .Depth (Slots)
  ) u_op (
    .clk_i,
    .we_i   (copy_frame_we_i),
    .waddr_i(copy_slot_i),
    .wdata_i(op),
    .re_i   (op_read_i),
    .raddr_i(op_slot_i),
    .rdata_o(op_o)
  );

  ram_1r1w #(
    .data_t(logic [63:0]),
    .Depth (Slots * 32)
  ) u_payload (
    .clk_i,
    .we_i   (copy_we_i),
    .waddr_i({copy_slot_i, copy_idx_i}),
    .wdata_i(copy_word_i),
    .re_i   (pay_read_i),
    .raddr_i({pay_slot_i, pay_idx_i}),
    .rdata_o(pay_word_o)
  );
endmodule
