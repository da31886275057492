// SPDX-License-Identifier: Apache-2.0
// FIFO across two clocks in block RAM, for the beats of frames that wait for their verdict.
//
// Latency   : a word written at a writer edge is on rdata_o right after the third reader edge that
//             follows; words behind it follow one a cycle.
// Clock     : wclk_i (wrst_i), rclk_i (rrst_i), unrelated or the same; both resets must overlap.
// Handshake : the writer can't wait and must know that there is room. Read: valid/ready.
// Drops     : never; a word without room is an error of the user's reckoning, asserted.
// Source    : common practice, Gray-coded pointers as async_fifo has them.
module beat_fifo #(
  /// Type of a word.
  parameter type data_t = fibnic_pkg::beat_t,
  /// Words; a power of two from 4.
  parameter int unsigned Depth = 64,
  localparam int unsigned AddrW = $clog2(Depth)
) (
  input  logic  wclk_i,
  input  logic  wrst_i,
  input  logic  wvalid_i,
  input  data_t wdata_i,
  /// Words are on their way; clocked by wclk_i, never low too early.
  output logic  wbusy_o,
  input  logic  rclk_i,
  input  logic  rrst_i,
  output logic  rvalid_o,
  output data_t rdata_o,
  input  logic  rready_i
);
  function automatic logic [AddrW:0] to_gray(logic [AddrW:0] bin);
    return bin ^ (bin >> 1);
  endfunction

  logic [AddrW:0] wptr_q, wptr_d, wgray_q, wgray_sync;
  logic [AddrW:0] rptr_q, rptr_d, rgray_q, rgray_sync;
  logic load, valid_q;

  assign wptr_d = wptr_q + (AddrW + 1)'(wvalid_i);

  always_ff @(posedge wclk_i) begin
    if (wrst_i) begin
      wptr_q  <= '0;
      wgray_q <= '0;
    end else begin
      wptr_q  <= wptr_d;
      wgray_q <= to_gray(wptr_d);
    end
  end

  assign wbusy_o  = wgray_q != rgray_sync;

  assign load     = rgray_q != wgray_sync && (!valid_q || rready_i);
  assign rptr_d   = rptr_q + (AddrW + 1)'(load);
  assign rvalid_o = valid_q;

  always_ff @(posedge rclk_i) begin
    if (rrst_i) begin
      rptr_q  <= '0;
      rgray_q <= '0;
      valid_q <= 1'b0;
    end else begin
      rptr_q  <= rptr_d;
      rgray_q <= to_gray(rptr_d);
      valid_q <= load || (valid_q && !rready_i);
    end
  end

  ram_2clk #(
    .data_t  (data_t),
    .Depth   (Depth),
    .InitZero(1'b0)
  ) u_ram (
    .wclk_i,
    .we_i   (wvalid_i),
    .waddr_i(wptr_q[AddrW-1:0]),
    .wdata_i,
    .rclk_i,
    .re_i   (load),
    .raddr_i(rptr_q[AddrW-1:0]),
    .rdata_o
  );

  sync_ff #(
    .Width(AddrW + 1)
  ) u_sync_wptr (
    .clk_i(rclk_i),
    .d_i  (wgray_q),
    .q_o  (wgray_sync)
  );

  sync_ff #(
    .Width(AddrW + 1)
  ) u_sync_rptr (
    .clk_i(wclk_i),
    .d_i  (rgray_q),
    .q_o  (rgray_sync)
  );

`ifndef SYNTHESIS
  initial begin
    assert (Depth >= 4 && (Depth & (Depth - 1)) == 0)
    else $fatal(1, "beat_fifo needs a power of two of words, four or more");
  end
  always_ff @(posedge wclk_i) begin
    if (!wrst_i && !rrst_i) begin
      a_room :
      assert (!wvalid_i || wgray_q != {~rgray_sync[AddrW:AddrW-1], rgray_sync[AddrW-2:0]})
      else $error("a beat found no room");
    end
  end
`endif
endmodule
