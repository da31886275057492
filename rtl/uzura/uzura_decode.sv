// SPDX-License-Identifier: Apache-2.0
// What an opcode means.
//
// Latency : none, combinational.
// Source  : InfiniBand Architecture Specification, table 38.
module uzura_decode
  import uzura_pkg::*;
(
  input  logic [7:0] opcode_i,
  output logic       send_o,
  output logic       write_o,
  output logic       read_o,
  output logic       atomic_o,
  /// Of a SEND or WRITE: both are set in one that has a single packet.
  output logic       first_o,
  output logic       last_o,
  output logic       imm_o,
  output logic       inv_o,
  output logic       response_o,
  output logic       read_response_o,
  output logic       ud_o
);
  assign ud_o = opcode_i inside {UdSendOnly, UdSendOnlyImm};
  assign send_o = opcode_i <= RcSendOnlyImm || opcode_i inside {RcSendLastInv, RcSendOnlyInv};
  assign write_o = opcode_i inside {[RcWriteFirst : RcWriteOnlyImm]};
  assign read_o = opcode_i == RcReadRequest;
  assign atomic_o = opcode_i inside {RcCompareSwap, RcFetchAdd};
  assign first_o = opcode_i inside {RcSendFirst, RcSendOnly, RcSendOnlyImm, RcSendOnlyInv,
                                    RcWriteFirst, RcWriteOnly, RcWriteOnlyImm};
  assign last_o = opcode_i inside {RcSendLast, RcSendLastImm, RcSendLastInv, RcSendOnly,
                                   RcSendOnlyImm, RcSendOnlyInv, RcWriteLast, RcWriteLastImm,
                                   RcWriteOnly, RcWriteOnlyImm};
  assign imm_o = opcode_i inside {RcSendLastImm, RcSendOnlyImm, RcWriteLastImm, RcWriteOnlyImm,
                                  UdSendOnlyImm};
  assign inv_o = opcode_i inside {RcSendLastInv, RcSendOnlyInv};
  assign read_response_o = opcode_i inside {[RcReadResponseFirst : RcReadResponseOnly]};
  assign response_o = opcode_i inside {[RcReadResponseFirst : RcAtomicAcknowledge]};
endmodule
