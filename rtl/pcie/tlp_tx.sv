// SPDX-License-Identifier: Apache-2.0
// Merges the TLP streams to the root complex, one TLP after the other.
//
// Latency   : 0 cycles, a combinational path from each input to the output.
// Clock     : clk_i.
// Handshake : s_first goes first whenever a new TLP may start, then s_second, then s_third; so
//             with DMA first, completions never overtake the DMA writes that are ready before
//             them. s_fourth comes last, but waits for no more than Patience TLPs of the others. A
//             TLP that was offered keeps the output to its end.
// Drops     : never.
// Source    : own; the network can't fill this bus, so a fixed order starves none of the first
//             three for long; a slow host might starve the fourth.
module tlp_tx #(
  /// TLPs that may pass one of s_fourth.
  parameter int unsigned Patience = 15
) (
  input logic       clk_i,
  input logic       rst_i,
        axis_if.snk s_first,
        axis_if.snk s_second,
        axis_if.snk s_third,
        axis_if.snk s_fourth,
        axis_if.src m_axis
);
  typedef enum logic [1:0] {
    FromFirst,
    FromSecond,
    FromThird,
    FromFourth
  } source_e;

  source_e choice, owner_q;
  logic locked_q;
  localparam int unsigned PassedW = $clog2(Patience + 1);
  logic [PassedW-1:0] passed_q;  // TLPs since the fourth began to wait
  logic               due_q;  // so many that it is the fourth's turn

  always_comb begin
    if (locked_q) choice = owner_q;
    else if (s_fourth.tvalid && due_q) choice = FromFourth;
    else if (s_first.tvalid) choice = FromFirst;
    else if (s_second.tvalid) choice = FromSecond;
    else if (s_third.tvalid) choice = FromThird;
    else choice = FromFourth;
  end

  always_comb begin
    unique case (choice)
      FromFirst: begin
        m_axis.tdata  = s_first.tdata;
        m_axis.tkeep  = s_first.tkeep;
        m_axis.tvalid = s_first.tvalid;
        m_axis.tlast  = s_first.tlast;
      end
      FromSecond: begin
        m_axis.tdata  = s_second.tdata;
        m_axis.tkeep  = s_second.tkeep;
        m_axis.tvalid = s_second.tvalid;
        m_axis.tlast  = s_second.tlast;
      end
      FromThird: begin
        m_axis.tdata  = s_third.tdata;
        m_axis.tkeep  = s_third.tkeep;
        m_axis.tvalid = s_third.tvalid;
        m_axis.tlast  = s_third.tlast;
      end
      default: begin
        m_axis.tdata  = s_fourth.tdata;
        m_axis.tkeep  = s_fourth.tkeep;
        m_axis.tvalid = s_fourth.tvalid;
        m_axis.tlast  = s_fourth.tlast;
      end
    endcase
  end

  assign m_axis.tuser = '0;

  // It need not offer anything to be the one that may: that is found later in the cycle.
  assign s_first.tready = m_axis.tready &&
      (locked_q ? owner_q == FromFirst : !(s_fourth.tvalid && due_q));
  assign s_second.tready = choice == FromSecond && m_axis.tready;
  assign s_third.tready = choice == FromThird && m_axis.tready;
  assign s_fourth.tready = choice == FromFourth && m_axis.tready;

  always_ff @(posedge clk_i) begin
    if (m_axis.tvalid) owner_q <= choice;
    if (rst_i) locked_q <= 1'b0;
    else if (m_axis.tvalid) locked_q <= !(m_axis.tready && m_axis.tlast);

    if (rst_i) begin
      passed_q <= '0;
      due_q    <= 1'b0;
    end else if (m_axis.tvalid && m_axis.tready && m_axis.tlast) begin
      if (choice == FromFourth) begin
        passed_q <= '0;
        due_q    <= 1'b0;
      end else if (s_fourth.tvalid && !due_q) begin
        passed_q <= passed_q + 1'b1;
        due_q    <= passed_q == PassedW'(Patience - 1);
      end
    end
  end

  logic unused;
  assign unused = ^{s_first.tuser, s_second.tuser, s_third.tuser, s_fourth.tuser};
endmodule
