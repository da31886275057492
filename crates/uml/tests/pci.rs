// SPDX-License-Identifier: Apache-2.0
//! A PCI device, with a driver of its own in the guest (`linux/probe`): configuration space, BAR, DMA, interrupts.

mod common;

use common::Directory;
use uml::{DeviceSpec, Guest, GuestEvent, Next, PciSpec, Timed};

const READ_TAKES_NS: u64 = 700;
const COMMAND: u64 = 0x00;
const DMA: u64 = 0x08;
const MESSAGE: u64 = 0x10;

fn device(msi_vectors: u8) -> PciSpec {
    PciSpec {
        vendor: 0x1f3d,
        device: if msi_vectors > 1 { 0x00fe } else { 0x00ff },
        subsystem: 0x0102,
        class: 0xff_0003,
        bars: [8 << 20, 0, 16 << 20, 0, 4096, 0],
        msi_vectors,
        clock: Some((0, 0x28)),
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

/// The device: it answers reads, and to a command writes memory and interrupts.
fn run(spec: PciSpec) -> Outcome {
    let module = uml::kernel()
        .unwrap_or_else(|error| panic!("{error}"))
        .with_file_name("probe.ko");
    assert!(
        module.is_file(),
        "{} is missing: build it with tools/uml-kernel",
        module.display()
    );
    let directory = Directory::new();
    std::fs::create_dir_all(directory.of("pci")).unwrap();
    std::fs::copy(module, directory.of("pci").join("probe.ko")).unwrap();
    // Without insmod, which not every host has: finit_module(2).
    let commands = "perl -e 'open(F, \"<\", shift) or die $!; my $none = \"\";
syscall(313, fileno(F), $none, 0) == 0 or die $!' /run/own/probe.ko &&
cd /sys/bus/pci/devices/0000:00:00.0
od -An -v -tx1 -N64 config; cat resource; cat class";
    let mut guest = directory.guest("pci", commands, vec![DeviceSpec::Pci(spec)]);
    let mut outcome = Outcome {
        events: vec![],
        said: vec![],
        out: String::new(),
        dma: 0,
        message: (0, 0),
    };
    let mut due: Vec<(u64, GuestEvent)> = Vec::new();
    let mut events = Vec::new();
    loop {
        let device = due.iter().map(|(time, _)| *time).min().unwrap_or(u64::MAX);
        let Next::At(now) = guest.next() else {
            if device == u64::MAX {
                break;
            }
            let (time, event) = due.remove(0);
            act(&mut guest, &mut outcome, time, &event);
            continue;
        };
        if device <= now {
            let (time, event) = due.remove(0);
            act(&mut guest, &mut outcome, time, &event);
            continue;
        }
        guest
            .run(now, device.min(now + 1_000_000), 500, &mut events)
            .unwrap_or_else(|error| panic!("{error}"));
        for timed in events.drain(..) {
            due.push((timed.ns + READ_TAKES_NS, timed.event.clone()));
            outcome.events.push(timed);
        }
    }
    assert_eq!(
        guest.next(),
        Next::Exited(0),
        "{}",
        directory.console("pci")
    );
    outcome.out = directory.out("pci");
    let console = directory.console("pci");
    outcome.said = console
        .lines()
        .filter_map(|line| Some(line.split_once("probe: ")?.1.into()))
        .collect();
    assert_eq!(
        directory.status("pci"),
        Some(0),
        "{console}\n{}",
        outcome.out
    );
    outcome
}

fn act(guest: &mut Guest, outcome: &mut Outcome, now: u64, event: &GuestEvent) {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    match event {
        GuestEvent::MmioRead { tag, length, .. } => {
            let answer: Vec<u8> = (0..*length).map(|at| b'A' + at as u8).collect();
            guest.complete_read(now, *tag, &answer).unwrap();
        }
        GuestEvent::MmioWrite { offset, bytes, .. } => match *offset {
            DMA => outcome.dma = word(bytes),
            MESSAGE => outcome.message.0 = word(bytes),
            at if at == MESSAGE + 8 => outcome.message.1 = word(bytes) as u32,
            COMMAND => {
                let vector = bytes[0] - 1;
                let mut before = [0; 4];
                let at = outcome.dma + 4 * u64::from(vector);
                guest.read_memory(at, &mut before).unwrap();
                let value = u32::from_le_bytes(before) + 0x1111_1111 * (1 + u32::from(vector));
                guest.write_memory(at, &value.to_le_bytes()).unwrap();
                guest.interrupt(now, 0, vector).unwrap();
            }
            _ => {}
        },
        _ => {}
    }
}

#[test]
fn a_driver_finds_its_device_and_uses_it() {
    let outcome = run(device(2));
    eprintln!(
        "{:#?}",
        (&outcome.said, &outcome.out, outcome.dma, outcome.message)
    );
}
