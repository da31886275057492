// SPDX-License-Identifier: Apache-2.0
// Reads the TLPs of the root complex as they come: what each is, where it belongs, whether it counts.
//
// All that can be known of a TLP is found here, in front of the registers of pcie_rx_split: behind them a word
// says what is to be done with it. A digest is counted, and is neither checked nor data.
//
// Latency   : 0 cycles, combinational; 1 cycle of clk_i from a TLP's last beat to the counters.
// Clock     : clk_i (PCIe).
// Handshake : s_axis.tready is ready_i. Words and reads are pulses: ready_i means that there is room for any.
// Drops     : malformed, poisoned and unsupported TLPs, each counted once; those that want an answer become
//             KIND refuse. What is posted and known from its first beat to be dropped makes no word.
// Source    : PCI Express Base 2.0, 2.2 (header formats) and 2.3 (request handling); 3.0 for atomic operations.
module tlp_parse
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
  input logic       ready_i,

  /// Posted requests, and what is non-posted and no good register read.
  output rx_word_t  posted_o,
  output logic      posted_valid_o,
  /// A register write ends well with the word that is valid.
  output logic      write_o,
  /// Register reads.
  output reg_read_t read_o,
  output logic      read_valid_o,
  /// Completions.
  output rx_word_t  cpl_o,
  output logic      cpl_valid_o,

  output logic cnt_tlp_page_beyond_o,
  output logic cnt_tlp_unsupported_o,
  output logic cnt_tlp_poisoned_o,
  output logic cnt_tlp_malformed_o,
  output logic busy_o
);
  localparam logic [9:0] MaxLength = 10'd64;

  // Where a TLP goes.
  typedef struct packed {
    logic posted;
    logic non_posted;  // in the same lane
    logic read;
    logic cpl;
  } lane_t;

  // Where the stream is in its TLP.
  logic        first_q;  // the next beat is beat 0
  logic        beat1_q;  // the next beat is beat 1
  logic        bad_q;  // longer than its header says: wait for its end
  logic [10:0] left_q;  // DWs from the next beat on
  tlp_start_t start_q, start;
  lane_t lane_q, lane;

  // Beat 0.
  logic is_mrd, is_mwr, is_cpl, to_pages, to_regs, length_ok;
  logic [10:0] total;
  logic load_q, store_q, write_q, unsupported_q, supported;
  logic [6:0] last_dw_q;  // of the last 64 of 4 KB: where a TLP to the pages may begin at most
  logic four_dw, has_data;

  // Beat 1.
  logic fire, good_end, bad_end, crosses, beyond_c, beyond, unsupported, accept;
  logic [29:2] address;
  logic [31:0] third, third_q;  // DW of the header, as it came
  logic crosses_q, beyond_q;
  logic digest_low_q, digest_high_q;  // the next beat has the digest, there
  logic data_beat, even_here, odd_here;
  rx_kind_t kind, kind_q;
  logic word;

  assign start    = parse_start(s_axis.tdata);
  assign is_mrd   = start.fmt_type inside {TLP_MRD32, TLP_MRD64};
  assign is_mwr   = start.fmt_type inside {TLP_MWR32, TLP_MWR64};
  assign is_cpl   = start.fmt_type inside {TLP_CPL, TLP_CPLD};
  assign to_pages = 3'(s_axis.tuser) == BAR_PAGES;
  assign to_regs  = 3'(s_axis.tuser) == BAR_REGISTERS;
  always_comb begin
    length_ok = 1'b0;
    if (to_pages) length_ok = start.length != '0 && start.length <= MaxLength;
    if (to_regs) length_ok = start.length inside {10'd1, 10'd2};
  end
  assign supported       = is_cpl || ((is_mrd || is_mwr) && length_ok);
  assign lane.posted     = is_mwr && length_ok && !start.ep;
  assign lane.read       = is_mrd && to_regs && length_ok && !start.ep;
  assign lane.non_posted = is_non_posted(start.fmt_type) && !lane.read;
  assign lane.cpl        = is_cpl && !start.ep;

  // How long the TLP will be.
  always_comb begin
    total = 11'd3 + 11'(start.fmt_type[5]) + 11'(start.td);
    if (start.fmt_type[6]) total += (start.length == '0) ? 11'd1024 : {1'b0, start.length};
  end

  assign s_axis.tready = ready_i;
  assign fire = s_axis.tvalid && ready_i;
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
      lane_q        <= lane;
      left_q        <= total - 11'd2;
      store_q       <= is_mwr && to_pages;
      load_q        <= is_mrd && to_pages;
      write_q       <= is_mwr && to_regs;
      unsupported_q <= !supported;
      last_dw_q     <= 7'(MaxLength) - start.length[6:0];
      // Where there are data, none is as early as beat 1.
      digest_low_q  <= 1'b0;
      digest_high_q <= 1'b0;
    end else if (fire) begin
      left_q        <= left_q - 11'd2;
      digest_low_q  <= start_q.td && left_q == 11'd3;
      digest_high_q <= start_q.td && left_q == 11'd4;
    end
    if (fire && beat1_q) begin
      third_q   <= third;
      crosses_q <= crosses;
      beyond_q  <= beyond_c;
      kind_q    <= kind;
    end
  end

  // Beat 1: the address.
  assign four_dw     = start_q.fmt_type[5];
  assign has_data    = start_q.fmt_type[6];
  assign third       = four_dw ? s_axis.tdata[63:32] : s_axis.tdata[31:0];
  assign address     = 28'(big_endian(third) >> 2);
  // Those of more than 64 DWs are unsupported anyway; shorter ones cross only from the last 64 of 4 KB on.
  assign crosses     = (store_q || load_q) && (&address[11:8]) && {1'b0, address[7:2]} > last_dw_q;
  assign beyond_c    = (store_q || load_q) && 32'(address[29:12]) >= Pages;
  assign unsupported = unsupported_q || (beat1_q ? crosses : crosses_q);
  assign beyond      = beat1_q ? beyond_c : beyond_q;
  assign accept      = !start_q.ep && !unsupported && !beyond;

  always_comb begin
    kind = kind_q;
    if (beat1_q) begin
      kind = '{
          store: store_q && accept,
          load: load_q && accept,
          write: write_q && accept,
          refuse: lane_q.non_posted && !accept
      };
    end
  end

  // Payload: behind a 3-DW header DW 0 is in the upper half of beat 1. A digest would be taken for a DW behind
  // the data; behind 64 DWs it would come to lie on the first one.
  assign data_beat = !first_q && !bad_q && has_data;
  assign even_here = data_beat && (four_dw ? !beat1_q && !digest_low_q :
                                   s_axis.tkeep[4] && !digest_high_q);
  assign odd_here = data_beat && !beat1_q && (four_dw ? s_axis.tkeep[4] && !digest_high_q :
                                              !digest_low_q);

  // What is posted goes on as it comes; of what is not two words do, the second with its end.
  assign word = first_q ? !s_axis.tlast : beat1_q || s_axis.tlast || even_here || odd_here;
  assign posted_valid_o = fire && (first_q ? (lane.posted || lane.non_posted) && !s_axis.tlast :
      lane_q.posted ? word : lane_q.non_posted && s_axis.tlast);
  assign cpl_valid_o = fire && word && (first_q ? lane.cpl : lane_q.cpl);

  always_comb begin
    posted_o = '{
        kind: kind,
        last: s_axis.tlast,
        good: good_end && kind != '0,
        even_we: even_here && (kind.store || kind.write),
        odd_we: odd_here && (kind.store || kind.write),
        even: four_dw ? s_axis.tdata[31:0] : s_axis.tdata[63:32],
        odd: third
    };
    if (lane_q.non_posted && !beat1_q) posted_o.odd = third_q;
    cpl_o         = posted_o;
    cpl_o.good    = good_end;
    cpl_o.even_we = even_here;
    cpl_o.odd_we  = odd_here;
    cpl_o.odd     = third;
    if (first_q) begin
      {posted_o.odd, posted_o.even} = s_axis.tdata;
      {cpl_o.odd, cpl_o.even}       = s_axis.tdata;
    end
  end
  assign write_o      = good_end && kind.write;

  assign read_valid_o = good_end && lane_q.read;
  always_comb begin
    read_o = '{
        addr: 23'(big_endian(beat1_q ? third : third_q)),
        two_dw: start_q.length == 10'd2,
        first_be: start_q.low[3:0],
        last_be: start_q.low[7:4],
        requester_id: start_q.id,
        tag: start_q.low[15:8],
        tc: start_q.tc,
        attr: start_q.attr
    };
    read_o.addr[1:0] = '0;
  end

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

  assign busy_o = !first_q || cnt_tlp_malformed_o || cnt_tlp_poisoned_o || cnt_tlp_unsupported_o ||
      cnt_tlp_page_beyond_o;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      s_axis.tvalid |-> s_axis.tkeep == 8'hFF || (s_axis.tlast && s_axis.tkeep == 8'h0F))
  else $error("tlp_parse: tkeep is neither a whole beat nor half of the last one");
`endif
endmodule
