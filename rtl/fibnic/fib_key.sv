// SPDX-License-Identifier: Apache-2.0
// An address on its way through a pipeline, whole from the start or one byte a cycle behind.
//
// Latency : key_o[n] is the address given n edges ago, as far as it was there by then. Byte b
//           (0 is the first on the wire) of an address whose first FirstBytes bytes stand at key_i
//           in cycle t is taken in cycle t + fib_pkg::byte_at(b, FirstBytes, ByteDelay), which is
//           one later than it comes if nothing holds it up, and need not stay.
// Clock   : clk_i.
// Drops   : never; an address may begin every cycle, since each byte has its own lane.
// Source  : dissertation figure 5.4: the lookup begins before the address has ended.
module fib_key #(
  /// Bytes of an address.
  parameter int unsigned Bytes = 4,
  /// Bytes that are there when the lookup begins.
  parameter int unsigned FirstBytes = 3,
  /// Cycles a byte: 0 for the whole address at once, 1 for GMII.
  parameter int unsigned ByteDelay = 0,
  /// Stages behind the first.
  parameter int unsigned Cycles = 6,
  localparam int unsigned Width = 8 * Bytes
) (
  input  logic                        clk_i,
  input  logic [Width-1:0]            key_i,
  output logic [ Cycles:0][Width-1:0] key_o
);
  logic [Cycles-1:0][Width-1:0] key_q;

  always_ff @(posedge clk_i) key_q <= key_o[Cycles-1:0];

  for (genvar n = 0; n <= int'(Cycles); n++) begin : gen_stage
    for (genvar b = 0; b < int'(Bytes); b++) begin : gen_byte
      localparam int Lsb = 8 * (int'(Bytes) - 1 - b);
      localparam int Arrival = int'(fib_pkg::byte_at(b, FirstBytes, ByteDelay));
      if (n <= Arrival) begin : gen_input
        assign key_o[n][Lsb+:8] = key_i[Lsb+:8];
      end else begin : gen_held
        assign key_o[n][Lsb+:8] = key_q[n-1][Lsb+:8];
      end
    end
  end
endmodule
