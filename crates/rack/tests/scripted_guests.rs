// SPDX-License-Identifier: Apache-2.0
//! What joins guests to the rack, tested with scripts in the place of kernels and a stand-in for the NIC.

mod common;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::rc::Rc;

use common::StandIn;
use ipnuma_rtl::NetSpeed;
use rack::cpu::Cpu;
use rack::guest::{GuestEvent, GuestPort, Next, POLL_VECTOR, Timed};
use rack::guests::{Starter, UmlOutcome, run_with};
use rack::model::NicModel;
use rack::run::Options;
use rack::{Error, Topology};

/// What reached a guest, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Frame(Vec<u8>),
    Read(u64, Vec<u8>),
    Interrupt(u8),
    Write(u64, Vec<u8>),
}

/// What reached both guests.
type Logs = [Vec<(u64, Got)>; 2];
type Log = Rc<RefCell<Vec<(u64, Got)>>>;

/// A guest that does things at times.
struct Script {
    steps: VecDeque<(u64, GuestEvent)>,
    memory: BTreeMap<u64, u8>,
    now: u64,
    log: Log,
    /// A write to this address is an MSI.
    msi: Option<u64>,
}

impl GuestPort for Script {
    fn run(
        &mut self,
        now: u64,
        free_until: u64,
        lookahead: u64,
        events: &mut Vec<Timed>,
    ) -> Result<Next, String> {
        assert!(free_until >= now, "it is let run into the past");
        let mut until = free_until;
        while let Some((ns, _)) = self.steps.front()
            && *ns <= until
        {
            let (ns, event) = self.steps.pop_front().expect("looked at above");
            until = until.min(ns + lookahead);
            self.now = ns;
            events.push(Timed { ns, event });
        }
        Ok(self.next())
    }

    fn receive(&mut self, now: u64, _: usize, frame: &[u8]) -> Result<bool, String> {
        self.got(now, Got::Frame(frame.to_vec()));
        Ok(true)
    }

    fn complete_read(&mut self, now: u64, tag: u64, bytes: &[u8]) -> Result<(), String> {
        self.got(now, Got::Read(tag, bytes.to_vec()));
        Ok(())
    }

    fn interrupt(&mut self, now: u64, _: usize, vector: u8) -> Result<(), String> {
        self.got(now, Got::Interrupt(vector));
        Ok(())
    }

    fn msi_vector(&self, _: usize, address: u64, _: u32) -> Option<u8> {
        (self.msi == Some(address)).then_some(0)
    }

    fn read_memory(&self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        for (at, byte) in (address..).zip(bytes) {
            *byte = self.memory.get(&at).copied().unwrap_or_default();
        }
        Ok(())
    }

    fn write_memory(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let now = self.now;
        self.got(now, Got::Write(address, bytes.to_vec()));
        self.memory.extend((address..).zip(bytes.iter().copied()));
        Ok(())
    }

    fn next(&self) -> Next {
        match self.steps.front() {
            Some((ns, _)) => Next::At(*ns),
            None => Next::Never,
        }
    }
}

impl Script {
    fn got(&mut self, now: u64, what: Got) {
        assert!(now >= self.now, "something reaches it in the past");
        self.log.borrow_mut().push((now, what));
    }
}

/// Starts scripts.
struct Scripts {
    steps: [Vec<(u64, GuestEvent)>; 2],
    logs: [Log; 2],
    msi: Option<u64>,
}

impl Starter for Scripts {
    fn start(&mut self, _: &Topology, host: usize, _: &Cpu) -> Result<Box<dyn GuestPort>, Error> {
        Ok(Box::new(Script {
            steps: self.steps[host].clone().into(),
            memory: BTreeMap::new(),
            now: 0,
            log: Rc::clone(&self.logs[host]),
            msi: self.msi,
        }))
    }
}

fn topology(nic: &str, rate: &str) -> Topology {
    let text = format!(
        r#"
        platform = "keio-2016"
        seed = 7
        cpu = {{ kernel_send_ns = 1000, kernel_receive_ns = 2000 }}
        [[host]]
        name = "a"
        kind = "uml"
        nic = {{ kind = "{nic}", rate = "{rate}" }}
        command = "true"
        [[host]]
        name = "b"
        kind = "uml"
        nic = {{ kind = "{nic}", rate = "{rate}" }}
        command = "true"
        [[cable]]
        between = ["a", "b"]
        metres = 100
        [program]
        kind = "uml"
        "#
    );
    Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound")
}

fn stand_in(speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
    Ok(Box::new(StandIn::new(speed)))
}

/// Runs two scripts; what reached each.
fn go(
    topology: &Topology,
    steps: [Vec<(u64, GuestEvent)>; 2],
    msi: Option<u64>,
) -> Result<(UmlOutcome, Logs), Error> {
    let mut scripts = Scripts {
        steps,
        logs: Default::default(),
        msi,
    };
    let outcome = run_with(topology, &Options::default(), &stand_in, &mut scripts)?;
    let logs = scripts.logs.map(|log| log.borrow().clone());
    Ok((outcome, logs))
}

fn frame(length: usize) -> GuestEvent {
    GuestEvent::Frame {
        device: 0,
        bytes: (0..length).map(|byte| byte as u8).collect(),
    }
}

fn store(bar: u8, offset: u64, bytes: &[u8]) -> GuestEvent {
    GuestEvent::MmioWrite {
        device: 0,
        bar,
        offset,
        bytes: bytes.to_vec(),
    }
}

const EXIT: GuestEvent = GuestEvent::Exited { status: 0 };
const MASTER: GuestEvent = GuestEvent::BusMaster {
    device: 0,
    on: true,
};

#[test]
fn frames_arrive_when_line_bus_and_core_let_them() {
    for (rate, byte_ps, phy_ns) in [("1g", 8_000, 356), ("10g", 800, 300)] {
        let topology = topology("virtio", rate);
        let steps = || {
            [
                vec![(1_000, frame(1514)), (1_000, frame(100)), (90_000, EXIT)],
                vec![(50_000, frame(60)), (90_000, EXIT)],
            ]
        };
        let (outcome, [a, b]) = go(&topology, steps(), None).expect("it runs");
        assert_eq!(outcome.record.counted.0, 3);
        let (Got::Frame(long), Got::Frame(short)) = (&b[0].1, &b[1].1) else {
            panic!("{b:?} are no frames");
        };
        assert_eq!((b.len(), long.len(), short.len()), (2, 1514, 100));
        assert!(matches!(&a[..], [(_, Got::Frame(bytes))] if bytes.len() == 60));
        // Kernel, bus, line with preamble and FCS, physical layers, 100 m, bus, kernel.
        let bus = 2 * 223;
        let line = (8 + 1514 + 4) * byte_ps / 1_000;
        let least = 1_000 + 1_000 + line + phy_ns + 500 + 2_000;
        let found = b[0].0;
        assert!(
            (least..least + bus + 300).contains(&found),
            "{rate}: {found} ns, and not {least} and the bus"
        );
        // The core of the sender is free for the second a microsecond later, that of the receiver two after the first.
        assert!(b[1].0 >= b[0].0 + 2_000, "{b:?}");
        let (again, logs) = go(&topology, steps(), None).expect("it runs");
        assert_eq!(again.digest(), outcome.digest());
        assert_eq!(logs, [a, b]);
    }
}

#[test]
fn stores_go_by_lines_and_wake_who_waits() {
    let topology = topology("ipnuma", "10g");
    let page = rack::pingpong::REGION;
    let data: Vec<u8> = (0..100).collect();
    let steps = [
        vec![(2_000, store(2, 0x1C, &data)), (50_000, EXIT)],
        vec![
            (10, MASTER),
            (20, store(4, 0, &page.to_le_bytes())),
            // Not this one: it is the page behind.
            (20, store(4, 0, &(page + 4096).to_le_bytes())),
            (50_000, EXIT),
        ],
    ];
    let (outcome, [_, b]) = go(&topology, steps, None).expect("it runs");
    assert_eq!(outcome.guests[0].accesses.cpu_write, 2);
    assert_eq!(outcome.guests[1].accesses.dma_write, 2);
    // The stand-in writes all to the same place.
    let writes: Vec<_> = b
        .iter()
        .filter_map(|(_, got)| match got {
            Got::Write(address, bytes) => Some((*address, bytes.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(
        writes,
        [(page, data[..36].to_vec()), (page, data[36..].to_vec())]
    );
    // Armed once, woken once.
    let woken: Vec<_> = b
        .iter()
        .filter(|(_, got)| *got == Got::Interrupt(POLL_VECTOR))
        .collect();
    assert_eq!(woken.len(), 1, "{b:?}");
    assert!(woken[0].0 > 2_000 + 446);
}

#[test]
fn a_write_to_the_msi_address_is_an_interrupt() {
    let topology = topology("ipnuma", "10g");
    let steps = [
        vec![(2_000, store(2, 0, &[1, 2, 3, 4])), (50_000, EXIT)],
        vec![(10, MASTER), (50_000, EXIT)],
    ];
    let (outcome, [_, b]) = go(&topology, steps, Some(rack::pingpong::REGION)).expect("it runs");
    assert_eq!(outcome.guests[1].report.interrupts, 1);
    assert!(matches!(&b[..], [(_, Got::Interrupt(0))]), "{b:?}");
}

#[test]
fn mistakes_of_drivers_are_sentences() {
    let topology = topology("ipnuma", "10g");
    let far = |steps: Vec<(u64, GuestEvent)>| {
        let steps = [steps, vec![(50_000, EXIT)]];
        let error = go(&topology, steps, None).expect_err("it must not run");
        error.to_string()
    };
    let dma = far(vec![(2_000, store(2, 0, &[0; 4])), (50_000, EXIT)]);
    assert!(
        dma.contains("host b") && dma.contains("pci_set_master"),
        "{dma}"
    );
    let bar = far(vec![(2_000, store(1, 0, &[0; 4]))]);
    assert!(bar.contains("host a") && bar.contains("BAR 1"), "{bar}");
    let poll = far(vec![(2_000, store(4, 4, &[0; 4]))]);
    assert!(poll.contains("offset 0x4 of BAR 4"), "{poll}");
    // It never ends.
    let stuck = far(vec![(2_000, store(4, 8, &[0; 4]))]);
    assert!(stuck.contains("guest a waits for a device"), "{stuck}");
}

#[test]
fn topologies_of_guests_that_are_wrong() {
    let good = r#"
        platform = "keio-2016"
        [[host]]
        name = "a"
        kind = "uml"
        nic = { kind = "virtio", rate = "1g" }
        command = "true"
        [[host]]
        name = "b"
        kind = "uml"
        nic = { kind = "virtio", rate = "1g" }
        [[cable]]
        between = ["a", "b"]
        metres = 1
        [program]
        kind = "uml"
        "#;
    let parse = |text: &str| Topology::parse(text, Path::new("test.toml"));
    parse(good).expect("this one is right");
    for (from, to, sentence) in [
        (
            "name = \"b\"\n        kind = \"uml\"",
            "name = \"b\"",
            "only a guest has another NIC",
        ),
        ("command = \"true\"", "", "no guest has a command"),
        (
            "[program]",
            "[program]\n        until = [\"b\"]",
            "`b` has no command",
        ),
        (
            "[program]",
            "[program]\n        until = [\"c\"]",
            "there is no host `c`",
        ),
        ("name = \"a\"", "name = \"a b\"", "`a b` is no name"),
        (
            "command =",
            "memory_mb = 1\n        command =",
            "1 is no memory",
        ),
        (
            "nic = { kind = \"virtio\"",
            "nic = { merge = true, kind = \"virtio\"",
            "merge are for the IP-NUMA NIC",
        ),
        (
            "kind = \"virtio\"",
            "kind = \"slow\"",
            "no such value: `slow`",
        ),
        (
            "[program]",
            "[[switch]]\n        name = \"s\"\n        rate = \"1g\"\n        latency_ns = { x = 1 }\n        \
             port = [{ number = 0, address = \"10.0.9.1/24\" }]\n        [program]",
            "`x` is no length",
        ),
    ] {
        assert!(good.contains(from), "{from} is not in the topology");
        let error = parse(&good.replacen(from, to, 1))
            .expect_err(sentence)
            .to_string();
        assert!(error.contains(sentence), "{error}");
        println!("{error}");
        assert!(error.contains("test.toml, line "), "{error}");
    }
}
