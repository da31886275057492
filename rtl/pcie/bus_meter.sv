// SPDX-License-Identifier: Apache-2.0
// Instrument that measures its host's PCI Express bus from the device's end: DMA reads, DMA writes,
// and the TLPs that the CPU's loads and stores become.
//
// BAR 0 holds the registers (table in docs/bus-meter.md), BAR 2 a small memory that takes CPU
// writes of any length and answers CPU reads of 1 to 16 DW. Three experiments:
//
// Reads   : COUNT reads of LENGTH bytes at ADDRESS, one after the other; each is timed from the
//           edge that moves the first beat of the request to the edge that moves the first beat of
//           its (first) completion.
// Writes  : writes of LENGTH bytes to ADDRESS, as fast as the bus takes them, for CYCLES cycles;
//           counts those whose last beat moved. Every DW of the n-th TLP, from 0, holds n.
// Capture : counts the CPU's writes to BAR 2 by length, and the cycles from the first to the last.
//
// Latency   : a CPU read of BAR 2 to its completion: 2 cycles from last beat in to first beat out.
// Clock     : clk_i; all times are in its cycles (4 ns up to a Gen2 x4 link). Nothing counts when
//             busy_o is low.
// Handshake : TLP streams as the NIC's. Register reads go before measuring traffic.
// Drops     : completions that answer no read of ours, malformed and poisoned TLPs, messages.
//             Memory reads that it does not answer are completed with UR.
// Source    : dissertation section 3.2.2, tables 3.2 to 3.4.
module bus_meter
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import cpl_pkg::*;
  import reg_bus_pkg::*;
#(
  /// Bytes of the memory in BAR 2, a power of two; addresses wrap.
  parameter int unsigned MemoryBytes = 4096
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic       [15:0] completer_id_i,
         axis_if.snk        s_axis,
         axis_if.src        m_axis,
  output logic              busy_o
);
  localparam int unsigned DwW = $clog2(MemoryBytes / 4);
  localparam int unsigned MaxReadDw = 16;

  // ---- Receive ----------------------------------------------------------------------------------
  logic beat, last;
  logic [1:0] beat_q;  // 0, 1, then 2 for all others
  tlp_start_t start_q, start;
  logic [2:0] bar_q;
  logic four_dw, with_data, is_write, is_read, is_cpl, is_register;
  logic [22:0] low_address;  // of the request, in beat 1
  logic mem_idle, op_valid_q, op_ready;

  axis_if #(
    .DataW(64),
    .UserW(1)
  ) memory_axis ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) register_axis ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) engine_axis ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) no_axis ();

  assign s_axis.tready = mem_idle && !op_valid_q && op_ready;

  assign beat          = s_axis.tvalid && s_axis.tready;
  assign last          = beat && s_axis.tlast;
  assign start         = parse_start(s_axis.tdata);
  assign four_dw       = start_q.fmt_type[5];
  assign with_data     = start_q.fmt_type[6];
  assign is_write      = start_q.fmt_type inside {TLP_MWR32, TLP_MWR64} && !start_q.ep;
  assign is_read       = start_q.fmt_type inside {TLP_MRD32, TLP_MRD64};
  assign is_cpl        = start_q.fmt_type inside {TLP_CPL, TLP_CPLD} && !start_q.ep;
  assign is_register   = bar_q == BAR_REGISTERS && start_q.length inside {10'd1, 10'd2};
  assign low_address   = 23'(big_endian(four_dw ? s_axis.tdata[63:32] : s_axis.tdata[31:0]));

  always_ff @(posedge clk_i) begin
    if (beat && beat_q == 2'd0) begin
      start_q <= start;
      bar_q   <= s_axis.tuser;
    end
    if (rst_i) beat_q <= '0;
    else if (last) beat_q <= '0;
    else if (beat && beat_q != 2'd2) beat_q <= beat_q + 1'b1;
  end

  // Payload DWs of this beat: where they go and whether they are there.
  logic low_here, high_here, first_low, first_high;
  logic [DwW-1:0] next_q, low_dw, high_dw;
  logic [10:0] left_q, left, after;
  logic fresh_q, fresh;  // no payload DW has come yet

  assign left = beat_q == 2'd1 ? {start_q.length == '0, start_q.length} : left_q;
  assign fresh = beat_q == 2'd1 || fresh_q;
  assign low_here = beat && with_data && beat_q == 2'd2 && left != '0;
  assign high_here = beat && with_data && s_axis.tkeep[4]
                     && (beat_q == 2'd2 ? left > 11'd1 : beat_q == 2'd1 && !four_dw);
  assign low_dw = next_q;
  assign high_dw = beat_q == 2'd1 ? low_address[2+:DwW] : next_q + 1'b1;
  assign first_low = fresh;
  assign first_high = beat_q == 2'd1;
  assign after = left - 11'(low_here) - 11'(high_here);

  always_ff @(posedge clk_i) begin
    if (beat) begin
      left_q  <= after;
      fresh_q <= fresh && !low_here && !high_here;
      if (beat_q == 2'd1) next_q <= low_address[2+:DwW] + DwW'(high_here);
      else next_q <= next_q + DwW'(low_here) + DwW'(high_here);
    end
  end

  // ---- Memory behind BAR 2 ----------------------------------------------------------------------
  // The bytes enabled of a DW; `ends` are the request's last and first byte enables.
  function automatic logic [3:0] byte_enables(logic [7:0] ends, logic is_first, logic is_last);
    if (is_first) return ends[3:0];
    if (is_last) return ends[7:4];
    return 4'hF;
  endfunction

  logic memory_write;
  logic [3:0] low_be, high_be;
  logic [3:0] we[2];
  logic [31:0] wdata[2], rdata[2];
  logic [DwW-2:0] waddr[2], raddr[2];

  assign memory_write = is_write && bar_q == BAR_PAGES;
  assign low_be = byte_enables(
      start_q.low[7:0], first_low, left == 11'd1
  ) & {4{low_here && memory_write}};
  assign high_be = byte_enables(
      start_q.low[7:0], first_high, left == (low_here ? 11'd2 : 11'd1)
  ) & {4{high_here && memory_write}};

  // A DW goes to the bank of its lowest address bit; the two of a beat never meet.
  for (genvar b = 0; b < 2; b++) begin : gen_bank
    logic low_mine;
    assign low_mine = low_here && low_dw[0] == 1'(b);
    assign we[b]    = low_mine ? low_be : high_dw[0] == 1'(b) ? high_be : '0;
    assign waddr[b] = low_mine ? low_dw[DwW-1:1] : high_dw[DwW-1:1];
    assign wdata[b] = low_mine ? s_axis.tdata[31:0] : s_axis.tdata[63:32];

    for (genvar i = 0; i < 4; i++) begin : gen_byte
      ram_1r1w #(
        .data_t     (logic [7:0]),
        .Depth      (MemoryBytes / 8),
        .ReadLatency(1)
      ) u_ram (
        .clk_i,
        .we_i   (we[b][i]),
        .waddr_i(waddr[b]),
        .wdata_i(wdata[b][8*i+:8]),
        .re_i   (1'b1),
        .raddr_i(raddr[b]),
        .rdata_o(rdata[b][8*i+:8])
      );
    end
  end

  // ---- Completions of CPU reads of BAR 2 --------------------------------------------------------
  typedef enum logic [1:0] {
    MemIdle,
    MemFetch,
    MemHead,
    MemData
  } mem_state_e;

  mem_state_e           mem_state_q;
  logic                 mem_ok_q;  // CplD, else Cpl with UR
  logic       [DwW-1:0] mem_dw_q;  // the next DW to send is here
  logic       [    4:0] mem_left_q;  // DWs to send
  logic       [   95:0] mem_head_q;
  logic                 mem_first_q;  // the beat with the header's end
  logic [31:0] pair_first, pair_second;
  logic read_arrived, read_ok;
  logic [DwW-1:0] mem_dw_d;
  logic           mem_move;

  assign mem_idle = mem_state_q == MemIdle;
  assign read_arrived = last && beat_q == 2'd1 && is_read && !(is_register && !start_q.ep);
  assign read_ok = bar_q == BAR_PAGES && start_q.length != '0 && start_q.length <= 10'(MaxReadDw)
                   && !start_q.ep;
  assign mem_move = memory_axis.tvalid && memory_axis.tready;

  always_comb begin
    mem_dw_d = mem_dw_q;
    if (mem_idle) mem_dw_d = low_address[2+:DwW];
    else if (mem_state_q == MemData && mem_move)
      mem_dw_d = mem_dw_q + (mem_first_q ? DwW'(1) : DwW'(2));
  end

  // The DW at mem_dw and the one behind it, from opposite banks.
  assign raddr[0]    = mem_dw_d[DwW-1:1] + (DwW - 1)'(mem_dw_d[0]);
  assign raddr[1]    = mem_dw_d[DwW-1:1];
  assign pair_first  = rdata[mem_dw_q[0]];
  assign pair_second = rdata[!mem_dw_q[0]];

  always_ff @(posedge clk_i) begin
    mem_dw_q <= mem_dw_d;
    if (mem_idle) begin
      mem_ok_q <= read_ok;
      mem_left_q <= read_ok ? 5'(start_q.length) : '0;
      mem_first_q <= 1'b1;
      mem_head_q <= cpl_header(
          read_ok ? TLP_CPLD : TLP_CPL,
          read_ok ? start_q.length : 10'd0,
          start_q.tc,
          start_q.attr,
          completer_id_i,
          read_ok ? CPL_SC : CPL_UR,
          read_byte_count(
              start_q.length, start_q.low[3:0], start_q.low[7:4]
          ),
          start_q.id,
          start_q.low[15:8],
          {
            low_address[6:2], first_byte(start_q.low[3:0])
          }
      );
    end else if (mem_state_q == MemData && mem_move) begin
      mem_first_q <= 1'b0;
      mem_left_q  <= mem_left_q - (mem_first_q ? 5'd1 : 5'd2);
    end
    if (rst_i) mem_state_q <= MemIdle;
    else begin
      unique case (mem_state_q)
        MemIdle:  if (read_arrived) mem_state_q <= MemFetch;
        MemFetch: mem_state_q <= MemHead;
        MemHead:  if (mem_move) mem_state_q <= MemData;
        default:  if (mem_move && memory_axis.tlast) mem_state_q <= MemIdle;
      endcase
    end
  end

  always_comb begin
    memory_axis.tvalid = mem_state_q inside {MemHead, MemData};
    memory_axis.tuser  = '0;
    if (mem_state_q == MemHead) begin
      memory_axis.tdata = mem_head_q[63:0];
      memory_axis.tkeep = 8'hFF;
      memory_axis.tlast = 1'b0;
    end else if (mem_first_q) begin
      memory_axis.tdata = {pair_first, mem_head_q[95:64]};
      memory_axis.tkeep = mem_ok_q ? 8'hFF : 8'h0F;
      memory_axis.tlast = mem_left_q <= 5'd1;
    end else begin
      memory_axis.tdata = {pair_second, pair_first};
      memory_axis.tkeep = mem_left_q == 5'd1 ? 8'h0F : 8'hFF;
      memory_axis.tlast = mem_left_q <= 5'd2;
    end
  end

  // ---- Registers --------------------------------------------------------------------------------
  localparam logic [7:0] RegId = 8'h00;
  localparam logic [7:0] RegVersion = 8'h04;
  localparam logic [7:0] RegControl = 8'h08;
  localparam logic [7:0] RegAddressLo = 8'h10;
  localparam logic [7:0] RegAddressHi = 8'h14;
  localparam logic [7:0] RegLength = 8'h18;
  localparam logic [7:0] RegCount = 8'h1C;
  localparam logic [7:0] RegCycles = 8'h20;
  localparam logic [7:0] RegReadsDone = 8'h24;
  localparam logic [7:0] RegReadsFailed = 8'h28;
  localparam logic [7:0] RegReadSumLo = 8'h2C;
  localparam logic [7:0] RegReadSumHi = 8'h30;
  localparam logic [7:0] RegReadMin = 8'h34;
  localparam logic [7:0] RegReadMax = 8'h38;
  localparam logic [7:0] RegWritesDone = 8'h3C;
  localparam logic [7:0] RegCpuWrites = 8'h40;
  localparam logic [7:0] RegCpuInterval = 8'h44;
  localparam logic [7:0] RegCpuReads = 8'h48;
  localparam logic [7:0] RegCpuLengths = 8'h80;
  localparam logic [7:0] RegCpuOtherLength = 8'hC0;
  localparam logic [31:0] IdValue = 32'h4E4D424D;
  localparam logic [31:0] VersionValue = 32'h00010000;

  reg_op_t op_q, op_d;
  reg_req_t req;
  reg_rsp_t rsp_q;
  logic req_take, completer_busy, in_block;

  logic [31:0] address_lo_q, address_hi_q, count_q, cycles_q;
  logic [12:0] length_q;

  always_comb begin
    op_d              = '0;
    op_d.write        = is_write;
    op_d.addr         = low_address;
    op_d.two_dw       = start_q.length == 10'd2;
    op_d.first_be     = start_q.low[3:0];
    op_d.last_be      = start_q.low[7:4];
    op_d.requester_id = start_q.id;
    op_d.tag          = start_q.low[15:8];
    op_d.tc           = start_q.tc;
    op_d.wdata        = {32'd0, s_axis.tdata[63:32]};
  end

  always_ff @(posedge clk_i) begin
    if (beat && beat_q == 2'd1) op_q <= op_d;
    else if (beat && beat_q == 2'd2 && left_q != '0) begin
      op_q.wdata <= four_dw ? s_axis.tdata : {s_axis.tdata[31:0], op_q.wdata[31:0]};
    end
    if (rst_i) op_valid_q <= 1'b0;
    else if (last && beat_q != 2'd0 && is_register && (is_write || is_read) && !start_q.ep) begin
      op_valid_q <= 1'b1;
    end else if (op_ready) op_valid_q <= 1'b0;
  end

  completer u_completer (
    .clk_i,
    .rst_i,
    .completer_id_i,
    .op_i                    (op_q),
    .op_valid_i              (op_valid_q),
    .op_ready_o              (op_ready),
    .read_ok_o               (),
    .req_o                   (req),
    .rsp_i                   (rsp_q),
    .m_axis                  (register_axis),
    .answer_o                (),
    .hold_i                  (1'b0),
    .cnt_tlp_register_write_o(),
    .cnt_tlp_register_read_o (),
    .cnt_register_refused_o  (),
    .busy_o                  (completer_busy)
  );

  // Results, written below.
  logic reading, writing, capture_q, capturing;
  logic [31:0] reads_done_q, reads_failed_q, read_min_q, read_max_q, writes_done_q;
  logic [63:0] read_sum_q;
  logic [31:0] cpu_writes_q, cpu_interval_q, cpu_reads_q, cpu_other_q;
  logic [31:0] cpu_length_q[MaxReadDw];
  logic control_write, start_reads, start_writes, start_capture, stop, ok;
  logic [31:0] rdata_d;

  assign req_take = req.valid && !rsp_q.done;
  assign in_block = req.addr[22:8] == '0;
  assign control_write = req_take && in_block && req.write && req.addr[7:0] == RegControl;
  assign stop = control_write && req.wdata[2:0] == '0;
  assign start_reads = control_write && req.wdata[0] && !reading && !writing && count_q != '0;
  assign start_writes  = control_write && req.wdata[1] && !req.wdata[0] && !reading && !writing
                         && cycles_q != '0;
  assign start_capture = control_write && req.wdata[2];

  always_comb begin
    rdata_d = '0;
    ok      = !req.write;
    unique case (req.addr[7:0])
      RegId:             rdata_d = IdValue;
      RegVersion:        rdata_d = VersionValue;
      RegReadsDone:      rdata_d = reads_done_q;
      RegReadsFailed:    rdata_d = reads_failed_q;
      RegReadSumLo:      rdata_d = read_sum_q[31:0];
      RegReadSumHi:      rdata_d = read_sum_q[63:32];
      RegReadMin:        rdata_d = read_min_q;
      RegReadMax:        rdata_d = read_max_q;
      RegWritesDone:     rdata_d = writes_done_q;
      RegCpuWrites:      rdata_d = cpu_writes_q;
      RegCpuInterval:    rdata_d = cpu_interval_q;
      RegCpuReads:       rdata_d = cpu_reads_q;
      RegCpuOtherLength: rdata_d = cpu_other_q;
      default: begin
        ok = 1'b1;
        unique case (req.addr[7:0])
          RegControl:   rdata_d = {29'd0, capture_q, writing, reading};
          RegAddressLo: rdata_d = address_lo_q;
          RegAddressHi: rdata_d = address_hi_q;
          RegLength:    rdata_d = {19'd0, length_q};
          RegCount:     rdata_d = count_q;
          RegCycles:    rdata_d = cycles_q;
          default: begin
            ok = !req.write && req.addr[7:6] == RegCpuLengths[7:6];
            if (ok) rdata_d = cpu_length_q[req.addr[5:2]];
          end
        endcase
      end
    endcase
    if (!in_block) begin
      ok      = 1'b0;
      rdata_d = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    rsp_q.done  <= req_take && !rst_i;
    rsp_q.ok    <= ok;
    rsp_q.rdata <= rdata_d;
    if (rst_i) begin
      address_lo_q <= '0;
      address_hi_q <= '0;
      length_q     <= 13'd4;
      count_q      <= '0;
      cycles_q     <= '0;
    end else if (req_take && in_block && req.write) begin
      unique case (req.addr[7:0])
        RegAddressLo: address_lo_q <= {req.wdata[31:2], 2'b00};
        RegAddressHi: address_hi_q <= req.wdata;
        RegLength:    length_q <= {req.wdata[12:2], 2'b00};
        RegCount:     count_q <= req.wdata;
        RegCycles:    cycles_q <= req.wdata;
        default:      ;
      endcase
    end
  end

  // ---- Capture of CPU writes --------------------------------------------------------------------
  logic cpu_write, cpu_first_q;
  logic [31:0] since_q;  // cycles since the first write's first beat
  logic        first_beat_write;

  assign first_beat_write = beat && beat_q == 2'd0 && start.fmt_type inside {TLP_MWR32, TLP_MWR64}
                            && s_axis.tuser == BAR_PAGES && !start.ep;
  assign cpu_write = first_beat_write && capture_q;
  assign capturing = capture_q && cpu_first_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      capture_q   <= 1'b0;
      cpu_first_q <= 1'b0;
    end else if (start_capture || stop) begin
      capture_q   <= start_capture;
      cpu_first_q <= 1'b0;
    end else if (cpu_write) cpu_first_q <= 1'b1;

    if (rst_i || start_capture) begin
      cpu_writes_q   <= '0;
      cpu_interval_q <= '0;
      cpu_reads_q    <= '0;
      cpu_other_q    <= '0;
      cpu_length_q   <= '{default: '0};
    end else begin
      if (cpu_write) begin
        cpu_writes_q <= cpu_writes_q + 1'b1;
        if (cpu_first_q) cpu_interval_q <= since_q;
        if (start.length == '0 || start.length > 10'(MaxReadDw)) cpu_other_q <= cpu_other_q + 1'b1;
        else begin
          cpu_length_q[4'(start.length-1'b1)] <= cpu_length_q[4'(start.length-1'b1)] + 1'b1;
        end
      end
      if (read_arrived && read_ok && capture_q) cpu_reads_q <= cpu_reads_q + 1'b1;
    end

    if (cpu_write && !cpu_first_q) since_q <= 32'd1;
    else if (capturing) since_q <= since_q + 1'b1;
  end

  // ---- DMA engine -------------------------------------------------------------------------------
  typedef enum logic [2:0] {
    Idle,
    ReadHead,
    ReadAddress,
    ReadWait,
    Write
  } state_e;

  state_e state_q;
  logic   stop_q;  // end at the next TLP boundary
  logic [10:0] length_dw, total_dw;
  logic [8:0] word_q;  // beat of the TLP being sent
  logic long_address, move, word_last;
  logic [7:0] tag_q;
  logic [31:0] left_reads_q, left_cycles_q, time_q, head_time_q;
  logic timed_q;  // the first completion of this read came
  logic cpl_mine, cpl_done, cpl_failed;
  logic cpl_done_q, cpl_failed_q, end_now, fail_now, cpl_beat1;
  logic [12:0] cpl_bytes, cpl_left;
  logic [31:0] writes_sent_q;  // of this experiment
  logic [63:0] head;
  logic [31:0] address_dw;

  assign reading = state_q inside {ReadHead, ReadAddress, ReadWait};
  assign writing = state_q == Write;
  assign length_dw = length_q[12:2];
  assign long_address = address_hi_q != '0;
  assign total_dw = length_dw + (long_address ? 11'd4 : 11'd3);
  assign move = engine_axis.tvalid && engine_axis.tready;
  assign word_last = {1'b0, word_q, 1'b1} + 11'd1 >= total_dw;

  // DW0 and DW1 of the request in wire order.
  assign head = {
    length_dw == 11'd1 ? 8'h0F : 8'hFF,
    writing ? 8'h00 : tag_q,
    completer_id_i[7:0],
    completer_id_i[15:8],
    length_dw[7:0],
    6'd0,
    length_dw[9:8],
    8'h00,
    1'b0,
    writing,
    long_address,
    5'd0
  };
  assign address_dw = big_endian(address_lo_q);

  always_comb begin
    engine_axis.tvalid = state_q inside {ReadHead, ReadAddress, Write};
    engine_axis.tuser  = '0;
    engine_axis.tkeep  = 8'hFF;
    engine_axis.tlast  = 1'b0;
    engine_axis.tdata  = head;
    if (state_q == ReadAddress) begin
      engine_axis.tdata = long_address ?
          {address_dw, big_endian(address_hi_q)} : {32'd0, address_dw};
      engine_axis.tkeep = long_address ? 8'hFF : 8'h0F;
      engine_axis.tlast = 1'b1;
    end else if (state_q == Write && word_q != '0) begin
      engine_axis.tdata = {2{writes_sent_q}};
      if (word_q == 9'd1) begin
        engine_axis.tdata = long_address ?
            {address_dw, big_endian(address_hi_q)} : {writes_sent_q, address_dw};
      end
      engine_axis.tlast = word_last;
      engine_axis.tkeep = word_last && total_dw[0] ? 8'h0F : 8'hFF;
    end
  end

  // Beat 1 of a completion names its read.
  assign cpl_beat1  = beat && beat_q == 2'd1 && is_cpl;
  assign cpl_mine   = cpl_beat1 && state_q == ReadWait && s_axis.tdata[23:16] == tag_q;
  assign cpl_bytes  = {start_q.length == '0, start_q.length, 2'b00};
  assign cpl_left   = {start_q.low[11:0] == '0, start_q.low[11:0]};
  assign cpl_failed = cpl_mine && (start_q.low[15:13] != CPL_SC || !with_data);
  assign cpl_done   = cpl_mine && !cpl_failed && cpl_left <= cpl_bytes;
  // A read ends with the last beat of its last completion.
  assign end_now    = last && (cpl_done || cpl_done_q);
  assign fail_now   = last && (cpl_failed || cpl_failed_q);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q        <= Idle;
      stop_q         <= 1'b0;
      tag_q          <= '0;
      cpl_done_q     <= 1'b0;
      cpl_failed_q   <= 1'b0;
      reads_done_q   <= '0;
      reads_failed_q <= '0;
      read_sum_q     <= '0;
      read_min_q     <= '1;
      read_max_q     <= '0;
      writes_done_q  <= '0;
    end else begin
      if (state_q == Idle) stop_q <= 1'b0;
      else if (stop) stop_q <= 1'b1;
      cpl_done_q   <= (cpl_done_q || cpl_done) && !last;
      cpl_failed_q <= (cpl_failed_q || cpl_failed) && !last;

      if (cpl_mine && !cpl_failed && !timed_q) begin
        read_sum_q <= read_sum_q + 64'(head_time_q);
        if (head_time_q < read_min_q) read_min_q <= head_time_q;
        if (head_time_q > read_max_q) read_max_q <= head_time_q;
      end

      unique case (state_q)
        Idle: begin
          if (start_reads) begin
            state_q        <= ReadHead;
            reads_done_q   <= '0;
            reads_failed_q <= '0;
            read_sum_q     <= '0;
            read_min_q     <= '1;
            read_max_q     <= '0;
          end else if (start_writes) begin
            state_q       <= Write;
            writes_done_q <= '0;
          end
        end
        ReadHead:    if (move) state_q <= ReadAddress;
        ReadAddress: if (move) state_q <= ReadWait;
        ReadWait: begin
          if (end_now) reads_done_q <= reads_done_q + 1'b1;
          if (fail_now) reads_failed_q <= reads_failed_q + 1'b1;
          if (end_now || fail_now || stop_q) begin
            tag_q   <= tag_q + 1'b1;
            state_q <= left_reads_q == 32'd1 || stop_q ? Idle : ReadHead;
          end
        end
        default: begin
          if (move && word_last && left_cycles_q != '0) writes_done_q <= writes_done_q + 1'b1;
          if (move && word_last && (left_cycles_q <= 32'd1 || stop_q)) state_q <= Idle;
        end
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Idle) begin
      left_reads_q  <= count_q;
      left_cycles_q <= cycles_q;
      writes_sent_q <= '0;
      word_q        <= '0;
    end
    if (state_q == ReadHead && move) time_q <= 32'd1;
    else if (reading) time_q <= time_q + 1'b1;
    if (beat && beat_q == 2'd0) head_time_q <= time_q;
    if (state_q == ReadHead) timed_q <= 1'b0;
    else if (cpl_mine) timed_q <= 1'b1;
    if (state_q == ReadWait && (end_now || fail_now)) left_reads_q <= left_reads_q - 1'b1;
    if (writing && left_cycles_q != '0) left_cycles_q <= left_cycles_q - 1'b1;
    if (writing && move) begin
      word_q <= word_last ? '0 : word_q + 1'b1;
      if (word_last) writes_sent_q <= writes_sent_q + 1'b1;
    end
  end

  assign no_axis.tdata  = '0;
  assign no_axis.tkeep  = '0;
  assign no_axis.tvalid = 1'b0;
  assign no_axis.tlast  = 1'b0;
  assign no_axis.tuser  = '0;

  tlp_tx u_tx (
    .clk_i,
    .rst_i,
    .s_first (register_axis),
    .s_second(memory_axis),
    .s_third (engine_axis),
    .s_fourth(no_axis),
    .m_axis
  );

  assign busy_o = reading || writing || capturing || !mem_idle || op_valid_q || completer_busy
                  || beat_q != '0;

  // The meter takes TLPs with a digest as if they had none.
  logic unused;
  assign unused = start_q.td;

`ifndef SYNTHESIS
  initial begin
    assert (MemoryBytes >= 128 && 1 << $clog2(MemoryBytes) == MemoryBytes)
    else $fatal(1, "MemoryBytes is not a power of two from 128");
  end
`endif
endmodule
