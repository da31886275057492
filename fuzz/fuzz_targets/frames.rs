// SPDX-License-Identifier: Apache-2.0
//! Frames from the network, through the NIC in software and the reference model below it: nothing outside of what is shared
//! is written, and nothing panics.
#![no_main]

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use ipnuma_fuzz::Script;
use libfuzzer_sys::fuzz_target;
use softnic::{Config, Identity, PeerAddress, Segment, Share, Shared, SoftNic, Transport};
use wire::{EndCode, PAYLOAD_OFFSET, UDP_PORT, seal_ip, seal_payload_with};

const OWN: Identity = Identity {
    mac: 0x0200_0000_0001,
    ip: 0x0A00_0001,
};
const PEER: Identity = Identity {
    mac: 0x0200_0000_0002,
    ip: 0x0A00_0002,
};
/// What is shared of the segment.
const FIRST: usize = 4096 + 64;
const BYTES: usize = 4096;
const SEGMENT: usize = 4 * 4096;
const EPOCH: u8 = 50;

/// A cable on whose other end the fuzzer is.
struct Cable(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Transport for Cable {
    fn identity(&self) -> Identity {
        OWN
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        wire::Frame::parse(frame)
            .map(drop)
            .map_err(io::Error::other)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let next = self.0.lock().expect("nobody panics with it").pop_front();
        let Some(next) = next else { return Ok(false) };
        frame.clear();
        frame.extend_from_slice(&next);
        Ok(true)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fuzz_target!(|data: &[u8]| {
    let mut script = Script::new(data);
    let frames = Arc::new(Mutex::new(VecDeque::new()));
    let config = Config {
        pages: 16,
        regions: 8,
        sessions: 8,
        send_slots: 16,
        ..Config::default()
    };
    let mut nic = SoftNic::new(config, Box::new(Cable(Arc::clone(&frames)))).expect("a small NIC");
    let session = nic.reserve_session().expect("one of seven");
    let peer = PeerAddress {
        identity: PEER,
        session: 5,
        epoch: EPOCH,
        start: u32::MAX - 2,
        compact: true,
        keys: None,
    };
    nic.open_session(session, &peer).expect("reserved");
    let memory = Segment::anonymous(SEGMENT).expect("memory");
    let mut share = Share::writable(FIRST as u32, BYTES as u32);
    share.read = true;
    let shared = nic.share(&memory, &share).expect("one of eight");
    // Something under way, for acknowledgements and completions to meet.
    let window = nic
        .map(session, &Shared { key: 3, tag: 9 }, 0, 4096)
        .expect("one page");
    let _ = nic.store(&window, 8, &[1; 100]);
    let _ = nic.load(&window, 0, 64);
    let own_port = 3 << 14 | u16::from(EPOCH) << 8 | u16::from(session);
    for _ in 0..64 {
        if !script.goes_on() {
            break;
        }
        let frame = frame(&mut script, own_port, &shared);
        let _ = wire::Frame::parse(&frame);
        frames
            .lock()
            .expect("nobody panics with it")
            .push_back(frame);
        nic.poll().expect("frames are no errors");
        while nic.next_event().is_some() {}
    }
    let mut seen = vec![0; SEGMENT];
    memory.read(0, &mut seen);
    let outside = seen[..FIRST].iter().chain(&seen[FIRST + BYTES..]);
    assert!(
        outside.into_iter().all(|&byte| byte == 0),
        "memory that is not shared was written"
    );
});

/// A frame out of the script: noise, or headers that hold around a payload of the script's, with a right end code or not.
fn frame(script: &mut Script<'_>, own_port: u16, shared: &Shared) -> Vec<u8> {
    let how = script.byte();
    let count = usize::from(script.byte()) * if how & 1 == 0 { 1 } else { 4 };
    if how & 0x80 != 0 {
        return script.bytes(count).to_vec();
    }
    let port = match how >> 1 & 3 {
        0 | 1 => own_port,
        2 => UDP_PORT,
        _ => script.short(),
    };
    let tag = if how & 8 != 0 { 0 } else { shared.tag };
    let mut payload = script.bytes(count.max(10)).to_vec();
    payload.resize(payload.len().max(10), 0);
    if how & 0x40 != 0 {
        // The region's key where the compact format has it.
        payload[3] = (shared.key >> 4) as u8;
        payload[4] = (shared.key << 4) as u8 | payload[4] & 0xF;
    }
    if how & 0x10 == 0 {
        seal_payload_with(
            &mut payload,
            EndCode {
                port,
                tag,
                sequence_high: 0,
            },
        );
    }
    let mut frame = vec![0; PAYLOAD_OFFSET];
    frame[..6].copy_from_slice(&OWN.mac.to_be_bytes()[2..]);
    frame[6..12].copy_from_slice(&PEER.mac.to_be_bytes()[2..]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let udp = 8 + payload.len() as u16;
    frame[14..34].copy_from_slice(&[
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1,
    ]);
    frame[16..18].copy_from_slice(&(20 + udp).to_be_bytes());
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..38].copy_from_slice(&UDP_PORT.to_be_bytes());
    frame[38..40].copy_from_slice(&udp.to_be_bytes());
    if how & 0x20 != 0 {
        let at = usize::from(script.byte()) % PAYLOAD_OFFSET;
        frame[at] ^= script.byte();
    }
    seal_ip(&mut frame);
    frame.extend_from_slice(&payload);
    frame.resize(frame.len().max(60), 0);
    frame
}
