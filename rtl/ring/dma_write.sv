// SPDX-License-Identifier: Apache-2.0
// Writes host memory for several askers, one after the other: packets from the receive buffer as
// TLPs of the max payload at most, and single DWs (descriptors' last, interrupts).
//
// All that the NIC writes passes here in order, so an interrupt never overtakes what it tells of.
//
// Latency   : op_valid_i to the first beat 1 cycle, then a beat every cycle.
// Clock     : clk_i (PCIe); the buffer's words come 1 cycle after their address.
// Handshake : an operation is held until done_o, which is high with its last beat; askers take
//             turns. m_tlp as axis_if.
// Drops     : never.
// Source    : PCI Express Base 2.0, 2.2.7.
module dma_write
  import ipnuma_pkg::*;
  import ring_types_pkg::*;
#(
  /// Askers.
  parameter int unsigned N = 3,
  /// Words of the receive buffer; a power of two.
  parameter int unsigned BufferWords = 2048,
  localparam int unsigned WordW = $clog2(BufferWords)
) (
  input  logic                          clk_i,
  input  logic                          rst_i,
  input  logic       [ 15:0]            completer_id_i,
  /// Max payload 256 bytes; else 128.
  input  logic                          large_i,
  input  write_op_t                     op_i              [N],
  input  logic       [N-1:0]            op_valid_i,
  output logic       [N-1:0]            done_o,
  /// The receive buffer: even DWs in bank 0.
  output logic                          buffer_re_o,
  output logic       [  1:0][WordW-1:0] buffer_word_o,
  input  logic       [  1:0][     31:0] buffer_data_i,
         axis_if.src                    m_tlp,
  /// A TLP of a packet has left.
  output logic                          cnt_packet_write_o,
  output logic                          busy_o
);
  localparam int unsigned IndexW = N > 1 ? $clog2(N) : 1;
  localparam int unsigned DwW = WordW + 1;

  logic [N-1:0] grant, owner_q;
  logic [IndexW-1:0] grant_idx;
  logic any, take, active_q, fire, last_beat;

  write_op_t        op;
  logic      [12:0] op_dws      [N];
  logic             immediate_q;
  logic      [63:0] address_q;
  logic      [31:0] data_q;
  logic [DwW-1:0] dw_q, dw_d;  // of the buffer, next to be sent
  logic [12:0] left_q;  // DWs
  logic [ 1:0] tail_q;  // bytes of the last DW, 0 for all
  logic [ 6:0] beat_q;

  arb_rr #(
    .N(N)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i      (op_valid_i),
    .ack_i      (take),
    .lock_i     (1'b0),
    .gnt_o      (grant),
    .gnt_idx_o  (grant_idx),
    .gnt_valid_o(any)
  );
  assign take = any && !active_q;
  assign op   = op_i[grant_idx];
  // Of each before one is chosen.
  always_comb begin
    for (int unsigned i = 0; i < N; i++) begin
      op_dws[i] = op_i[i].immediate ? 13'd1 : 13'((15'(op_i[i].bytes) + 15'd3) >> 2);
    end
  end

  // ---- The TLP under way ------------------------------------------------------------------------
  // How long it is, is worked out beside its first beat; the beats behind that have it in registers.
  logic [6:0] room, chunk, dws, chunk_q, last_at_q;
  logic [1:0] used;
  logic [3:0] first_be, last_be, ends;
  logic [31:0] first_dw, second_dw;
  logic fits, left_one, wide, wide_q, odd_q, last_tlp_q, begins;

  // DWs up to the next boundary of the max payload.
  assign room      = large_i ? 7'd64 - 7'(address_q[7:2]) : 7'd32 - 7'(address_q[6:2]);
  assign fits      = left_q <= 13'(room);
  assign chunk     = fits ? left_q[6:0] : room;
  assign left_one  = left_q == 13'd1;
  assign ends      = enables_up_to(tail_q);
  assign wide      = address_q[63:32] != '0;
  assign dws       = chunk + 7'd3 + 7'(wide);
  assign begins    = beat_q == '0;
  assign last_beat = !begins && beat_q == last_at_q;
  assign fire      = active_q && m_tlp.tready;
  // Both ways, before it is known which.
  assign last_be   = fits ? (left_one ? 4'h0 : ends) : (room == 7'd1 ? 4'h0 : 4'hF);
  assign first_be  = fits && left_one ? ends : 4'hF;

  always_ff @(posedge clk_i) begin
    if (begins) begin
      chunk_q    <= chunk;
      last_at_q  <= (dws - 7'd1) >> 1;
      odd_q      <= dws[0];
      wide_q     <= wide;
      last_tlp_q <= fits;
    end
  end

  // DWs of the buffer that this beat takes.
  always_comb begin
    used = 2'd2;
    if (begins) used = 2'd0;
    else if (beat_q == 7'd1) used = {1'b0, !wide_q};
    else if (last_beat && odd_q) used = 2'd1;
  end

  assign dw_d             = dw_q + (fire ? DwW'(used) : '0);
  assign buffer_re_o      = active_q;
  assign buffer_word_o[0] = dw_d[DwW-1:1] + WordW'(dw_d[0]);
  assign buffer_word_o[1] = dw_d[DwW-1:1];
  assign first_dw         = immediate_q ? data_q : buffer_data_i[dw_q[0]];
  assign second_dw        = buffer_data_i[!dw_q[0]];

  always_comb begin
    m_tlp.tvalid = active_q;
    m_tlp.tuser  = '0;
    m_tlp.tlast  = last_beat;
    m_tlp.tkeep  = last_beat && odd_q ? 8'h0F : 8'hFF;
    // Behind the end of a packet the buffer may change at any time.
    m_tlp.tdata  = {last_beat && odd_q ? 32'd0 : second_dw, first_dw};
    if (begins) begin
      m_tlp.tdata = request_head(wide ? TLP_MWR64 : TLP_MWR32, 10'(chunk), completer_id_i, 8'd0,
                                 last_be, first_be);
    end else if (beat_q == 7'd1) begin
      m_tlp.tdata = wide_q ? {in_wire_order(address_q[31:0]), in_wire_order(address_q[63:32])} :
          {first_dw, in_wire_order(address_q[31:0])};
    end
  end

  assign done_o             = owner_q & {N{fire && last_beat && last_tlp_q}};
  assign cnt_packet_write_o = fire && last_beat && !immediate_q;
  assign busy_o             = |op_valid_i || active_q;

  always_ff @(posedge clk_i) begin
    if (take) begin
      owner_q     <= grant;
      immediate_q <= op.immediate;
      address_q   <= {op.address[63:2], 2'b00};
      data_q      <= op.data;
      dw_q        <= {op.word[WordW-1:0], 1'b0};
      left_q      <= op_dws[grant_idx];
      tail_q      <= op.immediate ? 2'd0 : op.bytes[1:0];
    end else if (active_q) begin
      dw_q <= dw_d;
      if (fire && last_beat) begin
        address_q <= address_q + 64'({chunk_q, 2'b00});
        left_q    <= left_q - 13'(chunk_q);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q <= 1'b0;
      beat_q   <= '0;
    end else begin
      if (take) active_q <= 1'b1;
      else if (fire && last_beat && last_tlp_q) active_q <= 1'b0;
      if (fire) beat_q <= last_beat ? '0 : beat_q + 1'b1;
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
  else $error("dma_write: an offered beat was changed");
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && begins |-> 11'(address_q[11:2]) + 11'(chunk) <= 11'd1024 && chunk != '0)
  else $error("dma_write: a write crosses 4 KB, or is empty");
`endif
endmodule
