// SPDX-License-Identifier: Apache-2.0
// Looks pages up: in a memory on the card, and what is not there in a table in host memory.
//
// The card's memory is direct-mapped by the entry's number: {valid, rest of the number, page}. Hits go
// on while misses wait, one for each id.
//
// Latency   : 2 + MemLatency edges from in_valid_i to an answer; a miss takes a DMA read of 8
//             bytes more, and 3.
// Clock     : clk_i.
// Handshake : an id may ask again when it is answered; answers have no ready. m_rd is a request that
//             stays until it is taken.
// Drops     : never; a page that is not there is answered with ok low.
// Source    : UZURA document, 4.2.4.
module uzura_translate
  import uzura_qp_pkg::*;
#(
  /// log2 of the memory's words; 19 are the 4 MB of the document.
  parameter int unsigned MemW = 10,
  /// Edges from mem_re_o to mem_rdata_i.
  parameter int unsigned MemLatency = 1
) (
  input  logic                clk_i,
  input  logic                rst_i,
  /// Host table: 8 bytes an entry, {page's address, 11'd0, present}.
  input  logic     [    63:0] host_table_i,
  /// Nothing of before counts: flush for all, forget for one entry.
  input  logic                flush_i,
  input  logic                forget_i,
  input  logic     [    31:0] forget_entry_i,
  output logic                flush_busy_o,
  input  logic                in_valid_i,
  input  logic     [     1:0] in_id_i,
  input  logic                in_ok_i,
  input  logic                in_translate_i,
  input  logic     [    31:0] in_entry_i,
  input  logic     [     1:0] in_page_i,
  input  logic     [    29:0] in_offset_i,
  output logic                answer_valid_o,
  output answer_t             answer_o,
  output logic                mem_re_o,
  output logic     [MemW-1:0] mem_raddr_o,
  input  logic     [    63:0] mem_rdata_i,
  output logic                mem_we_o,
  output logic     [MemW-1:0] mem_waddr_o,
  output logic     [    63:0] mem_wdata_o,
  output rd_req_t             m_rd_o,
  output logic                m_rd_valid_o,
  input  logic                m_rd_ready_i,
  input  rd_data_t            s_rd_i,
  input  logic                s_rd_valid_i,
  output logic                cnt_denied_o,
  output logic                cnt_miss_o,
  output logic                cnt_fault_o,
  output logic                busy_o
);
  localparam int unsigned TagW = 32 - MemW;
  localparam int unsigned FrameW = 40;  // 52-bit addresses
  localparam int unsigned Slots = 4;
  localparam int unsigned PageShift = 12;
  localparam logic [12:0] EntryBytes = 13'd8;

  typedef struct packed {
    logic        valid;
    logic [1:0]  id;
    logic        ok;
    logic        translate;
    logic [31:0] entry;
    logic [1:0]  page;
    logic [29:0] offset;
  } look_t;

  typedef struct packed {
    logic              valid;
    logic [TagW-1:0]   tag;
    logic [FrameW-1:0] frame;
  } line_t;

  function automatic logic [63:0] physical(logic [FrameW-1:0] frame, logic [1:0] page,
                                           logic [29:0] offset);
    logic [63:0] mask;
    mask = (64'd1 << page_log2(page)) - 64'd1;
    return ({12'd0, frame, 12'd0} & ~mask) | 64'(offset);
  endfunction

  // ---- The look-up ------------------------------------------------------------------------------
  look_t look_in;
  look_t look_q  [MemLatency+1];
  assign look_in = '{
          valid: in_valid_i,
          id: in_id_i,
          ok: in_ok_i,
          translate: in_translate_i,
          entry: in_entry_i,
          page: in_page_i,
          offset: in_offset_i
      };
  assign mem_re_o = in_valid_i && in_ok_i && in_translate_i;
  assign mem_raddr_o = in_entry_i[MemW-1:0];

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i <= MemLatency; i++) begin
      look_q[i] <= i == 0 ? look_in : look_q[(i==0)?0 : i-1];
      if (rst_i) look_q[i].valid <= 1'b0;
    end
  end

  look_t at;
  line_t line_q;
  logic needs, hit, miss, plain;
  always_ff @(posedge clk_i) line_q <= line_t'(mem_rdata_i[TagW+FrameW:0]);
  assign at    = look_q[MemLatency];
  assign needs = at.ok && at.translate;
  assign plain = at.valid && !needs;
  assign hit   = at.valid && needs && line_q.valid && line_q.tag == at.entry[31:MemW];
  assign miss  = at.valid && needs && !hit;

  logic flushing_q;

  // ---- Misses -----------------------------------------------------------------------------------
  typedef enum logic [1:0] {
    Free,
    Ask,   // its DMA read is to be sent
    Wait,
    Done
  } slot_e;
  slot_e             state_q                                        [Slots];
  look_t             slot_q                                         [Slots];
  logic  [     63:0] found_q                                        [Slots];
  logic  [Slots-1:0] stale_q;  // the answer counts, but is not kept
  logic [1:0] ask, done;
  logic any_ask, any_done, arrive, done_take;
  logic [1:0] arrive_id;

  always_comb begin
    ask      = '0;
    done     = '0;
    any_ask  = 1'b0;
    any_done = 1'b0;
    for (int unsigned i = 0; i < Slots; i++) begin
      if (state_q[i] == Ask) {any_ask, ask} = {1'b1, 2'(i)};
      if (state_q[i] == Done) {any_done, done} = {1'b1, 2'(i)};
    end
  end

  // A request that is offered stays the same one.
  logic    rd_valid_q;
  rd_req_t rd_q;
  assign m_rd_o       = rd_q;
  assign m_rd_valid_o = rd_valid_q;
  assign arrive       = s_rd_valid_i && s_rd_i.cookie[2];
  assign arrive_id    = s_rd_i.cookie[1:0];
  assign done_take    = any_done && !hit && !plain;

  always_ff @(posedge clk_i) begin
    if (!rd_valid_q && any_ask) begin
      rd_q <= '{
          addr: host_table_i + {29'd0, slot_q[ask].entry, 3'd0},
          bytes: EntryBytes,
          cookie: ReadTable | 3'(ask)
      };
    end
    if (miss) slot_q[at.id] <= at;
    if (arrive) found_q[arrive_id] <= s_rd_i.bad ? '0 : s_rd_i.data;
    for (int unsigned i = 0; i < Slots; i++) begin
      if (flush_i || forget_i || flushing_q) stale_q[i] <= 1'b1;
      else if (state_q[i] == Free) stale_q[i] <= 1'b0;
    end
    if (rst_i) begin
      rd_valid_q <= 1'b0;
      for (int unsigned i = 0; i < Slots; i++) state_q[i] <= Free;
    end else begin
      if (!rd_valid_q) rd_valid_q <= any_ask;
      else if (m_rd_ready_i) rd_valid_q <= 1'b0;
      if (miss) state_q[at.id] <= Ask;
      if (!rd_valid_q && any_ask) state_q[ask] <= Wait;
      if (arrive) state_q[arrive_id] <= Done;
      if (done_take) state_q[done] <= Free;
    end
  end

  // ---- Writes to the memory: a fill, or the end of what is there --------------------------------
  logic  [MemW-1:0] flush_q;
  logic             present;
  line_t            fill;
  assign present = found_q[done][0];
  assign fill = '{
          valid: 1'b1,
          tag: slot_q[done].entry[31:MemW],
          frame: found_q[done][PageShift+:FrameW]
      };
  assign flush_busy_o = flushing_q;
  assign mem_we_o = flushing_q || forget_i || (done_take && present && !stale_q[done]);
  assign mem_waddr_o  = flushing_q ? flush_q : forget_i ? forget_entry_i[MemW-1:0] :
      slot_q[done].entry[MemW-1:0];
  assign mem_wdata_o = flushing_q || forget_i ? '0 : 64'(fill);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      // What the memory holds is of before.
      flushing_q <= 1'b1;
      flush_q    <= '0;
    end else if (flush_i) begin
      flushing_q <= 1'b1;
      flush_q    <= '0;
    end else if (flushing_q) begin
      flush_q    <= flush_q + 1'b1;
      flushing_q <= flush_q != '1;
    end
  end

  // ---- Answers ----------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (hit) begin
      answer_o <= '{id: at.id, ok: 1'b1, pa: physical(line_q.frame, at.page, at.offset)};
    end else if (plain) begin
      answer_o <= '{id: at.id, ok: at.ok, pa: '0};
    end else begin
      answer_o <= '{
          id: done,
          ok: present,
          pa: physical(fill.frame, slot_q[done].page, slot_q[done].offset)
      };
    end
    if (rst_i) begin
      answer_valid_o <= 1'b0;
      cnt_denied_o   <= 1'b0;
      cnt_miss_o     <= 1'b0;
      cnt_fault_o    <= 1'b0;
    end else begin
      answer_valid_o <= hit || plain || done_take;
      cnt_denied_o   <= in_valid_i && !in_ok_i;
      cnt_miss_o     <= miss;
      cnt_fault_o    <= done_take && !present;
    end
  end

  always_comb begin
    busy_o = flushing_q || any_ask || any_done || answer_valid_o;
    for (int unsigned i = 0; i < Slots; i++) busy_o |= state_q[i] != Free;
    for (int unsigned i = 0; i <= MemLatency; i++) busy_o |= look_q[i].valid;
  end

  logic unused;
  assign unused = ^{forget_entry_i, mem_rdata_i, s_rd_i.last};

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) miss |-> state_q[at.id] == Free)
  else $error("uzura_translate: an id asks twice");
`endif
endmodule
