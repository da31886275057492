// SPDX-License-Identifier: Apache-2.0
// Register operations of the CPU: one or two accesses on the register bus, and a CplD for a read.
//
// A DW that is written with byte enables other than 0xF is refused here; any DW may be refused by
// the bus. A refused DW reads as 0, one that nobody answers for (reg_cdc) as all ones; a refused write changes
// nothing.
//
// What was read waits for its way to the root complex apart: no write waits for a read whose CplD can't leave.
// hold_i lets what must come before a CplD go first. More answers may be kept meanwhile, and make those in front of
// them wait for what they wait for.
//
// Latency   : operation to bus 1 cycle; last answer to the CplD's first beat 2 cycles.
// Clock     : clk_i.
// Handshake : op_ready_o is high when idle and low from the edge that takes an operation until it
//             has taken effect (write) or its answer is kept (read), so that whoever waits for it
//             sees the change. While read_ok_o is high there is room for the answers to those that are under way and to
//             two more: who offers a read only then never has it wait here, in front of a write.
// Drops     : never; refused DWs are counted.
// Source    : PCI Express base specification, completion rules.
module completer
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import cpl_pkg::*;
  import reg_bus_pkg::*;
#(
  /// Answers that can wait; 5 at least.
  parameter int unsigned Answers = 16
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic       [15:0] completer_id_i,
  input  reg_op_t           op_i,
  input  logic              op_valid_i,
  output logic              op_ready_o,
  output logic              read_ok_o,
  output reg_req_t          req_o,
  input  reg_rsp_t          rsp_i,
         axis_if.src        m_axis,
  /// Pulse: a read has its answer. From the next cycle on a CplD that is not offered yet waits while hold_i is high.
  output logic              answer_o,
  input  logic              hold_i,
  /// Pulses: a write, a read was taken.
  output logic              cnt_tlp_register_write_o,
  output logic              cnt_tlp_register_read_o,
  /// Pulse for each DW refused.
  output logic              cnt_register_refused_o,
  output logic              busy_o
);
  typedef enum logic [1:0] {
    StIdle,
    StAccess,
    StKeep
  } state_e;

  typedef struct packed {
    logic [95:0] header;
    logic        two_dw;
    logic [63:0] data;
  } answer_t;

  localparam int unsigned CountW = $clog2(Answers + 1);

  state_e state_q, state_d;
  reg_op_t        op_q;
  logic    [20:0] dw_q;  // the DW that is accessed
  logic           second_q;  // the access is to the second DW
  logic    [31:0] data_q                                      [2];
  logic    [95:0] header_q;
  logic be_refused, answered, last_access;
  logic    [       9:0] length;
  answer_t              answer;
  logic    [CountW-1:0] answers;
  logic answer_valid, answer_room, leaves;
  logic       offered_q;  // the CplD has been offered, and stays so
  logic [1:0] beat_q;  // of its CplD: of one DW two beats, of two DWs three

  assign be_refused  = op_q.write && (second_q ? op_q.last_be : op_q.first_be) != 4'hF;
  assign last_access = second_q || !op_q.two_dw;
  assign length      = op_q.two_dw ? 10'd2 : 10'd1;

  always_comb begin
    req_o       = '0;
    req_o.valid = state_q == StAccess && !be_refused;
    req_o.write = op_q.write;
    req_o.addr  = {dw_q, 2'b00};
    req_o.wdata = second_q ? op_q.wdata[63:32] : op_q.wdata[31:0];
  end

  assign answered = state_q == StAccess && (be_refused || rsp_i.done);

  assign op_ready_o = state_q == StIdle && (op_i.write || answer_room);
  assign cnt_tlp_register_write_o = op_ready_o && op_valid_i && op_i.write;
  assign cnt_tlp_register_read_o = op_ready_o && op_valid_i && !op_i.write;
  assign busy_o = op_valid_i || state_q != StIdle || answer_valid || cnt_register_refused_o;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle:   if (op_valid_i && op_ready_o) state_d = StAccess;
      StAccess: if (answered && last_access) state_d = op_q.write ? StIdle : StKeep;
      default:  state_d = StIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (op_ready_o && op_valid_i) op_q <= op_i;
    if (op_ready_o) dw_q <= op_i.addr[22:2];
    else if (answered) dw_q <= dw_q + 1'b1;
    if (answered) begin
      data_q[second_q] <= be_refused ? '0 : rsp_i.rdata;
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
      state_q                <= StIdle;
      second_q               <= 1'b0;
      cnt_register_refused_o <= 1'b0;
    end else begin
      state_q                <= state_d;
      cnt_register_refused_o <= answered && (be_refused || !rsp_i.ok);
      if (answered) second_q <= !last_access;
    end
  end

  sync_fifo #(
    .data_t(answer_t),
    .Depth (Answers)
  ) u_answers (
    .clk_i,
    .rst_i,
    .wdata_i ('{header: header_q, two_dw: op_q.two_dw, data: {data_q[1], data_q[0]}}),
    .wvalid_i(state_q == StKeep),
    .wready_o(answer_room),
    .rdata_o (answer),
    .rvalid_o(answer_valid),
    .rready_i(leaves),
    .count_o (answers)
  );
  always_ff @(posedge clk_i) read_ok_o <= !rst_i && answers <= CountW'(Answers - 4);

  assign answer_o = state_q == StKeep;
  assign leaves   = m_axis.tvalid && m_axis.tready && m_axis.tlast;
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      beat_q    <= '0;
      offered_q <= 1'b0;
    end else begin
      offered_q <= m_axis.tvalid && !leaves;
      if (m_axis.tvalid && m_axis.tready) beat_q <= m_axis.tlast ? '0 : beat_q + 1'b1;
    end
  end

  always_comb begin
    m_axis.tvalid = answer_valid && (offered_q || !hold_i);
    m_axis.tuser  = '0;
    m_axis.tkeep  = '1;
    m_axis.tlast  = 1'b0;
    unique case (beat_q)
      2'd0: m_axis.tdata = answer.header[63:0];
      2'd1: begin
        m_axis.tdata = {answer.data[31:0], answer.header[95:64]};
        m_axis.tlast = !answer.two_dw;
      end
      default: begin
        m_axis.tdata = {32'd0, answer.data[63:32]};
        m_axis.tkeep = 8'h0F;
        m_axis.tlast = 1'b1;
      end
    endcase
  end

  logic unused;
  assign unused = ^op_q.addr[1:0];

`ifndef SYNTHESIS
  initial
    assert (Answers >= 5)
    else $fatal(1, "completer: room for five answers at least");
  assert property (@(posedge clk_i) disable iff (rst_i) state_q == StKeep |-> answer_room)
  else $error("completer: an answer finds no room");
`endif
endmodule
