// SPDX-License-Identifier: Apache-2.0
// The sequential part of the engine: one operation at a time on one connection.
//
// Operations are verified segments in the order of the scoreboard, commands, segments to send, and
// timers. Each takes five steps: pick; find the connection; read it, and take distances; weigh them; write it
// back, while the next one is picked. Nothing changes a connection before the checksum of what says so has passed.
//
// Latency   : 5 edges from apply_valid_i to place_o; an operation every 4 edges. An alarm as toe_alarm.
// Clock     : clk_i.
// Handshake : apply, place, order, command: valid/ready; at place_ready_i and order_ready_i there is
//             room for two, as one may be under way when the next is picked.
// Drops     : answers to segments without a connection, while an order waits.
// Source    : section 2.3 of the document on parallel protocol processing (sequential core); RFC 9293.
module toe_controller
  import toe_pkg::*;
#(
  parameter int unsigned Conns = 16,
  parameter int unsigned RxBytes = 65536,
  parameter int unsigned Mss = 1460,
  parameter bit Reassembly = 1'b1,
  parameter int unsigned Listeners = 4,
  parameter int unsigned HalfOpen = 8,
  parameter int unsigned FirstRtoUs = 1000000,
  parameter int unsigned MinRtoUs = 200000,
  parameter int unsigned LingerUs = 60000000,
  parameter int unsigned DelayUs = 50,
  parameter int unsigned MaxTries = 12,
  /// Edges between the looks at two connections' timers.
  parameter int unsigned TimerEvery = 64
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  us_t             now_us_i,
  input  logic     [63:0] secret_i,
  input  logic     [31:0] ip_i,
  // Segments.
  input  logic            apply_valid_i,
  output logic            apply_ready_o,
  input  tag_t            apply_tag_i,
  input  logic            apply_good_i,
  input  header_t         record_i,
  output place_t          place_o,
  output logic            place_valid_o,
  input  logic            place_ready_i,
  output order_t          order_o,
  output logic            order_valid_o,
  input  logic            order_ready_i,
  input  command_t        command_i,
  input  logic            command_valid_i,
  output logic            command_ready_o,
  /// What time alone will do first; nothing else happens without a segment or a command.
  output alarm_t          alarm_o,
  output counts_t         counts_o
);
  localparam int unsigned IdW = Conns > 1 ? $clog2(Conns) : 1;
  localparam int unsigned TimerW = $clog2(TimerEvery + 1);

  typedef enum logic [2:0] {
    Pick,
    Find,
    Look,
    Weigh,
    Commit
  } step_e;
  typedef enum logic [1:0] {
    OpSegment,
    OpCommand,
    OpSend,
    OpTimer
  } op_e;

  // ---- Pick ----------------------------------------------------------------------------------------
  step_e step_q;
  op_e op_q, op;
  logic picked, others_q, can_segment, can_command, can_send, good_q;
  tag_t     tag_q;
  command_t command_q;
  logic [Conns-1:0] send_q, send_first;
  logic [IdW-1:0] timer_q, last_sent_q, send_id;
  logic     [TimerW-1:0] timer_wait_q;
  logic                  can_time;
  conn_id_t              id_q;

  assign can_segment = apply_valid_i && place_ready_i;
  assign can_command = command_valid_i && place_ready_i && order_ready_i;
  assign can_send    = |send_q && order_ready_i;
  assign can_time    = timer_wait_q == '0;
  always_comb begin
    // Round robin: those behind the last one first.
    send_first = '0;
    send_id    = '0;
    for (int unsigned i = 0; i < Conns; i++) begin
      send_first[i] = send_q[i] && IdW'(i) > last_sent_q;
    end
    for (int unsigned i = 0; i < Conns; i++) begin
      if (|send_first ? send_first[Conns-1-i] : send_q[Conns-1-i]) send_id = IdW'(Conns - 1 - i);
    end
    // Segments first, but not twice while another operation waits.
    op = OpTimer;
    picked = (step_q == Pick || step_q == Commit) && place_ready_i &&
        (can_segment || can_command || can_send || can_time);
    if (can_segment && !(others_q && (can_command || can_send))) op = OpSegment;
    else if (can_command) op = OpCommand;
    else if (can_send) op = OpSend;
    else if (can_segment) op = OpSegment;
  end
  assign apply_ready_o   = picked && op == OpSegment;
  assign command_ready_o = picked && op == OpCommand;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      step_q       <= Pick;
      timer_q      <= '0;
      timer_wait_q <= '0;
      others_q     <= 1'b0;
    end else begin
      unique case (step_q)
        Pick: if (picked) step_q <= Find;
        Find: step_q <= Look;
        Look: step_q <= Weigh;
        Weigh: step_q <= Commit;
        default: step_q <= picked ? Find : Pick;
      endcase
      if (picked) others_q <= op == OpSegment;
      if (picked && op == OpTimer) timer_wait_q <= TimerW'(TimerEvery - 1);
      else if (timer_wait_q != '0) timer_wait_q <= timer_wait_q - 1'b1;
      if (picked && op == OpTimer) timer_q <= timer_q == IdW'(Conns - 1) ? '0 : timer_q + 1'b1;
    end
    if (picked) begin
      op_q <= op;
      tag_q <= apply_tag_i;
      good_q <= apply_good_i;
      command_q <= command_i;
      id_q      <= op == OpSend ? conn_id_t'(send_id) :
          op == OpTimer ? conn_id_t'(timer_q) : command_i.conn;
      if (op == OpSend) last_sent_q <= send_id;
    end
  end

  // ---- Find ----------------------------------------------------------------------------------------
  header_t header_q;
  logic mine, hit, listens, free, flooded, connects, live;
  logic [Conns-1:0] open;
  logic mine_q, hit_q, accepts_q, free_q, flooded_q, listens_q;
  conn_id_t found, free_id, id, where_q;
  conn_t conn, conn_d;
  logic write, close, half;

  assign connects = op_q == OpCommand && command_q.kind == Connect;

  toe_lookup #(
    .Conns    (Conns),
    .Listeners(Listeners),
    .HalfOpen (HalfOpen)
  ) u_lookup (
    .clk_i,
    .rst_i,
    .ip_i,
    .src_ip_i     (connects ? command_q.ip : record_i.src_ip),
    .dst_ip_i     (connects ? ip_i : record_i.dst_ip),
    .src_port_i   (connects ? command_q.peer_port : record_i.src_port),
    .dst_port_i   (connects ? command_q.local_port : record_i.dst_port),
    .mine_o       (mine),
    .hit_o        (hit),
    .id_o         (found),
    .listens_o    (listens),
    .free_o       (free),
    .free_id_o    (free_id),
    .flooded_o    (flooded),
    .open_o       (open),
    .write_i      (write),
    .write_id_i   (where_q),
    .write_open_i (!close),
    .write_half_i (half),
    .write_ip_i   (conn_d.ip),
    .write_peer_i (conn_d.peer_port),
    .write_local_i(conn_d.local_port),
    .listen_i     (step_q == Commit && op_q == OpCommand && command_q.kind == Listen),
    .unlisten_i   (step_q == Commit && op_q == OpCommand && command_q.kind == Unlisten),
    .listen_port_i(command_q.local_port)
  );

  always_comb begin
    id = id_q;
    if (op_q == OpSegment) id = hit ? found : free_id;
    else if (connects) id = free_id;
  end

  always_ff @(posedge clk_i) begin
    if (step_q == Find) begin
      header_q <= record_i;
      mine_q <= mine && record_i.tcp;
      hit_q <= hit;
      listens_q <= listens;
      free_q <= free;
      flooded_q <= flooded;
      // A plain SYN to a port that listens.
      accepts_q <= !hit && listens && free && !flooded && record_i.flags.syn &&
          !record_i.flags.ack && !record_i.flags.rst;
      where_q <= id;
    end
  end

  ram_1r1w #(
    .data_t  (conn_t),
    .Depth   (Conns),
    .InitZero(1'b0)
  ) u_conns (
    .clk_i,
    .we_i   (write),
    .waddr_i(where_q[IdW-1:0]),
    .wdata_i(conn_d),
    .re_i   (step_q == Find),
    .raddr_i(id[IdW-1:0]),
    .rdata_o(conn)
  );

  // ---- What each operation would do ------------------------------------------------------------------
  conn_t seg_conn, cmd_conn, snd_conn, tmr_conn;
  want_t seg_want, cmd_want, snd_want, tmr_want, want_now;
  want_t [Conns-1:0] want_q;
  logic seg_send, seg_opened, seg_reset, seg_changed, cmd_send, cmd_changed;
  logic snd_valid, snd_more, tmr_send, tmr_reset, tmr_changed;
  logic cnt_paws, cnt_challenge, cnt_no_gap, cnt_timeout;
  logic [31:0] skip, place_bytes;
  order_t snd_order;
  seq_t   isn;
  logic segment, accept, usable;

  assign segment = op_q == OpSegment && good_q && mine_q;
  assign accept  = segment && accepts_q;
  assign usable  = segment && hit_q;

  toe_segment #(
    .RxBytes   (RxBytes),
    .Reassembly(Reassembly),
    .MinRtoUs  (MinRtoUs),
    .LingerUs  (LingerUs)
  ) u_segment (
    .clk_i,
    .now_i          (now_us_i),
    .conn_i         (conn),
    .header_i       (header_q),
    .conn_o         (seg_conn),
    .want_o         (seg_want),
    .send_o         (seg_send),
    .opened_o       (seg_opened),
    .reset_o        (seg_reset),
    .changed_o      (seg_changed),
    .skip_o         (skip),
    .bytes_o        (place_bytes),
    .cnt_paws_o     (cnt_paws),
    .cnt_challenge_o(cnt_challenge),
    .cnt_no_gap_o   (cnt_no_gap)
  );

  toe_isn u_isn (
    .clk_i,
    .now_i(now_us_i),
    .secret_i,
    .ip_i(connects ? command_q.ip : record_i.src_ip),
    .ports_i (connects ? {command_q.peer_port, command_q.local_port} :
             {record_i.src_port, record_i.dst_port}),
    .isn_o(isn)
  );

  toe_command #(
    .RxBytes   (RxBytes),
    .Mss       (Mss),
    .FirstRtoUs(FirstRtoUs)
  ) u_command (
    .now_i    (now_us_i),
    .accept_i (op_q == OpSegment),
    .header_i (header_q),
    .command_i(command_q),
    .isn_i    (isn),
    .conn_i   (conn),
    .conn_o   (cmd_conn),
    .want_o   (cmd_want),
    .send_o   (cmd_send),
    .changed_o(cmd_changed)
  );

  assign want_now = want_q[where_q[IdW-1:0]];
  toe_transmit #(
    .RxBytes(RxBytes),
    .Mss    (Mss)
  ) u_transmit (
    .clk_i,
    .now_i  (now_us_i),
    .id_i   (where_q),
    .conn_i (conn),
    .want_i (want_now),
    .conn_o (snd_conn),
    .order_o(snd_order),
    .valid_o(snd_valid),
    .more_o (snd_more),
    .want_o (snd_want)
  );

  toe_timer #(
    .DelayUs (DelayUs),
    .MaxTries(MaxTries)
  ) u_timer (
    .now_i        (now_us_i),
    .conn_i       (conn),
    .conn_o       (tmr_conn),
    .want_o       (tmr_want),
    .send_o       (tmr_send),
    .reset_o      (tmr_reset),
    .changed_o    (tmr_changed),
    .cnt_timeout_o(cnt_timeout)
  );

  // ---- Commit --------------------------------------------------------------------------------------
  logic commit, known, answer, begins, send_now;
  want_t  want;
  event_t told;
  logic   tell;

  assign commit = step_q == Commit;
  // What the RAM holds of a connection that is not open is old.
  assign live = open[where_q[IdW-1:0]];
  // Commands name connections; those that were never opened are closed.
  assign known  = op_q == OpCommand && command_q.kind != Listen && command_q.kind != Unlisten &&
      (connects ? free_q && !hit_q : live && 32'(command_q.conn) < Conns);
  assign begins = accept || (known && connects);

  always_comb begin
    conn_d   = conn;
    want     = '0;
    send_now = 1'b0;
    write    = 1'b0;
    tell     = 1'b0;
    told     = '0;
    unique case (op_q)
      OpSegment: begin
        write = commit && (usable || accept);
        if (accept) begin
          conn_d   = cmd_conn;
          want     = cmd_want;
          send_now = cmd_send;
        end else if (usable) begin
          conn_d      = seg_conn;
          want        = seg_want;
          send_now    = seg_send;
          tell        = seg_changed;
          told.opened = seg_opened;
          told.reset  = seg_reset;
        end
      end
      OpCommand: begin
        conn_d   = cmd_conn;
        want     = cmd_want;
        send_now = cmd_send;
        write    = commit && known;
        tell     = known && cmd_changed;
      end
      OpSend: begin
        conn_d = snd_conn;
        write  = commit;
      end
      default: begin
        conn_d     = tmr_conn;
        want       = tmr_want;
        send_now   = tmr_send;
        write      = commit && live;
        tell       = live && tmr_changed;
        told.reset = tmr_reset;
      end
    endcase
    told.conn       = where_q;
    told.state      = conn_d.state;
    told.rcv_nxt    = conn_d.rcv_nxt;
    told.snd_una    = conn_d.snd_una;
    told.rcv_read   = conn_d.rcv_read;
    told.local_port = conn_d.local_port;
    told.peer_port  = conn_d.peer_port;
    told.peer_ip    = conn_d.ip;
  end
  assign close = conn_d.state == Closed;
  assign half  = conn_d.state == SynReceived && conn_d.passive;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      send_q <= '0;
    end else if (write) begin
      if (close) send_q[where_q[IdW-1:0]] <= 1'b0;
      else if (op_q == OpSend) send_q[where_q[IdW-1:0]] <= snd_more;
      else if (send_now || want.ack || want.resend || want.probe) begin
        send_q[where_q[IdW-1:0]] <= 1'b1;
      end
    end
    if (write) begin
      if (close || begins) want_q[where_q[IdW-1:0]] <= close ? '0 : want;
      else if (op_q == OpSend) want_q[where_q[IdW-1:0]] <= snd_want;
      else want_q[where_q[IdW-1:0]] <= want_now | want;
    end
  end

  toe_alarm #(
    .Conns  (Conns),
    .DelayUs(DelayUs)
  ) u_alarm (
    .clk_i,
    .rst_i,
    .write_i(write),
    .id_i   (where_q),
    .conn_i (conn_d),
    .alarm_o
  );

  // Every segment ends in the placer, for its slot; of other operations only what is to be told.
  always_comb begin
    place_o        = '0;
    place_o.slot   = op_q == OpSegment;
    place_o.tag    = tag_q;
    place_o.addr   = header_q.addr;
    place_o.offset = header_q.offset + skip[14:0];
    place_o.bytes  = usable ? place_bytes[14:0] : '0;
    place_o.seq    = header_q.seq + skip;
    place_o.tell   = tell;
    place_o.event_ = told;
  end
  assign place_valid_o = commit && (op_q == OpSegment || tell);

  // A segment without a connection, or one that its connection refuses, is answered by a reset that
  // looks as if it had been expected (RFC 9293 section 3.10.7.1).
  assign answer = segment && !accept && !header_q.flags.rst &&
      (hit_q ? seg_want.reset : !(listens_q && header_q.flags.syn && !header_q.flags.ack));
  always_comb begin
    order_o       = snd_order;
    order_valid_o = commit && op_q == OpSend && snd_valid;
    if (op_q == OpSegment) begin
      order_o = '0;
      order_o.mac = header_q.src_mac;
      order_o.ip = header_q.src_ip;
      order_o.peer_port = header_q.src_port;
      order_o.local_port = header_q.dst_port;
      order_o.flags.rst = 1'b1;
      order_o.flags.ack = !header_q.flags.ack;
      order_o.seq = header_q.flags.ack ? header_q.ack : '0;
      order_o.ack        = header_q.flags.ack ? '0 : header_q.seq + 32'(header_q.bytes) +
          32'(header_q.flags.syn) + 32'(header_q.flags.fin);
      order_valid_o = commit && answer && order_ready_i;
    end else if (op_q == OpCommand) begin
      order_o            = '0;
      order_o.mac        = conn.mac;
      order_o.ip         = conn.ip;
      order_o.peer_port  = conn.peer_port;
      order_o.local_port = conn.local_port;
      order_o.seq        = conn.snd_max;
      order_o.ack        = conn.rcv_nxt;
      order_o.flags.rst  = 1'b1;
      order_o.flags.ack  = 1'b1;
      order_valid_o      = commit && known && cmd_want.reset;
    end
  end

  always_comb begin
    counts_o = '0;
    counts_o.bad = commit && op_q == OpSegment && !good_q;
    counts_o.foreign = commit && op_q == OpSegment && good_q && !mine_q;
    counts_o.orphan = commit && segment && !hit_q && !accept;
    counts_o.flooded = counts_o.orphan && listens_q && flooded_q && header_q.flags.syn;
    counts_o.paws = commit && usable && cnt_paws;
    counts_o.challenge = commit && usable && cnt_challenge;
    counts_o.no_gap = commit && usable && cnt_no_gap;
    counts_o.timeout = commit && op_q == OpTimer && live && cnt_timeout;
    counts_o.refused   = commit && op_q == OpCommand && !known && command_q.kind != Listen &&
        command_q.kind != Unlisten;
  end

  // Numbers of connections are wider than the smallest build needs.
  logic unused;
  assign unused = ^{where_q, id, skip, place_bytes, header_q};
endmodule
