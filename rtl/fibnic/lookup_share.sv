// SPDX-License-Identifier: Apache-2.0
// One lookup for all ports: a full table is too large to have once a port.
//
// Each port has one slot of N cycles in which its request goes to the lookup; how long a request
// waits for its slot and how long its answer waits behind the lookup always add up to N - 1, so
// that the latency does not depend on the other ports.
//
// Latency   : fib_lookup's, and N - 1 edges more.
// Clock     : clk_i, rst_i synchronous.
// Handshake : requests of one port, whatever their family, are at least N cycles apart; fibnic_core has no more
//             ports than frames leave cycles. With ByteDelay requests of one family are, and the bytes of an
//             address stay on addr_i until the port's next address begins.
// Drops     : never.
// Source    : common practice (time division); dissertation section 5.2.3: one SRAM serves all ports.
module lookup_share
  import fib_pkg::*;
#(
  /// Ports.
  parameter int unsigned N = 4,
  // As fib_lookup has them.
  parameter int unsigned V4Leaves = 4096,
  parameter int unsigned V4Groups = 16,
  parameter int unsigned V4Hosts = 256,
  parameter int unsigned V6Nodes[V6Levels-1] = '{256, 256, 256, 256, 256, 256, 256},
  parameter int unsigned V6Leaves = 4096,
  parameter int unsigned V6Hosts = 256,
  parameter int unsigned V6TcamEntries = 32,
  parameter int unsigned ReadLatency = 2,
  parameter int unsigned SumRegister = 0,
  parameter int unsigned OutRegister = 0,
  parameter int unsigned ByteDelay = 0,
  parameter int unsigned Sram22 = 0,
  parameter int unsigned Sram22IndexW = 22,
  parameter int unsigned DrainExtra = 8,
  localparam int unsigned CoreV4 =
      v4_latency(ReadLatency, SumRegister, ByteDelay, Sram22) + OutRegister,
  localparam int unsigned CoreV6 =
      v6_latency(ReadLatency, SumRegister, ByteDelay, Sram22) + OutRegister,
  localparam int unsigned LatencyV4 = CoreV4 + N - 1,
  localparam int unsigned LatencyV6 = CoreV6 + N - 1
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  logic    [N-1:0]        v4_valid_i,
  input  logic    [N-1:0]        v6_valid_i,
  /// An IPv4 address is in 127:96.
  input  logic    [N-1:0][127:0] addr_i,
  output logic    [N-1:0]        v4_valid_o,
  output answer_t [N-1:0]        v4_answer_o,
  output logic    [N-1:0]        v6_valid_o,
  output answer_t [N-1:0]        v6_answer_o,
  input  logic                   wr_valid_i,
  output logic                   wr_ready_o,
  input  fib_wr_t                wr_i
);
  localparam int unsigned SlotW = N > 1 ? $clog2(N) : 1;
  localparam int unsigned AddrBytes = 16;

  /// Slot so many cycles ago.
  function automatic logic [SlotW-1:0] slot_ago(logic [SlotW-1:0] slot, int unsigned cycles);
    int unsigned back;
    back = cycles % N;
    return int'(slot) >= int'(back) ? SlotW'(int'(slot) - int'(back))
        : SlotW'(int'(slot) + int'(N) - int'(back));
  endfunction

  logic [SlotW-1:0] slot_q;
  logic [N-1:0] wait4_q, wait6_q;
  logic [N-1:0][127:0] addr, addr_q;
  logic core4_valid, core6_valid, out4_valid, out6_valid;
  logic [ 31:0] core4_addr;
  logic [127:0] core6_addr;
  answer_t out4_answer, out6_answer;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      slot_q  <= '0;
      wait4_q <= '0;
      wait6_q <= '0;
    end else begin
      slot_q <= slot_q == SlotW'(N - 1) ? '0 : slot_q + 1'b1;
      for (int unsigned p = 0; p < N; p++) begin
        wait4_q[p] <= (wait4_q[p] || v4_valid_i[p]) && slot_q != SlotW'(p);
        wait6_q[p] <= (wait6_q[p] || v6_valid_i[p]) && slot_q != SlotW'(p);
      end
    end
  end

  // With ByteDelay the address of a port stays by itself, and grows.
  for (genvar p = 0; p < int'(N); p++) begin : gen_addr
    always_ff @(posedge clk_i) if (v4_valid_i[p] || v6_valid_i[p]) addr_q[p] <= addr_i[p];
    assign addr[p] = ByteDelay != 0 || v4_valid_i[p] || v6_valid_i[p] ? addr_i[p] : addr_q[p];
  end

  assign core4_valid = wait4_q[slot_q] || v4_valid_i[slot_q];
  assign core6_valid = wait6_q[slot_q] || v6_valid_i[slot_q];

  // Byte b of the lookup that began c cycles ago comes from the port whose slot it was then.
  for (genvar b = 0; b < int'(AddrBytes); b++) begin : gen_byte
    localparam int unsigned Lsb = 8 * (AddrBytes - 1 - b);
    localparam int unsigned Ago6 = byte_at(b, V6FirstBytes, ByteDelay);
    logic [SlotW-1:0] port6;
    assign port6              = slot_ago(slot_q, Ago6);
    assign core6_addr[Lsb+:8] = addr[port6][Lsb+:8];
    if (b < 4) begin : gen_v4
      localparam int unsigned Ago4 = byte_at(b, V4FirstBytes, ByteDelay);
      logic [SlotW-1:0] port4;
      assign port4                 = slot_ago(slot_q, Ago4);
      assign core4_addr[Lsb-96+:8] = addr[port4][Lsb+:8];
    end
  end

  fib_lookup #(
    .V4Leaves     (V4Leaves),
    .V4Groups     (V4Groups),
    .V4Hosts      (V4Hosts),
    .V6Nodes      (V6Nodes),
    .V6Leaves     (V6Leaves),
    .V6Hosts      (V6Hosts),
    .V6TcamEntries(V6TcamEntries),
    .ReadLatency  (ReadLatency),
    .SumRegister  (SumRegister),
    .OutRegister  (OutRegister),
    .ByteDelay    (ByteDelay),
    .Sram22       (Sram22),
    .Sram22IndexW (Sram22IndexW),
    .DrainExtra   (DrainExtra + N)
  ) u_lookup (
    .clk_i,
    .rst_i,
    .v4_valid_i (core4_valid),
    .v4_addr_i  (core4_addr),
    .v4_valid_o (out4_valid),
    .v4_answer_o(out4_answer),
    .v6_valid_i (core6_valid),
    .v6_addr_i  (core6_addr),
    .v6_valid_o (out6_valid),
    .v6_answer_o(out6_answer),
    .wr_valid_i,
    .wr_ready_o,
    .wr_i
  );

  for (genvar p = 0; p < int'(N); p++) begin : gen_port
    logic [LatencyV4:0] valid4;
    logic [LatencyV6:0] valid6;
    logic mine4, mine6;
    answer_t answer4_q, answer6_q;

    fib_valid #(
      .Cycles(LatencyV4)
    ) u_valid4 (
      .clk_i,
      .rst_i,
      .valid_i(v4_valid_i[p]),
      .valid_o(valid4)
    );

    fib_valid #(
      .Cycles(LatencyV6)
    ) u_valid6 (
      .clk_i,
      .rst_i,
      .valid_i(v6_valid_i[p]),
      .valid_o(valid6)
    );

    assign mine4 = out4_valid && slot_ago(slot_q, CoreV4) == SlotW'(p);
    assign mine6 = out6_valid && slot_ago(slot_q, CoreV6) == SlotW'(p);

    always_ff @(posedge clk_i) begin
      if (mine4) answer4_q <= out4_answer;
      if (mine6) answer6_q <= out6_answer;
    end

    assign v4_valid_o[p]  = valid4[LatencyV4];
    assign v6_valid_o[p]  = valid6[LatencyV6];
    assign v4_answer_o[p] = mine4 ? out4_answer : answer4_q;
    assign v6_answer_o[p] = mine6 ? out6_answer : answer6_q;

`ifndef SYNTHESIS
    logic waits4, waits6, waits_other;
    assign waits4      = wait4_q[p] && v4_valid_i[p];
    assign waits6      = wait6_q[p] && v6_valid_i[p];
    // Both families have one place for the address.
    assign waits_other = (wait4_q[p] && v6_valid_i[p]) || (wait6_q[p] && v4_valid_i[p]);
    always_ff @(posedge clk_i) begin
      if (!rst_i) begin
        a_apart :
        assert (!waits4 && !waits6)
        else $error("two requests of a port within one round");
        a_address :
        assert (ByteDelay != 0 || !waits_other)
        else $error("the address of a request that waits is overwritten");
      end
    end
`endif
  end
endmodule
