// SPDX-License-Identifier: Apache-2.0
// Keeps received packets until the engine has judged and placed them.
//
// Latency   : 1 edge from the parser's verdict to head_valid_o; 1 from an address to its word.
// Clock     : clk_i.
// Handshake : none towards the parser. take_i frees the packet at the head with its payload.
// Drops     : packets for which there is no room; counted.
module uzura_rx_buffer
  import uzura_pkg::*;
#(
  /// log2 of the payload's words; 2 packets of 4 KB at least.
  parameter int unsigned BufferW = 11,
  /// Packets.
  parameter int unsigned Packets = 32
) (
  input  logic                  clk_i,
  input  logic                  rst_i,
  input  logic    [       63:0] payload_i,
  input  logic                  payload_valid_i,
  input  packet_t               packet_i,
  input  logic                  packet_valid_i,
  input  logic                  drop_i,
  output packet_t               head_o,
  output logic                  head_valid_o,
  output logic    [BufferW-1:0] head_base_o,
  input  logic                  take_i,
  input  logic                  re_i,
  input  logic    [BufferW-1:0] raddr_i,
  output logic    [       63:0] rdata_o,
  output logic                  cnt_overflow_o,
  output logic                  busy_o
);
  logic [BufferW:0] write_q, commit_q, read_q;  // one bit more: full is not empty
  logic [BufferW:0] write_at, begin_at;
  logic full, lost_q, push, ready, verdict, kept;
  logic [$clog2(Packets+1)-1:0] held;

  assign full = write_q - read_q == {1'b1, {BufferW{1'b0}}};
  assign push = packet_valid_i && !lost_q;

  ram_1r1w #(
    .data_t(logic [63:0]),
    .Depth (1 << BufferW)
  ) u_ram (
    .clk_i,
    .we_i   (payload_valid_i && !full),
    .waddr_i(write_at[BufferW-1:0]),
    .wdata_i(payload_i),
    .re_i,
    .raddr_i,
    .rdata_o
  );

  sync_fifo #(
    .data_t(packet_t),
    .Depth (Packets)
  ) u_packets (
    .clk_i,
    .rst_i,
    .wdata_i (packet_i),
    .wvalid_i(push),
    .wready_o(ready),
    .rdata_o (head_o),
    .rvalid_o(head_valid_o),
    .rready_i(take_i),
    .count_o (held)
  );

  // A word that comes with a verdict is of the next packet.
  assign verdict        = packet_valid_i || drop_i;
  assign kept           = push && ready;
  assign begin_at       = kept ? write_q : commit_q;
  assign write_at       = verdict ? begin_at : write_q;
  assign head_base_o    = read_q[BufferW-1:0];
  assign cnt_overflow_o = packet_valid_i && !kept;
  assign busy_o         = head_valid_o || held != '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      write_q  <= '0;
      commit_q <= '0;
      read_q   <= '0;
      lost_q   <= 1'b0;
    end else begin
      write_q <= write_at + (BufferW + 1)'(payload_valid_i && !full);
      if (verdict) commit_q <= begin_at;
      lost_q <= (lost_q && !verdict) || (payload_valid_i && full);
      if (take_i) read_q <= read_q + (BufferW + 1)'((head_o.bytes + 13'd7) >> 3);
    end
  end
endmodule
