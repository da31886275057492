// SPDX-License-Identifier: Apache-2.0
// The table of sessions: who the peer is, and the epochs of both directions. Says whether a received frame
// belongs to its session, and gives the transmitter ports and addresses.
//
// A write of an entry begins the session anew: reset_o tells everybody in the cycle of the write, and a frame
// that is under way in that session does not belong to it any more.
//
// Latency : 2 cycles from look_i to ok_o, sealed_o and epoch_o, which then stay, but for such a write; tx_port_o is
//           combinational; 1 cycle or more from dst_read_i and cfg_read_i to their done.
// Clock   : clk_i (network).
// Source  : docs/wire-format.md, line 9b of the verdict table. Valid bits are registers, so that reset
//           closes all sessions.
module session_table
  import wire_pkg::*;
#(
  /// Entries; a power of two, 256 at most.
  parameter int unsigned Sessions = 64,
  localparam int unsigned IndexW = $clog2(Sessions)
) (
  input logic clk_i,
  input logic rst_i,

  input  logic                        cfg_write_i,
  input  logic           [IndexW-1:0] cfg_index_i,
  input  session_entry_t              cfg_entry_i,
  input  logic                        cfg_read_i,
  output session_entry_t              cfg_entry_o,
  output logic                        cfg_read_done_o,

  /// Source port and address of a received frame; at least 3 cycles apart.
  input  logic        look_i,
  input  logic [15:0] look_port_i,
  input  logic [31:0] look_ip_i,
  /// The session exists, has this epoch, and is with this address.
  output logic        ok_o,
  output logic        sealed_o,
  /// Epoch with which the session sends.
  output logic [ 5:0] epoch_o,

  /// Where a session's peer is; dst_read_i holds until dst_done_o.
  input  logic        dst_read_i,
  input  logic [ 7:0] dst_session_i,
  output logic        dst_done_o,
  output logic [47:0] dst_mac_o,
  output logic [31:0] dst_ip_o,

  /// Source port with which a session's frames are sent.
  input  logic [ 7:0] tx_session_i,
  output logic [15:0] tx_port_o,

  output logic [Sessions-1:0] valid_o,
  output logic [Sessions-1:0] sealed_sessions_o,
  output logic                reset_o,
  output logic [         7:0] reset_index_o,
  /// Sequence number with which it does.
  output logic [        31:0] reset_start_o,
  output logic                busy_o
);
  localparam int unsigned EpochAt = 8;  // in a port: its number is below, the prefix above

  session_entry_t        entry;
  logic           [15:0] port_q[Sessions];
  logic [Sessions-1:0] valid_q, sealed_q;

  logic [7:0] index_q, look_index;
  logic [IndexW-1:0] read_index;
  logic exists_q, looking_q, ok_q, ok_sealed_q, rewritten;
  logic [5:0] epoch_q, ok_epoch_q;
  logic [31:0] ip_q;
  logic cfg_wait_q, cfg_read, cfg_done_q, cfg_valid_q, dst_read, dst_done_q;

  // ---- One memory: received frames first, then the registers, then the transmitter ---------------
  assign look_index = look_port_i[7:0];
  assign cfg_read = cfg_wait_q && !look_i;
  assign dst_read = dst_read_i && !dst_done_q && !cfg_wait_q && !look_i;
  assign read_index = look_i ? look_index[IndexW-1:0] :
      cfg_wait_q ? cfg_index_i : dst_session_i[IndexW-1:0];

  ram_1r1w #(
    .data_t(session_entry_t),
    .Depth (Sessions)
  ) u_table (
    .clk_i,
    .we_i   (cfg_write_i),
    .waddr_i(cfg_index_i),
    .wdata_i(cfg_entry_i),
    .re_i   (look_i || cfg_read || dst_read),
    .raddr_i(read_index),
    .rdata_o(entry)
  );

  // ---- Does a frame belong to its session? -------------------------------------------------------
  assign rewritten = cfg_write_i && 8'(cfg_index_i) == (look_i ? look_index : index_q);

  always_ff @(posedge clk_i) begin
    if (look_i) begin
      index_q  <= look_index;
      epoch_q  <= look_port_i[EpochAt+:6];
      ip_q     <= look_ip_i;
      exists_q <= 32'(look_index) < Sessions && valid_q[look_index[IndexW-1:0]] && !rewritten;
    end
    if (looking_q) begin
      ok_sealed_q <= entry.sealed;
      ok_epoch_q  <= entry.port[EpochAt+:6];
    end
    if (cfg_read) cfg_valid_q <= valid_q[cfg_index_i];
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      looking_q <= 1'b0;
      ok_q      <= 1'b0;
    end else begin
      looking_q <= look_i;
      if (look_i || rewritten) ok_q <= 1'b0;
      else if (looking_q) ok_q <= exists_q && entry.epoch == epoch_q && entry.ip == ip_q;
    end
  end

  assign ok_o     = ok_q;
  assign sealed_o = ok_sealed_q;
  assign epoch_o  = ok_epoch_q;

  // ---- Registers, transmitter --------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (cfg_write_i) port_q[cfg_index_i] <= cfg_entry_i.port;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      valid_q    <= '0;
      sealed_q   <= '0;
      cfg_wait_q <= 1'b0;
      cfg_done_q <= 1'b0;
      dst_done_q <= 1'b0;
    end else begin
      if (cfg_write_i) begin
        valid_q[cfg_index_i]  <= cfg_entry_i.valid;
        sealed_q[cfg_index_i] <= cfg_entry_i.sealed;
      end
      if (cfg_read_i) cfg_wait_q <= 1'b1;
      else if (cfg_read) cfg_wait_q <= 1'b0;
      cfg_done_q <= cfg_read;
      dst_done_q <= dst_read;
    end
  end

  always_comb begin
    cfg_entry_o       = entry;
    cfg_entry_o.valid = cfg_valid_q;
  end

  assign cfg_read_done_o   = cfg_done_q;
  assign dst_done_o        = dst_done_q;
  assign dst_mac_o         = entry.mac;
  assign dst_ip_o          = entry.ip;
  assign tx_port_o         = port_q[tx_session_i[IndexW-1:0]];
  assign valid_o           = valid_q;
  assign sealed_sessions_o = sealed_q;
  assign reset_o           = cfg_write_i;
  assign reset_index_o     = 8'(cfg_index_i);
  assign reset_start_o     = cfg_entry_i.start;
  assign busy_o            = looking_q || cfg_wait_q || cfg_done_q || dst_done_q;

`ifndef SYNTHESIS
  initial
    assert (Sessions >= 2 && Sessions <= 256 && (Sessions & (Sessions - 1)) == 0)
    else $fatal(1, "session_table needs a power of two of entries, 2 to 256");
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_apart :
      assert (!look_i || !looking_q)
      else $error("look-ups too close to each other");
      a_one_read :
      assert (!cfg_read_i || !cfg_wait_q)
      else $error("a read while one waits");
    end
  end
`endif

  // The prefix is checked by who looks up; larger sessions do not exist.
  logic unused;
  assign unused = ^{look_port_i[15:14], dst_session_i, tx_session_i};
endmodule
