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
    BadSession,
    BadKey,
    BadEndCode,
    Duplicate,
    Gap,
    BadSource,
    BadRights,
    BadBounds,
    Overflow,
    Store,
    Load,
    Completion,
    ErrorReport,
    Void,
    Ack,            // and negative ones
    Open            // the headers are fine; the rest is not judged yet
  } verdict_e;

  // Where a frame's sequence number stands to the one that its session expects.
  typedef enum logic [1:0] {
    InOrder,
    Old,
    Ahead
  } order_e;

  // An operation as its frame has it, both formats; numbers in host order.
  typedef struct packed {
    logic        is_store;
    logic        is_load;
    logic        is_completion;
    logic        is_void;          // control frames
    logic        is_ack;           // none of the five: error report
    logic        nack;             // is_ack: a frame is missing
    logic        unnumbered;       // store or load of `tlp` that is not marked as sequenced
    logic        has_ack;          // an acknowledgement is in the frame, or is_ack
    logic [31:0] ack_number;       // only bits 15:0 unless is_ack
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
    session_t    session;
    logic [15:0] load_number;      // loads and completions of sessions
  } rx_head_t;

  // A store or load of a session that was refused.
  typedef struct packed {
    logic        several;  // others were refused as this frame before, all for a bad key
    logic [7:0]  code;
    logic        is_load;
    logic [15:0] key;
    logic [31:0] offset;
  } refusal_t;

  // An error report as its frame has it.
  typedef struct packed {
    logic [7:0]  code;
    logic [7:0]  op;
    logic [31:0] sequence_number;
    logic [63:0] address;
    logic [31:0] ip;               // who sent it
  } error_report_t;

  // A store or load on its way to a region.
  typedef struct packed {
    logic        is_load;
    logic [31:0] offset;     // DW aligned
    logic [6:0]  length;     // DW, 1..64
    logic [31:0] source_ip;
    logic        session;    // of a frame of a session, and of which
    logic [7:0]  number;
    logic        sealed;     // of a sealed session
  } region_op_t;

  // What its region says.
  typedef struct packed {
    logic        key_ok;
    logic        source_ok;
    logic        rights_ok;
    logic        bounds_ok;
    logic        notify;
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
