// SPDX-License-Identifier: Apache-2.0
// Turns accepted operations into TLPs for the root complex: stores into memory writes, loads into memory
// reads, completions from the network into completions of the CPU's loads. One after the other, in order.
//
// Latency   : a store's first beat in the cycle of valid_i, combinational, and a beat every cycle from there;
//             loads and completions 1 cycle later (their tag is taken or looked up first). A completion that is
//             dropped takes 2 cycles.
// Clock     : clk_i (PCIe).
// Handshake : m_tlp as in axis_if; pop_o with a TLP's last beat. A load waits for a free DMA tag.
// Drops     : completions that no load waits for, that do not fit it, or that it has had; counted.
// Source    : dissertation section 3.3.3; PCI Express Base 2.0, 2.2.
module server_dma
  import ipnuma_pkg::*;
(
  input logic        clk_i,
  input logic        rst_i,
  input logic [15:0] completer_id_i,

  /// Slot reader.
  input  logic          valid_i,
  input  rx_op_t        op_i,
  output logic   [ 4:0] pay_idx_o,
  input  logic   [63:0] pay_word_i,
  output logic          pop_o,

  /// DMA tags.
  output logic       dma_alloc_o,
  input  logic       dma_alloc_ok_i,
  input  logic [7:0] dma_alloc_tag_i,

  /// Load tags; the tag and address of op_i are looked up.
  output logic    load_look_o,
  input  logic    load_live_i,
  input  load_t   load_i,
  input  answer_t load_answer_i,
  /// A completion that its load has had already.
  input  logic    load_repeated_i,
  /// The completion that was looked up in the cycle before is passed on.
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
  typedef struct packed {
    logic [15:0] requester_id;
    logic [7:0]  tag;
    logic [2:0]  tc;
    logic [1:0]  attr;
  } who_t;

  logic is_store, is_load, is_completion;
  logic          armed_q;  // tag taken or looked up
  logic          take_q;  // looked up in the cycle before, and passed on
  logic          drop_q;  // or not
  logic    [7:0] dma_tag_q;
  who_t          who_q;
  answer_t       answer_q;

  logic four_dw, start, fire, last;
  logic [6:0] dws;
  logic [5:0] beat_q, last_beat;
  logic [31:0] odd_q;  // upper half of the pair before
  logic [4:0] pair, pair_next;
  logic [63:0] beat0, beat1;
  logic [95:0] completion;
  logic write_q, read_q, unexpected_q, repeated_q, arrival_q;

  assign is_store      = valid_i && op_i.kind == RX_STORE;
  assign is_load       = valid_i && op_i.kind == RX_LOAD;
  assign is_completion = valid_i && op_i.kind == RX_COMPLETION;

  // ---- Tags -----------------------------------------------------------------------------------
  assign dma_alloc_o   = is_load && !armed_q && dma_alloc_ok_i;
  assign load_look_o   = is_completion && !armed_q && !drop_q;
  assign load_take_o   = take_q;
  assign load_hold_o   = is_completion;

  always_ff @(posedge clk_i) begin
    if (dma_alloc_o) dma_tag_q <= dma_alloc_tag_i;
    if (load_look_o) begin
      answer_q <= load_answer_i;
      who_q <= '{
          requester_id: load_i.requester_id,
          tag: load_i.tag,
          tc: load_i.tc,
          attr: load_i.attr
      };
    end
  end

  // ---- Header ---------------------------------------------------------------------------------
  function automatic logic [31:0] in_wire_order(logic [31:0] dw);
    return {dw[7:0], dw[15:8], dw[23:16], dw[31:24]};
  endfunction

  assign four_dw = !is_completion && op_i.address[63:32] != '0;
  assign completion = cpl_pkg::cpl_header(
      op_i.data_dw != '0 ? TLP_CPLD : TLP_CPL,
      10'(op_i.data_dw),
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
      op_i.last_be,
      op_i.first_be,
      is_load ? dma_tag_q : 8'd0,
      completer_id_i[7:0],
      completer_id_i[15:8],
      op_i.length[7:0],
      6'd0,
      op_i.length[9:8],
      8'd0,
      is_load ? (four_dw ? TLP_MRD64 : TLP_MRD32) : (four_dw ? TLP_MWR64 : TLP_MWR32)
    };
    beat1 = {
      four_dw ? in_wire_order(op_i.address[31:0]) : pay_word_i[31:0],
      in_wire_order(four_dw ? op_i.address[63:32] : op_i.address[31:0])
    };
    if (is_completion) begin
      beat0       = completion[63:0];
      beat1[31:0] = completion[95:64];
    end
  end

  // ---- Beats ----------------------------------------------------------------------------------
  // A load's slot has no data worth sending.
  assign dws       = 7'd3 + 7'(four_dw) + (is_load ? 7'd0 : op_i.data_dw);
  assign last_beat = 6'((dws - 7'd1) >> 1);
  assign start     = is_store || armed_q;
  assign fire      = m_tlp.tvalid && m_tlp.tready;
  assign last      = beat_q == last_beat;

  // Pair of data DWs needed with the beat held: behind 3 DWs beat 1 has half of pair 0, behind 4 DWs
  // beat 2 has all of it.
  assign pair      = 5'(beat_q - (four_dw ? 6'd2 : 6'd1));
  assign pair_next = pair + 5'd1;
  assign pay_idx_o = fire && !last ? pair_next : pair;

  always_comb begin
    unique case (beat_q)
      6'd0: m_tlp.tdata = beat0;
      6'd1: m_tlp.tdata = beat1;
      default: m_tlp.tdata = four_dw ? pay_word_i : {pay_word_i[31:0], odd_q};
    endcase
  end
  assign m_tlp.tvalid = start;
  assign m_tlp.tlast  = last;
  assign m_tlp.tkeep  = last && dws[0] ? 8'h0F : 8'hFF;
  assign m_tlp.tuser  = '0;
  assign pop_o        = (fire && last) || drop_q;

  always_ff @(posedge clk_i) begin
    if (fire) odd_q <= pay_word_i[63:32];
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      armed_q      <= 1'b0;
      take_q       <= 1'b0;
      drop_q       <= 1'b0;
      beat_q       <= '0;
      write_q      <= 1'b0;
      read_q       <= 1'b0;
      unexpected_q <= 1'b0;
      repeated_q   <= 1'b0;
      arrival_q    <= 1'b0;
    end else begin
      if (dma_alloc_o || (load_look_o && load_live_i)) armed_q <= 1'b1;
      take_q <= load_look_o && load_live_i;
      drop_q <= load_look_o && !load_live_i;
      if (fire) beat_q <= last ? '0 : beat_q + 1'b1;
      if (fire && last) armed_q <= 1'b0;
      write_q      <= fire && last && is_store;
      read_q       <= fire && last && is_load;
      unexpected_q <= load_look_o && !load_live_i && !load_repeated_i;
      repeated_q   <= load_look_o && !load_live_i && load_repeated_i;
      arrival_q    <= fire && last && is_store && op_i.notify;
    end
  end

  assign cnt_dma_write_o = write_q;
  assign cnt_dma_read_o = read_q;
  assign cnt_load_completion_unexpected_o = unexpected_q;
  assign cnt_load_completion_repeated_o = repeated_q;
  assign arrival_o = arrival_q;
  assign busy_o = valid_i || write_q || read_q || unexpected_q || repeated_q;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !m_tlp.tready |=>
      m_tlp.tvalid && $stable(
      m_tlp.tdata
  ) && $stable(
      m_tlp.tlast
  ))
  else $error("server_dma: an offered beat was changed");
  // A write never crosses a page: see region_check.
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !is_completion |-> 11'(op_i.address[11:2]) + 11'(op_i.length) <= 11'd1024)
  else $error("server_dma: an operation crosses 4 KB");
`endif
  // Parts of the operation that others use.
  logic unused;
  assign unused = ^{op_i.net_tag, op_i.peer, op_i.session, op_i.load_number, op_i.status,
                    op_i.byte_count, op_i.lower_address, load_i.byte_count, load_i.lower_address,
                    load_i.peer_ip};
endmodule
