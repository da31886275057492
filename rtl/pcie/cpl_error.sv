// SPDX-License-Identifier: Apache-2.0
// Completes non-posted requests without data: takes the reasons from two places, sends Cpl TLPs.
//
// Latency   : 1 cycle from a request to the first beat, when idle; two beats a completion.
// Clock     : clk_i.
// Handshake : valid/ready on both inputs; port 0 goes first when both are there.
// Drops     : never; a full FIFO holds the inputs.
// Source    : PCI Express base specification, completion header.
module cpl_error
  import ipnuma_pkg::*;
  import cpl_pkg::*;
#(
  /// Completions that can wait.
  parameter int unsigned Depth = 4
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic       [15:0] completer_id_i,
  input  cpl_error_t        error_i       [2],
  input  logic       [ 1:0] error_valid_i,
  output logic       [ 1:0] error_ready_o,
         axis_if.src        m_axis,
  output logic              busy_o
);
  cpl_error_t next, head;
  logic wready, rvalid, second_q;
  logic [95:0] header;

  assign next          = error_valid_i[0] ? error_i[0] : error_i[1];
  assign error_ready_o = {wready && !error_valid_i[0], wready};

  sync_fifo #(
    .data_t(cpl_error_t),
    .Depth (Depth)
  ) u_fifo (
    .clk_i,
    .rst_i,
    .wdata_i (next),
    .wvalid_i(|error_valid_i),
    .wready_o(wready),
    .rdata_o (head),
    .rvalid_o(rvalid),
    .rready_i(second_q && m_axis.tready),
    .count_o ()
  );

  assign header = cpl_header(
      head.locked ? TLP_CPLLK : TLP_CPL,
      10'd0,
      head.tc,
      head.attr,
      completer_id_i,
      head.status,
      head.byte_count,
      head.requester_id,
      head.tag,
      head.lower_address
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) second_q <= 1'b0;
    else if (rvalid && m_axis.tready) second_q <= !second_q;
  end

  assign m_axis.tvalid = rvalid;
  assign m_axis.tdata  = second_q ? {32'd0, header[95:64]} : header[63:0];
  assign m_axis.tkeep  = second_q ? 8'h0F : 8'hFF;
  assign m_axis.tlast  = second_q;
  assign m_axis.tuser  = '0;

  assign busy_o        = rvalid || |error_valid_i;
endmodule
