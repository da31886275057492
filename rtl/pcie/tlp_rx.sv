// SPDX-License-Identifier: Apache-2.0
// Takes TLPs from the root complex apart: loads and stores for the requester, register operations
// for the completer, completions for the DMA tags; everything else is counted and refused.
//
// pcie_rx_split reads them and keeps the classes apart, and says what passes what and why; here is the end of each
// lane. A TLP counts only once it has ended as its header says; until then users hold what they were given
// (payload in a slot that is not taken yet, a look-up whose result nobody uses).
//
// Latency   : 1 cycle of clk_i from a beat to what users see of it; 2 more from the end of a register operation
//             to reg_op_valid_o. A load is one word, when it has ended.
// Clock     : clk_i (PCIe).
// Handshake : page TLPs and completions wait at their second word until their user is ready; behind it
//             nothing stops them. Page TLPs also wait while a register write is under way, so that a table change
//             holds for the next TLP. A register read is offered only with reg_read_ok_i.
// Drops     : malformed, poisoned and unsupported TLPs, each counted once; those that want an answer get one.
// Source    : PCI Express Base 2.0, 2.2 (header formats) and 2.3 (request handling).
module tlp_rx
  import ipnuma_pkg::*;
  import tlp_pkg::*;
#(
  /// Pages in BAR 2.
  parameter int unsigned Pages = 262144,
  /// Credits that the board's block advertises, see pcie_rx_split.
  parameter int unsigned PostedHeaders = 32,
  parameter int unsigned PostedData = 128,
  parameter int unsigned NonPosted = 16,
  /// Words of completions for all reads in flight.
  parameter int unsigned CplWords = 512
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
  /// There is room for the answer to one more register read than are under way; writes do not wait for it.
  input  logic    reg_read_ok_i,

  /// The second word of a page TLP is there: its look-up may start (no handshake implied).
  output logic     page_look_o,
  /// Page operation; valid with page_look_o.
  output page_op_t page_op_o,
  /// The word that page_look_o tells of is taken.
  output logic     page_first_o,
  /// The last word of an acceptable, well-formed page TLP is taken (may coincide with
  /// page_first_o).
  output logic     page_end_o,
  /// A store is behind its second word.
  output logic     page_active_o,
  /// A store, or a load or refused request, may begin.
  input  logic     page_store_ready_i,
  input  logic     page_load_ready_i,
  /// Payload DWs 2i (even) and 2i+1 (odd) of a store.
  output logic     page_pay_even_we_o,
  output logic     page_pay_odd_we_o,

  output logic [ 4:0] page_pay_even_idx_o,
  output logic [31:0] page_pay_even_data_o,
  output logic [ 4:0] page_pay_odd_idx_o,
  output logic [31:0] page_pay_odd_data_o,

  /// The same of a completion.
  output logic             cpl_pay_even_we_o,
  output logic             cpl_pay_odd_we_o,
  output logic      [ 4:0] cpl_pay_even_idx_o,
  output logic      [31:0] cpl_pay_even_data_o,
  output logic      [ 4:0] cpl_pay_odd_idx_o,
  output logic      [31:0] cpl_pay_odd_data_o,
  /// A completion is under way, its second word gone.
  output logic             cpl_active_o,
  /// A completion has ended well.
  output logic             cpl_valid_o,
  output cpl_head_t        cpl_head_o,
  /// Room for a completion with payload.
  input  logic             cpl_ready_i,

  /// A request to be refused (pulse); page_load_ready_i was high.
  output cpl_error_t rx_error_o,
  output logic       rx_error_valid_o,

  output logic cnt_tlp_page_beyond_o,
  output logic cnt_tlp_unsupported_o,
  output logic cnt_tlp_poisoned_o,
  output logic cnt_tlp_malformed_o,
  output logic busy_o
);
  rx_word_t  posted;
  reg_read_t read;
  // A completion has no kind.
  // verilator lint_off UNUSEDSIGNAL
  rx_word_t  cpl;
  // verilator lint_on UNUSEDSIGNAL
  logic posted_valid, posted_ready, read_valid, read_take, cpl_valid, cpl_ready, write_done;
  logic busy_split;

  pcie_rx_split #(
    .Pages        (Pages),
    .PostedHeaders(PostedHeaders),
    .PostedData   (PostedData),
    .NonPosted    (NonPosted),
    .CplWords     (CplWords)
  ) u_split (
    .clk_i,
    .rst_i,
    .s_axis,
    .posted_o      (posted),
    .posted_valid_o(posted_valid),
    .posted_ready_i(posted_ready),
    .write_done_i  (write_done),
    .read_o        (read),
    .read_valid_o  (read_valid),
    .read_ready_i  (read_take),
    .cpl_o         (cpl),
    .cpl_valid_o   (cpl_valid),
    .cpl_ready_i   (cpl_ready),
    .cnt_tlp_page_beyond_o,
    .cnt_tlp_unsupported_o,
    .cnt_tlp_poisoned_o,
    .cnt_tlp_malformed_o,
    .busy_o        (busy_split)
  );

  // ---- Posted requests, loads and refusals --------------------------------------------------------
  logic first_q, second_q;  // of the next word
  // Not every field matters to all that comes here, or to a completion.
  // verilator lint_off UNUSEDSIGNAL
  tlp_start_t start, start_q, cpl_start_q;
  // verilator lint_on UNUSEDSIGNAL
  be_run_t run_q;
  logic fire, page, store_q;
  logic [4:0] even_idx_q, odd_idx_q;
  logic    [29:2] address;
  logic           write_busy_q;  // a register write has not taken effect
  logic           write_valid_q;
  reg_op_t        write_q;

  assign start   = parse_start({posted.odd, posted.even});
  assign page    = posted.kind.store || posted.kind.load;
  assign address = 28'(big_endian(posted.odd) >> 2);

  always_comb begin
    posted_ready = 1'b1;
    if (second_q) begin
      if (posted.kind.store && !page_store_ready_i) posted_ready = 1'b0;
      if ((posted.kind.load || posted.kind.refuse) && !page_load_ready_i) posted_ready = 1'b0;
      if (page && write_busy_q) posted_ready = 1'b0;
      if (posted.kind.write && write_valid_q) posted_ready = 1'b0;
    end
  end
  assign fire = posted_valid && posted_ready;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      first_q  <= 1'b1;
      second_q <= 1'b0;
    end else if (fire) begin
      first_q  <= !first_q && posted.last;
      second_q <= first_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (fire && first_q) begin
      start_q    <= start;
      run_q      <= byte_run(start.length == 10'd1, start.low[3:0], start.low[7:4]);
      // DW 0 is in the second word, or behind 4 DWs of header in the third.
      even_idx_q <= posted.even[5] ? '1 : '0;
      odd_idx_q  <= '1;
    end else if (fire) begin
      even_idx_q <= even_idx_q + 1'b1;
      odd_idx_q  <= odd_idx_q + 1'b1;
    end
    if (fire && second_q) store_q <= posted.kind.store;
  end

  assign page_look_o = posted_valid && second_q && page;
  assign page_first_o = fire && second_q && page;
  assign page_end_o = fire && !first_q && posted.last && posted.good && page;
  assign page_active_o = !first_q && !second_q && store_q;
  assign page_pay_even_we_o = fire && !first_q && posted.even_we && posted.kind.store;
  assign page_pay_odd_we_o = fire && !first_q && posted.odd_we && posted.kind.store;
  assign page_pay_even_idx_o = even_idx_q;
  assign page_pay_odd_idx_o = odd_idx_q;
  assign page_pay_even_data_o = posted.even;
  assign page_pay_odd_data_o = posted.odd;
  assign page_op_o = '{
          is_load: posted.kind.load,
          page: address[29:12],
          offset: {address[11:2], 2'b00},
          length: start_q.length[6:0],
          first_be: start_q.low[3:0],
          last_be: start_q.low[7:4],
          requester_id: start_q.id,
          tag: start_q.low[15:8],
          tc: start_q.tc,
          attr: start_q.attr,
          run: run_q
      };

  // Refusals. Byte count and lower address are those of what was asked for.
  logic is_locked, is_read, is_atomic;
  logic [11:0] refused_count;
  assign is_locked = is_locked_read(start_q.fmt_type);
  assign is_read   = start_q.fmt_type inside {TLP_MRD32, TLP_MRD64} || is_locked;
  assign is_atomic = start_q.fmt_type[3];  // among those that want an answer
  always_comb begin
    refused_count = OTHER_BYTE_COUNT;
    if (is_atomic) refused_count = atomic_byte_count(start_q.fmt_type, start_q.length);
    if (is_read) begin
      refused_count = read_byte_count(start_q.length, start_q.low[3:0], start_q.low[7:4]);
    end
  end
  assign rx_error_valid_o = fire && second_q && posted.good && posted.kind.refuse;
  assign rx_error_o = '{
          requester_id: start_q.id,
          tag: start_q.low[15:8],
          tc: start_q.tc,
          attr: start_q.attr,
          locked: is_locked,
          status: CPL_UR,
          byte_count: refused_count,
          lower_address: is_read ? {address[6:2], first_byte(start_q.low[3:0])} : '0
      };

  // ---- Register operations, in order: a read that may be done comes before the writes behind it --------
  reg_op_t reg_q;
  logic reg_valid_q, reg_free;

  assign reg_free   = !reg_valid_q || reg_op_ready_i;
  assign read_take  = read_valid && reg_read_ok_i && reg_free;
  assign write_done = write_valid_q && reg_free && !read_take;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      write_valid_q <= 1'b0;
      write_busy_q  <= 1'b0;
      reg_valid_q   <= 1'b0;
    end else begin
      if (fire && !first_q && posted.last && posted.good && posted.kind.write) begin
        write_valid_q <= 1'b1;
        write_busy_q  <= 1'b1;
      end else begin
        if (write_done) write_valid_q <= 1'b0;
        if (reg_op_ready_i && !write_valid_q && !(reg_valid_q && reg_q.write)) begin
          write_busy_q <= 1'b0;
        end
      end
      if (reg_free) reg_valid_q <= read_take || write_done;
    end
    if (fire && second_q && posted.kind.write) begin
      write_q.write        <= 1'b1;
      write_q.addr         <= {address[22:2], 2'b00};
      write_q.two_dw       <= start_q.length == 10'd2;
      write_q.first_be     <= start_q.low[3:0];
      write_q.last_be      <= start_q.low[7:4];
      write_q.requester_id <= start_q.id;
      write_q.tag          <= start_q.low[15:8];
      write_q.tc           <= start_q.tc;
      write_q.attr         <= start_q.attr;
    end
    if (fire && !first_q && posted.kind.write) begin
      if (posted.even_we && even_idx_q == '0) write_q.wdata[31:0] <= posted.even;
      if (posted.odd_we && odd_idx_q == '0) write_q.wdata[63:32] <= posted.odd;
    end
    if (reg_free) begin
      reg_q <= write_q;
      if (read_take) begin
        reg_q.write        <= 1'b0;
        reg_q.addr         <= read.addr;
        reg_q.two_dw       <= read.two_dw;
        reg_q.first_be     <= read.first_be;
        reg_q.last_be      <= read.last_be;
        reg_q.requester_id <= read.requester_id;
        reg_q.tag          <= read.tag;
        reg_q.tc           <= read.tc;
        reg_q.attr         <= read.attr;
      end
    end
  end
  assign reg_op_o       = reg_q;
  assign reg_op_valid_o = reg_valid_q;

  // ---- Completions ---------------------------------------------------------------------------------
  logic cpl_first_q, cpl_second_q, cpl_fire;
  logic [4:0] cpl_idx_q;
  logic [7:0] cpl_tag_q;
  logic [6:0] cpl_lower_q;

  assign cpl_ready = !cpl_second_q || cpl_ready_i;
  assign cpl_fire  = cpl_valid && cpl_ready;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      cpl_first_q  <= 1'b1;
      cpl_second_q <= 1'b0;
    end else if (cpl_fire) begin
      cpl_first_q  <= !cpl_first_q && cpl.last;
      cpl_second_q <= cpl_first_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (cpl_fire && cpl_first_q) begin
      cpl_start_q <= parse_start({cpl.odd, cpl.even});
      cpl_idx_q   <= '0;
    end else if (cpl_fire) begin
      cpl_idx_q <= cpl_idx_q + 1'b1;
    end
    // The third DW of its header may be long gone when a completion ends.
    if (cpl_fire && cpl_second_q) begin
      cpl_tag_q   <= cpl.odd[23:16];
      cpl_lower_q <= cpl.odd[30:24];
    end
  end

  assign cpl_pay_even_we_o = cpl_fire && !cpl_first_q && cpl.even_we;
  assign cpl_pay_odd_we_o = cpl_fire && !cpl_first_q && cpl.odd_we;
  assign cpl_pay_even_idx_o = cpl_idx_q;
  assign cpl_pay_odd_idx_o = cpl_idx_q - 1'b1;
  assign cpl_pay_even_data_o = cpl.even;
  assign cpl_pay_odd_data_o = cpl.odd;
  assign cpl_active_o = !cpl_first_q && !cpl_second_q;
  assign cpl_valid_o = cpl_fire && !cpl_first_q && cpl.last && cpl.good;
  assign cpl_head_o = '{
          has_data: cpl_start_q.fmt_type[6],
          status: cpl_start_q.low[15:13],
          byte_count: cpl_start_q.low[11:0],
          lower_address: cpl_second_q ? cpl.odd[30:24] : cpl_lower_q,
          length: cpl_start_q.length,
          tag: cpl_second_q ? cpl.odd[23:16] : cpl_tag_q
      };

  assign busy_o = busy_split || !first_q || !cpl_first_q || write_valid_q || write_busy_q ||
      reg_valid_q;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      reg_op_valid_o && !reg_op_ready_i |=> reg_op_valid_o && $stable(
      reg_op_o
  ))
  else $error("tlp_rx: a register operation was withdrawn");
  assert property (@(posedge clk_i) disable iff (rst_i) fire && first_q |-> !posted.last)
  else $error("tlp_rx: a TLP of one word");
`endif
endmodule
