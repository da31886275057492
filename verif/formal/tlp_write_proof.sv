// SPDX-License-Identifier: Apache-2.0
// posted_write, which is all that host_notice sends: its TLPs keep the rules of tlp_rules, for any data and any
// address that does not cross a page.
//
// Clock  : clk_i.
// Source : ours.
module tlp_write_proof
  import ipnuma_pkg::*;
  import pcie_pkg::*;
(
  input logic         clk_i,
  input logic         rst_i,
  input logic [ 15:0] completer_id_i,
  input logic [  2:0] max_payload_i,
  input logic         bus_master_i,
  input logic         valid_i,
  input logic [ 63:0] address_i,
  input logic [127:0] data_i,
  input logic         four_i,
  input logic         ready_i
);
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();
  assign m_tlp.tready = ready_i;

  pcie_cfg_t cfg;
  assign cfg = '{
          max_payload: max_payload_i,
          max_read: max_payload_i,
          rcb_128: 1'b0,
          bus_master: bus_master_i
      };

  posted_write u_dut (
    .clk_i,
    .rst_i,
    .completer_id_i,
    .bus_master_i,
    .valid_i,
    .address_i,
    .data_i,
    .four_i,
    .take_o(),
    .m_tlp,
    .busy_o()
  );

  tlp_rules #(
    .AtSource(1'b1)
  ) u_rules (
    .clk_i,
    .rst_i,
    .cfg_i   (cfg),
    .tdata_i (m_tlp.tdata),
    .tkeep_i (m_tlp.tkeep),
    .tvalid_i(m_tlp.tvalid),
    .tready_i(m_tlp.tready),
    .tlast_i (m_tlp.tlast)
  );

  logic        begun_q;
  logic [15:0] id_q;
  logic [ 2:0] dws;
  initial begin
    begun_q = 1'b0;
  end
  always_ff @(posedge clk_i) begin
    begun_q <= 1'b1;
    id_q    <= completer_id_i;
  end
  assign dws = u_dut.four_q ? 3'd4 : 3'd1;

  always_comb begin
    assume (rst_i == !begun_q);
    if (begun_q) assume (completer_id_i == id_q);
    assume (max_payload_i <= 3'd5);
    // Registers and rings are aligned: see event_queue, nic_registers.
    assume (address_i[1:0] == '0 && (!four_i || address_i[11:2] <= 10'd1020));
  end

  // What always holds, so that one step follows from the one before.
  always_ff @(posedge clk_i) begin
    if (begun_q && u_rules.started_q) begin
      a_beats :
      assert (u_rules.first_q == (u_dut.beat_q == '0) &&
                        u_rules.second_q == (u_dut.beat_q == 2'd1));
      a_rest : assert (u_dut.active_q || u_dut.beat_q == '0);
      if (u_dut.active_q) begin
        a_place :
        assert (u_dut.beat_q <= u_dut.last_beat && u_dut.address_q[1:0] == '0 &&
                          11'(u_dut.address_q[11:2]) + 11'(dws) <= 11'd1024);
      end
      if (u_dut.active_q && u_dut.beat_q == '0 && !u_rules.waits_q) begin
        a_permitted : assert (u_rules.master_q);
      end
      if (u_dut.beat_q != '0) begin
        a_left :
        assert (u_rules.left_q == 11'd3 + 11'(u_dut.wide) + 11'(dws) - 11'({u_dut.beat_q, 1'b0}));
        a_type : assert (u_rules.start_q.fmt_type == (u_dut.wide ? TLP_MWR64 : TLP_MWR32));
        a_length : assert (u_rules.start_q.length == 10'(dws));
        a_be : assert (u_rules.start_q.low[7:0] == (u_dut.four_q ? 8'hFF : 8'h0F));
      end
    end
  end
endmodule
