// SPDX-License-Identifier: Apache-2.0
//! A guest that is the host of a switch in RTL, with scripts in the place of kernels.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use fib::device::{HEADER_BYTES, Header, Record, SELECT, STORE, WINDOW};
use fib::layout::Memory;
use fib::{Fib, NextHop, NextHopId, Port};
use rack::cpu::Cpu;
use rack::guest::{GuestEvent, GuestPort, Next, Timed};
use rack::guests::{Starter, UmlOutcome, run_with};
use rack::run::{Options, rtl};
use rack::timeline::What;
use rack::{Error, Topology};

/// The device behind the network devices of both ports.
const SWITCH: usize = 2;
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PORT_MACS: [[u8; 6]; 2] = [[2, 0, 0, 1, 0, 1], [2, 0, 0, 1, 0, 2]];
/// Settings of ports, docs/fibnic.md.
const PORT_SETTINGS: u8 = 26;

/// What reached a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Frame(usize, Vec<u8>),
    Read(u64, Vec<u8>),
    Link(usize, bool),
}

type Log = Rc<RefCell<Vec<(u64, Got)>>>;

struct Script {
    steps: VecDeque<(u64, GuestEvent)>,
    log: Log,
}

impl GuestPort for Script {
    fn run(
        &mut self,
        _: u64,
        free_until: u64,
        lookahead: u64,
        events: &mut Vec<Timed>,
    ) -> Result<Next, String> {
        let mut until = free_until;
        while let Some((ns, _)) = self.steps.front()
            && *ns <= until
        {
            let (ns, event) = self.steps.pop_front().expect("looked at above");
            until = until.min(ns + lookahead);
            events.push(Timed { ns, event });
        }
        Ok(self.next())
    }

    fn receive(&mut self, now: u64, device: usize, frame: &[u8]) -> Result<bool, String> {
        self.got(now, Got::Frame(device, frame.to_vec()));
        Ok(true)
    }

    fn complete_read(&mut self, now: u64, tag: u64, bytes: &[u8]) -> Result<(), String> {
        self.got(now, Got::Read(tag, bytes.to_vec()));
        Ok(())
    }

    fn interrupt(&mut self, _: u64, _: usize, _: u8) -> Result<(), String> {
        Err("nothing interrupts".to_owned())
    }

    fn set_link(&mut self, now: u64, device: usize, up: bool) -> Result<(), String> {
        self.got(now, Got::Link(device, up));
        Ok(())
    }

    fn msi_vector(&self, _: usize, _: u64, _: u32) -> Option<u8> {
        None
    }

    fn read_memory(&self, _: u64, _: &mut [u8]) -> Result<(), String> {
        Err("nothing reads memory".to_owned())
    }

    fn write_memory(&mut self, _: u64, _: &[u8]) -> Result<(), String> {
        Err("nothing writes memory".to_owned())
    }

    fn next(&self) -> Next {
        match self.steps.front() {
            Some((ns, _)) => Next::At(*ns),
            None => Next::Never,
        }
    }
}

impl Script {
    fn got(&self, now: u64, what: Got) {
        self.log.borrow_mut().push((now, what));
    }
}

struct Scripts(Vec<(Vec<(u64, GuestEvent)>, Log)>);

impl Starter for Scripts {
    fn start(&mut self, _: &Topology, host: usize, _: &Cpu) -> Result<Box<dyn GuestPort>, Error> {
        let (steps, log) = self.0[host].clone();
        let steps = steps.into();
        Ok(Box::new(Script { steps, log }))
    }
}

/// The host of the switch is number 0; host 1 is at port 0, host 2 at port 1.
fn topology(cut: &str) -> Topology {
    let host = |name: &str, subnet: u8| {
        format!(
            "[[host]]\nname = \"{name}\"\nkind = \"uml\"\ncommand = \"true\"\n\
             nic = {{ kind = \"virtio\", rate = \"10g\", ip = \"10.0.{subnet}.1\" }}\n"
        )
    };
    let text = format!(
        r#"platform = "keio-2016"
        cpu = {{ kernel_send_ns = 1000, kernel_receive_ns = 2000 }}
        [[host]]
        name = "r1"
        kind = "uml"
        nic = {{ kind = "host-port", rate = "10g" }}
        command = "true"
        {}{}
        [[switch]]
        name = "s1"
        rate = "10g"
        ports = 2
        control = "r1"
        port = [{{ number = 1, address = "10.0.1.254/24" }}, {{ number = 0, address = "10.0.0.254/24" }}]
        [[cable]]
        between = ["a", "s1:0"]
        metres = 10
        [[cable]]
        between = ["b", "s1:1"]
        metres = 10
        {cut}
        [program]
        kind = "uml"
        "#,
        host("a", 0),
        host("b", 1),
    );
    Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound")
}

const EXIT: GuestEvent = GuestEvent::Exited { status: 0 };

fn store(offset: u64, bytes: &[u8]) -> GuestEvent {
    GuestEvent::MmioWrite {
        device: SWITCH,
        bar: 0,
        offset,
        bytes: bytes.to_vec(),
    }
}

fn load(offset: u64, length: u32, tag: u64) -> GuestEvent {
    GuestEvent::MmioRead {
        device: SWITCH,
        bar: 0,
        offset,
        length,
        tag,
    }
}

fn frame(device: usize, to: [u8; 6], from: [u8; 6], rest: &[u8]) -> GuestEvent {
    let mut bytes = [&to[..], &from, rest].concat();
    bytes.resize(bytes.len().max(60), 0);
    GuestEvent::Frame { device, bytes }
}

/// EtherType and an IPv4 packet from one host to the other.
fn packet() -> Vec<u8> {
    let mut header = vec![
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1,
    ];
    let sum = header
        .chunks_exact(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum::<u32>();
    let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![8, 0];
    packet.extend(header);
    packet.resize(2 + 46, 7);
    packet
}

fn go(topology: &Topology, steps: [Vec<(u64, GuestEvent)>; 3]) -> (UmlOutcome, [Log; 3]) {
    let logs: [Log; 3] = Default::default();
    let scripts = steps.into_iter().zip(logs.clone()).collect();
    let outcome = run_with(topology, &Options::default(), &rtl, &mut Scripts(scripts));
    (outcome.expect("it runs"), logs)
}

#[test]
fn frames_pass_between_ports_and_the_devices_of_the_host() {
    let topology = topology("");
    let (hello, arp) = ([0xFF; 6], [&[8, 6][..], &[1; 40]].concat());
    let steps = [
        vec![
            (1_000, frame(1, HOST_MAC, PORT_MACS[1], &arp)),
            (50_000, EXIT),
        ],
        vec![(2_000, frame(0, hello, HOST_MAC, &arp)), (50_000, EXIT)],
        vec![(50_000, EXIT)],
    ];
    let (outcome, [router, a, b]) = go(&topology, steps);
    let (router, b) = (router.borrow(), b.borrow());
    // By port 0, to the device of port 0; out by the device of port 1, at port 1.
    let [(arrived, Got::Frame(0, bytes))] = &router[..] else {
        panic!("{router:?}");
    };
    assert_eq!(bytes[..6], hello);
    // Kernel, bus, line and switch, bus, kernel.
    let least = 2_000 + 1_000 + 2_000 + 2 * 223;
    assert!((least..least + 2_000).contains(arrived), "{arrived}");
    let [(_, Got::Frame(0, bytes))] = &b[..] else {
        panic!("{b:?}");
    };
    assert_eq!(
        (&bytes[..6], &bytes[6..12]),
        (&HOST_MAC[..], &PORT_MACS[1][..])
    );
    assert!(a.borrow().is_empty());
    let side = outcome.switches[0].host_side;
    assert_eq!((side.received, side.sent, side.written), (1, 1, 0));
    assert_eq!(side.verdicts[2], 1, "to a group MAC address: {side:?}");
}

#[test]
fn what_the_host_writes_the_hardware_forwards_by() {
    let topology = topology("");
    let size = rack::tables::sizes();
    let mut tables = Fib::new(size).expect("the build has tables");
    let hop = NextHop {
        port: Port::Network(1),
        mac: Some([2, 0, 0, 0, 0, 3]),
    };
    let mut ops = tables.set_next_hop(NextHopId(3), hop).unwrap().to_vec();
    let prefix = "10.0.1.0/24".parse().unwrap();
    ops.extend_from_slice(tables.announce4(prefix, NextHopId(3)).unwrap());
    let port = Record {
        memory: PORT_SETTINGS,
        address: 0,
        data: [0x0200_0001_0001, 0, 0],
    };
    let records = std::iter::once(port).chain(ops.iter().map(Record::from));
    let mut script: Vec<_> = (0..)
        .zip(records)
        .map(|(number, record)| (1_000 + 223 * number, store(STORE, &record.to_bytes())))
        .collect();
    let count = script.len() as u64;
    let select = u64::from(3_u32) << 32 | u64::from(Memory::NextHop.id());
    let last = 1_000 + 223 * count;
    script.extend([
        (last, store(SELECT, &select.to_le_bytes())),
        // Behind the words: they are in place.
        (last, load(WINDOW, 32, 1)),
        (last + 3_000, load(0, HEADER_BYTES as u32, 2)),
        (200_000, EXIT),
    ]);
    let rest = packet();
    let before = frame(0, PORT_MACS[0], HOST_MAC, &rest);
    let steps = [
        script,
        vec![(100_000, before), (200_000, EXIT)],
        vec![(200_000, EXIT)],
    ];
    let (outcome, [router, _, b]) = go(&topology, steps);
    let (router, b) = (router.borrow(), b.borrow());
    let [(_, Got::Read(1, word)), (_, Got::Read(2, header))] = &router[..] else {
        panic!("{router:?}");
    };
    let word = Record::from_bytes(word).expect("it is a record");
    assert_eq!(word.data, tables.image().read(Memory::NextHop, 3));
    let header: [u8; HEADER_BYTES] = header[..].try_into().unwrap();
    assert_eq!(Header::from_bytes(&header).unwrap().config(), Some(size));
    // The hardware's own counters, and the frame: no host saw it.
    let [(_, Got::Frame(0, bytes))] = &b[..] else {
        panic!("{b:?}");
    };
    assert_eq!(
        (&bytes[..6], bytes[22]),
        (&[2, 0, 0, 0, 0, 3][..], 63),
        "TTL"
    );
    let switch = &outcome.switches[0];
    assert_eq!(switch.forwarded, [1, 0]);
    assert_eq!(
        (switch.host_side.received, switch.host_side.written),
        (0, count)
    );
    // Stored and taken, each one burst; the bus and a cycle between their ends.
    let bursts = |what: What| {
        let entries = outcome.record.timeline.entries.iter();
        let found: Vec<_> = entries.filter(|entry| entry.what == what).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        *found[0]
    };
    let (stored, taken) = (bursts(What::Stored), bursts(What::Taken));
    assert_eq!((stored.count, taken.count), (count, count));
    let later = (taken.to - stored.to).as_ns();
    assert!((200.0..600.0).contains(&later), "{later} ns");
}

#[test]
fn a_cut_is_a_carrier_that_is_lost_at_the_device_of_its_port() {
    let topology = topology("cut = { at_s = 20e-6, mend_s = 60e-6, carrier_us = 10 }");
    let arp = [&[8, 6][..], &[1; 40]].concat();
    let out = |time| (time, frame(1, HOST_MAC, PORT_MACS[1], &arp));
    let steps = [
        vec![out(5_000), out(40_000), out(80_000), (99_000, EXIT)],
        vec![(99_000, EXIT)],
        vec![(99_000, EXIT)],
    ];
    let (outcome, [router, a, b]) = go(&topology, steps);
    let links: Vec<_> = router.borrow().clone();
    // 10 us until the receiver says so, and the bus.
    let [(lost, Got::Link(1, false)), (back, Got::Link(1, true))] = &links[..] else {
        panic!("{links:?}");
    };
    assert!((30_200..30_300).contains(lost), "{lost}");
    assert!((70_200..70_300).contains(back), "{back}");
    // Host b has two of the three frames; a NIC is told nothing of its cable.
    assert_eq!((a.borrow().len(), b.borrow().len()), (0, 2));
    let carriers: Vec<_> = outcome.record.timeline.entries.iter().collect();
    assert_eq!(carriers.len(), 2);
    let outages = outcome.outages(&topology);
    assert_eq!(outages.len(), 1);
    let carrier = outages[0].switches[0].carrier_ns.expect("it was lost");
    assert!((10_200.0..10_300.0).contains(&carrier), "{carrier}");
}
