// SPDX-License-Identifier: Apache-2.0
// Register operations of the CPU: one or two accesses on the register bus, and a CplD for a read.
//
// A DW that is written with byte enables other than 0xF is refused here; any DW may be refused by
// the bus. A refused DW reads as 0, a refused write changes nothing.
//
// Latency   : operation to bus 1 cycle; last answer to the CplD's first beat 1 cycle.
// Clock     : clk_i.
// Handshake : op_ready_o is high when idle and low from the edge that takes an operation until it
//             has taken effect (write) or its CplD has left (read), so that whoever waits for it
//             sees the change.
// Drops     : never; refused DWs are counted.
// Source    : PCI Express base specification, completion rules.
module completer
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import cpl_pkg::*;
  import reg_bus_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic       [15:0] completer_id_i,
  input  reg_op_t           op_i,
  input  logic              op_valid_i,
  output logic              op_ready_o,
  output reg_req_t          req_o,
  input  reg_rsp_t          rsp_i,
         axis_if.src        m_axis,
  /// Pulses: a write, a read was taken.
  output logic              cnt_tlp_register_write_o,
  output logic              cnt_tlp_register_read_o,
  /// Pulse for each DW refused.
  output logic              cnt_register_refused_o,
  output logic              busy_o
);
  // A completion of one DW is two beats, of two DWs three.
  typedef enum logic [2:0] {
    StIdle,
    StAccess,
    StBeat0,
    StBeat1,
    StBeat2
  } state_e;

  state_e state_q, state_d;
  reg_op_t        op_q;
  logic           second_q;  // the access is to the second DW
  logic    [31:0] data_q                                      [2];
  logic    [95:0] header_q;
  logic be_refused, answered, last_access;
  logic [9:0] length;

  assign be_refused  = op_q.write && (second_q ? op_q.last_be : op_q.first_be) != 4'hF;
  assign last_access = second_q || !op_q.two_dw;
  assign length      = op_q.two_dw ? 10'd2 : 10'd1;

  always_comb begin
    req_o       = '0;
    req_o.valid = state_q == StAccess && !be_refused;
    req_o.write = op_q.write;
    req_o.addr  = {op_q.addr[22:2] + 21'(second_q), 2'b00};
    req_o.wdata = second_q ? op_q.wdata[63:32] : op_q.wdata[31:0];
  end

  assign answered                 = state_q == StAccess && (be_refused || rsp_i.done);

  assign op_ready_o               = state_q == StIdle;
  assign cnt_register_refused_o   = answered && (be_refused || !rsp_i.ok);
  assign cnt_tlp_register_write_o = op_ready_o && op_valid_i && op_i.write;
  assign cnt_tlp_register_read_o  = op_ready_o && op_valid_i && !op_i.write;
  assign busy_o                   = op_valid_i || state_q != StIdle;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle:   if (op_valid_i) state_d = StAccess;
      StAccess: if (answered && last_access) state_d = op_q.write ? StIdle : StBeat0;
      StBeat0:  if (m_axis.tready) state_d = StBeat1;
      StBeat1:  if (m_axis.tready) state_d = op_q.two_dw ? StBeat2 : StIdle;
      default:  if (m_axis.tready) state_d = StIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (op_ready_o && op_valid_i) op_q <= op_i;
    if (answered) begin
      data_q[second_q] <= be_refused || !rsp_i.ok ? '0 : rsp_i.rdata;
      header_q <= cpl_header(
          TLP_CPLD,
          length,
          op_q.tc,
          op_q.attr,
          completer_id_i,
          CPL_SC,
          read_byte_count(
              length, op_q.first_be, op_q.last_be
          ),
          op_q.requester_id,
          op_q.tag,
          {
            op_q.addr[6:2], first_byte(op_q.first_be)
          }
      );
    end
    if (rst_i) begin
      state_q  <= StIdle;
      second_q <= 1'b0;
    end else begin
      state_q <= state_d;
      if (answered) second_q <= !last_access;
    end
  end

  always_comb begin
    m_axis.tvalid = state_q inside {StBeat0, StBeat1, StBeat2};
    m_axis.tuser  = '0;
    m_axis.tkeep  = '1;
    m_axis.tlast  = 1'b0;
    unique case (state_q)
      StBeat1: begin
        m_axis.tdata = {data_q[0], header_q[95:64]};
        m_axis.tlast = !op_q.two_dw;
      end
      StBeat2: begin
        m_axis.tdata = {32'd0, data_q[1]};
        m_axis.tkeep = 8'h0F;
        m_axis.tlast = 1'b1;
      end
      default: m_axis.tdata = header_q[63:0];
    endcase
  end

  logic unused;
  assign unused = ^op_q.addr[1:0];
endmodule
