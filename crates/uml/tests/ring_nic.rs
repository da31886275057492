// SPDX-License-Identifier: Apache-2.0
//! The driver of the descriptor-ring NIC (`linux/ring`) before a device that lies: lengths that no packet has, a device that
//! does not come to rest.

use std::collections::VecDeque;
use std::fs;

mod common;

use common::Directory;
use uml::{DeviceSpec, Error, Guest, GuestEvent, Next, PciSpec, Timed};
use wire::ring;

/// How long the device takes for anything.
const ANSWER_NS: u64 = 700;
const LINK_AND_REST: u32 = 7;
/// Bytes of a buffer, as linux/ring/ring_nic.c has them.
const BUFFER: usize = 1536;
const DONE: u32 = 1 << 31;
/// What the device says that it has received, packet by packet.
const LENGTHS: [u32; 7] = [0, 13, 64, BUFFER as u32 + 1, 0xFFFF, 1514, 0x8000];

struct Run {
    directory: Directory,
    guest: Guest,
    asked: VecDeque<Timed>,
    /// Of the ring that receives.
    base: u64,
    given: bool,
    /// Whether it says that it rests.
    rests: bool,
    /// Bus mastering, each time it was changed.
    master: Vec<bool>,
}

impl Run {
    fn new(commands: &str) -> Run {
        let module = uml::kernel()
            .unwrap_or_else(|error| panic!("{error}"))
            .with_file_name("ring_nic.ko");
        let directory = Directory::new();
        fs::create_dir_all(directory.of("ring")).unwrap();
        fs::copy(module, directory.of("ring").join("ring_nic.ko")).unwrap();
        // finit_module(2), for hosts without insmod.
        let commands = format!(
            "perl -e 'open(F, \"<\", shift) or die $!; my $with = shift;
syscall(313, fileno(F), $with, 0) == 0 or die $!' /run/own/ring_nic.ko mac=02:00:00:00:00:01 && {commands}"
        );
        let device = PciSpec {
            vendor: 0x1f3d,
            device: 2,
            class: 0x02_0000,
            bars: [1 << 16, 0, 0, 0, 0, 0],
            msi_vectors: 1,
            posted_before_interrupt: 64,
            ..PciSpec::default()
        };
        let guest = directory.guest("ring", &commands, vec![DeviceSpec::Pci(device)]);
        Run {
            directory,
            guest,
            asked: VecDeque::new(),
            base: 0,
            given: false,
            rests: true,
            master: Vec::new(),
        }
    }

    /// Until the guest has ended; what it printed.
    fn finish(mut self) -> (String, Vec<bool>) {
        let mut events = Vec::new();
        loop {
            let due = self.asked.front().map(|timed| timed.ns + ANSWER_NS);
            match (self.guest.next(), due) {
                (Next::Exited(_), _) | (Next::Never, None) => break,
                (Next::At(now), due) if due.is_none_or(|due| now < due) => {
                    let limit = due.unwrap_or(u64::MAX).min(now + 1_000_000);
                    let ran = self.guest.run(now, limit, ANSWER_NS, &mut events);
                    ran.unwrap_or_else(|error| panic!("{error}"));
                    self.asked.extend(events.drain(..));
                }
                _ => {
                    let timed = self.asked.pop_front().expect("something is due");
                    let done = self.act(timed.ns + ANSWER_NS, &timed.event);
                    done.unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
        let console = self.directory.console("ring");
        assert_eq!(self.guest.next(), Next::Exited(0), "{console}");
        for bad in ["WARNING", "BUG", "skb_over_panic", "Call Trace"] {
            assert!(!console.contains(bad), "{console}");
        }
        let out = self.directory.out("ring");
        assert_eq!(self.directory.status("ring"), Some(0), "{console}\n{out}");
        (out, self.master)
    }

    fn act(&mut self, now: u64, event: &GuestEvent) -> Result<(), Error> {
        let word = |bytes: &[u8]| {
            let bytes = bytes.iter().rev();
            bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        match event {
            GuestEvent::MmioRead { offset, tag, .. } => {
                let value = match u32::try_from(*offset).expect("a BAR is small") {
                    ring::REG_ID => ring::ID_VALUE,
                    ring::REG_VERSION => 1 << 16,
                    ring::REG_STATUS if self.rests => LINK_AND_REST,
                    ring::REG_STATUS => 1,
                    _ => 0,
                };
                self.guest.complete_read(now, *tag, &value.to_le_bytes())
            }
            GuestEvent::MmioWrite { offset, bytes, .. } => {
                let value = word(bytes);
                match u32::try_from(*offset).expect("a BAR is small") {
                    ring::REG_RX_BASE_LO => self.base = value,
                    ring::REG_RX_BASE_HI => self.base |= value << 32,
                    ring::REG_RX_ARM if !self.given => {
                        self.given = true;
                        return self.receive(now);
                    }
                    // From the first stop on.
                    ring::REG_CONTROL if value == 0 && self.given => self.rests = false,
                    _ => {}
                }
                Ok(())
            }
            GuestEvent::BusMaster { on, .. } => {
                self.master.push(*on);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes a packet of each length, and interrupts.
    fn receive(&mut self, now: u64) -> Result<(), Error> {
        for (entry, bytes) in (0..).zip(LENGTHS) {
            let at = self.base + 16 * entry;
            let mut address = [0; 8];
            self.guest.read_memory(at, &mut address)?;
            let mut packet = [0x5A; 64];
            packet[..14].copy_from_slice(b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x02\x88\xb5");
            let address = u64::from_le_bytes(address);
            self.guest.write_memory(address, &packet)?;
            let status = DONE | bytes;
            self.guest.write_memory(at + 12, &status.to_le_bytes())?;
        }
        self.guest.interrupt(now, 0, 0)
    }
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_device_that_lies_harms_no_guest() {
    let (out, master) = Run::new(
        "cd /sys/class/net/eth0 && ip link set eth0 up && sleep 0.1 && ip link set eth0 down &&
cat statistics/rx_length_errors statistics/rx_packets",
    )
    .finish();
    let sound = LENGTHS
        .iter()
        .filter(|&&bytes| (14..=BUFFER as u32).contains(&bytes))
        .count();
    let bad = LENGTHS.len() - sound;
    assert_eq!(out, format!("{bad}\n{sound}\n"));
    // It does not come to rest, and may not write any longer.
    assert_eq!(master.last(), Some(&false), "{master:?}");
}
