// SPDX-License-Identifier: Apache-2.0
// The TCP offload engine as a top: flat ports, without MAC and without host.
//
// Latency   : as toe_core.
// Clock     : clk_i, 156.25 MHz for 10 Gbit/s.
// Handshake : as toe_core.
// Drops     : as toe_core.
// Source    : docs/toe.md.
module toe_bare
  import toe_pkg::*;
#(
  parameter policy_e Policy = Epoch,
  parameter int unsigned Slots = 64,
  parameter int unsigned EpochLen = 1,
  parameter int unsigned Analyzers = 5,
  parameter int unsigned Words = 4096,
  parameter int unsigned Mtu = 1500,
  parameter int unsigned Conns = 16,
  parameter int unsigned RxBytes = 65536
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  us_t               now_us_i,
  input  logic       [63:0] secret_i,
  input  logic       [47:0] mac_i,
  input  logic       [31:0] ip_i,
  input  logic       [63:0] rx_tdata_i,
  input  logic       [ 7:0] rx_tkeep_i,
  input  logic              rx_tvalid_i,
  input  logic              rx_tlast_i,
  /// With the last beat: the MAC saw an error.
  input  logic              rx_tuser_i,
  output logic       [63:0] tx_tdata_o,
  output logic       [ 7:0] tx_tkeep_o,
  output logic              tx_tvalid_o,
  output logic              tx_tlast_o,
  input  logic              tx_tready_i,
  input  command_t          command_i,
  input  logic              command_valid_i,
  output logic              command_ready_o,
  output event_t            event_o,
  output logic              event_valid_o,
  output mem_write_t        write_o,
  output logic              write_valid_o,
  input  logic              write_ready_i,
  output conn_id_t          read_conn_o,
  output logic       [28:0] read_word_o,
  output logic              read_valid_o,
  input  logic              read_ready_i,
  input  logic       [63:0] data_i,
  input  logic              data_valid_i,
  output counts_t           counts_o,
  output logic              cnt_overflow_o
);
  axis_if s_eth ();
  axis_if m_eth ();
  assign s_eth.tdata  = rx_tdata_i;
  assign s_eth.tkeep  = rx_tkeep_i;
  assign s_eth.tvalid = rx_tvalid_i;
  assign s_eth.tlast  = rx_tlast_i;
  assign s_eth.tuser  = rx_tuser_i;
  assign tx_tdata_o   = m_eth.tdata;
  assign tx_tkeep_o   = m_eth.tkeep;
  assign tx_tvalid_o  = m_eth.tvalid;
  assign tx_tlast_o   = m_eth.tlast;
  assign m_eth.tready = tx_tready_i;

  toe_core #(
    .Policy   (Policy),
    .Slots    (Slots),
    .EpochLen (EpochLen),
    .Analyzers(Analyzers),
    .Words    (Words),
    .Mtu      (Mtu),
    .Conns    (Conns),
    .RxBytes  (RxBytes)
  ) u_core (
    .clk_i,
    .rst_i,
    .now_us_i,
    .secret_i,
    .mac_i,
    .ip_i,
    .s_eth,
    .m_eth,
    .command_i,
    .command_valid_i,
    .command_ready_o,
    .event_o,
    .event_valid_o,
    .write_o,
    .write_valid_o,
    .write_ready_i,
    .read_conn_o,
    .read_word_o,
    .read_valid_o,
    .read_ready_i,
    .data_i,
    .data_valid_i,
    .alarm_o(),
    .counts_o,
    .cnt_overflow_o
  );
endmodule
