// SPDX-License-Identifier: Apache-2.0
// 1G Ethernet receiver, MAC layer: GMII in, 64-bit frames with a verdict out, nothing buffered.
//
// The stream is that of xgmii_rx: from the destination MAC to the FCS, inclusive; with tlast,
// tuser[0] means bad: FCS wrong, RX_ER inside, shorter than 64 bytes, longer than MaxFrame (cut at
// the byte that exceeds it). A preamble may be shortened by the PHY, down to the start frame
// delimiter alone. Lanes without tkeep are zero.
//
// Latency   : a full word is on m_axis for one cycle, right after the edge that sampled its 8th
//             byte; tlast looks ahead, combinationally, to RX_DV low on the pins. A partial last
//             word is on m_axis right after the edge that sampled the last byte, while RX_DV is low
//             on the pins. The verdict is combinational with tlast. stat_o: 1 edge after tlast.
// Clock     : clk_i, 125 MHz; where en_i is low the pins are not looked at, and nothing comes out but
//             a pulse of stat_o that is due.
// Handshake : m_axis can't wait; tready must be 1.
// Drops     : frames with a bad preamble, and frames without a byte behind it; all counted.
// Source    : IEEE 802.3 clauses 3, 4 and 35.
module gmii_rx #(
  /// Longest good frame with FCS, bytes.
  parameter int unsigned MaxFrame = 1518
) (
  input  logic                    clk_i,
  input  logic                    rst_i,
  /// Clock enable, for a source that does not have a byte in every cycle.
  input  logic                    en_i = 1'b1,
  input  logic              [7:0] gmii_rxd_i,
  input  logic                    gmii_rx_dv_i,
  input  logic                    gmii_rx_er_i,
         axis_if.src              m_axis,
  /// Pulses, one per frame that started.
  output eth_pkg::rx_stat_t       stat_o,
  /// Work left even if the pins stay idle.
  output logic                    busy_o
);
  import crc_pkg::*;
  import eth_pkg::*;

  localparam int unsigned LenW = $clog2(MaxFrame + 2);

  typedef enum logic [1:0] {
    Idle,
    Preface,  // preamble seen, no start frame delimiter yet
    Data,
    Skip      // rest of a frame that was cut or never entered
  } state_e;

  state_e state_q, state_d;
  logic [    63:0] word_q;
  logic [     3:0] count_q;  // bytes of word_q
  logic [LenW-1:0] len_q;  // bytes of the frame
  logic            err_q;  // RX_ER seen in the frame
  logic [    31:0] crc_q;
  logic take, valid, last, giant, runt, fcs_ok;
  rx_stat_t stat_q, stat_d;

  assign giant  = len_q == LenW'(MaxFrame + 1);
  assign runt   = len_q < LenW'(MinFrame);
  assign fcs_ok = crc_q == CRC32_ETH_RESIDUE[0];
  assign last   = !gmii_rx_dv_i || giant;
  assign valid  = en_i && state_q == Data && (count_q == 4'd8 || (count_q != '0 && last));
  assign take   = state_q == Data && gmii_rx_dv_i && !giant;

  always_comb begin
    state_d = state_q;
    stat_d  = '0;
    unique case (state_q)
      Idle, Preface: begin
        if (!gmii_rx_dv_i) begin
          state_d             = Idle;
          stat_d.bad_preamble = state_q == Preface;
        end else if (gmii_rx_er_i || (gmii_rxd_i != Preamble && gmii_rxd_i != Sfd)) begin
          state_d             = Skip;
          stat_d.bad_preamble = 1'b1;
        end else begin
          state_d = gmii_rxd_i == Sfd ? Data : Preface;
        end
      end
      Data: begin
        if (last) begin
          state_d = gmii_rx_dv_i ? Skip : Idle;
          if (err_q) stat_d.error = 1'b1;
          else if (giant) stat_d.giant = 1'b1;
          else if (runt) stat_d.runt = 1'b1;
          else if (!fcs_ok) stat_d.bad_fcs = 1'b1;
          else stat_d.good = 1'b1;
        end
      end
      Skip: if (!gmii_rx_dv_i) state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (en_i && take) begin
      if (count_q == 4'd8 || count_q == '0) word_q <= {56'd0, gmii_rxd_i};
      else word_q[8*count_q[2:0]+:8] <= gmii_rxd_i;
    end
    if (state_q != Data) begin
      count_q <= '0;
      len_q   <= '0;
      err_q   <= 1'b0;
      crc_q   <= CRC32_ETH_INIT;
    end else if (en_i && take) begin
      count_q <= count_q == 4'd8 ? 4'd1 : count_q + 1'b1;
      len_q   <= len_q + 1'b1;
      err_q   <= err_q || gmii_rx_er_i;
      crc_q   <= crc32_eth_next8(crc_q, gmii_rxd_i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= Idle;
      stat_q  <= '0;
    end else begin
      if (en_i) state_q <= state_d;
      stat_q <= en_i ? stat_d : '0;
    end
  end

  assign m_axis.tdata    = word_q;
  assign m_axis.tkeep    = bytes_keep(count_q);
  assign m_axis.tvalid   = valid;
  assign m_axis.tlast    = last;
  assign m_axis.tuser[0] = err_q || giant || runt || !fcs_ok;

  assign stat_o          = stat_q;
  assign busy_o          = state_q != Idle || |stat_q;

`ifndef SYNTHESIS
  initial begin
    assert (m_axis.DataW == 64 && m_axis.UserW == 1)
    else $fatal(1, "gmii_rx: stream is not 64 + 1");
    assert (MaxFrame >= 64)
    else $fatal(1, "gmii_rx: MaxFrame below 64");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && valid) begin
      a_ready :
      assert (m_axis.tready)
      else $error("the receive stream can't wait");
    end
  end
`endif
endmodule
