// SPDX-License-Identifier: Apache-2.0
// server_dma, for any operations, payload, limits and root complex: every TLP keeps the rules of tlp_rules.
//
// What it relies on, and who sees to it: operations are legal and within a page (frame_parser, region_check), a
// completion that is passed on fits its load (load_tags), a tag that is offered stays (tag_pool). Limits change
// only between operations.
//
// Clock  : clk_i.
// Source : ours.
module tlp_dma_proof
  import ipnuma_pkg::*;
  import pcie_pkg::*;
(
  input logic           clk_i,
  input logic           rst_i,
  input logic    [15:0] completer_id_i,
  input logic    [ 2:0] max_payload_i,
  input logic    [ 2:0] max_read_i,
  input logic           bus_master_i,
  input logic           valid_i,
  input rx_op_t         op_i,
  input logic    [63:0] pay_word_i,
  input logic           alloc_ok_i,
  input logic    [ 7:0] alloc_tag_i,
  input logic           part_done_i,
  input logic           part_failed_i,
  input logic           live_i,
  input load_t          load_i,
  input answer_t        answer_i,
  input logic           repeated_i,
  input logic           ready_i
);
  localparam int unsigned Boundary = ROOT_BOUNDARY_BYTES;

  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();
  assign m_tlp.tready = ready_i;

  pcie_cfg_t cfg, cfg_q;
  rx_op_t op;
  logic take, pop, keep;

  assign cfg = '{
          max_payload: max_payload_i,
          max_read: max_read_i,
          rcb_128: 1'b0,
          bus_master: bus_master_i
      };

  server_dma u_dut (
    .clk_i,
    .rst_i,
    .completer_id_i,
    .cfg_i                           (cfg),
    .valid_i,
    .op_i,
    .take_o                          (take),
    .pay_idx_o                       (),
    .pay_word_i,
    .pop_o                           (pop),
    .op_o                            (op),
    .dma_alloc_o                     (),
    .dma_keep_o                      (keep),
    .dma_byte_count_o                (),
    .dma_behind_o                    (),
    .dma_lower_address_o             (),
    .dma_alloc_ok_i                  (alloc_ok_i),
    .dma_alloc_tag_i                 (alloc_tag_i),
    .part_done_i,
    .part_failed_i,
    .load_look_o                     (),
    .load_live_i                     (live_i),
    .load_i,
    .load_answer_i                   (answer_i),
    .load_repeated_i                 (repeated_i),
    .load_take_o                     (),
    .load_hold_o                     (),
    .m_tlp,
    .arrival_o                       (),
    .cnt_dma_write_o                 (),
    .cnt_dma_read_o                  (),
    .cnt_load_completion_unexpected_o(),
    .cnt_load_completion_repeated_o  (),
    .busy_o                          ()
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

  // ---- What it relies on -----------------------------------------------------------------------
  logic begun_q, held_q, waited_q, keep_q, ok_q;
  logic [15:0] id_q;
  logic [ 7:0] tag_q;
  logic [63:0] word_q;
  logic [13:0] carried;
  initial begin
    begun_q = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    begun_q  <= 1'b1;
    held_q   <= !rst_i && (take || (held_q && !pop));
    waited_q <= m_tlp.tvalid && !ready_i;
    keep_q   <= keep && !rst_i;
    ok_q     <= alloc_ok_i;
    tag_q    <= alloc_tag_i;
    word_q   <= pay_word_i;
    cfg_q    <= cfg;
    id_q     <= completer_id_i;
  end

  assign carried = 14'({op.data_dw, 2'b00}) - 14'(op.lower_address[1:0]);

  always_comb begin
    assume (rst_i == !begun_q);
    if (begun_q) begin
      assume (completer_id_i == id_q);
      if (held_q) begin
        assume (cfg.max_payload == cfg_q.max_payload && cfg.max_read == cfg_q.max_read);
      end
      // The memory keeps its word while its address stays.
      if (waited_q) assume (pay_word_i == word_q);
      if (keep_q && ok_q) assume (alloc_ok_i && alloc_tag_i == tag_q);
    end
    assume (max_payload_i <= 3'd5 && max_read_i <= 3'd5);
    if (valid_i) begin
      assume (op_i.kind inside {RX_STORE, RX_LOAD, RX_COMPLETION});
      if (op_i.kind == RX_COMPLETION) begin
        assume (op_i.data_dw <= 7'd64);
      end else begin
        assume (op_i.length != '0 && op_i.length <= 10'd64);
        assume (op_i.address[1:0] == '0);
        assume (11'(op_i.address[11:2]) + 11'(op_i.length) <= 11'd1024);
        assume (enables_legal(op_i.length, op_i.first_be, op_i.last_be, op_i.address[2]));
        if (op_i.kind == RX_STORE) assume (op_i.data_dw == op_i.length[6:0]);
      end
    end
    // What load_tags says of one that fits.
    if (live_i) begin
      if (op.data_dw != '0) begin
        assume (answer_i.status == CPL_SC);
        assume (answer_i.lower_address == op.lower_address);
        assume (answer_i.byte_count != '0 && answer_i.byte_count <= 12'd256);
        assume (carried < 14'(answer_i.byte_count) + 14'd4);
        assume (carried >= 14'(answer_i.byte_count) ||
                (14'(op.lower_address) + carried) % 14'(Boundary) == '0);
      end else begin
        assume (answer_i.status inside {CPL_UR, CPL_CA});
      end
    end
  end

  // ---- What always holds, so that one step follows from the one before ------------------------------
  logic [6:0] data, states;
  logic [ 4:0] from;
  logic [13:0] all;
  logic tight, request;

  assign request = u_dut.valid_q && !u_dut.is_completion;
  assign tight = u_dut.tight;
  assign data = u_dut.is_load ? '0 : u_dut.part_q.dws;
  assign states = {
    u_dut.look_q, u_dut.judge_q, u_dut.drop_q, u_dut.plan_q, u_dut.hold_q, u_dut.go_q, u_dut.wait_q
  };
  // Where the part begins in its 128 bytes.
  assign from    = request ? op.address[6:2] :
      (u_dut.look_q || u_dut.judge_q) ? op.lower_address[6:2] : u_dut.answer_q.lower_address[6:2];
  assign all = 14'({u_dut.part_q.rest, 2'b00}) - 14'(u_dut.answer_q.lower_address[1:0]);

  always_ff @(posedge clk_i) begin
    if (begun_q && u_rules.started_q) begin
      a_beats : assert (u_rules.first_q == u_dut.first_q && u_rules.second_q == u_dut.second_q);
      a_states : assert ($onehot0(states) && (u_dut.valid_q || states == '0));
      a_rest : assert (u_dut.go_q || (u_dut.first_q && !u_dut.second_q));
      a_order : assert (!(u_dut.first_q && u_dut.second_q) && held_q == u_dut.valid_q);
      if (u_dut.valid_q) begin
        a_kind : assert (op.kind inside {RX_STORE, RX_LOAD, RX_COMPLETION});
        a_four : assert (u_dut.four_q == (request && op.address[63:32] != '0));
        a_shape :
        assert (u_dut.part_q.beats == 6'((7'd2 + 7'(u_dut.four_q) + data) >> 1) &&
                          u_dut.part_q.half_last == (u_dut.four_q == data[0]));
        a_limit :
        assert (u_dut.part_q.rest <= 7'd64 &&
                          u_dut.part_q.is_final == (!tight || u_dut.part_q.rest <= 7'd32) &&
                          8'(u_dut.at_q) + 8'(u_dut.part_q.rest) <= 8'd64);
        a_part :
        assert (u_dut.drop_q ||
                (u_dut.part_q.is_final ? u_dut.part_q.dws == u_dut.part_q.rest :
                 7'(from) + u_dut.part_q.dws == 7'd32));
      end
      if (u_dut.plan_q || u_dut.wait_q) a_more : assert (!u_dut.part_q.is_final);
      if (u_dut.wait_q) a_wait : assert (u_dut.is_load);
      if (u_dut.hold_q) a_hold : assert (request);
      if (u_dut.look_q || u_dut.judge_q || u_dut.drop_q) a_judged : assert (u_dut.is_completion);
      if (u_dut.look_q || u_dut.judge_q) begin
        a_fresh : assert (u_dut.at_q == '0 && u_dut.part_q.rest == op.data_dw);
      end
      if (request) begin
        a_asked :
        assert (u_dut.part_q.rest != '0 && op.address[1:0] == '0 &&
                          11'(op.address[11:2]) + 11'(u_dut.part_q.rest) <= 11'd1024);
        a_enabled :
        assert (enables_legal(
            10'(u_dut.part_q.dws), u_dut.part_q.first_be, u_dut.part_q.last_be, op.address[2]
        ));
        if (!u_dut.part_q.is_final || u_dut.at_q != '0) begin
          a_last_be : assert (op.last_be inside {4'hF, 4'h7, 4'h3, 4'h1});
        end
      end
      if (u_dut.is_completion && (u_dut.go_q || u_dut.plan_q)) begin
        a_answer :
        assert (u_dut.part_q.rest == '0 ? u_dut.answer_q.status inside {CPL_UR, CPL_CA} :
                           u_dut.answer_q.status == CPL_SC);
        if (u_dut.part_q.rest != '0) begin
          a_bytes :
          assert (u_dut.answer_q.byte_count <= 12'd256 &&
                            all < 14'(u_dut.answer_q.byte_count) + 14'd4);
          a_stop :
          assert (all >= 14'(u_dut.answer_q.byte_count) ||
                           (14'(u_dut.answer_q.lower_address) + all) % 14'(Boundary) == '0);
        end
      end
      if (u_dut.go_q && u_dut.first_q && request && !u_rules.waits_q) begin
        a_permitted : assert (u_rules.master_q);
      end
      if (!u_dut.first_q) begin
        a_left :
        assert (u_rules.left_q ==
                         11'({u_dut.left_q, 1'b0}) + (u_dut.part_q.half_last ? 11'd1 : 11'd2));
        a_last : assert (u_dut.last_q == (u_dut.left_q == '0));
        a_type :
        assert (u_rules.start_q.fmt_type ==
            (u_dut.is_completion ? (data != '0 ? TLP_CPLD : TLP_CPL) :
             u_dut.is_load ? (u_dut.four_q ? TLP_MRD64 : TLP_MRD32) :
             (u_dut.four_q ? TLP_MWR64 : TLP_MWR32)));
        a_length : assert (u_rules.start_q.length == 10'(u_dut.part_q.dws));
        if (request) begin
          a_be : assert (u_rules.start_q.low[7:0] == {u_dut.part_q.last_be, u_dut.part_q.first_be});
        end else begin
          a_count :
          assert (u_rules.start_q.low[11:0] == u_dut.answer_q.byte_count &&
                            u_rules.start_q.low[15:13] == u_dut.answer_q.status);
        end
      end
    end
  end
endmodule
