// SPDX-License-Identifier: Apache-2.0
//! What it costs to send one packet the conventional ways (dissertation, section 3.2.2, figures 3.5 and 3.6): accesses over
//! the bus, and time until the wire.
//!
//! The conventional NIC is `rtl/ring`, and the program here does what a driver has to do for a packet. The NIC with RDMA
//! is its bus only: the bus meter, whose doorbell makes it read the data as such a NIC would.

use std::cell::RefCell;
use std::rc::Rc;

use wire::ring;

use crate::error::Error;
use crate::host::{BAR0, HostApi};
use crate::model::NicModel;
use crate::pcie::LinkKind;
use crate::platform::Platform;
use crate::rack::{HostSetup, Rack};
use crate::record::BusAccesses;
use crate::time::Picoseconds;

/// How a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Figure 3.5, with the model of the descriptor-ring NIC.
    Ring,
    /// Figure 3.6, with the model of the bus meter.
    Rdma,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Packets sent.
    pub packets: u64,
    /// Accesses of all of them.
    pub accesses: BusAccesses,
    /// From the CPU's first access for a packet to the frame's first word at the MAC, each packet; empty for RDMA.
    pub times: Vec<Picoseconds>,
    /// Hash of all that happened.
    pub hash: String,
}

/// Where the ring and the packets lie.
const RING: u64 = 0x1806_A000;
const PACKETS: u64 = 0x1900_0000;
const PACKET_SPACE: u64 = 0x1000;
const RING_LOG2: u32 = 8;
/// Time for a packet to leave, so that each is alone.
const APART: Picoseconds = Picoseconds(20_000_000);
/// Registers of the bus meter.
const METER_CONTROL: u64 = BAR0 + 0x08;
const METER_ADDRESS: u64 = BAR0 + 0x10;
const METER_LENGTH: u64 = BAR0 + 0x18;
const METER_COUNT: u64 = BAR0 + 0x1C;
const METER_DONE: u64 = BAR0 + 0x24;
const METER_READ: u32 = 1;

/// Sends `packets` packets of `bytes` bytes (without FCS), one after the other has left.
pub fn send(
    platform: &Platform,
    link: LinkKind,
    way: Way,
    model: Box<dyn NicModel>,
    packets: u32,
    bytes: usize,
) -> Result<Sending, Error> {
    let mut rack = Rack::new(true);
    rack.record.tracing = false;
    rack.record.keep = packets as usize;
    rack.add_host(HostSetup {
        name: "pc".to_owned(),
        timing: platform.host_timing(link)?,
        model,
        phases: (Picoseconds::ZERO, Picoseconds::ZERO),
    })?;
    let starts = Rc::new(RefCell::new(Vec::new()));
    let api = rack.host(0).api();
    let given = Rc::clone(&starts);
    rack.host(0).run(match way {
        Way::Ring => Box::pin(by_ring(api, packets, bytes, given)),
        Way::Rdma => Box::pin(by_rdma(api, packets, bytes)),
    });
    rack.start();
    rack.run()?;
    let accesses = rack.record.accesses.values().copied().next();
    let frames = rack.record.frames.iter().map(|captured| &captured.frame);
    Ok(Sending {
        packets: u64::from(packets),
        accesses: accesses.unwrap_or_default(),
        times: starts
            .take()
            .into_iter()
            .zip(frames)
            .map(|(start, frame)| frame.first - start)
            .collect(),
        hash: rack.record.digest(),
    })
}

fn register(offset: u32) -> u64 {
    BAR0 + u64::from(offset)
}

/// A packet that can be told from others.
fn packet(number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0xFF; 6];
    packet.extend([2, 0, 0, 0, 0, 1, 0x88, 0xB5]);
    packet.extend(number.to_le_bytes());
    packet.extend((packet.len()..bytes).map(|byte| byte as u8));
    packet.truncate(bytes);
    packet
}

async fn by_ring(
    api: HostApi,
    packets: u32,
    bytes: usize,
    starts: Rc<RefCell<Vec<Picoseconds>>>,
) -> Result<(), String> {
    let mask = (1 << RING_LOG2) - 1;
    for (offset, value) in [
        (ring::REG_TX_BASE_LO, RING as u32),
        (ring::REG_TX_BASE_HI, (RING >> 32) as u32),
        (ring::REG_TX_LOG2, RING_LOG2),
        (ring::REG_CONTROL, 1),
    ] {
        api.store4(register(offset), value).await;
    }
    if api.load4(register(ring::REG_ID)).await != ring::ID_VALUE {
        return Err("this is no descriptor-ring NIC".to_owned());
    }
    for number in 0..packets {
        let tail = number & mask;
        // Step 1: the packet, in memory.
        let at = PACKETS + u64::from(tail) * PACKET_SPACE;
        api.write_memory(at, &packet(number, bytes)).await;
        api.measure(true).await;
        starts.borrow_mut().push(api.now());
        // Step 2: is there room?
        let head = api.load4(register(ring::REG_TX_HEAD)).await;
        if (tail + 1) & mask == head {
            return Err(format!("the ring is full at packet {number}"));
        }
        // Step 3: its descriptor, in memory.
        let mut descriptor = at.to_le_bytes().to_vec();
        descriptor.extend((bytes as u32).to_le_bytes());
        descriptor.extend([0; 4]);
        let entry = RING + u64::from(tail * ring::DESCRIPTOR_BYTES);
        api.write_memory(entry, &descriptor).await;
        // Step 4: TAIL. The rest is the NIC's.
        api.store4(register(ring::REG_TX_TAIL), (tail + 1) & mask)
            .await;
        api.compute(APART).await;
        api.measure(false).await;
    }
    let head = api.load4(register(ring::REG_TX_HEAD)).await;
    if head != packets & mask {
        return Err(format!("HEAD is {head} after {packets} packets"));
    }
    Ok(())
}

async fn by_rdma(api: HostApi, packets: u32, bytes: usize) -> Result<(), String> {
    // The connection was set up before: where the data are and how long.
    for (offset, value) in [
        (METER_ADDRESS, PACKETS as u32),
        (METER_LENGTH, bytes as u32),
        (METER_COUNT, 1),
    ] {
        api.store4(offset, value).await;
    }
    for number in 0..packets {
        // Step 1: the data, in memory.
        api.write_memory(PACKETS, &packet(number, bytes)).await;
        api.measure(true).await;
        // Step 2: the doorbell; steps 3 and 4 are the NIC's.
        api.store4(METER_CONTROL, METER_READ).await;
        api.compute(APART).await;
        api.measure(false).await;
        let done = api.load4(METER_DONE).await;
        if done != 1 {
            return Err(format!(
                "{done} DMA reads after the doorbell of packet {number}"
            ));
        }
    }
    Ok(())
}
