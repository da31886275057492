// SPDX-License-Identifier: Apache-2.0
// Which connection a segment belongs to, which ports listen, and which connection is free.
//
// Latency : combinational from header_i; writes 1 edge.
// Clock   : clk_i.
// Source  : RFC 9293 section 3.10; table 1 of the document on parallel protocol processing (CAM).
module toe_lookup
  import toe_pkg::*;
#(
  parameter int unsigned Conns = 16,
  /// Ports that can listen.
  parameter int unsigned Listeners = 4,
  /// Connections that a SYN has begun and no acknowledgement confirmed; the rest is for others.
  parameter int unsigned HalfOpen = 8
) (
  input  logic                 clk_i,
  input  logic                 rst_i,
  input  logic     [     31:0] ip_i,
  input  logic     [     31:0] src_ip_i,
  input  logic     [     31:0] dst_ip_i,
  input  logic     [     15:0] src_port_i,
  input  logic     [     15:0] dst_port_i,
  output logic                 mine_o,
  output logic                 hit_o,
  output conn_id_t             id_o,
  output logic                 listens_o,
  output logic                 free_o,
  output conn_id_t             free_id_o,
  output logic                 flooded_o,
  output logic     [Conns-1:0] open_o,
  // A connection is written back.
  input  logic                 write_i,
  input  conn_id_t             write_id_i,
  input  logic                 write_open_i,
  input  logic                 write_half_i,
  input  logic     [     31:0] write_ip_i,
  input  logic     [     15:0] write_peer_i,
  input  logic     [     15:0] write_local_i,
  input  logic                 listen_i,
  input  logic                 unlisten_i,
  input  logic     [     15:0] listen_port_i
);
  typedef struct packed {
    logic [31:0] ip;
    logic [15:0] peer;
    logic [15:0] local_;
  } key_t;

  localparam int unsigned HalfW = $clog2(Conns + 1);

  key_t [Conns-1:0] keys_q;
  logic [Conns-1:0] open_q, half_q, match;
  logic [Listeners-1:0][15:0] ports_q;
  logic [Listeners-1:0]       listening_q;
  logic [    HalfW-1:0]       halves;
  key_t                       key;

  assign key    = '{ip: src_ip_i, peer: src_port_i, local_: dst_port_i};
  // Neither broadcast nor multicast may be a source (RFC 9293 MUST-63).
  assign mine_o = dst_ip_i == ip_i && src_ip_i != '1 && src_ip_i[31:28] != 4'hE;

  always_comb begin
    id_o      = '0;
    free_o    = 1'b0;
    free_id_o = '0;
    halves    = '0;
    listens_o = 1'b0;
    for (int unsigned i = 0; i < Conns; i++) begin
      match[i] = open_q[i] && keys_q[i] == key;
      if (match[i]) id_o |= conn_id_t'(i);
      if (!open_q[Conns-1-i]) begin
        free_o    = 1'b1;
        free_id_o = conn_id_t'(Conns - 1 - i);
      end
      halves += HalfW'(open_q[i] && half_q[i]);
    end
    for (int unsigned i = 0; i < Listeners; i++) begin
      listens_o |= listening_q[i] && ports_q[i] == dst_port_i;
    end
  end
  assign open_o    = open_q;
  assign hit_o     = |match;
  assign flooded_o = halves >= HalfW'(HalfOpen);

  // A port takes the first place that is free.
  logic [Listeners-1:0] empty, chosen;
  assign empty  = ~listening_q;
  assign chosen = empty & (~empty + 1'b1);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      open_q      <= '0;
      listening_q <= '0;
    end else begin
      for (int unsigned i = 0; i < Conns; i++) begin
        if (write_i && write_id_i == conn_id_t'(i)) open_q[i] <= write_open_i;
      end
      for (int unsigned i = 0; i < Listeners; i++) begin
        if (listen_i && chosen[i]) listening_q[i] <= 1'b1;
        if (unlisten_i && ports_q[i] == listen_port_i) listening_q[i] <= 1'b0;
      end
    end
    for (int unsigned i = 0; i < Conns; i++) begin
      if (write_i && write_id_i == conn_id_t'(i)) begin
        half_q[i] <= write_half_i;
        keys_q[i] <= '{ip: write_ip_i, peer: write_peer_i, local_: write_local_i};
      end
    end
    for (int unsigned i = 0; i < Listeners; i++) begin
      if (listen_i && chosen[i]) ports_q[i] <= listen_port_i;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_one_match : assert ($onehot0(match));
    end
  end
`endif
endmodule
