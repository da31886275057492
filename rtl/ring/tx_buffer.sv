// SPDX-License-Identifier: Apache-2.0
// The send buffer: slots of packets, written DW by DW on the PCIe side as completions come, read word
// by word on the network side.
//
// Latency   : 1 edge of clk_net_i from address to word.
// Clock     : clk_pcie_i writes, clk_net_i reads.
// Handshake : a slot is read only after it is complete, which another path says.
// Source    : own.
module tx_buffer
  import ring_types_pkg::*;
#(
  /// Slots; a power of two.
  parameter int unsigned Slots = 8,
  /// Words of 8 bytes in a slot; a power of two.
  parameter int unsigned SlotWords = 256,
  localparam int unsigned SlotW = $clog2(Slots),
  localparam int unsigned WordW = $clog2(SlotWords)
) (
  input  logic                   clk_pcie_i,
  /// What comes for others is not written.
  input  read_data_t             data_i,
  input  logic                   clk_net_i,
  input  logic                   re_i,
  input  logic       [SlotW-1:0] slot_i,
  input  logic       [WordW-1:0] word_i,
  output logic       [     63:0] data_o
);
  for (genvar b = 0; b < 2; b++) begin : gen_bank
    ram_2clk #(
      .data_t  (logic [31:0]),
      .Depth   (Slots * SlotWords),
      .InitZero(1'b0)
    ) u_ram (
      .wclk_i (clk_pcie_i),
      .we_i   (data_i.we[b] && data_i.reader == ForPacket),
      .waddr_i({data_i.slot[SlotW-1:0], data_i.word[b][WordW-1:0]}),
      .wdata_i(data_i.data[b]),
      .rclk_i (clk_net_i),
      .re_i   (re_i),
      .raddr_i({slot_i, word_i}),
      .rdata_o(data_o[32*b+:32])
    );
  end

  // The area that a read may fill has more slots and words than this build.
  logic unused;
  assign unused = ^{data_i.slot, data_i.word};
endmodule
