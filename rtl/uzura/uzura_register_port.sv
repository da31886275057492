// SPDX-License-Identifier: Apache-2.0
// The engine's one register port: doorbells as they come, and between them the kernel's registers from the register
// bus, whose two DWs make a word of the engine.
//
// A write takes effect with its upper DW, and only behind its lower one: so a store of 8 bytes is one write, and half
// a store none. Each DW that is read is a read of the whole word.
//
// Latency   : a doorbell none; a DW 1 edge, read 2.
// Clock     : clk_i (network).
// Handshake : valid/ready; register bus. The register bus goes first.
// Drops     : never; an upper DW without its lower one is refused.
module uzura_register_port
  import reg_bus_pkg::*;
  import uzura_nic_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  reg_req_t        req_i,
  output reg_rsp_t        rsp_o,
  input  door_t           door_i,
  input  logic            door_valid_i,
  output logic            door_ready_o,
  output logic            valid_o,
  output logic            write_o,
  output logic     [18:0] addr_o,
  output logic     [63:0] wdata_o,
  input  logic            rvalid_i,
  input  logic     [63:0] rdata_i,
  output logic            busy_o
);
  logic [31:0] low_q;
  logic [ 8:0] low_at_q;
  logic low_there_q, done_q, ok_q, asked_q, start, upper, matched, kernel;

  assign upper        = req_i.addr[2];
  assign matched      = low_there_q && low_at_q == req_i.addr[11:3];
  assign start        = req_i.valid && !done_q && !asked_q;
  // Of the register bus: reads, and writes of the upper half.
  assign kernel       = start && (!req_i.write || (upper && matched));
  assign door_ready_o = !kernel;
  assign valid_o      = kernel || door_valid_i;
  assign write_o      = !kernel || req_i.write;
  assign addr_o       = kernel ? {1'b1, 6'd0, req_i.addr[11:3], 3'd0} : {1'b0, door_i.addr};
  assign wdata_o      = kernel ? {req_i.wdata, low_q} : door_i.data;

  always_ff @(posedge clk_i) begin
    if (start && req_i.write && !upper) begin
      low_q    <= req_i.wdata;
      low_at_q <= req_i.addr[11:3];
    end
    if (start) ok_q <= !req_i.write || !upper || matched;
    if (rst_i) begin
      low_there_q <= 1'b0;
      done_q      <= 1'b0;
      asked_q     <= 1'b0;
    end else begin
      if (start) low_there_q <= req_i.write && !upper;
      done_q <= start && req_i.write;
      if (start && !req_i.write) asked_q <= 1'b1;
      else if (rvalid_i) asked_q <= 1'b0;
    end
  end
  always_comb begin
    rsp_o = '{done: done_q, ok: ok_q, rdata: '0};
    if (asked_q) begin
      rsp_o = '{done: rvalid_i, ok: 1'b1, rdata: upper ? rdata_i[63:32] : rdata_i[31:0]};
    end
  end
  assign busy_o = req_i.valid || door_valid_i;

  logic unused;
  assign unused = ^{req_i.addr[22:12], req_i.addr[1:0]};
endmodule
