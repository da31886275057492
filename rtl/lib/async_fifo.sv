// SPDX-License-Identifier: Apache-2.0
// FIFO across two unrelated clocks; the first word falls through.
//
// Latency   : a word written at a writer edge is usable, combinationally, right after the second
//             reader edge that follows (SyncStages edges in general): rvalid_o compares the
//             synchronised write pointer.
// Clock     : wclk_i (wrst_i), rclk_i (rrst_i); both resets must overlap.
// Handshake : valid/ready on both sides. A slot freed is writable after SyncStages writer edges.
// Drops     : never.
// Source    : common practice, Gray-coded pointers; storage is registers or distributed RAM, read
//             asynchronously: a word is stable long before its pointer arrives.
module async_fifo #(
  /// Type of a word.
  parameter type data_t = logic [63:0],
  /// Words; a power of two from 4.
  parameter int unsigned Depth = 8,
  /// Flip-flops that synchronise a pointer.
  parameter int unsigned SyncStages = 2,
  localparam int unsigned AddrW = $clog2(Depth)
) (
  input  logic            wclk_i,
  input  logic            wrst_i,
  input  data_t           wdata_i,
  input  logic            wvalid_i,
  output logic            wready_o,
  /// Words held as the writer knows it: never less than the truth.
  output logic  [AddrW:0] wcount_o,
  input  logic            rclk_i,
  input  logic            rrst_i,
  output data_t           rdata_o,
  output logic            rvalid_o,
  input  logic            rready_i
);
  function automatic logic [AddrW:0] to_gray(logic [AddrW:0] bin);
    return bin ^ (bin >> 1);
  endfunction

  function automatic logic [AddrW:0] from_gray(logic [AddrW:0] gray);
    for (int unsigned i = 0; i <= AddrW; i++) from_gray[i] = ^(gray >> i);
  endfunction

  data_t mem_q[Depth];
  logic [AddrW:0] wptr_q, wgray_q, wgray_sync;
  logic [AddrW:0] rptr_q, rgray_q, rgray_sync;
  logic [AddrW:0] wptr_d, rptr_d;
  logic push, pop;

  assign wcount_o = wptr_q - from_gray(rgray_sync);
  // Full: the Gray codes differ in the two top bits only.
  assign wready_o = wgray_q != {~rgray_sync[AddrW:AddrW-1], rgray_sync[AddrW-2:0]};
  assign push     = wvalid_i && wready_o;
  assign wptr_d   = wptr_q + (AddrW + 1)'(push);

  always_ff @(posedge wclk_i) begin
    if (push) mem_q[wptr_q[AddrW-1:0]] <= wdata_i;
  end

  always_ff @(posedge wclk_i) begin
    if (wrst_i) begin
      wptr_q  <= '0;
      wgray_q <= '0;
    end else begin
      wptr_q  <= wptr_d;
      wgray_q <= to_gray(wptr_d);
    end
  end

  assign rvalid_o = rgray_q != wgray_sync;
  assign rdata_o  = mem_q[rptr_q[AddrW-1:0]];
  assign pop      = rready_i && rvalid_o;
  assign rptr_d   = rptr_q + (AddrW + 1)'(pop);

  always_ff @(posedge rclk_i) begin
    if (rrst_i) begin
      rptr_q  <= '0;
      rgray_q <= '0;
    end else begin
      rptr_q  <= rptr_d;
      rgray_q <= to_gray(rptr_d);
    end
  end

  sync_ff #(
    .Width (AddrW + 1),
    .Stages(SyncStages)
  ) u_sync_wptr (
    .clk_i(rclk_i),
    .d_i  (wgray_q),
    .q_o  (wgray_sync)
  );

  sync_ff #(
    .Width (AddrW + 1),
    .Stages(SyncStages)
  ) u_sync_rptr (
    .clk_i(wclk_i),
    .d_i  (rgray_q),
    .q_o  (rgray_sync)
  );

`ifndef SYNTHESIS
  initial
    assert (Depth >= 4 && (Depth & (Depth - 1)) == 0)
    else $fatal(1, "async_fifo needs a power of two of words, four or more");
`endif
endmodule
