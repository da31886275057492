// SPDX-License-Identifier: Apache-2.0
// Answers refused operations: for a load first a completion of zeros, as the bytes themselves would come, then
// for both the error packet.
//
// Latency   : 1 cycle from valid_i to valid_o when empty.
// Clock     : clk_i (network).
// Handshake : valid_o with frame_o holds until pop_i.
// Drops     : a refusal that finds the queue full gets no answer at all and is counted.
// Source    : docs/wire-format.md.
module deny_queue
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Refusals that wait for the transmitter.
  parameter int unsigned Depth = 8
) (
  input  logic      clk_i,
  input  logic      rst_i,
  /// Pulse.
  input  logic      valid_i,
  input  deny_t     deny_i,
  output logic      valid_o,
  output tx_frame_t frame_o,
  input  logic      pop_i,
  output logic      cnt_deny_dropped_o,
  output logic      busy_o
);
  deny_t deny;
  logic ready, zeros_sent_q, zeros, dropped_q;
  logic [127:0] error_body;

  sync_fifo #(
    .data_t(deny_t),
    .Depth (Depth)
  ) u_fifo (
    .clk_i,
    .rst_i,
    .wdata_i (deny_i),
    .wvalid_i(valid_i),
    .wready_o(ready),
    .rdata_o (deny),
    .rvalid_o(valid_o),
    .rready_i(pop_i && !zeros),
    .count_o ()
  );

  assign zeros = deny.is_load && !zeros_sent_q;

  // Body in wire order: what is written first is the highest byte here, and goes lowest.
  function automatic logic [127:0] in_wire_order(logic [127:0] bytes);
    for (int unsigned i = 0; i < 16; i++) in_wire_order[8*i+:8] = bytes[8*(15-i)+:8];
  endfunction

  assign error_body = in_wire_order(
      {
        deny.code,
        deny.is_load ? TLP_MRD64 : TLP_MWR64,
        deny.sequence_number[15:0],
        deny.sequence_number[31:16],
        6'd0,
        deny.length,
        deny.address
      }
  );

  always_comb begin
    frame_o          = '0;
    frame_o.session  = deny.session;
    frame_o.kind     = zeros ? KIND_TLP : KIND_ERROR;
    frame_o.dst_mac  = deny.peer.mac;
    frame_o.dst_ip   = deny.peer.ip;
    frame_o.src_port = deny.session.valid ? {2'd0, deny.epoch, 8'd0} : UDP_PORT;
    frame_o.head     = error_body;
    if (zeros) begin
      frame_o.head = {
        32'd0,
        cpl_pkg::cpl_header(
          TLP_CPLD,
          deny.length,
          3'd0,
          2'd0,
          16'd0,
          CPL_SC,
          12'(deny.byte_count),
          deny.load_number,
          deny.net_tag,
          {
            deny.address[6:2], deny.first_byte
          }
        )
      };
      frame_o.data_dw = deny.length[6:0];
      frame_o.zero_data = 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      zeros_sent_q <= 1'b0;
      dropped_q    <= 1'b0;
    end else begin
      if (pop_i) zeros_sent_q <= zeros;
      dropped_q <= valid_i && !ready;
    end
  end

  assign cnt_deny_dropped_o = dropped_q;
  assign busy_o             = valid_o || dropped_q;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) pop_i |-> valid_o)
  else $error("deny_queue: nothing there to pop");
`endif
endmodule
