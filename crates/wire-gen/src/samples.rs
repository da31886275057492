// SPDX-License-Identifier: Apache-2.0
//! Frames and TLPs with the values that a reader must find in them, for the tests of the dissector and of the format.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use wire::seal::Sealer;
use wire::{
    Compact, Completion, CompletionStatus, Control, ErrorReport, FMT_MRD64, FMT_MWR64, Frame, Mac,
    MemRequest, Payload, SessionPort, Tlp, TlpHeader, UDP_PORT, byte_enables, seal_ip,
    seal_payload, wire_address,
};

/// SplitMix64: small, seeded, and enough to spread values over fields.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number of `bits` bits.
    fn bits(&mut self, bits: u32) -> u64 {
        self.next() >> (64 - bits)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn flag(&mut self) -> bool {
        self.bits(1) == 1
    }

    fn data(&mut self, dws: u64) -> Vec<u8> {
        (0..4 * dws).map(|_| self.bits(8) as u8).collect()
    }

    fn maybe(&mut self) -> Option<u16> {
        self.flag().then(|| self.bits(16) as u16)
    }

    /// Data lengths: mostly random, often at the ends of what there is.
    fn dws(&mut self) -> u64 {
        match self.below(4) {
            0 => 1,
            1 => 64,
            _ => 1 + self.below(64),
        }
    }
}

/// One packet and what a reader must find in it.
struct Sample {
    name: String,
    bytes: Vec<u8>,
    fields: Vec<(&'static str, Value)>,
    experts: Vec<&'static str>,
    /// Key, salt and plain payload of a sealed frame.
    seal: Option<[Vec<u8>; 3]>,
}

enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Sample {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            bytes: Vec::new(),
            fields: Vec::new(),
            experts: Vec::new(),
            seal: None,
        }
    }

    fn add(&mut self, field: &'static str, value: impl Into<u64>) {
        self.fields.push((field, Value::Number(value.into())));
    }

    fn add_data(&mut self, field: &'static str, data: &[u8]) {
        if !data.is_empty() {
            self.fields.push((field, Value::Bytes(data.to_vec())));
        }
    }

    fn json(&self) -> String {
        let mut out = format!(
            "{{\"name\": \"{}\", \"bytes\": \"{}\", \"fields\": {{",
            self.name,
            hex(&self.bytes)
        );
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let _ = match value {
                Value::Number(number) => write!(out, "{comma}\"{name}\": {number}"),
                Value::Bytes(bytes) => write!(out, "{comma}\"{name}\": \"{}\"", hex(bytes)),
            };
        }
        let experts: Vec<String> = self.experts.iter().map(|x| format!("\"{x}\"")).collect();
        let _ = write!(out, "}}, \"experts\": [{}]", experts.join(", "));
        if let Some(seal) = &self.seal {
            let [key, salt, plain] = seal.each_ref().map(|bytes| hex(bytes));
            let _ = write!(
                out,
                ", \"key\": \"{key}\", \"salt\": \"{salt}\", \"plain\": \"{plain}\""
            );
        }
        out.push('}');
        out
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn pcap(link_type: u32, samples: &[Sample]) -> Vec<u8> {
    let mut out = Vec::new();
    // Version 2.4, time zone and accuracy 0, no packet is cut.
    out.extend_from_slice(&0xA1B2_C3D4_u32.to_le_bytes());
    out.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&65_535_u32.to_le_bytes());
    out.extend_from_slice(&link_type.to_le_bytes());
    for (index, sample) in samples.iter().enumerate() {
        let length = (sample.bytes.len() as u32).to_le_bytes();
        out.extend_from_slice(&(index as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&length);
        out.extend_from_slice(&length);
        out.extend_from_slice(&sample.bytes);
    }
    out
}

/// Fields of a header in the `ipnuma_tlp` protocol.
fn header_fields(sample: &mut Sample, header: &TlpHeader, fmt_type: u8) {
    sample.add("ipnuma_tlp.head.fmt_type", fmt_type);
    match header {
        TlpHeader::MemRead(r) | TlpHeader::MemWrite(r) => {
            sample.add("ipnuma_tlp.head.tc", r.tc);
            sample.add("ipnuma_tlp.head.attr", r.attr);
            sample.add("ipnuma_tlp.head.td", 0_u8);
            sample.add("ipnuma_tlp.head.ep", r.ep);
            sample.add("ipnuma_tlp.head.length", r.length & 0x3FF);
            sample.add("ipnuma_tlp.request.requester_id", r.requester_id);
            sample.add("ipnuma_tlp.request.tag", r.tag);
            sample.add("ipnuma_tlp.request.first_be", r.first_be);
            sample.add("ipnuma_tlp.request.last_be", r.last_be);
        }
        TlpHeader::Completion(c) => {
            sample.add("ipnuma_tlp.head.tc", c.tc);
            sample.add("ipnuma_tlp.head.attr", c.attr);
            sample.add("ipnuma_tlp.head.td", 0_u8);
            sample.add("ipnuma_tlp.head.ep", c.ep);
            sample.add("ipnuma_tlp.head.length", c.length & 0x3FF);
            sample.add("ipnuma_tlp.completion.completer_id", c.completer_id);
            sample.add("ipnuma_tlp.completion.status", c.status.to_bits());
            sample.add("ipnuma_tlp.completion.bcm", 0_u8);
            sample.add("ipnuma_tlp.completion.byte_count", c.byte_count);
            sample.add("ipnuma_tlp.completion.requester_id", c.requester_id);
            sample.add("ipnuma_tlp.completion.tag", c.tag);
            sample.add("ipnuma_tlp.completion.lower_address", c.lower_address);
            if c.status != CompletionStatus::Successful {
                sample.experts.push("ipnuma_tlp.failed");
            }
        }
    }
}

fn compact(random: &mut Random) -> (Sample, Payload, u16) {
    let mut sample = Sample::new("compact");
    let dws = random.dws();
    let (lead, trail) = loop {
        let (lead, trail) = (random.bits(2) as u8, random.bits(2) as u8);
        if byte_enables(dws as u16, lead, trail).0 != 0 {
            break (lead, trail);
        }
    };
    let payload = Compact {
        sequence: random.bits(16) as u16,
        acknowledgement: random.maybe(),
        key: random.bits(12) as u16,
        offset: random.bits(28) as u32 & !3 | u32::from(lead),
        trail,
        data: random.data(dws),
    };
    let tag = random.bits(12) as u16;
    sample.add("ipnuma.compact.format", 0xC_u8);
    sample.add(
        "ipnuma.compact.acknowledged",
        payload.acknowledgement.is_some(),
    );
    sample.add("ipnuma.compact.control", 0_u8);
    sample.add("ipnuma.compact.trail", trail);
    sample.add("ipnuma.compact.sequence", payload.sequence);
    sample.add("ipnuma.compact.key", payload.key);
    sample.add("ipnuma.compact.offset", payload.offset);
    sample.add("ipnuma.length", dws);
    let (first_be, last_be) = byte_enables(dws as u16, lead, trail);
    sample.add("ipnuma.first_be", first_be);
    sample.add("ipnuma.last_be", last_be);
    sample.add_data("ipnuma.data", &payload.data);
    if let Some(acknowledgement) = payload.acknowledgement {
        sample.add("ipnuma.acknowledgement", acknowledgement);
    }
    sample.add("ipnuma.tag", tag);
    (sample, Payload::Compact(payload), tag)
}

fn format_fields(
    sample: &mut Sample,
    kind: u8,
    epoch: u8,
    sequence: Option<u16>,
    ack: Option<u16>,
) {
    sample.add("ipnuma.tlp.magic", wire::TLP_MAGIC);
    sample.add("ipnuma.tlp.kind", kind);
    sample.add("ipnuma.tlp.sequenced", sequence.is_some());
    sample.add("ipnuma.tlp.acknowledged", ack.is_some());
    sample.add("ipnuma.tlp.epoch", epoch);
    sample.add("ipnuma.tlp.sequence", sequence.unwrap_or(0));
    sample.add("ipnuma.tlp.acknowledgement", ack.unwrap_or(0));
}

fn request(random: &mut Random, length: u64, address: u64) -> MemRequest {
    let (first_be, last_be) = if length == 1 {
        (random.bits(4) as u8, 0)
    } else if length == 2 && address & 4 == 0 {
        (1 + random.below(15) as u8, 1 + random.below(15) as u8)
    } else {
        byte_enables(length as u16, random.bits(2) as u8, random.bits(2) as u8)
    };
    MemRequest {
        length: length as u16,
        tag: random.bits(8) as u8,
        first_be,
        last_be,
        address,
        ..MemRequest::default()
    }
}

fn completion(random: &mut Random, length: u64) -> Completion {
    Completion {
        tc: 0,
        attr: 0,
        ep: false,
        length: length as u16,
        completer_id: 0,
        status: match random.below(3) {
            0 => CompletionStatus::Successful,
            1 => CompletionStatus::UnsupportedRequest,
            _ => CompletionStatus::CompleterAbort,
        },
        byte_count: random.bits(12) as u16,
        requester_id: 0,
        tag: random.bits(8) as u8,
        lower_address: random.bits(7) as u8,
    }
}

fn tlp(random: &mut Random) -> (Sample, Payload, u16) {
    let (key, offset) = (random.bits(16) as u16, random.bits(32) as u32 & !3);
    let dws = random.dws();
    let (name, header) = match random.below(4) {
        0 => (
            "tlp MRd",
            TlpHeader::MemRead(request(random, dws, wire_address(key, offset))),
        ),
        1 => (
            "tlp MWr",
            TlpHeader::MemWrite(request(random, dws, wire_address(key, offset))),
        ),
        2 => ("tlp Cpl", TlpHeader::Completion(completion(random, 0))),
        _ => ("tlp CplD", TlpHeader::Completion(completion(random, dws))),
    };
    let mut sample = Sample::new(name);
    let is_request = !matches!(header, TlpHeader::Completion(_));
    let data = random.data(header.data_dws() as u64);
    let payload = Tlp {
        epoch: random.bits(8) as u8,
        sequence: random.maybe(),
        acknowledgement: random.maybe(),
        header,
        data,
    };
    let tag = if is_request {
        random.bits(12) as u16
    } else {
        0
    };
    format_fields(
        &mut sample,
        wire::KIND_TLP,
        payload.epoch,
        payload.sequence,
        payload.acknowledgement,
    );
    header_fields(&mut sample, &header, header.fmt_type_wire());
    if is_request {
        sample.add("ipnuma.address.key", key);
        sample.add("ipnuma.address.offset", offset);
    } else {
        sample.add("ipnuma_tlp.dw3", 0_u8);
    }
    sample.add_data("ipnuma.data", &payload.data);
    sample.add("ipnuma.tag", tag);
    (sample, Payload::Tlp(payload), tag)
}

fn error(random: &mut Random) -> (Sample, Payload, u16) {
    let mut sample = Sample::new("error report");
    let report = ErrorReport {
        epoch: random.bits(8) as u8,
        acknowledgement: random.maybe(),
        code: 1 + random.below(4) as u8,
        fmt_type: if random.flag() { FMT_MWR64 } else { FMT_MRD64 },
        sequence: random.bits(32) as u32,
        length: random.dws() as u16,
        address: wire_address(random.bits(16) as u16, random.bits(32) as u32 & !3),
    };
    format_fields(
        &mut sample,
        wire::KIND_ERROR,
        report.epoch,
        None,
        report.acknowledgement,
    );
    sample.add("ipnuma.error.code", report.code);
    sample.add("ipnuma.error.fmt_type", report.fmt_type);
    sample.add("ipnuma.error.sequence", report.sequence & 0xFFFF);
    sample.add("ipnuma.error.sequence_high", report.sequence >> 16);
    sample.add("ipnuma.error.length", report.length);
    sample.add("ipnuma.error.address", report.address);
    sample.add("ipnuma.tag", 0_u8);
    sample.experts.push("ipnuma.refused");
    (sample, Payload::Error(report), 0)
}

fn control(random: &mut Random) -> (Sample, Payload, u16) {
    let mut sample = Sample::new("control");
    let number = random.bits(32) as u32;
    let interval = random.bits(12) as u16;
    let control = match random.below(3) {
        0 => Control::Acknowledgement {
            expected: number,
            interval,
        },
        1 => Control::Missing {
            expected: number,
            interval,
        },
        _ => Control::Void(number as u16),
    };
    let (code, sequence, expected) = match control {
        Control::Acknowledgement { expected, interval } => (wire::CONTROL_ACK, interval, expected),
        Control::Missing { expected, interval } => (wire::CONTROL_NACK, interval, expected),
        Control::Void(sequence) => (wire::CONTROL_VOID, sequence, 0),
    };
    sample.add("ipnuma.control.format", 0xC_u8);
    sample.add("ipnuma.control.acknowledged", 0_u8);
    sample.add("ipnuma.control.control", 1_u8);
    sample.add("ipnuma.control.code", code);
    sample.add("ipnuma.control.sequence", sequence);
    sample.add("ipnuma.control.expected", expected);
    sample.add("ipnuma.tag", 0_u8);
    (sample, Payload::Control(control), 0)
}

/// The upper half of the frame's sequence number, if it can have one.
fn sequence_high(random: &mut Random, payload: &Payload) -> u16 {
    let sequenced = match payload {
        Payload::Compact(_) | Payload::Control(Control::Void(_)) => true,
        Payload::Tlp(tlp) => {
            tlp.sequence.is_some() && !matches!(tlp.header, TlpHeader::Completion(_))
        }
        _ => false,
    };
    if sequenced { random.bits(16) as u16 } else { 0 }
}

/// Makes a frame one of a session, and sometimes seals it.
fn into_session(random: &mut Random, sample: &mut Sample, frame: &mut Frame, tag: u16) -> u16 {
    let port = SessionPort {
        epoch: random.bits(6) as u8,
        index: random.bits(8) as u8,
    };
    frame.src_port = port.to_port();
    sample.name.push_str(" of a session");
    sample.add("ipnuma.session.epoch", port.epoch);
    sample.add("ipnuma.session.index", port.index);
    let high = sequence_high(random, &frame.payload);
    for (name, value) in &mut sample.fields {
        if *name == "ipnuma.tag" {
            *value = Value::Number(u64::from(tag ^ high));
        }
    }
    high
}

fn seal(random: &mut Random, sample: &mut Sample) -> Result<(), String> {
    let packet = random.bits(48);
    let key: [u8; 16] = std::array::from_fn(|_| random.bits(8) as u8);
    let salt: [u8; 4] = std::array::from_fn(|_| random.bits(8) as u8);
    let phase = random.bits(1) == 1;
    let sealer = Sealer::new(key, salt).in_phase(phase);
    let end = 34 + usize::from(u16::from_be_bytes([sample.bytes[38], sample.bytes[39]]));
    let plain = sample.bytes[wire::PAYLOAD_OFFSET..end].to_vec();
    sample.seal = Some([key.to_vec(), salt.to_vec(), plain]);
    sealer
        .seal_frame(&mut sample.bytes, packet)
        .map_err(|error| format!("{}: {error}", sample.name))?;
    let length = usize::from(u16::from_be_bytes([sample.bytes[38], sample.bytes[39]])) - 8;
    let payload = sample.bytes[wire::PAYLOAD_OFFSET..wire::PAYLOAD_OFFSET + length].to_vec();
    let (data, tag) = payload[wire::SEAL_HEADER_BYTES..].split_at(length - wire::seal::SEAL_BYTES);
    sample.name = format!("sealed {}", sample.name);
    sample.experts.clear();
    sample
        .fields
        .retain(|(name, _)| !name.starts_with("ipnuma") || name.starts_with("ipnuma.session."));
    sample.add("ipnuma.seal.magic", wire::SEAL_MAGIC);
    sample.add("ipnuma.seal.phase", u64::from(phase));
    sample.add("ipnuma.seal.packet_high", packet >> 32);
    sample.add("ipnuma.seal.packet_low", packet & 0xFFFF_FFFF);
    sample.add_data("ipnuma.seal.data", data);
    sample.add_data("ipnuma.seal.tag", tag);
    Ok(())
}

fn frame(random: &mut Random, payload: Payload) -> Frame {
    // Locally administered and not a group address, so that nobody has other ideas about them.
    let mut mac = || Mac::from_u64(0x0200_0000_0000 | random.bits(40));
    let (dst_mac, src_mac) = (mac(), mac());
    Frame {
        dst_mac,
        src_mac,
        src_ip: (0x0A00_0000 | random.bits(24) as u32).into(),
        dst_ip: (0x0A00_0000 | random.bits(24) as u32).into(),
        // An unregistered port, lest another dissector claims it.
        src_port: 20_000 + random.below(10_000) as u16,
        dst_port: UDP_PORT,
        payload,
    }
}

fn finish(mut sample: Sample, frame: &Frame, tag: u16, high: u16) -> Result<Sample, String> {
    sample.bytes = frame
        .emit_sequenced(tag, high)
        .map_err(|error| format!("{}: {error}", sample.name))?;
    sample.add("eth.dst", frame.dst_mac.to_u64());
    sample.add("eth.src", frame.src_mac.to_u64());
    sample.add("ip.src", frame.src_ip.to_bits());
    sample.add("ip.dst", frame.dst_ip.to_bits());
    sample.add("udp.srcport", frame.src_port);
    sample.add("udp.dstport", frame.dst_port);
    Ok(sample)
}

/// Changes a good frame so that a reader must complain, and says about what.
fn spoil(random: &mut Random, sample: &mut Sample, is_compact: bool, is_error: bool) {
    let start = wire::PAYLOAD_OFFSET;
    let length = usize::from(u16::from_be_bytes([sample.bytes[38], sample.bytes[39]])) - 8;
    let end = start + length;
    let spoilt: &'static str = match random.below(4) {
        0 => {
            // A bit of the body; the tag may not stay below 12 bits, so take what certainly does not.
            let end_bytes = if is_compact { 2 } else { 4 };
            sample.bytes[if is_compact { end - end_bytes } else { end - 1 }] ^= 0xF0;
            "ipnuma.bad_end_code"
        }
        1 => {
            sample.bytes[start] ^= 0x30;
            "ipnuma.bad_magic"
        }
        2 if !is_compact && !is_error => {
            sample.bytes[start + 8] ^= 0x01;
            seal_payload(&mut sample.bytes[start..end], 0);
            "ipnuma.bad_tlp"
        }
        _ => {
            // Two bytes more than there should be.
            sample.bytes.truncate(end);
            sample.bytes.extend_from_slice(&[0, 0]);
            sample.bytes[38..40].copy_from_slice(&((length + 10) as u16).to_be_bytes());
            sample.bytes[16..18].copy_from_slice(&((length + 30) as u16).to_be_bytes());
            let padded = sample.bytes.len().max(wire::MIN_FRAME_BYTES);
            sample.bytes.resize(padded, 0);
            seal_ip(&mut sample.bytes);
            seal_payload(&mut sample.bytes[start..end + 2], 0);
            "ipnuma.bad_length"
        }
    };
    sample.name = format!("{} spoilt: {spoilt}", sample.name);
    sample
        .fields
        .retain(|(name, _)| !name.starts_with("ipnuma"));
    sample.experts = vec![spoilt];
}

fn raw_tlp(random: &mut Random) -> Result<Sample, String> {
    let address = if random.flag() {
        random.next()
    } else {
        random.bits(32)
    } & !3;
    let dws = if random.below(8) == 0 {
        1024
    } else {
        random.dws()
    };
    let (name, mut header) = match random.below(4) {
        0 => ("MRd", TlpHeader::MemRead(request(random, dws, address))),
        1 => ("MWr", TlpHeader::MemWrite(request(random, dws, address))),
        2 => ("Cpl", TlpHeader::Completion(completion(random, 0))),
        _ => ("CplD", TlpHeader::Completion(completion(random, dws))),
    };
    match &mut header {
        TlpHeader::MemRead(r) | TlpHeader::MemWrite(r) => {
            (r.tc, r.attr) = (random.bits(3) as u8, random.bits(2) as u8);
            r.ep = random.flag();
            r.requester_id = random.bits(16) as u16;
        }
        TlpHeader::Completion(c) => {
            (c.tc, c.attr) = (random.bits(3) as u8, random.bits(2) as u8);
            (c.completer_id, c.requester_id) = (random.bits(16) as u16, random.bits(16) as u16);
        }
    }
    let mut sample = Sample::new(name);
    let data = random.data(header.data_dws() as u64);
    sample.bytes = header
        .emit(&data)
        .map_err(|error| format!("{name}: {error}"))?;
    header_fields(&mut sample, &header, header.fmt_type());
    if let TlpHeader::MemRead(r) | TlpHeader::MemWrite(r) = header {
        sample.add("ipnuma_tlp.address", address);
        if r.ep {
            sample.experts.push("ipnuma_tlp.poisoned");
        }
    }
    sample.add_data("ipnuma_tlp.data", &data);
    if random.below(8) == 0 {
        sample.bytes.extend_from_slice(&[0; 4]);
        sample.name.push_str(" spoilt: too long");
        sample.fields.retain(|(name, _)| *name != "ipnuma_tlp.data");
        sample.experts.push("ipnuma_tlp.bad_length");
    }
    Ok(sample)
}

/// Writes the samples of `seed` into `dir`.
pub fn write(dir: &Path, seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    let mut frames = Vec::new();
    for index in 0..600 {
        let (mut sample, payload, tag) = match index % 6 {
            0 | 1 => tlp(&mut random),
            2 | 3 => compact(&mut random),
            4 => error(&mut random),
            _ => control(&mut random),
        };
        let is_compact = matches!(payload, Payload::Compact(_));
        let is_error = matches!(payload, Payload::Error(_));
        let is_control = matches!(payload, Payload::Control(_));
        let mut frame = frame(&mut random, payload);
        // Half of the frames are of sessions, a quarter of these sealed; the others may be spoilt.
        let mut high = 0;
        let of_session = random.flag();
        if of_session {
            high = into_session(&mut random, &mut sample, &mut frame, tag);
        } else if is_control {
            sample.experts.push("ipnuma.bad_session");
        }
        let mut sample = finish(sample, &frame, tag, high)?;
        if of_session && random.below(4) == 0 {
            seal(&mut random, &mut sample)?;
        } else if !of_session && !is_control && random.below(3) == 0 {
            spoil(&mut random, &mut sample, is_compact, is_error);
        }
        frames.push(sample);
    }
    let tlps = (0..200)
        .map(|_| raw_tlp(&mut random))
        .collect::<Result<Vec<_>, _>>()?;

    let lines = |samples: &[Sample]| {
        let lines: Vec<String> = samples.iter().map(Sample::json).collect();
        lines.join(",\n")
    };
    let json = format!(
        "{{\"seed\": {seed},\n\"frames\": [\n{}],\n\"tlps\": [\n{}]}}\n",
        lines(&frames),
        lines(&tlps)
    );
    for (name, bytes) in [
        ("frames.pcap", pcap(1, &frames)),
        ("tlps.pcap", pcap(147, &tlps)),
        ("samples.json", json.into_bytes()),
    ] {
        let file = dir.join(name);
        fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}
