// SPDX-License-Identifier: Apache-2.0
// Merges the TLP streams to the root complex, one TLP after the other.
//
// Latency   : 0 cycles, a combinational path from each input to the output.
// Clock     : clk_i.
// Handshake : input 0 goes first whenever a new TLP may start, then 1, then 2 (completions thus
//             never overtake the DMA writes that are ready before them); a TLP that was offered
//             keeps the output to its end.
// Drops     : never.
// Source    : own; the network can't fill this bus, so a fixed order starves nobody.
module tlp_tx (
  input logic       clk_i,
  input logic       rst_i,
        axis_if.snk s_dma,
        axis_if.snk s_completer,
        axis_if.snk s_error,
        axis_if.src m_axis
);
  typedef enum logic [1:0] {
    FromDma,
    FromCompleter,
    FromError
  } source_e;

  source_e choice, owner_q;
  logic locked_q;

  always_comb begin
    if (locked_q) choice = owner_q;
    else if (s_dma.tvalid) choice = FromDma;
    else if (s_completer.tvalid) choice = FromCompleter;
    else choice = FromError;
  end

  always_comb begin
    unique case (choice)
      FromDma: begin
        m_axis.tdata  = s_dma.tdata;
        m_axis.tkeep  = s_dma.tkeep;
        m_axis.tvalid = s_dma.tvalid;
        m_axis.tlast  = s_dma.tlast;
      end
      FromCompleter: begin
        m_axis.tdata  = s_completer.tdata;
        m_axis.tkeep  = s_completer.tkeep;
        m_axis.tvalid = s_completer.tvalid;
        m_axis.tlast  = s_completer.tlast;
      end
      default: begin
        m_axis.tdata  = s_error.tdata;
        m_axis.tkeep  = s_error.tkeep;
        m_axis.tvalid = s_error.tvalid;
        m_axis.tlast  = s_error.tlast;
      end
    endcase
  end

  assign m_axis.tuser       = '0;

  assign s_dma.tready       = choice == FromDma && m_axis.tready;
  assign s_completer.tready = choice == FromCompleter && m_axis.tready;
  assign s_error.tready     = choice == FromError && m_axis.tready;

  always_ff @(posedge clk_i) begin
    if (m_axis.tvalid) owner_q <= choice;
    if (rst_i) locked_q <= 1'b0;
    else if (m_axis.tvalid) locked_q <= !(m_axis.tready && m_axis.tlast);
  end

  logic unused;
  assign unused = ^{s_dma.tuser, s_completer.tuser, s_error.tuser};
endmodule
