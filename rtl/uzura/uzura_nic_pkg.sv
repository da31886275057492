// SPDX-License-Identifier: Apache-2.0
// What passes between the modules around the UZURA engine that make a NIC of it, the NIC's own registers,
// and the headers of its TLPs.
//
// Source : docs/uzura.md; PCI Express Base 2.0, 2.2.
package uzura_nic_pkg;
  // A package is used in part.
  // verilator lint_off UNUSEDPARAM

  // ---- DMA --------------------------------------------------------------------------------------
  /// Counts writes for the order of reads and writes, wrapping.
  localparam int unsigned OrderW = 16;
  /// A write's TLP holds no more than this, and crosses no multiple of it: what every root complex takes.
  localparam int unsigned ChunkBytes = 128;
  /// Most of a read's TLP, and its area in the buffer.
  localparam int unsigned PieceBytes = 512;
  localparam int unsigned PieceWords = PieceBytes / 8;

  /// A read with its place behind writes.
  typedef struct packed {
    logic [63:0]       addr;
    logic [12:0]       bytes;
    logic [2:0]        cookie;
    logic [OrderW-1:0] behind;  // TLPs of writes that must have left
  } read_t;

  /// Part of a read that has come: bytes of one area of the buffer.
  typedef struct packed {
    logic [3:0] slot;
    logic [8:0] offset;
    logic [9:0] bytes;
    logic [2:0] cookie;
    logic       last;    // of its read
    logic       bad;
  } piece_t;

  /// A write of one TLP, or word that an armed completion queue has something.
  typedef struct packed {
    logic        is_event;
    logic [63:0] addr;
    logic [7:0]  bytes;     // 1..128
    logic [15:0] word;      // of the buffer: that of the address
  } chunk_t;

  /// A store to a doorbell page.
  typedef struct packed {
    logic [17:0] addr;
    logic [63:0] data;
  } door_t;

  // ---- Registers of BAR 0 -------------------------------------------------------------------------
  // Below 0x1000: the engine's, in the network's clock. Behind them: the NIC's own.
  localparam logic [22:0] RegId = 23'h1000;
  localparam logic [22:0] RegVersion = 23'h1004;
  localparam logic [22:0] RegStatus = 23'h1008;
  localparam logic [22:0] RegMsiAddressLo = 23'h1010;
  localparam logic [22:0] RegMsiAddressHi = 23'h1014;
  localparam logic [22:0] RegMsiData = 23'h1018;
  localparam logic [22:0] RegMsiModerationUs = 23'h101C;
  localparam logic [22:0] RegInterrupt = 23'h1020;
  localparam logic [22:0] RegReadTimeoutUs = 23'h1024;
  localparam logic [22:0] RegMaxRead = 23'h1028;
  localparam logic [31:0] IdValue = 32'h525A_554E;  // "NUZR"
  localparam logic [31:0] VersionValue = 32'h0001_0000;
  localparam logic [31:0] ReadTimeoutUsReset = 32'd50_000;
  localparam logic [11:0] CounterPage = 12'h002;

  /// Counters of the PCIe side, at 0x2000.
  typedef enum logic [3:0] {
    CntTlpRegisterWrite,
    CntTlpRegisterRead,
    CntTlpCompletion,
    CntTlpCompletionUnexpected,
    CntTlpUnsupported,
    CntTlpPoisoned,
    CntTlpMalformed,
    CntTlpPageBeyond,
    CntRegisterRefused,
    CntStoreRefused,
    CntDmaReadTimeout,
    CntDmaReadFailed,
    CntDmaRead,
    CntDmaWrite,
    CntMsi
  } pcie_counter_e;
  localparam int unsigned PcieCounters = 15;

  // ---- TLPs ---------------------------------------------------------------------------------------
  /// The first two DWs of a memory request: byte enables, tag, requester, length, type.
  function automatic logic [63:0] request_start(logic [7:0] fmt_type, logic [9:0] length,
                                                logic [15:0] requester, logic [7:0] tag,
                                                logic [3:0] last_be, logic [3:0] first_be);
    return {
      last_be,
      first_be,
      tag,
      requester[7:0],
      requester[15:8],
      length[7:0],
      6'd0,
      length[9:8],
      8'd0,
      fmt_type
    };
  endfunction

  /// Byte enables of the DWs at the ends of a run of bytes: {last, first}; the last is 0 if it is the first.
  function automatic logic [7:0] run_enables(logic one_dw, logic [1:0] first, logic [1:0] behind);
    logic [3:0] from_first, to_last;
    from_first = 4'hF << first;
    to_last    = behind == '0 ? 4'hF : ~(4'hF << behind);
    return one_dw ? {4'h0, from_first & to_last} : {to_last, from_first};
  endfunction
  // verilator lint_on UNUSEDPARAM
endpackage
