// SPDX-License-Identifier: Apache-2.0
// Takes TLPs from the root complex apart: loads and stores for the requester, register operations
// for the completer, completions for the DMA tags; everything else is counted and refused.
//
// A TLP counts only once it has ended as its header says; until then users hold what they were
// given (payload in a slot that is not taken yet, a look-up whose result nobody uses). A digest is counted,
// and is neither checked nor data.
//
// Latency   : none for page operations and completions, which see the beats combinationally; 1
//             cycle of clk_i from the last beat to reg_op_valid_o and the counters. A load that has a beat for
//             its digest alone (4 DWs of header) is looked up with that beat: it is an operation only once it
//             has ended.
// Clock     : clk_i (PCIe).
// Handshake : beat 0 is always taken; a TLP waits at beat 1 until its user is ready. Page TLPs also
//             wait while a register write is under way, so that a table change holds for the next
//             TLP.
// Drops     : malformed, poisoned and unsupported TLPs, each counted once; those that want an answer get one.
// Source    : PCI Express Base 2.0, 2.2 (header formats) and 2.3 (request handling); 3.0 for atomic operations.
module tlp_rx
  import ipnuma_pkg::*;
  import tlp_pkg::*;
#(
  /// Pages in BAR 2.
  parameter int unsigned Pages = 262144
) (
  input logic       clk_i,
  input logic       rst_i,
  /// TLPs; tuser is the BAR hit, valid with the first beat.
        axis_if.snk s_axis,

  /// Register operation, held until ready. Ready stays low from the edge that takes an operation
  /// until the operation has taken effect.
  output reg_op_t reg_op_o,
  output logic    reg_op_valid_o,
  input  logic    reg_op_ready_i,

  /// Beat 1 of a page TLP is on the stream (or the digest of a load whose look-up waited for it): its look-up
  /// may start (no handshake implied).
  output logic     page_look_o,
  /// Page operation; valid with page_look_o.
  output page_op_t page_op_o,
  /// The beat that page_look_o tells of is taken, and its TLP acceptable so far.
  output logic     page_first_o,
  /// The last beat of an acceptable, well-formed page TLP is taken (may coincide with
  /// page_first_o).
  output logic     page_end_o,
  /// A page TLP is behind its beat 1, acceptable or not.
  output logic     page_active_o,
  /// A store, or a load or refused read, may begin.
  input  logic     page_store_ready_i,
  input  logic     page_load_ready_i,
  output logic     page_pay_even_we_o,
  output logic     page_pay_odd_we_o,

  /// Payload DWs 2i (even) and 2i+1 (odd), of page stores and completions alike.
  output logic [ 4:0] pay_even_idx_o,
  output logic [31:0] pay_even_data_o,
  output logic [ 4:0] pay_odd_idx_o,
  output logic [31:0] pay_odd_data_o,

  output logic      cpl_pay_even_we_o,
  output logic      cpl_pay_odd_we_o,
  /// A completion is under way, its beat 1 gone.
  output logic      cpl_active_o,
  /// A completion has ended well.
  output logic      cpl_valid_o,
  output cpl_head_t cpl_head_o,
  /// Room for a completion with payload.
  input  logic      cpl_ready_i,

  /// A read to be refused (pulse); page_load_ready_i was high.
  output cpl_error_t rx_error_o,
  output logic       rx_error_valid_o,

  output logic cnt_tlp_page_beyond_o,
  output logic cnt_tlp_unsupported_o,
  output logic cnt_tlp_poisoned_o,
  output logic cnt_tlp_malformed_o,
  output logic busy_o
);
  localparam logic [9:0] MaxLength = 10'd64;

  // Where the stream is in its TLP.
  logic        first_q;  // the next beat is beat 0
  logic        beat1_q;  // the next beat is beat 1
  logic        bad_q;  // longer than its header says: wait for its end
  logic [10:0] left_q;  // DWs from the next beat on
  logic [ 4:0] idx_q;  // beats since beat 1
  tlp_start_t start_q, start;
  logic [2:0] bar_q;

  logic fire, four_dw, has_data, good_end, bad_end;
  logic is_mrd, is_mwr, is_cpl, non_posted_q, to_pages, to_regs;
  logic late_q;  // a load whose digest has a beat of its own
  logic digest_low_q, digest_high_q;  // the next beat has the digest, there
  logic [29:2] address_c, address_q;
  logic [4:0] lower;  // address[6:2]
  logic crosses, unsupported_c, unsupported_q, unsupported;
  logic beyond_c, beyond_q, beyond;
  logic           accept;
  logic    [10:0] total;
  logic           ready;
  logic           write_busy_q;
  logic           reg_valid_q;
  reg_op_t        reg_q;
  logic [31:0] even_data, odd_data;
  logic data_beat, even_here, odd_here;

  // Beat 0: how long the TLP will be.
  assign start = parse_start(s_axis.tdata);
  always_comb begin
    total = 11'd3 + 11'(start.fmt_type[5]) + 11'(start.td);
    if (start.fmt_type[6]) total += (start.length == '0) ? 11'd1024 : {1'b0, start.length};
  end

  // Beat 1: what it is.
  assign four_dw   = start_q.fmt_type[5];
  assign has_data  = start_q.fmt_type[6];
  assign is_mrd    = start_q.fmt_type inside {TLP_MRD32, TLP_MRD64};
  assign is_mwr    = start_q.fmt_type inside {TLP_MWR32, TLP_MWR64};
  assign is_cpl    = start_q.fmt_type inside {TLP_CPL, TLP_CPLD};
  assign to_pages  = (is_mrd || is_mwr) && bar_q == BAR_PAGES;
  assign to_regs   = (is_mrd || is_mwr) && bar_q == BAR_REGISTERS;
  assign address_c = 28'(big_endian(four_dw ? s_axis.tdata[63:32] : s_axis.tdata[31:0]) >> 2);
  assign crosses   = 11'(address_c[11:2]) + 11'(start_q.length) > 11'd1024;

  always_comb begin
    unsupported_c = 1'b0;
    if (is_mrd || is_mwr) begin
      unique case (bar_q)
        BAR_PAGES:
        if (start_q.length == '0 || start_q.length > MaxLength || crosses) unsupported_c = 1'b1;
        BAR_REGISTERS: if (!(start_q.length inside {10'd1, 10'd2})) unsupported_c = 1'b1;
        default: unsupported_c = 1'b1;
      endcase
    end else if (!is_cpl) begin
      unsupported_c = 1'b1;
    end
  end
  assign beyond_c    = to_pages && 32'(address_c[29:12]) >= Pages;

  assign lower       = beat1_q ? address_c[6:2] : address_q[6:2];
  assign unsupported = beat1_q ? unsupported_c : unsupported_q;
  assign beyond      = beat1_q ? beyond_c : beyond_q;
  assign accept      = !start_q.ep && !unsupported && !beyond;

  // A TLP waits at beat 1 for its user; behind it nothing stops it.
  always_comb begin
    ready = 1'b1;
    if (!first_q && beat1_q) begin
      if (is_cpl && !cpl_ready_i) ready = 1'b0;
      if (non_posted_q && !page_load_ready_i) ready = 1'b0;
      if (is_mwr && to_pages && !page_store_ready_i) ready = 1'b0;
      if (to_pages && write_busy_q) ready = 1'b0;
      if (to_regs && reg_valid_q && !reg_op_ready_i) ready = 1'b0;
    end
  end
  assign s_axis.tready = ready;
  assign fire = s_axis.tvalid && ready;

  assign good_end = fire && s_axis.tlast && !first_q && !bad_q &&
      left_q == (s_axis.tkeep[4] ? 11'd2 : 11'd1);
  assign bad_end = fire && s_axis.tlast && !good_end;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      first_q <= 1'b1;
      beat1_q <= 1'b0;
      bad_q   <= 1'b0;
    end else if (fire) begin
      first_q <= s_axis.tlast;
      beat1_q <= first_q && !s_axis.tlast;
      bad_q   <= !first_q && !s_axis.tlast && (bad_q || left_q <= 11'd2);
    end
  end

  always_ff @(posedge clk_i) begin
    if (fire && first_q) begin
      start_q       <= start;
      bar_q         <= 3'(s_axis.tuser);
      left_q        <= total - 11'd2;
      idx_q         <= '0;
      non_posted_q  <= is_non_posted(start.fmt_type);
      late_q        <= start.td && start.fmt_type == TLP_MRD64;
      // Where there are data, none is as early as beat 1.
      digest_low_q  <= 1'b0;
      digest_high_q <= 1'b0;
    end else if (fire) begin
      left_q        <= left_q - 11'd2;
      idx_q         <= idx_q + 1'b1;
      digest_low_q  <= start_q.td && left_q == 11'd3;
      digest_high_q <= start_q.td && left_q == 11'd4;
    end
    if (fire && beat1_q) begin
      address_q     <= address_c;
      unsupported_q <= unsupported_c;
      beyond_q      <= beyond_c;
    end
  end

  // Payload: behind a 3-DW header DW 0 is in the upper half of beat 1. A digest would be written behind the
  // data; behind 64 DWs it would come to lie on the first one.
  assign even_data = four_dw ? s_axis.tdata[31:0] : s_axis.tdata[63:32];
  assign odd_data = four_dw ? s_axis.tdata[63:32] : s_axis.tdata[31:0];
  assign data_beat = fire && !first_q && !bad_q && has_data;
  assign even_here = data_beat && (four_dw ? !beat1_q && !digest_low_q :
                                   s_axis.tkeep[4] && !digest_high_q);
  assign odd_here = data_beat && !beat1_q && (four_dw ? s_axis.tkeep[4] && !digest_high_q :
                                              !digest_low_q);
  assign pay_even_data_o = even_data;
  assign pay_odd_data_o = odd_data;
  assign pay_even_idx_o = four_dw ? idx_q - 1'b1 : idx_q;
  assign pay_odd_idx_o = idx_q - 1'b1;

  assign page_pay_even_we_o = even_here && to_pages;
  assign page_pay_odd_we_o = odd_here && to_pages;
  assign cpl_pay_even_we_o = even_here && is_cpl;
  assign cpl_pay_odd_we_o = odd_here && is_cpl;

  // Page operations.
  assign page_look_o = s_axis.tvalid && to_pages && (late_q ? !first_q && !beat1_q : beat1_q);
  assign page_active_o = !first_q && !beat1_q && to_pages;
  assign page_first_o = late_q ? page_end_o : fire && beat1_q && to_pages && accept;
  assign page_end_o = good_end && to_pages && accept;
  assign page_op_o = '{
          is_load: is_mrd,
          page: late_q ? address_q[29:12] : address_c[29:12],
          offset: {late_q ? address_q[11:2] : address_c[11:2], 2'b00},
          length: start_q.length[6:0],
          first_be: start_q.low[3:0],
          last_be: start_q.low[7:4],
          requester_id: start_q.id,
          tag: start_q.low[15:8],
          tc: start_q.tc,
          attr: start_q.attr
      };

  // Completions. Their header's third DW is in beat 1, which may be long gone.
  logic [7:0] cpl_tag_q, cpl_tag_c;
  logic [6:0] cpl_lower_q, cpl_lower_c;
  assign cpl_tag_c   = s_axis.tdata[23:16];
  assign cpl_lower_c = s_axis.tdata[30:24];
  always_ff @(posedge clk_i) begin
    if (fire && beat1_q) begin
      cpl_tag_q   <= cpl_tag_c;
      cpl_lower_q <= cpl_lower_c;
    end
  end
  assign cpl_active_o = !first_q && !beat1_q && is_cpl;
  assign cpl_valid_o = good_end && is_cpl && accept;
  assign cpl_head_o = '{
          has_data: has_data,
          status: start_q.low[15:13],
          byte_count: start_q.low[11:0],
          lower_address: beat1_q ? cpl_lower_c : cpl_lower_q,
          length: start_q.length,
          tag: beat1_q ? cpl_tag_c : cpl_tag_q
      };

  // Register operations: collected in the output register, valid once the TLP has ended well.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      reg_valid_q  <= 1'b0;
      write_busy_q <= 1'b0;
    end else begin
      if (good_end && to_regs && accept) begin
        reg_valid_q <= 1'b1;
      end else if (reg_op_ready_i) begin
        reg_valid_q <= 1'b0;
      end
      if (good_end && to_regs && accept && is_mwr) begin
        write_busy_q <= 1'b1;
      end else if (reg_op_ready_i && !(reg_valid_q && reg_q.write)) begin
        write_busy_q <= 1'b0;
      end
    end
    if (fire && beat1_q && to_regs) begin
      reg_q.write        <= is_mwr;
      reg_q.addr         <= {address_c[22:2], 2'b00};
      reg_q.two_dw       <= start_q.length == 10'd2;
      reg_q.first_be     <= start_q.low[3:0];
      reg_q.last_be      <= start_q.low[7:4];
      reg_q.requester_id <= start_q.id;
      reg_q.tag          <= start_q.low[15:8];
      reg_q.tc           <= start_q.tc;
      reg_q.attr         <= start_q.attr;
    end
    if (even_here && to_regs && pay_even_idx_o == '0) reg_q.wdata[31:0] <= even_data;
    if (odd_here && to_regs && pay_odd_idx_o == '0) reg_q.wdata[63:32] <= odd_data;
  end
  assign reg_op_o       = reg_q;
  assign reg_op_valid_o = reg_valid_q;

  // Refusals. Byte count and lower address are those of what was asked for.
  logic is_locked, is_read, is_atomic;
  logic [11:0] refused_count;
  assign is_locked = is_locked_read(start_q.fmt_type);
  assign is_read   = is_mrd || is_locked;
  assign is_atomic = start_q.fmt_type[3];  // among those that want an answer
  always_comb begin
    refused_count = OTHER_BYTE_COUNT;
    if (is_atomic) refused_count = atomic_byte_count(start_q.fmt_type, start_q.length);
    if (is_read) begin
      refused_count = read_byte_count(start_q.length, start_q.low[3:0], start_q.low[7:4]);
    end
  end
  assign rx_error_valid_o = good_end && !accept && non_posted_q;
  assign rx_error_o = '{
          requester_id: start_q.id,
          tag: start_q.low[15:8],
          tc: start_q.tc,
          attr: start_q.attr,
          locked: is_locked,
          status: CPL_UR,
          byte_count: refused_count,
          lower_address: is_read ? {lower, first_byte(start_q.low[3:0])} : '0
      };

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      cnt_tlp_malformed_o   <= 1'b0;
      cnt_tlp_poisoned_o    <= 1'b0;
      cnt_tlp_unsupported_o <= 1'b0;
      cnt_tlp_page_beyond_o <= 1'b0;
    end else begin
      cnt_tlp_malformed_o   <= bad_end;
      cnt_tlp_poisoned_o    <= good_end && start_q.ep;
      cnt_tlp_unsupported_o <= good_end && !start_q.ep && unsupported;
      cnt_tlp_page_beyond_o <= good_end && !start_q.ep && !unsupported && beyond;
    end
  end

  assign busy_o = !first_q || reg_valid_q || write_busy_q || cnt_tlp_malformed_o ||
      cnt_tlp_poisoned_o || cnt_tlp_unsupported_o || cnt_tlp_page_beyond_o;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      reg_op_valid_o && !reg_op_ready_i |=> reg_op_valid_o && $stable(
      reg_op_o
  ))
  else $error("tlp_rx: a register operation was withdrawn");
  assert property (@(posedge clk_i) disable iff (rst_i)
      s_axis.tvalid |-> s_axis.tkeep == 8'hFF || (s_axis.tlast && s_axis.tkeep == 8'h0F))
  else $error("tlp_rx: tkeep is neither a whole beat nor half of the last one");
`endif
endmodule
