// SPDX-License-Identifier: Apache-2.0
// Writes a segment's headers, with both checksums, and sends it.
//
// Latency   : 4 edges from sheet_i to the first beat; 3 edges between frames.
// Clock     : clk_i.
// Handshake : sheet: valid/ready; m_eth as axis_if says, frames without FCS, padded to 60 bytes.
// Drops     : never.
// Source    : RFC 791, RFC 9293 section 3.1, RFC 2018, RFC 7323 appendix A, RFC 6864.
module toe_emit
  import toe_pkg::*;
#(
  parameter int unsigned WordW = 8
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  logic       [     47:0] mac_i,
  input  logic       [     31:0] ip_i,
  input  order_t                 sheet_i,
  input  logic       [     31:0] sum_i,
  input  logic                   bank_i,
  input  logic                   sheet_valid_i,
  output logic                   sheet_ready_o,
  output logic                   rd_bank_o,
  output logic       [WordW-1:0] rd_word_o,
  input  logic       [     63:0] rd_data_i,
         axis_if.src             m_eth
);
  localparam int unsigned HeaderWords = (HeaderBytes + 7) / 8;
  localparam logic [15:0] DontFragment = 16'h4000;
  localparam logic [7:0] Ttl = 8'd64;
  localparam bytes_t Minimum = 15'd60;

  typedef enum logic [1:0] {
    Idle,
    Sum,
    Seal,
    Send
  } state_e;

  // ---- The header as words of 4 bytes, first byte the most significant -----------------------------
  logic [OptBytes/4-1:0][31:0] options;
  logic [           3:0]       count;
  logic [          15:0]       ip_bytes;

  assign count    = option_words(sheet_i);
  assign ip_bytes = 16'(sheet_i.bytes) + 16'd40 + {10'd0, count, 2'd0};
  always_comb begin
    logic [3:0] n;
    options = '0;
    n       = '0;
    if (sheet_i.mss_valid) begin
      options[n] = {OptMss, 8'd4, sheet_i.mss};
      n += 4'd1;
    end
    if (sheet_i.scale_valid) begin
      options[n] = {OptNop, OptScale, 8'd3, 4'd0, sheet_i.scale};
      n += 4'd1;
    end
    if (sheet_i.sack_ok) begin
      options[n] = {OptNop, OptNop, OptSackOk, 8'd2};
      n += 4'd1;
    end
    if (sheet_i.times_valid) begin
      options[n]   = {OptNop, OptNop, OptTimes, 8'd10};
      options[n+1] = sheet_i.time_value;
      options[n+2] = sheet_i.time_echo;
      n += 4'd3;
    end
    if (sheet_i.sack_valid != '0) begin
      options[n] = {OptNop, OptNop, OptSack, 8'd2 + {2'd0, blocks(sheet_i.sack_valid), 3'd0}};
      n += 4'd1;
      for (int unsigned i = 0; i < Gaps; i++) begin
        if (sheet_i.sack_valid[i]) begin
          options[n]   = sheet_i.sack[i].first;
          options[n+1] = sheet_i.sack[i].behind;
          n += 4'd2;
        end
      end
    end
  end

  logic [8*HeaderBytes-1:0] image, kept;  // first byte the most significant
  always_comb begin
    image = {
      sheet_i.mac,
      mac_i,
      EtherTypeIp,
      16'h4500,
      ip_bytes,
      16'd0,
      DontFragment,
      Ttl,
      ProtocolTcp,
      16'd0,
      ip_i,
      sheet_i.ip,
      sheet_i.local_port,
      sheet_i.peer_port,
      sheet_i.seq,
      sheet_i.ack,
      4'd5 + count,
      4'd0,
      sheet_i.flags,
      sheet_i.window,
      32'd0,
      {8 * OptBytes{1'b0}}
    };
    for (int unsigned i = 0; i < OptBytes / 4; i++) begin
      image[8*OptBytes-1-32*i-:32] = options[i];
    end
  end

  function automatic logic [31:0] halves(logic [8*HeaderBytes-1:0] from, int unsigned first,
                                         int unsigned behind);
    logic [31:0] sum;
    sum = '0;
    for (int unsigned i = first; i < behind; i += 2) sum += 32'(from[8*(HeaderBytes-i)-1-:16]);
    return sum;
  endfunction

  // ---- Sums, then words ----------------------------------------------------------------------------
  state_e                        state_q;
  logic   [HeaderBytes-1:0][7:0] bytes_q;
  logic [31:0] ip_sum_q, fix_sum_q, opt_sum_q, pay_sum_q;
  logic [15:0] tcp_bytes_q, ip_check, tcp_check;
  logic bank_q, last, advance;
  bytes_t header_end_q, frame_end_q, at, next_at;
  logic [12:0] word_q, word;
  logic [63:0] header_word, out;

  assign ip_check = ~fold(ip_sum_q);
  assign tcp_check = ~fold(
      32'(fold(fix_sum_q + opt_sum_q)) + 32'(fold(pay_sum_q)) + 32'(tcp_bytes_q) + 32'(ProtocolTcp)
  );

  always_comb begin
    for (int unsigned i = 0; i < HeaderBytes; i++) kept[8*(HeaderBytes-1-i)+:8] = bytes_q[i];
  end
  always_ff @(posedge clk_i) begin
    if (state_q == Idle) begin
      for (int unsigned i = 0; i < HeaderBytes; i++) begin
        bytes_q[i] <= image[8*(HeaderBytes-1-i)+:8];
      end
      pay_sum_q    <= sum_i;
      tcp_bytes_q  <= ip_bytes - 16'(IpBytes);
      bank_q       <= bank_i;
      header_end_q <= 15'(OptOffset) + {9'd0, count, 2'd0};
      frame_end_q  <= ip_bytes[14:0] + 15'(EthBytes);
    end
    if (state_q == Sum) begin
      ip_sum_q  <= halves(kept, EthBytes, TcpOffset);
      fix_sum_q <= halves(kept, TcpOffset - 8, OptOffset);
      opt_sum_q <= halves(kept, OptOffset, HeaderBytes);
    end
    if (state_q == Seal) begin
      {bytes_q[24], bytes_q[25]} <= ip_check;
      {bytes_q[50], bytes_q[51]} <= tcp_check;
    end
    if (rst_i) state_q <= Idle;
    else begin
      unique case (state_q)
        Idle: if (sheet_valid_i) state_q <= Sum;
        Sum: state_q <= Seal;
        Seal: state_q <= Send;
        default: if (advance && last) state_q <= Idle;
      endcase
    end
    word_q <= state_q == Send ? word : '0;
  end

  assign advance       = state_q == Send && m_eth.tready;
  assign word          = advance ? word_q + 1'b1 : word_q;
  assign at            = {word_q[11:0], 3'd0};
  assign next_at       = at + 15'd8;
  assign last          = next_at >= frame_end_q && next_at >= Minimum;
  // Its payload stays in its bank, while the other one is filled.
  assign sheet_ready_o = state_q == Idle;
  assign rd_bank_o     = bank_q;
  // Payload begins in the word in which the header ends.
  assign rd_word_o     = WordW'((state_q == Send ? word : '0) - 13'(header_end_q[14:3]));

  always_comb begin
    header_word = '0;
    for (int unsigned i = 0; i < HeaderWords * 8; i++) begin
      if (i < HeaderBytes && word_q == 13'(i / 8)) header_word[8*(i%8)+:8] = bytes_q[i];
    end
    for (int unsigned i = 0; i < 8; i++) begin
      out[8*i+:8] = at + 15'(i) < header_end_q ? header_word[8*i+:8] :
          at + 15'(i) < frame_end_q ? rd_data_i[8*i+:8] : 8'd0;
      m_eth.tkeep[i] = at + 15'(i) < frame_end_q || at + 15'(i) < Minimum;
    end
  end
  assign m_eth.tdata  = out;
  assign m_eth.tvalid = state_q == Send;
  assign m_eth.tlast  = last;
  assign m_eth.tuser  = '0;
endmodule
