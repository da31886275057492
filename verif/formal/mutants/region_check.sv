// SPDX-License-Identifier: Apache-2.0
// region_check with one mistake, chosen by a macro: the proof must find each of them.
//
// Latency : none, combinational.
// Clock   : none.
// Source  : ours.
module region_check
  import rx_pkg::*;
(
  input  logic                    exists_i,
  input  wire_pkg::region_entry_t entry_i,
  input  region_op_t              op_i,
  output region_result_t          result_o
);
  logic [29:0] first_dw, last_dw;
  logic crosses;

  assign first_dw = op_i.offset[31:2];
`ifdef MUTANT_BOUNDS
  assign last_dw = op_i.offset[31:2] + 30'(op_i.length) - 30'd2;
`else
  assign last_dw = op_i.offset[31:2] + 30'(op_i.length) - 30'd1;
`endif
`ifdef MUTANT_PAGE
  assign crosses = 11'(op_i.offset[11:2]) + 11'(op_i.length) > 11'd1025;
`else
  assign crosses = 11'(op_i.offset[11:2]) + 11'(op_i.length) > 11'd1024;
`endif

  always_comb begin
`ifdef MUTANT_VALID
    result_o.key_ok = 1'b1;
`else
    result_o.key_ok = exists_i;
`endif
`ifdef MUTANT_SOURCE
    result_o.source_ok = ((op_i.source_ip ^ entry_i.ip) & entry_i.mask & 32'hFFFF_FFFE) == '0;
`else
    result_o.source_ok = ((op_i.source_ip ^ entry_i.ip) & entry_i.mask) == '0;
`endif
`ifdef MUTANT_RIGHTS
    result_o.rights_ok = entry_i.read || entry_i.write;
`elsif MUTANT_SEALED
    result_o.rights_ok = (op_i.is_load ? entry_i.read : entry_i.write) &&
        (op_i.session || !entry_i.session);
`else
    result_o.rights_ok = (op_i.is_load ? entry_i.read : entry_i.write) &&
        (op_i.session || !entry_i.session) && (op_i.sealed || !entry_i.sealed);
`endif
    result_o.notify = entry_i.notify;
    result_o.bounds_ok = first_dw >= entry_i.first[31:2] && last_dw <= entry_i.last[31:2] &&
                         !crosses;
    result_o.address = {entry_i.base[63:12] + 52'(op_i.offset[31:12]), op_i.offset[11:0]};
  end
endmodule
