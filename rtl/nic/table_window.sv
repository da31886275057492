// SPDX-License-Identifier: Apache-2.0
// Window of BAR 0 onto a table: collects an entry DW by DW, so that the table sees it change at
// once.
//
// An entry has 2^n DWs. Writing any but the last one stages it (one staging register for the whole
// table, whatever the index); writing the last one writes the entry, staged DWs included. Reading
// gives DWs of the entry as the table holds it, not as staged.
//
// Latency : a write is done 1 cycle after it is offered and not held, a read 1 cycle after the table's answer,
//           or where nothing can be read 1 cycle after it is offered.
// Clock   : clk_i, the table's.
// Drops   : an index beyond the table is refused (ok = 0).
// Source  : own.
module table_window
  import reg_bus_pkg::*;
#(
  /// Layout of an entry; its size is 32 bits times a power of two, 64 bits or more.
  parameter type entry_t = logic [63:0],
  /// Entries of the table.
  parameter int unsigned Entries = 256,
  /// Address bits of the window, in bytes.
  parameter int unsigned WindowW = 20,
  /// Entries can be read; else they read as zeros.
  parameter bit Readable = 1'b1,
  /// Entries can be written; else no write may be offered.
  parameter bit Writable = 1'b1,
  localparam int unsigned IndexW = Entries > 1 ? $clog2(Entries) : 1
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  /// Offset in the window, in bytes.
  input  logic     [WindowW-1:0] addr_i,
  /// Valid only when the window is addressed; its address is not used.
  input  reg_req_t               req_i,
  output reg_rsp_t               rsp_o,
  /// The table is in use, and must not change: writes wait.
  input  logic                   hold_i,
  /// Pulse: write cfg_entry_o at cfg_index_o.
  output logic                   cfg_write_o,
  /// Pulse: read the entry at cfg_index_o.
  output logic                   cfg_read_o,
  output logic     [ IndexW-1:0] cfg_index_o,
  output entry_t                 cfg_entry_o,
  /// The entry read, with cfg_read_done_i.
  input  entry_t                 cfg_entry_i,
  input  logic                   cfg_read_done_i
);
  localparam int unsigned EntryW = $bits(entry_t);
  localparam int unsigned Dws = EntryW / 32;
  localparam int unsigned DwW = $clog2(Dws);
  localparam int unsigned SlotW = WindowW - DwW - 2;

  typedef enum logic [1:0] {
    StIdle,
    StRead,
    StDone
  } state_e;

  state_e                   state_q;
  logic                     ok_q;
  logic   [     31:0]       rdata_q;
  logic   [  Dws-2:0][31:0] staged_q;
  logic   [  DwW-1:0]       dw;
  logic   [SlotW-1:0]       slot;
  logic in_table, start, last_dw;
  logic [Dws-1:0][31:0] entry_dws;

  assign dw          = addr_i[2+:DwW];
  assign slot        = addr_i[WindowW-1-:SlotW];
  assign in_table    = 32'(slot) < Entries;
  assign last_dw     = dw == DwW'(Dws - 1);
  assign start       = state_q == StIdle && req_i.valid && !(req_i.write && hold_i);
  assign entry_dws   = cfg_entry_i;

  assign cfg_index_o = slot[IndexW-1:0];
  assign cfg_entry_o = entry_t'({req_i.wdata, staged_q});
  assign cfg_write_o = Writable && start && in_table && req_i.write && last_dw;
  assign cfg_read_o  = Readable && start && in_table && !req_i.write;

  assign rsp_o       = '{done: state_q == StDone, ok: ok_q, rdata: rdata_q};

  always_ff @(posedge clk_i) begin
    if (start) begin
      ok_q    <= in_table;
      rdata_q <= '0;
    end
    if (Readable && state_q == StRead && cfg_read_done_i) rdata_q <= entry_dws[dw];
  end

  if (Writable) begin : gen_staged
    always_ff @(posedge clk_i) begin
      if (start && req_i.write && in_table && !last_dw) staged_q[dw] <= req_i.wdata;
    end
  end else begin : gen_not_staged
    assign staged_q = '0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) state_q <= StIdle;
    else begin
      unique case (state_q)
        StIdle:  if (start) state_q <= cfg_read_o ? StRead : StDone;
        StRead:  if (cfg_read_done_i) state_q <= StDone;
        default: state_q <= StIdle;
      endcase
    end
  end

`ifndef SYNTHESIS
  initial begin
    assert (EntryW == 32 << DwW && Dws >= 2)
    else $fatal(1, "entry size is not 32 * 2^n bits");
    assert (SlotW >= IndexW)
    else $fatal(1, "the window is smaller than the table");
  end
  always_ff @(posedge clk_i) begin
    assert (rst_i || state_q == StIdle || req_i.valid)
    else $error("register request withdrawn before its answer");
    assert (rst_i || Writable || !req_i.valid || !req_i.write)
    else $error("a write to a table that is only read");
  end
`endif

  // Address bits within a DW.
  logic unused;
  assign unused = ^{addr_i[1:0], req_i.addr};
endmodule
