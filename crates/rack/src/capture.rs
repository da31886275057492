// SPDX-License-Identifier: Apache-2.0
//! Files about a run: pcapng of every link, and a timeline for Perfetto.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use serde_json::json;

use crate::calendar::ComponentId;
use crate::error::Error;
use crate::model::WIDE_PORTS;
use crate::record::{Packet, Point, Recorder};
use crate::run::{Outcome, SwitchReport};
use crate::time::Picoseconds;

fn failed(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::Output {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

/// Bytes of the FCS, which captures leave out.
const FCS_BYTES: usize = 4;
/// Nanoseconds, as `if_tsresol` has it.
const NANOSECONDS: u8 = 9;

/// Writes every kept frame and TLP: one interface for the cable at each NIC and at each port of a switch, with the
/// frames that are sent there, and one for each PCI Express link.
///
/// TLPs have link type USER0 (147); the project's dissector takes them apart.
pub fn write_pcapng(outcome: &Outcome, path: &Path) -> Result<(), Error> {
    write_pcapng_of(&outcome.names, &outcome.switches, &outcome.record, path)
}

/// As [`write_pcapng`], of a run with these hosts and switches.
pub fn write_pcapng_of(
    hosts: &[String],
    switches: &[SwitchReport],
    record: &Recorder,
    path: &Path,
) -> Result<(), Error> {
    let file = File::create(path).map_err(|error| failed(path, error))?;
    let mut writer =
        PcapNgWriter::new(BufWriter::new(file)).map_err(|error| failed(path, error))?;
    let mut interface = |name: String, linktype: DataLink| {
        let block = InterfaceDescriptionBlock {
            linktype,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        writer.write_pcapng_block(block)
    };
    for name in hosts {
        interface(format!("{name} cable"), DataLink::ETHERNET)
            .and_then(|_| interface(format!("{name} pcie"), DataLink::USER0))
            .map_err(|error| failed(path, error))?;
    }
    for switch in switches {
        for port in 0..PORTS {
            interface(format!("{}:{port} cable", switch.name), DataLink::ETHERNET)
                .map_err(|error| failed(path, error))?;
        }
    }
    // One order by time over all interfaces, as readers expect it.
    let hosts = hosts.len() as u32;
    let frames = record.frames.iter().map(|seen| {
        let bytes = &seen.frame.bytes;
        let end = bytes.len().saturating_sub(FCS_BYTES);
        let interface = match switch_of(seen.from, hosts) {
            None => host_of(seen.from) * 2,
            Some(switch) => 2 * hosts + switch * PORTS as u32 + seen.port as u32,
        };
        (seen.frame.first, interface, &bytes[..end])
    });
    let tlps = record.tlps.iter().map(|seen| {
        (
            seen.beats.0,
            host_of(seen.nic) * 2 + 1,
            seen.bytes.as_slice(),
        )
    });
    let mut all: Vec<_> = frames.chain(tlps).collect();
    all.sort_by_key(|(time, interface, _)| (*time, *interface));
    for (time, interface_id, data) in all {
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(time.0 / 1_000),
            original_len: data.len() as u32,
            data: Cow::Borrowed(data),
            options: Vec::new(),
        };
        writer
            .write_pcapng_block(block)
            .map_err(|error| failed(path, error))?;
    }
    let mut inner = writer.into_inner();
    inner.flush().map_err(|error| failed(path, error))
}

const fn host_of(component: ComponentId) -> u32 {
    component.0 / 2
}

/// Number of the switch that a component is; none for hosts and NICs.
const fn switch_of(component: ComponentId, hosts: u32) -> Option<u32> {
    component.0.checked_sub(2 * hosts)
}

/// Ports of a switch at most.
const PORTS: usize = WIDE_PORTS;
/// Rows of a host in the timeline.
const ROWS: [&str; 4] = ["CPU", "PCIe", "NIC", "cable"];

/// Writes the kept packets as a Chrome trace, which ui.perfetto.dev opens: a process for each host and each switch, a
/// row for each block or input port, and arrows that lead from the store to the program that sees it.
pub fn write_perfetto(outcome: &Outcome, path: &Path) -> Result<(), Error> {
    let mut events = Vec::new();
    let mut process = |name: &String, rows: &[String]| {
        let pid = events.len();
        let head = json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}});
        let rows = rows.iter().enumerate().map(|(row, title)| {
            json!({"ph": "M", "pid": pid, "tid": row, "name": "thread_name",
                "args": {"name": title}})
        });
        events.push(std::iter::once(head).chain(rows).collect::<Vec<_>>());
    };
    for name in &outcome.names {
        process(name, &ROWS.map(str::to_owned));
    }
    let ports: [_; PORTS] = std::array::from_fn(|port| format!("from port {port}"));
    for switch in &outcome.switches {
        process(&switch.name, &ports);
    }
    let mut events = events.concat();
    let hosts = outcome.names.len() as u32;
    for packet in &outcome.record.packets {
        trace_packet(packet, hosts, &mut events);
    }
    let text = json!({"displayTimeUnit": "ns", "traceEvents": events}).to_string();
    std::fs::write(path, text).map_err(|error| failed(path, error))
}

fn microseconds(time: Picoseconds) -> f64 {
    time.0 as f64 / 1e6
}

fn trace_packet(packet: &Packet, hosts: u32, events: &mut Vec<serde_json::Value>) {
    let (from, to) = (host_of(packet.from), host_of(packet.to));
    let at = |point: Point| packet.at[point as usize];
    let mut spans = vec![
        (from, 0, "store", at(Point::Issued), at(Point::Left)),
        (from, 1, "TLP down", at(Point::Left), at(Point::TlpIn)),
        (
            from,
            2,
            "transmit",
            at(Point::TlpIn),
            at(Point::FirstWordOut),
        ),
        (
            from,
            3,
            "frame",
            at(Point::FirstWordOut),
            at(Point::LastWordIn),
        ),
    ];
    for hop in &packet.hops {
        let switch = hosts + switch_of(hop.switch, hosts).expect("a switch made the hop");
        let row = hop.ports.0;
        spans.push((switch, row, "forward", hop.first_in, hop.first_out));
    }
    spans.extend([
        (to, 2, "receive", at(Point::LastWordIn), at(Point::DmaOut)),
        (to, 1, "DMA write up", at(Point::DmaOut), at(Point::Visible)),
        (to, 0, "poll", at(Point::Visible), at(Point::Seen)),
    ]);
    let last = spans.len() - 1;
    for (index, (pid, tid, name, begin, end)) in spans.into_iter().enumerate() {
        let id = packet.id.0;
        events.push(
            json!({"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": "packet",
            "ts": microseconds(begin), "dur": microseconds(end - begin), "args": {"packet": id}}),
        );
        let phase = match index {
            0 => "s",
            _ if index == last => "f",
            _ => "t",
        };
        events.push(
            json!({"ph": phase, "bp": "e", "pid": pid, "tid": tid, "name": "packet",
            "cat": "flow", "id": id, "ts": microseconds(begin)}),
        );
    }
}
