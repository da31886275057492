// SPDX-License-Identifier: Apache-2.0
// Types that pass between the modules of the IP-NUMA engine. Wire, register and table layouts are
// in wire_pkg.

package ipnuma_pkg;
  import wire_pkg::*;

  // PCI Express fmt/type bytes.
  localparam logic [7:0] TLP_MRD32 = 8'h00;
  localparam logic [7:0] TLP_MRD64 = 8'h20;
  localparam logic [7:0] TLP_MWR32 = 8'h40;
  localparam logic [7:0] TLP_MWR64 = 8'h60;
  localparam logic [7:0] TLP_CPL = 8'h0A;
  localparam logic [7:0] TLP_CPLD = 8'h4A;
  localparam logic [7:0] TLP_CPLLK = 8'h0B;  // without data, of a locked read

  localparam logic [2:0] CPL_SC = 3'b000;
  localparam logic [2:0] CPL_UR = 3'b001;
  localparam logic [2:0] CPL_CA = 3'b100;

  // BAR number beside a request TLP (tuser of the stream from the root complex).
  localparam logic [2:0] BAR_REGISTERS = 3'd0;
  localparam logic [2:0] BAR_PAGES = 3'd2;
  localparam logic [2:0] BAR_NONE = 3'd7;

  // A decoded TLP header, both 3 and 4 DW; numbers in host order (MSB first), not wire order.
  typedef struct packed {
    logic [7:0]  fmt_type;
    logic [2:0]  tc;
    logic        td;
    logic        ep;
    logic [9:0]  length;        // DW; 0 means 1024
    logic [15:0] requester_id;  // requests; completer ID in completions
    logic [7:0]  tag;           // requests; the tag of a completion is in `cpl`
    logic [3:0]  last_be;
    logic [3:0]  first_be;
    logic [2:0]  bar;
  } tlp_head_t;

  // Of which session a frame or an operation is, if of any.
  typedef struct packed {
    logic       valid;
    logic [7:0] index;
  } session_t;

  // Everything the frame builder needs to build one frame in the network clock domain.
  typedef struct packed {
    logic         compact;
    logic         control;    // control frame: code in trail, its number in address[39:8], no data
    session_t     session;
    logic [3:0]   kind;       // tlp format: KIND_TLP or KIND_ERROR
    logic         sequenced;
    logic [15:0]  pc_id;      // whose sequence counter, when sequenced
    logic [47:0]  dst_mac;    // [47:40] is the first byte on the wire
    logic [31:0]  dst_ip;
    logic [15:0]  src_port;   // of an answer in a session: its epoch in [13:8]
    logic [11:0]  tag;        // folded into the end code; ACK, NACK: the interval of ack_t
    logic [127:0] head;       // tlp: frame bytes 50..65 in wire order, first byte in [7:0]
    logic [39:0]  address;    // compact
    logic [1:0]   trail;      // compact
    logic [6:0]   data_dw;    // 0..64
    logic         zero_data;  // the data are zeros (refused load); no payload is read
  } tx_frame_t;

  // Where a reply goes: taken from the request's frame.
  typedef struct packed {
    logic [47:0] mac;
    logic [31:0] ip;
  } reply_to_t;

  typedef enum logic [1:0] {
    RX_STORE,
    RX_LOAD,
    RX_COMPLETION
  } rx_kind_e;

  // One accepted operation from the network, for the PCIe side. Payload is in the slot's memory.
  typedef struct packed {
    rx_kind_e    kind;
    logic [63:0] address;        // store, load: local byte address, DW aligned
    logic [6:0]  data_dw;        // data carried: store, completion with data
    logic [9:0]  length;         // TLP length field
    logic [3:0]  first_be;
    logic [3:0]  last_be;
    logic [7:0]  net_tag;        // load: the requester's tag; completion: our tag
    logic [2:0]  status;         // completion
    logic [11:0] byte_count;     // completion
    logic [6:0]  lower_address;  // completion
    reply_to_t   peer;           // source of the frame
    session_t    session;
    logic        notify;         // store: its region asks for an interrupt
    logic [15:0] load_number;    // load, completion of a session: the requester's, beside the tag
    logic [5:0]  epoch;          // load of a session: the one that its answer has
  } rx_op_t;

  // A refused operation, to be reported to its sender.
  typedef struct packed {
    logic [7:0]  code;
    logic        is_load;
    logic [31:0] sequence_number;
    logic [63:0] address;
    logic [9:0]  length;
    logic [8:0]  byte_count;       // load: bytes that it asks for, 256 at most
    logic [1:0]  first_byte;       // load: the first one in its DW
    logic [7:0]  net_tag;
    reply_to_t   peer;
    session_t    session;
    logic [15:0] load_number;
    logic [5:0]  epoch;            // of the answers
  } deny_t;

  // An acknowledgement from the peer of a session: the sequence number that it expects next.
  typedef struct packed {
    logic [7:0]  session;
    logic [31:0] sequence_number;  // only bits 15:0 count when it came within a data frame
    logic        short_number;     // it did
    logic        nack;             // a frame is missing: go back to it
    logic [11:0] interval;         // cycles from frame to frame that it asks for, see rx_share
  } ack_t;

  // An error report from the peer of a session.
  typedef struct packed {
    logic [7:0]  session;
    logic [7:0]  code;
    logic [7:0]  op;
    logic [31:0] sequence_number;
    logic [63:0] address;
  } refused_t;

  // Something that the host is told through the event queue.
  typedef struct packed {
    logic [7:0]  code;
    logic [7:0]  op;
    logic [15:0] number;   // sequence number or cookie
    logic [15:0] who;      // session or PC ID
    logic [63:0] address;
  } event_t;

  // Request to complete a non-posted request of the CPU without data.
  typedef struct packed {
    logic [15:0] requester_id;
    logic [7:0]  tag;
    logic [2:0]  tc;
    logic [1:0]  attr;
    logic        locked;         // of a locked read
    logic [2:0]  status;
    logic [11:0] byte_count;
    logic [6:0]  lower_address;
  } cpl_error_t;

  // A CPU load that waits for its completion from the network.
  typedef struct packed {
    logic [15:0] requester_id;
    logic [7:0]  tag;
    logic [2:0]  tc;
    logic [1:0]  attr;
    logic [11:0] byte_count;
    logic [6:0]  lower_address;
    logic [31:0] peer_ip;
  } load_t;

  // What the CPU is told with a completion from the network.
  typedef struct packed {
    logic [2:0]  status;
    logic [11:0] byte_count;
    logic [6:0]  lower_address;
  } answer_t;

  // Cycles that 8 bytes take on a line: 1 at 6.4 ns, XGMII; 8 at 8 ns, GMII.
  function automatic int unsigned beat_cycles(int unsigned period_ps);
    return period_ps < 7_000 ? 1 : 8;
  endfunction

  // Number of the first enabled byte of a DW; 0 if none is.
  function automatic logic [1:0] first_byte(logic [3:0] first_be);
    if (first_be[0]) return 2'd0;
    if (first_be[1]) return 2'd1;
    if (first_be[2]) return 2'd2;
    return first_be[3] ? 2'd3 : 2'd0;
  endfunction

  // Whether PCI Express permits these byte enables: none behind a single DW; else bytes in a row from somewhere in
  // the first DW to somewhere in the last, or any but none in the two DWs of one quadword. `odd` is address
  // bit 2 (base specification, 2.2.5).
  function automatic logic enables_legal(logic [9:0] length, logic [3:0] first_be,
                                         logic [3:0] last_be, logic odd);
    if (length == 10'd1) return last_be == '0;
    if (length == 10'd2 && !odd) return first_be != '0 && last_be != '0;
    return first_be inside {4'hF, 4'hE, 4'hC, 4'h8} && last_be inside {4'hF, 4'h7, 4'h3, 4'h1};
  endfunction

  // Bytes that a read of `length` DW with these byte enables asks for (PCI Express base
  // specification, table of byte counts).
  function automatic logic [11:0] read_byte_count(logic [9:0] length, logic [3:0] first_be,
                                                  logic [3:0] last_be);
    logic [3:0] end_be;
    end_be = (length == 10'd1) ? first_be : last_be;
    if (length == 10'd1 && first_be == 4'd0) return 12'd1;
    return {length, 2'b00} - 12'(first_byte(first_be)) - 12'(first_byte({<<{end_be}}));
  endfunction

endpackage
