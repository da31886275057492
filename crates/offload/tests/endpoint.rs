// SPDX-License-Identifier: Apache-2.0
//! The connection behind the engine, segment by segment: RFC 9293 and those that changed it.

mod common;

use common::{ENGINE, OTHER, listening};
use offload::Picoseconds;
use offload::endpoint::{Endpoint, State};
use offload::frame::{self, Header, TcpOptions, flags};

const ISS: u32 = 100;
/// The numbers wrap within the first segment.
const THEIRS: u32 = u32::MAX - 2;
const MSS: u16 = 1000;

struct Wire {
    endpoint: Endpoint,
    now: Picoseconds,
}

impl Wire {
    fn new(window: u32) -> Self {
        Self {
            endpoint: Endpoint::new(listening(window, MSS, ISS)),
            now: Picoseconds::from_us(1),
        }
    }

    fn header(&self, position: u32, set: u8) -> Header {
        Header {
            from: OTHER,
            to: ENGINE,
            seq: THEIRS.wrapping_add(1).wrapping_add(position),
            ack: ISS + 1,
            flags: set,
            window: 1000,
            options: TcpOptions::default(),
        }
    }

    fn answers(&mut self) -> Vec<Header> {
        let packets = std::iter::from_fn(|| self.endpoint.transmit());
        packets
            .map(|packet| frame::parse(&packet).expect("it is TCP").0)
            .collect()
    }

    fn give(&mut self, header: &Header, payload: &[u8]) -> Vec<Header> {
        self.endpoint.segment(self.now, header, payload);
        self.answers()
    }

    fn data(&mut self, position: u32, payload: &[u8]) -> Vec<Header> {
        let header = self.header(position, flags::ACK);
        self.give(&header, payload)
    }

    fn open(mut self, options: TcpOptions) -> (Self, Header) {
        let mut syn = self.header(0, flags::SYN);
        syn.seq = THEIRS;
        syn.options = options;
        let answer = self.give(&syn, &[]).remove(0);
        assert_eq!(answer.flags, flags::SYN | flags::ACK);
        assert_eq!(answer.ack, THEIRS.wrapping_add(1));
        assert!(self.data(0, &[]).is_empty());
        assert_eq!(self.endpoint.state(), State::Established);
        (self, answer)
    }
}

fn sack() -> TcpOptions {
    TcpOptions {
        sack_permitted: true,
        ..TcpOptions::default()
    }
}

/// Position that an acknowledgement names.
fn acked(header: &Header) -> u32 {
    header.ack.wrapping_sub(THEIRS).wrapping_sub(1)
}

#[test]
fn acknowledgements_wait_for_two_segments_or_the_timer() {
    let (mut wire, _) = Wire::new(10_000).open(sack());
    assert!(wire.data(0, &[1; 100]).is_empty());
    let answers = wire.data(100, &[2; 100]);
    assert_eq!(answers.iter().map(acked).collect::<Vec<_>>(), [200]);
    assert!(wire.data(200, &[3; 100]).is_empty());
    wire.now = wire.endpoint.timer();
    wire.endpoint.time_out(wire.now);
    assert_eq!(wire.answers().iter().map(acked).collect::<Vec<_>>(), [300]);
    assert_eq!(wire.endpoint.timer(), Picoseconds::NEVER);
}

#[test]
fn segments_out_of_order_are_kept_and_told_at_once() {
    let (mut wire, _) = Wire::new(10_000).open(sack());
    let first = wire.data(100, &[2; 100]);
    assert_eq!((acked(&first[0]), first[0].options.sack.len()), (0, 1));
    let second = wire.data(300, &[4; 100]);
    let number = |position: u32| THEIRS.wrapping_add(1).wrapping_add(position);
    let blocks = [(300, 400), (100, 200)].map(|(from, to)| (number(from), number(to)));
    assert_eq!(second[0].options.sack, blocks);
    assert_eq!(acked(&wire.data(0, &[1; 100])[0]), 200);
    assert_eq!(acked(&wire.data(200, &[3; 100])[0]), 400);
    let taken = wire.endpoint.take();
    assert_eq!(taken.len(), 400);
    assert!(
        [1, 2, 3, 4]
            .iter()
            .enumerate()
            .all(|(n, b)| taken[n * 100] == *b)
    );
}

#[test]
fn a_reset_within_the_window_is_challenged_and_an_exact_one_is_believed() {
    let (mut wire, _) = Wire::new(10_000).open(sack());
    let near = wire.header(1, flags::RST);
    assert_eq!(wire.give(&near, &[]).len(), 1);
    let far = wire.header(20_000, flags::RST);
    assert!(wire.give(&far, &[]).is_empty());
    assert_eq!(wire.endpoint.state(), State::Established);
    let syn = wire.header(5, flags::SYN);
    assert_eq!(
        wire.give(&syn, &[]).iter().map(acked).collect::<Vec<_>>(),
        [0]
    );
    assert_eq!(wire.endpoint.state(), State::Established);
    let exact = wire.header(0, flags::RST);
    assert!(wire.give(&exact, &[]).is_empty());
    assert_eq!(wire.endpoint.state(), State::Reset);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_brings_nothing_in() {
    let (mut wire, _) = Wire::new(10_000).open(sack());
    for ack in [ISS, ISS + 2, ISS.wrapping_sub(70_000)] {
        let mut header = wire.header(0, flags::ACK);
        header.ack = ack;
        let answers = wire.give(&header, &[1; 10]);
        assert_eq!(answers.iter().map(acked).collect::<Vec<_>>(), [0], "{ack}");
    }
    assert_eq!(wire.endpoint.received(), 0);
}

#[test]
fn a_window_that_is_used_up_closes_and_opens_again() {
    let (mut wire, _) = Wire::new(2_000).open(sack());
    let _ = wire.data(0, &[0; 1000]);
    let answers = wire.data(1000, &[0; 1000]);
    assert_eq!((acked(&answers[0]), answers[0].window), (2000, 0));
    // A probe is answered, and takes nothing.
    let probed = wire.data(2000, &[0; 1]);
    assert_eq!((acked(&probed[0]), probed[0].window), (2000, 0));
    assert_eq!(wire.endpoint.take().len(), 2000);
    let update = wire.answers();
    assert_eq!((acked(&update[0]), update[0].window), (2000, 2000));
}

/// Found by the comparison with the RTL: neither its first nor its last byte is within the window (RFC 9293, 3.10.7.4).
#[test]
fn a_segment_over_all_of_the_window_is_refused() {
    let (mut wire, _) = Wire::new(2_000).open(sack());
    let _ = wire.data(0, &[0; 1500]);
    let answers = wire.data(1000, &[1; 1001]);
    assert_eq!(answers.iter().map(acked).collect::<Vec<_>>(), [1500]);
    let _ = wire.data(1000, &[1; 1000]);
    assert_eq!(wire.endpoint.received(), 2000);
}

/// Found likewise: no payload fits, but what a segment says beside it counts. A FIN has to wait for room.
#[test]
fn a_closed_window_takes_a_reset_with_payload_and_no_fin() {
    let (mut wire, _) = Wire::new(1_000).open(sack());
    let _ = wire.data(0, &[0; 1000]);
    let fin = wire.header(1000, flags::ACK | flags::FIN);
    let answers = wire.give(&fin, &[]);
    assert_eq!(answers.iter().map(acked).collect::<Vec<_>>(), [1000]);
    assert_eq!(wire.endpoint.state(), State::Established);
    let reset = wire.header(1000, flags::RST | flags::ACK);
    assert!(wire.give(&reset, &[1; 10]).is_empty());
    assert_eq!(wire.endpoint.state(), State::Reset);
}

/// The window moves with the reader, told or not; the fuzz cannot compare that.
#[test]
fn bytes_beyond_what_was_told_are_taken_as_far_as_there_is_room() {
    let (mut wire, _) = Wire::new(2_000).open(sack());
    let _ = wire.data(0, &[0; 300]);
    let told = wire.data(300, &[0; 300]).remove(0);
    assert_eq!((acked(&told), told.window), (600, 1400));
    assert_eq!(wire.endpoint.take().len(), 600);
    assert!(wire.answers().is_empty());
    // Told are 2000, and there is room to 2600.
    let kept = wire.data(1900, &[0; 800]).remove(0);
    let number = |position: u32| THEIRS.wrapping_add(1).wrapping_add(position);
    assert_eq!(kept.options.sack, [(number(1900), number(2600))]);
}

#[test]
fn windows_are_scaled_if_both_ends_scale() {
    let scaled = TcpOptions {
        scale: Some(14),
        ..sack()
    };
    let (mut wire, answer) = Wire::new(1 << 20).open(scaled);
    assert_eq!(answer.options.scale, Some(5));
    assert_eq!(answer.window, 0xFFFF, "a SYN's window is never scaled");
    let behind = wire.data(100, &[0; 10]);
    assert_eq!(behind[0].window, (1 << 20 >> 5) as u16);
    let (mut wire, answer) = Wire::new(1 << 20).open(sack());
    assert_eq!(answer.options.scale, None);
    assert_eq!(wire.data(100, &[0; 10])[0].window, 0xFFFF);
    assert_eq!(acked(&wire.data(70_000, &[0; 10])[0]), 0);
    assert_eq!(
        wire.data(70_000, &[0; 10])[0].options.sack.len(),
        1,
        "beyond what was told"
    );
}

#[test]
fn a_fin_behind_a_gap_counts_when_the_gap_is_filled() {
    let (mut wire, _) = Wire::new(10_000).open(sack());
    let fin = wire.header(100, flags::ACK | flags::FIN);
    assert_eq!(acked(&wire.give(&fin, &[2; 50])[0]), 0);
    let answers = wire.data(0, &[1; 100]);
    assert_eq!(acked(&answers[0]), 151);
    assert!(answers[0].has(flags::FIN));
    assert_eq!(wire.endpoint.state(), State::LastAck);
    let mut last = wire.header(151, flags::ACK);
    last.ack = ISS + 2;
    assert!(wire.give(&last, &[]).is_empty());
    assert_eq!(wire.endpoint.state(), State::Closed);
    // Nobody is there any more.
    assert!(wire.give(&last, &[])[0].has(flags::RST));
}

#[test]
fn a_syn_that_nobody_completes_is_given_up() {
    let mut wire = Wire::new(10_000);
    let syn = wire.header(0, flags::SYN);
    assert_eq!(wire.give(&syn, &[]).len(), 1);
    let mut again = 0;
    while wire.endpoint.state() == State::SynReceived {
        wire.now = wire.endpoint.timer();
        wire.endpoint.time_out(wire.now);
        again += wire.answers().len();
    }
    assert_eq!((wire.endpoint.state(), again), (State::Listen, 7));
    assert!(wire.now < Picoseconds::from_us(300_000_000));
}
