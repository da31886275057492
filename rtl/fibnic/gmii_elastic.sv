// SPDX-License-Identifier: Apache-2.0
// Brings the bytes of a GMII receiver to the core's clock, which is up to 200 ppm off on either side.
//
// Only the bytes of frames cross, and a mark behind each frame; between frames there is nothing to
// keep up with, so the gaps are what stretches and shrinks. A core that is faster finds, once in
// thousands of bytes, no byte in a cycle: then valid_o is low. A core that is slower falls behind
// by up to 4 bytes in the longest frame and catches up in the gap, of which all cycles but one are
// free.
//
// Latency   : a byte on the pins in cycle 0 is on rxd_o in cycle 3 with equal clocks; 2 to 3 cycles
//             later by the phase of the clocks, and up to 4 more towards the end of a long frame if
//             the core is slower. Without AsyncRx: 1 cycle.
// Clock     : clk_rx_i for the pins, clk_i for the rest. rst_rx_i and rst_i must overlap.
// Handshake : valid_o low: no byte in this cycle, look at nothing. It is low inside of frames only, and
//             not twice within any 2,000 bytes (400 ppm, and a jitter of less than a cycle): a header
//             sees one such cycle at most.
// Drops     : bytes that find no room, which are behind the longest frame only; the rest of that
//             frame is marked with rx_er_o. The mark behind a frame always crosses.
// Source    : IEEE 802.3 clause 35; dissertation section 5.2.3: the asynchronous FIFO is part of the delay.
module gmii_elastic #(
  /// Longest good frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Receive clock unrelated to the core clock; without it clk_rx_i must be clk_i.
  parameter bit AsyncRx = 1'b1
) (
  input  logic       clk_rx_i,
  input  logic       rst_rx_i,
  input  logic [7:0] gmii_rxd_i,
  input  logic       gmii_rx_dv_i,
  input  logic       gmii_rx_er_i,
  input  logic       clk_i,
  input  logic       rst_i,
  output logic       valid_o,
  output logic [7:0] rxd_o,
  output logic       rx_dv_o,
  output logic       rx_er_o,
  /// A frame is in here. Mixes both clocks: for simulators that skip idle time.
  output logic       busy_o
);
  typedef struct packed {
    logic       dv;
    logic       er;
    logic [7:0] data;
  } symbol_t;

  if (AsyncRx) begin : gen_async
    // On its way through the FIFO are 5 bytes at most; a core that is 400 ppm slower adds 4.
    localparam int unsigned Depth = 16;
    // A mark that was just written is seen by then.
    localparam int unsigned LingerCycles = 4;

    symbol_t put, got;
    logic put_valid, put_ready, got_valid;
    logic dv_q;  // the cycle before belonged to a frame
    logic end_q, want_end;  // the mark behind a frame waits for room
    logic                    lost_q;  // a byte of this frame found no room
    logic                    inside_q;  // the last symbol read was a frame's
    logic [LingerCycles-1:0] linger_q;

    assign want_end  = end_q || (dv_q && !gmii_rx_dv_i);
    assign put_valid = want_end || gmii_rx_dv_i;

    always_comb begin
      put = '{dv: 1'b1, er: gmii_rx_er_i || lost_q, data: gmii_rxd_i};
      if (want_end) put = '0;
    end

    always_ff @(posedge clk_rx_i) begin
      if (rst_rx_i) begin
        dv_q     <= 1'b0;
        end_q    <= 1'b0;
        lost_q   <= 1'b0;
        linger_q <= '0;
      end else begin
        dv_q     <= gmii_rx_dv_i;
        end_q    <= want_end && !put_ready;
        // A frame that begins before the mark has crossed loses its preamble, which does no harm.
        lost_q   <= !want_end && (lost_q || (gmii_rx_dv_i && !put_ready));
        linger_q <= {linger_q[LingerCycles-2:0], put_valid};
      end
    end

    async_fifo #(
      .data_t(symbol_t),
      .Depth (Depth)
    ) u_fifo (
      .wclk_i  (clk_rx_i),
      .wrst_i  (rst_rx_i),
      .wdata_i (put),
      .wvalid_i(put_valid),
      .wready_o(put_ready),
      .wcount_o(),
      .rclk_i  (clk_i),
      .rrst_i  (rst_i),
      .rdata_o (got),
      .rvalid_o(got_valid),
      .rready_i(1'b1)
    );

    always_ff @(posedge clk_i) begin
      if (rst_i) inside_q <= 1'b0;
      else if (got_valid) inside_q <= got.dv;
    end

    assign valid_o = got_valid || !inside_q;
    assign rxd_o   = got.data;
    assign rx_dv_o = got_valid && got.dv;
    assign rx_er_o = got_valid && got.er;
    assign busy_o  = |linger_q || got_valid || inside_q;

`ifndef SYNTHESIS
    localparam int unsigned PreambleBytes = 8;
    int unsigned bytes_q;
    always_ff @(posedge clk_rx_i) begin
      bytes_q <= gmii_rx_dv_i ? bytes_q + 1 : 0;
      if (!rst_rx_i && put_valid) begin
        a_room :
        assert (put_ready || bytes_q > MaxFrame + PreambleBytes)
        else $error("a byte of a frame found no room");
      end
    end
`endif
  end else begin : gen_sync
    symbol_t pins_q;
    logic    unused_clk;

    assign unused_clk = clk_rx_i && rst_rx_i;

    always_ff @(posedge clk_i) begin
      if (rst_i) pins_q <= '0;
      else pins_q <= '{dv: gmii_rx_dv_i, er: gmii_rx_er_i, data: gmii_rxd_i};
    end

    assign valid_o = 1'b1;
    assign rxd_o   = pins_q.data;
    assign rx_dv_o = pins_q.dv;
    assign rx_er_o = pins_q.er;
    assign busy_o  = pins_q.dv;
  end
endmodule
