// SPDX-License-Identifier: Apache-2.0
// Bench top of the frame builder alone: five sources and a transmitter that Python plays, session table
// and waiting acknowledgements as flat vectors, looked up here as the NIC does it.
//
// Latency   : that of frame_builder.
// Clock     : clk_i.
// Handshake : as in frame_builder. Drops: as in frame_builder.
// Source    : ours.
module tb_frame_builder
  import ipnuma_pkg::*;
#(
  parameter int unsigned PcIds = 16,
  parameter int unsigned Sessions = 64,
  localparam int unsigned FrameW = $bits(tx_frame_t)
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  logic [           47:0] mac_i,
  input  logic [           31:0] ip_i,
  input  logic [            7:0] epoch_i,
  input  logic [            4:0] src_valid_i,
  input  logic [            4:0] src_permitted_i,
  input  logic [     FrameW-1:0] src0_frame_i,
  input  logic [     FrameW-1:0] src1_frame_i,
  input  logic [     FrameW-1:0] src2_frame_i,
  input  logic [     FrameW-1:0] src3_frame_i,
  input  logic [     FrameW-1:0] src4_frame_i,
  output logic [            4:0] src_pay_idx_o,
  input  logic [       5*64-1:0] src_pay_word_i,
  output logic [            4:0] src_lock_o,
  output logic [            4:0] src_pop_o,
  input  logic                   mark_i,
  output logic                   mark_valid_o,
  input  logic                   mark_ready_i,
  output logic [            7:0] session_o,
  input  logic [16*Sessions-1:0] ports_i,
  input  logic [   Sessions-1:0] session_valid_i,
  input  logic [   Sessions-1:0] session_sealed_i,
  input  logic [   Sessions-1:0] open_i,
  input  logic [   Sessions-1:0] lost_i,
  output logic                   resend_start_o,
  input  logic [           31:0] start_sequence_i,
  input  logic [           31:0] rs_sequence_i,
  output logic                   copy_frame_we_o,
  output logic [     FrameW-1:0] copy_frame_o,
  output logic                   copy_we_o,
  output logic [            4:0] copy_idx_o,
  output logic [           63:0] copy_word_o,
  input  logic [   Sessions-1:0] ack_pending_i,
  input  logic [   Sessions-1:0] ack_urgent_i,
  input  logic [16*Sessions-1:0] ack_values_i,
  output logic                   ack_taken_o,
  output logic                   start_o,
  output logic                   start_sealed_o,
  input  logic                   ready_start_i,
  output logic [           63:0] tdata_o,
  output logic [            7:0] tkeep_o,
  output logic                   tvalid_o,
  output logic                   tlast_o,
  input  logic                   tready_i,
  /// Pulses: {lost, resend, void, nack, ack, error, completion, load, store}
  output logic [            8:0] cnt_o,
  output logic                   busy_o
);
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) frames ();

  assign tdata_o       = frames.tdata;
  assign tkeep_o       = frames.tkeep;
  assign tvalid_o      = frames.tvalid;
  assign tlast_o       = frames.tlast;
  assign frames.tready = tready_i;

  tx_frame_t [4:0] src_frame;
  assign src_frame = {src4_frame_i, src3_frame_i, src2_frame_i, src1_frame_i, src0_frame_i};

  logic [7:0] sending_o;
  logic [$clog2(Sessions)-1:0] session, sending;
  assign session = session_o[$clog2(Sessions)-1:0];
  assign sending = sending_o[$clog2(Sessions)-1:0];

  frame_builder #(
    .PcIds   (PcIds),
    .Sessions(Sessions)
  ) u_builder (
    .clk_i,
    .rst_i,
    .mac_i,
    .ip_i,
    .epoch_i,
    .src_valid_i,
    .src_permitted_i,
    .src_frame_i        (src_frame),
    .src_pay_idx_o,
    .src_pay_word_i     (src_pay_word_i),
    .src_lock_o,
    .src_pop_o,
    .mark_i,
    .mark_valid_o,
    .mark_ready_i,
    .session_o,
    .sending_o,
    .session_port_i     (ports_i[16*session+:16]),
    .session_valid_i,
    .session_sealed_i,
    .open_i,
    .lost_i,
    .resend_start_o,
    .start_sequence_i,
    .rs_sequence_i,
    .copy_frame_we_o,
    .copy_frame_o       (copy_frame_o),
    .copy_we_o,
    .copy_idx_o,
    .copy_word_o,
    .ack_pending_i      (ack_pending_i[sending]),
    .ack_urgent_i       (ack_urgent_i[sending]),
    .ack_value_i        (ack_values_i[16*sending+:16]),
    .ack_taken_o,
    .start_o,
    .start_sealed_o,
    .ready_start_i,
    .m_axis             (frames),
    .cnt_tx_store_o     (cnt_o[0]),
    .cnt_tx_load_o      (cnt_o[1]),
    .cnt_tx_completion_o(cnt_o[2]),
    .cnt_tx_error_o     (cnt_o[3]),
    .cnt_tx_ack_o       (cnt_o[4]),
    .cnt_tx_nack_o      (cnt_o[5]),
    .cnt_tx_void_o      (cnt_o[6]),
    .cnt_tx_resend_o    (cnt_o[7]),
    .cnt_tx_lost_o      (cnt_o[8]),
    .busy_o
  );
endmodule
