// SPDX-License-Identifier: Apache-2.0
// Counters of events in a memory. All of them may count at every edge, none ever misses an event, and
// what is read is exact.
//
// The low bits of each counter are flip-flops of its own, the high bits a word of the memory. When the
// low bits of a counter wrap, it owes the memory a one. A sweep pays what is owed, one counter a cycle,
// and rests while nobody owes anything. The low bits are as many as it takes for the sweep to come
// round before they wrap again, whatever the events and reads (proved in
// verif/formal/lib_stats_ram_proof.sv). A read adds what is owed.
//
// The low bits are two digits. A digit is a shift register that goes through all its states, which is a
// third of an adder's logic; a table makes a number of its state when it is read.
//
// Latency   : read_i to valid_o 2 cycles, with every event of the cycles up to the one in which the read is
//             taken and none of a later one. A read is taken at once, if the last one was ReadEvery cycles
//             ago and the reset Count + 1.
// Clock     : clk_i. Nothing changes without an event or a read, but what busy_o announces.
// Handshake : read_i and index_i are held until valid_o, and fall or ask anew with the edge after it.
// Drops     : never. A counter wraps.
// Source    : own; a register with an adder for each, and their multiplexer, were ten times as large.
module stats_ram #(
  /// Counters, 3 to 220.
  parameter  int unsigned Count     = 32,
  /// Bits of a counter.
  parameter  int unsigned Width     = 32,
  localparam int unsigned IndexW    = $clog2(Count),
  // Some room over a round of the sweep and the two cycles from a choice to the payment: it is what
  // reads may take of the sweep's cycles.
  localparam int unsigned LowW      = $clog2(Count + Count / 8 + 3),
  localparam int unsigned Spare     = (1 << LowW) - (Count + 2),
  localparam int unsigned Share     = ((1 << LowW) + Spare - 1) / Spare,
  localparam int unsigned ReadEvery = Share < 3 ? 3 : Share
) (
  input  logic              clk_i,
  input  logic              rst_i,
  /// One bit a counter: counts one at each edge where it is high.
  input  logic [ Count-1:0] event_i,
  input  logic              read_i,
  /// Below Count.
  input  logic [IndexW-1:0] index_i,
  output logic              valid_o,
  /// With valid_o: the counter at index_i; behind a memory and an adder.
  output logic [ Width-1:0] value_o,
  output logic              busy_o
);
  localparam int unsigned HighW = Width - LowW;
  localparam int unsigned WaitW = $clog2(ReadEvery);
  typedef logic [HighW-1:0] high_t;

  // ---- Digits -----------------------------------------------------------------------------------
  localparam int unsigned OnesW = (LowW + 1) / 2;
  localparam int unsigned UpperW = LowW / 2;

  // Primitive polynomials, the first for a digit of 1 bit: what is shifted in is the parity of these
  // bits. The state 0 is put in between the one with the highest bit alone, which is the last, and its
  // successor.
  localparam logic [4:1][3:0] Polynomials = {4'hC, 4'h6, 4'h3, 4'h1};

  function automatic logic [3:0] last_state(int unsigned width);
    return 4'(1 << (width - 1));
  endfunction

  function automatic logic [3:0] next_state(int unsigned width, logic [3:0] state);
    logic shifted_in;
    shifted_in = ^(state & Polynomials[width]) ^ ((state & ~last_state(width)) == '0);
    return 4'((32'(state) << 1) & ((1 << width) - 1)) | 4'(shifted_in);
  endfunction

  typedef logic [15:0][3:0] numbers_t;
  function automatic numbers_t numbers(int unsigned width);
    logic [3:0] state;
    state   = '0;
    numbers = '0;
    for (int unsigned n = 0; n < 1 << width; n++) begin
      numbers[state] = 4'(n);
      state          = next_state(width, state);
    end
  endfunction
  localparam numbers_t OnesNumbers = numbers(OnesW);
  localparam numbers_t UpperNumbers = numbers(UpperW);

  typedef struct packed {
    logic [UpperW-1:0] upper;
    logic [OnesW-1:0]  ones;
  } low_t;

  // ---- Count ------------------------------------------------------------------------------------
  // Counters are in rows and columns: an AND each finds one of them.
  localparam int unsigned ColW = IndexW / 2;
  localparam int unsigned Cols = 1 << ColW;
  localparam int unsigned Rows = (Count + Cols - 1) / Cols;

  // The counter to look at, and what was found there.
  typedef struct packed {
    logic              clear;
    logic              read;
    logic              sweep;
    logic [IndexW-1:0] index;
    logic [Rows-1:0]   row;
    logic [Cols-1:0]   col;
  } look_t;
  typedef struct packed {
    logic              clear;
    logic              read;
    logic              owes;
    logic [IndexW-1:0] index;
    logic [Rows-1:0]   pay_row;
    logic [Cols-1:0]   pay_col;
    low_t              low;
  } found_t;

  look_t              look_q;
  found_t             found_q;
  low_t               low_q   [Count];
  logic   [Count-1:0] owes_q;

  for (genvar i = 0; i < int'(Count); i++) begin : gen_counter
    logic carry, wraps, paid;
    logic [ OnesW-1:0] next_ones;
    logic [UpperW-1:0] next_upper;
    assign next_ones  = OnesW'(next_state(OnesW, 4'(low_q[i].ones)));
    assign next_upper = UpperW'(next_state(UpperW, 4'(low_q[i].upper)));
    assign carry      = event_i[i] && low_q[i].ones == OnesW'(last_state(OnesW));
    assign wraps      = carry && low_q[i].upper == UpperW'(last_state(UpperW));
    assign paid       = found_q.pay_row[i/Cols] && found_q.pay_col[i%Cols];
    // The memory changes at the edge that takes the debt away: a look in between finds both as they
    // were.
    always_ff @(posedge clk_i) begin
      low_q[i].ones  <= rst_i ? '0 : event_i[i] ? next_ones : low_q[i].ones;
      low_q[i].upper <= rst_i ? '0 : carry ? next_upper : low_q[i].upper;
      owes_q[i]      <= !rst_i && (wraps || (owes_q[i] && !paid));
    end
  end

  // ---- Choose: the counter that is read, or else the sweep's ------------------------------------
  logic [IndexW-1:0] sweep_q, index;
  logic cleared_q, any, take, sweep;
  logic [WaitW-1:0] wait_q;

  assign any   = owes_q != '0;
  assign take  = read_i && cleared_q && !look_q.clear && wait_q == '0;
  assign sweep = !take && (any || !cleared_q);
  assign index = take ? index_i : sweep_q;

  always_ff @(posedge clk_i) begin
    if (take || sweep) begin
      look_q.index <= index;
      look_q.row   <= Rows'(1 << index[IndexW-1:ColW]);
      look_q.col   <= Cols'(1) << index[ColW-1:0];
    end
    look_q.clear <= !rst_i && !cleared_q;
    look_q.read  <= !rst_i && take;
    look_q.sweep <= !rst_i && sweep;
    if (rst_i) begin
      sweep_q   <= '0;
      cleared_q <= 1'b0;
      wait_q    <= '0;
    end else begin
      if (sweep) begin
        sweep_q <= sweep_q == IndexW'(Count - 1) ? '0 : sweep_q + 1'b1;
        if (sweep_q == IndexW'(Count - 1)) cleared_q <= 1'b1;
      end
      if (take) wait_q <= WaitW'(ReadEvery - 1);
      else if (wait_q != '0) wait_q <= wait_q - 1'b1;
    end
  end

  // ---- Look -------------------------------------------------------------------------------------
  logic                    owes;
  low_t                    low;
  logic [Cols-1:0][LowW:0] columns;

  always_comb begin
    owes    = 1'b0;
    low     = '0;
    columns = '0;
    if (look_q.read || look_q.sweep) begin
      for (int unsigned c = 0; c < Cols; c++) begin
        for (int unsigned r = 0; r < Rows; r++) begin
          if (r * Cols + c < Count) begin
            columns[c] |= {owes_q[r*Cols+c], low_q[r*Cols+c]} & {(LowW + 1) {look_q.row[r]}};
          end
        end
        {owes, low} |= columns[c] & {(LowW + 1) {look_q.col[c]}};
      end
    end
  end

  always_ff @(posedge clk_i) begin
    found_q.clear   <= !rst_i && look_q.clear;
    found_q.read    <= !rst_i && look_q.read;
    found_q.owes    <= !rst_i && owes;
    found_q.index   <= look_q.index;
    found_q.low     <= low;
    found_q.pay_row <= !rst_i && look_q.sweep && owes ? look_q.row : '0;
    found_q.pay_col <= look_q.col;
  end

  // ---- Pay, or answer ---------------------------------------------------------------------------
  logic pay;
  high_t high, sum;

  assign sum = high + high_t'(found_q.owes);
  assign pay = found_q.owes && !found_q.read;
  assign valid_o = found_q.read;
  assign value_o = {
    sum, UpperW'(UpperNumbers[4'(found_q.low.upper)]), OnesW'(OnesNumbers[4'(found_q.low.ones)])
  };

  ram_1r1w #(
    .data_t  (high_t),
    .Depth   (Count),
    .InitZero(1'b0)
  ) u_high (
    .clk_i,
    .we_i   (pay || found_q.clear),
    .waddr_i(found_q.index),
    .wdata_i(found_q.clear ? '0 : sum),
    .re_i   (look_q.read || look_q.sweep),
    .raddr_i(look_q.index),
    .rdata_o(high)
  );

  assign busy_o = any || !cleared_q || look_q.sweep || look_q.read || found_q.clear ||
      found_q.owes || found_q.read || wait_q != '0;

`ifndef SYNTHESIS
  initial begin
    assert (Count >= 3 && LowW >= 2 && LowW <= 8)
    else $fatal(1, "stats_ram: 3 to 220 counters");
    assert (Width > LowW)
    else $fatal(1, "stats_ram: a counter has no high bits");
  end
  for (genvar i = 0; i < int'(Count); i++) begin : gen_check
    a_paid_in_time :
    assert property (@(posedge clk_i) disable iff (rst_i) gen_counter[i].wraps |->
        !owes_q[i] || gen_counter[i].paid)
    else $error("stats_ram: a counter owes two");
  end
  a_index :
  assert property (@(posedge clk_i) disable iff (rst_i) read_i |-> 32'(index_i) < Count)
  else $error("stats_ram: no such counter");
  a_held :
  assert property (@(posedge clk_i) disable iff (rst_i) read_i && !valid_o |=> read_i)
  else $error("stats_ram: a read is withdrawn");
`endif
endmodule
