// SPDX-License-Identifier: Apache-2.0
// BAR 0 on the network side: windows onto the shared-region, session and key tables, the state of the
// sessions, network counters, the last error report, what governs sessions, and this side's copies of
// MAC, IP and EPOCH.
//
// Latency   : registers answer in 1 cycle, counters in 3 (stats_ram), tables and the state of a session
//             as table_window says.
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
  parameter  int unsigned Regions  = 256,
  /// Sessions.
  parameter  int unsigned Sessions = 64,
  localparam int unsigned RegionW  = $clog2(Regions),
  localparam int unsigned SessionW = $clog2(Sessions)
) (
  input  logic                               clk_i,
  input  logic                               rst_i,
  input  reg_req_t                           req_i,
  output reg_rsp_t                           rsp_o,
  /// One bit a counter, indexed by net_counter_e.
  input  logic            [NET_COUNTERS-1:0] event_i,
  /// A frame is being judged by the table of regions: writes of entries wait.
  input  logic                               region_hold_i,
  output logic                               region_write_o,
  output logic                               region_read_o,
  output logic            [     RegionW-1:0] region_index_o,
  output region_entry_t                      region_entry_o,
  input  region_entry_t                      region_entry_i,
  input  logic                               region_read_done_i,
  /// Pulse: an error report has arrived; its body and sender.
  input  logic                               error_valid_i,
  input  logic            [             7:0] error_code_i,
  input  logic            [             7:0] error_op_i,
  input  logic            [            15:0] error_sequence_i,
  input  logic            [            63:0] error_address_i,
  input  logic            [            31:0] error_ip_i,
  /// First byte on the wire in the most significant bits.
  output logic            [            47:0] mac_o,
  output logic            [            31:0] ip_o,
  output logic            [             7:0] epoch_o,
  /// Frames are sealed and unsealed.
  output logic                               auth_o,
  /// Ticks of SESSION_TICK_CYCLES.
  output logic            [            15:0] resend_ticks_o,
  output logic            [             7:0] ack_ticks_o,
  output logic            [            15:0] resend_limit_o,
  output logic            [            27:0] window_o,
  output logic            [            31:0] pace_o,
  output logic                               session_write_o,
  output logic                               session_read_o,
  output logic            [    SessionW-1:0] session_index_o,
  output session_entry_t                     session_entry_o,
  input  session_entry_t                     session_entry_i,
  input  logic                               session_read_done_i,
  output logic                               key_write_o,
  output logic            [    SessionW-1:0] key_index_o,
  output key_entry_t                         key_entry_o,
  /// Pulse: the state of session status_index_o is wanted; it comes with status_done_i.
  output logic                               status_read_o,
  output logic            [    SessionW-1:0] status_index_o,
  input  session_status_t                    status_i,
  input  logic                               status_done_i,
  /// Counters are not at rest.
  output logic                               busy_o
);
  localparam int unsigned CounterWindowW = 12;
  localparam int unsigned CounterW = $clog2(NET_COUNTERS);
  localparam int unsigned RegionWindowW = 21;
  localparam int unsigned SessionWindowW = 13;
  localparam int unsigned KeyWindowW = 14;
  localparam int unsigned StatusWindowW = 13;

  logic [47:0] mac_q;
  logic [31:0] ip_q;
  logic [ 7:0] epoch_q;
  logic [31:0] error_q, error_ip_q;
  logic     [63:0] error_address_q;

  reg_req_t        region_req;
  reg_rsp_t        region_rsp;
  reg_req_t session_req, key_req, status_req;
  reg_rsp_t session_rsp, key_rsp, status_rsp;
  logic [15:0][31:0] key_dws;
  logic is_region, is_counter, is_session, is_key, is_status;
  logic start, done_q, ok_q, ok, count_read, count_valid;

  logic [ 1:0] control_q;
  logic [15:0] resend_ticks_q;
  logic [ 7:0] ack_ticks_q;
  logic [15:0] resend_limit_q;
  logic [27:0] window_q;
  logic [31:0] pace_q;
  logic [31:0] rdata_q, rdata, count;

  assign is_region = req_i.addr[22:RegionWindowW] == REGION_BASE[22:RegionWindowW];
  assign is_counter = req_i.addr[22:CounterWindowW] == NET_COUNTER_BASE[22:CounterWindowW];
  assign is_session = req_i.addr[22:SessionWindowW] == SESSION_BASE[22:SessionWindowW];
  assign is_key = req_i.addr[22:KeyWindowW] == KEY_BASE[22:KeyWindowW];
  assign is_status = req_i.addr[22:StatusWindowW] == SESSION_STATUS_BASE[22:StatusWindowW];
  assign count_read = req_i.valid && is_counter && !req_i.write && !done_q &&
      32'(req_i.addr[CounterWindowW-1:2]) < NET_COUNTERS;
  assign start      = req_i.valid && !is_region && !is_session && !is_key && !done_q &&
      (!is_status || req_i.write) && !count_read;

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
    ok    = !req_i.write;
    rdata = '0;
    if (is_counter) begin
      // Beyond the last one, or a write.
      ok = 1'b0;
    end else begin
      unique case (req_i.addr)
        REG_LAST_ERROR:                            rdata = error_q;
        REG_LAST_ERROR_ADDR_LO:                    rdata = error_address_q[31:0];
        REG_LAST_ERROR_ADDR_HI:                    rdata = error_address_q[63:32];
        REG_LAST_ERROR_IP:                         rdata = error_ip_q;
        REG_MAC_LO, REG_MAC_HI, REG_IP, REG_EPOCH: ok = req_i.write;
        REG_CONTROL: begin
          ok    = 1'b1;
          rdata = {30'd0, control_q};
        end
        REG_RESEND_TICKS: begin
          ok    = 1'b1;
          rdata = {16'd0, resend_ticks_q};
        end
        REG_ACK_TICKS: begin
          ok    = 1'b1;
          rdata = {24'd0, ack_ticks_q};
        end
        REG_RESEND_LIMIT: begin
          ok    = 1'b1;
          rdata = {16'd0, resend_limit_q};
        end
        REG_WINDOW: begin
          ok    = 1'b1;
          rdata = {4'd0, window_q};
        end
        REG_PACE: begin
          ok    = 1'b1;
          rdata = pace_q;
        end
        default:                                   ok = 1'b0;
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
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      mac_q           <= '0;
      ip_q            <= '0;
      epoch_q         <= '0;
      error_q         <= '0;
      error_address_q <= '0;
      error_ip_q      <= '0;
      control_q       <= CONTROL_RESET[1:0];
      resend_ticks_q  <= RESEND_TICKS_RESET[15:0];
      ack_ticks_q     <= ACK_TICKS_RESET[7:0];
      resend_limit_q  <= RESEND_LIMIT_RESET[15:0];
      window_q        <= WINDOW_RESET[27:0];
      pace_q          <= PACE_RESET;
    end else begin
      if (error_valid_i) begin
        error_q         <= {error_sequence_i, error_op_i, error_code_i};
        error_address_q <= error_address_i;
        error_ip_q      <= error_ip_i;
      end
      if (start && req_i.write) begin
        unique case (req_i.addr)
          REG_MAC_LO:       mac_q[31:0] <= req_i.wdata;
          REG_MAC_HI:       mac_q[47:32] <= req_i.wdata[15:0];
          REG_IP:           ip_q <= req_i.wdata;
          REG_EPOCH:        epoch_q <= req_i.wdata[7:0];
          REG_CONTROL:      control_q <= req_i.wdata[1:0];
          REG_RESEND_TICKS: resend_ticks_q <= req_i.wdata[15:0];
          REG_ACK_TICKS:    ack_ticks_q <= req_i.wdata[7:0];
          REG_RESEND_LIMIT: resend_limit_q <= req_i.wdata[15:0];
          REG_WINDOW:       window_q <= req_i.wdata[27:0];
          REG_PACE:         pace_q <= req_i.wdata;
          default:          ;
        endcase
      end
    end
  end

  assign auth_o         = control_q[1];
  assign resend_ticks_o = resend_ticks_q;
  assign ack_ticks_o    = ack_ticks_q;
  assign resend_limit_o = resend_limit_q;
  assign window_o       = window_q;
  assign pace_o         = pace_q;
  assign mac_o          = mac_q;
  assign ip_o           = ip_q;
  assign epoch_o        = epoch_q;

  always_comb begin
    region_req        = req_i;
    region_req.valid  = req_i.valid && is_region;
    session_req       = req_i;
    session_req.valid = req_i.valid && is_session;
    key_req           = req_i;
    key_req.valid     = req_i.valid && is_key;
    status_req        = req_i;
    status_req.valid  = req_i.valid && is_status && !req_i.write;
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
    .hold_i         (region_hold_i),
    .cfg_write_o    (region_write_o),
    .cfg_read_o     (region_read_o),
    .cfg_index_o    (region_index_o),
    .cfg_entry_o    (region_entry_o),
    .cfg_entry_i    (region_entry_i),
    .cfg_read_done_i(region_read_done_i)
  );

  table_window #(
    .entry_t(session_entry_t),
    .Entries(Sessions),
    .WindowW(SessionWindowW)
  ) u_session_window (
    .clk_i,
    .rst_i,
    .addr_i         (req_i.addr[SessionWindowW-1:0]),
    .req_i          (session_req),
    .rsp_o          (session_rsp),
    .hold_i         (1'b0),
    .cfg_write_o    (session_write_o),
    .cfg_read_o     (session_read_o),
    .cfg_index_o    (session_index_o),
    .cfg_entry_o    (session_entry_o),
    .cfg_entry_i    (session_entry_i),
    .cfg_read_done_i(session_read_done_i)
  );

  table_window #(
    .entry_t (session_status_t),
    .Entries (Sessions),
    .WindowW (StatusWindowW),
    .Writable(1'b0)
  ) u_status_window (
    .clk_i,
    .rst_i,
    .addr_i         (req_i.addr[StatusWindowW-1:0]),
    .req_i          (status_req),
    .rsp_o          (status_rsp),
    .hold_i         (1'b0),
    .cfg_write_o    (),
    .cfg_read_o     (status_read_o),
    .cfg_index_o    (status_index_o),
    .cfg_entry_o    (),
    .cfg_entry_i    (status_i),
    .cfg_read_done_i(status_done_i)
  );

  // Keys can't be read back.
  table_window #(
    .entry_t (logic [511:0]),
    .Entries (Sessions),
    .WindowW (KeyWindowW),
    .Readable(1'b0)
  ) u_key_window (
    .clk_i,
    .rst_i,
    .addr_i         (req_i.addr[KeyWindowW-1:0]),
    .req_i          (key_req),
    .rsp_o          (key_rsp),
    .hold_i         (1'b0),
    .cfg_write_o    (key_write_o),
    .cfg_read_o     (),
    .cfg_index_o    (key_index_o),
    .cfg_entry_o    (key_dws),
    .cfg_entry_i    ('0),
    .cfg_read_done_i(1'b0)
  );

  assign key_entry_o = '{
          tx_key: {key_dws[0], key_dws[1], key_dws[2], key_dws[3]},
          rx_key: {key_dws[4], key_dws[5], key_dws[6], key_dws[7]},
          tx_salt: key_dws[8],
          rx_salt: key_dws[9],
          send: key_dws[15][2],
          receive: key_dws[15][1],
          phase: key_dws[15][0] && key_dws[15][2:1] != '0
      };

  logic unused;
  assign unused = ^{key_dws[15][31:3], key_dws[14:10]};

  always_comb begin
    if (is_region) rsp_o = region_rsp;
    else if (is_session) rsp_o = session_rsp;
    else if (is_key) rsp_o = key_rsp;
    else if (is_status && !req_i.write) rsp_o = status_rsp;
    else rsp_o = '{done: done_q, ok: ok_q, rdata: rdata_q};
  end
endmodule
