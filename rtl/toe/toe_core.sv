// SPDX-License-Identifier: Apache-2.0
// The TCP offload engine: frames on one side; commands, events and buffers in memory on the other.
//
// Receive buffers: byte n of connection c, by its sequence number, is at byte n modulo RxBytes of c's
// part; send buffers are alike. Who owns the memory is no matter of the engine: it writes what was
// verified and reads what it sends, over ports of any latency.
//
// Latency   : at 8 bytes an edge and a free analyzer, from the last beat of a segment to the first
//             word of its payload on write_*: 13 edges for long ones, 14 for minimum ones; one more if
//             the payload is shifted to a lower byte of a word, up to three if the controller is at
//             another operation.
// Clock     : clk_i.
// Handshake : valid/ready; s_eth and data_i can't wait, events neither.
// Drops     : frames that the network buffer has no room for, and what counts_o says.
// Source    : figure 4 of the document on parallel protocol processing; docs/toe.md.
module toe_core
  import toe_pkg::*;
#(
  parameter policy_e Policy = Epoch,
  parameter int unsigned Slots = 64,
  parameter int unsigned EpochLen = 1,
  parameter int unsigned StallAfter = 32,
  parameter int unsigned Analyzers = 5,
  parameter int unsigned BytesPerCycle = 8,
  parameter int unsigned PaceNum = 1,
  parameter int unsigned PaceDen = 1,
  parameter int unsigned PayloadTicks = 1,
  parameter int unsigned Words = 4096,
  parameter int unsigned Mtu = 1500,
  parameter int unsigned Conns = 16,
  parameter int unsigned RxBytes = 65536,
  parameter int unsigned HalfOpen = 8,
  parameter int unsigned FirstRtoUs = 1000000,
  parameter int unsigned MinRtoUs = 200000,
  parameter int unsigned LingerUs = 60000000,
  parameter int unsigned DelayUs = 50,
  parameter int unsigned MaxTries = 12
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  us_t               now_us_i,
  input  logic       [63:0] secret_i,
  input  logic       [47:0] mac_i,
  input  logic       [31:0] ip_i,
         axis_if.snk        s_eth,
         axis_if.src        m_eth,
  input  command_t          command_i,
  input  logic              command_valid_i,
  output logic              command_ready_o,
  output event_t            event_o,
  output logic              event_valid_o,
  output mem_write_t        write_o,
  output logic              write_valid_o,
  input  logic              write_ready_i,
  output conn_id_t          read_conn_o,
  output logic       [28:0] read_word_o,
  output logic              read_valid_o,
  input  logic              read_ready_i,
  input  logic       [63:0] data_i,
  input  logic              data_valid_i,
  output alarm_t            alarm_o,
  output counts_t           counts_o,
  output logic              cnt_overflow_o
);
  localparam int unsigned Orders = 4;
  localparam int unsigned Mss = Mtu - 40;
  localparam int unsigned MaxFrame = Mtu + 18;
  localparam int unsigned WordW = $clog2(Mss / 8 + 2);

  logic slot_ready, slot_take, header_valid, result_valid, rd_en, free_valid;
  tag_t slot, apply_tag, release_tag;
  header_t header, record;
  result_t result;
  word_t rd_addr, free, slot_addr;
  logic [63:0] rd_data, payload;
  logic apply_valid, apply_ready, apply_good, release_valid, place_valid, place_ready;
  place_t place;
  order_t order, order_out, sheet;
  logic [2:0] orders;
  logic order_valid, order_ready, out_valid, out_ready, sheet_valid, sheet_ready, bank, rd_bank;
  logic [     31:0] sum;
  logic [WordW-1:0] rd_word;

  toe_analysis #(
    .Analyzers    (Analyzers),
    .BytesPerCycle(BytesPerCycle),
    .PaceNum      (PaceNum),
    .PaceDen      (PaceDen),
    .PayloadTicks (PayloadTicks),
    .Words        (Words),
    .MaxFrame     (MaxFrame)
  ) u_analysis (
    .clk_i,
    .rst_i,
    .s_eth,
    .cnt_overflow_o,
    .slot_ready_i  (slot_ready),
    .slot_i        (slot),
    .slot_addr_o   (slot_addr),
    .slot_take_o   (slot_take),
    .header_o      (header),
    .header_valid_o(header_valid),
    .result_o      (result),
    .result_valid_o(result_valid),
    .rd_en_i       (rd_en),
    .rd_addr_i     (rd_addr),
    .rd_data_o     (rd_data),
    .free_valid_i  (free_valid),
    .free_i        (free)
  );

  toe_scoreboard #(
    .Policy    (Policy),
    .Slots     (Slots),
    .EpochLen  (EpochLen),
    .StallAfter(StallAfter)
  ) u_scoreboard (
    .clk_i,
    .rst_i,
    .slot_ready_o   (slot_ready),
    .slot_o         (slot),
    .slot_take_i    (slot_take),
    .slot_addr_i    (slot_addr),
    .record_i       (header),
    .header_valid_i (header_valid),
    .result_i       (result),
    .result_valid_i (result_valid),
    .apply_tag_o    (apply_tag),
    .apply_good_o   (apply_good),
    .apply_valid_o  (apply_valid),
    .apply_ready_i  (apply_ready),
    .record_o       (record),
    .release_valid_i(release_valid),
    .release_tag_i  (release_tag),
    .free_valid_o   (free_valid),
    .free_o         (free)
  );

  toe_controller #(
    .Conns     (Conns),
    .RxBytes   (RxBytes),
    .Mss       (Mss),
    .Reassembly(Policy != Naive),
    .HalfOpen  (HalfOpen),
    .FirstRtoUs(FirstRtoUs),
    .MinRtoUs  (MinRtoUs),
    .LingerUs  (LingerUs),
    .DelayUs   (DelayUs),
    .MaxTries  (MaxTries)
  ) u_controller (
    .clk_i,
    .rst_i,
    .now_us_i,
    .secret_i,
    .ip_i,
    .apply_valid_i(apply_valid),
    .apply_ready_o(apply_ready),
    .apply_tag_i  (apply_tag),
    .apply_good_i (apply_good),
    .record_i     (record),
    .place_o      (place),
    .place_valid_o(place_valid),
    .place_ready_i(place_ready),
    .order_o      (order),
    .order_valid_o(order_valid),
    .order_ready_i(order_ready),
    .command_i,
    .command_valid_i,
    .command_ready_o,
    .alarm_o,
    .counts_o
  );

  toe_placer u_placer (
    .clk_i,
    .rst_i,
    .place_i        (place),
    .place_valid_i  (place_valid),
    .place_ready_o  (place_ready),
    .rd_en_o        (rd_en),
    .rd_addr_o      (rd_addr),
    .rd_data_i      (rd_data),
    .release_valid_o(release_valid),
    .release_tag_o  (release_tag),
    .write_o,
    .write_valid_o,
    .write_ready_i,
    .event_o,
    .event_valid_o
  );

  sync_fifo #(
    .data_t(order_t),
    .Depth (Orders)
  ) u_orders (
    .clk_i,
    .rst_i,
    .wdata_i (order),
    .wvalid_i(order_valid),
    .wready_o(),
    .rdata_o (order_out),
    .rvalid_o(out_valid),
    .rready_i(out_ready),
    .count_o (orders)
  );

  assign order_ready = orders <= 3'(Orders - 2);

  toe_fetch #(
    .Mss(Mss)
  ) u_fetch (
    .clk_i,
    .rst_i,
    .order_i      (order_out),
    .order_valid_i(out_valid),
    .order_ready_o(out_ready),
    .read_conn_o,
    .read_word_o,
    .read_valid_o,
    .read_ready_i,
    .data_i,
    .data_valid_i,
    .sheet_o      (sheet),
    .sum_o        (sum),
    .bank_o       (bank),
    .sheet_valid_o(sheet_valid),
    .sheet_ready_i(sheet_ready),
    .rd_bank_i    (rd_bank),
    .rd_word_i    (rd_word),
    .rd_data_o    (payload)
  );

  toe_emit #(
    .WordW(WordW)
  ) u_emit (
    .clk_i,
    .rst_i,
    .mac_i,
    .ip_i,
    .sheet_i      (sheet),
    .sum_i        (sum),
    .bank_i       (bank),
    .sheet_valid_i(sheet_valid),
    .sheet_ready_o(sheet_ready),
    .rd_bank_o    (rd_bank),
    .rd_word_o    (rd_word),
    .rd_data_i    (payload),
    .m_eth
  );
endmodule
