// SPDX-License-Identifier: Apache-2.0
// Sequence counters of the sender, one per PC ID: 16 bits, from 0, one more for each sequenced
// frame.
//
// Latency : 1 cycle of clk_i from look_i to sequence_o, which then stays.
// Clock   : clk_i (network).
// Drops   : never.
// Source  : ours; a bit per counter says that it was used since reset, so that the memory needs
//           none.
module seq_table #(
  /// Counters; a power of two.
  parameter int unsigned PcIds = 256,
  localparam int unsigned IndexW = $clog2(PcIds)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              look_i,
  /// Held from look_i to next_i.
  input  logic [IndexW-1:0] pc_id_i,
  output logic [      15:0] sequence_o,
  /// The counter that was looked up grows by one.
  input  logic              next_i
);
  logic [PcIds-1:0] used_q;
  logic [     15:0] stored;

  ram_1r1w #(
    .data_t(logic [15:0]),
    .Depth (PcIds)
  ) u_ram (
    .clk_i,
    .we_i   (next_i),
    .waddr_i(pc_id_i),
    .wdata_i(sequence_o + 16'd1),
    .re_i   (look_i),
    .raddr_i(pc_id_i),
    .rdata_o(stored)
  );

  assign sequence_o = used_q[pc_id_i] ? stored : 16'd0;

  // With counters of all PC IDs it is that wide.
  // verilator lint_off WIDTHCONCAT
  always_ff @(posedge clk_i) begin
    if (rst_i) used_q <= '0;
    else if (next_i) used_q[pc_id_i] <= 1'b1;
  end
  // verilator lint_on WIDTHCONCAT
endmodule
