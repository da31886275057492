// SPDX-License-Identifier: Apache-2.0
// Reads a ring's descriptors ahead: those from HEAD to TAIL, up to an aligned block of eight with one
// DMA read, one read at a time; keeps them in order.
//
// Latency   : a change of tail_i to op_valid_o none; done_i to valid_o 1 cycle.
// Clock     : clk_i (PCIe).
// Handshake : op_o is held until op_ready_i; an order is taken with valid_o and take_i.
// Drops     : never. After a read that failed nothing more is read until restart_i.
// Source    : dissertation figure 3.5, step 6.
module descriptor_fetch
  import ring_pkg::*;
  import ring_types_pkg::*;
#(
  /// Whose descriptors.
  parameter reader_e Reader = ForTxDescriptors,
  localparam int unsigned Held = 2 * DESCRIPTOR_BATCH,
  localparam int unsigned HeldW = $clog2(Held),
  localparam int unsigned BatchW = $clog2(DESCRIPTOR_BATCH)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  /// New reads may begin.
  input  logic              run_i,
  input  logic       [63:0] base_i,
  /// Entries less one; 15 at least.
  input  logic       [15:0] mask_i,
  input  logic       [15:0] tail_i,
  /// Pulse: the ring is empty, and begins anew at entry 0. tail_i is 0 with the edge after it.
  input  logic              restart_i,
  output read_op_t          op_o,
  output logic              op_valid_o,
  input  logic              op_ready_i,
  input  read_data_t        data_i,
  input  read_done_t        done_i,
  output order_t            order_o,
  output logic              valid_o,
  input  logic              take_i,
  /// Nothing is held, under way, or left to be read.
  output logic              empty_o,
  /// A read is under way.
  output logic              waiting_o,
  /// A read has failed.
  output logic              fault_o,
  output logic              busy_o
);
  logic [15:0] taken_q, have_q, asked_q;  // entries: given away, here, asked for
  logic waiting_q, stale_q, fault_q;
  logic [15:0] left, held, count;
  logic [4:0] in_block;
  logic done, take, any, room_q;
  logic [63:0] base;

  // Entry i is kept at i modulo Held, so data of an aligned block find their place. Each array has one
  // write port and one that reads at once: LUTRAM.
  logic [31:0] low_q[Held], high_q[Held];
  logic [16:0] flags_q[Held];

  assign left = (tail_i - asked_q) & mask_i;
  assign held = (asked_q - taken_q) & mask_i;
  assign in_block = 5'(DESCRIPTOR_BATCH) - 5'(asked_q[BatchW-1:0]);
  assign count = left < 16'(in_block) ? left : 16'(in_block);
  assign base = {base_i[63:7], 7'd0};

  // Something is left, without a carry; whether there was room in the cycle before: only what is taken changes it.
  assign any = ((tail_i ^ asked_q) & mask_i) != '0;
  assign op_valid_o = run_i && !waiting_q && !fault_q && !restart_i && any && room_q;
  assign op_o = '{
          address: base + 64'({asked_q, 4'd0}),
          bytes: {count[5:0], 4'd0},
          about: '{
              reader: Reader,
              slot: '0,
              end_byte: 15'({5'(asked_q[BatchW-1:0]) + count[4:0], 4'd0})
          }
      };

  assign done = done_i.valid && done_i.reader == Reader;
  assign valid_o = taken_q != have_q;
  assign take = valid_o && take_i;
  assign waiting_o = waiting_q;
  assign fault_o = fault_q;
  assign busy_o = op_valid_o || waiting_q;

  // While a read is under way nothing else is asked for: asked_q tells its block.
  logic [15:0] block;
  assign block = asked_q - 16'd1;

  // Even DWs of an entry come in lane 0, odd ones in lane 1; DW 3 says nothing yet.
  logic                  mine;
  logic [1:0]            first_half;
  logic [1:0][HeldW-1:0] entry;
  assign mine = data_i.reader == Reader && waiting_q;
  for (genvar b = 0; b < 2; b++) begin : gen_lane
    assign first_half[b] = !data_i.word[b][0];
    assign entry[b]      = {block[BatchW], data_i.word[b][BatchW:1]};
  end

  always_ff @(posedge clk_i) begin
    if (mine && data_i.we[0] && first_half[0]) low_q[entry[0]] <= data_i.data[0];
    if (mine && data_i.we[0] && !first_half[0]) flags_q[entry[0]] <= data_i.data[0][16:0];
    if (mine && data_i.we[1] && first_half[1]) high_q[entry[1]] <= data_i.data[1];
  end

  logic [HeldW-1:0] at;
  assign at = taken_q[HeldW-1:0];
  assign order_o = '{
          report: flags_q[at][16],
          bytes: flags_q[at][15:0],
          address: {high_q[at], low_q[at]}
      };

  always_ff @(posedge clk_i) begin
    room_q  <= held <= 16'(Held - DESCRIPTOR_BATCH);
    empty_o <= !any && held == '0 && !waiting_q;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      taken_q   <= '0;
      have_q    <= '0;
      asked_q   <= '0;
      waiting_q <= 1'b0;
      stale_q   <= 1'b0;
      fault_q   <= 1'b0;
    end else begin
      if (op_valid_o && op_ready_i) begin
        asked_q   <= (asked_q + count) & mask_i;
        waiting_q <= 1'b1;
      end
      if (done) begin
        waiting_q <= 1'b0;
        stale_q   <= 1'b0;
        if (!stale_q && done_i.ok) have_q <= asked_q;
        if (!stale_q && !done_i.ok) fault_q <= 1'b1;
      end
      if (take) taken_q <= (taken_q + 16'd1) & mask_i;
      if (restart_i) begin
        taken_q <= '0;
        have_q  <= '0;
        asked_q <= '0;
        fault_q <= 1'b0;
        // What is under way is of the old ring.
        stale_q <= waiting_q && !done;
      end
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      op_valid_o |-> ((tail_i - asked_q) & mask_i) >= count && count != '0)
  else $error("descriptor_fetch: a read beyond TAIL");
`endif
  // The whole word of the area is an entry's.
  logic unused;
  assign unused = ^{data_i.slot, data_i.word[0][11:4], data_i.word[1][11:4],
                    done_i.slot, base_i[6:0], block[15:4], block[2:0], count[15:6]};
endmodule
