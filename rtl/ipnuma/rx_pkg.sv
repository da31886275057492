// SPDX-License-Identifier: Apache-2.0
// Types between the modules that take received frames apart and judge them.
package rx_pkg;
  import ipnuma_pkg::*;

  // What became of a good frame, in the order of the table in docs/wire-format.md.
  typedef enum logic [4:0] {
    NotMine,
    Arp,
    NotIpnuma,
    BadIpChecksum,
    BadLength,
    BadMagic,
    BadTlp,
    BadKey,
    BadEndCode,
    BadSource,
    BadRights,
    BadBounds,
    Overflow,
    Store,
    Load,
    Completion,
    ErrorReport,
    Open            // the headers are fine; the rest is not judged yet
  } verdict_e;

  // An operation as its frame has it, both formats; numbers in host order.
  typedef struct packed {
    logic        is_store;
    logic        is_load;
    logic        is_completion;    // none of the three: error report
    logic [15:0] sequence_number;
    logic [15:0] key;
    logic [31:0] offset;           // DW aligned
    logic [9:0]  length;           // DW
    logic [6:0]  data_dw;          // data carried
    logic [3:0]  first_be;
    logic [3:0]  last_be;
    logic [7:0]  tag;
    logic [2:0]  status;
    logic [11:0] byte_count;
    logic [6:0]  lower_address;
    reply_to_t   peer;
  } rx_head_t;

  // An error report as its frame has it.
  typedef struct packed {
    logic [7:0]  code;
    logic [7:0]  op;
    logic [15:0] sequence_number;
    logic [63:0] address;
    logic [31:0] ip;               // who sent it
  } error_report_t;

  // A store or load on its way to a region.
  typedef struct packed {
    logic        is_load;
    logic [31:0] offset;     // DW aligned
    logic [6:0]  length;     // DW, 1..64
    logic [31:0] source_ip;
  } region_op_t;

  // What its region says.
  typedef struct packed {
    logic        key_ok;
    logic        source_ok;
    logic        rights_ok;
    logic        bounds_ok;
    logic [63:0] address;    // local
  } region_result_t;

  /// A completion that ends its read: it failed, or nothing is left behind its data.
  function automatic logic completion_ends(logic [2:0] status, logic [11:0] byte_count,
                                           logic [6:0] data_dw, logic [1:0] skip);
    logic [12:0] left;
    logic [12:0] carried;
    left    = {byte_count == '0, byte_count};
    carried = (data_dw == '0) ? 13'd0 : {4'd0, data_dw, 2'd0} - 13'(skip);
    return status != CPL_SC || left <= carried;
  endfunction
endpackage
