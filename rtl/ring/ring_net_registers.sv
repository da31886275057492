// SPDX-License-Identifier: Apache-2.0
// BAR 0 of the descriptor-ring NIC on the network side: MAC address, filter, counters.
//
// Latency   : 1 cycle, counters 3 (stats_ram).
// Clock     : clk_i (network).
// Handshake : register bus.
// Drops     : unknown addresses and writes to counters are refused.
// Source    : own; addresses from ring_pkg.
module ring_net_registers
  import ring_pkg::*;
  import reg_bus_pkg::*;
(
  input  logic                        clk_i,
  input  logic                        rst_i,
  input  reg_req_t                    req_i,
  output reg_rsp_t                    rsp_o,
  /// One bit a counter, indexed by net_counter_e.
  input  logic     [NET_COUNTERS-1:0] event_i,
  /// First byte on the wire in the most significant bits.
  output logic     [            47:0] mac_o,
  output logic                        promiscuous_o,
  /// Counters are not at rest.
  output logic                        busy_o
);
  localparam int unsigned CounterWindowW = 12;
  localparam int unsigned CounterW = $clog2(NET_COUNTERS);

  logic [47:0] mac_q;
  logic        promiscuous_q;
  logic is_counter, start, done_q, ok_q, ok, count_read, count_valid;
  logic [31:0] rdata_q, rdata, count;

  assign is_counter = req_i.addr[22:CounterWindowW] == NET_COUNTER_BASE[22:CounterWindowW];
  assign count_read = req_i.valid && is_counter && !req_i.write && !done_q &&
      32'(req_i.addr[CounterWindowW-1:2]) < NET_COUNTERS;
  assign start = req_i.valid && !done_q && !count_read;

  stats_ram #(
    .Count(NET_COUNTERS)
  ) u_counters (
    .clk_i,
    .rst_i,
    .event_i,
    .read_i (count_read),
    .index_i(req_i.addr[2+:CounterW]),
    .valid_o(count_valid),
    .value_o(count),
    .busy_o
  );

  always_comb begin
    ok    = 1'b1;
    rdata = '0;
    if (is_counter) begin
      // Beyond the last one, or a write.
      ok = 1'b0;
    end else begin
      unique case (req_i.addr)
        REG_MAC_LO: rdata = mac_q[31:0];
        REG_MAC_HI: rdata = {16'd0, mac_q[47:32]};
        REG_FILTER: rdata = {31'd0, promiscuous_q};
        default:    ok = 1'b0;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (start) begin
      ok_q    <= ok;
      rdata_q <= ok && !req_i.write ? rdata : '0;
    end else if (count_valid) begin
      ok_q    <= 1'b1;
      rdata_q <= count;
    end
    done_q <= (start || count_valid) && !rst_i;
    if (rst_i) begin
      mac_q         <= '0;
      promiscuous_q <= 1'b0;
    end else if (start && req_i.write) begin
      unique case (req_i.addr)
        REG_MAC_LO: mac_q[31:0] <= req_i.wdata;
        REG_MAC_HI: mac_q[47:32] <= req_i.wdata[15:0];
        REG_FILTER: promiscuous_q <= req_i.wdata[0];
        default:    ;
      endcase
    end
  end

  assign mac_o         = mac_q;
  assign promiscuous_o = promiscuous_q;
  assign rsp_o         = '{done: done_q, ok: ok_q, rdata: rdata_q};
endmodule
