// SPDX-License-Identifier: Apache-2.0
// Vocabulary of the RFC 2544 instrument: the test frame, settings, results, register addresses.
//
// Test frame, behind the UDP header: mark (1 byte), stream (1), sequence number (6), time stamp (6),
// then the filler: blocks of 8 bytes, a 32-bit counter and its complement. The counter begins at
// {stream, sequence number} ^ time stamp, so that a wrong header shows, too. docs/rfc2544.md has
// the tables.
//
// Latency : none, types only.
// Source  : RFC 2544, RFC 1242; the 80 bytes of IPv6 are the dissertation's (table 5.5).
package tester_pkg;
  // A package is used in part.
  // verilator lint_off UNUSEDPARAM

  /// Cycles, and half cycles: a frame may start in lane 4 of an XGMII word.
  localparam int unsigned NowW = 47;
  localparam int unsigned StampW = NowW + 1;
  typedef logic [NowW-1:0] now_t;
  typedef logic [StampW-1:0] stamp_t;
  typedef logic [47:0] seq_t;

  localparam int unsigned Streams = 16;
  localparam int unsigned StreamW = 4;
  localparam int unsigned Bins = 64;
  localparam int unsigned BinW = 6;
  localparam int unsigned ListEntries = 1024;
  localparam int unsigned ListW = 10;
  localparam int unsigned SizeW = 14;
  /// Sequence numbers behind the highest that a stream remembers one by one.
  localparam int unsigned WindowW = 64;

  localparam logic [7:0] Mark = 8'hA7;
  localparam logic [15:0] TypeV4 = 16'h0800;
  localparam logic [15:0] TypeV6 = 16'h86DD;
  localparam logic [7:0] ProtocolUdp = 8'd17;
  localparam logic [7:0] V4VersionIhl = 8'h45;
  localparam logic [15:0] V4DontFragment = 16'h4000;
  /// Fragment offset and "more fragments".
  localparam logic [15:0] V4FragmentMask = 16'h3FFF;

  // Bytes.
  localparam int unsigned EthHeader = 14;
  localparam int unsigned FcsBytes = 4;
  localparam int unsigned UdpHeader = 8;
  localparam int unsigned V4Header = 20;
  localparam int unsigned V6Header = 40;
  localparam int unsigned TestHeader = 14;
  /// Where the filler begins in the frame.
  localparam int unsigned V4Fill = EthHeader + V4Header + UdpHeader + TestHeader;
  localparam int unsigned V6Fill = EthHeader + V6Header + UdpHeader + TestHeader;

  /// What a source sends. Addresses of IPv4 are in the low 32 bits.
  typedef struct packed {
    logic [47:0]        src_mac;   // first byte on the wire on top
    logic [47:0]        dst_mac;
    logic               v6;
    logic [StreamW-1:0] stream;
    logic [7:0]         ttl;
    logic [7:0]         tos;
    logic [SizeW-1:0]   size;      // with FCS
    logic [47:0]        count;     // 0: until stopped
    logic [31:0]        interval;  // 1/256 byte times; 0: line rate
    logic [31:0]        burst;
    logic [127:0]       src_ip;
    logic [127:0]       dst_ip;
    logic [127:0]       step;
    logic [31:0]        sweep;
    logic [15:0]        src_port;
    logic [15:0]        dst_port;
    logic [ListW:0]     list;      // entries in use; 0: sweep
  } source_cfg_t;

  typedef struct packed {
    seq_t        frames;
    logic [63:0] bytes;
    stamp_t      first;
    stamp_t      last;
  } sent_t;

  /// A good frame of a source.
  typedef struct packed {
    logic [StreamW-1:0] stream;
    seq_t               seq;
    stamp_t             arrival;
    stamp_t             latency;
    logic [SizeW-1:0]   size;     // with FCS
    logic               wrong;    // payload or length
  } arrival_t;

  /// What is known of a stream at a receiver.
  typedef struct packed {
    seq_t               frames;
    logic [63:0]        bytes;
    stamp_t             min;
    stamp_t             max;
    logic [63:0]        sum;
    seq_t               lost;
    logic [31:0]        duplicates;
    logic [31:0]        reordered;
    logic [31:0]        stale;
    logic [31:0]        wrong;
    seq_t               next;
    stamp_t             first;
    stamp_t             last;
    logic [WindowW-1:0] window;      // bit i: next - 1 - i has come
  } stream_t;

  typedef struct packed {
    logic               auto_base;
    stamp_t             base;
    logic [5:0]         shift;
    logic [Streams-1:0] streams;
  } histogram_cfg_t;

  localparam int unsigned RegW = 12;
  typedef logic [RegW-1:0] reg_t;

  localparam reg_t RegId = 12'h000;
  localparam reg_t RegBuild = 12'h001;
  localparam reg_t RegControl = 12'h002;
  localparam reg_t RegTime = 12'h003;
  localparam reg_t RegSrcMac = 12'h010;
  localparam reg_t RegDstMac = 12'h011;
  localparam reg_t RegStream = 12'h012;
  localparam reg_t RegSize = 12'h013;
  localparam reg_t RegCount = 12'h014;
  localparam reg_t RegInterval = 12'h015;
  localparam reg_t RegBurst = 12'h016;
  localparam reg_t RegSrcIpHi = 12'h018;
  localparam reg_t RegSrcIpLo = 12'h019;
  localparam reg_t RegDstIpHi = 12'h01A;
  localparam reg_t RegDstIpLo = 12'h01B;
  localparam reg_t RegStepHi = 12'h01C;
  localparam reg_t RegStepLo = 12'h01D;
  localparam reg_t RegSweep = 12'h01E;
  localparam reg_t RegPorts = 12'h01F;
  localparam reg_t RegList = 12'h020;
  localparam reg_t RegTxFrames = 12'h030;
  localparam reg_t RegTxBytes = 12'h031;
  localparam reg_t RegTxFirst = 12'h032;
  localparam reg_t RegTxLast = 12'h033;
  /// Six registers in the order of rx_stat_t from bit 0.
  localparam reg_t RegRxStat = 12'h040;
  localparam reg_t RegRxNotOurs = 12'h046;
  localparam reg_t RegHistBase = 12'h050;
  localparam reg_t RegHistShift = 12'h051;
  localparam reg_t RegHistStreams = 12'h052;
  /// Areas: Bins registers and the two outside them; 16 registers a stream; two a list entry.
  localparam logic [3:0] AreaHistogram = 4'h1;
  localparam logic [3:0] AreaStreams = 4'h2;
  localparam logic AreaList = 1'b1;

  localparam logic [63:0] IdValue = 64'h5246_4332_3534_3400;
  localparam logic [63:0] BaseAuto = 64'h8000_0000_0000_0000;

  // Bits of RegControl.
  localparam int unsigned ControlStart = 0;
  localparam int unsigned ControlStop = 1;
  localparam int unsigned ControlClear = 2;

  typedef enum logic [3:0] {
    StreamFrames,
    StreamBytes,
    StreamMin,
    StreamMax,
    StreamSum,
    StreamLost,
    StreamDuplicates,
    StreamReordered,
    StreamStale,
    StreamWrong,
    StreamNext,
    StreamFirst,
    StreamLast
  } stream_reg_e;
  // verilator lint_on UNUSEDPARAM

  /// Bytes of a word in the order of the wire: the first, on top, goes to the low lane.
  function automatic logic [63:0] wire_order(logic [63:0] word);
    for (int unsigned i = 0; i < 8; i++) wire_order[8*i+:8] = word[8*(7-i)+:8];
  endfunction

  /// Ones' complement sum of a word's four halves and of a sum.
  function automatic logic [31:0] add_halves(logic [31:0] sum, logic [63:0] word);
    add_halves = sum + 32'(word[63:48]) + 32'(word[47:32]) + 32'(word[31:16]) + 32'(word[15:0]);
  endfunction

  /// Carries of a ones' complement sum folded in.
  function automatic logic [15:0] fold(logic [31:0] sum);
    logic [16:0] once;
    once = 17'(sum[31:16]) + 17'(sum[15:0]);
    fold = once[15:0] + 16'(once[16]);
  endfunction

  /// First value of the filler's counter.
  function automatic logic [31:0] fill_base(logic [StreamW-1:0] stream, seq_t seq, stamp_t stamp);
    fill_base = {stream, seq[27:0]} ^ stamp[31:0];
  endfunction
endpackage
