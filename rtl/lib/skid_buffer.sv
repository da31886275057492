// SPDX-License-Identifier: Apache-2.0
// Register slice: cuts every combinational path of a valid/ready stream, at full throughput.
//
// Latency   : 1 edge.
// Clock     : clk_i.
// Handshake : in_ready_o, out_valid_o and out_data_o are registers.
// Drops     : never.
// Source    : common practice.
module skid_buffer #(
  /// Type of a word.
  parameter type data_t = logic [63:0]
) (
  input  logic  clk_i,
  input  logic  rst_i,
  input  data_t in_data_i,
  input  logic  in_valid_i,
  output logic  in_ready_o,
  output data_t out_data_o,
  output logic  out_valid_o,
  input  logic  out_ready_i
);
  data_t out_q, skid_q;
  logic out_valid_q, ready_q;
  logic out_free;

  assign out_free    = out_ready_i || !out_valid_q;
  assign in_ready_o  = ready_q;
  assign out_valid_o = out_valid_q;
  assign out_data_o  = out_q;

  always_ff @(posedge clk_i) begin
    // Not ready means that the skid register holds a word, which goes out first.
    if (out_free) out_q <= ready_q ? in_data_i : skid_q;
    if (ready_q) skid_q <= in_data_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      out_valid_q <= 1'b0;
      ready_q     <= 1'b1;
    end else begin
      if (out_free) out_valid_q <= in_valid_i || !ready_q;
      ready_q <= out_free || (ready_q && !in_valid_i);
    end
  end
endmodule
