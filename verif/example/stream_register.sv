// SPDX-License-Identifier: Apache-2.0
// One register in a stream, as a pattern for modules and benches; nothing in the design uses it.
//
// Latency   : 1 cycle of clk_i from a word in to the same word out.
// Clock     : clk_i; rst_i is synchronous and active high.
// Handshake : ready_o follows ready_i combinationally when the register is full. Drops: never.
// Source    : ours.
module stream_register #(
  /// Width of the data in bits.
  parameter int unsigned Width = 8
) (
  /// Clock.
  input  logic             clk_i,
  /// Synchronous reset, active high.
  input  logic             rst_i,
  /// Word in.
  input  logic [Width-1:0] data_i,
  /// A word is offered on data_i.
  input  logic             valid_i,
  /// The word on data_i is taken at the next clock edge.
  output logic             ready_o,
  /// Word out.
  output logic [Width-1:0] data_o,
  /// A word is offered on data_o.
  output logic             valid_o,
  /// The word on data_o is taken at the next clock edge.
  input  logic             ready_i
);

  logic [Width-1:0] data_q;
  logic             valid_q;

  assign ready_o = !valid_q || ready_i;
  assign data_o  = data_q;
  assign valid_o = valid_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      valid_q <= 1'b0;
    end else if (ready_o) begin
      valid_q <= valid_i;
    end
    if (valid_i && ready_o) begin
      data_q <= data_i;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) valid_o && !ready_i |=> valid_o && $stable(
      data_o
  ))
  else $error("stream_register: an offered word was withdrawn");
`endif

endmodule
