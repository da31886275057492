// SPDX-License-Identifier: Apache-2.0
// BAR 0 on the PCIe side: registers, PCIe-side counters, windows onto the page map and the PC ID
// table; everything else that exists goes to the network side (net_registers).
//
// MAC, IP and EPOCH are held on both sides: a write goes to the network side first and is answered
// when both have it.
//
// Latency   : registers answer in 1 cycle, counters in 3 (stats_ram), tables as table_window says; FLUSH
//             when the requester has taken the mark.
// Clock     : clk_i (PCIe).
// Handshake : register bus.
// Drops     : unknown addresses, writes to read-only registers and indices beyond a table are
//             refused.
// Source    : own; addresses from wire_pkg.
module nic_registers
  import wire_pkg::*;
  import reg_bus_pkg::*;
#(
  /// Entries of the page map.
  parameter int unsigned Pages = 262144,
  /// Entries of the PC ID table.
  parameter int unsigned PcIds = 256,
  /// Entries of the shared-region table (for REG_FEATURES; the table is on the network side).
  parameter int unsigned Regions = 256,
  /// Sessions (for REG_FEATURES; the table is on the network side).
  parameter int unsigned Sessions = 64,
  /// Sessions can be sealed (for REG_FEATURES).
  parameter bit Auth = 1'b1,
  localparam int unsigned PageW = $clog2(Pages),
  localparam int unsigned PcIdW = $clog2(PcIds)
) (
  input  logic                                clk_i,
  input  logic                                rst_i,
  input  reg_req_t                            req_i,
  output reg_rsp_t                            rsp_o,
  output reg_req_t                            net_req_o,
  input  reg_rsp_t                            net_rsp_i,
  /// One bit a counter, indexed by pcie_counter_e.
  input  logic            [PCIE_COUNTERS-1:0] event_i,
  output logic                                page_write_o,
  output logic                                page_read_o,
  output logic            [        PageW-1:0] page_index_o,
  output page_map_entry_t                     page_entry_o,
  input  page_map_entry_t                     page_entry_i,
  input  logic                                page_read_done_i,
  output logic                                pc_id_write_o,
  output logic                                pc_id_read_o,
  output logic            [        PcIdW-1:0] pc_id_index_o,
  output pc_id_entry_t                        pc_id_entry_o,
  input  pc_id_entry_t                        pc_id_entry_i,
  input  logic                                pc_id_read_done_i,
  /// First byte on the wire in the most significant bits, here and below.
  output logic            [             47:0] mac_o,
  output logic            [             31:0] ip_o,
  output logic            [             31:0] netmask_o,
  output logic            [             47:0] gateway_mac_o,
  output logic            [              7:0] epoch_o,
  output logic            [             31:0] read_timeout_us_o,
  output logic            [             15:0] load_retry_us_o,
  /// Stores that wait anyway may share a frame.
  output logic                                merge_o,
  /// A register is being written.
  output logic                                settings_write_o,
  /// A mark to follow the stores so far: an event says when they are delivered.
  output logic                                flush_valid_o,
  output logic            [             15:0] flush_pc_id_o,
  output logic            [             15:0] flush_cookie_o,
  input  logic                                flush_ready_i,
  output logic            [             63:0] event_base_o,
  output logic            [              4:0] event_log2_o,
  /// Pulse: the event ring begins anew; with the edge after it event_log2_o is the new one.
  output logic                                event_restart_o,
  output logic            [             31:0] event_tail_o,
  output logic            [             63:0] msi_address_o,
  output logic            [             31:0] msi_data_o,
  output logic            [             15:0] msi_moderation_us_o,
  /// Interrupts on arrival (bit 0) and on events (bit 1).
  output logic            [              1:0] msi_control_o,
  /// Counters are not at rest.
  output logic                                busy_o
);
  localparam logic [31:0] Features = {
    4'($clog2(Sessions)),
    1'b0,
    Auth,
    2'b11,
    3'd0,
    5'($clog2(Regions)),
    3'd0,
    5'($clog2(PcIds)),
    3'd0,
    5'($clog2(Pages))
  };

  // Windows, in address bits.
  localparam int unsigned CounterWindowW = 12;
  localparam int unsigned PcIdWindowW = 20;
  localparam int unsigned PageWindowW = 22;
  // The single registers lie below this.
  localparam int unsigned RegisterW = 8;

  typedef enum logic [1:0] {
    ToLocal,
    ToPage,
    ToPcId,
    ToNet
  } target_e;

  target_e                 target;
  logic                    is_register;
  logic    [RegisterW-1:0] register;  // which one
  reg_req_t page_req, pc_id_req;
  reg_rsp_t page_rsp, pc_id_rsp, local_rsp;

  logic [47:0] mac_q, gateway_mac_q;
  logic [31:0] ip_q, netmask_q, gateway_ip_q, read_timeout_us_q;
  logic [7:0] epoch_q;
  logic [15:0] load_retry_us_q, msi_moderation_us_q;
  logic merge_q;
  logic [63:0] event_base_q, msi_address_q;
  logic [4:0] event_log2_q;
  logic [31:0] event_tail_q, msi_data_q;
  logic [1:0] msi_control_q;
  logic       event_restart_q;

  logic local_start, local_done_q, local_ok_q, local_ok;
  logic [31:0] local_rdata_q, local_rdata, count;
  logic is_counter, count_read, count_valid;
  logic net_write_done;

  // The enclosing aligned block of an address decides; each window is a power of two in size and
  // aligned.
  always_comb begin
    unique casez (req_i.addr[22:CounterWindowW])
      {PAGE_MAP_BASE[22], 10'b?} : target = ToPage;
      {REGION_BASE[22:21], 9'b?} : target = ToNet;
      {PC_ID_BASE[22:20], 8'b?} : target = ToPcId;
      NET_COUNTER_BASE[22:12]: target = ToNet;
      {SESSION_BASE[22:16], 4'b?} : target = ToNet;
      {KEY_BASE[22:16], 4'b?} : target = ToNet;
      {SESSION_STATUS_BASE[22:16], 4'b?} : target = ToNet;
      default: target = is_register && to_net(register, req_i.write) ? ToNet : ToLocal;
    endcase
  end

  // Apart from the windows, so that neither waits for the other to be decoded.
  function automatic logic to_net(logic [RegisterW-1:0] which, logic write);
    unique case (23'(which))
      REG_CONTROL, REG_RESEND_TICKS, REG_ACK_TICKS, REG_RESEND_LIMIT, REG_WINDOW, REG_PACE:
      return 1'b1;
      REG_LAST_ERROR, REG_LAST_ERROR_ADDR_LO, REG_LAST_ERROR_ADDR_HI, REG_LAST_ERROR_IP:
      return 1'b1;
      REG_MAC_LO, REG_MAC_HI, REG_IP, REG_EPOCH: return write;
      default: return 1'b0;
    endcase
  endfunction

  assign is_register = req_i.addr[22:RegisterW] == '0;
  assign register = req_i.addr[RegisterW-1:0];

  // ---- Local registers and counters
  // --------------------------------------------------------------
  assign is_counter = req_i.addr[22:CounterWindowW] == PCIE_COUNTER_BASE[22:CounterWindowW];
  assign count_read = req_i.valid && is_counter && !req_i.write && !local_done_q &&
      32'(req_i.addr[CounterWindowW-1:2]) < PCIE_COUNTERS;
  assign local_start = req_i.valid && target == ToLocal && !local_done_q &&
      (!flush_valid_o || flush_ready_i) && !count_read;

  // A flush takes its place behind the stores before it, when there is one.
  assign flush_valid_o = req_i.valid && req_i.write && is_register &&
      23'(register) == REG_FLUSH && !local_done_q;
  assign flush_pc_id_o = req_i.wdata[15:0];
  assign flush_cookie_o = req_i.wdata[31:16];

  localparam int unsigned CounterW = $clog2(PCIE_COUNTERS);

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
    local_ok    = 1'b1;
    local_rdata = '0;
    if (!is_register) begin
      // A counter beyond the last one, a write to one, or nothing.
      local_ok = 1'b0;
    end else begin
      unique case (23'(register))
        REG_ID: begin
          local_rdata = ID_VALUE;
          local_ok    = !req_i.write;
        end
        REG_VERSION: begin
          local_rdata = VERSION_VALUE;
          local_ok    = !req_i.write;
        end
        REG_FEATURES: begin
          local_rdata = Features;
          local_ok    = !req_i.write;
        end
        REG_MAC_LO:            local_rdata = mac_q[31:0];
        REG_MAC_HI:            local_rdata = {16'd0, mac_q[47:32]};
        REG_IP:                local_rdata = ip_q;
        REG_NETMASK:           local_rdata = netmask_q;
        REG_GATEWAY_IP:        local_rdata = gateway_ip_q;
        REG_GATEWAY_MAC_LO:    local_rdata = gateway_mac_q[31:0];
        REG_GATEWAY_MAC_HI:    local_rdata = {16'd0, gateway_mac_q[47:32]};
        REG_READ_TIMEOUT_US:   local_rdata = read_timeout_us_q;
        REG_EPOCH:             local_rdata = {24'd0, epoch_q};
        REG_LOAD_RETRY_US:     local_rdata = {16'd0, load_retry_us_q};
        REG_FLUSH:             local_rdata = '0;
        REG_EVENT_BASE_LO:     local_rdata = event_base_q[31:0];
        REG_EVENT_BASE_HI:     local_rdata = event_base_q[63:32];
        REG_EVENT_LOG2:        local_rdata = {27'd0, event_log2_q};
        REG_EVENT_TAIL:        local_rdata = event_tail_q;
        REG_MSI_ADDRESS_LO:    local_rdata = msi_address_q[31:0];
        REG_MSI_ADDRESS_HI:    local_rdata = msi_address_q[63:32];
        REG_MSI_DATA:          local_rdata = msi_data_q;
        REG_MSI_MODERATION_US: local_rdata = {16'd0, msi_moderation_us_q};
        REG_MSI_CONTROL:       local_rdata = {30'd0, msi_control_q};
        default:               local_ok = 1'b0;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (local_start) begin
      local_ok_q    <= local_ok;
      local_rdata_q <= local_ok && !req_i.write ? local_rdata : '0;
    end else if (count_valid) begin
      local_ok_q    <= 1'b1;
      local_rdata_q <= count;
    end
    local_done_q <= (local_start || count_valid) && !rst_i;
  end

  assign net_write_done = is_register && net_rsp_i.done && net_rsp_i.ok && req_i.write;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      mac_q               <= '0;
      ip_q                <= '0;
      netmask_q           <= '0;
      gateway_ip_q        <= '0;
      gateway_mac_q       <= '0;
      read_timeout_us_q   <= READ_TIMEOUT_US_RESET;
      epoch_q             <= '0;
      load_retry_us_q     <= LOAD_RETRY_US_RESET[15:0];
      merge_q             <= CONTROL_RESET[0];
      event_base_q        <= '0;
      event_log2_q        <= '0;
      event_tail_q        <= '0;
      event_restart_q     <= 1'b0;
      msi_address_q       <= '0;
      msi_data_q          <= '0;
      msi_moderation_us_q <= '0;
      msi_control_q       <= '0;
    end else begin
      event_restart_q <= local_start && req_i.write && is_register &&
          23'(register) == REG_EVENT_LOG2;
      if (net_write_done) begin
        unique case (23'(register))
          REG_MAC_LO:  mac_q[31:0] <= req_i.wdata;
          REG_MAC_HI:  mac_q[47:32] <= req_i.wdata[15:0];
          REG_IP:      ip_q <= req_i.wdata;
          REG_EPOCH:   epoch_q <= req_i.wdata[7:0];
          REG_CONTROL: merge_q <= req_i.wdata[0];
          default:     ;
        endcase
      end
      if (local_start && req_i.write && is_register) begin
        unique case (23'(register))
          REG_NETMASK:           netmask_q <= req_i.wdata;
          REG_GATEWAY_IP:        gateway_ip_q <= req_i.wdata;
          REG_GATEWAY_MAC_LO:    gateway_mac_q[31:0] <= req_i.wdata;
          REG_GATEWAY_MAC_HI:    gateway_mac_q[47:32] <= req_i.wdata[15:0];
          REG_READ_TIMEOUT_US:   read_timeout_us_q <= req_i.wdata;
          REG_LOAD_RETRY_US:     load_retry_us_q <= req_i.wdata[15:0];
          REG_EVENT_BASE_LO:     event_base_q[31:0] <= req_i.wdata & EVENT_BASE_LO_MASK;
          REG_EVENT_BASE_HI:     event_base_q[63:32] <= req_i.wdata;
          REG_EVENT_LOG2: begin
            event_log2_q <= req_i.wdata[4:0];
            event_tail_q <= '0;
          end
          REG_EVENT_TAIL:        event_tail_q <= req_i.wdata;
          REG_MSI_ADDRESS_LO:    msi_address_q[31:0] <= req_i.wdata & MSI_ADDRESS_LO_MASK;
          REG_MSI_ADDRESS_HI:    msi_address_q[63:32] <= req_i.wdata;
          REG_MSI_DATA:          msi_data_q <= req_i.wdata;
          REG_MSI_MODERATION_US: msi_moderation_us_q <= req_i.wdata[15:0];
          REG_MSI_CONTROL:       msi_control_q <= req_i.wdata[1:0];
          default:               ;
        endcase
      end
    end
  end

  assign mac_o               = mac_q;
  assign ip_o                = ip_q;
  assign netmask_o           = netmask_q;
  assign gateway_mac_o       = gateway_mac_q;
  assign epoch_o             = epoch_q;
  assign read_timeout_us_o   = read_timeout_us_q;
  assign load_retry_us_o     = load_retry_us_q;
  assign merge_o             = merge_q;
  assign settings_write_o    = req_i.valid && req_i.write;
  assign event_base_o        = event_base_q;
  assign event_log2_o        = event_log2_q;
  assign event_restart_o     = event_restart_q;
  assign event_tail_o        = event_tail_q;
  assign msi_address_o       = msi_address_q;
  assign msi_data_o          = msi_data_q;
  assign msi_moderation_us_o = msi_moderation_us_q;
  assign msi_control_o       = msi_control_q;

  // ---- Tables -----------------------------------------------------------------------------------
  always_comb begin
    page_req        = req_i;
    page_req.valid  = req_i.valid && target == ToPage;
    pc_id_req       = req_i;
    pc_id_req.valid = req_i.valid && target == ToPcId;
    net_req_o       = req_i;
    net_req_o.valid = req_i.valid && target == ToNet;
  end

  table_window #(
    .entry_t(page_map_entry_t),
    .Entries(Pages),
    .WindowW(PageWindowW)
  ) u_page_window (
    .clk_i,
    .rst_i,
    .addr_i         (req_i.addr[PageWindowW-1:0]),
    .req_i          (page_req),
    .rsp_o          (page_rsp),
    .hold_i         (1'b0),
    .cfg_write_o    (page_write_o),
    .cfg_read_o     (page_read_o),
    .cfg_index_o    (page_index_o),
    .cfg_entry_o    (page_entry_o),
    .cfg_entry_i    (page_entry_i),
    .cfg_read_done_i(page_read_done_i)
  );

  table_window #(
    .entry_t(pc_id_entry_t),
    .Entries(PcIds),
    .WindowW(PcIdWindowW)
  ) u_pc_id_window (
    .clk_i,
    .rst_i,
    .addr_i         (req_i.addr[PcIdWindowW-1:0]),
    .req_i          (pc_id_req),
    .rsp_o          (pc_id_rsp),
    .hold_i         (1'b0),
    .cfg_write_o    (pc_id_write_o),
    .cfg_read_o     (pc_id_read_o),
    .cfg_index_o    (pc_id_index_o),
    .cfg_entry_o    (pc_id_entry_o),
    .cfg_entry_i    (pc_id_entry_i),
    .cfg_read_done_i(pc_id_read_done_i)
  );

  // Only who was asked answers: whom, needs no look at the address again.
  assign local_rsp = '{done: local_done_q, ok: local_ok_q, rdata: local_rdata_q};
  assign rsp_o = when_done(
      page_rsp
  ) | when_done(
      pc_id_rsp
  ) | when_done(
      net_rsp_i
  ) | when_done(
      local_rsp
  );

  function automatic reg_rsp_t when_done(reg_rsp_t rsp);
    return rsp.done ? rsp : '0;
  endfunction

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) $onehot0(
      {page_rsp.done, pc_id_rsp.done, net_rsp_i.done, local_rsp.done}
  ))
  else $error("nic_registers: two answers to one request");
  assert property (@(posedge clk_i) disable iff (rst_i) net_rsp_i.done |-> target == ToNet)
  else $error("nic_registers: an answer that nobody asked for");
`endif
endmodule
