// SPDX-License-Identifier: Apache-2.0
// The header of a completion, as it goes to the root complex.

package cpl_pkg;

  // Three DWs in wire order: byte 0 (fmt/type) in [7:0]. Length 0 for Cpl. Traffic class, relaxed ordering and
  // no snoop are the request's. ID-based ordering is 0: only who has it enabled for completions may set it.
  function automatic logic [95:0] cpl_header(
      logic [7:0] fmt_type, logic [9:0] length, logic [2:0] tc, logic [1:0] attr,
      logic [15:0] completer_id, logic [2:0] status, logic [11:0] byte_count,
      logic [15:0] requester_id, logic [7:0] tag, logic [6:0] lower_address);
    return {
      1'b0,
      lower_address,
      tag,
      requester_id[7:0],
      requester_id[15:8],
      byte_count[7:0],
      status,
      1'b0,
      byte_count[11:8],
      completer_id[7:0],
      completer_id[15:8],
      length[7:0],
      2'b0,
      attr,
      2'b0,
      length[9:8],
      1'b0,
      tc,
      4'b0,
      fmt_type
    };
  endfunction

endpackage
