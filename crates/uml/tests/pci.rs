// SPDX-License-Identifier: Apache-2.0
//! A PCI device, with a driver of its own in the guest (`linux/probe`): configuration space, BAR, DMA, interrupts.

use std::collections::VecDeque;
use std::fs;

mod common;

use common::Directory;
use uml::{DeviceSpec, Error, Guest, GuestEvent, Next, PciSpec, Timed};

/// How long the device takes for anything.
const ANSWER_NS: u64 = 700;

// Registers, as linux/probe/probe.c has them.
const COMMAND: u64 = 0x00;
const DMA: u64 = 0x08;
const MESSAGE: u64 = 0x10;
const MESSAGE_DATA: u64 = 0x18;
const BURST: u64 = 0x100;

fn device(msi_vectors: u8) -> PciSpec {
    PciSpec {
        vendor: 0x1f3d,
        device: if msi_vectors > 1 { 0x00fe } else { 0x00ff },
        subsystem: 0x0102,
        class: 0xff_0003,
        bars: [8 << 20, 0, 16 << 20, 0, 4096, 0],
        msi_vectors,
        clock: Some((0, 0x28)),
        posted_before_interrupt: 64,
    }
}

/// What happened, and what the driver said.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    events: Vec<Timed>,
    said: Vec<String>,
    out: String,
    /// Bus address of the driver's memory.
    dma: u64,
    /// Address and data of vector 0, as the driver told the device.
    message: (u64, u32),
}

/// The device: it answers a read, and acts on a command, a while after it was asked.
struct Run {
    directory: Directory,
    guest: Guest,
    asked: VecDeque<Timed>,
    outcome: Outcome,
}

impl Run {
    fn new(spec: PciSpec, parameters: &str) -> Run {
        let module = uml::kernel()
            .unwrap_or_else(|error| panic!("{error}"))
            .with_file_name("probe.ko");
        assert!(
            module.is_file(),
            "{} is missing: build it with tools/uml-kernel",
            module.display()
        );
        let directory = Directory::new();
        fs::create_dir_all(directory.of("pci")).unwrap();
        fs::copy(module, directory.of("pci").join("probe.ko")).unwrap();
        // finit_module(2), for hosts without insmod.
        let commands = format!(
            "perl -e 'open(F, \"<\", shift) or die $!; my $with = shift;
syscall(313, fileno(F), $with, 0) == 0 or die $!' /run/own/probe.ko '{parameters}' &&
cd /sys/bus/pci/devices/0000:00:00.0 && od -An -v -tx1 -N64 config && cat resource class"
        );
        let guest = directory.guest("pci", &commands, vec![DeviceSpec::Pci(spec)]);
        let outcome = Outcome {
            events: vec![],
            said: vec![],
            out: String::new(),
            dma: 0,
            message: (0, 0),
        };
        Run {
            directory,
            guest,
            asked: VecDeque::new(),
            outcome,
        }
    }

    /// Until the guest has ended.
    fn finish(&mut self) -> Result<(), Error> {
        let mut events = Vec::new();
        loop {
            let due = self.asked.front().map(|timed| timed.ns + ANSWER_NS);
            match (self.guest.next(), due) {
                (Next::Exited(_), _) | (Next::Never, None) => return Ok(()),
                (Next::At(now), due) if due.is_none_or(|due| now < due) => {
                    let limit = due.unwrap_or(u64::MAX).min(now + 1_000_000);
                    self.guest.run(now, limit, ANSWER_NS, &mut events)?;
                    self.asked.extend(events.iter().cloned());
                    self.outcome.events.append(&mut events);
                }
                _ => {
                    let timed = self.asked.pop_front().expect("something is due");
                    self.act(timed.ns + ANSWER_NS, &timed.event)?;
                }
            }
        }
    }

    fn act(&mut self, now: u64, event: &GuestEvent) -> Result<(), Error> {
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        match event {
            GuestEvent::MmioRead { tag, length, .. } => {
                let answer: Vec<u8> = (b'A'..).take(*length as usize).collect();
                assert!(
                    self.guest.complete_read(now, *tag, &answer[1..]).is_err(),
                    "too short"
                );
                self.guest.complete_read(now, *tag, &answer)
            }
            GuestEvent::MmioWrite { offset, bytes, .. } => {
                match *offset {
                    DMA => self.outcome.dma = word(bytes),
                    MESSAGE => self.outcome.message.0 = word(bytes),
                    MESSAGE_DATA => self.outcome.message.1 = u32::try_from(word(bytes)).unwrap(),
                    COMMAND => return self.command(now, bytes[0] - 1),
                    _ => {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds to a word of the driver's memory, and interrupts.
    fn command(&mut self, now: u64, vector: u8) -> Result<(), Error> {
        let at = self.outcome.dma + 4 * u64::from(vector);
        let mut word = [0; 4];
        self.guest.read_memory(at, &mut word)?;
        let word = u32::from_le_bytes(word) + 0x1111_1111 * (1 + u32::from(vector));
        self.guest.write_memory(at, &word.to_le_bytes())?;
        // A device that writes the message itself is recognised by it.
        let (address, data) = self.outcome.message;
        assert_eq!(self.guest.msi_vector(0, address, data ^ 0x8000), None);
        if let Some(own) = self.guest.msi_vector(0, address, data) {
            assert_eq!(own, 0);
        }
        self.guest.interrupt(now, 0, vector)
    }
}

fn outcome(spec: PciSpec) -> Outcome {
    let mut run = Run::new(spec, "");
    run.finish().unwrap_or_else(|error| panic!("{error}"));
    let console = run.directory.console("pci");
    assert_eq!(run.guest.next(), Next::Exited(0), "{console}");
    let mut outcome = run.outcome;
    outcome.out = run.directory.out("pci");
    outcome.said = console
        .lines()
        .filter_map(|line| Some(line.split_once("0: probe: ")?.1.into()))
        .collect();
    assert_eq!(
        run.directory.status("pci"),
        Some(0),
        "{console}\n{}",
        outcome.out
    );
    outcome
}

/// The BAR writes of an outcome: offset and bytes.
fn writes(outcome: &Outcome) -> Vec<(u64, &[u8])> {
    let writes = outcome
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            GuestEvent::MmioWrite {
                device: 0,
                bar: 0,
                offset,
                bytes,
            } => Some((*offset, bytes.as_slice())),
            _ => None,
        });
    writes.collect()
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_driver_finds_its_device_and_uses_it() {
    let first = outcome(device(2));
    // Configuration space: identity, bus master and memory enabled, BARs (5 is the MSI-X table's), subsystem, capability.
    let mut lines = first.out.lines();
    for expected in [
        " 3d 1f fe 00 06 04 10 00 00 03 00 ff 00 40 00 00",
        " 00 00 00 f1 00 00 00 00 00 00 00 f0 00 00 00 00",
        " 00 00 80 f1 00 10 80 f1 00 00 00 00 3d 1f 02 01",
        " 00 00 00 00 40 00 00 00 00 00 00 00 40 01 00 00",
        "0x00000000f1000000 0x00000000f17fffff 0x0000000000040200",
        "0x0000000000000000 0x0000000000000000 0x0000000000000000",
        "0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200",
    ] {
        // The cache line's size is the host's.
        let line = lines.next().unwrap();
        assert_eq!(
            (&line[..36], &line[39..]),
            (&expected[..36], &expected[39..]),
            "{}",
            first.out
        );
    }
    let said: Vec<&str> = first.said.iter().map(String::as_str).skip(1).collect();
    assert_eq!(
        said,
        [
            "read 44434241 in 1000 ns", // 700, and the kernel looks every microsecond
            "burst read ABCDEFGHIJKLMNOPQRSTUVWX",
            "interrupt 0 after 700 ns, memory 11111111",
            "interrupt 1 after 700 ns, memory 22222222",
            "while masked nothing",
            "came when unmasked",
            "2 vectors, 0",
        ]
    );
    assert!(first.events.iter().any(|timed| timed.event
        == GuestEvent::BusMaster {
            device: 0,
            on: true
        }));
    let writes = writes(&first);
    let burst = writes
        .iter()
        .filter(|(offset, _)| *offset == BURST)
        .collect::<Vec<_>>();
    assert_eq!(burst.len(), 1, "a memcpy_toio is one write");
    assert_eq!(
        (burst[0].1.len(), &burst[0].1[..20]),
        (100, &b"a burst of a hundred"[..])
    );
    assert!(writes.contains(&(BURST + 200, &[0x5a])));
    let many: Vec<u32> = writes
        .iter()
        .filter(|(offset, _)| *offset == BURST + 256)
        .map(|(_, bytes)| u32::from_le_bytes((*bytes).try_into().unwrap()))
        .collect();
    assert_eq!(many, (0..600).collect::<Vec<_>>());
    assert!(first.events.is_sorted_by_key(|timed| timed.ns));
    assert_eq!(outcome(device(2)), first, "a second run differs");
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn one_vector_is_msi() {
    let outcome = outcome(device(1));
    assert_eq!(
        outcome.said[3..],
        ["interrupt 0 after 700 ns, memory 11111111", "1 vectors, 0"]
    );
    assert!(outcome.message.0 != 0);
}

/// What the kernel would lose without a word, or garble, is an error that says what to do.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn misuse_of_a_device_is_told() {
    for (misuse, what) in [
        (1, "The driver must let time pass (ndelay)"),
        (2, "use memcpy_toio"),
    ] {
        let mut run = Run::new(device(2), &format!("misuse={misuse}"));
        let error = run.finish().unwrap_err().to_string();
        assert!(
            error.starts_with("guest pci at ") && error.contains(what),
            "{error}"
        );
    }
}

#[test]
fn impossible_devices_are_refused() {
    let refused = |spec: PciSpec| {
        let directory = Directory::new();
        // It is refused before a kernel is looked for.
        let spec = directory.spec(
            "pci",
            "/nonexistent/linux".into(),
            "",
            vec![DeviceSpec::Pci(spec)],
        );
        Guest::start(spec).err().unwrap().to_string()
    };
    let large = refused(PciSpec {
        bars: [0, 0, 64 << 20, 0, 0, 0],
        ..device(1)
    });
    assert!(
        large.contains("device 0: BAR 2 has 67108864 bytes") && large.contains("split it"),
        "{large}"
    );
    let full = refused(PciSpec {
        bars: [4096; 6],
        ..device(2)
    });
    assert!(full.contains("no BAR is free"), "{full}");
    let vectors = refused(PciSpec {
        msi_vectors: 33,
        ..device(2)
    });
    assert!(vectors.contains("33 interrupt vectors"), "{vectors}");
}
