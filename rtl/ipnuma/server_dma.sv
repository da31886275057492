// SPDX-License-Identifier: Apache-2.0
// Turns accepted operations into TLPs for the root complex: stores into memory writes, loads into memory
// reads, completions from the network into completions of the CPU's loads. One after the other, in order.
//
// What the host does not take in one TLP goes in several, cut at multiples of 128 bytes: stores and completions
// above its maximum payload, loads above its maximum read request. No part of a load is read before the one
// in front of it has come, so that the answers are in order; what is behind the load waits meanwhile, for the
// read's time-out at most. Only a host with a limit of 128 bytes sees any of this.
//
// Without bus-master enable stores and loads are held: their senders may have been told that they count. When
// the slots are full frames are refused, and not acknowledged. A TLP that has been offered still goes.
//
// Latency   : an operation is taken in the cycle of valid_i. A store's first beat is offered in the next one, and
//             a beat every cycle from there; a load's as early, if a tag is free. A completion is looked up
//             then: its first beat comes 2 cycles later, or it is dropped 2 cycles later. A part of an operation
//             begins 2 cycles after the last beat of the part in front of it.
// Clock     : clk_i (PCIe).
// Handshake : m_tlp as in axis_if; pop_o with the last beat of an operation. A load waits for a free DMA tag.
// Drops     : completions that no load waits for, that do not fit it, or that it has had; counted.
// Source    : dissertation section 3.3.3; PCI Express Base 2.0, 2.2.
module server_dma
  import ipnuma_pkg::*;
  import pcie_pkg::*;
(
  input logic             clk_i,
  input logic             rst_i,
  input logic      [15:0] completer_id_i,
  input pcie_cfg_t        cfg_i,

  /// Slot reader.
  input  logic          valid_i,
  input  rx_op_t        op_i,
  output logic          take_o,
  output logic   [ 4:0] pay_idx_o,
  input  logic   [63:0] pay_word_i,
  output logic          pop_o,

  /// The operation that was taken.
  output rx_op_t op_o,

  /// DMA tags: of the part that is read next, its bytes and those behind it, see dma_completion.
  output logic        dma_alloc_o,
  output logic        dma_keep_o,
  output logic [11:0] dma_byte_count_o,
  output logic [ 8:0] dma_behind_o,
  output logic [ 6:0] dma_lower_address_o,
  input  logic        dma_alloc_ok_i,
  input  logic [ 7:0] dma_alloc_tag_i,
  input  logic        part_done_i,
  input  logic        part_failed_i,

  /// Load tags; the tag and address of op_o are looked up.
  output logic    load_look_o,
  input  logic    load_live_i,
  input  load_t   load_i,
  input  answer_t load_answer_i,
  /// A completion that its load has had already.
  input  logic    load_repeated_i,
  /// The completion that was looked up two cycles ago is passed on.
  output logic    load_take_o,
  /// A completion is being looked up or passed on.
  output logic    load_hold_o,

  axis_if.src m_tlp,

  /// Pulse: a store to a region that asks for an interrupt is on its way, ahead of all that is
  /// offered from now on.
  output logic arrival_o,

  output logic cnt_dma_write_o,
  output logic cnt_dma_read_o,
  output logic cnt_load_completion_unexpected_o,
  output logic cnt_load_completion_repeated_o,
  output logic busy_o
);
  localparam int unsigned DwsW = 7;  // 0..64
  localparam int unsigned BeatW = 6;

  typedef struct packed {
    logic [15:0] requester_id;
    logic [7:0]  tag;
    logic [2:0]  tc;
    logic [1:0]  attr;
  } who_t;

  // One TLP of an operation.
  typedef struct packed {
    logic [DwsW-1:0]  dws;        // it writes, reads or completes
    logic [DwsW-1:0]  rest;       // of the operation from here on, itself included
    logic             is_final;   // none is behind it
    logic             is_odd;     // its data begin with the upper half of a pair
    logic             is_whole;   // a beat has a pair; else the halves of two
    logic [4:0]       pair;       // pair that beat 0 would have
    logic [BeatW-1:0] beats;      // behind beat 0
    logic             half_last;  // the last one has one DW
    logic [3:0]       first_be;
    logic [3:0]       last_be;
  } part_t;

  // Beats behind beat 0 of a TLP with so many DWs of data.
  function automatic logic [BeatW-1:0] beats_behind(logic four_dw, logic [DwsW-1:0] data);
    return BeatW'((DwsW'(2) + DwsW'(four_dw) + data) >> 1);
  endfunction

  // `rest` DWs from DW `at` of the operation on; `lower` is bits 6:2 of their address.
  function automatic part_t part_of(logic read, logic [3:0] first_be, logic [3:0] last_be,
                                    logic four_dw, logic [DwsW-1:0] at, logic [DwsW-1:0] rest,
                                    logic [4:0] lower, logic tight);
    part_t            part;
    logic  [DwsW-1:0] cut;
    logic             is_one;
    cut = DwsW'(COMPLETER_BOUNDARY_DW) - DwsW'(lower);
    part.rest = rest;
    part.is_final = !tight || rest <= DwsW'(SMALLEST_LIMIT_DW);
    // Both are reckoned while it is found which of them counts.
    part.dws = part.is_final ? rest : cut;
    part.beats = part.is_final ? beats_behind(four_dw, read ? '0 : rest) :
        beats_behind(four_dw, read ? '0 : cut);
    part.half_last = four_dw == (!read && (part.is_final ? rest[0] : cut[0]));
    is_one = part.is_final ? rest == DwsW'(1) : cut == DwsW'(1);
    part.is_odd = at[0];
    part.is_whole = four_dw != at[0];
    // Behind 3 DWs beat 1 has half of the first pair, behind 4 DWs beat 2 has all of it.
    part.pair = at[5:1] - (four_dw && !at[0] ? 5'd2 : 5'd1);
    part.first_be = first_be;
    part.last_be = last_be;
    if (!part.is_final) part.last_be = 4'hF;
    if (at != '0) part.first_be = is_one ? last_be : 4'hF;
    if (is_one) part.last_be = '0;
    return part;
  endfunction

  // ---- Operation --------------------------------------------------------------------------------
  logic take, ends, fire, last;
  logic valid_q, four_q, new_four;
  logic is_store, is_load, is_completion, new_tight, tight;
  rx_op_t op_q;
  part_t part_q, next_part;
  logic [DwsW-1:0] at_q, next_at;
  // Where an operation is: being looked up, judged, and taken or dropped; its next part being planned, held back,
  // going out, or waiting for the answer of a part in front of it.
  logic look_q, judge_q, take_q, drop_q, plan_q, hold_q, go_q, wait_q;
  logic part_ends, goes_on, part_done_q, part_failed_q;
  logic first_q, second_q;  // the next beat is beat 0 or 1
  logic [BeatW-1:0] left_q;  // beats behind this one
  logic             last_q;
  logic [4:0] pair, pair_q;
  who_t    who_q;
  answer_t answer_q;
  logic write_q, read_q, unexpected_q, repeated_q, arrival_q;

  assign take = valid_i && (!valid_q || ends);
  assign take_o = take;
  assign new_four = op_i.kind != RX_COMPLETION && op_i.address[63:32] != '0;
  assign new_tight = (op_i.kind == RX_LOAD ? cfg_i.max_read : cfg_i.max_payload) == '0;

  assign op_o = op_q;
  assign is_store = op_q.kind == RX_STORE;
  assign is_load = op_q.kind == RX_LOAD;
  assign is_completion = op_q.kind == RX_COMPLETION;
  assign tight = (is_load ? cfg_i.max_read : cfg_i.max_payload) == '0;

  // A part that is not the last one ends at a boundary.
  assign next_at = at_q + part_q.dws;
  assign next_part = part_of(
      is_load, op_q.first_be, op_q.last_be, four_q, next_at, part_q.rest - part_q.dws, '0, tight
  );

  always_ff @(posedge clk_i) begin
    if (take) begin
      op_q <= op_i;
      four_q <= new_four;
      at_q <= '0;
      part_q <= part_of(
          op_i.kind == RX_LOAD,
          op_i.first_be,
          op_i.last_be,
          new_four,
          '0,
          op_i.kind == RX_LOAD ? op_i.length[DwsW-1:0] : op_i.data_dw,
          op_i.kind == RX_COMPLETION ? op_i.lower_address[6:2] : op_i.address[6:2],
          new_tight
      );
    end else if (plan_q) begin
      at_q               <= next_at;
      part_q             <= next_part;
      op_q.address[11:7] <= op_q.address[11:7] + 1'b1;
      op_q.address[6:2]  <= '0;
    end
  end

  // ---- Tags -------------------------------------------------------------------------------------
  logic [9:0] part_end;  // bytes behind the last one that is asked for, to the end of its DW

  assign dma_keep_o = go_q && is_load && first_q;
  assign dma_alloc_o = dma_keep_o && fire;
  assign dma_byte_count_o = read_byte_count(10'(part_q.rest), part_q.first_be, op_q.last_be);
  assign part_end = {1'b0, part_q.rest - part_q.dws, 2'b00};
  assign dma_behind_o = part_q.is_final ? '0 : part_end[8:0] - 9'(first_byte({<<{op_q.last_be}}));
  assign dma_lower_address_o = {op_q.address[6:2], first_byte(part_q.first_be)};

  assign load_look_o = look_q;
  assign load_take_o = take_q;
  assign load_hold_o = valid_q && is_completion;

  always_ff @(posedge clk_i) begin
    if (judge_q) begin
      answer_q <= load_answer_i;
      who_q <= '{
          requester_id: load_i.requester_id,
          tag: load_i.tag,
          tc: load_i.tc,
          attr: load_i.attr
      };
    end else if (plan_q) begin
      answer_q.byte_count <= answer_q.byte_count -
          ({3'd0, part_q.dws, 2'd0} - 12'(answer_q.lower_address[1:0]));
      answer_q.lower_address <= '0;
    end
  end

  // ---- Header -----------------------------------------------------------------------------------
  logic [63:0] beat0, beat1;
  logic [95:0] completion;

  function automatic logic [31:0] in_wire_order(logic [31:0] dw);
    return {dw[7:0], dw[15:8], dw[23:16], dw[31:24]};
  endfunction

  assign completion = cpl_pkg::cpl_header(
      part_q.dws != '0 ? TLP_CPLD : TLP_CPL,
      10'(part_q.dws),
      who_q.tc,
      who_q.attr,
      completer_id_i,
      answer_q.status,
      answer_q.byte_count,
      who_q.requester_id,
      who_q.tag,
      answer_q.lower_address
  );

  always_comb begin
    beat0 = {
      part_q.last_be,
      part_q.first_be,
      is_load ? dma_alloc_tag_i : 8'd0,
      completer_id_i[7:0],
      completer_id_i[15:8],
      {1'b0, part_q.dws},
      16'd0,
      is_load ? (four_q ? TLP_MRD64 : TLP_MRD32) : (four_q ? TLP_MWR64 : TLP_MWR32)
    };
    beat1 = {
      part_q.is_odd ? pay_word_i[63:32] : pay_word_i[31:0],
      in_wire_order(four_q ? op_q.address[63:32] : op_q.address[31:0])
    };
    if (four_q) beat1[63:32] = in_wire_order(op_q.address[31:0]);
    if (is_completion) begin
      beat0       = completion[63:0];
      beat1[31:0] = completion[95:64];
    end
  end

  // ---- Beats ------------------------------------------------------------------------------------
  logic [31:0] odd_q;  // upper half of the pair before

  // A tag stays with the TLP that is offered with it.
  assign m_tlp.tvalid = go_q && !(dma_keep_o && !dma_alloc_ok_i);
  assign m_tlp.tlast  = last;
  assign m_tlp.tkeep  = last && part_q.half_last ? 8'h0F : 8'hFF;
  assign m_tlp.tuser  = '0;
  always_comb begin
    m_tlp.tdata = part_q.is_whole ? pay_word_i : {pay_word_i[31:0], odd_q};
    if (first_q) m_tlp.tdata = beat0;
    else if (second_q) m_tlp.tdata = beat1;
  end

  assign fire = m_tlp.tvalid && m_tlp.tready;
  assign last = last_q && !first_q;  // no TLP has one beat
  assign pair = first_q ? part_q.pair : pair_q;
  assign pay_idx_o = fire ? pair + 1'b1 : pair;
  assign part_ends = fire && last;
  assign goes_on = wait_q && part_done_q && !part_failed_q;
  assign ends      = (part_ends && part_q.is_final) || drop_q ||
      (wait_q && part_done_q && part_failed_q);
  assign pop_o = ends;

  always_ff @(posedge clk_i) begin
    if (fire) begin
      odd_q  <= pay_word_i[63:32];
      pair_q <= pair + 1'b1;
      left_q <= (first_q ? part_q.beats : left_q) - 1'b1;
      last_q <= (first_q ? part_q.beats : left_q) == BeatW'(1);
    end
    if (part_done_i) part_failed_q <= part_failed_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      valid_q      <= 1'b0;
      look_q       <= 1'b0;
      judge_q      <= 1'b0;
      take_q       <= 1'b0;
      drop_q       <= 1'b0;
      hold_q       <= 1'b0;
      go_q         <= 1'b0;
      plan_q       <= 1'b0;
      wait_q       <= 1'b0;
      part_done_q  <= 1'b0;
      first_q      <= 1'b1;
      second_q     <= 1'b0;
      write_q      <= 1'b0;
      read_q       <= 1'b0;
      unexpected_q <= 1'b0;
      repeated_q   <= 1'b0;
      arrival_q    <= 1'b0;
    end else begin
      valid_q <= take || (valid_q && !ends);
      look_q  <= take && op_i.kind == RX_COMPLETION;
      judge_q <= look_q;
      take_q  <= judge_q && load_live_i;
      drop_q  <= judge_q && !load_live_i;

      // A request is held back where none may be sent, also while it has no tag.
      if (take || plan_q || hold_q || (dma_keep_o && !dma_alloc_ok_i)) begin
        if (take ? op_i.kind != RX_COMPLETION : !is_completion) begin
          go_q   <= cfg_i.bus_master;
          hold_q <= !cfg_i.bus_master;
        end else begin
          go_q <= plan_q && !take;
        end
      end else if (judge_q) begin
        go_q <= load_live_i;
      end else if (part_ends) begin
        go_q <= 1'b0;
      end

      plan_q      <= (part_ends && !part_q.is_final && !is_load) || goes_on;
      wait_q      <= (part_ends && !part_q.is_final && is_load) || (wait_q && !part_done_q);
      // Its time-out may come before the last beat of a read has gone.
      part_done_q <= part_done_i || (part_done_q && !wait_q);

      if (fire) begin
        first_q  <= last;
        second_q <= first_q;
      end

      write_q      <= part_ends && is_store && part_q.is_final;
      read_q       <= part_ends && is_load && at_q == '0;
      unexpected_q <= judge_q && !load_live_i && !load_repeated_i;
      repeated_q   <= judge_q && !load_live_i && load_repeated_i;
      arrival_q    <= part_ends && is_store && part_q.is_final && op_q.notify;
    end
  end

  assign cnt_dma_write_o = write_q;
  assign cnt_dma_read_o = read_q;
  assign cnt_load_completion_unexpected_o = unexpected_q;
  assign cnt_load_completion_repeated_o = repeated_q;
  assign arrival_o = arrival_q;
  assign busy_o = valid_i || valid_q || write_q || read_q || unexpected_q || repeated_q;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !m_tlp.tready |=>
      m_tlp.tvalid && $stable(
      m_tlp.tdata
  ) && $stable(
      m_tlp.tlast
  ))
  else $error("server_dma: an offered beat was changed");
  // A request never crosses a page: see region_check.
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !is_completion |->
      11'(op_q.address[11:2]) + 11'(part_q.dws) <= 11'd1024)
  else $error("server_dma: an operation crosses 4 KB");
`endif
  // Parts of the operation that others use; what a NIC takes of a root complex, whatever its boundary.
  logic unused;
  assign unused = ^{op_q.byte_count, op_q.status, load_i.byte_count, load_i.lower_address,
                    load_i.peer_ip, part_end[9], cfg_i.rcb_128};
endmodule
