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
// Latency   : take and look-up as in tag_pool; a time-out's completion 1 cycle after it is found. A completion
//             is judged in the cycle of look_i, and counts in the next one, with take_i: the long way from the
//             slot through the tags ends in registers.
// Clock     : clk_i (PCIe).
// Handshake : cpl_error_valid_o holds until ready. take_i only in the cycle after look_i with live_o, op_i as it
//             was.
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
  /// It belongs to a load, which wants it.
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
  logic [BytesW-1:0] left, carried, rest_q;
  // Signed: the last DW may have up to 3 bytes that nobody asked for.
  logic [BytesW+1:0] rest;
  logic is_good, too_much, fits, ends, ends_q, done;
  tlp_pkg::page_op_t              retry_op;
  logic              [       6:0] retry_dws;
  logic              [IndexW-1:0] retry_idx;
  logic belongs, goes_on, retry_busy;
  out_t found, taken;
  logic tag_live, expired, expire, pool_busy;
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
    .tag_i         (tag),
    .whole_i       (found.session.valid),
    .live_o        (tag_live),
    .data_o        (found),
    .free_i        (done),
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
  assign load_o = found.load;
  assign left = left_q[tag[IndexW-1:0]];
  assign carried = {op_i.data_dw, 2'd0} - BytesW'(op_i.lower_address[1:0]);
  // A load of a session is answered within it and nowhere else.
  assign belongs = tag_live && 8'(tag[ShortTagW-1:0]) == op_i.net_tag && (found.session.valid ?
      op_i.session == found.session : found.load.peer_ip == op_i.peer.ip);
  // It goes on where the last one ended.
  assign goes_on = op_i.byte_count == 12'(left);
  assign is_good = op_i.status == CPL_SC;
  assign rest = (BytesW + 2)'(left) - (BytesW + 2)'(carried);
  assign too_much = rest[BytesW+1] && !(&rest[BytesW:2] && |rest[1:0]);
  assign fits = is_good == (op_i.data_dw != '0) &&
      (!is_good || (goes_on && op_i.lower_address == answer_o.lower_address && !too_much));
  assign ends = !is_good || rest[BytesW+1] || rest == '0;
  assign repeated_o = belongs && found.session.valid && is_good && !goes_on;
  assign live_o = belongs && fits;
  // No other failures than these: none may be retried, as CRS asks for.
  assign answer_o = '{
          status: op_i.status inside {CPL_SC, CPL_UR} ? op_i.status : CPL_CA,
          byte_count: 12'(left),
          lower_address: found.end_address - left[6:0]
      };
  assign done = take_i && ends_q;

  always_ff @(posedge clk_i) begin
    if (look_i) begin
      rest_q <= rest[BytesW-1:0];
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
    .valid_o   (retry_valid_o),
    .idx_o     (retry_idx),
    .op_o      (retry_op),
    .sent_i    (retry_valid_o && retry_ready_i),
    .busy_o    (retry_busy)
  );
  assign retry_tag_o    = 8'({generation[retry_idx][ShortW-1:0], retry_idx});
  assign retry_number_o = generation[retry_idx][GenerationW-1:ShortW];

  // Behind the DWs that have come all bytes are wanted, up to the last one.
  assign retry_dws      = dws_q[retry_idx];
  always_comb begin
    retry_op_o = retry_op;
    if (retry_dws != '0) begin
      retry_op_o.offset   = retry_op.offset + 12'({retry_dws, 2'b00});
      retry_op_o.length   = retry_op.length - retry_dws;
      retry_op_o.first_be = 4'hF;
      if (retry_op_o.length == 7'd1) begin
        for (int i = 0; i < 4; i++) retry_op_o.first_be[i] = |(retry_op.last_be >> i);
        retry_op_o.last_be = '0;
      end
    end
  end

  // ---- Time-outs -------------------------------------------------------------------------------
  assign expire = expired && !error_valid_q && !hold_i;

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
  assign unused = ^{expired_load.peer_ip, expired_out.session, expired_out.end_address};

`ifndef SYNTHESIS
  initial
    assert (LoadTags <= 32)
    else $fatal(1, "load_tags: the tag does not fit its 8 bits");
  assert property (@(posedge clk_i) disable iff (rst_i) take_i |-> live_o && hold_i)
  else $error("load_tags: taken without a completion of that load");
  assert property (@(posedge clk_i) disable iff (rst_i) take_i |-> $past(
      look_i && live_o
  ) && $stable(
      op_i
  ))
  else $error("load_tags: taken without having been looked up");
  assert property (@(posedge clk_i) disable iff (rst_i)
      alloc_i |-> alloc_load_i.byte_count <= 12'd256)
  else $error("load_tags: a load of more than 64 DWs");
`endif
endmodule
