// SPDX-License-Identifier: Apache-2.0
// What passes between the modules of the TCP offload engine.
//
// Source : RFC 791, RFC 2018, RFC 7323, RFC 9293 for the layouts; docs/toe.md for the rest.
package toe_pkg;

  // When a segment whose payload result has come changes its connection.
  typedef enum logic [2:0] {
    Single,           // arrival order; meant for one analyzer
    Naive,            // order of completion, segments out of order are dropped
    NaiveReassembly,  // order of completion, with reassembly
    Counter,          // when as many payload results as headers have come; one bad one discards all
    Epoch             // arrival order, an epoch of K segments at a time; a bad one leaves a hole
  } policy_e;

  localparam int unsigned EthBytes = 14;
  localparam int unsigned FcsBytes = 4;
  /// Of a frame, with its FCS.
  localparam int unsigned MinFrame = 64;
  localparam int unsigned IpBytes = 20;
  localparam int unsigned TcpOffset = EthBytes + IpBytes;
  localparam int unsigned OptOffset = TcpOffset + 20;
  localparam int unsigned OptBytes = 40;
  /// Ethernet, IPv4 without options, TCP with all the options it can have.
  localparam int unsigned HeaderBytes = OptOffset + OptBytes;
  localparam int unsigned SackBlocks = 4;

  localparam logic [15:0] EtherTypeIp = 16'h0800;
  localparam logic [7:0] ProtocolTcp = 8'd6;

  localparam logic [7:0] OptEnd = 8'd0;
  localparam logic [7:0] OptNop = 8'd1;
  localparam logic [7:0] OptMss = 8'd2;
  localparam logic [7:0] OptScale = 8'd3;
  localparam logic [7:0] OptSackOk = 8'd4;
  localparam logic [7:0] OptSack = 8'd5;
  localparam logic [7:0] OptTimes = 8'd8;

  typedef logic [7:0] tag_t;  // slot of a frame in the scoreboard
  typedef logic [15:0] word_t;  // address of a word of the network buffer
  typedef logic [14:0] bytes_t;
  typedef logic [31:0] seq_t;

  // A beat as the network buffer hands it out.
  typedef struct packed {
    logic        bad;    // with last: the MAC saw an error, or the frame is too long
    logic        last;
    logic [3:0]  bytes;  // 1..8
    logic [63:0] data;   // first byte on the wire in the low bits
  } beat_t;

  // Where an option begins, counted from the first byte of the options.
  typedef struct packed {
    logic       valid;
    logic [5:0] pos;
  } option_t;

  typedef struct packed {
    option_t mss;
    option_t scale;
    option_t sack_ok;
    option_t sack;
    option_t times;
    logic    bad;      // an impossible length; what stands before it counts
  } options_t;

  // A header as an analyzer emits it.
  typedef struct packed {
    tag_t                        tag;
    word_t                       addr;     // of the frame
    logic                        short_;   // the frame has ended, before what its header says
    logic                        ip_ok;    // checksum of the IPv4 header
    options_t                    options;
    logic [HeaderBytes-1:0][7:0] bytes;    // byte 0 came first
  } raw_header_t;

  // Bits of a TCP header's flags.
  typedef struct packed {
    logic cwr;
    logic ece;
    logic urg;
    logic ack;
    logic psh;
    logic rst;
    logic syn;
    logic fin;
  } flags_t;

  // Sequence numbers from first to the one before behind.
  typedef struct packed {
    seq_t first;
    seq_t behind;
  } block_t;

  typedef struct packed {
    logic                    mss_valid;
    logic [15:0]             mss;
    logic                    scale_valid;
    logic [3:0]              scale;        // 14 at most
    logic                    sack_ok;
    logic                    times_valid;
    logic [31:0]             time_value;
    logic [31:0]             time_echo;
    logic [2:0]              blocks;
    block_t [SackBlocks-1:0] sack;
  } values_t;

  // A header as the controller uses it.
  typedef struct packed {
    tag_t        tag;
    word_t       addr;
    logic        tcp;       // all that is known so far is right
    logic [47:0] src_mac;
    logic [47:0] dst_mac;
    logic [31:0] src_ip;
    logic [31:0] dst_ip;
    logic [15:0] src_port;
    logic [15:0] dst_port;
    seq_t        seq;
    seq_t        ack;
    flags_t      flags;
    logic [15:0] window;
    bytes_t      offset;    // of the payload in the frame
    bytes_t      bytes;     // of payload
    values_t     values;
  } header_t;

  // The end of an analysis.
  typedef struct packed {
    tag_t tag;
    logic ok;
  } result_t;

  /// Add the complete words of 16 bits of a beat, first byte the more significant.
  function automatic logic [31:0] add_halves(logic [31:0] sum, logic [63:0] data);
    logic [31:0] out;
    out = sum;
    for (int unsigned i = 0; i < 4; i++) begin
      out += {16'd0, data[16*i+:8], data[16*i+8+:8]};
    end
    return out;
  endfunction

  /// The ones' complement sum of a sum.
  function automatic logic [15:0] fold(logic [31:0] sum);
    logic [16:0] once;
    once = {1'b0, sum[15:0]} + {1'b0, sum[31:16]};
    return once[15:0] + {15'd0, once[16]};
  endfunction

  // ---- Connections -------------------------------------------------------------------------------
  // Listening is no state of a connection here: ports listen.
  typedef enum logic [3:0] {
    Closed,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait
  } state_e;

  typedef logic [31:0] us_t;  // microseconds
  typedef logic [9:0] conn_id_t;

  localparam int unsigned Gaps = 4;

  typedef struct packed {
    state_e            state;
    logic              passive;
    logic [47:0]       mac;
    logic [31:0]       ip;
    logic [15:0]       peer_port;
    logic [15:0]       local_port;
    // Received, verified and placed.
    seq_t              rcv_nxt;
    seq_t              rcv_read;     // what the application has taken
    block_t [Gaps-1:0] gaps;         // behind holes; the latest first
    logic [Gaps-1:0]   gap_valid;
    seq_t              last_ack;
    logic [1:0]        owed;         // segments since the last acknowledgement
    us_t               owed_since;
    // Options of both sides.
    logic              times_ok;
    us_t               time_recent;
    logic              sack_ok;
    logic              scale_ok;
    logic [3:0]        snd_scale;
    logic [15:0]       mss;
    // Sent.
    seq_t              snd_una;
    seq_t              snd_nxt;
    seq_t              snd_max;
    seq_t              snd_end;      // behind what the application gave
    logic              fin_out;      // a FIN follows snd_end
    logic [31:0]       snd_wnd;
    seq_t              wl1;
    seq_t              wl2;
    // Congestion, RFC 5681 and RFC 6582.
    logic [31:0]       cwnd;
    logic [31:0]       ssthresh;
    seq_t              recover;
    logic [1:0]        dups;
    logic              recovering;
    // RFC 6298.
    logic              timer_on;
    us_t               timer_at;
    us_t               rto;
    us_t               srtt;
    us_t               rttvar;
    logic              measured;
    logic              timing;
    seq_t              timed_seq;
    us_t               timed_at;
    logic [3:0]        tries;
  } conn_t;

  // What is to be sent for a connection, beside what its window lets out.
  typedef struct packed {
    logic ack;     // an acknowledgement, even if nothing else goes
    logic resend;  // the first segment that is not acknowledged
    logic reset;
    logic probe;   // a byte against a window of zero
  } want_t;

  typedef enum logic [2:0] {
    Listen,
    Unlisten,
    Connect,
    Close,
    Abort,
    Read,      // the application has taken `amount` bytes
    Write      // it has put `amount` bytes behind snd_end
  } command_e;

  typedef struct packed {
    command_e    kind;
    conn_id_t    conn;
    logic [47:0] mac;
    logic [31:0] ip;
    logic [15:0] peer_port;
    logic [15:0] local_port;
    logic [31:0] amount;
  } command_t;

  // A connection as the application sees it now.
  typedef struct packed {
    conn_id_t    conn;
    state_e      state;
    logic        opened;      // it is established
    logic        reset;       // the peer's or ours, or it was given up
    seq_t        rcv_nxt;     // received, in order, verified, and in memory
    seq_t        snd_una;
    // As the application's Read commands left it: with `opened` the number of the first byte.
    seq_t        rcv_read;
    logic [15:0] local_port;
    logic [15:0] peer_port;
    logic [31:0] peer_ip;
  } event_t;

  // When the first of all timers is due.
  typedef struct packed {
    logic armed;
    us_t  at;
  } alarm_t;

  // Payload from the network buffer to the receive buffer, and what is said when it is there.
  typedef struct packed {
    logic   slot;    // a slot is released by it
    tag_t   tag;
    word_t  addr;    // of the frame
    bytes_t offset;  // in the frame
    bytes_t bytes;   // 0: nothing to place
    seq_t   seq;     // of the first byte
    logic   tell;
    event_t event_;
  } place_t;

  // A word for a receive buffer.
  typedef struct packed {
    conn_id_t    conn;
    logic [28:0] word;  // sequence number / 8
    logic [63:0] data;
    logic [7:0]  strb;
  } mem_write_t;

  // Reasons for which a segment was not taken, and other things worth a counter; pulses.
  typedef struct packed {
    logic bad;        // checksum, or discarded with one
    logic foreign;    // not TCP over IPv4 for this address
    logic orphan;     // no connection
    logic flooded;    // a SYN beyond the limit
    logic paws;
    logic challenge;
    logic no_gap;
    logic timeout;
    logic refused;    // a command that can't be done
  } counts_t;

  // A segment to send.
  typedef struct packed {
    logic [47:0]       mac;
    logic [31:0]       ip;
    logic [15:0]       peer_port;
    logic [15:0]       local_port;
    conn_id_t          conn;
    seq_t              seq;
    seq_t              ack;
    flags_t            flags;
    logic [15:0]       window;
    logic              mss_valid;
    logic [15:0]       mss;
    logic              scale_valid;
    logic [3:0]        scale;
    logic              sack_ok;
    logic              times_valid;
    us_t               time_value;
    us_t               time_echo;
    logic [Gaps-1:0]   sack_valid;
    block_t [Gaps-1:0] sack;
    bytes_t            bytes;        // of payload
  } order_t;

  /// How many blocks a selective acknowledgement has.
  function automatic logic [2:0] blocks(logic [Gaps-1:0] valid);
    logic [2:0] out;
    out = '0;
    for (int unsigned i = 0; i < Gaps; i++) out += 3'(valid[i]);
    return out;
  endfunction

  /// Words of 4 bytes of a segment's options.
  function automatic logic [3:0] option_words(order_t order);
    return 4'(order.mss_valid) + 4'(order.scale_valid) + 4'(order.sack_ok) +
        (order.times_valid ? 4'd3 : 4'd0) +
        (order.sack_valid != '0 ? 4'd1 + {blocks(order.sack_valid), 1'b0} : 4'd0);
  endfunction

  /// Whether a sequence number is before another.
  function automatic logic precedes(seq_t a, seq_t b);
    seq_t distance;
    distance = a - b;
    return distance[31];
  endfunction

endpackage
