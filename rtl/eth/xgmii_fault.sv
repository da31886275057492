// SPDX-License-Identifier: Apache-2.0
// Link fault signalling of a 10G receiver: what the ordered sets on XGMII say of the link.
//
// Four fault sequences of one kind, with no other kind between them and less than 128 columns without one from each
// to the next, set the state of their kind; 128 columns without one clear it.
//
// Latency : 3 edges from the word on the pins to the outputs.
// Clock   : clk_i, 156.25 MHz; two columns a cycle.
// Source  : IEEE 802.3 subclauses 46.3.4 and 46.3.4.3, figure 46-9.
module xgmii_fault (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic [63:0] xgmii_rxd_i,
  input  logic [ 7:0] xgmii_rxc_i,
  /// The other side is not received, by the PHY here; by the PHY there.
  output logic        local_o,
  output logic        remote_o,
  /// Columns are being counted: for simulators that skip idle time.
  output logic        busy_o
);

  localparam int unsigned Columns = 2;  // of a word
  localparam int unsigned ColumnW = 32;
  localparam int unsigned LaneCount = 4;
  localparam logic [1:0] Needed = 2'd3;  // sequences of one kind before the one that counts
  localparam int unsigned QuietColumns = 128;
  localparam int unsigned QuietW = $clog2(QuietColumns);

  localparam logic [7:0] Sequence = 8'h9c;
  localparam logic [7:0] LocalCode = 8'h01;
  localparam logic [7:0] RemoteCode = 8'h02;

  typedef enum logic [1:0] {
    LinkOk,          // or: no fault sequence
    LinkLocalFault,
    LinkRemoteFault
  } link_fault_e;

  /// State behind a column.
  typedef struct packed {
    logic [1:0]        count;  // sequences of this kind in a row, up to Needed
    link_fault_e       kind;   // of the last sequence
    link_fault_e       fault;
    logic [QuietW-1:0] quiet;  // columns since then
  } state_t;

  link_fault_e [Columns-1:0] seen_d, seen_q;
  state_t state_q, state_d;
  logic local_q, remote_q;  // what another clock may look at

  function automatic link_fault_e decode(logic [ColumnW-1:0] data, logic [LaneCount-1:0] control);
    decode = LinkOk;
    if (control == 4'b0001 && data[23:0] == {16'd0, Sequence}) begin
      if (data[31:24] == LocalCode) decode = LinkLocalFault;
      if (data[31:24] == RemoteCode) decode = LinkRemoteFault;
    end
  endfunction

  function automatic state_t step(state_t state, link_fault_e seen);
    step = state;
    if (seen == LinkOk) begin
      step.quiet = state.quiet + 1'b1;
      if (state.quiet == QuietW'(QuietColumns - 1)) begin
        step.quiet = '1;
        step.count = '0;
        step.fault = LinkOk;
      end
    end else begin
      step.quiet = '0;
      step.kind  = seen;
      if (seen != state.kind || state.count == '0) step.count = 2'd1;
      else if (state.count != Needed) step.count = state.count + 1'b1;
      else step.fault = seen;
    end
  endfunction

  for (genvar i = 0; i < int'(Columns); i++) begin : gen_column
    assign seen_d[i] = decode(xgmii_rxd_i[ColumnW*i+:ColumnW], xgmii_rxc_i[LaneCount*i+:LaneCount]);
  end

  always_comb begin
    state_d = state_q;
    for (int unsigned i = 0; i < Columns; i++) state_d = step(state_d, seen_q[i]);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      seen_q   <= {Columns{LinkOk}};
      state_q  <= '{kind: LinkOk, fault: LinkOk, default: '0};
      local_q  <= 1'b0;
      remote_q <= 1'b0;
    end else begin
      seen_q   <= seen_d;
      state_q  <= state_d;
      local_q  <= state_q.fault == LinkLocalFault;
      remote_q <= state_q.fault == LinkRemoteFault;
    end
  end

  assign local_o  = local_q;
  assign remote_o = remote_q;
  assign busy_o   = local_q || remote_q || state_q.count != '0 || seen_q != {Columns{LinkOk}};
endmodule
