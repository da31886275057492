// SPDX-License-Identifier: Apache-2.0
// Words 1 to 4 of a frame: source MAC address to UDP checksum, with the lengths and the IP header's
// checksum.
//
// Latency   : next_o is combinational from word_i: the word behind the one on the stream.
// Clock     : clk_i (network).
// Handshake : word_i counts up at an edge with step_i. payload_bytes_i is looked at with word 0,
//             the destination with words 1 to 3, the source port with word 3.
// Drops     : never.
// Source    : RFC 791, RFC 768; docs/wire-format.md.
module frame_header
  import wire_pkg::*;
(
  input  logic        clk_i,
  input  logic        step_i,
  input  logic [ 5:0] word_i,
  /// Bytes 2 to 5 of the source MAC address.
  input  logic [31:0] mac_i,
  input  logic [31:0] ip_i,
  input  logic [31:0] dst_ip_i,
  input  logic [15:0] src_port_i,
  /// What follows the UDP header.
  input  logic [ 9:0] payload_bytes_i,
  /// Word word_i + 1 of the frame, for word_i 0 to 3; 0 otherwise.
  output logic [63:0] next_o
);
  // Sum of the IP header's constant parts: version, flags, TTL and protocol.
  localparam logic [18:0] SumConstant = 19'h4500 + 19'h4000 + 19'h4011;

  logic [15:0] ip_bytes_q, udp_bytes_q;
  logic [18:0] own_q;  // what is the same in every frame's sum
  logic [18:0] sum_q;
  logic [16:0] sum_folded;
  logic [15:0] checksum;

  assign sum_folded = {1'b0, sum_q[15:0]} + 17'(sum_q[18:16]);
  assign checksum   = ~(sum_folded[15:0] + 16'(sum_folded[16]));

  always_ff @(posedge clk_i) begin
    own_q <= SumConstant + 19'(ip_i[31:16]) + 19'(ip_i[15:0]);
    if (step_i && word_i == 6'd0) begin
      ip_bytes_q  <= 16'(payload_bytes_i) + 16'd28;
      udp_bytes_q <= 16'(payload_bytes_i) + 16'd8;
    end
    if (step_i && word_i == 6'd1) begin
      sum_q <= own_q + 19'(ip_bytes_q) + 19'(dst_ip_i[31:16]) + 19'(dst_ip_i[15:0]);
    end
  end

  always_comb begin
    unique case (word_i)
      6'd0:
      next_o = {8'h00, 8'h45, 8'h00, 8'h08, mac_i[7:0], mac_i[15:8], mac_i[23:16], mac_i[31:24]};
      6'd1: next_o = {8'd17, 8'd64, 8'h00, 8'h40, 16'd0, ip_bytes_q[7:0], ip_bytes_q[15:8]};
      6'd2:
      next_o = {
        dst_ip_i[23:16],
        dst_ip_i[31:24],
        ip_i[7:0],
        ip_i[15:8],
        ip_i[23:16],
        ip_i[31:24],
        checksum[7:0],
        checksum[15:8]
      };
      6'd3:
      next_o = {
        udp_bytes_q[7:0],
        udp_bytes_q[15:8],
        UDP_PORT[7:0],
        UDP_PORT[15:8],
        src_port_i[7:0],
        src_port_i[15:8],
        dst_ip_i[7:0],
        dst_ip_i[15:8]
      };
      default: next_o = '0;
    endcase
  end
endmodule
