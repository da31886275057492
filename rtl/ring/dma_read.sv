// SPDX-License-Identifier: Apache-2.0
// Reads host memory for three askers: memory read TLPs out, completions back to the area of whoever
// asked, in whatever pieces and order between tags they come.
//
// The place of a completion's data follows from its byte count, which says how much of the read is
// left from there on: nothing is kept up to date as pieces arrive.
//
// Latency   : op_valid_i to the first beat of the TLP 1 cycle, 2 cycles a read; a completion's beat
//             to data_o 1 cycle, its end to done_o 1 cycle.
// Clock     : clk_i (PCIe).
// Handshake : op_i is taken with op_ready_o, index 0 first; it is held until then. m_tlp as axis_if.
// Drops     : completions that no read waits for; counted. A read that gets no answer in
//             timeout_us_i, an error, or a piece of more than 64 DWs, ends with ok low.
// Source    : dissertation figure 3.5, steps 6 and 7; PCI Express Base 2.0, 2.2.7 and 2.3.1.
module dma_read
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import ring_types_pkg::*;
#(
  /// Reads in flight; a power of two, 16 at most.
  parameter int unsigned Tags = 16,
  /// Time-outs of a tag's quarantine, as a power of two, see tag_pool.
  parameter int unsigned QuarantineLog2 = 6
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic       [15:0] completer_id_i,
  input  logic       [31:0] now_us_i,
  input  logic       [31:0] timeout_us_i,
  input  read_op_t          op_i             [3],
  input  logic       [ 2:0] op_valid_i,
  output logic       [ 2:0] op_ready_o,
         axis_if.src        m_tlp,
  /// From tlp_rx.
  input  logic              cpl_pay_even_we_i,
  input  logic              cpl_pay_odd_we_i,
  input  logic       [ 4:0] pay_even_idx_i,
  input  logic       [31:0] pay_even_data_i,
  input  logic       [ 4:0] pay_odd_idx_i,
  input  logic       [31:0] pay_odd_data_i,
  input  logic              cpl_valid_i,
  input  cpl_head_t         cpl_head_i,
  output read_data_t        data_o,
  output read_done_t        done_o,
  output logic              cnt_completion_o,
  output logic              cnt_unexpected_o,
  output logic              cnt_timeout_o,
  output logic              cnt_failed_o,
  output logic              busy_o
);
  // Tags have 5 bits unless a host agrees to more.
  localparam int unsigned TagW = 5;
  localparam int unsigned GenerationW = TagW - $clog2(Tags);
  localparam logic [9:0] MaxPieceDw = 10'd64;

  // ---- Requests ---------------------------------------------------------------------------------
  read_op_t op, op_q;
  logic [TagW-1:0] take_tag, tag_q;
  logic take, take_ok, active_q, second_q, fire, wide;
  logic [ 1:0] first;
  logic [ 9:0] dws;
  logic [10:0] span;
  logic [3:0] first_be, last_be, ends_be;

  always_comb begin
    op         = op_i[2];
    op_ready_o = {take && op_valid_i[2], 2'b00};
    if (op_valid_i[1]) begin
      op         = op_i[1];
      op_ready_o = {1'b0, take, 1'b0};
    end
    if (op_valid_i[0]) begin
      op         = op_i[0];
      op_ready_o = {2'b00, take};
    end
  end
  assign fire     = active_q && m_tlp.tready;
  assign take     = |op_valid_i && take_ok && (!active_q || (fire && second_q));

  assign wide     = op_q.address[63:32] != '0;
  assign first    = op_q.address[1:0];
  assign span     = 11'(op_q.bytes) + 11'(first);
  assign dws      = 10'((span + 11'd3) >> 2);
  assign ends_be  = enables_up_to(span[1:0]);
  assign first_be = (4'hF << first) & (dws == 10'd1 ? ends_be : 4'hF);
  assign last_be  = dws == 10'd1 ? 4'h0 : ends_be;

  always_comb begin
    m_tlp.tvalid = active_q;
    m_tlp.tuser = '0;
    m_tlp.tlast = second_q;
    m_tlp.tkeep = second_q && !wide ? 8'h0F : 8'hFF;
    m_tlp.tdata = request_head(wide ? TLP_MRD64 : TLP_MRD32, dws, completer_id_i, 8'(tag_q),
                               last_be, first_be);
    if (second_q) begin
      m_tlp.tdata[63:32] = in_wire_order({op_q.address[31:2], 2'b00});
      m_tlp.tdata[31:0]  = in_wire_order(wide ? op_q.address[63:32] : {op_q.address[31:2], 2'b00});
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      op_q  <= op;
      tag_q <= take_tag;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q <= 1'b0;
      second_q <= 1'b0;
    end else begin
      if (take) active_q <= 1'b1;
      else if (fire && second_q) active_q <= 1'b0;
      if (fire) second_q <= !second_q;
    end
  end

  // ---- Completions ------------------------------------------------------------------------------
  logic even_we_q, odd_we_q, valid_q;
  logic [4:0] even_idx_q, odd_idx_q;
  logic [31:0] even_data_q, odd_data_q;
  cpl_head_t head_q;
  logic good, good_q, ends_q;

  // What a completion is, is known before whose it is.
  assign good = cpl_head_i.status == CPL_SC && cpl_head_i.has_data && cpl_head_i.length != '0 &&
      cpl_head_i.length <= MaxPieceDw;
  always_ff @(posedge clk_i) begin
    good_q <= good;
    ends_q <= !good || rx_pkg::completion_ends(
        cpl_head_i.status,
        cpl_head_i.byte_count,
        cpl_head_i.length[6:0],
        cpl_head_i.lower_address[1:0]
    );
  end

  always_ff @(posedge clk_i) begin
    even_idx_q  <= pay_even_idx_i;
    even_data_q <= pay_even_data_i;
    odd_idx_q   <= pay_odd_idx_i;
    odd_data_q  <= pay_odd_data_i;
    head_q      <= cpl_head_i;
    even_we_q   <= cpl_pay_even_we_i && !rst_i;
    odd_we_q    <= cpl_pay_odd_we_i && !rst_i;
    valid_q     <= cpl_valid_i && !rst_i;
  end

  read_t about, expired_about;
  logic tag_late, late, tag_live, live, free, expired, expire, pool_busy;

  assign late   = valid_q && tag_late && 8'(head_q.tag[TagW-1:0]) == head_q.tag;
  assign live   = tag_live && 8'(head_q.tag[TagW-1:0]) == head_q.tag;
  assign free   = valid_q && live && ends_q;
  assign expire = expired && !valid_q;

  tag_pool #(
    .Tags          (Tags),
    .GenerationW   (GenerationW),
    .QuarantineLog2(QuarantineLog2),
    .data_t        (read_t)
  ) u_pool (
    .clk_i,
    .rst_i,
    .now_us_i,
    .timeout_us_i,
    .take_i        (take),
    .take_data_i   (op.about),
    .take_ok_o     (take_ok),
    .take_tag_o    (take_tag),
    .keep_i        (1'b0),
    .tag_i         (head_q.tag[TagW-1:0]),
    .whole_i       (1'b1),
    .live_o        (tag_live),
    .data_o        (about),
    .free_i        (free),
    .late_o        (tag_late),
    .late_free_i   (late && ends_q),
    .expired_o     (expired),
    .expired_data_o(expired_about),
    .expire_i      (expire),
    .used_o        (),
    .generation_o  (),
    .busy_o        (pool_busy)
  );

  // Where the data go: the piece ends byte_count bytes before ... the read's end, less itself.
  logic [14:0] piece;
  logic [12:0] end_dw, even_dw, odd_dw;
  logic even_here, odd_here, even_bank;

  assign piece     = about.end_byte - 15'(head_q.byte_count);
  assign end_dw    = 13'((16'(about.end_byte) + 16'd3) >> 2);
  assign even_dw   = piece[14:2] + 13'({even_idx_q, 1'b0});
  assign odd_dw    = piece[14:2] + 13'({odd_idx_q, 1'b1});
  assign even_bank = even_dw[0];
  assign even_here = even_we_q && live && good_q && even_dw < end_dw;
  assign odd_here  = odd_we_q && live && good_q && odd_dw < end_dw;

  always_comb begin
    data_o.reader = about.reader;
    data_o.slot   = about.slot;
    for (int unsigned b = 0; b < 2; b++) begin
      if (even_bank == 1'(b)) begin
        data_o.we[b]   = even_here;
        data_o.word[b] = even_dw[12:1];
        data_o.data[b] = even_data_q;
      end else begin
        data_o.we[b]   = odd_here;
        data_o.word[b] = odd_dw[12:1];
        data_o.data[b] = odd_data_q;
      end
    end
  end

  assign done_o = '{
          valid: free || expire,
          reader: expire ? expired_about.reader : about.reader,
          slot: expire ? expired_about.slot : about.slot,
          ok: !expire && good_q
      };

  assign cnt_completion_o = valid_q && live;
  assign cnt_unexpected_o = valid_q && !live;
  assign cnt_timeout_o = expire;
  assign cnt_failed_o = free && !good_q;
  assign busy_o = |op_valid_i || active_q || valid_q || even_we_q || odd_we_q || pool_busy;

`ifndef SYNTHESIS
  initial
    assert (Tags <= 16)
    else $fatal(1, "dma_read: no generation is left in 5 bits of tag");
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !m_tlp.tready |=> m_tlp.tvalid && $stable(
      m_tlp.tdata
  ))
  else $error("dma_read: an offered beat was changed");
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid |-> 13'(op_q.address[11:0]) + 13'(op_q.bytes) <= 13'd4096)
  else $error("dma_read: a read crosses 4 KB");
`endif
  // Of an expired read only who asked counts; two of a piece's low bits are the DW's.
  logic unused;
  assign unused = ^{expired_about.end_byte, piece[1:0], head_q, op_q.about};
endmodule
