// SPDX-License-Identifier: Apache-2.0
// The kernel's registers: addresses, tables, counters.
//
//   0x00 identity   0x08 MAC   0x10 IP   0x18 host's translation table   0x20 command
//   0x28 SRQs below their limit   0x30 QPs with an SRQ that have ended   0x38 what command 10 has found
//   0x40..0x78 words 0 to 7 of what a command takes   0x80 CQs that had no room   0x100.. counters
//
// Command: {index[31:8], 0, op[3:0]}; it reads as {busy[63], 0}.
//   1 set QP (words 0 to 5)             2 the same, begin anew (word 6: {0, receive PSN, 0, send PSN})
//   3 set region (word 0: {first entry, 0, page[3:2], rights, ...}, see docs)   4 set CQ
//   5 forget a translation              6 forget all of them
//   7 set QP, the requester begins anew (word 6: send PSN), the responder goes on
//   8 set SRQ (words 0 and 1: srq_cfg_t), begin anew   9 the same, its entries stay
//   10 look which receive queue's entry a QP holds: {0, held[16], index}, of a message under way
//
// Latency   : a read is answered after 1 edge. A command waits until no packet is under way: when it is
//             no longer busy nothing uses what it has changed.
// Clock     : clk_i.
// Handshake : writes are always taken; a command while busy is ignored.
// Drops     : never.
module uzura_registers
  import uzura_qp_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_i,
  input  logic                    write_i,
  input  logic                    read_i,
  input  logic     [        11:0] addr_i,
  input  logic     [        63:0] wdata_i,
  output logic                    rvalid_o,
  output logic     [        63:0] rdata_o,
  input  logic     [Counters-1:0] count_i,
  output logic     [        47:0] mac_o,
  output logic     [        31:0] ip_o,
  output logic     [        63:0] host_table_o,
  /// Begin no packet; quiet_i says that none is under way.
  output logic                    stop_o,
  input  logic                    quiet_i,
  output logic                    qp_write_o,
  output logic                    qp_init_o,
  /// The requester begins anew: its state is to be read, and in the next cycle to be written.
  output logic                    qp_read_o,
  output logic                    qp_resume_o,
  output logic     [     QpW-1:0] qp_o,
  output cfg_t                    qp_cfg_o,
  output logic     [        23:0] qp_sq_psn_o,
  output logic     [        23:0] qp_rq_psn_o,
  output logic                    region_write_o,
  output logic     [ RegionW-1:0] region_index_o,
  output region_t                 region_o,
  output logic                    cq_write_o,
  output logic     [     CqW-1:0] cq_o,
  output logic     [        63:0] cq_base_o,
  output logic     [         4:0] cq_log2_o,
  output logic                    srq_write_o,
  output logic                    srq_begin_o,
  output logic     [    SrqW-1:0] srq_o,
  output srq_cfg_t                srq_cfg_o,
  /// SRQs with few entries left; a QP with an SRQ is in error, and all that it had is completed.
  input  logic     [    Srqs-1:0] srq_below_i,
  input  logic                    srq_event_i,
  input  logic                    ended_i,
  input  logic     [     QpW-1:0] ended_qp_i,
  /// A completion found no room in this CQ.
  input  logic                    overflow_i,
  input  logic     [     CqW-1:0] overflow_cq_i,
  /// One of the three is new.
  output logic                    alarm_o,
  /// Of the QP that is read with qp_read_o, a cycle later.
  input  logic                    held_i,
  input  logic     [        15:0] held_index_i,
  output logic                    forget_o,
  output logic     [        31:0] forget_entry_o,
  output logic                    flush_o,
  input  logic                    flush_busy_i
);
  localparam logic [63:0] Identity = {32'h4152_555A, 32'd1};  // "ZURA", version
  localparam logic [8:0] WordIdentity = 9'h00;
  localparam logic [8:0] WordMac = 9'h01;
  localparam logic [8:0] WordIp = 9'h02;
  localparam logic [8:0] WordTable = 9'h03;
  localparam logic [8:0] WordCommand = 9'h04;
  localparam logic [8:0] WordBelow = 9'h05;
  localparam logic [8:0] WordEnded = 9'h06;
  localparam logic [8:0] WordHeld = 9'h07;
  localparam logic [8:0] WordOverflow = 9'h10;
  localparam logic [8:0] WordCounters = 9'h20;
  typedef enum logic [3:0] {
    OpNone      = 4'd0,
    OpSetQp     = 4'd1,
    OpBeginQp   = 4'd2,
    OpSetRegion = 4'd3,
    OpSetCq     = 4'd4,
    OpForget    = 4'd5,
    OpFlush     = 4'd6,
    OpResumeQp  = 4'd7,
    OpBeginSrq  = 4'd8,
    OpSetSrq    = 4'd9,
    OpLookQp    = 4'd10
  } op_e;

  logic [    7:0][63:0] words_q;
  logic [    3:0]       op_q;
  logic [   23:0]       index_q;
  logic [Qps-1:0]       ended_q;
  logic [Cqs-1:0]       overflow_q;
  logic [   16:0]       held_q;
  logic go, busy, read_q;
  logic [ 8:0] word;
  logic [31:0] count;
  assign word   = addr_i[11:3];
  assign busy   = op_q != OpNone || flush_busy_i;
  assign stop_o = op_q != OpNone;
  assign go     = op_q != OpNone && quiet_i && !qp_read_o;

  uzura_counters #(
    .Count(Counters)
  ) u_counters (
    .clk_i,
    .rst_i,
    .event_i(count_i),
    .index_i(addr_i[7:3]),
    .value_o(count)
  );

  always_ff @(posedge clk_i) begin
    if (write_i && word[8:3] == 6'd1) words_q[word[2:0]] <= wdata_i;
    if (write_i && word == WordMac) mac_o <= wdata_i[47:0];
    if (write_i && word == WordIp) ip_o <= wdata_i[31:0];
    if (write_i && word == WordTable) host_table_o <= wdata_i;
    if (write_i && word == WordCommand && !busy) index_q <= wdata_i[31:8];
    unique case (word)
      WordIdentity: rdata_o <= Identity;
      WordMac: rdata_o <= 64'(mac_o);
      WordIp: rdata_o <= 64'(ip_o);
      WordTable: rdata_o <= host_table_o;
      WordCommand: rdata_o <= {busy, 63'd0};
      WordBelow: rdata_o <= 64'(srq_below_i);
      WordEnded: rdata_o <= ended_q;
      WordHeld: rdata_o <= 64'(held_q);
      WordOverflow: rdata_o <= overflow_q;
      default: rdata_o <= word[8:5] == WordCounters[8:5] ? 64'(count) : '0;
    endcase
    if (go && op_q == OpLookQp) held_q <= {held_i, held_i ? held_index_i : 16'd0};
    alarm_o <= srq_event_i || (ended_i && !ended_q[ended_qp_i]) ||
        (overflow_i && !overflow_q[overflow_cq_i]);
    if (overflow_i) overflow_q[overflow_cq_i] <= 1'b1;
    if (cq_write_o) overflow_q[cq_o] <= 1'b0;
    if (ended_i) ended_q[ended_qp_i] <= 1'b1;
    if (qp_write_o) ended_q[qp_o] <= 1'b0;
    if (rst_i) begin
      alarm_o      <= 1'b0;
      ended_q      <= '0;
      overflow_q   <= '0;
      held_q       <= '0;
      mac_o        <= '0;
      ip_o         <= '0;
      host_table_o <= '0;
      op_q         <= OpNone;
      rvalid_o     <= 1'b0;
      read_q       <= 1'b0;
    end else begin
      rvalid_o <= read_i;
      read_q   <= qp_read_o;
      if (write_i && word == WordCommand && !busy) op_q <= wdata_i[3:0];
      else if (go) op_q <= OpNone;
    end
  end

  assign qp_write_o = go && op_q inside {OpSetQp, OpBeginQp, OpResumeQp};
  assign qp_init_o = go && op_q == OpBeginQp;
  assign qp_read_o = op_q inside {OpResumeQp, OpLookQp} && quiet_i && !read_q;
  assign qp_resume_o = go && op_q == OpResumeQp;
  assign qp_o = index_q[QpW-1:0];
  assign qp_cfg_o = cfg_t'({
    words_q[5], words_q[4], words_q[3], words_q[2], words_q[1], words_q[0]
  });
  assign qp_sq_psn_o = words_q[6][23:0];
  assign qp_rq_psn_o = words_q[6][55:32];

  region_t region;
  assign region_write_o = go && op_q == OpSetRegion;
  assign region_index_o = index_q[RegionW-1:0];
  always_comb begin
    region             = '0;
    region.valid       = words_q[0][0];
    region.window      = words_q[0][1];
    region.page        = words_q[0][3:2];
    region.rights      = rights_t'(words_q[0][7:4]);
    region.tag         = words_q[0][15:8];
    region.pd          = words_q[0][31:16];
    region.first_entry = words_q[0][63:32];
    region.base        = words_q[1];
    region.length      = words_q[2][47:0];
  end
  assign region_o       = region;

  assign cq_write_o     = go && op_q == OpSetCq;
  assign cq_o           = index_q[CqW-1:0];
  assign cq_base_o      = words_q[0];
  assign cq_log2_o      = words_q[1][4:0];
  assign srq_write_o    = go && op_q inside {OpBeginSrq, OpSetSrq};
  assign srq_begin_o    = op_q == OpBeginSrq;
  assign srq_o          = index_q[SrqW-1:0];
  assign srq_cfg_o      = srq_cfg_t'({words_q[1], words_q[0]});
  assign forget_o       = go && op_q == OpForget;
  assign forget_entry_o = words_q[0][31:0];
  assign flush_o        = go && op_q == OpFlush;
  logic unused;
  assign unused = ^{addr_i[2:0], words_q[7], words_q[6], index_q};
endmodule
