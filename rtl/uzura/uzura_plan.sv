// SPDX-License-Identifier: Apache-2.0
// The next packet of a work request.
//
// Latency : none, combinational.
// Source  : InfiniBand Architecture Specification, 9.4 and 9.7.
module uzura_plan
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
(
  input  wqe_t              wqe_i,
  input  cfg_t              cfg_i,
  input  ctx_t              ctx_i,
  input  logic    [QpW-1:0] qp_i,
  /// The request is none that the engine can do.
  output logic              bad_op_o,
  output logic              bad_length_o,
  output packet_t           packet_o,
  output logic              last_o,
  /// PSNs that it takes, and those of the whole request.
  output logic    [   23:0] psns_o,
  output logic    [   23:0] last_psn_o,
  /// What host memory is touched: the payload's, or where the answer will go.
  output access_t           access_o,
  output logic              touch_o,
  /// They lie in several segments, from this byte of them on.
  output logic              listed_o,
  output logic    [   31:0] offset_o
);
  logic [23:0] done, all;
  logic [31:0] offset, rest;
  logic [12:0] mtu, bytes;
  logic send, write, read, atomic, imm, inv, first, last;

  assign send = wqe_i.op inside {WrSend, WrSendImm, WrSendInv};
  assign write = wqe_i.op inside {WrWrite, WrWriteImm};
  assign read = wqe_i.op == WrRead;
  assign atomic = wqe_i.op inside {WrCompareSwap, WrFetchAdd};
  assign imm = wqe_i.op inside {WrSendImm, WrWriteImm};
  assign inv = wqe_i.op == WrSendInv;
  assign mtu = mtu_bytes(cfg_i.mtu);

  assign done = ctx_i.next_psn - ctx_i.next_first;
  assign all = atomic ? 24'd1 : packets(wqe_i.length, cfg_i.mtu);
  assign offset = 32'(done) << mtu_log2(cfg_i.mtu);
  assign rest = wqe_i.length - offset;
  assign first = done == '0;
  assign last = read || atomic || rest <= 32'(mtu);
  assign bytes = read || atomic ? '0 : last ? rest[12:0] : mtu;

  assign bad_op_o = !(send || write || read || atomic) || (wqe_i.in_line && !(send || write)) ||
      (wqe_i.more != '0 && (wqe_i.in_line || atomic)) ||
      wqe_i.more >= (cfg_i.ud ? 3'(MaxUdSegments) : 3'(MaxSegments)) ||
      (cfg_i.ud && !(wqe_i.op inside {WrSend, WrSendImm}));
  assign bad_length_o = wqe_i.length[31] || (wqe_i.in_line && wqe_i.length > 32'(MaxInline)) ||
      (cfg_i.ud && wqe_i.length > 32'(mtu)) || (atomic && wqe_i.length != 32'd8);

  always_comb begin
    packet_o           = '0;
    packet_o.path      = '{mac: cfg_i.mac, ip: cfg_i.ip, port: cfg_i.port};
    packet_o.qpn       = cfg_i.dqpn;
    packet_o.psn       = ctx_i.next_psn;
    packet_o.bytes     = bytes;
    packet_o.solicited = wqe_i.solicited && last && !cfg_i.ud;
    // The window needs word now and then.
    packet_o.ack_req   = !cfg_i.ud && (last || ctx_i.next_psn[3:0] == '1);
    packet_o.va        = wqe_i.raddr + 64'(offset);
    packet_o.key       = wqe_i.rkey;
    packet_o.length    = read ? rest : wqe_i.length;
    packet_o.swap      = wqe_i.swap;
    packet_o.compare   = wqe_i.op == WrCompareSwap ? wqe_i.compare : '0;
    packet_o.imm       = wqe_i.imm;
    priority case (1'b1)
      cfg_i.ud: begin
        packet_o.opcode    = imm ? UdSendOnlyImm : UdSendOnly;
        packet_o.path.mac  = wqe_i.compare[47:0];
        packet_o.path.ip   = wqe_i.swap[63:32];
        packet_o.qpn       = wqe_i.type_id[23:0];
        packet_o.key       = wqe_i.swap[31:0];
        packet_o.length    = 32'(qp_i);
        packet_o.solicited = wqe_i.solicited;
      end
      read:   packet_o.opcode = RcReadRequest;
      atomic: packet_o.opcode = wqe_i.op == WrCompareSwap ? RcCompareSwap : RcFetchAdd;
      write: begin
        unique case ({
          first, last
        })
          2'b11:   packet_o.opcode = imm ? RcWriteOnlyImm : RcWriteOnly;
          2'b10:   packet_o.opcode = RcWriteFirst;
          2'b01:   packet_o.opcode = imm ? RcWriteLastImm : RcWriteLast;
          default: packet_o.opcode = RcWriteMiddle;
        endcase
      end
      default: begin
        unique case ({
          first, last
        })
          2'b11:   packet_o.opcode = imm ? RcSendOnlyImm : inv ? RcSendOnlyInv : RcSendOnly;
          2'b10:   packet_o.opcode = RcSendFirst;
          2'b01:   packet_o.opcode = imm ? RcSendLastImm : inv ? RcSendLastInv : RcSendLast;
          default: packet_o.opcode = RcSendMiddle;
        endcase
      end
    endcase
  end

  assign last_o = last;
  assign psns_o = read ? all - done : 24'd1;
  assign last_psn_o = ctx_i.next_first + all - 24'd1;
  assign access_o = '{
          key: wqe_i.lkey,
          pd: cfg_i.pd,
          va: read || atomic ? wqe_i.laddr : wqe_i.laddr + 64'(offset),
          bytes: atomic ? 32'd8 : read ? wqe_i.length : 32'(bytes),
          need: read || atomic ? 4'b0001 : 4'b0000,
          translate: !(read || atomic)
      };
  assign touch_o = !wqe_i.in_line && access_o.bytes != '0;
  assign listed_o = wqe_i.more != '0;
  assign offset_o = read ? '0 : offset;
  logic unused;
  assign unused = ^{cfg_i, ctx_i, wqe_i};
endmodule
