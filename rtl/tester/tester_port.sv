// SPDX-License-Identifier: Apache-2.0
// A port of the RFC 2544 instrument between its MACs: source, stamps, checks, meters, registers.
//
// Latency   : the parts'.
// Clock     : clk_i. The port does nothing on its own while busy_o is low.
// Handshake : streams are the MACs'.
// Drops     : none.
// Source    : RFC 2544; the dissertation (5.3.1) measures with magukara, an instrument of this kind.
module tester_port #(
  /// Byte times of a cycle: 8 at 10G, 1 at 1G.
  parameter int unsigned CycleBytes = 8
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  /// Cycles of clk_i, common to all ports; runs while any of them is busy.
  input  tester_pkg::now_t         now_i,
  input  logic                     wr_i,
  input  tester_pkg::reg_t         addr_i,
  input  logic              [63:0] wdata_i,
  output logic              [63:0] rdata_o,
  output logic                     start_o,
  input  logic                     ready_start_i,
         axis_if.src               m_axis,
  input  eth_pkg::tx_stat_t        tx_stat_i,
  input  logic                     tx_busy_i,
  /// The first bit of a frame is on the pins; half: in the second half of the cycle.
  input  logic                     tx_first_i,
  input  logic                     tx_half_i,
         axis_if.snk               s_axis,
  input  eth_pkg::rx_stat_t        rx_stat_i,
  input  logic                     rx_busy_i,
  input  logic                     rx_first_i,
  input  logic                     rx_half_i,
  output logic                     busy_o
);
  import tester_pkg::*;
  import eth_pkg::*;

  source_cfg_t    cfg;
  histogram_cfg_t histogram;
  logic start, stop, clear, list_lo_we, list_hi_we, source_running, running;
  stamp_t tx_stamp, rx_stamp, base, latency;
  logic     tx_stamped;
  arrival_t arrival;
  logic arrived, not_ours, measured, check_busy, meter_busy, histogram_busy;
  logic  [StreamW-1:0] stream;
  logic  [       47:0] histogram_data;
  logic  [       63:0] stream_data;
  sent_t               sent_q;
  logic                first_q;  // no frame of this trial has been stamped

  assign running = source_running || tx_busy_i;

  tester_registers #(
    .CycleBytes(CycleBytes)
  ) u_registers (
    .clk_i,
    .rst_i,
    .wr_i,
    .addr_i,
    .wdata_i,
    .rdata_o,
    .now_i,
    .cfg_o           (cfg),
    .histogram_o     (histogram),
    .start_o         (start),
    .stop_o          (stop),
    .clear_o         (clear),
    .list_lo_we_o    (list_lo_we),
    .list_hi_we_o    (list_hi_we),
    .running_i       (running),
    .sent_i          (sent_q),
    .rx_stat_i,
    .not_ours_i      (not_ours),
    .base_i          (base),
    .histogram_data_i(histogram_data),
    .stream_data_i   (stream_data)
  );

  // ---- Transmit ---------------------------------------------------------------------------------
  frame_stamp u_tx_stamp (
    .clk_i,
    .rst_i,
    .now_i,
    .start_i(tx_first_i),
    .half_i (tx_half_i),
    .stamp_o(tx_stamp),
    .valid_o(tx_stamped)
  );

  frame_source #(
    .CycleBytes(CycleBytes)
  ) u_source (
    .clk_i,
    .rst_i,
    .cfg_i       (cfg),
    .start_i     (start && !running),
    .stop_i      (stop),
    .running_o   (source_running),
    .list_lo_we_i(list_lo_we),
    .list_hi_we_i(list_hi_we),
    .list_addr_i (addr_i[ListW:1]),
    .list_data_i (wdata_i),
    .stamp_i     (tx_stamp),
    .start_o,
    .ready_start_i,
    .m_axis
  );

  always_ff @(posedge clk_i) begin
    if (rst_i || (start && !running)) begin
      sent_q  <= '0;
      first_q <= 1'b1;
    end else begin
      if (tx_stat_i.good) begin
        sent_q.frames <= sent_q.frames + 1'b1;
        sent_q.bytes  <= sent_q.bytes + 64'(cfg.size);
      end
      if (tx_stamped) begin
        first_q     <= 1'b0;
        sent_q.last <= tx_stamp;
        if (first_q) sent_q.first <= tx_stamp;
      end
    end
  end

  // ---- Receive ----------------------------------------------------------------------------------
  frame_stamp u_rx_stamp (
    .clk_i,
    .rst_i,
    .now_i,
    .start_i(rx_first_i),
    .half_i (rx_half_i),
    .stamp_o(rx_stamp),
    .valid_o()
  );

  frame_check u_check (
    .clk_i,
    .rst_i,
    .dst_port_i(cfg.dst_port),
    .stamp_i   (rx_stamp),
    .s_axis,
    .arrival_o (arrival),
    .valid_o   (arrived),
    .not_ours_o(not_ours),
    .busy_o    (check_busy)
  );

  latency_meter u_meter (
    .clk_i,
    .rst_i,
    .clear_i    (clear),
    .arrival_i  (arrival),
    .valid_i    (arrived),
    .latency_o  (latency),
    .stream_o   (stream),
    .measured_o (measured),
    .rd_stream_i(addr_i[4+:StreamW]),
    .rd_field_i (addr_i[3:0]),
    .rd_data_o  (stream_data),
    .busy_o     (meter_busy)
  );

  latency_histogram u_histogram (
    .clk_i,
    .rst_i,
    .clear_i  (clear),
    .cfg_i    (histogram),
    .latency_i(latency),
    .stream_i (stream),
    .valid_i  (measured),
    .base_o   (base),
    .rd_addr_i(addr_i[BinW:0]),
    .rd_data_o(histogram_data),
    .busy_o   (histogram_busy)
  );

  assign busy_o = running || tx_first_i || tx_stamped || rx_busy_i || rx_first_i || check_busy ||
      meter_busy || histogram_busy || |rx_stat_i || |tx_stat_i;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_underrun :
      assert (!tx_stat_i.underrun && !tx_stat_i.spoiled)
      else $error("the source stalled");
    end
  end
`endif
endmodule
