// SPDX-License-Identifier: Apache-2.0
// What tlp_rx and its parts hand on, in host order, and the readers of TLP headers.
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
    logic [1:0]  attr;
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

  // Byte enables that are a run from the first to the last DW leave out a number of bytes at either end.
  typedef struct packed {
    logic       is_run;
    logic [1:0] skip;
    logic [1:0] trail;
  } be_run_t;

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
    logic [1:0]  attr;
    be_run_t     run;           // of a store
  } page_op_t;

  // A register read that waits.
  typedef struct packed {
    logic [22:0] addr;
    logic        two_dw;
    logic [3:0]  first_be;
    logic [3:0]  last_be;
    logic [15:0] requester_id;
    logic [7:0]  tag;
    logic [2:0]  tc;
    logic [1:0]  attr;
  } reg_read_t;

  // What a TLP is, decided where it comes in: one of these, or it leaves no trace.
  typedef struct packed {
    logic store;
    logic load;
    logic write;   // to a register
    logic refuse;  // non-posted, answered with UR
  } rx_kind_t;

  // Part of a TLP on its way to its user. The first word is the first beat (`even` its low half). From the second
  // word on `even` and `odd` are DWs 2i and 2i + 1 of the payload, where enabled; in the second `odd` is the last DW of
  // the header. Beats without any of this are left out.
  typedef struct packed {
    rx_kind_t    kind;     // from the second word on
    logic        last;
    logic        good;     // with `last`: it has ended as its header says, and counts
    logic        even_we;
    logic        odd_we;
    logic [31:0] even;
    logic [31:0] odd;
  } rx_word_t;

  // First two DWs of a TLP; the tag field of a completion is in `low`.
  typedef struct packed {
    logic [7:0]  fmt_type;
    logic [2:0]  tc;
    logic        td;
    logic        ep;
    logic [1:0]  attr;      // relaxed ordering, no snoop
    logic [9:0]  length;
    logic [15:0] id;
    logic [15:0] low;       // tag, byte enables; or status, byte count
  } tlp_start_t;

  /// Header fields of a TLP's first beat (byte 0 in bits 7:0).
  // ID-based ordering, address type and reserved bits mean nothing here.
  // verilator lint_off UNUSEDSIGNAL
  function automatic tlp_start_t parse_start(logic [63:0] data);
    parse_start.fmt_type = data[7:0];
    parse_start.tc       = data[14:12];
    parse_start.td       = data[23];
    parse_start.ep       = data[22];
    parse_start.attr     = data[21:20];
    parse_start.length   = {data[17:16], data[31:24]};
    parse_start.id       = {data[39:32], data[47:40]};
    parse_start.low      = {data[55:48], data[63:56]};
  endfunction
  // verilator lint_on UNUSEDSIGNAL

  /// What the byte enables of a request leave out.
  function automatic be_run_t byte_run(logic one_dw, logic [3:0] first_be, logic [3:0] last_be);
    logic [3:0] end_be, lead_run, tail_run;
    byte_run.skip = first_byte(first_be);
    end_be = one_dw ? first_be : last_be;
    byte_run.trail = end_be[3] ? 2'd0 : end_be[2] ? 2'd1 : end_be[1] ? 2'd2 :
        end_be[0] ? 2'd3 : 2'd0;
    lead_run = 4'hF << byte_run.skip;
    tail_run = 4'hF >> byte_run.trail;
    byte_run.is_run = one_dw ?
        first_be != '0 && first_be == (lead_run & tail_run) && last_be == '0 :
        first_be == lead_run && last_be == tail_run;
  endfunction

  /// A locked memory read.
  function automatic logic is_locked_read(logic [7:0] fmt_type);
    return fmt_type inside {8'h01, 8'h21};
  endfunction

  /// A request that wants a completion: memory and locked reads, I/O, configuration, atomic operations.
  // Not their neighbours that do not exist, such as a locked write.
  function automatic logic is_non_posted(logic [7:0] fmt_type);
    return fmt_type inside {TLP_MRD32, TLP_MRD64, 8'h01, 8'h21,
                            8'h02, 8'h42, 8'h04, 8'h44, 8'h05, 8'h45,
                            8'h4C, 8'h6C, 8'h4D, 8'h6D, 8'h4E, 8'h6E};
  endfunction

  /// Bytes that a completion of an atomic operation announces: the operand. Compare and swap carries two.
  function automatic logic [11:0] atomic_byte_count(logic [7:0] fmt_type, logic [9:0] length);
    return fmt_type[4:0] == 5'h0E ? {1'b0, length, 1'b0} : {length, 2'b00};
  endfunction

  /// Byte count of a completion of anything but a read or an atomic operation.
  localparam logic [11:0] OTHER_BYTE_COUNT = 12'd4;

  /// A DW as a number: byte 0 is the most significant.
  function automatic logic [31:0] big_endian(logic [31:0] dw);
    return {dw[7:0], dw[15:8], dw[23:16], dw[31:24]};
  endfunction
endpackage
