// SPDX-License-Identifier: Apache-2.0
// The engine's reads as TLPs: cut to what the host permits, many at once; their data into a buffer, and
// word of each piece in the order in which it was asked for.
//
// Latency   : a read taken to the first beat of its TLP 2 edges, a TLP in 3; the last beat of its completion
//             to piece_valid_o 2 edges.
// Clock     : clk_i (PCIe).
// Handshake : valid/ready. A read waits until the TLPs of all writes before it have left. A slot of the buffer
//             is free again with freed_i, one for each piece, in order.
// Drops     : completions that no read waits for; counted. A read without an answer within timeout_us_i, or with an error,
//             ends as bad.
// Source    : PCI Express Base 2.0, 2.2.7, 2.3.1 and 2.8.
module uzura_dma_read
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import uzura_nic_pkg::*;
#(
  /// TLPs in flight, and slots of the buffer; a power of two, 16 at most.
  parameter int unsigned Tags = 16,
  /// Time-outs of a tag's quarantine, as a power of two, see tag_pool.
  parameter int unsigned QuarantineLog2 = 6,
  localparam int unsigned SlotW = $clog2(Tags)
) (
  input  logic                          clk_i,
  input  logic                          rst_i,
  input  logic       [      15:0]       completer_id_i,
  input  logic       [      31:0]       now_us_i,
  input  logic       [      31:0]       timeout_us_i,
  /// Most of a TLP: 128 bytes << n, n = 0 to 2.
  input  logic       [       1:0]       max_read_i,
  input  read_t                         read_i,
  input  logic                          read_valid_i,
  output logic                          read_ready_o,
  /// TLPs of writes that have left.
  input  logic       [OrderW-1:0]       written_i,
         axis_if.src                    m_tlp,
  /// From tlp_rx.
  input  logic                          cpl_pay_even_we_i,
  input  logic                          cpl_pay_odd_we_i,
  input  logic       [       4:0]       pay_even_idx_i,
  input  logic       [      31:0]       pay_even_data_i,
  input  logic       [       4:0]       pay_odd_idx_i,
  input  logic       [      31:0]       pay_odd_data_i,
  input  logic                          cpl_valid_i,
  input  cpl_head_t                     cpl_head_i,
  /// Into the buffer: a bank for the even DWs and one for the odd ones.
  output logic       [       1:0]       we_o,
  output logic       [ SlotW-1:0]       slot_o,
  output logic       [       1:0][ 5:0] word_o,
  output logic       [       1:0][31:0] data_o,
  output piece_t                        piece_o,
  output logic                          piece_valid_o,
  input  logic                          piece_ready_i,
  input  logic                          freed_i,
  output logic                          cnt_read_o,
  output logic                          cnt_completion_o,
  output logic                          cnt_unexpected_o,
  output logic                          cnt_timeout_o,
  output logic                          cnt_failed_o,
  output logic                          busy_o
);
  // Tags have 5 bits unless a host agrees to more.
  localparam int unsigned TagW = 5;
  localparam int unsigned GenerationW = TagW - SlotW;
  localparam logic [9:0] MaxCompletionDw = 10'd64;

  // What is remembered of a TLP.
  typedef struct packed {
    logic [SlotW-1:0] slot;
    logic [9:0]       end_byte;  // in its slot
  } about_t;

  // ---- Cutting ------------------------------------------------------------------------------------
  read_t read_q;
  logic active_q, ordered, take, take_ok, room, whole;
  logic [OrderW-1:0] ahead;
  logic [  TagW-1:0] take_tag;
  logic [9:0] most, limit, bytes;
  logic [SlotW:0] alloc_q, head_q, freed_q;
  piece_t info_q[Tags];

  assign read_ready_o = !active_q;
  assign ahead        = written_i - read_q.behind;
  assign ordered      = !ahead[OrderW-1];
  assign room         = alloc_q - freed_q != (SlotW + 1)'(Tags);
  assign most         = 10'd128 << max_read_i;
  assign limit        = most - (read_q.addr[9:0] & (most - 10'd1));
  assign whole        = read_q.bytes <= 13'(limit);
  assign bytes        = whole ? read_q.bytes[9:0] : limit;

  always_ff @(posedge clk_i) begin
    if (read_valid_i && read_ready_o) begin
      read_q <= read_i;
    end else if (take) begin
      read_q.addr  <= read_q.addr + 64'(bytes);
      read_q.bytes <= read_q.bytes - 13'(bytes);
    end
    if (take) begin
      info_q[alloc_q[SlotW-1:0]] <= '{
          slot: 4'(alloc_q[SlotW-1:0]),
          offset: read_q.addr[8:0],
          bytes: bytes,
          cookie: read_q.cookie,
          last: whole,
          bad: 1'b0
      };
    end
    if (rst_i) begin
      active_q <= 1'b0;
      alloc_q  <= '0;
      freed_q  <= '0;
    end else begin
      if (read_valid_i && read_ready_o) active_q <= 1'b1;
      else if (take && whole) active_q <= 1'b0;
      alloc_q <= alloc_q + (SlotW + 1)'(take);
      freed_q <= freed_q + (SlotW + 1)'(freed_i);
    end
  end

  // ---- TLPs ---------------------------------------------------------------------------------------
  logic [63:0] address_q;
  logic [9:0] bytes_q, dws;
  logic [    10:0] span;
  logic [TagW-1:0] tag_q;
  logic sending_q, second_q, fire, wide;
  logic [3:0] first_be, last_be;

  assign fire                = sending_q && m_tlp.tready;
  // Not while one leaves: when that happens is found late, in the arbiter of TLPs.
  assign take                = active_q && ordered && room && take_ok && !sending_q;
  assign wide                = address_q[63:32] != '0;
  assign span                = 11'(bytes_q) + 11'(address_q[1:0]);
  assign dws                 = 10'((span + 11'd3) >> 2);
  assign {last_be, first_be} = run_enables(dws == 10'd1, address_q[1:0], span[1:0]);
  assign cnt_read_o          = take;

  always_comb begin
    m_tlp.tvalid = sending_q;
    m_tlp.tuser = '0;
    m_tlp.tlast = second_q;
    m_tlp.tkeep = second_q && !wide ? 8'h0F : 8'hFF;
    m_tlp.tdata = request_start(wide ? TLP_MRD64 : TLP_MRD32, dws, completer_id_i, 8'(tag_q),
                                last_be, first_be);
    if (second_q) begin
      m_tlp.tdata = {
        big_endian({address_q[31:2], 2'b00}),
        big_endian(wide ? address_q[63:32] : {address_q[31:2], 2'b00})
      };
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      address_q <= read_q.addr;
      bytes_q   <= bytes;
      tag_q     <= take_tag;
    end
    if (rst_i) begin
      sending_q <= 1'b0;
      second_q  <= 1'b0;
    end else begin
      if (take) sending_q <= 1'b1;
      else if (fire && second_q) sending_q <= 1'b0;
      if (fire) second_q <= !second_q;
    end
  end

  // ---- Completions --------------------------------------------------------------------------------
  logic even_we_q, odd_we_q, valid_q;
  logic [4:0] even_idx_q, odd_idx_q;
  logic [31:0] even_data_q, odd_data_q;
  cpl_head_t head_cpl_q;
  logic good, good_q, ends_q;

  // What a completion is, is known before whose it is.
  assign good = cpl_head_i.status == CPL_SC && cpl_head_i.has_data && cpl_head_i.length != '0 &&
      cpl_head_i.length <= MaxCompletionDw;

  always_ff @(posedge clk_i) begin
    even_idx_q <= pay_even_idx_i;
    even_data_q <= pay_even_data_i;
    odd_idx_q <= pay_odd_idx_i;
    odd_data_q <= pay_odd_data_i;
    head_cpl_q <= cpl_head_i;
    good_q <= good;
    ends_q <= !good || rx_pkg::completion_ends(
        cpl_head_i.status,
        cpl_head_i.byte_count,
        cpl_head_i.length[6:0],
        cpl_head_i.lower_address[1:0]
    );
    even_we_q <= cpl_pay_even_we_i && !rst_i;
    odd_we_q <= cpl_pay_odd_we_i && !rst_i;
    valid_q <= cpl_valid_i && !rst_i;
  end

  about_t about, expired_about;
  logic tag_late, late, tag_live, live, free, expired, expire, pool_busy, own;

  assign own    = 8'(head_cpl_q.tag[TagW-1:0]) == head_cpl_q.tag;
  assign late   = valid_q && tag_late && own;
  assign live   = tag_live && own;
  assign free   = valid_q && live && ends_q;
  assign expire = expired && !valid_q;

  tag_pool #(
    .Tags          (Tags),
    .GenerationW   (GenerationW),
    .QuarantineLog2(QuarantineLog2),
    .data_t        (about_t)
  ) u_pool (
    .clk_i,
    .rst_i,
    .now_us_i,
    .timeout_us_i,
    .take_i        (take),
    .take_data_i   ('{slot: alloc_q[SlotW-1:0], end_byte: 10'(read_q.addr[8:0]) + bytes}),
    .take_ok_o     (take_ok),
    .take_tag_o    (take_tag),
    .keep_i        (1'b0),
    .tag_i         (head_cpl_q.tag[TagW-1:0]),
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

  // A completion's byte count says how much of the read is left from its first byte on.
  logic [12:0] begin_byte, even_dw, odd_dw, end_dw;
  logic even_here, odd_here;
  assign begin_byte = 13'(about.end_byte) - 13'(head_cpl_q.byte_count);
  assign end_dw     = (13'(about.end_byte) + 13'd3) >> 2;
  assign even_dw    = {2'd0, begin_byte[12:2]} + {7'd0, even_idx_q, 1'b0};
  assign odd_dw     = {2'd0, begin_byte[12:2]} + {7'd0, odd_idx_q, 1'b1};
  assign even_here  = even_we_q && live && good_q && even_dw < end_dw;
  assign odd_here   = odd_we_q && live && good_q && odd_dw < end_dw;
  assign slot_o     = about.slot;
  always_comb begin
    for (int unsigned b = 0; b < 2; b++) begin
      if (even_dw[0] == 1'(b)) begin
        we_o[b]   = even_here;
        word_o[b] = even_dw[6:1];
        data_o[b] = even_data_q;
      end else begin
        we_o[b]   = odd_here;
        word_o[b] = odd_dw[6:1];
        data_o[b] = odd_data_q;
      end
    end
  end

  // ---- In order -----------------------------------------------------------------------------------
  logic [Tags-1:0] done_q, bad_q;
  assign piece_valid_o = done_q[head_q[SlotW-1:0]];
  always_comb begin
    piece_o     = info_q[head_q[SlotW-1:0]];
    piece_o.bad = bad_q[head_q[SlotW-1:0]];
  end
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      head_q <= '0;
      done_q <= '0;
      bad_q  <= '0;
    end else begin
      if (free) begin
        done_q[about.slot] <= 1'b1;
        bad_q[about.slot]  <= !good_q;
      end
      if (expire) begin
        done_q[expired_about.slot] <= 1'b1;
        bad_q[expired_about.slot]  <= 1'b1;
      end
      if (piece_valid_o && piece_ready_i) begin
        head_q                    <= head_q + 1'b1;
        done_q[head_q[SlotW-1:0]] <= 1'b0;
      end
    end
  end

  assign cnt_completion_o = valid_q && live;
  assign cnt_unexpected_o = valid_q && !live;
  assign cnt_timeout_o = expire;
  assign cnt_failed_o = free && !good_q;
  assign busy_o = active_q || read_valid_i || sending_q || valid_q || even_we_q || odd_we_q ||
      pool_busy || |done_q;

`ifndef SYNTHESIS
  initial
    assert (Tags <= 16)
    else $fatal(1, "uzura_dma_read: no generation is left in 5 bits of tag");
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !m_tlp.tready |=> m_tlp.tvalid && $stable(
      m_tlp.tdata
  ))
  else $error("uzura_dma_read: an offered beat was changed");
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid |-> 13'(address_q[11:0]) + 13'(bytes_q) <= 13'd4096)
  else $error("uzura_dma_read: a read crosses 4 KB");
  assert property (@(posedge clk_i) disable iff (rst_i) read_valid_i |-> read_i.bytes != '0)
  else $error("uzura_dma_read: a read of nothing");
`endif
  logic unused;
  assign unused = ^{expired_about.end_byte, begin_byte[1:0], head_cpl_q};
endmodule
