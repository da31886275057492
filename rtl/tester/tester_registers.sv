// SPDX-License-Identifier: Apache-2.0
// Registers of a port of the instrument: settings, control, results (tables in docs/rfc2544.md).
//
// Latency   : a write holds from the next edge on; rdata_o follows addr_i by 1 edge.
// Clock     : clk_i.
// Handshake : none: a write and a read can come with each edge. Unknown registers read as 0 and
//             ignore writes.
// Drops     : none.
// Source    : docs/rfc2544.md.
module tester_registers #(
  /// Byte times of a cycle; software learns the speed from it.
  parameter int unsigned CycleBytes = 8
) (
  input  logic                              clk_i,
  input  logic                              rst_i,
  input  logic                              wr_i,
  input  tester_pkg::reg_t                  addr_i,
  input  logic                       [63:0] wdata_i,
  output logic                       [63:0] rdata_o,
  input  tester_pkg::now_t                  now_i,
  output tester_pkg::source_cfg_t           cfg_o,
  output tester_pkg::histogram_cfg_t        histogram_o,
  /// Pulses.
  output logic                              start_o,
  output logic                              stop_o,
  output logic                              clear_o,
  output logic                              list_lo_we_o,
  output logic                              list_hi_we_o,
  input  logic                              running_i,
  input  tester_pkg::sent_t                 sent_i,
  input  eth_pkg::rx_stat_t                 rx_stat_i,
  input  logic                              not_ours_i,
  input  tester_pkg::stamp_t                base_i,
  /// Answer, 1 edge after addr_i, of the areas that other modules hold.
  input  logic                       [47:0] histogram_data_i,
  input  logic                       [63:0] stream_data_i
);
  import tester_pkg::*;
  import eth_pkg::*;

  localparam int unsigned RxStats = $bits(rx_stat_t);
  // What a port sends if nobody says otherwise; the port of RFC 2544 is that of the echo service.
  localparam logic [15:0] SrcPort = 16'd49152;
  localparam logic [15:0] EchoPort = 16'd7;
  localparam logic [7:0] Ttl = 8'd64;

  source_cfg_t                        cfg_q;
  histogram_cfg_t                     histogram_q;
  logic           [RxStats-1:0][47:0] rx_q;
  logic           [       47:0]       not_ours_q;
  logic control, in_list;
  logic [63:0] plain, plain_q;
  logic [3:0] area_q;

  // ---- Writes -----------------------------------------------------------------------------------
  assign control      = wr_i && addr_i == RegControl;
  assign start_o      = control && wdata_i[ControlStart];
  assign stop_o       = control && wdata_i[ControlStop];
  assign clear_o      = control && wdata_i[ControlClear];
  assign in_list      = wr_i && addr_i[RegW-1] == AreaList;
  assign list_lo_we_o = in_list && !addr_i[0];
  assign list_hi_we_o = in_list && addr_i[0];

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      cfg_q                 <= '0;
      cfg_q.ttl             <= Ttl;
      cfg_q.size            <= SizeW'(MinFrame);
      cfg_q.burst           <= 32'd1;
      cfg_q.src_port        <= SrcPort;
      cfg_q.dst_port        <= EchoPort;
      histogram_q           <= '0;
      histogram_q.auto_base <= 1'b1;
      histogram_q.streams   <= '1;
    end else if (wr_i) begin
      unique case (addr_i)
        RegSrcMac:      cfg_q.src_mac <= wdata_i[47:0];
        RegDstMac:      cfg_q.dst_mac <= wdata_i[47:0];
        RegStream: begin
          cfg_q.v6     <= wdata_i[0];
          cfg_q.stream <= wdata_i[7:4];
          cfg_q.ttl    <= wdata_i[15:8];
          cfg_q.tos    <= wdata_i[23:16];
        end
        RegSize:        cfg_q.size <= wdata_i[SizeW-1:0];
        RegCount:       cfg_q.count <= wdata_i[47:0];
        RegInterval:    cfg_q.interval <= wdata_i[31:0];
        RegBurst:       cfg_q.burst <= wdata_i[31:0];
        RegSrcIpHi:     cfg_q.src_ip[127:64] <= wdata_i;
        RegSrcIpLo:     cfg_q.src_ip[63:0] <= wdata_i;
        RegDstIpHi:     cfg_q.dst_ip[127:64] <= wdata_i;
        RegDstIpLo:     cfg_q.dst_ip[63:0] <= wdata_i;
        RegStepHi:      cfg_q.step[127:64] <= wdata_i;
        RegStepLo:      cfg_q.step[63:0] <= wdata_i;
        RegSweep:       cfg_q.sweep <= wdata_i[31:0];
        RegPorts:       {cfg_q.src_port, cfg_q.dst_port} <= wdata_i[31:0];
        RegList:        cfg_q.list <= wdata_i[ListW:0];
        RegHistBase: begin
          histogram_q.auto_base <= wdata_i[63];
          histogram_q.base      <= wdata_i[StampW-1:0];
        end
        RegHistShift:   histogram_q.shift <= wdata_i[5:0];
        RegHistStreams: histogram_q.streams <= wdata_i[Streams-1:0];
        default:        ;
      endcase
    end
  end

  assign cfg_o       = cfg_q;
  assign histogram_o = histogram_q;

  // ---- Counts of the MAC ------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (rst_i || clear_o) begin
      rx_q       <= '0;
      not_ours_q <= '0;
    end else begin
      for (int unsigned i = 0; i < RxStats; i++) rx_q[i] <= rx_q[i] + 48'(rx_stat_i[i]);
      not_ours_q <= not_ours_q + 48'(not_ours_i);
    end
  end

  // ---- Reads ------------------------------------------------------------------------------------
  always_comb begin
    plain = '0;
    unique case (addr_i)
      RegId:          plain = IdValue;
      RegBuild:       plain = 64'({8'(CycleBytes), 8'(Streams), 8'(Bins), 8'(ListW)});
      RegControl:     plain[0] = running_i;
      RegTime:        plain = 64'({now_i, 1'b0});
      RegSrcMac:      plain = 64'(cfg_q.src_mac);
      RegDstMac:      plain = 64'(cfg_q.dst_mac);
      RegStream:      plain = 64'({cfg_q.tos, cfg_q.ttl, cfg_q.stream, 3'd0, cfg_q.v6});
      RegSize:        plain = 64'(cfg_q.size);
      RegCount:       plain = 64'(cfg_q.count);
      RegInterval:    plain = 64'(cfg_q.interval);
      RegBurst:       plain = 64'(cfg_q.burst);
      RegSrcIpHi:     plain = cfg_q.src_ip[127:64];
      RegSrcIpLo:     plain = cfg_q.src_ip[63:0];
      RegDstIpHi:     plain = cfg_q.dst_ip[127:64];
      RegDstIpLo:     plain = cfg_q.dst_ip[63:0];
      RegStepHi:      plain = cfg_q.step[127:64];
      RegStepLo:      plain = cfg_q.step[63:0];
      RegSweep:       plain = 64'(cfg_q.sweep);
      RegPorts:       plain = 64'({cfg_q.src_port, cfg_q.dst_port});
      RegList:        plain = 64'(cfg_q.list);
      RegTxFrames:    plain = 64'(sent_i.frames);
      RegTxBytes:     plain = sent_i.bytes;
      RegTxFirst:     plain = 64'(sent_i.first);
      RegTxLast:      plain = 64'(sent_i.last);
      RegRxNotOurs:   plain = 64'(not_ours_q);
      RegHistBase:    plain = {histogram_q.auto_base, 15'd0, base_i};
      RegHistShift:   plain = 64'(histogram_q.shift);
      RegHistStreams: plain = 64'(histogram_q.streams);
      default: begin
        for (int unsigned i = 0; i < RxStats; i++) begin
          if (addr_i == RegRxStat + RegW'(i)) plain = 64'(rx_q[i]);
        end
      end
    endcase
  end

  always_ff @(posedge clk_i) begin
    plain_q <= plain;
    area_q  <= addr_i[RegW-1-:4];
  end

  assign rdata_o = area_q == AreaHistogram ? 64'(histogram_data_i)
                 : area_q == AreaStreams ? stream_data_i : plain_q;
endmodule
