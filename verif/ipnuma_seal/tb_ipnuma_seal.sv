// SPDX-License-Identifier: Apache-2.0
// Bench top of seal and unseal: frames of the builder into seal, its transmitter behind it; a receive
// stream, or what that transmitter sends, through its receiver into unseal.
//
// Latency   : that of the parts. Clock: clk_i.
// Handshake : as in the parts. Drops: as in the parts.
// Source    : ours.
module tb_ipnuma_seal #(
  parameter int unsigned Sessions = 16,
  parameter bit Gmii = 1'b0,
  parameter bit Auth = 1'b1
) (
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic                key_tx_write_i,
  input  logic                key_rx_write_i,
  input  logic [         7:0] key_index_i,
  input  logic [       127:0] key_i,
  input  logic [        31:0] salt_i,
  input  logic                key_phase_i,
  // Builder.
  input  logic                fb_start_i,
  output logic                fb_ready_start_o,
  input  logic                fb_sealed_i,
  input  logic [         7:0] fb_session_i,
  input  logic [        15:0] fb_port_i,
  input  logic [        63:0] fb_tdata_i,
  input  logic [         7:0] fb_tkeep_i,
  input  logic                fb_tvalid_i,
  input  logic                fb_tlast_i,
  output logic                fb_tready_o,
  // The transmitter is taken by somebody else.
  input  logic                hold_i,
  // What seal gives the transmitter.
  output logic                tx_start_o,
  output logic                tx_ready_start_o,
  output logic [        63:0] tx_tdata_o,
  output logic [         7:0] tx_tkeep_o,
  output logic                tx_tvalid_o,
  output logic                tx_tlast_o,
  output logic                tx_tready_o,
  output logic                tx_underrun_o,
  output logic                cnt_no_key_o,
  // Into unseal: the transmitter's frames, or this stream.
  input  logic                loop_i,
  input  logic                enable_i,
  input  logic [        47:0] mac_i,
  input  logic [        31:0] ip_i,
  input  logic [Sessions-1:0] session_valid_i,
  input  logic [Sessions-1:0] session_sealed_i,
  input  logic [        63:0] rx_tdata_i,
  input  logic [         7:0] rx_tkeep_i,
  input  logic                rx_tvalid_i,
  input  logic                rx_tlast_i,
  input  logic                rx_tuser_i,
  output logic                in_tvalid_o,
  output logic                in_tlast_o,
  output logic [        63:0] out_tdata_o,
  output logic [         7:0] out_tkeep_o,
  output logic                out_tvalid_o,
  output logic                out_tlast_o,
  output logic [         1:0] out_tuser_o,
  output logic                cnt_bad_seal_o,
  output logic                seal_busy_o,
  output logic                unseal_busy_o,
  output logic                mac_busy_o
);
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) frames ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) mac ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) pins ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) received ();
  axis_if #(
    .DataW(64),
    .UserW(2)
  ) opened ();
  eth_pkg::tx_stat_t tx_stat;
  logic busy_tx, busy_rx, tx_start, tx_ready_start;
  wire_pkg::key_entry_t key_entry;

  // Both begin a session.
  assign key_entry = '{
          tx_key: key_i,
          rx_key: key_i,
          tx_salt: salt_i,
          rx_salt: salt_i,
          send: !key_rx_write_i,
          receive: !key_tx_write_i,
          phase: key_phase_i
      };

  assign tx_start = tx_start_o && !hold_i;
  assign tx_ready_start_o = tx_ready_start && !hold_i;

  assign frames.tdata = fb_tdata_i;
  assign frames.tkeep = fb_tkeep_i;
  assign frames.tvalid = fb_tvalid_i;
  assign frames.tlast = fb_tlast_i;
  assign frames.tuser = '0;
  assign fb_tready_o = frames.tready;

  seal #(
    .Sessions(Sessions),
    .Auth    (Auth)
  ) u_seal (
    .clk_i,
    .rst_i,
    .fb_start_i,
    .fb_ready_start_o,
    .fb_sealed_i,
    .fb_session_i,
    .fb_port_i,
    .s_frames     (frames),
    .start_o      (tx_start_o),
    .ready_start_i(tx_ready_start_o),
    .m_axis       (mac),
    .key_write_i  (key_tx_write_i || key_rx_write_i),
    .key_index_i,
    .key_entry_i  (key_entry),
    .cnt_no_key_o,
    .busy_o       (seal_busy_o)
  );
  assign tx_tdata_o  = mac.tdata;
  assign tx_tkeep_o  = mac.tkeep;
  assign tx_tvalid_o = mac.tvalid;
  assign tx_tlast_o  = mac.tlast;
  assign tx_tready_o = mac.tready;

  if (Gmii) begin : gen_1g
    logic [7:0] txd;
    logic tx_en, tx_er;
    gmii_tx u_tx (
      .clk_i,
      .rst_i,
      .start_i      (tx_start),
      .ready_start_o(tx_ready_start),
      .s_axis       (mac),
      .gmii_txd_o   (txd),
      .gmii_tx_en_o (tx_en),
      .gmii_tx_er_o (tx_er),
      .stat_o       (tx_stat),
      .busy_o       (busy_tx)
    );
    gmii_rx u_rx (
      .clk_i,
      .rst_i,
      .gmii_rxd_i  (txd),
      .gmii_rx_dv_i(tx_en),
      .gmii_rx_er_i(tx_er),
      .m_axis      (pins),
      .stat_o      (),
      .busy_o      (busy_rx)
    );
  end else begin : gen_10g
    logic [63:0] txd;
    logic [ 7:0] txc;
    xgmii_tx u_tx (
      .clk_i,
      .rst_i,
      .start_i      (tx_start),
      .ready_start_o(tx_ready_start),
      .s_axis       (mac),
      .xgmii_txd_o  (txd),
      .xgmii_txc_o  (txc),
      .stat_o       (tx_stat),
      .busy_o       (busy_tx)
    );
    xgmii_rx u_rx (
      .clk_i,
      .rst_i,
      .xgmii_rxd_i(txd),
      .xgmii_rxc_i(txc),
      .m_axis     (pins),
      .stat_o     (),
      .busy_o     (busy_rx)
    );
  end
  assign tx_underrun_o   = tx_stat.underrun;
  assign mac_busy_o      = busy_tx || busy_rx;

  assign pins.tready     = 1'b1;
  assign received.tdata  = loop_i ? pins.tdata : rx_tdata_i;
  assign received.tkeep  = loop_i ? pins.tkeep : rx_tkeep_i;
  assign received.tvalid = loop_i ? pins.tvalid : rx_tvalid_i;
  assign received.tlast  = loop_i ? pins.tlast : rx_tlast_i;
  assign received.tuser  = loop_i ? pins.tuser : rx_tuser_i;
  assign received.tready = 1'b1;
  assign in_tvalid_o     = received.tvalid;
  assign in_tlast_o      = received.tlast;

  unseal #(
    .Sessions(Sessions),
    .Auth    (Auth)
  ) u_unseal (
    .clk_i,
    .rst_i,
    .enable_i,
    .mac_i,
    .ip_i,
    .session_valid_i,
    .session_sealed_i,
    .s_axis     (received),
    .m_axis     (opened),
    .key_write_i(key_tx_write_i || key_rx_write_i),
    .key_index_i,
    .key_entry_i(key_entry),
    .cnt_bad_seal_o,
    .busy_o     (unseal_busy_o)
  );
  assign opened.tready = 1'b1;
  assign out_tdata_o   = opened.tdata;
  assign out_tkeep_o   = opened.tkeep;
  assign out_tvalid_o  = opened.tvalid;
  assign out_tlast_o   = opened.tlast;
  assign out_tuser_o   = opened.tuser;
endmodule
