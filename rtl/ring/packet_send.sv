// SPDX-License-Identifier: Apache-2.0
// Sends packets of the send buffer: moves their bytes to the front of the word, whatever the address
// they came from, and paces itself by the MAC.
//
// Latency   : send_valid_i to start_o 1 cycle, if the MAC is ready; first beat 1 cycle after start_o.
//             sent_o with the last beat.
// Clock     : clk_i (network).
// Handshake : start_o and m_eth as the transmitters ask for them; once begun, a beat whenever the MAC
//             takes one. A packet is taken with send_take_o, and gone with the sent_o after it.
// Drops     : packets marked so, in 1 cycle.
// Source    : own.
module packet_send
  import ring_types_pkg::*;
#(
  /// Slots of the buffer.
  parameter int unsigned Slots = 8,
  /// Words of a slot.
  parameter int unsigned SlotWords = 256,
  localparam int unsigned SlotW = $clog2(Slots),
  localparam int unsigned WordW = $clog2(SlotWords)
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  send_t                  send_i,
  input  logic                   send_valid_i,
  output logic                   send_take_o,
  output logic                   sent_o,
  output logic                   buffer_re_o,
  output logic       [SlotW-1:0] buffer_slot_o,
  output logic       [WordW-1:0] buffer_word_o,
  input  logic       [     63:0] buffer_data_i,
  output logic                   start_o,
  input  logic                   ready_start_i,
         axis_if.src             m_eth,
  output logic                   busy_o
);
  typedef enum logic [1:0] {
    Idle,   // a packet's first word is being read
    First,  // it is here; the second is being read
    Ready,  // both are here, the MAC was not ready
    Data
  } state_e;

  state_e state_q, state_d;
  logic [WordW-1:0] word_q;  // the next to be read
  logic [     63:0] before_q;  // the word before the one that the buffer shows
  logic [     13:0] left_q;  // bytes
  logic take, fire, last, advance;

  assign take          = state_q == Idle && send_valid_i && !send_i.drop;
  assign last          = left_q <= 14'd8;
  assign fire          = state_q == Data && m_eth.tready;
  assign advance       = state_q == First || (fire && !last);

  assign buffer_re_o   = take || advance;
  assign buffer_slot_o = send_i.slot[SlotW-1:0];
  assign buffer_word_o = take ? '0 : word_q;

  assign start_o       = state_q inside {First, Ready};

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle:    if (take) state_d = First;
      First:   state_d = ready_start_i ? Data : Ready;
      Ready:   if (ready_start_i) state_d = Data;
      default: if (fire && last) state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      word_q <= WordW'(1);
      left_q <= send_i.bytes;
    end else begin
      if (advance) begin
        before_q <= buffer_data_i;
        word_q   <= word_q + 1'b1;
      end
      if (fire) left_q <= left_q - 14'd8;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) state_q <= Idle;
    else state_q <= state_d;
  end

  assign m_eth.tvalid = state_q == Data;
  assign m_eth.tdata  = 64'({buffer_data_i, before_q} >> {send_i.offset, 3'd0});
  assign m_eth.tlast  = last;
  assign m_eth.tkeep  = last ? eth_pkg::bytes_keep(left_q[3:0]) : 8'hFF;
  assign m_eth.tuser  = '0;

  assign sent_o       = (fire && last) || (state_q == Idle && send_valid_i && send_i.drop);
  assign send_take_o  = sent_o;
  assign busy_o       = state_q != Idle || send_valid_i;

  // A slot's number may be wider than this build's.
  logic unused;
  assign unused = ^send_i.slot;
endmodule
