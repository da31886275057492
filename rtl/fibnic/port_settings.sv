// SPDX-License-Identifier: Apache-2.0
// Settings of the ports, written one field at a time.
//
// Latency   : a field written at an edge counts right after it.
// Clock     : clk_i, rst_i synchronous.
// Handshake : writes can't be held up. One to a port or field that is not there does nothing.
// Drops     : never.
// Source    : fibnic_pkg::port_cfg_t has the fields and their bits.
module port_settings
  import fibnic_pkg::*;
#(
  /// Network ports, up to 16.
  parameter int unsigned N = 4,
  /// Longest frame with FCS, bytes: what the MTU is after reset, with its MAC header and FCS.
  parameter int unsigned MaxFrame = 9216
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  input  logic                     wr_valid_i,
  // Words of other memories are wider and have more of them.
  // verilator lint_off UNUSEDSIGNAL
  input  fib_pkg::fib_wr_t         wr_i,
  // verilator lint_on UNUSEDSIGNAL
  output port_cfg_t        [N-1:0] cfg_o
);
  localparam int unsigned EthernetBytes = 14 + 4;  // MAC header and FCS

  port_cfg_t   [N-1:0] cfg_q;
  port_field_e         field;
  logic        [  3:0] port;

  assign cfg_o = cfg_q;
  assign field = port_field_e'(wr_i.addr[PortFieldW-1:0]);
  assign port  = wr_i.addr[PortFieldW+:4];

  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < N; p++) begin
      if (rst_i) begin
        cfg_q[p]        <= '0;
        cfg_q[p].mtu    <= 16'(MaxFrame - EthernetBytes);
        cfg_q[p].police <= PoliceReset;
      end else if (wr_valid_i && wr_i.mem == fib_pkg::MemPort && port == 4'(p)) begin
        unique case (field)
          FieldMac: cfg_q[p].mac <= wr_i.data[47:0];
          FieldMtu: cfg_q[p].mtu <= wr_i.data[15:0];
          FieldVlan:
          {cfg_q[p].tag_out, cfg_q[p].vid_out, cfg_q[p].tag_in, cfg_q[p].vid_in} <= wr_i.data[25:0];
          FieldCheck: {cfg_q[p].check_off, cfg_q[p].check_on, cfg_q[p].check} <= wr_i.data[17:0];
          FieldPolice: cfg_q[p].police <= wr_i.data[$bits(police_t)-1:0];
          default: ;
        endcase
      end
    end
  end
endmodule
