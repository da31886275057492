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
use crate::record::{Packet, Point};
use crate::run::Outcome;
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

/// Writes every kept frame and TLP: one interface for the cable at each NIC, one for its PCI Express link.
///
/// TLPs have link type USER0 (147); the project's dissector takes them apart.
pub fn write_pcapng(outcome: &Outcome, path: &Path) -> Result<(), Error> {
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
    for name in &outcome.names {
        interface(format!("{name} cable"), DataLink::ETHERNET)
            .and_then(|_| interface(format!("{name} pcie"), DataLink::USER0))
            .map_err(|error| failed(path, error))?;
    }
    // One order by time over all interfaces, as readers expect it.
    let frames = outcome.record.frames.iter().map(|seen| {
        let bytes = &seen.frame.bytes;
        let end = bytes.len().saturating_sub(FCS_BYTES);
        (seen.frame.first, host_of(seen.from) * 2, &bytes[..end])
    });
    let tlps = outcome.record.tlps.iter().map(|seen| {
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

/// Rows of a host in the timeline.
const ROWS: [&str; 4] = ["CPU", "PCIe", "NIC", "cable"];

/// Writes the kept packets as a Chrome trace, which ui.perfetto.dev opens: a process for each host, a row for each
/// block, and arrows that lead from the store to the program that sees it.
pub fn write_perfetto(outcome: &Outcome, path: &Path) -> Result<(), Error> {
    let mut events = Vec::new();
    for (host, name) in outcome.names.iter().enumerate() {
        events
            .push(json!({"ph": "M", "pid": host, "name": "process_name", "args": {"name": name}}));
        for (row, title) in ROWS.iter().enumerate() {
            events.push(
                json!({"ph": "M", "pid": host, "tid": row, "name": "thread_name",
                "args": {"name": title}}),
            );
        }
    }
    for packet in &outcome.record.packets {
        trace_packet(packet, &mut events);
    }
    let text = json!({"displayTimeUnit": "ns", "traceEvents": events}).to_string();
    std::fs::write(path, text).map_err(|error| failed(path, error))
}

fn microseconds(time: Picoseconds) -> f64 {
    time.0 as f64 / 1e6
}

fn trace_packet(packet: &Packet, events: &mut Vec<serde_json::Value>) {
    let (from, to) = (host_of(packet.from), host_of(packet.to));
    let at = |point: Point| packet.at[point as usize];
    let spans = [
        (from, 0, "store", Point::Issued, Point::Left),
        (from, 1, "TLP down", Point::Left, Point::TlpIn),
        (from, 2, "transmit", Point::TlpIn, Point::FirstWordOut),
        (from, 3, "frame", Point::FirstWordOut, Point::LastWordIn),
        (to, 2, "receive", Point::LastWordIn, Point::DmaOut),
        (to, 1, "DMA write up", Point::DmaOut, Point::Visible),
        (to, 0, "poll", Point::Visible, Point::Seen),
    ];
    let last = spans.len() - 1;
    for (index, (pid, tid, name, begin, end)) in spans.into_iter().enumerate() {
        let id = packet.id.0;
        let (begin, end) = (at(begin), at(end));
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
