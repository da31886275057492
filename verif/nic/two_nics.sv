// SPDX-License-Identifier: Apache-2.0
// Two 10G NICs with their XGMII back to back, and a generator and checker for line rate.
//
// With gen_stores_i above zero, NIC A gets that many 64-byte stores to page 0, back to back, NIC B's
// root complex pauses at random, and each DMA write that leaves B is compared.
//
// Latency   : the wires between the NICs have none; with shift_i they have half a word more than A
//             has, so that frames start in the other lane.
// Clock     : a_clk_pcie_i, b_clk_pcie_i, clk_net_i (both NICs).
// Handshake : as the NICs'.
// Drops     : none.
// Source    : own; test bench only.
module two_nics #(
  /// Pages of both NICs.
  parameter int unsigned Pages = 262144,
  /// PC ID table entries of both NICs.
  parameter int unsigned PcIds = 256,
  /// Shared-region table entries of both NICs.
  parameter int unsigned Regions = 256
) (
  input  logic        clk_net_i,
  input  logic        rst_i,
  input  logic        shift_i,
  input  logic        a_clk_pcie_i,
  input  logic [63:0] a_s_tlp_tdata_i,
  input  logic [ 7:0] a_s_tlp_tkeep_i,
  input  logic        a_s_tlp_tvalid_i,
  input  logic        a_s_tlp_tlast_i,
  input  logic [ 2:0] a_s_tlp_tuser_i,
  output logic        a_s_tlp_tready_o,
  output logic [63:0] a_m_tlp_tdata_o,
  output logic [ 7:0] a_m_tlp_tkeep_o,
  output logic        a_m_tlp_tvalid_o,
  output logic        a_m_tlp_tlast_o,
  input  logic        a_m_tlp_tready_i,
  input  logic        b_clk_pcie_i,
  input  logic [63:0] b_s_tlp_tdata_i,
  input  logic [ 7:0] b_s_tlp_tkeep_i,
  input  logic        b_s_tlp_tvalid_i,
  input  logic        b_s_tlp_tlast_i,
  input  logic [ 2:0] b_s_tlp_tuser_i,
  output logic        b_s_tlp_tready_o,
  output logic [63:0] b_m_tlp_tdata_o,
  output logic [ 7:0] b_m_tlp_tkeep_o,
  output logic        b_m_tlp_tvalid_o,
  output logic        b_m_tlp_tlast_o,
  input  logic        b_m_tlp_tready_i,
  /// Stores to generate; change it only while it is 0 or all are done.
  input  logic [31:0] gen_stores_i,
  /// Of 256 cycles, how many B's root complex pauses.
  input  logic [ 7:0] gen_pause_i,
  output logic [31:0] gen_checked_o,
  output logic [31:0] gen_wrong_o,
  /// XGMII of A in generated traffic: frames, bytes from the first start to the last, and the
  /// longest distance of two starts.
  output logic [31:0] gen_frames_o,
  output logic [63:0] gen_bytes_o,
  output logic [31:0] gen_longest_o,
  output logic        busy_o
);
  localparam int unsigned StoreDw = 16;
  localparam int unsigned Beats = (3 + StoreDw + 1) / 2;

  logic [63:0] a_txd, b_txd, b_rxd;
  logic [7:0] a_txc, b_txc, b_rxc;
  logic [31:0] half_data_q;
  logic [ 3:0] half_ctrl_q;
  logic [ 3:0] busy;
  logic        generating;

  always_ff @(posedge clk_net_i) begin
    half_data_q <= a_txd[63:32];
    half_ctrl_q <= a_txc[7:4];
  end
  assign b_rxd = shift_i ? {a_txd[31:0], half_data_q} : a_txd;
  assign b_rxc = shift_i ? {a_txc[3:0], half_ctrl_q} : a_txc;

  // ---- Generator: store n writes n * 16 + i to DW i of line n modulo 64 --------------------------
  logic [31:0] sent_q;
  logic [ 3:0] beat_q;
  logic gen_valid, gen_last;
  logic [63:0] gen_data;

  assign generating = gen_stores_i != '0;
  assign gen_valid  = sent_q != gen_stores_i;
  assign gen_last   = beat_q == 4'(Beats - 1);

  function automatic logic [31:0] payload(logic [31:0] n, logic [3:0] i);
    return {n[27:0], i};
  endfunction

  always_comb begin
    unique case (beat_q)
      // MWr, 3 DW header, 16 DW, all bytes.
      4'd0: gen_data = {8'hFF, 8'h00, 16'h0000, 8'(StoreDw), 8'h00, 8'h00, 8'h40};
      4'd1: gen_data = {payload(sent_q, 4'd0), {sent_q[1:0], 6'd0}, {4'd0, sent_q[5:2]}, 16'd0};
      default: begin
        gen_data = {payload(sent_q, 4'(2 * beat_q - 4'd2)), payload(sent_q, 4'(2 * beat_q - 4'd3))};
      end
    endcase
  end

  always_ff @(posedge a_clk_pcie_i) begin
    if (rst_i || !generating) begin
      sent_q <= '0;
      beat_q <= '0;
    end else if (gen_valid && a_s_tlp_tready_o) begin
      beat_q <= gen_last ? '0 : beat_q + 1'b1;
      if (gen_last) sent_q <= sent_q + 1'b1;
    end
  end

  // ---- Checker ----------------------------------------------------------------------------------
  logic [31:0] noise_q;
  logic        gen_ready_q;
  logic [ 3:0] at_q;
  logic [63:0] want;

  always_comb begin
    unique case (at_q)
      4'd0: want = {8'hFF, 8'h00, 16'h0000, 8'(StoreDw), 8'h00, 8'h00, 8'h40};
      4'd1: begin
        want = {
          payload(gen_checked_o, 4'd0),
          {gen_checked_o[1:0], 6'd0},
          {4'd0, gen_checked_o[5:2]},
          16'h1000
        };
      end
      default: begin
        want = {
          payload(gen_checked_o, 4'(2 * at_q - 4'd2)), payload(gen_checked_o, 4'(2 * at_q - 4'd3))
        };
      end
    endcase
    if (b_m_tlp_tlast_o) want[63:32] = b_m_tlp_tdata_o[63:32];
  end

  always_ff @(posedge b_clk_pcie_i) begin
    if (rst_i || !generating) begin
      noise_q       <= 32'h1ACE_B00C;
      gen_ready_q   <= 1'b1;
      gen_checked_o <= '0;
      gen_wrong_o   <= '0;
      at_q          <= '0;
    end else begin
      noise_q     <= {noise_q[30:0], noise_q[31] ^ noise_q[21] ^ noise_q[1] ^ noise_q[0]};
      gen_ready_q <= noise_q[7:0] >= gen_pause_i;
      if (b_m_tlp_tvalid_o && gen_ready_q) begin
        at_q <= b_m_tlp_tlast_o ? '0 : at_q + 1'b1;
        if (b_m_tlp_tlast_o) gen_checked_o <= gen_checked_o + 1'b1;
        if (b_m_tlp_tdata_o != want || b_m_tlp_tlast_o != (at_q == 4'(Beats - 1))) begin
          gen_wrong_o <= gen_wrong_o + 1'b1;
        end
      end
    end
  end

  // ---- XGMII ------------------------------------------------------------------------------------
  logic [31:0] since_q, distance;
  logic starts0, starts4;

  assign starts0  = a_txc[0] && a_txd[7:0] == 8'hFB;
  assign starts4  = a_txc[4] && a_txd[39:32] == 8'hFB;
  // since_q: bytes from the last start to lane 0 of this word.
  assign distance = since_q + (starts4 ? 32'd4 : 32'd0);

  always_ff @(posedge clk_net_i) begin
    if (rst_i || !generating) begin
      gen_frames_o  <= '0;
      gen_bytes_o   <= '0;
      gen_longest_o <= '0;
    end else begin
      since_q <= since_q + 32'd8;
      if (starts0 || starts4) begin
        since_q      <= starts4 ? 32'd4 : 32'd8;
        gen_frames_o <= gen_frames_o + 1'b1;
        if (gen_frames_o != '0) begin
          gen_bytes_o <= gen_bytes_o + 64'(distance);
          if (distance > gen_longest_o) gen_longest_o <= distance;
        end
      end
    end
  end

  // ---- NICs -------------------------------------------------------------------------------------
  ipnuma_nic_10g #(
    .Pages  (Pages),
    .PcIds  (PcIds),
    .Regions(Regions)
  ) u_a (
    .clk_pcie_i       (a_clk_pcie_i),
    .rst_pcie_i       (rst_i),
    .clk_net_i,
    .rst_net_i        (rst_i),
    .completer_id_i   (16'h0100),
    .cfg_max_payload_i(3'd1),
    .cfg_max_read_i   (3'd2),
    .cfg_rcb_128_i    (1'b0),
    .cfg_bus_master_i (1'b1),
    .now_us_i         ('0),
    .link_up_i        (1'b1),
    .s_tlp_tdata_i    (generating ? gen_data : a_s_tlp_tdata_i),
    .s_tlp_tkeep_i    (generating ? (gen_last ? 8'h0F : 8'hFF) : a_s_tlp_tkeep_i),
    .s_tlp_tvalid_i   (generating ? gen_valid : a_s_tlp_tvalid_i),
    .s_tlp_tlast_i    (generating ? gen_last : a_s_tlp_tlast_i),
    .s_tlp_tuser_i    (generating ? 3'd2 : a_s_tlp_tuser_i),
    .s_tlp_tready_o   (a_s_tlp_tready_o),
    .m_tlp_tdata_o    (a_m_tlp_tdata_o),
    .m_tlp_tkeep_o    (a_m_tlp_tkeep_o),
    .m_tlp_tvalid_o   (a_m_tlp_tvalid_o),
    .m_tlp_tlast_o    (a_m_tlp_tlast_o),
    .m_tlp_tready_i   (a_m_tlp_tready_i),
    .xgmii_txd_o      (a_txd),
    .xgmii_txc_o      (a_txc),
    .xgmii_rxd_i      (b_txd),
    .xgmii_rxc_i      (b_txc),
    .busy_pcie_o      (busy[0]),
    .busy_net_o       (busy[1])
  );

  ipnuma_nic_10g #(
    .Pages  (Pages),
    .PcIds  (PcIds),
    .Regions(Regions)
  ) u_b (
    .clk_pcie_i       (b_clk_pcie_i),
    .rst_pcie_i       (rst_i),
    .clk_net_i,
    .rst_net_i        (rst_i),
    .completer_id_i   (16'h0000),
    .cfg_max_payload_i(3'd1),
    .cfg_max_read_i   (3'd2),
    .cfg_rcb_128_i    (1'b0),
    .cfg_bus_master_i (1'b1),
    .now_us_i         ('0),
    .link_up_i        (1'b1),
    .s_tlp_tdata_i    (b_s_tlp_tdata_i),
    .s_tlp_tkeep_i    (b_s_tlp_tkeep_i),
    .s_tlp_tvalid_i   (b_s_tlp_tvalid_i),
    .s_tlp_tlast_i    (b_s_tlp_tlast_i),
    .s_tlp_tuser_i    (b_s_tlp_tuser_i),
    .s_tlp_tready_o   (b_s_tlp_tready_o),
    .m_tlp_tdata_o    (b_m_tlp_tdata_o),
    .m_tlp_tkeep_o    (b_m_tlp_tkeep_o),
    .m_tlp_tvalid_o   (b_m_tlp_tvalid_o),
    .m_tlp_tlast_o    (b_m_tlp_tlast_o),
    .m_tlp_tready_i   (generating ? gen_ready_q : b_m_tlp_tready_i),
    .xgmii_txd_o      (b_txd),
    .xgmii_txc_o      (b_txc),
    .xgmii_rxd_i      (b_rxd),
    .xgmii_rxc_i      (b_rxc),
    .busy_pcie_o      (busy[2]),
    .busy_net_o       (busy[3])
  );

  assign busy_o = |busy || (generating && gen_checked_o != gen_stores_i);
endmodule
