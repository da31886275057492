// SPDX-License-Identifier: Apache-2.0
// Parts of writes as TLPs, in order, and the interrupt behind what it tells of.
//
// Latency   : chunk_valid_i to the first beat 1 edge; a beat a cycle.
// Clock     : clk_i (PCIe); the buffer's DWs come 1 edge after their address.
// Handshake : valid/ready; a chunk is taken when its TLP begins. freed_valid_o with its end. An event becomes event_o.
//             msi_valid_i is held until msi_done_o.
// Drops     : never.
// Source    : PCI Express Base 2.0, 2.2.7 and 6.1.4.
module uzura_dma_write
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import uzura_nic_pkg::*;
#(
  /// Words of 8 bytes of the buffer.
  parameter int unsigned Words = 1024,
  localparam int unsigned WordW = $clog2(Words)
) (
  input  logic                               clk_i,
  input  logic                               rst_i,
  input  logic       [      15:0]            completer_id_i,
  input  chunk_t                             chunk_i,
  input  logic                               chunk_valid_i,
  output logic                               chunk_take_o,
  output logic                               event_o,
  input  logic       [      63:0]            msi_address_i,
  input  logic       [      31:0]            msi_data_i,
  input  logic                               msi_valid_i,
  output logic                               msi_done_o,
  output logic                               re_o,
  /// The words of the even DWs' bank and of the odd ones'.
  output logic       [       1:0][WordW-1:0] word_o,
  input  logic       [       1:0][     31:0] data_i,
  output logic       [ WordW-1:0]            freed_word_o,
  output logic                               freed_valid_o,
  /// There is always room for a freed word: as many as chunks.
  input  logic                               freed_ready_i,
         axis_if.src                         m_tlp,
  /// TLPs of writes that have left, interrupts aside.
  output logic       [OrderW-1:0]            written_o,
  output logic                               cnt_write_o,
  output logic                               busy_o
);
  localparam int unsigned DwW = WordW + 1;

  logic active_q, msi_q, wide_q, fire, last_beat, idle, begin_msi, begin_chunk;
  logic [63:0] address_q;
  logic [5:0] dws_q, beat_q, last_at_q;  // DWs of data; beats of the TLP
  logic [5:0] dws;
  logic       odd_q;  // the last beat has one DW
  logic [7:0] enables_q, span, words;
  logic [DwW-1:0] dw_q, dw_d;
  logic [      1:0] used;
  logic [WordW-1:0] behind_q;
  logic [31:0] first_dw, second_dw;

  /// The last beat of a TLP with so many DWs of data, and whether it has one DW only.
  function automatic logic [6:0] layout(logic [5:0] data, logic wide);
    logic [6:0] all;
    all = 7'(data) + 7'd3 + 7'(wide);
    return {6'((all - 7'd1) >> 1), all[0]};
  endfunction

  assign idle         = !active_q;
  assign begin_msi    = idle && msi_valid_i;
  assign begin_chunk  = idle && !msi_valid_i && chunk_valid_i && !chunk_i.is_event && freed_ready_i;
  assign event_o      = idle && !msi_valid_i && chunk_valid_i && chunk_i.is_event;
  assign chunk_take_o = begin_chunk || event_o;
  assign dws          = 6'((span + 8'd3) >> 2);
  assign span         = 8'(chunk_i.addr[1:0]) + chunk_i.bytes;

  assign words        = (8'(chunk_i.addr[2:0]) + chunk_i.bytes + 8'd7) >> 3;
  assign last_beat    = beat_q == last_at_q;
  assign fire         = active_q && m_tlp.tready;

  // DWs of the buffer that this beat takes.
  always_comb begin
    used = 2'd2;
    if (beat_q == '0) used = 2'd0;
    else if (beat_q == 6'd1) used = {1'b0, !wide_q};
    else if (last_beat && odd_q) used = 2'd1;
  end
  assign dw_d      = dw_q + (fire ? DwW'(used) : '0);
  assign re_o      = active_q;
  assign word_o[0] = dw_d[DwW-1:1] + WordW'(dw_d[0]);
  assign word_o[1] = dw_d[DwW-1:1];
  assign first_dw  = msi_q ? msi_data_i : data_i[dw_q[0]];
  assign second_dw = data_i[!dw_q[0]];

  always_comb begin
    m_tlp.tvalid = active_q;
    m_tlp.tuser  = '0;
    m_tlp.tlast  = last_beat;
    m_tlp.tkeep  = last_beat && odd_q ? 8'h0F : 8'hFF;
    // Behind the end the buffer may change at any time.
    m_tlp.tdata  = {last_beat && odd_q ? 32'd0 : second_dw, first_dw};
    if (beat_q == '0) begin
      m_tlp.tdata = request_start(
        wide_q ? TLP_MWR64 : TLP_MWR32,
        10'(dws_q),
        completer_id_i,
        8'd0,
        enables_q[7:4],
        enables_q[3:0]
      );
    end else if (beat_q == 6'd1) begin
      m_tlp.tdata = wide_q ? {big_endian({address_q[31:2], 2'b00}), big_endian(address_q[63:32])} :
          {first_dw, big_endian({address_q[31:2], 2'b00})};
    end
  end

  assign msi_done_o    = fire && last_beat && msi_q;
  assign freed_valid_o = fire && last_beat && !msi_q;
  assign freed_word_o  = behind_q;
  assign cnt_write_o   = freed_valid_o;
  assign busy_o        = active_q || chunk_valid_i || msi_valid_i;

  always_ff @(posedge clk_i) begin
    if (begin_msi) begin
      msi_q              <= 1'b1;
      address_q          <= msi_address_i;
      wide_q             <= msi_address_i[63:32] != '0;
      dws_q              <= 6'd1;
      {last_at_q, odd_q} <= layout(6'd1, msi_address_i[63:32] != '0);
      enables_q          <= 8'h0F;
    end else if (begin_chunk) begin
      msi_q              <= 1'b0;
      address_q          <= chunk_i.addr;
      wide_q             <= chunk_i.addr[63:32] != '0;
      dws_q              <= dws;
      {last_at_q, odd_q} <= layout(dws, chunk_i.addr[63:32] != '0);
      enables_q          <= run_enables(span <= 8'd4, chunk_i.addr[1:0], span[1:0]);
      dw_q               <= {chunk_i.word[WordW-1:0], chunk_i.addr[2]};
      behind_q           <= chunk_i.word[WordW-1:0] + WordW'(words);
    end else if (active_q) begin
      dw_q <= dw_d;
    end
    if (rst_i) begin
      active_q  <= 1'b0;
      beat_q    <= '0;
      written_o <= '0;
    end else begin
      if (begin_msi || begin_chunk) active_q <= 1'b1;
      else if (fire && last_beat) active_q <= 1'b0;
      if (fire) beat_q <= last_beat ? '0 : beat_q + 1'b1;
      written_o <= written_o + OrderW'(freed_valid_o);
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !m_tlp.tready |=>
      m_tlp.tvalid && $stable(
      m_tlp.tdata
  ) && $stable(
      m_tlp.tlast
  ))
  else $error("uzura_dma_write: an offered beat was changed");
  assert property (@(posedge clk_i) disable iff (rst_i)
      begin_chunk |-> chunk_i.bytes != '0 && 9'(chunk_i.addr[6:0]) + 9'(chunk_i.bytes) <= 9'd128)
  else $error("uzura_dma_write: a write is no TLP");
`endif
  logic unused;
  assign unused = ^{chunk_i.word, address_q[1:0]};
endmodule
