// SPDX-License-Identifier: Apache-2.0
// Gives each TLP of the root complex to one of two functions: requests by the BAR that they hit, completions by the
// function in their requester ID.
//
// The requester ID is in a completion's second beat, so its beats go through a register, one behind the other; the first
// one goes when it is registered, too, whose that ID is. Requests
// go past that register; one waits only for the last beat of a completion to its own function. Nothing is reordered
// within a function: the register is empty, or has the beat before the one that is offered.
//
// A completion of another device, of a function that is not there, or with no second beat, is function 0's,
// which counts it. Its tag becomes one that nobody waits for: an engine looks at the tag, and not at the ID. A request to a
// function that is not there is function 0's too, as one that hits no BAR: it is refused and counted.
//
// Both functions share one stream: what a function does not take holds up what is behind it for the other, but for requests
// behind the held end of a completion. An engine that has room for all credits of the block never does that
// (pcie_rx_split).
//
// Latency   : 0 cycles for requests, a combinational path each way; 2 cycles for completions, of which one is a pause of the
//             input.
// Clock     : clk_i (PCIe).
// Handshake : valid/ready; an offered beat stays.
// Drops     : never.
// Source    : PCI Express Base 2.0, 2.2.6.2, 2.2.9 and 2.3.2.
module tlp_router
  import shell_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  /// Requester ID of function 0.
  input  logic       [15:0] device_id_i,
  /// tuser is hit_t.
         axis_if.snk        s_axis,
  /// To functions 0 and 1; tuser is the BAR hit.
         axis_if.src        m_first,
         axis_if.src        m_second,
  /// What is offered to them is of a completion.
  output logic              first_completion_o,
  output logic              second_completion_o,
  output logic              busy_o
);
  typedef struct packed {
    logic [63:0] data;
    logic [7:0]  keep;
    logic        last;
  } beat_t;

  // Where the stream is in its TLP.
  logic first_q;  // the next beat is the first
  logic completion_q;  // of a TLP that has begun
  logic to_second_q;  // of a request that has begun
  logic id_q;  // the next beat has the requester ID of the beat that is held
  logic id_known_q, own_q, cpl_second_q;  // that beat is offered, and whose it is

  // The register of completions.
  logic held_q, held_second_q;
  beat_t held_beat_q, beat;

  hit_t        hit;
  logic [15:0] requester;
  logic completion, known, to_second, own, cpl_second, held_second;
  logic held_offer, held_ready, direct, direct_offer, taken;

  assign hit = hit_t'(s_axis.tuser);
  assign known = hit.fn inside {FN_RING, FN_IPNUMA};
  assign completion = first_q ? is_completion(s_axis.tdata[7:0]) : completion_q;
  assign to_second = first_q ? hit.fn == FN_IPNUMA : to_second_q;

  // Bytes 8 and 9 of a completion.
  assign requester = {s_axis.tdata[7:0], s_axis.tdata[15:8]};
  assign own = requester[15:3] == device_id_i[15:3] && requester[2:0] inside {FN_RING, FN_IPNUMA};
  assign cpl_second = own && requester[2:0] == FN_IPNUMA;

  // A beat that is held goes when it is known where to.
  assign held_second = id_q ? cpl_second_q : held_second_q;
  assign held_offer = held_q && (!id_q || id_known_q);
  assign held_ready = held_second ? m_second.tready : m_first.tready;

  assign direct = !completion && !(held_q && held_second_q == to_second);
  assign direct_offer = s_axis.tvalid && direct;

  always_comb begin
    if (completion) s_axis.tready = !held_q || (held_offer && held_ready);
    else s_axis.tready = direct && (to_second ? m_second.tready : m_first.tready);
  end
  assign taken = s_axis.tvalid && s_axis.tready;

  always_comb begin
    beat = '{data: s_axis.tdata, keep: s_axis.tkeep, last: s_axis.tlast};
    if (id_q && !own_q) beat.data[23:16] = TAG_OF_NOBODY;
  end

  always_ff @(posedge clk_i) begin
    own_q        <= own;
    cpl_second_q <= cpl_second;
    if (taken && first_q) begin
      completion_q <= completion;
      to_second_q  <= to_second;
    end
    if (taken && completion) begin
      held_beat_q   <= beat;
      held_second_q <= first_q ? 1'b0 : held_second;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      first_q    <= 1'b1;
      id_q       <= 1'b0;
      id_known_q <= 1'b0;
      held_q     <= 1'b0;
    end else begin
      if (taken) begin
        first_q <= s_axis.tlast;
        id_q    <= first_q && completion && !s_axis.tlast;
      end
      // The beat stays on the input until the one that is held has gone.
      id_known_q <= id_q && s_axis.tvalid && !taken;
      if (taken && completion) held_q <= 1'b1;
      else if (held_offer && held_ready) held_q <= 1'b0;
    end
  end

  // ---- To the functions ---------------------------------------------------------------------------
  // What is held goes first; valid comes from later in the cycle than the choice.
  logic first_held, second_held;
  assign first_held          = held_q && (id_q || !held_second_q);
  assign second_held         = held_q && (id_q || held_second_q);

  assign m_first.tdata       = first_held ? held_beat_q.data : s_axis.tdata;
  assign m_first.tkeep       = first_held ? held_beat_q.keep : s_axis.tkeep;
  assign m_first.tlast       = first_held ? held_beat_q.last : s_axis.tlast;
  assign m_first.tuser       = first_held || !known ? HIT_NONE : hit.bar;
  assign m_first.tvalid      = first_held ? held_offer && !held_second : direct_offer && !to_second;

  assign m_second.tdata      = second_held ? held_beat_q.data : s_axis.tdata;
  assign m_second.tkeep      = second_held ? held_beat_q.keep : s_axis.tkeep;
  assign m_second.tlast      = second_held ? held_beat_q.last : s_axis.tlast;
  assign m_second.tuser      = second_held ? HIT_NONE : hit.bar;
  assign m_second.tvalid     = second_held ? held_offer && held_second : direct_offer && to_second;

  assign first_completion_o  = first_held;
  assign second_completion_o = second_held;
  assign busy_o              = !first_q || held_q;

  logic unused;
  assign unused = ^device_id_i[2:0];

`ifndef SYNTHESIS
  initial begin
    assert (s_axis.DataW == 64 && s_axis.UserW == $bits(hit_t))
    else $fatal(1, "tlp_router: the stream of the root complex is not 64 + 6");
  end
  // A reset of the PCI Express block takes what it offers, and is here an edge later.
  logic [1:0] waits_q, gone_q;
  logic [63:0] first_data_q, second_data_q;
  always_ff @(posedge clk_i) begin
    waits_q       <= {m_second.tvalid && !m_second.tready, m_first.tvalid && !m_first.tready};
    first_data_q  <= m_first.tdata;
    second_data_q <= m_second.tdata;
    gone_q[0]     <= waits_q[0] && !(m_first.tvalid && m_first.tdata == first_data_q);
    gone_q[1]     <= waits_q[1] && !(m_second.tvalid && m_second.tdata == second_data_q);
    if (rst_i) {waits_q, gone_q} <= '0;
  end
  assert property (@(posedge clk_i) disable iff (rst_i) !gone_q[0])
  else $error("tlp_router: a beat to function 0 was withdrawn");
  assert property (@(posedge clk_i) disable iff (rst_i) !gone_q[1])
  else $error("tlp_router: a beat to function 1 was withdrawn");
  // A beat that is held has its successor on the input, or ends its TLP, or waits for its successor.
  assert property (@(posedge clk_i) disable iff (rst_i) held_q && first_q |-> held_beat_q.last)
  else $error("tlp_router: a TLP begins in front of another's end");
  assert property (@(posedge clk_i) disable iff (rst_i) id_q |-> held_q && !first_q)
  else $error("tlp_router: a requester ID without its first beat");
  // No cycle for requests.
  assert property (@(posedge clk_i) disable iff (rst_i)
      s_axis.tvalid && !completion && !held_q |-> m_first.tvalid || m_second.tvalid)
  else $error("tlp_router: a request waits for nothing");
`endif
endmodule
