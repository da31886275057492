// SPDX-License-Identifier: Apache-2.0
// Writes a packet's payload, or one word, to host memory: one DMA write or two.
//
// Latency   : start_i to the request 1 edge, to the first beat 3; then a beat a cycle.
// Clock     : clk_i.
// Handshake : start_i while not busy_o; done_o is a pulse when the last beat is taken. The payload's
//             words come 1 edge after their address.
// Drops     : never.
module uzura_scatter
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
#(
  /// log2 of the payload buffer's words.
  parameter int unsigned BufferW = 11
) (
  input  logic                  clk_i,
  input  logic                  rst_i,
  input  logic                  start_i,
  /// The word, not the buffer.
  input  logic                  immediate_i,
  input  logic    [       63:0] word_i,
  input  logic    [BufferW-1:0] base_i,
  /// Bytes of the payload before those to be written.
  input  logic    [       12:0] from_i,
  input  logic    [       63:0] first_pa_i,
  input  logic    [       12:0] first_bytes_i,
  input  logic    [       63:0] second_pa_i,
  input  logic    [       12:0] second_bytes_i,
  output logic                  done_o,
  output logic                  busy_o,
  output logic                  buffer_re_o,
  output logic    [BufferW-1:0] buffer_addr_o,
  input  logic    [       63:0] buffer_data_i,
  output wr_req_t               m_wr_o,
  output logic                  m_wr_valid_o,
  input  logic                  m_wr_ready_i,
  output beat_t                 m_data_o,
  output logic                  m_data_valid_o,
  input  logic                  m_data_ready_i
);
  typedef enum logic [2:0] {
    Idle,
    Ask,
    Prime,
    First,
    Move
  } state_e;
  state_e state_q;
  logic immediate_q, second_q;
  logic end_q;  // the last beat is offered
  logic [63:0] word_q, before_q, now;
  logic [BufferW-1:0] at_q;
  logic [        2:0] shift_q;
  logic [63:0] pa_q, next_pa_q;
  logic [12:0] left_q, next_bytes_q, next_from;
  logic advance, last;
  logic [127:0] both;

  assign now           = immediate_q ? word_q : buffer_data_i;
  assign both          = {now, before_q};
  assign advance       = !m_data_valid_o || m_data_ready_i;
  assign last          = left_q <= 13'd8;
  assign next_from     = from_i + first_bytes_i;
  assign m_wr_o        = '{addr: pa_q, bytes: left_q};
  assign m_wr_valid_o  = state_q == Ask;
  assign buffer_re_o   = state_q inside {Prime, First} || (state_q == Move && advance);
  assign buffer_addr_o = at_q;
  assign busy_o        = state_q != Idle || m_data_valid_o;

  logic [BufferW-1:0] second_at_q;
  logic [        2:0] second_shift_q;

  always_ff @(posedge clk_i) begin
    done_o <= end_q && m_data_valid_o && m_data_ready_i;
    if (m_data_ready_i) end_q <= 1'b0;
    if (buffer_re_o) at_q <= at_q + 1'b1;
    if (advance) m_data_valid_o <= 1'b0;
    unique case (state_q)
      Idle:
      if (start_i) begin
        immediate_q    <= immediate_i;
        word_q         <= word_i;
        pa_q           <= first_pa_i;
        left_q         <= first_bytes_i;
        next_pa_q      <= second_pa_i;
        next_bytes_q   <= second_bytes_i;
        at_q           <= base_i + BufferW'(from_i[12:3]);
        shift_q        <= from_i[2:0];
        second_at_q    <= base_i + BufferW'(next_from[12:3]);
        second_shift_q <= next_from[2:0];
        second_q       <= 1'b0;
        state_q        <= Ask;
      end
      Ask:     if (m_wr_ready_i) state_q <= Prime;
      Prime:   state_q <= First;
      // The first word has come, the second comes next.
      First: begin
        before_q <= now;
        state_q  <= Move;
      end
      Move:
      if (advance) begin
        m_data_valid_o <= 1'b1;
        m_data_o.data  <= 64'(both >> {shift_q, 3'd0});
        m_data_o.bytes <= last ? left_q[3:0] : 4'd8;
        m_data_o.last  <= last;
        before_q       <= now;
        left_q         <= left_q - 13'd8;
        if (last) begin
          if (!second_q && next_bytes_q != '0) begin
            second_q <= 1'b1;
            pa_q     <= next_pa_q;
            left_q   <= next_bytes_q;
            at_q     <= second_at_q;
            shift_q  <= second_shift_q;
            state_q  <= Ask;
          end else begin
            end_q   <= 1'b1;
            state_q <= Idle;
          end
        end
      end
      default: state_q <= Idle;
    endcase
    if (rst_i) begin
      state_q        <= Idle;
      m_data_valid_o <= 1'b0;
      end_q          <= 1'b0;
      done_o         <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_wr_valid_o |-> 13'(m_wr_o.addr[11:0]) + m_wr_o.bytes <= 13'd4096 && m_wr_o.bytes != '0)
  else $error("uzura_scatter: a write crosses 4 KB, or is empty");
`endif
endmodule
