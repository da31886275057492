// SPDX-License-Identifier: Apache-2.0
// The host's side of the switch: frames for the host one after another, whole, and frames of the
// host to the port that they name.
//
// Latency   : first beat of a frame for the host to m_host: its length, and 2 edges.
// Clock     : clk_i, rst_i synchronous.
// Handshake : AXI4-Streams without FCS. s_host: tuser is the port, read with the first beat. m_host:
//             tuser is {bad, port of arrival, verdict}, bad with the last beat. The FIFOs as
//             forward_fifo has them; those for the host take frames from rewrite.
// Drops     : frames of the host to a port that does not exist are taken and forgotten. One that is
//             too long is cut and spoiled.
// Source    : dissertation section 5.1.1.1, figure 5.8.
module host_port
  import fibnic_pkg::*;
#(
  /// Network ports.
  parameter int unsigned N = 4,
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Frames that may wait in a FIFO, beside one that is being sent.
  parameter int unsigned Waiting = 4,
  /// Memory of a FIFO, in frames of the longest size.
  parameter int unsigned FifoFrames = 2
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic     [ 63:0] s_host_tdata_i,
  input  logic     [  7:0] s_host_tkeep_i,
  input  logic             s_host_tvalid_i,
  output logic             s_host_tready_o,
  input  logic             s_host_tlast_i,
  input  logic     [  3:0] s_host_tuser_i,
  output logic     [ 63:0] m_host_tdata_o,
  output logic     [  7:0] m_host_tkeep_o,
  output logic             m_host_tvalid_o,
  input  logic             m_host_tready_i,
  output logic             m_host_tlast_o,
  output logic     [  9:0] m_host_tuser_o,
  // From rewrite, by port of arrival.
  output logic     [N-1:0] room_o,
  input  logic     [N-1:0] w_start_i,
  input  logic     [N-1:0] w_valid_i,
  input  beat_t    [N-1:0] w_beat_i,
  input  verdict_e [N-1:0] w_verdict_i,
  // To the egress of each port.
  output logic     [N-1:0] req_o,
  input  logic     [N-1:0] start_i,
  output logic     [N-1:0] active_o,
  output beat_t    [N-1:0] beat_o,
  input  logic     [N-1:0] next_i,
  /// A frame is in here, either way.
  output logic             busy_o
);
  localparam int unsigned PortW = $clog2(N);
  localparam int unsigned FcsBytes = 4;
  localparam int unsigned MaxBeats = (MaxFrame - FcsBytes + 7) / 8;
  localparam int unsigned BeatW = $clog2(MaxBeats);

  typedef struct packed {
    beat_t    beat;
    verdict_e verdict;
    logic     last;
  } host_beat_t;

  logic [N-1:0] in_busy, out_busy;

  // Frames for the host, one after another.
  logic [N-1:0] req, grant, start, active;
  host_beat_t [N-1:0] beat;
  host_beat_t         out_beat;
  logic [PortW-1:0] out_port_q, grant_idx;

  // Frames of the host.
  logic first_q, take, last;
  logic             skip_q;  // the rest of a frame that was cut
  logic [BeatW-1:0] count_q;
  logic [3:0] port, port_q;
  logic [N-1:0] room, w_start, w_valid;
  beat_t w_beat;

  for (genvar p = 0; p < int'(N); p++) begin : gen_port
    forward_fifo #(
      .data_t    (host_beat_t),
      .MaxFrame  (MaxFrame),
      .Waiting   (Waiting),
      .Frames    (FifoFrames),
      .CutThrough(1'b0)
    ) u_to_host (
      .clk_i,
      .rst_i,
      .room_o   (room_o[p]),
      .w_start_i(w_start_i[p]),
      .w_valid_i(w_valid_i[p]),
      .wdata_i  ('{beat: w_beat_i[p], verdict: w_verdict_i[p], last: w_beat_i[p].last}),
      .req_o    (req[p]),
      .start_i  (start[p]),
      .active_o (active[p]),
      .rdata_o  (beat[p]),
      .next_i   (active[p] && m_host_tready_i),
      .busy_o   (out_busy[p])
    );

    forward_fifo #(
      .MaxFrame  (MaxFrame),
      .Waiting   (Waiting),
      .Frames    (FifoFrames),
      .CutThrough(1'b0)
    ) u_from_host (
      .clk_i,
      .rst_i,
      .room_o   (room[p]),
      .w_start_i(w_start[p]),
      .w_valid_i(w_valid[p]),
      .wdata_i  (w_beat),
      .req_o    (req_o[p]),
      .start_i  (start_i[p]),
      .active_o (active_o[p]),
      .rdata_o  (beat_o[p]),
      .next_i   (next_i[p]),
      .busy_o   (in_busy[p])
    );

    assign w_valid[p] = take && !skip_q && port == 4'(p);
    assign w_start[p] = w_valid[p] && first_q;
  end

  arb_rr #(
    .N(N)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i      (req),
    .ack_i      (active == '0),
    .lock_i     (1'b0),
    .gnt_o      (grant),
    .gnt_idx_o  (grant_idx),
    .gnt_valid_o()
  );

  assign start = active == '0 ? grant : '0;

  always_ff @(posedge clk_i) if (|start) out_port_q <= grant_idx;

  always_comb begin
    out_beat = '0;
    for (int unsigned i = 0; i < N; i++) if (active[i]) out_beat |= beat[i];
  end

  assign m_host_tvalid_o = |active;
  assign m_host_tdata_o  = out_beat.beat.data;
  assign m_host_tkeep_o  = out_beat.beat.keep;
  assign m_host_tlast_o  = out_beat.last;
  assign m_host_tuser_o  = {out_beat.beat.bad, 4'(out_port_q), 5'(out_beat.verdict)};

  assign port            = first_q ? s_host_tuser_i : port_q;

  always_comb begin
    s_host_tready_o = 1'b1;
    for (int unsigned i = 0; i < N; i++) if (first_q && port == 4'(i)) s_host_tready_o = room[i];
  end

  assign take = s_host_tvalid_i && s_host_tready_o;
  assign last = s_host_tlast_i || count_q == BeatW'(MaxBeats - 1);
  assign w_beat = '{
          data: s_host_tdata_i,
          keep: s_host_tkeep_i,
          last: last,
          bad: last && !s_host_tlast_i
      };

  always_ff @(posedge clk_i) begin
    if (take) port_q <= port;
    if (rst_i) begin
      first_q <= 1'b1;
      skip_q  <= 1'b0;
      count_q <= '0;
    end else if (take) begin
      first_q <= s_host_tlast_i;
      skip_q  <= !s_host_tlast_i && (skip_q || last);
      count_q <= s_host_tlast_i || last ? '0 : count_q + 1'b1;
    end
  end

  assign busy_o = |in_busy || |out_busy || !first_q;
endmodule
