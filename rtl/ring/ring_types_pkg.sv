// SPDX-License-Identifier: Apache-2.0
// What passes between the modules of the descriptor-ring NIC. Registers, descriptors and counters
// are in ring_pkg.

package ring_types_pkg;

  // Who asked for a DMA read.
  typedef enum logic [1:0] {
    ForRxDescriptors,
    ForPacket,
    ForTxDescriptors
  } reader_e;

  // What is remembered of a read. Data lie in an area of the reader: a packet's slot, or the
  // aligned block of descriptors.
  typedef struct packed {
    reader_e     reader;
    logic [3:0]  slot;      // packets
    logic [14:0] end_byte;  // in its area, the byte behind the last one of this read
  } read_t;

  // A DMA read; it crosses no boundary of the max read request.
  typedef struct packed {
    logic [63:0] address;
    logic [9:0]  bytes;    // 1..512
    read_t       about;
  } read_op_t;

  // Data that came: up to two DWs of one area, one in each bank (bank 0 has the even DWs).
  typedef struct packed {
    reader_e          reader;
    logic [3:0]       slot;
    logic [1:0]       we;
    logic [1:0][11:0] word;    // 8-byte word of the area
    logic [1:0][31:0] data;
  } read_data_t;

  // A read has ended.
  typedef struct packed {
    logic       valid;
    reader_e    reader;
    logic [3:0] slot;
    logic       ok;
  } read_done_t;

  // A descriptor as the NIC uses it.
  typedef struct packed {
    logic        report;
    logic [15:0] bytes;
    logic [63:0] address;
  } order_t;

  // A packet whose data are in the send buffer.
  typedef struct packed {
    logic        drop;    // it is not to be sent after all
    logic [3:0]  slot;
    logic [2:0]  offset;  // of its first byte in the slot
    logic [13:0] bytes;
  } send_t;

  // A frame in the receive buffer; it begins with a word.
  typedef struct packed {
    logic [13:0] word;
    logic [13:0] bytes;
  } frame_t;

  // A DMA write: from the receive buffer, or one DW.
  typedef struct packed {
    logic [63:0] address;    // DW aligned
    logic        immediate;  // `data`, else the buffer
    logic [31:0] data;
    logic [13:0] word;       // where it begins in the buffer
    logic [13:0] bytes;      // from the buffer, 1 or more
  } write_op_t;

  /// A DW as TLP headers have it: byte 0 is the most significant.
  function automatic logic [31:0] in_wire_order(logic [31:0] dw);
    return {dw[7:0], dw[15:8], dw[23:16], dw[31:24]};
  endfunction

  /// The first DW of a memory request: byte enables, tag, requester, length, type.
  function automatic logic [63:0] request_head(logic [7:0] fmt_type, logic [9:0] length,
                                               logic [15:0] requester_id, logic [7:0] tag,
                                               logic [3:0] last_be, logic [3:0] first_be);
    return {
      last_be,
      first_be,
      tag,
      requester_id[7:0],
      requester_id[15:8],
      length[7:0],
      6'd0,
      length[9:8],
      8'd0,
      fmt_type
    };
  endfunction

  /// Byte enables of a last DW that ends before byte `end_byte` of it (0: it is whole).
  function automatic logic [3:0] enables_up_to(logic [1:0] end_byte);
    unique case (end_byte)
      2'd0: return 4'b1111;
      2'd1: return 4'b0001;
      2'd2: return 4'b0011;
      default: return 4'b0111;
    endcase
  endfunction

endpackage
