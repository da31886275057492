// SPDX-License-Identifier: Apache-2.0
//! What a NIC does to the outside.

/// The part of the NIC that a TLP to the root complex comes from. TLPs of one source are in order;
/// between sources there is none but what the root complex's rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlpSource {
    /// Operations that came from the network: DMA writes, DMA reads, completions of CPU loads.
    Server,
    /// Completions of register reads.
    Registers,
    /// Completions of refused requests.
    Refusal,
    /// Completions of loads that nobody answered.
    LoadTimeout,
    /// Events for the ring in local memory.
    Events,
    /// Interrupts.
    Msi,
}

/// The part of the NIC that a frame comes from. Frames of one source are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameSource {
    /// The CPU's stores and loads.
    Requester,
    /// Completions of loads that this NIC served.
    Completions,
    /// Zero completions and error packets for refused operations.
    Refusals,
    /// ARP replies.
    Arp,
    /// Acknowledgements in frames of their own.
    Control,
    /// Frames of sessions that are sent again, voids among them.
    Resend,
}

/// Takes what the NIC sends. The bytes are only lent: nothing is allocated for them.
pub trait Sink {
    /// A TLP to the root complex, from DW 0 on.
    fn tlp(&mut self, source: TlpSource, bytes: &[u8]);
    /// A frame to the wire, from the destination MAC to the padding, without FCS.
    fn frame(&mut self, source: FrameSource, bytes: &[u8]);
}

/// One thing that a NIC sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// See [`Sink::tlp`].
    Tlp(TlpSource, Vec<u8>),
    /// See [`Sink::frame`].
    Frame(FrameSource, Vec<u8>),
}

/// A sink that keeps everything, in order.
impl Sink for Vec<Effect> {
    fn tlp(&mut self, source: TlpSource, bytes: &[u8]) {
        self.push(Effect::Tlp(source, bytes.to_vec()));
    }

    fn frame(&mut self, source: FrameSource, bytes: &[u8]) {
        self.push(Effect::Frame(source, bytes.to_vec()));
    }
}
