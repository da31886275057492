// SPDX-License-Identifier: Apache-2.0
// BAR 0 on the network side: window onto the shared-region table, network counters, the last error
// report, and this side's copies of MAC, IP and EPOCH.
//
// Latency   : registers and counters answer in 1 cycle, the table as table_window says.
// Clock     : clk_i (network).
// Handshake : register bus.
// Drops     : unknown addresses, writes to read-only registers and indices beyond the table are
//             refused.
// Source    : own; addresses from wire_pkg.
module net_registers
  import wire_pkg::*;
  import reg_bus_pkg::*;
#(
  /// Entries of the shared-region table.
  parameter int unsigned Regions = 256,
  localparam int unsigned RegionW = $clog2(Regions)
) (
  input  logic                             clk_i,
  input  logic                             rst_i,
  input  reg_req_t                         req_i,
  output reg_rsp_t                         rsp_o,
  /// One bit a counter, indexed by net_counter_e.
  input  logic          [NET_COUNTERS-1:0] event_i,
  output logic                             region_write_o,
  output logic                             region_read_o,
  output logic          [     RegionW-1:0] region_index_o,
  output region_entry_t                    region_entry_o,
  input  region_entry_t                    region_entry_i,
  input  logic                             region_read_done_i,
  /// Pulse: an error report has arrived; its body and sender.
  input  logic                             error_valid_i,
  input  logic          [             7:0] error_code_i,
  input  logic          [             7:0] error_op_i,
  input  logic          [            15:0] error_sequence_i,
  input  logic          [            63:0] error_address_i,
  input  logic          [            31:0] error_ip_i,
  /// First byte on the wire in the most significant bits.
  output logic          [            47:0] mac_o,
  output logic          [            31:0] ip_o,
  output logic          [             7:0] epoch_o
);
  localparam int unsigned CounterWindowW = 12;
  localparam int unsigned CounterW = $clog2(NET_COUNTERS);
  localparam int unsigned RegionWindowW = 21;

  logic [47:0] mac_q;
  logic [31:0] ip_q;
  logic [ 7:0] epoch_q;
  logic [31:0] error_q, error_ip_q;
  logic     [63:0] error_address_q;

  reg_req_t        region_req;
  reg_rsp_t        region_rsp;
  logic is_region, is_counter;
  logic start, done_q, ok_q, ok;
  logic [31:0] rdata_q, rdata, counter_value;

  assign is_region  = req_i.addr[22:RegionWindowW] == REGION_BASE[22:RegionWindowW];
  assign is_counter = req_i.addr[22:CounterWindowW] == NET_COUNTER_BASE[22:CounterWindowW];
  assign start      = req_i.valid && !is_region && !done_q;

  counters #(
    .Count(NET_COUNTERS)
  ) u_counters (
    .clk_i,
    .rst_i,
    .event_i,
    .index_i(req_i.addr[2+:CounterW]),
    .value_o(counter_value)
  );

  always_comb begin
    ok    = !req_i.write;
    rdata = '0;
    if (is_counter) begin
      rdata = counter_value;
      ok    = !req_i.write && 32'(req_i.addr[CounterWindowW-1:2]) < NET_COUNTERS;
    end else begin
      unique case (req_i.addr)
        REG_LAST_ERROR:                            rdata = error_q;
        REG_LAST_ERROR_ADDR_LO:                    rdata = error_address_q[31:0];
        REG_LAST_ERROR_ADDR_HI:                    rdata = error_address_q[63:32];
        REG_LAST_ERROR_IP:                         rdata = error_ip_q;
        REG_MAC_LO, REG_MAC_HI, REG_IP, REG_EPOCH: ok = req_i.write;
        default:                                   ok = 1'b0;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (start) begin
      ok_q    <= ok;
      rdata_q <= ok ? rdata : '0;
    end
    done_q <= start && !rst_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      mac_q           <= '0;
      ip_q            <= '0;
      epoch_q         <= '0;
      error_q         <= '0;
      error_address_q <= '0;
      error_ip_q      <= '0;
    end else begin
      if (error_valid_i) begin
        error_q         <= {error_sequence_i, error_op_i, error_code_i};
        error_address_q <= error_address_i;
        error_ip_q      <= error_ip_i;
      end
      if (start && req_i.write) begin
        unique case (req_i.addr)
          REG_MAC_LO: mac_q[31:0] <= req_i.wdata;
          REG_MAC_HI: mac_q[47:32] <= req_i.wdata[15:0];
          REG_IP:     ip_q <= req_i.wdata;
          REG_EPOCH:  epoch_q <= req_i.wdata[7:0];
          default:    ;
        endcase
      end
    end
  end

  assign mac_o   = mac_q;
  assign ip_o    = ip_q;
  assign epoch_o = epoch_q;

  always_comb begin
    region_req       = req_i;
    region_req.valid = req_i.valid && is_region;
  end

  table_window #(
    .entry_t(region_entry_t),
    .Entries(Regions),
    .WindowW(RegionWindowW)
  ) u_region_window (
    .clk_i,
    .rst_i,
    .addr_i         (req_i.addr[RegionWindowW-1:0]),
    .req_i          (region_req),
    .rsp_o          (region_rsp),
    .cfg_write_o    (region_write_o),
    .cfg_read_o     (region_read_o),
    .cfg_index_o    (region_index_o),
    .cfg_entry_o    (region_entry_o),
    .cfg_entry_i    (region_entry_i),
    .cfg_read_done_i(region_read_done_i)
  );

  always_comb begin
    if (is_region) rsp_o = region_rsp;
    else rsp_o = '{done: done_q, ok: ok_q, rdata: rdata_q};
  end
endmodule
