// SPDX-License-Identifier: Apache-2.0
// BAR 0 on the PCIe side: interrupts, DMA, counters. The engine's registers are asked for in the network's clock.
//
// Latency   : 1 cycle, counters 3 (stats_ram); the engine's as reg_cdc says.
// Clock     : clk_i (PCIe).
// Handshake : register bus.
// Drops     : unknown addresses and writes to read-only registers are refused.
// Source    : docs/uzura.md.
module uzura_nic_registers
  import reg_bus_pkg::*;
  import uzura_nic_pkg::*;
(
  input  logic                        clk_i,
  input  logic                        rst_i,
  input  reg_req_t                    req_i,
  output reg_rsp_t                    rsp_o,
  output reg_req_t                    net_req_o,
  input  reg_rsp_t                    net_rsp_i,
  /// One bit a counter, indexed by pcie_counter_e.
  input  logic     [PcieCounters-1:0] event_i,
  input  logic                        link_i,
  output logic     [            63:0] msi_address_o,
  output logic     [            31:0] msi_data_o,
  output logic     [            15:0] msi_moderation_us_o,
  /// Events interrupt.
  output logic                        interrupt_o,
  output logic     [            31:0] read_timeout_us_o,
  output logic     [             1:0] max_read_o,
  output logic                        busy_o
);
  localparam int unsigned CounterW = $clog2(PcieCounters);
  localparam int unsigned PageW = 12;

  logic to_net, is_counter, start, write, done_q, ok_q, ok, count_read, count_valid;
  logic [31:0] rdata_q, rdata, count;

  assign to_net = req_i.addr[22:PageW] == '0;
  assign is_counter = req_i.addr[22:PageW] == 11'(CounterPage);
  assign count_read = req_i.valid && is_counter && !req_i.write && !done_q &&
      32'(req_i.addr[PageW-1:2]) < PcieCounters;
  assign start = req_i.valid && !to_net && !done_q && !count_read;
  assign write = start && req_i.write && ok;

  stats_ram #(
    .Count(PcieCounters)
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
    unique case (req_i.addr)
      RegId: begin
        rdata = IdValue;
        ok    = !req_i.write;
      end
      RegVersion: begin
        rdata = VersionValue;
        ok    = !req_i.write;
      end
      RegStatus: begin
        rdata = {31'd0, link_i};
        ok    = !req_i.write;
      end
      RegMsiAddressLo:    rdata = msi_address_o[31:0];
      RegMsiAddressHi:    rdata = msi_address_o[63:32];
      RegMsiData:         rdata = msi_data_o;
      RegMsiModerationUs: rdata = {16'd0, msi_moderation_us_o};
      RegInterrupt:       rdata = {31'd0, interrupt_o};
      RegReadTimeoutUs:   rdata = read_timeout_us_o;
      RegMaxRead:         rdata = {30'd0, max_read_o};
      default:            ok = 1'b0;
    endcase
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
      msi_address_o       <= '0;
      msi_data_o          <= '0;
      msi_moderation_us_o <= '0;
      interrupt_o         <= 1'b0;
      read_timeout_us_o   <= ReadTimeoutUsReset;
      max_read_o          <= 2'd2;
    end else if (write) begin
      unique case (req_i.addr)
        RegMsiAddressLo:    msi_address_o[31:0] <= {req_i.wdata[31:2], 2'b00};
        RegMsiAddressHi:    msi_address_o[63:32] <= req_i.wdata;
        RegMsiData:         msi_data_o <= req_i.wdata;
        RegMsiModerationUs: msi_moderation_us_o <= req_i.wdata[15:0];
        RegInterrupt:       interrupt_o <= req_i.wdata[0];
        RegReadTimeoutUs:   read_timeout_us_o <= req_i.wdata;
        RegMaxRead:         max_read_o <= req_i.wdata[1:0] == 2'd3 ? 2'd2 : req_i.wdata[1:0];
        default:            ;
      endcase
    end
  end

  always_comb begin
    net_req_o       = req_i;
    net_req_o.valid = req_i.valid && to_net;
    rsp_o           = to_net ? net_rsp_i : '{done: done_q, ok: ok_q, rdata: rdata_q};
  end
endmodule
