// SPDX-License-Identifier: Apache-2.0
// Both halves of the engine ask here whether and where host memory may be touched.
//
// Latency   : a question taken to its answer 5 + MemLatency edges if the page is on the card.
// Clock     : clk_i.
// Handshake : valid/ready for each asker, who take turns; an answer goes to all, by its id, without
//             ready. Asker n uses the ids 2 n and 2 n + 1.
// Drops     : never.
// Source    : UZURA document, figure 8 (address translation).
module uzura_access
  import uzura_qp_pkg::*;
#(
  parameter int unsigned MemW = 10,
  parameter int unsigned MemLatency = 1
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  logic     [       63:0] host_table_i,
  input  logic                   cfg_write_i,
  input  logic     [RegionW-1:0] cfg_index_i,
  input  region_t                cfg_region_i,
  input  logic                   end_i,
  input  logic     [       31:0] end_key_i,
  input  logic     [       15:0] end_pd_i,
  input  logic                   flush_i,
  input  logic                   forget_i,
  input  logic     [       31:0] forget_entry_i,
  output logic                   flush_busy_o,
  input  access_t                req_i         [2],
  input  logic     [        1:0] req_second_i,
  input  logic     [        1:0] req_valid_i,
  output logic     [        1:0] req_ready_o,
  output logic                   answer_valid_o,
  output answer_t                answer_o,
  output logic                   mem_re_o,
  output logic     [   MemW-1:0] mem_raddr_o,
  input  logic     [       63:0] mem_rdata_i,
  output logic                   mem_we_o,
  output logic     [   MemW-1:0] mem_waddr_o,
  output logic     [       63:0] mem_wdata_o,
  output rd_req_t                m_rd_o,
  output logic                   m_rd_valid_o,
  input  logic                   m_rd_ready_i,
  input  rd_data_t               s_rd_i,
  input  logic                   s_rd_valid_i,
  output logic                   cnt_denied_o,
  output logic                   cnt_miss_o,
  output logic                   cnt_fault_o,
  output logic                   busy_o
);
  logic turn_q, pick, valid, ok, translate;
  logic [1:0] id, page;
  logic [31:0] entry;
  logic [29:0] offset;
  logic open, translate_busy;
  logic [2:0] pipe_q;

  // The other one goes first next time. Nobody asks while the memory is cleared.
  assign open        = !flush_busy_o;
  assign pick        = req_valid_i == 2'b11 ? turn_q : req_valid_i[1];
  assign req_ready_o = open ? {req_valid_i[1] && pick, req_valid_i[0] && !pick} : 2'b00;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      turn_q <= 1'b0;
      pipe_q <= '0;
    end else begin
      if (|req_ready_o) turn_q <= !pick;
      pipe_q <= {pipe_q[1:0], |req_ready_o};
    end
  end

  uzura_check u_check (
    .req_i          (req_i[pick]),
    .req_id_i       ({pick, req_second_i[pick]}),
    .req_valid_i    (|req_ready_o),
    .out_valid_o    (valid),
    .out_id_o       (id),
    .out_ok_o       (ok),
    .out_translate_o(translate),
    .out_entry_o    (entry),
    .out_page_o     (page),
    .out_offset_o   (offset),
    .*
  );

  uzura_translate #(
    .MemW      (MemW),
    .MemLatency(MemLatency)
  ) u_translate (
    .in_valid_i    (valid),
    .in_id_i       (id),
    .in_ok_i       (ok),
    .in_translate_i(translate),
    .in_entry_i    (entry),
    .in_page_i     (page),
    .in_offset_i   (offset),
    .busy_o        (translate_busy),
    .*
  );
  assign busy_o = translate_busy || |pipe_q || |req_valid_i;
endmodule
