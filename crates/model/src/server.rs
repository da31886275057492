// SPDX-License-Identifier: Apache-2.0
//! The network side: what becomes of a frame from the wire.

use wire::{FCS_BYTES, FMT_MWR64, NetCounter, PcieCounter, fcs};

use crate::build;
use crate::bytes::{be16, be32, be48};
use crate::effects::{FrameSource, Sink, TlpSource};
use crate::nic::{DmaRead, Nic};
use crate::requester::is_last;
use crate::verdict::{Completion, Peer, Request, Verdict, judge};

/// Shortest good frame with FCS, bytes.
const MIN_FRAME: usize = 64;

/// What the PHY had to say about a frame, beyond its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LineFault {
    /// Nothing.
    #[default]
    None,
    /// Cut or broken by an error symbol.
    Error,
    /// The preamble was not one; nothing of the frame was received.
    BadPreamble,
}

/// An operation that waits for a free DMA tag, or behind one that does.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    Request(Peer, Request, u64, Vec<u8>),
    Completion(Peer, Completion, Vec<u8>),
}

impl Nic {
    /// Takes a frame from the wire, from the destination MAC to the FCS inclusive, and returns the
    /// counter that it ended in.
    pub fn frame_from_wire(
        &mut self,
        frame: &[u8],
        fault: LineFault,
        out: &mut impl Sink,
    ) -> NetCounter {
        let end = self.mac_verdict(frame, fault).unwrap_or_else(|| {
            let body = &frame[..frame.len() - FCS_BYTES];
            let verdict = judge(body, self.identity(), &self.regions);
            self.act(body, verdict, out)
        });
        self.counters.count_net(end);
        self.counters.count_net(NetCounter::RxFrames);
        end
    }

    /// The counter that a frame would end in, were it to come now.
    pub fn verdict(&self, frame: &[u8], fault: LineFault) -> NetCounter {
        self.mac_verdict(frame, fault).unwrap_or_else(|| {
            let body = &frame[..frame.len() - FCS_BYTES];
            match judge(body, self.identity(), &self.regions) {
                Verdict::Drop(counter) | Verdict::Deny(counter, ..) => counter,
                Verdict::Error(..) => NetCounter::RxErrorReport,
                _ if self.slots_full() => NetCounter::RxOverflow,
                Verdict::Request(_, request, ..) => request.accepted_as(),
                Verdict::Completion(..) => NetCounter::RxCompletion,
            }
        })
    }

    fn mac_verdict(&self, frame: &[u8], fault: LineFault) -> Option<NetCounter> {
        let fcs_wrong = || {
            let (body, sent) = frame.split_at(frame.len() - FCS_BYTES);
            fcs(body) != sent
        };
        match fault {
            LineFault::BadPreamble => Some(NetCounter::RxBadPreamble),
            LineFault::Error => Some(NetCounter::RxPhyError),
            LineFault::None if frame.len() < MIN_FRAME => Some(NetCounter::RxRunt),
            LineFault::None if frame.len() > self.config.max_frame => Some(NetCounter::RxGiant),
            LineFault::None => fcs_wrong().then_some(NetCounter::RxBadFcs),
        }
    }

    fn act(&mut self, frame: &[u8], verdict: Verdict, out: &mut impl Sink) -> NetCounter {
        match verdict {
            Verdict::Drop(counter) => {
                if counter == NetCounter::RxArp {
                    self.arp(frame, out);
                }
                counter
            }
            Verdict::Deny(counter, code, peer, request) => {
                self.deny(code, peer, &request, out);
                counter
            }
            Verdict::Error(peer, report) => {
                self.registers.last_error = (report, peer.ip);
                NetCounter::RxErrorReport
            }
            Verdict::Request(..) | Verdict::Completion(..) if self.slots_full() => {
                NetCounter::RxOverflow
            }
            Verdict::Request(peer, request, address, data) => {
                let data = &frame[data];
                if !self.must_wait(&request) {
                    self.serve(peer, &request, address, data, out);
                } else {
                    let waiting = Waiting::Request(peer, request.clone(), address, data.to_vec());
                    self.waiting.push_back(waiting);
                }
                request.accepted_as()
            }
            Verdict::Completion(peer, completion, data) => {
                let data = &frame[data];
                if self.waiting.is_empty() {
                    self.complete(peer, &completion, data, out);
                } else {
                    let waiting = Waiting::Completion(peer, completion, data.to_vec());
                    self.waiting.push_back(waiting);
                }
                NetCounter::RxCompletion
            }
        }
    }

    fn slots_full(&self) -> bool {
        self.waiting.len() >= self.config.rx_slots
    }

    /// Whether a request can't be served at once: others wait, or it is a load without a DMA tag.
    fn must_wait(&self, request: &Request) -> bool {
        !self.waiting.is_empty() || request.fmt_type != FMT_MWR64 && !self.dma_tags.has_free()
    }

    fn serve(
        &mut self,
        peer: Peer,
        request: &Request,
        address: u64,
        data: &[u8],
        out: &mut impl Sink,
    ) {
        let is_store = request.fmt_type == FMT_MWR64;
        let mut tag = 0;
        if !is_store {
            let read = DmaRead {
                peer,
                net_tag: request.tag,
                byte_count: wire::read_byte_count(
                    request.dws as u16,
                    request.first_be,
                    request.last_be,
                ),
                lower_address: address as u8 & 0x7C | wire::first_byte(request.first_be),
            };
            tag = self
                .dma_tags
                .take(read, self.now_us)
                .expect("a load is served when a tag is free");
        }
        let id = self.config.completer_id;
        build::dma(&mut self.buffer, id, tag, address, request, data);
        self.counters.count_pcie(if is_store {
            PcieCounter::DmaWrite
        } else {
            PcieCounter::DmaRead
        });
        out.tlp(TlpSource::Server, &self.buffer);
    }

    /// Passes a completion from the network on to the CPU.
    fn complete(&mut self, peer: Peer, completion: &Completion, data: &[u8], out: &mut impl Sink) {
        let load = self.load_tags.get(completion.tag).copied();
        let Some(load) = load.filter(|load| load.peer_ip == peer.ip) else {
            self.counters
                .count_pcie(PcieCounter::LoadCompletionUnexpected);
            return;
        };
        if is_last(completion) {
            self.load_tags.free(completion.tag);
            self.counters.count_pcie(PcieCounter::LoadCompleted);
        }
        build::cpu_completion(
            &mut self.buffer,
            self.config.completer_id,
            load.tc,
            (load.requester_id, load.tag),
            completion,
            data,
        );
        out.tlp(TlpSource::Server, &self.buffer);
    }

    /// Serves what waited for a DMA tag, in order, as far as tags go.
    pub(crate) fn serve_waiting(&mut self, out: &mut impl Sink) {
        while let Some(front) = self.waiting.front() {
            if let Waiting::Request(_, request, ..) = front
                && request.fmt_type != FMT_MWR64
                && !self.dma_tags.has_free()
            {
                return;
            }
            match self.waiting.pop_front() {
                Some(Waiting::Request(peer, request, address, data)) => {
                    self.serve(peer, &request, address, &data, out);
                }
                Some(Waiting::Completion(peer, completion, data)) => {
                    self.complete(peer, &completion, &data, out);
                }
                None => return,
            }
        }
    }

    /// Refuses a store or load: zeros for a load, and an error packet.
    fn deny(&mut self, code: u8, peer: Peer, request: &Request, out: &mut impl Sink) {
        const ZEROS: [u8; 4 * wire::MAX_DATA_DW] = [0; 4 * wire::MAX_DATA_DW];
        let route = self.reply_route(peer);
        if request.fmt_type != FMT_MWR64 {
            let completion = Completion {
                tag: request.tag,
                status: 0,
                byte_count: 4 * request.dws as u16,
                lower_address: request.offset as u8 & 0x7C,
                has_data: true,
                length: request.dws as u16,
            };
            let zeros = &ZEROS[..4 * request.dws];
            build::tlp_completion(&mut self.buffer, &route, &completion, zeros);
            self.counters.count_net(NetCounter::TxCompletion);
            out.frame(FrameSource::Refusals, &self.buffer);
        }
        build::error_packet(&mut self.buffer, &route, code, request);
        self.counters.count_net(NetCounter::TxError);
        out.frame(FrameSource::Refusals, &self.buffer);
    }

    /// Answers an ARP request for the own address.
    fn arp(&mut self, frame: &[u8], out: &mut impl Sink) {
        const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
        let me = self.identity();
        let sender = be48(frame, 22);
        let is_group = frame[22] & 1 == 1;
        let for_me = me.ip != 0 && be32(frame, 38) == me.ip && be16(frame, 12) == 0x0806;
        if for_me && frame[14..22] == REQUEST && sender != 0 && !is_group {
            build::arp_reply(&mut self.buffer, me, frame);
            self.counters.count_net(NetCounter::TxArp);
            out.frame(FrameSource::Arp, &self.buffer);
        }
    }
}
