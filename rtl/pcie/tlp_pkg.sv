// SPDX-License-Identifier: Apache-2.0
// What tlp_rx hands to its three users, in host order, and the readers of TLP headers.
package tlp_pkg;
  import ipnuma_pkg::*;

  // A read or write of one or two registers; `wdata[31:0]` belongs to the DW at `addr`, byte 0 of a
  // DW in [7:0].
  typedef struct packed {
    logic        write;
    logic [22:0] addr;
    logic        two_dw;
    logic [63:0] wdata;
    logic [3:0]  first_be;
    logic [3:0]  last_be;
    logic [15:0] requester_id;
    logic [7:0]  tag;
    logic [2:0]  tc;
  } reg_op_t;

  // Header of a completion from the root complex.
  typedef struct packed {
    logic        has_data;
    logic [2:0]  status;
    logic [11:0] byte_count;
    logic [6:0]  lower_address;
    logic [9:0]  length;
    logic [7:0]  tag;
  } cpl_head_t;

  // A load or store to the page window.
  typedef struct packed {
    logic        is_load;
    logic [17:0] page;
    logic [11:0] offset;        // in the page, DW aligned
    logic [6:0]  length;        // DW, 1..64
    logic [3:0]  first_be;
    logic [3:0]  last_be;
    logic [15:0] requester_id;
    logic [7:0]  tag;
    logic [2:0]  tc;
  } page_op_t;

  // First two DWs of a TLP; the tag field of a completion is in `low`.
  typedef struct packed {
    logic [7:0]  fmt_type;
    logic [2:0]  tc;
    logic        td;
    logic        ep;
    logic [9:0]  length;
    logic [15:0] id;
    logic [15:0] low;       // tag, byte enables; or status, byte count
  } tlp_start_t;

  /// Header fields of a TLP's first beat (byte 0 in bits 7:0).
  // Attributes, address type and reserved bits mean nothing here.
  // verilator lint_off UNUSEDSIGNAL
  function automatic tlp_start_t parse_start(logic [63:0] data);
    parse_start.fmt_type = data[7:0];
    parse_start.tc       = data[14:12];
    parse_start.td       = data[23];
    parse_start.ep       = data[22];
    parse_start.length   = {data[17:16], data[31:24]};
    parse_start.id       = {data[39:32], data[47:40]};
    parse_start.low      = {data[55:48], data[63:56]};
  endfunction
  // verilator lint_on UNUSEDSIGNAL

  /// A DW as a number: byte 0 is the most significant.
  function automatic logic [31:0] big_endian(logic [31:0] dw);
    return {dw[7:0], dw[15:8], dw[23:16], dw[31:24]};
  endfunction
endpackage
