// SPDX-License-Identifier: Apache-2.0
// 1G Ethernet transmitter, MAC layer: 64-bit frames in without FCS, GMII out, one word of buffer.
//
// Adds the preamble, pads to 60 bytes, appends the FCS and keeps a gap of 12 bytes. tuser[0] with
// tlast spoils the frame: FCS inverted, with TX_ER.
//
// Latency   : start_i to the first preamble byte in the output register: 1 edge. A word is taken in
//             the cycle in which its first byte goes to the output register: first byte to GMII 1
//             edge after its tready, 9 edges after start_i.
// Clock     : clk_i, 125 MHz.
// Handshake : start_i with ready_start_o promises the first beat from the next cycle on, and each
//             further beat by the next cycle with tready: 1 of 8 cycles, first in the 8th after
//             start_i. The source never stalls. start_i without ready_start_o is ignored;
//             ready_start_o waits for nothing.
// Drops     : a frame whose source stalls is ended with TX_ER, counted, and its remaining beats are
//             discarded.
// Source    : IEEE 802.3 clauses 3, 4 and 35.
module gmii_tx (
  input  logic                    clk_i,
  input  logic                    rst_i,
  /// A frame will be offered: its first beat in the next cycle.
  input  logic                    start_i,
  output logic                    ready_start_o,
         axis_if.snk              s_axis,
  output logic              [7:0] gmii_txd_o,
  output logic                    gmii_tx_en_o,
  output logic                    gmii_tx_er_o,
  /// Pulses, one per frame that started.
  output eth_pkg::tx_stat_t       stat_o,
  /// Work left even if no frame is offered.
  output logic                    busy_o
);
  import crc_pkg::*;
  import eth_pkg::*;

  // Bytes of the frame before the FCS, counted up to here only.
  localparam logic [5:0] MinBytes = 6'(MinFrame - 4);
  localparam logic [3:0] Gap = 4'd12;

  typedef enum logic [2:0] {
    Idle,      // ready to start
    Preface,   // preamble and start frame delimiter
    Data,
    Pad,
    Fcs,
    Interval,  // gap
    Drain      // the source stalled: wait for the end of its frame
  } state_e;

  state_e state_q, state_d;
  logic [3:0] count_q, count_d;  // cycles in this state; byte of the word in Data
  logic [5:0] len_q, len_d;  // bytes sent before the FCS, stays at MinBytes
  logic [55:0] rest_q;  // bytes of the word to come, low byte first
  logic [ 3:0] bytes_q;  // bytes of the word
  logic last_q, spoil_q;
  logic [3:0] bytes;
  logic last, first_byte, short_frame;
  logic [31:0] crc_q;
  logic [ 7:0] fcs_byte;
  logic [7:0] txd_q, txd_d;
  logic tx_en_q, tx_en_d, tx_er_q, tx_er_d;
  tx_stat_t stat_q, stat_d;

  assign ready_start_o = state_q == Idle;
  assign first_byte    = state_q == Data && count_q == '0;
  assign s_axis.tready = first_byte || state_q == Drain;
  assign bytes         = first_byte ? keep_bytes(s_axis.tkeep) : bytes_q;
  assign last          = first_byte ? s_axis.tlast : last_q;
  // After this byte the frame is still shorter than the minimum.
  assign short_frame   = len_q < MinBytes - 6'd1;
  assign fcs_byte      = crc_q[7:0];

  always_comb begin
    state_d = state_q;
    count_d = count_q + 1'b1;
    len_d   = len_q;
    txd_d   = '0;
    tx_en_d = 1'b0;
    tx_er_d = 1'b0;
    stat_d  = '0;
    unique case (state_q)
      Idle: begin
        count_d = '0;
        if (start_i) begin
          state_d = Preface;
          txd_d   = Preamble;
          tx_en_d = 1'b1;
        end
      end
      Preface: begin
        tx_en_d = 1'b1;
        txd_d   = count_q == 4'd6 ? Sfd : Preamble;
        len_d   = '0;
        if (count_q == 4'd6) begin
          state_d = Data;
          count_d = '0;
        end
      end
      Data: begin
        tx_en_d = 1'b1;
        if (len_q != MinBytes) len_d = len_q + 1'b1;
        if (first_byte && !s_axis.tvalid) begin
          tx_er_d         = 1'b1;
          stat_d.underrun = 1'b1;
          state_d         = Drain;
        end else begin
          txd_d = first_byte ? s_axis.tdata[7:0] : rest_q[7:0];
          if (count_q + 4'd1 == bytes) begin
            count_d = '0;
            if (last) state_d = short_frame ? Pad : Fcs;
          end
        end
      end
      Pad: begin
        tx_en_d = 1'b1;
        len_d   = len_q + 1'b1;
        count_d = '0;
        if (!short_frame) state_d = Fcs;
      end
      Fcs: begin
        tx_en_d = 1'b1;
        tx_er_d = spoil_q;
        txd_d   = spoil_q ? fcs_byte : ~fcs_byte;
        if (count_q == 4'd3) begin
          state_d        = Interval;
          count_d        = '0;
          stat_d.spoiled = spoil_q;
          stat_d.good    = !spoil_q;
        end
      end
      Interval: begin
        if (count_q == Gap - 4'd1) begin
          state_d = Idle;
          count_d = '0;
        end
      end
      Drain: begin
        count_d = '0;
        if (s_axis.tvalid && s_axis.tlast) state_d = Interval;
      end
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (first_byte) begin
      rest_q  <= s_axis.tdata[63:8];
      bytes_q <= bytes;
      last_q  <= s_axis.tlast;
      spoil_q <= s_axis.tuser[0];
    end else begin
      rest_q <= rest_q >> 8;
    end
    unique case (state_q)
      Data, Pad: crc_q <= crc32_eth_next8(crc_q, txd_d);
      Fcs:       crc_q <= crc_q >> 8;
      default:   crc_q <= CRC32_ETH_INIT;
    endcase
    txd_q <= txd_d;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= Idle;
      count_q <= '0;
      len_q   <= '0;
      tx_en_q <= 1'b0;
      tx_er_q <= 1'b0;
      stat_q  <= '0;
    end else begin
      state_q <= state_d;
      count_q <= count_d;
      len_q   <= len_d;
      tx_en_q <= tx_en_d;
      tx_er_q <= tx_er_d;
      stat_q  <= stat_d;
    end
  end

  assign gmii_txd_o   = txd_q;
  assign gmii_tx_en_o = tx_en_q;
  assign gmii_tx_er_o = tx_er_q;
  assign stat_o       = stat_q;
  assign busy_o       = state_q != Idle || tx_en_q || |stat_q;

`ifndef SYNTHESIS
  initial begin
    assert (s_axis.DataW == 64 && s_axis.UserW == 1)
    else $fatal(1, "gmii_tx: stream is not 64 + 1");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && first_byte && s_axis.tvalid) begin
      a_keep :
      assert (s_axis.tkeep[0] && (s_axis.tkeep & (s_axis.tkeep + 8'd1)) == '0)
      else $error("tkeep has a hole or no byte");
      a_full :
      assert (s_axis.tlast || s_axis.tkeep == '1)
      else $error("short beat inside a frame");
    end
  end
`endif
endmodule
