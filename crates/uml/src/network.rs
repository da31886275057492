// SPDX-License-Identifier: Apache-2.0
//! A virtio network card: no offloads, one queue each way.
//!
//! A frame leaves when its kick arrives and its buffer is free again at once: how long a frame takes is the cable's matter.
//! Received frames go into the buffers that the guest gave; without one they are dropped, and the caller is told.

use crate::memory::Memory;
use crate::vhost_user::Port;

/// Virtio feature: the configuration space has the hardware address.
pub(crate) const FEATURES: u64 = 1 << 5;
/// Virtio feature: the configuration space has the state of the link behind that address.
pub(crate) const LINK_FEATURE: u64 = 1 << 16;
/// Where it is there.
const LINK_STATUS: usize = 6;

/// The configuration space of a card with a link.
pub(crate) fn configuration(mac: [u8; 6], up: bool) -> Vec<u8> {
    let mut bytes = mac.to_vec();
    debug_assert_eq!(bytes.len(), LINK_STATUS);
    bytes.extend(u16::from(up).to_le_bytes());
    bytes
}

/// The device's virtio number.
pub(crate) const VIRTIO_ID: u32 = 1;

/// Virtqueue to the guest.
pub(crate) const RECEIVE: usize = 0;
/// Virtqueue from the guest.
pub(crate) const TRANSMIT: usize = 1;

/// The virtio header before each frame. Only the last field, the count of buffers, is ever not zero.
const HEADER: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// Takes the frames that the guest has sent.
pub(crate) fn take_sent(port: &mut Port, memory: &Memory) -> Result<Vec<Vec<u8>>, String> {
    let ring = &mut port.rings[TRANSMIT];
    let mut frames = Vec::new();
    while let Some(chain) = ring.take(memory)? {
        let frame = chain
            .read
            .get(HEADER.len()..)
            .ok_or("a frame shorter than its virtio header")?;
        frames.push(frame.to_vec());
        ring.give(memory, &chain, &[])?;
    }
    Ok(frames)
}

/// Puts a frame into the guest's next buffer. False if there is none, or if the frame is longer.
pub(crate) fn put_received(port: &mut Port, memory: &Memory, frame: &[u8]) -> Result<bool, String> {
    let ring = &mut port.rings[RECEIVE];
    let Some(chain) = ring.take(memory)? else {
        return Ok(false);
    };
    let mut bytes = HEADER.to_vec();
    bytes.extend_from_slice(frame);
    let fits = bytes.len() <= chain.room();
    // A length of nothing makes the driver count a bad frame and give the buffer again.
    ring.give(memory, &chain, if fits { &bytes } else { &[] })?;
    Ok(fits)
}
