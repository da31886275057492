// SPDX-License-Identifier: Apache-2.0
// Builds the frames of the NIC: Ethernet, IPv4 and UDP headers, the operation in either wire
// format, end code.
//
// Payload words PW are what follows the UDP header: PW0 is the packet header, then the body, then
// the end code in the DW behind the last one. They lie 42 bytes into the frame, so frame word 5+k
// is {PWk[47:0], PW(k-1)[63:48]}. While word w is on the stream: PW(w-3) gets its end code, PW(w-4)
// becomes part of word w+1. Word 0, the MACs, comes straight from the slot, whose last part may
// have arrived just now; all others come from a register.
//
// Latency   : start_o is combinational from src_valid_i and src_permitted_i; word 0 in the cycle
//             after start_o with ready_start_i, one word more in each cycle with tready. The next
//             start may be in the cycle after a frame's last beat.
// Clock     : clk_i (network).
// Handshake : src_pop_o in the cycle of the frame's last beat; the source holds its frame until
//             then. Source i's src_pay_word_i follows src_pay_idx_o by one cycle. m_axis never
//             stalls within a frame.
// Drops     : frames without permission are popped, one a cycle, while no frame is under way; who
//             refused them has counted them.
// Source    : dissertation section 3.3.2; docs/wire-format.md.
module frame_builder
  import crc_pkg::*;
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Sequence counters; a power of two.
  parameter int unsigned PcIds = 256,
  /// Where frames come from, served round robin.
  parameter int unsigned Sources = 3
) (
  input logic        clk_i,
  input logic        rst_i,
  input logic [47:0] mac_i,
  input logic [31:0] ip_i,
  input logic [ 7:0] epoch_i,

  input  logic      [Sources-1:0]       src_valid_i,
  input  logic      [Sources-1:0]       src_permitted_i,
  input  tx_frame_t [Sources-1:0]       src_frame_i,
  output logic      [        4:0]       src_pay_idx_o,
  input  logic      [Sources-1:0][63:0] src_pay_word_i,
  output logic      [Sources-1:0]       src_pop_o,

  /// A frame is ready to be sent; its first beat follows the cycle with ready_start_i.
  output logic       start_o,
  input  logic       ready_start_i,
         axis_if.src m_axis,

  output logic cnt_tx_store_o,
  output logic cnt_tx_load_o,
  output logic cnt_tx_completion_o,
  output logic cnt_tx_error_o,
  output logic busy_o
);
  localparam int unsigned PcIdW = $clog2(PcIds);
  localparam int unsigned SourceW = Sources > 1 ? $clog2(Sources) : 1;

  // Words of a frame: compact stores start their data in PW1, the others in PW3.
  localparam logic [5:0] CompactData = 6'd1;
  localparam logic [5:0] TlpData = 6'd3;
  // Sum of the IP header's constant parts: version, flags, TTL and protocol.
  localparam logic [18:0] SumConstant = 19'h4500 + 19'h4000 + 19'h4011;

  logic active_q;
  logic [5:0] word_q, word_d;  // index of the word on the stream
  logic [SourceW-1:0] select_q;
  logic [Sources-1:0] eligible;
  logic [SourceW-1:0] grant;
  logic grant_valid, fire, step, last_word;
  tx_frame_t        frame;
  logic      [63:0] pay_word;

  // ---- Choice and start ----
  assign eligible = src_valid_i & src_permitted_i;

  arb_rr #(
    .N(Sources)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i      (eligible),
    .ack_i      (fire),
    .lock_i     (1'b0),
    .gnt_o      (),
    .gnt_idx_o  (grant),
    .gnt_valid_o(grant_valid)
  );

  assign start_o = !active_q && grant_valid;
  assign fire    = start_o && ready_start_i;
  assign step    = active_q && m_axis.tready;

  always_comb begin
    word_d = word_q;
    if (fire) word_d = '0;
    else if (step) word_d = word_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) active_q <= 1'b0;
    else if (fire) active_q <= 1'b1;
    else if (step && last_word) active_q <= 1'b0;

    word_q <= word_d;
    if (fire) select_q <= grant;
  end

  always_comb begin
    frame     = src_frame_i[0];
    pay_word  = src_pay_word_i[0];
    src_pop_o = '0;
    for (int unsigned i = 0; i < Sources; i++) begin
      if (select_q == SourceW'(i)) begin
        frame    = src_frame_i[i];
        pay_word = src_pay_word_i[i];
      end
      if (!active_q) src_pop_o[i] = src_valid_i[i] && !src_permitted_i[i];
      else if (select_q == SourceW'(i)) src_pop_o[i] = step && last_word;
    end
  end

  // ---- Lengths, settled while word 0 is on the stream ----
  logic [9:0] payload_bytes;
  logic [15:0] ip_bytes, ip_bytes_q, udp_bytes_q;
  logic [5:0] last_q, end_q;  // last frame word; payload word with the end code
  logic [7:0] keep_q;
  logic odd_q, compact_q;
  always_comb begin
    payload_bytes = {1'b0, frame.data_dw, 2'b00} +
        (frame.compact ? 10'(HEADER_BYTES + COMPACT_END_BYTES) :
                         10'(HEADER_BYTES + TLP_HEADER_BYTES + TLP_END_BYTES));
    ip_bytes = 16'(payload_bytes) + 16'd28;
  end

  // ---- IP header checksum ----
  logic [18:0] sum_q;
  logic [16:0] sum_folded;
  logic [15:0] checksum;
  assign sum_folded = {1'b0, sum_q[15:0]} + 17'(sum_q[18:16]);
  assign checksum   = ~(sum_folded[15:0] + 16'(sum_folded[16]));

  always_ff @(posedge clk_i) begin
    if (step && word_q == 6'd0) begin
      compact_q   <= frame.compact;
      odd_q       <= frame.data_dw[0];
      ip_bytes_q  <= ip_bytes;
      udp_bytes_q <= ip_bytes - 16'd20;
      end_q       <= (frame.compact ? CompactData : TlpData) + frame.data_dw[6:1];
      if (frame.compact) begin
        last_q <= 6'd6 + frame.data_dw[6:1];
        keep_q <= frame.data_dw[0] ? 8'hFF : 8'h0F;
      end else begin
        last_q <= 6'd8 + frame.data_dw[6:1] + 6'(frame.data_dw[0]);
        keep_q <= frame.data_dw[0] ? 8'h03 : 8'h3F;
      end
      sum_q <= SumConstant + 19'(ip_bytes) + 19'(ip_i[31:16]) + 19'(ip_i[15:0]);
    end
    if (step && word_q == 6'd1) begin
      sum_q <= sum_q + 19'(frame.dst_ip[31:16]) + 19'(frame.dst_ip[15:0]);
    end
  end
  // Word 0 is never the last, and last_q is of this frame from word 1 on.
  assign last_word = word_q != 6'd0 && word_q == last_q;

  // ---- Sequence number ----
  logic [15:0] counter, sequence_number;
  seq_table #(
    .PcIds(PcIds)
  ) u_seq (
    .clk_i,
    .rst_i,
    .look_i    (active_q && word_q <= 6'd1),
    .pc_id_i   (frame.pc_id[PcIdW-1:0]),
    .sequence_o(counter),
    .next_i    (step && word_q == 6'd3 && frame.sequenced)
  );
  assign sequence_number = frame.sequenced ? counter : 16'd0;

  // ---- Payload words ----
  logic [63:0] raw, header, data;
  assign src_pay_idx_o = 5'(word_d - (frame.compact ? 6'd3 + CompactData : 6'd3 + TlpData));
  assign data          = frame.zero_data ? '0 : pay_word;
  always_comb begin
    if (frame.compact) begin
      header = {
        frame.address[7:0],
        frame.address[15:8],
        frame.address[23:16],
        frame.address[31:24],
        frame.address[39:32],
        sequence_number[7:0],
        sequence_number[15:8],
        {COMPACT_NIBBLE, 2'b00, frame.trail}
      };
    end else begin
      header = {
        16'd0,
        sequence_number[7:0],
        sequence_number[15:8],
        epoch_i,
        {frame.kind, 3'b000, frame.sequenced},
        TLP_MAGIC[7:0],
        TLP_MAGIC[15:8]
      };
    end
    raw = data;
    if (word_q == 6'd3) raw = header;
    else if (!compact_q && word_q == 6'd4) raw = frame.head[63:0];
    else if (!compact_q && word_q == 6'd5) raw = frame.head[127:64];
  end

  // ---- End code ---- After half a word: its four bytes, moved to the end of a word that begins
  // with zeros, leave a register that is zero at its beginning as they would leave the true one.
  logic [31:0] crc32_q, crc32_half, end_tlp;
  logic [15:0] crc16_q, crc16_half, end_compact;
  logic [31:0] end_code;
  logic [63:0] pw, pw_q;
  assign crc32_half  = crc32c_next64('0, {raw[31:0] ^ crc32_q, 32'd0});
  assign crc16_half  = crc16_next64('0, {raw[31:0] ^ {16'd0, crc16_q[7:0], crc16_q[15:8]}, 32'd0});
  assign end_tlp     = ~(odd_q ? crc32_half : crc32_q) ^ {20'd0, frame.tag};
  assign end_compact = (odd_q ? crc16_half : crc16_q) ^ {4'd0, frame.tag};
  assign end_code    = compact_q ? {16'd0, end_compact[7:0], end_compact[15:8]} : end_tlp;

  always_comb begin
    pw = raw;
    if (word_q == end_q + 6'd3) pw = odd_q ? {end_code, raw[31:0]} : {32'd0, end_code};
  end

  always_ff @(posedge clk_i) begin
    if (step) begin
      if (word_q < 6'd3) begin
        crc32_q <= CRC32C_INIT;
        crc16_q <= CRC16_INIT;
      end else begin
        crc32_q <= crc32c_next64(crc32_q, raw);
        crc16_q <= crc16_next64(crc16_q, raw);
      end
      pw_q <= pw;
    end
  end

  // ---- Frame words ----
  logic [63:0] out_q, out_d;
  logic [15:0] carry_q;  // end of the payload word before pw_q; the UDP checksum before PW0
  always_comb begin
    unique case (word_q)
      6'd0:
      out_d = {8'h00, 8'h45, 8'h00, 8'h08, mac_i[7:0], mac_i[15:8], mac_i[23:16], mac_i[31:24]};
      6'd1: out_d = {8'd17, 8'd64, 8'h00, 8'h40, 16'd0, ip_bytes_q[7:0], ip_bytes_q[15:8]};
      6'd2:
      out_d = {
        frame.dst_ip[23:16],
        frame.dst_ip[31:24],
        ip_i[7:0],
        ip_i[15:8],
        ip_i[23:16],
        ip_i[31:24],
        checksum[7:0],
        checksum[15:8]
      };
      6'd3:
      out_d = {
        udp_bytes_q[7:0],
        udp_bytes_q[15:8],
        UDP_PORT[7:0],
        UDP_PORT[15:8],
        frame.src_port[7:0],
        frame.src_port[15:8],
        frame.dst_ip[7:0],
        frame.dst_ip[15:8]
      };
      default: out_d = {pw_q[47:0], carry_q};
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (step) begin
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

  // ---- Counters ----
  logic ended;
  assign ended = step && last_word;
  assign cnt_tx_error_o = ended && !frame.compact && frame.kind == KIND_ERROR;
  assign cnt_tx_store_o      = ended && (frame.compact ||
      (frame.kind == KIND_TLP && frame.head[7:0] == TLP_MWR64));
  assign cnt_tx_load_o       = ended && !frame.compact && frame.kind == KIND_TLP &&
      frame.head[7:0] == TLP_MRD64;
  assign cnt_tx_completion_o = ended && !frame.compact && frame.kind == KIND_TLP &&
      frame.head[7:0] inside {TLP_CPL, TLP_CPLD};

  assign busy_o = active_q || |src_valid_i;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q |-> src_valid_i[select_q] && src_permitted_i[select_q])
  else $error("frame_builder: a frame went away while it was sent");
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q && word_q != 6'd0 |-> word_q <= last_q)
  else $error("frame_builder: a frame without an end");
  assert property (@(posedge clk_i) disable iff (rst_i)
      active_q |-> frame.data_dw <= 7'(MAX_DATA_DW) && (!frame.compact || frame.data_dw != '0))
  else $error("frame_builder: payload out of range");
`endif
endmodule
