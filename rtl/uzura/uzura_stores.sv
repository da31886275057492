// SPDX-License-Identifier: Apache-2.0
// Stores to the doorbell pages (BAR 2), a word of 8 bytes after the other. A store counts when its TLP has ended well.
//
// Latency   : the end of a TLP to door_valid_o 1 edge, then a word a cycle.
// Clock     : clk_i (PCIe).
// Handshake : as tlp_rx has it for pages: the next store waits until this one's words are gone.
// Drops     : stores that are not whole words of 8 bytes; counted.
module uzura_stores
  import tlp_pkg::*;
  import uzura_nic_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  page_op_t        op_i,
  input  logic            first_i,
  input  logic            end_i,
  output logic            store_ready_o,
  input  logic            even_we_i,
  input  logic            odd_we_i,
  input  logic     [ 4:0] even_idx_i,
  input  logic     [31:0] even_data_i,
  input  logic     [ 4:0] odd_idx_i,
  input  logic     [31:0] odd_data_i,
  output door_t           door_o,
  output logic            door_valid_o,
  input  logic            door_ready_i,
  output logic            cnt_refused_o,
  output logic            busy_o
);
  logic [31:0] even_q[32], odd_q[32];
  page_op_t op, op_q;
  logic [5:0] at_q, words_q;
  logic sending_q, store_end, whole_i, whole, whole_q;

  // What a store is, is known with its second word; it may be its last. Both are looked at before it is known
  // which one it is.
  assign op = first_i ? op_i : op_q;
  assign store_end = end_i && (first_i ? !op_i.is_load : !op_q.is_load);
  assign whole_i = op_i.length[0] == 1'b0 && op_i.offset[2:0] == '0 && op_i.first_be == '1 &&
      op_i.last_be == '1;
  assign whole = first_i ? whole_i : whole_q;
  assign store_ready_o = !sending_q;
  assign door_o = '{
          addr: {op_q.page[5:0], op_q.offset[11:3] + 9'(at_q), 3'd0},
          data: {odd_q[at_q[4:0]], even_q[at_q[4:0]]}
      };
  assign door_valid_o = sending_q;
  assign busy_o = sending_q;

  always_ff @(posedge clk_i) begin
    if (first_i) begin
      op_q    <= op_i;
      whole_q <= whole_i;
    end
    if (even_we_i) even_q[even_idx_i] <= even_data_i;
    if (odd_we_i) odd_q[odd_idx_i] <= odd_data_i;
    if (store_end) words_q <= op.length[6:1];
    if (rst_i) begin
      sending_q     <= 1'b0;
      at_q          <= '0;
      cnt_refused_o <= 1'b0;
    end else begin
      cnt_refused_o <= store_end && !whole;
      if (store_end && whole) begin
        sending_q <= 1'b1;
        at_q      <= '0;
      end else if (sending_q && door_ready_i) begin
        at_q      <= at_q + 1'b1;
        sending_q <= at_q + 6'd1 != words_q;
      end
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) sending_q |-> !even_we_i && !odd_we_i)
  else $error("uzura_stores: a store came while one was on its way");
`endif
  logic unused;
  assign unused = ^{op_q, op};
endmodule
