// SPDX-License-Identifier: Apache-2.0
// The engine's writes into a buffer, each byte in its lane, and word of each part that makes a TLP; events between
// them, behind the writes that they tell of.
//
// Latency   : a beat to its word 1 edge; the last one of a TLP to chunk_valid_o none.
// Clock     : clk_i (network).
// Handshake : valid/ready as the engine has them. Words of the buffer are free with freed_valid_i.
// Drops     : never. Events that find one waiting are one.
module uzura_write_stage
  import uzura_nic_pkg::*;
#(
  /// Words of 8 bytes of the buffer; a power of two, 64 or more.
  parameter int unsigned Words = 1024,
  localparam int unsigned WordW = $clog2(Words)
) (
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic   [      63:0] wr_addr_i,
  input  logic   [      12:0] wr_bytes_i,
  input  logic                wr_valid_i,
  output logic                wr_ready_o,
  input  logic   [      63:0] data_i,
  input  logic                data_last_i,
  input  logic                data_valid_i,
  output logic                data_ready_o,
  input  logic                event_i,
  /// TLPs of all writes taken until now.
  output logic   [OrderW-1:0] order_o,
  output logic                we_o,
  output logic   [ WordW-1:0] waddr_o,
  output logic   [      63:0] wdata_o,
  output chunk_t              chunk_o,
  output logic                chunk_valid_o,
  input  logic                chunk_ready_i,
  /// The first word that is still in use.
  input  logic   [ WordW-1:0] freed_word_i,
  input  logic                freed_valid_i,
  output logic                busy_o
);
  logic [WordW:0] write_q, read_q;
  logic [WordW-1:0] freed;
  logic [63:0] addr_q, start_q, carry_q;  // the next word's, the next TLP's, the beat before
  logic [9:0] words_q;  // to come
  logic [2:0] off_q, end_q;  // of the first byte; behind the last one
  logic [WordW-1:0] start_word_q;
  logic active_q, drained_q, event_q, room, step, ends, cut;
  logic [12:0] span, tlps;
  logic [127:0] shifted;

  assign wr_ready_o   = !active_q;
  assign span         = 13'(wr_addr_i[2:0]) + wr_bytes_i;
  assign tlps         = (13'(wr_addr_i[6:0]) + wr_bytes_i + 13'd127) >> 7;
  assign room         = write_q - read_q != {1'b1, {WordW{1'b0}}};
  assign ends         = words_q == 10'd1;
  assign cut          = ends || addr_q[6:3] == '1;
  assign step         = active_q && room && (!cut || chunk_ready_i) && (drained_q || data_valid_i);
  assign data_ready_o = active_q && room && (!cut || chunk_ready_i) && !drained_q;
  assign shifted      = {data_i, carry_q} << {off_q, 3'd0};
  assign we_o         = step;
  assign waddr_o      = write_q[WordW-1:0];
  assign wdata_o      = shifted[127:64];

  // Bytes of the TLP: to the end of the word, or of the write.
  logic [7:0] bytes;
  assign bytes = 8'(addr_q[6:0]) + (ends && end_q != '0 ? {5'd0, end_q} : 8'd8) - 8'(start_q[6:0]);
  always_comb begin
    chunk_o       = '{is_event: 1'b0, addr: start_q, bytes: bytes, word: 16'(start_word_q)};
    chunk_valid_o = step && cut;
    if (!active_q) begin
      chunk_o       = '{is_event: 1'b1, default: '0};
      chunk_valid_o = event_q;
    end
  end

  assign freed = freed_word_i - read_q[WordW-1:0];
  always_ff @(posedge clk_i) begin
    if (wr_valid_i && wr_ready_o) begin
      addr_q       <= {wr_addr_i[63:3], 3'd0};
      start_q      <= wr_addr_i;
      start_word_q <= write_q[WordW-1:0];
      off_q        <= wr_addr_i[2:0];
      end_q        <= span[2:0];
      words_q      <= 10'((span + 13'd7) >> 3);
      carry_q      <= '0;
    end else if (step) begin
      addr_q  <= addr_q + 64'd8;
      words_q <= words_q - 1'b1;
      carry_q <= data_i;
      if (cut) begin
        start_q      <= addr_q + 64'd8;
        start_word_q <= write_q[WordW-1:0] + 1'b1;
      end
    end
    if (rst_i) begin
      active_q  <= 1'b0;
      drained_q <= 1'b0;
      event_q   <= 1'b0;
      write_q   <= '0;
      read_q    <= '0;
      order_o   <= '0;
    end else begin
      if (wr_valid_i && wr_ready_o) begin
        active_q  <= 1'b1;
        drained_q <= 1'b0;
        order_o   <= order_o + OrderW'(tlps);
      end else if (step) begin
        active_q  <= !ends;
        drained_q <= drained_q || data_last_i;
      end
      if (event_i) event_q <= 1'b1;
      else if (!active_q && chunk_ready_i) event_q <= 1'b0;
      write_q <= write_q + (WordW + 1)'(step);
      if (freed_valid_i) read_q <= read_q + (WordW + 1)'(freed);
    end
  end
  assign busy_o = active_q || event_q || event_i;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      wr_valid_i |-> wr_bytes_i != '0 && 14'(wr_addr_i[11:0]) + 14'(wr_bytes_i) <= 14'd4096)
  else $error("uzura_write_stage: a write of nothing, or across 4 KB");
  assert property (@(posedge clk_i) disable iff (rst_i) step && ends |-> drained_q || data_last_i)
  else $error("uzura_write_stage: a write has more data than it said");
  assert property (@(posedge clk_i) disable iff (rst_i) step && drained_q |-> ends)
  else $error("uzura_write_stage: a write has less data than it said");
`endif
  logic unused;
  assign unused = ^shifted[63:0];
endmodule
