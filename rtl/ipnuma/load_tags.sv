// SPDX-License-Identifier: Apache-2.0
// The CPU's loads that wait for their completion from the network.
//
// A load of a session that gets no answer is sent again (load_retry), for what has not come yet.
//
// A completion counts only where it goes on from what came before: data with status SC, the byte count of what
// is left, the lower address of where that begins, and no DW more. Of one without data only that the load
// failed is believed. Whatever else comes leaves the load to its answer or its time-out: it would be malformed
// for the CPU, and ending the load for it would let one bad frame undo a good answer.
//
// Latency   : take as in tag_pool; a time-out's completion 1 cycle after it is found. A completion is looked up in
//             the cycle of look_i, judged in the next one (live_o, load_o, answer_o, repeated_o), and counts in the
//             third, with take_i. A load is offered again 1 cycle after load_retry finds it.
// Clock     : clk_i (PCIe).
// Handshake : cpl_error_valid_o holds until ready. take_i only two cycles after look_i, with live_o in between, op_i
//             and hold_i as they were.
// Drops     : never; a load that nobody answers is completed with CA.
// Source    : docs/architecture.md; PCI Express Base 2.0, 2.2.9 (byte count and lower address).
module load_tags
  import ipnuma_pkg::*;
#(
  /// Tags; 32 at most.
  parameter int unsigned LoadTags = 32
) (
  input logic        clk_i,
  input logic        rst_i,
  input logic [31:0] now_us_i,
  input logic [31:0] read_timeout_us_i,
  /// 0: loads are not sent again.
  input logic [15:0] load_retry_us_i,

  /// From the requester.
  input  logic                     alloc_i,
  input  load_t                    alloc_load_i,
  /// Of which session it is, and the operation.
  input  session_t                 alloc_session_i,
  input  tlp_pkg::page_op_t        alloc_op_i,
  output logic                     alloc_ok_o,
  output logic              [ 7:0] alloc_tag_o,
  /// Number of the load beside its tag, which soon comes again; 0 outside sessions.
  output logic              [15:0] alloc_number_o,

  /// A load to be sent again, offered until it is sent or answered.
  output logic                     retry_valid_o,
  output logic              [ 7:0] retry_tag_o,
  output logic              [15:0] retry_number_o,
  output tlp_pkg::page_op_t        retry_op_o,
  input  logic                     retry_ready_i,

  /// From the server: what came, if a completion.
  // Only some of it is looked at.
  // verilator lint_off UNUSEDSIGNAL
  input  rx_op_t  op_i,
  // verilator lint_on UNUSEDSIGNAL
  /// It is being looked up.
  input  logic    look_i,
  /// In the cycle behind: it belongs to a load, which wants it.
  output logic    live_o,
  output load_t   load_o,
  output answer_t answer_o,
  /// It belongs to a load that has had it.
  output logic    repeated_o,
  /// It is passed on.
  input  logic    take_i,
  /// No time-outs now: a completion is being looked up or passed on.
  input  logic    hold_i,

  output cpl_error_t cpl_error_o,
  output logic       cpl_error_valid_o,
  input  logic       cpl_error_ready_i,

  output logic cnt_load_timeout_o,
  output logic cnt_load_completed_o,
  output logic busy_o
);
  // Generations: three bits in the tag, the others are the load's number.
  localparam int unsigned ShortW = 3;
  localparam int unsigned NumberW = 16;
  localparam int unsigned GenerationW = NumberW + ShortW;
  localparam int unsigned IndexW = $clog2(LoadTags);
  localparam int unsigned ShortTagW = ShortW + IndexW;  // what of it is in the tag
  localparam int unsigned TagW = NumberW + ShortTagW;
  // Bytes of a load: 64 DWs at most.
  localparam int unsigned BytesW = 9;

  typedef struct packed {
    load_t      load;
    session_t   session;
    // Behind its last byte: what is left tells where in the address space it begins.
    logic [6:0] end_address;
  } out_t;

  logic [TagW-1:0] take_tag, tag;
  logic [LoadTags-1:0]                  used;
  logic [LoadTags-1:0][GenerationW-1:0] generation;
  logic [  BytesW-1:0]                  left_q     [LoadTags];  // bytes that have not come yet
  logic [         6:0]                  dws_q      [LoadTags];  // DWs that have come
  logic [BytesW-1:0] want_q, carried, carried_q, rest_q;
  logic [$clog2(pcie_pkg::ROOT_BOUNDARY_BYTES)-1:0] stop_q;  // where it stops, in a boundary
  logic [                               BytesW-1:0] rest;
  // Signed: the last DW may have up to 3 bytes that nobody asked for.
  logic [                                 BytesW:0] spare_q;
  logic [                                      6:0] lower_q;  // where what is left begins
  logic is_good, too_much, fits, ends, ends_q, done;
  tlp_pkg::page_op_t              retry_op;
  logic              [       6:0] retry_dws;
  logic              [IndexW-1:0] retry_idx;
  tlp_pkg::page_op_t retry_op_q, retry_rest;
  logic [        7:0] retry_tag_q;
  logic [NumberW-1:0] retry_number_q;
  logic belongs, belongs_q, goes_on, retry_busy, retry_here, retry_q;
  out_t here, found_q, taken;
  logic tag_here, judge_q, expired, expire, pool_busy;
  logic error_valid_q, timeout_q, completed_q;
  out_t       expired_out;
  load_t      expired_load;
  cpl_error_t error_q;

  assign taken = '{
          load: alloc_load_i,
          session: alloc_session_i,
          end_address: alloc_load_i.lower_address + alloc_load_i.byte_count[6:0]
      };

  tag_pool #(
    .Tags       (LoadTags),
    .GenerationW(GenerationW),
    .ShortW     (ShortW),
    .data_t     (out_t)
  ) u_pool (
    .clk_i,
    .rst_i,
    .now_us_i,
    .timeout_us_i  (read_timeout_us_i),
    .take_i        (alloc_i),
    .take_data_i   (taken),
    .take_ok_o     (alloc_ok_o),
    .take_tag_o    (take_tag),
    .keep_i        (1'b0),
    .tag_i         (tag),
    .whole_i       (here.session.valid),
    .live_o        (tag_here),
    .data_o        (here),
    .free_i        (done),
    .late_o        (),
    .late_free_i   (1'b0),
    .expired_o     (expired),
    .expired_data_o(expired_out),
    .expire_i      (expire),
    .used_o        (used),
    .generation_o  (generation),
    .busy_o        (pool_busy)
  );

  assign alloc_tag_o = 8'(take_tag[ShortTagW-1:0]);
  assign alloc_number_o = alloc_session_i.valid ? take_tag[TagW-1:ShortTagW] : '0;
  assign expired_load = expired_out.load;

  // ---- Completions -----------------------------------------------------------------------------
  assign tag = {op_i.load_number, op_i.net_tag[ShortTagW-1:0]};
  assign load_o = found_q.load;
  // What came against what is known: no time-out and no other completion is between that and what comes of it.
  // A load of a session is answered within it and nowhere else.
  assign belongs = tag_here && 8'(tag[ShortTagW-1:0]) == op_i.net_tag && (here.session.valid ?
      op_i.session == here.session : here.load.peer_ip == op_i.peer.ip);
  assign carried = {op_i.data_dw, 2'd0} - BytesW'(op_i.lower_address[1:0]);
  always_ff @(posedge clk_i) begin
    if (look_i) begin
      found_q   <= here;
      belongs_q <= belongs;
      want_q    <= left_q[tag[IndexW-1:0]];
      lower_q   <= here.end_address - left_q[tag[IndexW-1:0]][6:0];
      carried_q <= carried;
      spare_q   <= {1'b0, carried} - (BytesW + 1)'(4);
      stop_q    <= op_i.lower_address[5:0] + carried[5:0];
    end
    if (rst_i) judge_q <= 1'b0;
    else judge_q <= look_i;
  end

  // It goes on where the last one ended.
  assign goes_on = op_i.byte_count == 12'(want_q);
  assign is_good = op_i.status == CPL_SC;
  assign rest = want_q - carried_q;
  assign too_much = !spare_q[BytesW] && want_q <= spare_q[BytesW-1:0];
  // It stops at the load's end, or where a root complex may cut.
  assign fits = is_good == (op_i.data_dw != '0) &&
      (!is_good || (goes_on && op_i.lower_address == lower_q && !too_much &&
                    (ends || stop_q == '0)));
  assign ends = !is_good || want_q <= carried_q;
  assign repeated_o = belongs_q && found_q.session.valid && is_good && !goes_on;
  assign live_o = belongs_q && fits;
  // No other failures than these: none may be retried, as CRS asks for.
  assign answer_o = '{
          status: op_i.status inside {CPL_SC, CPL_UR} ? op_i.status : CPL_CA,
          byte_count: 12'(want_q),
          lower_address: lower_q
      };
  assign done = take_i && ends_q;

  always_ff @(posedge clk_i) begin
    if (judge_q) begin
      rest_q <= rest;
      ends_q <= ends;
    end
    if (take_i) begin
      left_q[tag[IndexW-1:0]] <= rest_q;
      dws_q[tag[IndexW-1:0]]  <= dws_q[tag[IndexW-1:0]] + op_i.data_dw;
    end
    if (alloc_i) begin
      left_q[take_tag[IndexW-1:0]] <= alloc_load_i.byte_count[BytesW-1:0];
      dws_q[take_tag[IndexW-1:0]]  <= '0;
    end
  end

  // ---- Once more -------------------------------------------------------------------------------
  load_retry #(
    .LoadTags(LoadTags)
  ) u_retry (
    .clk_i,
    .rst_i,
    .now_us_i,
    .retry_us_i(load_retry_us_i),
    .put_i     (alloc_i && alloc_session_i.valid),
    .put_idx_i (take_tag[IndexW-1:0]),
    .put_op_i  (alloc_op_i),
    .live_i    (used),
    .valid_o   (retry_here),
    .idx_o     (retry_idx),
    .op_o      (retry_op),
    .sent_i    (retry_valid_o && retry_ready_i),
    .busy_o    (retry_busy)
  );
  // Behind the DWs that have come all bytes are wanted, up to the last one.
  assign retry_dws = dws_q[retry_idx];
  always_comb begin
    retry_rest = retry_op;
    if (retry_dws != '0) begin
      retry_rest.offset   = retry_op.offset + 12'({retry_dws, 2'b00});
      retry_rest.length   = retry_op.length - retry_dws;
      retry_rest.first_be = 4'hF;
      if (retry_rest.length == 7'd1) begin
        for (int i = 0; i < 4; i++) retry_rest.first_be[i] = |(retry_op.last_be >> i);
        retry_rest.last_be = '0;
      end
    end
  end

  // What came in the last cycle is not in it yet: those bytes are asked for once more.
  always_ff @(posedge clk_i) begin
    retry_op_q     <= retry_rest;
    retry_tag_q    <= 8'({generation[retry_idx][ShortW-1:0], retry_idx});
    retry_number_q <= generation[retry_idx][GenerationW-1:ShortW];
    if (rst_i) retry_q <= 1'b0;
    else retry_q <= retry_here && !(retry_valid_o && retry_ready_i);
  end
  assign retry_valid_o  = retry_q && retry_here;
  assign retry_op_o     = retry_op_q;
  assign retry_tag_o    = retry_tag_q;
  assign retry_number_o = retry_number_q;

  // ---- Time-outs -------------------------------------------------------------------------------
  assign expire         = expired && !error_valid_q && !hold_i;

  always_ff @(posedge clk_i) begin
    if (expire) begin
      error_q <= '{
          requester_id: expired_load.requester_id,
          tag: expired_load.tag,
          tc: expired_load.tc,
          attr: expired_load.attr,
          locked: 1'b0,
          status: CPL_CA,
          byte_count: expired_load.byte_count,
          lower_address: expired_load.lower_address
      };
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      error_valid_q <= 1'b0;
      timeout_q     <= 1'b0;
      completed_q   <= 1'b0;
    end else begin
      if (expire) error_valid_q <= 1'b1;
      else if (cpl_error_ready_i) error_valid_q <= 1'b0;
      timeout_q   <= expire;
      completed_q <= done;
    end
  end

  assign cpl_error_o = error_q;
  assign cpl_error_valid_o = error_valid_q;
  assign cnt_load_timeout_o = timeout_q;
  assign cnt_load_completed_o = completed_q;
  assign busy_o = pool_busy || retry_busy || error_valid_q || timeout_q || completed_q;

  // The address only matters to completions that come.
  logic unused;
  assign unused = ^{expired_load.peer_ip, expired_out.session, expired_out.end_address,
                    found_q.end_address};

`ifndef SYNTHESIS
  initial
    assert (LoadTags <= 32)
    else $fatal(1, "load_tags: the tag does not fit its 8 bits");
  assert property (@(posedge clk_i) disable iff (rst_i) take_i |-> tag_here && hold_i)
  else $error("load_tags: taken without a completion of that load");
  assert property (@(posedge clk_i) disable iff (rst_i) take_i |-> $past(
      judge_q && live_o
  ) && $stable(
      op_i
  ))
  else $error("load_tags: taken without having been judged");
  assert property (@(posedge clk_i) disable iff (rst_i)
      alloc_i |-> alloc_load_i.byte_count <= 12'd256)
  else $error("load_tags: a load of more than 64 DWs");
`endif
endmodule
