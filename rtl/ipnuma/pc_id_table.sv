// SPDX-License-Identifier: Apache-2.0
// PC ID table: address of each peer. The valid and session bits stand beside it in registers, so
// that permission and session are known with the page map entry, before the table answers.
//
// Latency : ReadLatency cycles of clk_i from look_i to entry_o (a look-up may start in every
//           cycle); permitted_o and session_o are combinational from pc_id_i; ReadLatency cycles from cfg_read_i
//           to cfg_read_done_o.
// Clock   : clk_i (PCIe).
// Drops   : never.
// Source  : dissertation section 3.3.1.
module pc_id_table
  import wire_pkg::*;
#(
  /// Entries; a power of two from 2 to 65536, which are all that a page map entry can name.
  parameter int unsigned PcIds = 256,
  /// Sessions; the PC IDs below this number can have one.
  parameter int unsigned Sessions = 64,
  /// Cycles from the PC ID to its entry, 1..4.
  parameter int unsigned ReadLatency = 1,
  localparam int unsigned IndexW = $clog2(PcIds)
) (
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic                look_i,
  input  logic         [15:0] pc_id_i,
  /// The PC ID is not 0, within the table and valid.
  output logic                permitted_o,
  /// It is, and frames to it belong to the session of its number.
  output logic                session_o,
  output pc_id_entry_t        entry_o,

  input  logic                      cfg_write_i,
  input  logic         [IndexW-1:0] cfg_index_i,
  input  pc_id_entry_t              cfg_entry_i,
  input  logic                      cfg_read_i,
  output pc_id_entry_t              cfg_entry_o,
  output logic                      cfg_read_done_o
);
  if (PcIds < 2 || PcIds > 65_536 || (PcIds & (PcIds - 1)) != 0) begin : gen_no_size
    $fatal(1, "pc_id_table needs a power of two of entries, 2 to 65536");
  end

  logic [PcIds-1:0] valid_q, session_q;
  logic         [ReadLatency-1:0] reading_q;
  pc_id_entry_t                   cfg_entry;

  ram_1r1rw #(
    .data_t     (pc_id_entry_t),
    .Depth      (PcIds),
    .ReadLatency(ReadLatency)
  ) u_ram (
    .clk_i,
    .a_re_i   (look_i),
    .a_addr_i (pc_id_i[IndexW-1:0]),
    .a_rdata_o(entry_o),
    .b_we_i   (cfg_write_i),
    .b_re_i   (cfg_read_i),
    .b_addr_i (cfg_index_i),
    .b_wdata_i(cfg_entry_i),
    .b_rdata_o(cfg_entry)
  );

  assign permitted_o = pc_id_i != '0 && 32'(pc_id_i) < PcIds && valid_q[pc_id_i[IndexW-1:0]];

  assign session_o   = permitted_o && session_q[pc_id_i[IndexW-1:0]] && 32'(pc_id_i) < Sessions;

  // A table of all PC IDs is that wide.
  // verilator lint_off WIDTHCONCAT
  always_ff @(posedge clk_i) begin
    if (cfg_write_i) session_q[cfg_index_i] <= cfg_entry_i.session;
    if (rst_i) begin
      valid_q   <= '0;
      reading_q <= '0;
    end else begin
      reading_q <= ReadLatency'({reading_q, cfg_read_i});
      if (cfg_write_i) valid_q[cfg_index_i] <= cfg_entry_i.valid;
    end
  end
  // verilator lint_on WIDTHCONCAT

  // The memory outlives a reset, the valid bits do not.
  always_comb begin
    cfg_entry_o       = cfg_entry;
    cfg_entry_o.valid = valid_q[cfg_index_i];
  end
  assign cfg_read_done_o = reading_q[ReadLatency-1];

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      cfg_read_i || (|reading_q && !cfg_read_done_o) |=> $stable(
      cfg_index_i
  ))
  else $error("pc_id_table: the index changed during a read");
`endif
endmodule
