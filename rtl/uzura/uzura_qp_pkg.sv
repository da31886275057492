// SPDX-License-Identifier: Apache-2.0
// Descriptors, tables and state of the UZURA engine, and its ports to a shell.
//
// Source : InfiniBand Architecture Specification volume 1, chapters 9 to 11; docs/uzura.md.
package uzura_qp_pkg;
  // A package is used in part.
  // verilator lint_off UNUSEDPARAM

  localparam int unsigned Qps = 64;
  localparam int unsigned QpW = 6;
  localparam int unsigned Cqs = 64;
  localparam int unsigned CqW = 6;
  localparam int unsigned Regions = 256;
  localparam int unsigned RegionW = 8;
  /// Requests of a QP that may wait for their end.
  localparam int unsigned Outstanding = 16;
  localparam int unsigned OutW = 4;
  /// Packets of a QP that may wait for an acknowledgment, READ aside; every 16th asks for one.
  localparam int unsigned Window = 64;
  /// Results of atomics that a responder keeps for a requester that asks again.
  localparam int unsigned Replays = 4;
  localparam int unsigned WqeBytes = 128;
  localparam int unsigned WqeHeadBytes = 64;
  /// A segment: its address 8, key 4, length 4.
  localparam int unsigned SegmentBytes = 16;
  /// Segments of a send queue's entry; all but the first one in its second half.
  localparam int unsigned MaxSegments = 5;
  /// Those of a datagram: the last one is where other requests have the remote address and key.
  localparam int unsigned MaxUdSegments = 6;
  localparam int unsigned CqeBytes = 32;
  /// Shared receive queues, and bits of an entry's place in one.
  localparam int unsigned Srqs = 16;
  localparam int unsigned SrqW = 4;
  localparam int unsigned PlaceW = 16;
  /// Segments of a shared receive queue's entry that has several. Behind them is the place of the next entry.
  localparam int unsigned SrqSegments = 3;
  localparam int unsigned LinkBytes = 8;
  localparam int unsigned MaxInline = 64;

  // ---- Ports to a shell -------------------------------------------------------------------------
  // Who reads host memory. Answers to one cookie come in the order of its requests.
  localparam logic [2:0] ReadWqe = 3'd0;
  localparam logic [2:0] ReadPayload = 3'd1;
  localparam logic [2:0] ReadRx = 3'd2;
  localparam logic [2:0] ReadTable = 3'd4;  // 4 to 7

  /// A DMA read, which crosses no 4 KB.
  typedef struct packed {
    logic [63:0] addr;
    logic [12:0] bytes;
    logic [2:0]  cookie;
  } rd_req_t;

  /// An answer's beat: the first byte asked for is in the low lane of the first beat.
  typedef struct packed {
    logic [63:0] data;
    logic [2:0]  cookie;
    logic        last;
    logic        bad;     // the host could not answer
  } rd_data_t;

  /// A DMA write, which crosses no 4 KB. Its data follow, the first byte in the low lane.
  typedef struct packed {
    logic [63:0] addr;
    logic [12:0] bytes;
  } wr_req_t;

  // ---- Work requests ----------------------------------------------------------------------------
  typedef enum logic [7:0] {
    WrSend        = 8'd0,
    WrSendImm     = 8'd1,
    WrSendInv     = 8'd2,
    WrWrite       = 8'd3,
    WrWriteImm    = 8'd4,
    WrRead        = 8'd5,
    WrCompareSwap = 8'd6,
    WrFetchAdd    = 8'd7
    // 8: bind a memory window; 9: typed transfers; 10: placement. They have their place in wqe_t.
  } wr_e;

  /// The first half of a send queue's entry, little-endian words from the bottom. The second half
  /// has inline data, or the segments behind the first one.
  typedef struct packed {
    // The lower half has the bytes of the first segment if there are more. Else reserved: address of a
    // datatype's or placement's descriptor.
    logic [63:0] descriptor;
    logic [63:0] compare;     // compare-and-swap; UD: {0, destination MAC}
    logic [63:0] swap;        // swap or add; UD: {destination IP, Q_Key}
    logic [31:0] type_id;     // reserved: datatype at the peer; UD: destination QP
    logic [31:0] lkey;
    logic [63:0] laddr;
    logic [31:0] length;
    logic [31:0] rkey;
    logic [63:0] raddr;
    logic [31:0] imm;         // immediate, or the key to invalidate
    logic [15:0] reserved;
    logic        fence;       // not before READs and atomics have come back
    logic        flag;        // reserved
    logic [2:0]  more;        // segments behind the first one
    logic        in_line;
    logic        solicited;
    logic        signaled;
    logic [7:0]  op;
  } wqe_t;

  /// A segment of a receive queue's entry, which has 1, 2 or 4.
  typedef struct packed {
    logic [31:0] length;
    logic [31:0] lkey;
    logic [63:0] addr;
  } rqe_t;

  // ---- Completions ------------------------------------------------------------------------------
  // The numbers are those of verbs (ibv_wc_status).
  typedef enum logic [7:0] {
    StSuccess      = 8'd0,
    StLocalLength  = 8'd1,
    StLocalQpOp    = 8'd2,
    StLocalProt    = 8'd4,
    StFlushed      = 8'd5,
    StBadResponse  = 8'd7,
    StRemInvalid   = 8'd9,
    StRemAccess    = 8'd10,
    StRemOperation = 8'd11,
    StRetry        = 8'd12,
    StRnrRetry     = 8'd13
  } status_e;

  /// An entry of a completion queue; the top bit alternates with each turn of the queue.
  typedef struct packed {
    logic        owner;
    logic [54:0] reserved2;
    status_e     status;
    logic [31:0] key;        // that the peer invalidated; UD: the sender's IP address
    logic        has_inv;
    logic        has_imm;
    logic        is_recv;
    logic [4:0]  reserved1;
    logic [7:0]  op;
    logic [15:0] index;      // of the work request's entry
    logic [15:0] reserved0;
    logic [23:0] src_qpn;    // UD
    logic [23:0] qpn;
    logic [31:0] imm;
    logic [31:0] bytes;
  } cqe_t;

  typedef struct packed {
    logic [CqW-1:0] cq;
    logic           solicited;
    cqe_t           cqe;
  } completion_t;

  // ---- Memory regions ---------------------------------------------------------------------------
  typedef struct packed {
    logic remote_atomic;
    logic remote_read;
    logic remote_write;
    logic local_write;
  } rights_t;

  /// A key is {index, tag}.
  typedef struct packed {
    logic        valid;
    logic        window;       // reserved: a memory window
    rights_t     rights;
    logic [1:0]  page;         // 4 KB, 64 KB, 2 MB, 1 GB
    logic [7:0]  tag;
    logic [15:0] pd;
    logic [63:0] base;
    logic [47:0] length;
    logic [31:0] first_entry;  // of the translation table
  } region_t;

  /// May these bytes be touched, and where are they?
  typedef struct packed {
    logic [31:0] key;
    logic [15:0] pd;
    logic [63:0] va;
    logic [31:0] bytes;
    rights_t     need;
    logic        translate;  // else only the question whether they may
  } access_t;

  typedef struct packed {
    logic [1:0]  id;
    logic        ok;
    logic [63:0] pa;
  } answer_t;

  function automatic logic [4:0] page_log2(logic [1:0] page);
    unique case (page)
      2'd0: return 5'd12;
      2'd1: return 5'd16;
      2'd2: return 5'd21;
      default: return 5'd30;
    endcase
  endfunction

  // ---- Queue pairs ------------------------------------------------------------------------------
  typedef enum logic [2:0] {
    QpReset = 3'd0,
    QpInit  = 3'd1,
    QpRtr   = 3'd2,
    QpRts   = 3'd3,
    QpError = 3'd6
  } qp_state_e;

  /// What the host sets.
  typedef struct packed {
    logic [10:0]     reserved5;
    logic            has_srq;      // receives from this one, not from a queue of its own
    logic [SrqW-1:0] srq;
    logic [47:0]     mac;
    logic [31:0]     qkey;
    logic [31:0]     ip;
    logic [63:0]     rq_base;
    logic [63:0]     sq_base;
    logic [15:0]     port;
    logic [3:0]      rq_log2;
    logic [3:0]      sq_log2;
    logic [1:0]      rq_segments;  // log2 of a receive queue's entry's, 0..2
    logic [CqW-1:0]  rcq;
    logic [1:0]      reserved3;
    logic [CqW-1:0]  scq;
    logic [23:0]     dqpn;
    logic [15:0]     pd;
    logic [3:0]      rd_atomic;    // READs and atomics under way, 1..4
    logic [3:0]      rights;       // rights_t of the peer
    logic [2:0]      reserved1;
    logic [4:0]      min_rnr;
    logic            reserved0;
    logic [2:0]      rnr_retry;    // 7: for ever
    logic            reserved7;
    logic [2:0]      retry;
    logic [2:0]      reserved6;
    logic [4:0]      timeout;      // 4.096 us * 2^n; 0: none
    logic            reserved8;
    logic [2:0]      mtu;          // 1: 256 ... 5: 4096
    logic            ud;
    logic [2:0]      state;        // qp_state_e
    logic [1:0]      reserved2;
    logic [5:0]      page;         // of doorbells
  } cfg_t;

  /// What the host sets of a shared receive queue.
  typedef struct packed {
    logic [15:0] limit;      // an event when fewer are left; 0: none
    logic [15:0] pd;
    logic [9:0]  reserved1;
    logic [5:0]  page;       // of doorbells
    logic [6:0]  reserved0;
    logic        used;
    logic [2:0]  reserved2;
    logic        listed;     // entries of SrqSegments, else of one segment
    logic [3:0]  log2;       // of its places
    logic [63:0] base;
  } srq_cfg_t;

  /// The next entry of a shared receive queue.
  typedef struct packed {
    logic              empty;   // there is none
    logic              listed;
    logic [15:0]       pd;
    logic [PlaceW-1:0] place;
    logic [63:0]       addr;
  } srq_t;

  typedef enum logic [1:0] {
    NoMessage,
    InSend,
    InWrite
  } message_e;

  /// What the engine keeps of a QP.
  typedef struct packed {
    // Requester. PSNs from una to max wait for their end; the WQE at sq_una began with una_first, the
    // one at sq_next with next_first.
    logic        error;
    logic [15:0] sq_una;
    logic [15:0] sq_next;
    logic [23:0] una_psn;
    logic [23:0] una_first;
    logic [23:0] next_psn;
    logic [23:0] next_first;
    logic [23:0] max_psn;
    logic [2:0]  retries;
    logic [2:0]  rnr_retries;
    logic        rnr_wait;
    logic        rewound;      // since the last progress
    logic [3:0]  reads;        // under way, atomics too
    logic [31:0] deadline;     // us
    // Responder.
    logic [23:0] epsn;
    logic [23:0] msn;
    logic [15:0] rq_next;
    logic [1:0]  message;      // message_e
    logic        nak_sent;
    logic        has_rqe;
    logic [63:0] va;           // where the message goes on
    logic [31:0] key;
    logic [31:0] left;         // bytes: of the WRITE; of the receive buffer
    logic [31:0] got;          // bytes so far
    logic [2:0]  replays;      // results of atomics kept
    logic [1:0]  replay_next;
  } ctx_t;

  /// A request on the wire, by {QP, low bits of its index}.
  typedef struct packed {
    logic [7:0]  op;
    logic        signaled;
    logic [2:0]  more;      // a READ's segments behind the first one: in the entry
    logic [23:0] last_psn;
    logic [63:0] laddr;
    logic [31:0] lkey;
    logic [31:0] length;
  } sent_t;

  typedef struct packed {
    logic [23:0] psn;
    logic [63:0] value;
  } replay_t;

  /// What a responder owes.
  typedef enum logic [1:0] {
    OweAck,
    OweRead,
    OweAtomic
  } owe_e;

  typedef struct packed {
    owe_e           kind;
    logic [QpW-1:0] qp;
    logic [23:0]    psn;
    logic [23:0]    msn;
    logic [7:0]     syndrome;
    logic [63:0]    va;        // READ; atomic: the value before
    logic [31:0]    key;
    logic [31:0]    length;
  } owe_t;

  // ---- AETH -------------------------------------------------------------------------------------
  /// Acknowledged, without a word on credits.
  localparam logic [7:0] SynAck = 8'h1F;
  localparam logic [2:0] SynRnr = 3'b001;
  localparam logic [7:0] SynNakSequence = 8'h60;
  localparam logic [7:0] SynNakInvalid = 8'h61;
  localparam logic [7:0] SynNakAccess = 8'h62;
  localparam logic [7:0] SynNakOperation = 8'h63;

  /// The time that an RNR NAK asks for, us (table 45 of the specification).
  function automatic logic [31:0] rnr_us(logic [4:0] code);
    if (code == '0) return 32'd655_360;
    if (code == 5'd1) return 32'd10;
    return (code[0] ? 32'd15 : 32'd10) << code[4:1];
  endfunction

  /// The time-out, us; 4.096 is taken for 4 and a bit more.
  function automatic logic [31:0] timeout_us(logic [4:0] code);
    return (32'd4 << code) + (32'd1 << code >> 3);
  endfunction

  // ---- Arithmetic -------------------------------------------------------------------------------
  function automatic logic [3:0] mtu_log2(logic [2:0] code);
    return 4'd7 + 4'(code);
  endfunction

  function automatic logic [12:0] mtu_bytes(logic [2:0] code);
    return 13'd128 << code;
  endfunction

  /// Packets of a message, 1 at least.
  function automatic logic [23:0] packets(logic [31:0] length, logic [2:0] code);
    logic [32:0] rounded;
    rounded = (33'(length) + 33'(mtu_bytes(code)) - 33'd1) >> mtu_log2(code);
    return length == '0 ? 24'd1 : rounded[23:0];
  endfunction

  /// a is before b, both 24-bit sequence numbers.
  function automatic logic is_before(logic [23:0] a, logic [23:0] b);
    logic [23:0] difference;
    difference = a - b;
    return difference[23];
  endfunction

  function automatic logic is_read_or_atomic(logic [7:0] op);
    return op inside {WrRead, WrCompareSwap, WrFetchAdd};
  endfunction

  /// The requester sends from una_psn on again.
  function automatic ctx_t rewind(ctx_t c);
    rewind            = c;
    rewind.sq_next    = c.sq_una;
    rewind.next_psn   = c.una_psn;
    rewind.next_first = c.una_first;
    rewind.reads      = '0;
  endfunction

  // ---- Counters ---------------------------------------------------------------------------------
  typedef enum logic [4:0] {
    CntRxOther,
    CntRxBroken,
    CntRxMalformed,
    CntRxOverflow,
    CntRxPacket,
    CntRxNoQp,
    CntRxDuplicate,
    CntRxSequence,
    CntRxInvalid,
    CntRxAccess,
    CntRxOperation,
    CntRxNotReady,
    CntRxGhost,
    CntRxCongestion,
    CntAccessDenied,
    CntTableMiss,
    CntTableFault,
    CntTxPacket,
    CntTxRewind,
    CntTxTimeout,
    CntTxBadWqe,
    CntCqe,
    CntCqeError,
    CntCqOverflow,
    CntDoorbell,
    CntDoorbellRefused,
    CntInlineTaken,
    CntReadBad
  } counter_e;
  localparam int unsigned Counters = 28;
  // verilator lint_on UNUSEDPARAM
endpackage
