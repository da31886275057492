// SPDX-License-Identifier: Apache-2.0
// Builds the frames of the NIC: Ethernet, IPv4 and UDP headers, the operation in either wire
// format, end code; of a session with its port, its sequence and the acknowledgement that waits.
//
// Payload words PW are what follows the UDP header: PW0 is the packet header, then the body, then
// the end code in the DW behind the last one. They lie 42 bytes into the frame, so frame word 5+k
// is {PWk[47:0], PW(k-1)[63:48]}. While word w is on the stream: PW(w-3) gets its end code, PW(w-4)
// becomes part of word w+1. Word 0, the MACs, comes straight from the slot, whose last part may
// have arrived just now; all others come from a register.
//
// Sources: 0 requester, 1 completions, 2 refusals, 3 control frames of sessions, 4 frames sent
// again. A frame of a session takes the session's port and epoch as they are in the table at the
// edge of its start: a session that is written meanwhile does not mix with it. An answer has the
// epoch that the session had when its request came: the peer refuses what answers a load of an
// earlier epoch, whose tag a reset may have given out again. Frames of source 0 are copied to the
// send buffer as they pass. Acknowledgements travel with sequenced frames that are sent for the
// first time: those alone are sure to be looked at when they arrive.
//
// Latency   : start_o is combinational from src_valid_i, src_permitted_i and open_i; word 0 in the
//             cycle after start_o with ready_start_i, one word more in each cycle with tready. The
//             next start may be in the cycle after a frame's last beat; when an answer has the turn
//             whose session is not valid any more, in the cycle after its drop.
// Clock     : clk_i (network).
// Handshake : start_o may be withdrawn until ready_start_i. src_lock_o from the cycle in which a
//             source's frame is chosen to its last beat: until then the source may take it back or
//             let it grow, from then on it is held. src_pop_o in the cycle of the last beat. Source
//             i's src_pay_word_i follows src_pay_idx_o by one cycle. m_axis never stalls within a
//             frame.
// Drops     : frames without permission are popped, one a cycle, while no frame is under way; who
//             refused them has counted them. So are stores and loads whose session is lost or not
//             valid, and answers whose session is not valid any more, counted here. A pop without
//             src_lock_o is such a drop, or a mark that was handed on.
// Source    : dissertation section 3.3.2; docs/wire-format.md.
module frame_builder
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Sequence counters of peers without a session; a power of two.
  parameter int unsigned PcIds = 256,
  /// Sessions; a power of two from 2 to 256.
  parameter int unsigned Sessions = 64,
  localparam int unsigned Sources = 5
) (
  input logic        clk_i,
  input logic        rst_i,
  input logic [47:0] mac_i,
  input logic [31:0] ip_i,
  /// Epoch of frames without a session.
  input logic [ 7:0] epoch_i,

  input  logic      [Sources-1:0]       src_valid_i,
  input  logic      [Sources-1:0]       src_permitted_i,
  input  tx_frame_t [Sources-1:0]       src_frame_i,
  output logic      [        4:0]       src_pay_idx_o,
  input  logic      [Sources-1:0][63:0] src_pay_word_i,
  /// The source's frame is chosen or being sent.
  output logic      [Sources-1:0]       src_lock_o,
  output logic      [Sources-1:0]       src_pop_o,

  /// What source 0 offers, without permission, is a flush mark; it is popped when it is taken.
  input  logic mark_i,
  output logic mark_valid_o,
  input  logic mark_ready_i,

  /// Session of the frame that starts or is being sent.
  output logic [         7:0] session_o,
  /// The same from the cycle after the start on, from a register.
  output logic [         7:0] sending_o,
  /// Source port of session_o, with its epoch; combinational.
  input  logic [        15:0] session_port_i,
  input  logic [Sessions-1:0] session_valid_i,
  input  logic [Sessions-1:0] session_sealed_i,

  /// New frames may be sent.
  input  logic      [Sessions-1:0] open_i,
  /// Lost or not valid.
  input  logic      [Sessions-1:0] lost_i,
  /// Pulse: a new frame of sending_o has begun, with the number that follows in the next cycle and
  /// stays until the next one begins.
  output logic                     resend_start_o,
  input  logic      [        31:0] start_sequence_i,
  /// Number of source 4's frame.
  input  logic      [        31:0] rs_sequence_i,
  /// Copy of the frame that began; its data follow word by word.
  output logic                     copy_frame_we_o,
  output tx_frame_t                copy_frame_o,
  output logic                     copy_we_o,
  output logic      [         4:0] copy_idx_o,
  output logic      [        63:0] copy_word_o,

  /// Acknowledgement that waits in sending_o, combinational; urgent if it should travel even where
  /// it makes a frame longer.
  input  logic        ack_pending_i,
  input  logic        ack_urgent_i,
  input  logic [15:0] ack_value_i,
  /// Pulse: it travels with this frame.
  output logic        ack_taken_o,

  /// A frame is ready to be sent; its first beat follows the cycle with ready_start_i.
  output logic       start_o,
  /// That frame, and then the one on the stream, is to be sealed.
  output logic       start_sealed_o,
  input  logic       ready_start_i,
         axis_if.src m_axis,

  output logic cnt_tx_store_o,
  output logic cnt_tx_load_o,
  output logic cnt_tx_completion_o,
  output logic cnt_tx_error_o,
  output logic cnt_tx_ack_o,
  output logic cnt_tx_nack_o,
  output logic cnt_tx_void_o,
  output logic cnt_tx_resend_o,
  output logic cnt_tx_lost_o,
  output logic busy_o
);
  localparam int unsigned PcIdW = $clog2(PcIds);
  localparam int unsigned SessionW = $clog2(Sessions);
  localparam int unsigned SourceW = $clog2(Sources);
  localparam logic [SourceW-1:0] Requester = SourceW'(0);
  localparam logic [SourceW-1:0] Completions = SourceW'(1);
  localparam logic [SourceW-1:0] Refusals = SourceW'(2);
  localparam logic [SourceW-1:0] Resend = SourceW'(4);

  // Words of a frame: compact stores start their data in PW1, the others in PW3.
  localparam logic [5:0] CompactData = 6'd1;
  localparam logic [5:0] TlpData = 6'd3;

  logic active_q;
  logic [5:0] word_q, word_d;  // index of the word on the stream
  logic [SourceW-1:0] select_q, grant_index;
  logic [Sources-1:0] request, grant, gone, drop;
  logic fire, step, last_word;
  session_t  [Sources-1:0] src_session;
  session_t                granted;  // session of the frame that would start now
  session_t                session_q;  // of the one being sent
  tx_frame_t               frame;
  logic      [       63:0] pay_word;
  logic      [       15:0] port_q;
  logic                    sealed_q;
  logic                    lone_q;  // source 0's frame has one DW

  // ---- Choice and start ----
  for (genvar i = 0; i < int'(Sources); i++) begin : gen_session
    assign src_session[i] = src_frame_i[i].session;
  end

  // Nothing but this selection of a bit lies on the way from a new slot to its start.
  always_comb begin
    request = src_valid_i & src_permitted_i;
    if (src_session[0].valid && !open_i[src_session[0].index[SessionW-1:0]]) request[0] = 1'b0;
  end

  // What will never be delivered. An answer's session is looked up beside the choice: answers to
  // sessions that went away are rare, and one that is chosen costs a cycle.
  always_comb begin
    gone    = '0;
    gone[0] = src_session[0].valid && lost_i[src_session[0].index[SessionW-1:0]];
    for (int unsigned i = 1; i <= 2; i++) begin
      gone[i] = src_session[i].valid && !session_valid_i[src_session[i].index[SessionW-1:0]];
    end
  end

  // At most one a cycle, so that each is counted.
  always_comb begin
    drop = src_valid_i & src_permitted_i & gone;
    drop &= ~drop + 1'b1;
  end

  arb_rr #(
    .N(Sources)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i      (request),
    .ack_i      (fire),
    .lock_i     (1'b0),
    .gnt_o      (grant),
    .gnt_idx_o  (grant_index),
    .gnt_valid_o()
  );

  // A lost session is not open: source 0 does not ask.
  assign start_o = !active_q && |(grant & ~{gone[Sources-1:1], 1'b0});
  assign fire    = start_o && ready_start_i;
  assign step    = active_q && m_axis.tready;

  always_comb begin
    granted = '0;
    for (int unsigned i = 0; i < Sources; i++) if (grant[i]) granted |= src_session[i];
  end
  assign session_o = active_q ? session_q.index : granted.index;
  assign sending_o = session_q.index;

  always_comb begin
    start_sealed_o = granted.valid && session_sealed_i[granted.index[SessionW-1:0]];
    if (active_q) start_sealed_o = sealed_q;
  end

  always_comb begin
    word_d = word_q;
    if (step) word_d = word_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) active_q <= 1'b0;
    else if (fire) active_q <= 1'b1;
    else if (step && last_word) active_q <= 1'b0;

    word_q <= fire ? '0 : word_d;
    if (fire) begin
      select_q  <= grant_index;
      session_q <= granted;
      lone_q    <= src_frame_i[0].data_dw == 7'd1;
      port_q    <= session_port_i;
      sealed_q  <= start_sealed_o;
    end else if (word_q == '0 && select_q inside {Completions, Refusals}) begin
      port_q[13:8] <= frame.src_port[13:8];
    end
  end

  always_comb begin
    frame    = src_frame_i[0];
    pay_word = src_pay_word_i[0];
    for (int unsigned i = 0; i < Sources; i++) begin
      if (select_q == SourceW'(i)) begin
        frame    = src_frame_i[i];
        pay_word = src_pay_word_i[i];
      end
    end
  end

  assign mark_valid_o = !active_q && src_valid_i[0] && mark_i;
  always_comb begin
    src_lock_o = '0;
    src_pop_o  = '0;
    for (int unsigned i = 0; i < Sources; i++) begin
      src_lock_o[i] = active_q ? select_q == SourceW'(i) : grant[i] && fire;
      if (active_q) src_pop_o[i] = select_q == SourceW'(i) && step && last_word;
      else if (i == 0 && mark_i) src_pop_o[i] = src_valid_i[i] && mark_ready_i;
      else src_pop_o[i] = (src_valid_i[i] && !src_permitted_i[i]) || drop[i];
    end
  end

  // ---- Form, settled while word 0 is on the stream ----
  logic compact, with_ack;
  logic [9:0] payload_bytes;
  logic [5:0] last_q, end_q;  // last frame word; payload word with the end code
  logic [7:0] keep_q;
  logic odd_q, compact_q, with_ack_q;
  logic [15:0] ack_q;
  assign compact = frame.compact || frame.control;
  // Behind one DW of data the acknowledgement costs nothing, the frame is padded anyway.
  // Only source 0's frames take one along: nobody waits for the choice between the sources.
  assign with_ack = ack_pending_i && session_q.valid && src_frame_i[0].sequenced &&
      select_q == Requester && (!(src_frame_i[0].compact || src_frame_i[0].control) || lone_q ||
                                ack_urgent_i);
  assign payload_bytes = {1'b0, frame.data_dw, 2'b00} +
      (!compact ? 10'(HEADER_BYTES + TLP_HEADER_BYTES + TLP_END_BYTES) :
       with_ack ? 10'(HEADER_BYTES + 2 + COMPACT_END_BYTES) :
                  10'(HEADER_BYTES + COMPACT_END_BYTES));

  always_ff @(posedge clk_i) begin
    if (step && word_q == 6'd0) begin
      compact_q  <= compact;
      with_ack_q <= with_ack;
      ack_q      <= ack_value_i;
      odd_q      <= frame.data_dw[0];
      end_q      <= (compact ? CompactData : TlpData) + frame.data_dw[6:1];
      // Behind the data are two bytes, or four in the tlp form and with an acknowledgement.
      if (compact && !with_ack) begin
        last_q <= 6'd6 + frame.data_dw[6:1];
        keep_q <= frame.data_dw[0] ? 8'hFF : 8'h0F;
      end else begin
        last_q <= (compact ? 6'd6 : 6'd8) + frame.data_dw[6:1] + 6'(frame.data_dw[0]);
        keep_q <= frame.data_dw[0] ? 8'h03 : 8'h3F;
      end
    end
  end
  // Word 0 is never the last, and last_q is of this frame from word 1 on.
  assign last_word   = word_q != 6'd0 && word_q == last_q;
  assign ack_taken_o = step && word_q == 6'd0 && with_ack;

  // ---- Sequence number ----
  logic [15:0] counter;
  logic [31:0] sequence_number;
  seq_table #(
    .PcIds(PcIds)
  ) u_seq (
    .clk_i,
    .rst_i,
    .look_i    (active_q && word_q <= 6'd1 && !session_q.valid),
    .pc_id_i   (frame.pc_id[PcIdW-1:0]),
    .sequence_o(counter),
    .next_i    (step && word_q == 6'd3 && frame.sequenced && !session_q.valid)
  );
  always_comb begin
    sequence_number = frame.control ? 32'(frame.tag) : '0;
    if (frame.sequenced) begin
      if (!session_q.valid) sequence_number = {16'd0, counter};
      else if (select_q == Resend) sequence_number = rs_sequence_i;
      else sequence_number = start_sequence_i;
    end
  end

  // ---- Payload words ----
  logic [63:0] raw, header, data;
  logic [5:0] data_word;
  assign src_pay_idx_o = 5'(word_d - (compact ? 6'd3 + CompactData : 6'd3 + TlpData));
  assign data          = frame.zero_data ? '0 : pay_word;
  always_comb begin
    if (compact) begin
      header = {
        frame.address[7:0],
        frame.address[15:8],
        frame.address[23:16],
        frame.address[31:24],
        frame.address[39:32],
        sequence_number[7:0],
        sequence_number[15:8],
        {COMPACT_NIBBLE, with_ack_q, frame.control, frame.trail}
      };
    end else begin
      header = {
        with_ack_q ? {ack_q[7:0], ack_q[15:8]} : 16'd0,
        sequence_number[7:0],
        sequence_number[15:8],
        session_q.valid ? {2'b00, port_q[13:8]} : epoch_i,
        {frame.kind, 2'b00, with_ack_q, frame.sequenced},
        TLP_MAGIC[7:0],
        TLP_MAGIC[15:8]
      };
    end
    raw = data;
    if (word_q == 6'd3) raw = header;
    else if (!compact_q && word_q == 6'd4) raw = frame.head[63:0];
    else if (!compact_q && word_q == 6'd5) raw = frame.head[127:64];
  end

  logic        end_here;
  logic [31:0] end_dw;
  logic [63:0] pw, pw_q;
  assign end_here = active_q && word_q == end_q + 6'd3;
  end_code u_end_code (
    .clk_i,
    .step_i     (step),
    .init_i     (word_q < 6'd3),
    .word_i     (raw),
    .end_i      (end_here),
    .session_i  (session_q.valid),
    .port_i     (port_q),
    .compact_i  (compact_q),
    .odd_i      (odd_q),
    .ack_i      (with_ack_q),
    .ack_value_i(ack_q),
    .tag_i      (frame.control ? 12'd0 : frame.tag),
    .fold_i     (sequence_number[31:16]),
    .dw_o       (end_dw)
  );

  always_comb begin
    pw = raw;
    if (end_here) pw = odd_q ? {end_dw, raw[31:0]} : {32'd0, end_dw};
  end

  // ---- Copy of what may have to be sent again ----
  logic copying, fired_q;
  assign copying = step && session_q.valid && select_q == Requester;
  // At once, and not only when the transmitter takes word 0: the session must still be as it was when
  // the frame was chosen.
  always_ff @(posedge clk_i) fired_q <= fire && !rst_i;
  assign resend_start_o = fired_q && session_q.valid && select_q == Requester;
  assign copy_frame_we_o = copying && word_q == 6'd1;
  assign copy_frame_o = frame;
  assign data_word = word_q - (compact_q ? 6'd3 + CompactData : 6'd3 + TlpData);
  // Half a pair with an odd number of DWs; what is behind it nobody reads.
  assign copy_we_o       = copying && word_q > 6'd3 && data_word < 6'(frame.data_dw[6:1]) +
      6'(frame.data_dw[0]);
  assign copy_idx_o = data_word[4:0];
  assign copy_word_o = data;

  // ---- Frame words ----
  logic [63:0] out_q, out_d, front;
  logic [15:0] carry_q;  // end of the payload word before pw_q; the UDP checksum before PW0
  frame_header u_header (
    .clk_i,
    .step_i         (step),
    .word_i         (word_q),
    .mac_i          (mac_i[31:0]),
    .ip_i,
    .dst_ip_i       (frame.dst_ip),
    .src_port_i     (session_q.valid ? port_q : frame.src_port),
    .payload_bytes_i(payload_bytes),
    .next_o         (front)
  );
  assign out_d = word_q <= 6'd3 ? front : {pw_q[47:0], carry_q};

  always_ff @(posedge clk_i) begin
    if (step) begin
      pw_q    <= pw;
      out_q   <= out_d;
      carry_q <= word_q == 6'd3 ? 16'd0 : pw_q[63:48];
    end
  end

  always_comb begin
    m_axis.tdata = out_q;
    if (word_q == 6'd0) begin
      m_axis.tdata = {
        mac_i[39:32],
        mac_i[47:40],
        frame.dst_mac[7:0],
        frame.dst_mac[15:8],
        frame.dst_mac[23:16],
        frame.dst_mac[31:24],
        frame.dst_mac[39:32],
        frame.dst_mac[47:40]
      };
    end
  end
  assign m_axis.tvalid = active_q;
  assign m_axis.tlast  = last_word;
  assign m_axis.tkeep  = last_word ? keep_q : 8'hFF;
  assign m_axis.tuser  = '0;

  // ---- Counters: one for each frame, one for each drop ----
  logic ended, first_time, tlp;
  assign ended = step && last_word;
  assign first_time = ended && select_q != Resend && !frame.control;
  assign tlp = first_time && !frame.compact && frame.kind == KIND_TLP;
  assign cnt_tx_error_o = first_time && !frame.compact && frame.kind == KIND_ERROR;
  assign cnt_tx_store_o = (first_time && frame.compact) || (tlp && frame.head[7:0] == TLP_MWR64);
  assign cnt_tx_load_o = tlp && frame.head[7:0] == TLP_MRD64;
  assign cnt_tx_completion_o = tlp && frame.head[7:0] inside {TLP_CPL, TLP_CPLD};
  assign cnt_tx_ack_o = ended && frame.control && frame.trail == CONTROL_ACK;
  assign cnt_tx_nack_o = ended && frame.control && frame.trail == CONTROL_NACK;
  assign cnt_tx_void_o = ended && frame.control && frame.trail == CONTROL_VOID;
  assign cnt_tx_resend_o = ended && select_q == Resend && !frame.control;
  assign cnt_tx_lost_o = !active_q && drop != '0;

  assign busy_o = active_q || |src_valid_i;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q |-> src_valid_i[select_q] && src_permitted_i[select_q])
  else $error("frame_builder: a frame went away while it was sent");
  assert property (@(posedge clk_i) disable iff (rst_i) active_q |-> session_q == frame.session)
  else $error("frame_builder: a frame changed its session while it was sent");
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q && word_q != 6'd0 |-> word_q <= last_q)
  else $error("frame_builder: a frame without an end");
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q |-> frame.data_dw <= 7'(MAX_DATA_DW) &&
      (frame.control ? frame.data_dw == '0 : !frame.compact || frame.data_dw != '0))
  else $error("frame_builder: payload out of range");
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q && session_q.valid |-> 32'(session_q.index) < Sessions)
  else $error("frame_builder: a session beyond the table");
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q && (frame.control || select_q >= SourceW'(3)) |-> session_q.valid)
  else $error("frame_builder: a control frame or a resent one without a session");
  assert property (@(posedge clk_i) disable iff (rst_i)
      mark_i && src_valid_i[0] |-> !src_permitted_i[0])
  else $error("frame_builder: a mark that is a frame");
  assert property (@(posedge clk_i) disable iff (rst_i) (open_i & lost_i) == '0)
  else $error("frame_builder: a lost session is open");
`endif
endmodule
