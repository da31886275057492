// SPDX-License-Identifier: Apache-2.0
// The TCP offload engine behind a 10G MAC: XGMII on one side, the host's ports on the other.
//
// The structs of the host's ports are taken apart, so that who drives them needs no bit positions.
//
// Latency   : as toe_core, and the MAC's.
// Clock     : clk_i, 156.25 MHz.
// Handshake : as toe_core. With busy_o low, no input valid and 2,048 cycles gone without an output, the
//             clock may stop until alarm_at_o: only now_us_i can then change anything.
// Drops     : as toe_core, and frames that the MAC finds bad.
// Source    : docs/toe.md.
module toe_10g
  import toe_pkg::*;
#(
  parameter policy_e Policy = Epoch,
  parameter int unsigned Analyzers = 5,
  parameter int unsigned Words = 4096,
  parameter int unsigned Mtu = 1500,
  parameter int unsigned Conns = 16,
  parameter int unsigned RxBytes = 65536
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  us_t             now_us_i,
  input  logic     [63:0] secret_i,
  input  logic     [47:0] mac_i,
  input  logic     [31:0] ip_i,
  input  logic     [63:0] xgmii_rxd_i,
  input  logic     [ 7:0] xgmii_rxc_i,
  output logic     [63:0] xgmii_txd_o,
  output logic     [ 7:0] xgmii_txc_o,
  // A command, command_e.
  input  logic     [ 2:0] command_kind_i,
  input  conn_id_t        command_conn_i,
  input  logic     [47:0] command_mac_i,
  input  logic     [31:0] command_ip_i,
  input  logic     [15:0] command_peer_port_i,
  input  logic     [15:0] command_local_port_i,
  input  logic     [31:0] command_amount_i,
  input  logic            command_valid_i,
  output logic            command_ready_o,
  // An event, event_t.
  output conn_id_t        event_conn_o,
  output logic     [ 3:0] event_state_o,
  output logic            event_opened_o,
  output logic            event_reset_o,
  output seq_t            event_rcv_nxt_o,
  output seq_t            event_snd_una_o,
  output seq_t            event_rcv_read_o,
  output logic     [15:0] event_local_port_o,
  output logic     [15:0] event_peer_port_o,
  output logic     [31:0] event_peer_ip_o,
  output logic            event_valid_o,
  // A word for a receive buffer.
  output conn_id_t        write_conn_o,
  output logic     [28:0] write_word_o,
  output logic     [63:0] write_data_o,
  output logic     [ 7:0] write_strb_o,
  output logic            write_valid_o,
  input  logic            write_ready_i,
  // A word of a send buffer.
  output conn_id_t        read_conn_o,
  output logic     [28:0] read_word_o,
  output logic            read_valid_o,
  input  logic            read_ready_i,
  input  logic     [63:0] data_i,
  input  logic            data_valid_i,
  /// Pulses, counts_t; the first field is the highest bit.
  output logic     [ 8:0] counts_o,
  /// Pulse: the network buffer had no room for a frame.
  output logic            overflow_o,
  output logic            alarm_o,
  output us_t             alarm_at_o,
  /// The MAC has work left.
  output logic            busy_o
);
  axis_if s_eth ();
  axis_if m_eth ();
  eth_pkg::rx_stat_t rx_stat;
  eth_pkg::tx_stat_t tx_stat;
  logic busy_rx, busy_tx;
  command_t   command;
  event_t     told;
  mem_write_t write;
  counts_t    counts;
  alarm_t     alarm;

  xgmii_rx #(
    .MaxFrame(Mtu + 18)
  ) u_rx (
    .clk_i,
    .rst_i,
    .xgmii_rxd_i,
    .xgmii_rxc_i,
    .m_axis(s_eth),
    .stat_o(rx_stat),
    .busy_o(busy_rx)
  );

  // The engine's frames are whole before their first beat is offered, and that stays until it is taken.
  xgmii_tx u_tx (
    .clk_i,
    .rst_i,
    .start_i      (m_eth.tvalid),
    .ready_start_o(),
    .s_axis       (m_eth),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o       (tx_stat),
    .busy_o       (busy_tx)
  );

  assign command = '{
          kind: command_e'(command_kind_i),
          conn: command_conn_i,
          mac: command_mac_i,
          ip: command_ip_i,
          peer_port: command_peer_port_i,
          local_port: command_local_port_i,
          amount: command_amount_i
      };
  assign event_conn_o = told.conn;
  assign event_state_o = told.state;
  assign event_opened_o = told.opened;
  assign event_reset_o = told.reset;
  assign event_rcv_nxt_o = told.rcv_nxt;
  assign event_snd_una_o = told.snd_una;
  assign event_rcv_read_o = told.rcv_read;
  assign event_local_port_o = told.local_port;
  assign event_peer_port_o = told.peer_port;
  assign event_peer_ip_o = told.peer_ip;
  assign write_conn_o = write.conn;
  assign write_word_o = write.word;
  assign write_data_o = write.data;
  assign write_strb_o = write.strb;
  assign counts_o = counts;
  assign alarm_o = alarm.armed;
  assign alarm_at_o = alarm.at;
  assign busy_o = busy_rx || busy_tx;

  toe_core #(
    .Policy   (Policy),
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
    .command_i     (command),
    .command_valid_i,
    .command_ready_o,
    .event_o       (told),
    .event_valid_o,
    .write_o       (write),
    .write_valid_o,
    .write_ready_i,
    .read_conn_o,
    .read_word_o,
    .read_valid_o,
    .read_ready_i,
    .data_i,
    .data_valid_i,
    .alarm_o       (alarm),
    .counts_o      (counts),
    .cnt_overflow_o(overflow_o)
  );

  logic unused;
  assign unused = ^{rx_stat, tx_stat};
endmodule
