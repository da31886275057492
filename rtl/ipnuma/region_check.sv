// SPDX-License-Identifier: Apache-2.0
// Judges one store or load against one shared-region entry. Everything that protects host memory from
// the network is decided here; verif/formal proves it.
//
// Latency : none, combinational.
// Clock   : none.
// Source  : docs/wire-format.md, lines 10 and 12 to 14 of the verdict table.
module region_check
  import rx_pkg::*;
(
  /// The key is in the table and its entry is valid.
  input  logic                    exists_i,
  input  wire_pkg::region_entry_t entry_i,
  input  region_op_t              op_i,
  output region_result_t          result_o
);
  logic [29:0] first_dw, last_dw;
  logic crosses;

  // Without a crossing the end can't wrap.
  assign first_dw = op_i.offset[31:2];
  assign last_dw  = op_i.offset[31:2] + 30'(op_i.length) - 30'd1;
  assign crosses  = 11'(op_i.offset[11:2]) + 11'(op_i.length) > 11'd1024;

  always_comb begin
    result_o.key_ok = exists_i;
    result_o.source_ok = ((op_i.source_ip ^ entry_i.ip) & entry_i.mask) == '0 &&
        (!entry_i.bound || (op_i.session && op_i.number == entry_i.number));
    result_o.rights_ok = (op_i.is_load ? entry_i.read : entry_i.write) &&
        (op_i.session || !entry_i.session) && (op_i.sealed || !entry_i.sealed);
    result_o.bounds_ok = first_dw >= entry_i.first[31:2] &&
        last_dw <= entry_i.last[31:2] && !crosses;
    result_o.notify = entry_i.notify;
    // The base is a multiple of 4 KB, so that a page of the region is a page of memory.
    result_o.address = {entry_i.base[63:12] + 52'(op_i.offset[31:12]), op_i.offset[11:0]};
  end

  // Bounds are whole DWs and the base is whole pages; the valid bit is in exists_i.
  logic unused;
  assign unused = ^{entry_i.reserved0, entry_i.reserved1, entry_i.valid, entry_i.tag,
                    entry_i.base[11:0], entry_i.first[1:0], entry_i.last[1:0], op_i.offset[1:0]};
endmodule
