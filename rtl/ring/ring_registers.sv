// SPDX-License-Identifier: Apache-2.0
// BAR 0 of the descriptor-ring NIC on the PCIe side: rings, interrupts, counters of this side; the
// MAC address, the filter and the counters of the network side are asked for there.
//
// Latency   : 1 cycle, counters 3 (stats_ram); 1 cycle more to tail and log2 outputs. The network side as reg_cdc says.
// Clock     : clk_i (PCIe).
// Handshake : register bus.
// Drops     : unknown addresses and writes to read-only registers are refused.
// Source    : own; addresses from ring_pkg.
module ring_registers
  import ring_pkg::*;
  import reg_bus_pkg::*;
#(
  /// Packets that can be on their way out (for REG_FEATURES).
  parameter int unsigned Slots = 8,
  /// Longest frame without FCS, bytes (for REG_FEATURES).
  parameter int unsigned MaxBytes = 1514
) (
  input  logic                         clk_i,
  input  logic                         rst_i,
  input  reg_req_t                     req_i,
  output reg_rsp_t                     rsp_o,
  output reg_req_t                     net_req_o,
  input  reg_rsp_t                     net_rsp_i,
  /// One bit a counter, indexed by pcie_counter_e.
  input  logic     [PCIE_COUNTERS-1:0] event_i,
  input  logic     [              4:0] status_i,
  input  logic     [             15:0] tx_head_i,
  input  logic     [             15:0] rx_head_i,
  input  logic     [              2:0] armed_i,
  input  logic     [              2:0] cause_i,
  /// The ring exists and CONTROL lets it run.
  output logic                         tx_run_o,
  output logic                         rx_run_o,
  output logic     [             63:0] tx_base_o,
  output logic     [             63:0] rx_base_o,
  /// Entries less one.
  output logic     [             15:0] tx_mask_o,
  output logic     [             15:0] rx_mask_o,
  output logic     [             15:0] tx_tail_o,
  output logic     [             15:0] rx_tail_o,
  /// Pulses: the ring begins anew.
  output logic                         tx_restart_o,
  output logic                         rx_restart_o,
  output logic     [             63:0] msi_address_o,
  output logic     [             31:0] msi_data_o,
  output logic     [             15:0] msi_moderation_us_o,
  /// Pulses, with write_data_o.
  output logic                         armed_write_o,
  output logic                         rx_arm_o,
  output logic                         tx_arm_o,
  output logic     [             31:0] write_data_o,
  output logic     [             31:0] read_timeout_us_o,
  output logic                         large_payload_o,
  output logic     [              1:0] max_read_o,
  /// Counters are not at rest.
  output logic                         busy_o
);
  localparam logic [31:0] Features = {16'(MaxBytes), 8'd0, 8'(Slots)};
  localparam int unsigned CounterWindowW = 12;
  localparam int unsigned LowW = 8;
  localparam int unsigned CounterW = $clog2(PCIE_COUNTERS);

  logic [63:0] tx_base_q, rx_base_q, msi_address_q;
  logic [4:0] tx_log2_q, rx_log2_q;
  logic [15:0] tx_tail_q, rx_tail_q, msi_moderation_us_q, tx_mask_q, rx_mask_q;
  logic [31:0] msi_data_q, read_timeout_us_q;
  logic [1:0] control_q, max_read_q;
  logic large_q, tx_restart_q, rx_restart_q;

  logic to_net, is_counter, start, write, done_q, ok_q, read_q, ok, count_read, count_valid;
  logic        low;
  logic [22:0] low_addr;
  logic [31:0] rdata_q, rdata, count;

  function automatic logic [15:0] mask_of(logic [4:0] log2);
    return 16'((17'd1 << log2) - 17'd1);
  endfunction
  function automatic logic is_ring(logic [4:0] log2);
    return log2 >= 5'(MIN_RING_LOG2) && log2 <= 5'(MAX_RING_LOG2);
  endfunction

  assign to_net     = req_i.addr[22:CounterWindowW] == NET_COUNTER_BASE[22:CounterWindowW] ||
      req_i.addr inside {REG_MAC_LO, REG_MAC_HI, REG_FILTER};
  assign is_counter = req_i.addr[22:CounterWindowW] == PCIE_COUNTER_BASE[22:CounterWindowW];
  assign count_read = req_i.valid && is_counter && !req_i.write && !done_q &&
      32'(req_i.addr[CounterWindowW-1:2]) < PCIE_COUNTERS;
  assign start = req_i.valid && !to_net && !done_q && !count_read;
  // Of those that are written below none is refused, a counter or the network's: the address says it all.
  assign write = req_i.valid && req_i.write && !done_q && low;
  // All but counters are in the first 256 bytes: which one is found beside whether it is there.
  assign low = req_i.addr[22:LowW] == '0;
  assign low_addr = {{(23 - LowW) {1'b0}}, req_i.addr[LowW-1:0]};

  stats_ram #(
    .Count(PCIE_COUNTERS)
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
    unique case (low_addr)
      REG_ID: begin
        rdata = ID_VALUE;
        ok    = !req_i.write;
      end
      REG_VERSION: begin
        rdata = VERSION_VALUE;
        ok    = !req_i.write;
      end
      REG_FEATURES: begin
        rdata = Features;
        ok    = !req_i.write;
      end
      REG_STATUS: begin
        rdata = {27'd0, status_i};
        ok    = !req_i.write;
      end
      REG_TX_HEAD: begin
        rdata = {16'd0, tx_head_i};
        ok    = !req_i.write;
      end
      REG_RX_HEAD: begin
        rdata = {16'd0, rx_head_i};
        ok    = !req_i.write;
      end
      REG_IRQ_CAUSE: begin
        rdata = {29'd0, cause_i};
        ok    = !req_i.write;
      end
      REG_CONTROL:            rdata = {30'd0, control_q};
      REG_TX_BASE_LO:         rdata = tx_base_q[31:0];
      REG_TX_BASE_HI:         rdata = tx_base_q[63:32];
      REG_TX_LOG2:            rdata = {27'd0, tx_log2_q};
      REG_TX_TAIL:            rdata = {16'd0, tx_tail_q};
      REG_RX_BASE_LO:         rdata = rx_base_q[31:0];
      REG_RX_BASE_HI:         rdata = rx_base_q[63:32];
      REG_RX_LOG2:            rdata = {27'd0, rx_log2_q};
      REG_RX_TAIL:            rdata = {16'd0, rx_tail_q};
      REG_MSI_ADDRESS_LO:     rdata = msi_address_q[31:0];
      REG_MSI_ADDRESS_HI:     rdata = msi_address_q[63:32];
      REG_MSI_DATA:           rdata = msi_data_q;
      REG_MSI_MODERATION_US:  rdata = {16'd0, msi_moderation_us_q};
      REG_IRQ_ARMED:          rdata = {29'd0, armed_i};
      REG_RX_ARM, REG_TX_ARM: rdata = '0;
      REG_READ_TIMEOUT_US:    rdata = read_timeout_us_q;
      REG_BUS:                rdata = {26'd0, max_read_q, 3'd0, large_q};
      default:                ok = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    // Looked at in the cycle behind start only.
    ok_q    <= (ok && low) || count_valid;
    read_q  <= count_valid || (ok && low && !req_i.write);
    rdata_q <= count_valid ? count : rdata;
    done_q  <= (start || count_valid) && !rst_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      control_q           <= '0;
      tx_base_q           <= '0;
      tx_log2_q           <= '0;
      tx_mask_q           <= '0;
      tx_tail_q           <= '0;
      tx_restart_q        <= 1'b0;
      rx_base_q           <= '0;
      rx_log2_q           <= '0;
      rx_mask_q           <= '0;
      rx_tail_q           <= '0;
      rx_restart_q        <= 1'b0;
      msi_address_q       <= '0;
      msi_data_q          <= '0;
      msi_moderation_us_q <= '0;
      read_timeout_us_q   <= READ_TIMEOUT_US_RESET;
      large_q             <= BUS_RESET[0];
      max_read_q          <= BUS_RESET[5:4];
    end else begin
      tx_restart_q <= write && low_addr == REG_TX_LOG2;
      rx_restart_q <= write && low_addr == REG_RX_LOG2;
      if (write) begin
        unique case (low_addr)
          REG_CONTROL:           control_q <= req_i.wdata[1:0];
          REG_TX_BASE_LO:        tx_base_q[31:0] <= req_i.wdata & TX_BASE_LO_MASK;
          REG_TX_BASE_HI:        tx_base_q[63:32] <= req_i.wdata;
          REG_TX_LOG2: begin
            tx_log2_q <= req_i.wdata[4:0];
            tx_mask_q <= mask_of(req_i.wdata[4:0]);
            tx_tail_q <= '0;
          end
          REG_TX_TAIL:           tx_tail_q <= req_i.wdata[15:0] & tx_mask_q;
          REG_RX_BASE_LO:        rx_base_q[31:0] <= req_i.wdata & RX_BASE_LO_MASK;
          REG_RX_BASE_HI:        rx_base_q[63:32] <= req_i.wdata;
          REG_RX_LOG2: begin
            rx_log2_q <= req_i.wdata[4:0];
            rx_mask_q <= mask_of(req_i.wdata[4:0]);
            rx_tail_q <= '0;
          end
          REG_RX_TAIL:           rx_tail_q <= req_i.wdata[15:0] & rx_mask_q;
          REG_MSI_ADDRESS_LO:    msi_address_q[31:0] <= req_i.wdata & MSI_ADDRESS_LO_MASK;
          REG_MSI_ADDRESS_HI:    msi_address_q[63:32] <= req_i.wdata;
          REG_MSI_DATA:          msi_data_q <= req_i.wdata;
          REG_MSI_MODERATION_US: msi_moderation_us_q <= req_i.wdata[15:0];
          REG_READ_TIMEOUT_US:   read_timeout_us_q <= req_i.wdata;
          REG_BUS: begin
            large_q    <= req_i.wdata[1:0] != '0;
            max_read_q <= req_i.wdata[5:4] == 2'd3 ? 2'd2 : req_i.wdata[5:4];
          end
          default:               ;
        endcase
      end
    end
  end

  // With the cycle of the bus access: the interrupt's own registers hold what is written.
  assign armed_write_o       = write && low_addr == REG_IRQ_ARMED;
  assign rx_arm_o            = write && low_addr == REG_RX_ARM;
  assign tx_arm_o            = write && low_addr == REG_TX_ARM;
  assign write_data_o        = req_i.wdata;

  assign tx_run_o            = control_q[0] && is_ring(tx_log2_q);
  assign rx_run_o            = control_q[1] && is_ring(rx_log2_q);
  assign tx_base_o           = tx_base_q;
  assign rx_base_o           = rx_base_q;
  assign tx_mask_o           = tx_mask_q;
  assign rx_mask_o           = rx_mask_q;
  assign tx_tail_o           = tx_tail_q;
  assign rx_tail_o           = rx_tail_q;
  assign tx_restart_o        = tx_restart_q;
  assign rx_restart_o        = rx_restart_q;
  assign msi_address_o       = msi_address_q;
  assign msi_data_o          = msi_data_q;
  assign msi_moderation_us_o = msi_moderation_us_q;
  assign read_timeout_us_o   = read_timeout_us_q;
  assign large_payload_o     = large_q;
  assign max_read_o          = max_read_q;

  always_comb begin
    net_req_o       = req_i;
    net_req_o.valid = req_i.valid && to_net;
    rsp_o           = to_net ? net_rsp_i : '{done: done_q, ok: ok_q, rdata: read_q ? rdata_q : '0};
  end
endmodule
