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
// Clock     : clk_rx_i for the pins, clk_i for the rest.
// Reset     : rst_rx_i and rst_i need not overlap, see port_reset. A reset of the receive side, or a receive
//             clock that stops, ends the frame under way with an error; the rest of it is not a frame.
// Handshake : valid_o low: no byte in this cycle, look at nothing. It is low inside of frames only, and
//             not twice within any 2,000 bytes (400 ppm, and a jitter of less than a cycle): a header
//             sees one such cycle at most.
// Drops     : bytes that find no room, which are behind the longest frame only; the rest of that
//             frame is marked with rx_er_o. The mark behind a frame always crosses. What comes from rst_rx_i
//             on until the port has been cleared.
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

  symbol_t now;
  logic down, clear_rx;
  logic armed_q;  // the pins were idle after a reset: what comes is no rest of a frame
  logic dv_q;  // the cycle before belonged to a frame
  logic closed_q;  // a reset ended it

  // A reset in a frame puts an error where the next byte would be, and then nothing.
  always_comb begin
    now.dv   = gmii_rx_dv_i && armed_q;
    now.er   = gmii_rx_er_i;
    now.data = gmii_rxd_i;
    if (down) begin
      now.dv = dv_q && !closed_q;
      now.er = 1'b1;
    end
  end

  always_ff @(posedge clk_rx_i) begin
    if (clear_rx) begin
      armed_q  <= 1'b0;
      dv_q     <= 1'b0;
      closed_q <= 1'b0;
    end else begin
      armed_q  <= !down && (armed_q || !gmii_rx_dv_i);
      dv_q     <= now.dv;
      closed_q <= down;
    end
  end

  if (AsyncRx) begin : gen_async
    // On its way through the FIFO are 5 bytes at most; a core that is 400 ppm slower adds 4.
    localparam int unsigned Depth = 16;
    // A mark that was just written is seen by then.
    localparam int unsigned LingerCycles = 4;

    // The receive clock misses no more cycles in a row, or it has stopped.
    localparam int unsigned MissedCycles = 1;

    symbol_t put, got, out;
    logic put_valid, put_ready, held, got_valid;
    logic clear, reset_busy, idle;
    logic end_q, want_end;  // the mark behind a frame waits for room
    logic                    lost_q;  // a byte of this frame found no room
    logic                    inside_q;  // the last symbol out was a frame's
    logic [MissedCycles-1:0] missed_q;  // so many cycles in a row
    logic stopped, cut_q;  // a stopped clock has cut a frame; the rest of it may come yet
    logic [LingerCycles-1:0] linger_q;

    port_reset u_reset (
      .clk_rx_i,
      .rst_rx_i,
      .down_o  (down),
      .rst_rx_o(clear_rx),
      .clk_i,
      .rst_i,
      .rst_o   (clear),
      .idle_i  (idle),
      .open_i  (inside_q),
      .busy_o  (reset_busy)
    );

    assign want_end  = end_q || (dv_q && !now.dv);
    assign put_valid = want_end || now.dv;

    always_comb begin
      put = '{dv: 1'b1, er: now.er || lost_q, data: now.data};
      if (want_end) put = '0;
    end

    always_ff @(posedge clk_rx_i) begin
      if (clear_rx) begin
        end_q    <= 1'b0;
        lost_q   <= 1'b0;
        linger_q <= '0;
      end else begin
        end_q    <= want_end && !put_ready;
        // A frame that begins before the mark has crossed loses its preamble, which does no harm.
        lost_q   <= !want_end && (lost_q || (now.dv && !put_ready));
        linger_q <= {linger_q[LingerCycles-2:0], put_valid};
      end
    end

    async_fifo #(
      .data_t(symbol_t),
      .Depth (Depth)
    ) u_fifo (
      .wclk_i  (clk_rx_i),
      .wrst_i  (clear_rx),
      .wdata_i (put),
      .wvalid_i(put_valid),
      .wready_o(put_ready),
      .wcount_o(),
      .rclk_i  (clk_i),
      .rrst_i  (clear),
      .rdata_o (got),
      .rvalid_o(held),
      .rready_i(1'b1)
    );

    // Until the receive side is cleared, too, its pointer is that of old symbols.
    assign got_valid = held && !clear;
    assign stopped   = inside_q && !got_valid && !cut_q && &missed_q;

    always_comb begin
      out.dv   = got_valid && got.dv && !cut_q;
      out.er   = got_valid && got.er && !cut_q;
      out.data = got.data;
      if (stopped) begin
        out.dv = 1'b1;
        out.er = 1'b1;
      end
    end

    always_ff @(posedge clk_i) begin
      if (clear) begin
        inside_q <= 1'b0;
        missed_q <= '0;
        cut_q    <= 1'b0;
      end else begin
        if (valid_o) inside_q <= out.dv;
        missed_q <= inside_q && !got_valid ? MissedCycles'({missed_q, 1'b1}) : '0;
        cut_q    <= stopped || (cut_q && !(got_valid && !got.dv));
      end
    end

    // A frame that was cut ends in the cycle behind the error.
    assign valid_o = got_valid || !inside_q || stopped || cut_q;
    assign rxd_o   = out.data;
    assign rx_dv_o = out.dv;
    assign rx_er_o = out.er;
    assign idle    = !got_valid && !inside_q && !cut_q;
    assign busy_o  = |linger_q || got_valid || inside_q || reset_busy;

`ifndef SYNTHESIS
    localparam int unsigned PreambleBytes = 8;
    int unsigned bytes_q;
    always_ff @(posedge clk_rx_i) begin
      bytes_q <= now.dv ? bytes_q + 1 : 0;
      if (!clear_rx && !clear && put_valid) begin
        a_room :
        assert (put_ready || bytes_q > MaxFrame + PreambleBytes)
        else $error("a byte of a frame found no room");
      end
    end
`endif
  end else begin : gen_sync
    symbol_t pins_q;
    logic    down_q;

    assign clear_rx = rst_i;
    assign down     = down_q;

    always_ff @(posedge clk_i) begin
      down_q <= rst_rx_i;
      if (rst_i) pins_q <= '0;
      else pins_q <= '{dv: now.dv, er: now.er, data: now.data};
    end

    assign valid_o = 1'b1;
    assign rxd_o   = pins_q.data;
    assign rx_dv_o = pins_q.dv;
    assign rx_er_o = pins_q.er;
    assign busy_o  = pins_q.dv;
  end
endmodule
