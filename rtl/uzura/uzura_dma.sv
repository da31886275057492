// SPDX-License-Identifier: Apache-2.0
// Who has the DMA ports: reads in turn; writes in turn, each with its data.
//
// Latency   : a request 1 edge; data of writes none.
// Clock     : clk_i.
// Handshake : valid/ready everywhere.
// Drops     : never.
module uzura_dma
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
#(
  localparam int unsigned Readers = 3
) (
  input  logic                  clk_i,
  input  logic                  rst_i,
  input  rd_req_t               rd_i          [Readers],
  input  logic    [Readers-1:0] rd_valid_i,
  output logic    [Readers-1:0] rd_ready_o,
  output rd_req_t               m_rd_o,
  output logic                  m_rd_valid_o,
  input  logic                  m_rd_ready_i,
  input  wr_req_t               wr_i          [      2],
  input  logic    [        1:0] wr_valid_i,
  output logic    [        1:0] wr_ready_o,
  input  beat_t                 data_i        [      2],
  input  logic    [        1:0] data_valid_i,
  output logic    [        1:0] data_ready_o,
  output wr_req_t               m_wr_o,
  output logic                  m_wr_valid_o,
  input  logic                  m_wr_ready_i,
  output beat_t                 m_data_o,
  output logic                  m_data_valid_o,
  input  logic                  m_data_ready_i,
  output logic                  busy_o
);
  // ---- Reads --------------------------------------------------------------------------------------
  logic [Readers-1:0] rd_grant;
  logic [        1:0] rd_pick;
  logic rd_any, rd_free;
  assign rd_free    = !m_rd_valid_o || m_rd_ready_i;
  assign rd_ready_o = rd_grant & {Readers{rd_free}};
  arb_rr #(
    .N(Readers)
  ) u_reads (
    .clk_i,
    .rst_i,
    .req_i      (rd_valid_i),
    .ack_i      (rd_free),
    .lock_i     (1'b0),
    .gnt_o      (rd_grant),
    .gnt_idx_o  (rd_pick),
    .gnt_valid_o(rd_any)
  );
  always_ff @(posedge clk_i) begin
    if (rd_free) m_rd_o <= rd_i[rd_pick];
    if (rst_i) m_rd_valid_o <= 1'b0;
    else if (rd_free) m_rd_valid_o <= rd_any;
  end

  // ---- Writes -------------------------------------------------------------------------------------
  logic moving_q, owner_q, turn_q, pick;
  assign pick = wr_valid_i == 2'b11 ? turn_q : wr_valid_i[1];
  assign wr_ready_o = moving_q || m_wr_valid_o ? '0 :
      {wr_valid_i[1] && pick, wr_valid_i[0] && !pick};
  assign m_data_o = data_i[owner_q];
  assign m_data_valid_o = moving_q && !m_wr_valid_o && data_valid_i[owner_q];
  assign data_ready_o = moving_q && !m_wr_valid_o && m_data_ready_i ? 2'b01 << owner_q : '0;
  always_ff @(posedge clk_i) begin
    if (|wr_ready_o) begin
      m_wr_o  <= wr_i[pick];
      owner_q <= pick;
    end
    if (rst_i) begin
      m_wr_valid_o <= 1'b0;
      moving_q     <= 1'b0;
      turn_q       <= 1'b0;
    end else begin
      if (|wr_ready_o) begin
        m_wr_valid_o <= 1'b1;
        moving_q     <= 1'b1;
        turn_q       <= !pick;
      end else begin
        if (m_wr_ready_i) m_wr_valid_o <= 1'b0;
        if (m_data_valid_o && m_data_ready_i && m_data_o.last) moving_q <= 1'b0;
      end
    end
  end
  assign busy_o = m_rd_valid_o || moving_q;
endmodule
