// SPDX-License-Identifier: Apache-2.0
// Constants of the Ethernet media interfaces.
//
// Source  : IEEE 802.3 clauses 35 and 46.
package eth_pkg;
  // A package is used in part.
  // verilator lint_off UNUSEDPARAM
  localparam logic [7:0] XgmiiIdle = 8'h07;
  localparam logic [7:0] XgmiiStart = 8'hfb;
  localparam logic [7:0] XgmiiTerm = 8'hfd;
  localparam logic [7:0] XgmiiError = 8'hfe;
  localparam logic [7:0] Preamble = 8'h55;
  localparam logic [7:0] Sfd = 8'hd5;

  /// XGMII word of start, preamble and start frame delimiter.
  localparam logic [63:0] XgmiiPreambleWord = {Sfd, {6{Preamble}}, XgmiiStart};
  localparam logic [63:0] XgmiiIdleWord = {8{XgmiiIdle}};

  /// Shortest frame with FCS, bytes.
  localparam int unsigned MinFrame = 64;
  // verilator lint_on UNUSEDPARAM

  /// One-cycle pulses of a receiver: exactly one per frame that started.
  typedef struct packed {
    logic good;          // passed every check
    logic bad_fcs;       // length fine, FCS wrong
    logic runt;          // shorter than 64 bytes, whatever its FCS
    logic giant;         // longer than MaxFrame, cut there
    logic error;         // cut by a control character, idle or a new start; or RX_ER
    logic bad_preamble;  // never entered
  } rx_stat_t;

  /// One-cycle pulses of a transmitter: exactly one per frame that started.
  typedef struct packed {
    logic good;      // sent as offered
    logic spoiled;   // sent spoiled, as the source asked
    logic underrun;  // the source stalled; ended with an error
  } tx_stat_t;

  /// Bytes of a beat, from its contiguous tkeep.
  function automatic logic [3:0] keep_bytes(logic [7:0] keep);
    keep_bytes = '0;
    for (int unsigned i = 0; i < 8; i++) keep_bytes += 4'(keep[i]);
  endfunction

  /// tkeep with the first n bytes set, n = 0..8.
  function automatic logic [7:0] bytes_keep(logic [3:0] n);
    for (int unsigned i = 0; i < 8; i++) bytes_keep[i] = 4'(i) < n;
  endfunction

  /// Bit mask of the bytes that keep selects.
  function automatic logic [63:0] keep_mask(logic [7:0] keep);
    for (int unsigned i = 0; i < 8; i++) keep_mask[8*i+:8] = {8{keep[i]}};
  endfunction
endpackage
