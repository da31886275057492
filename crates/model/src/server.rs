// SPDX-License-Identifier: Apache-2.0
//! The network side: what becomes of a frame from the wire.

use wire::{FCS_BYTES, FMT_MWR64, NetCounter, PcieCounter, fcs};

use crate::build;
use crate::bytes::{be16, be32, be48};
use crate::effects::{FrameSource, Sink, TlpSource};
use crate::events::Event;
use crate::nic::{DmaRead, Load, Nic};
use crate::requester::{STATUS_CA, STATUS_SC, STATUS_UR, carried, is_last};
use crate::session::Opened;
use crate::verdict::{
    Completion, Context, Judged, Peer, Place, Request, Verdict, judge, sealed_payload,
};

/// Shortest good frame with FCS, bytes.
const MIN_FRAME: usize = 64;

/// Who refused, in the event of an error report outside of sessions.
const NO_SESSION: u16 = 0xFFFF;

/// Whether a completion brings the bytes of a load that come next, and no DW more, or says that it failed. Anything else
/// would be malformed for the CPU, and leaves the load to its answer or its time-out.
fn fits(load: &Load, completion: &Completion) -> bool {
    if completion.status != STATUS_SC || !completion.has_data {
        return (completion.status != STATUS_SC) != completion.has_data;
    }
    // It stops at the load's end, or where a root complex may cut.
    let stop = u16::from(completion.lower_address) + carried(completion);
    completion.byte_count == load.remaining
        && completion.lower_address == load.next_address()
        && carried(completion) <= load.remaining + 3
        && (carried(completion) >= load.remaining || stop.is_multiple_of(ROOT_BOUNDARY))
}

/// Bytes at whose multiples a completion may be cut; a root complex may choose them.
const ROOT_BOUNDARY: u16 = 64;

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
    Request(Arrival, Vec<u8>),
    Completion(Peer, Option<u8>, Completion, Vec<u8>),
}

/// An accepted store or load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    peer: Peer,
    session: Option<u8>,
    /// With which the session sent when it came.
    epoch: u8,
    request: Request,
    /// Local address.
    address: u64,
    /// The region asks for an interrupt.
    notify: bool,
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
        let end = match self.mac_verdict(frame, fault) {
            Some(counter) => counter,
            None => self.pass(&frame[..frame.len() - FCS_BYTES], out),
        };
        self.counters.count_net(end);
        self.counters.count_net(NetCounter::RxFrames);
        end
    }

    /// Takes a frame without FCS that another MAC found good, such as that of the kernel under a NIC in software, and
    /// returns the counter that it ended in.
    pub fn frame_from_mac(&mut self, frame: &[u8], out: &mut impl Sink) -> NetCounter {
        let end = if frame.len() + FCS_BYTES < MIN_FRAME {
            NetCounter::RxRunt
        } else if frame.len() + FCS_BYTES > self.config.max_frame {
            NetCounter::RxGiant
        } else {
            self.pass(frame, out)
        };
        self.counters.count_net(end);
        self.counters.count_net(NetCounter::RxFrames);
        end
    }

    /// Takes a frame that the MAC found good, sealed or not.
    fn pass(&mut self, body: &[u8], out: &mut impl Sink) -> NetCounter {
        let mut room = std::mem::take(&mut self.opened);
        let end = match self.open(body, &mut room) {
            None => self.take(body, false, out),
            Some(Ok(seal)) => {
                self.sessions.opened(&seal);
                self.take(&room, true, out)
            }
            Some(Err(())) => NetCounter::RxBadSeal,
        };
        self.opened = room;
        end
    }

    /// The counter that a frame would end in, were it to come now.
    pub fn verdict(&self, frame: &[u8], fault: LineFault) -> NetCounter {
        self.mac_verdict(frame, fault).unwrap_or_else(|| {
            let body = &frame[..frame.len() - FCS_BYTES];
            let mut room = Vec::new();
            let judged = match self.open(body, &mut room) {
                None => judge(body, &self.context(false)),
                Some(Ok(_)) => judge(&room, &self.context(true)),
                Some(Err(())) => return NetCounter::RxBadSeal,
            };
            match judged.verdict {
                Verdict::Drop(counter) | Verdict::Deny(counter, ..) => counter,
                Verdict::Error(..) => NetCounter::RxErrorReport,
                Verdict::Void => NetCounter::RxVoid,
                Verdict::Acknowledgement(..) => NetCounter::RxAck,
                _ if self.slots_full() => NetCounter::RxOverflow,
                Verdict::Request(_, request, ..) => request.accepted_as(),
                Verdict::Completion(..) => NetCounter::RxCompletion,
            }
        })
    }

    fn context(&self, sealed: bool) -> Context<'_> {
        Context {
            me: self.identity(),
            regions: &self.regions,
            sessions: &self.sessions,
            sealed,
        }
    }

    /// Opens a sealed frame for this NIC, if sealed frames are opened at all.
    fn open(&self, body: &[u8], room: &mut Vec<u8>) -> Option<Opened> {
        if !self.registers.auth() || !self.config.auth {
            return None;
        }
        let end = sealed_payload(body, self.identity())?;
        Some(end.map_or(Err(()), |end| self.sessions.open(body, end, room)))
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

    /// Takes a frame that the MAC found good; `sealed` if it came sealed and was opened.
    fn take(&mut self, frame: &[u8], sealed: bool, out: &mut impl Sink) -> NetCounter {
        let judged = judge(frame, &self.context(sealed));
        let (session, order) = (judged.session, judged.order);
        let acknowledgement = judged.acknowledgement;
        let sequenced = matches!(judged.verdict, Verdict::Request(..) | Verdict::Void);
        let counter = self.act(frame, judged, out);
        if let Some(session) = session {
            let every = self.registers.window >> 8 & 0xFF;
            let state = &mut self.sessions.sessions[usize::from(session)].receiver;
            match order {
                Place::Old => state.again(),
                Place::Ahead(sequence) => state.ahead(sequence),
                Place::InTurn if sequenced && counter != NetCounter::RxOverflow => {
                    state.take(every);
                    if let Some(low) = acknowledgement {
                        self.acknowledged_short(session, low, out);
                    }
                }
                Place::InTurn => {}
            }
            self.answer(session, out);
        }
        counter
    }

    fn act(&mut self, frame: &[u8], judged: Judged, out: &mut impl Sink) -> NetCounter {
        let session = judged.session;
        match judged.verdict {
            Verdict::Drop(counter) => {
                if counter == NetCounter::RxArp {
                    self.arp(frame, out);
                }
                counter
            }
            Verdict::Deny(counter, code, peer, request) => {
                if let Some(session) = session {
                    let state = &mut self.sessions.sessions[usize::from(session)];
                    state.receiver.refuse(code, &request);
                }
                self.deny(code, peer, session, &request, out);
                counter
            }
            Verdict::Error(peer, report) => {
                self.registers.last_error = (report, peer.ip);
                match session {
                    Some(session) => self.refused(session, &report, out),
                    // Anybody can send such reports: who has sessions needs none, and they would fill the ring.
                    None if self.sessions.any() => {}
                    None => {
                        let event = Event {
                            code: report.code,
                            op: report.fmt_type,
                            number: report.sequence as u16,
                            who: NO_SESSION,
                            address: report.address,
                        };
                        self.tell(event, out);
                    }
                }
                NetCounter::RxErrorReport
            }
            Verdict::Void => NetCounter::RxVoid,
            Verdict::Acknowledgement(next, missing) => {
                if let Some(session) = session {
                    self.acknowledged(session, next, missing, out);
                }
                NetCounter::RxAck
            }
            Verdict::Request(..) | Verdict::Completion(..) if self.slots_full() => {
                NetCounter::RxOverflow
            }
            Verdict::Request(peer, request, address, notify, data) => {
                let data = &frame[data];
                let route = session.and_then(|session| self.session_route(session, peer));
                let arrival = Arrival {
                    peer,
                    session,
                    epoch: route.map_or(0, |route| route.epoch),
                    request,
                    address,
                    notify,
                };
                if !self.must_wait(&request) {
                    self.serve(&arrival, data, out);
                } else {
                    self.waiting
                        .push_back(Waiting::Request(arrival, data.to_vec()));
                }
                request.accepted_as()
            }
            Verdict::Completion(peer, completion, data) => {
                let data = &frame[data];
                if self.waiting.is_empty() {
                    self.complete(peer, session, &completion, data, out);
                } else {
                    let waiting = Waiting::Completion(peer, session, completion, data.to_vec());
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

    fn serve(&mut self, arrival: &Arrival, data: &[u8], out: &mut impl Sink) {
        let Arrival {
            peer,
            session,
            epoch,
            request,
            address,
            notify,
        } = arrival;
        let address = *address;
        let is_store = request.fmt_type == FMT_MWR64;
        let mut tag = 0;
        if !is_store {
            let read = DmaRead {
                peer: *peer,
                session: *session,
                epoch: *epoch,
                number: request.number,
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
        if is_store && *notify {
            self.arrived(out);
        }
    }

    /// Passes a completion from the network on to the CPU.
    fn complete(
        &mut self,
        peer: Peer,
        session: Option<u8>,
        completion: &Completion,
        data: &[u8],
        out: &mut impl Sink,
    ) {
        let number = self.load_tags.number(completion.tag);
        let load = self.load_tags.get(completion.tag).copied();
        let Some(load) = load.filter(|load| match load.ticket {
            // A load in a session is answered in it, and to the very load.
            Some(ticket) => ticket.session == session && number == Some(completion.number),
            None => load.peer_ip == peer.ip,
        }) else {
            self.counters
                .count_pcie(PcieCounter::LoadCompletionUnexpected);
            return;
        };
        if !fits(&load, completion) {
            let goes_on = completion.byte_count == load.remaining;
            let repeated = load.ticket.is_some() && completion.status == STATUS_SC && !goes_on;
            self.counters.count_pcie(if repeated {
                PcieCounter::LoadCompletionRepeated
            } else {
                PcieCounter::LoadCompletionUnexpected
            });
            return;
        }
        // Of a failure only that it is one is believed, and none is CRS, which asks for a retry.
        let passed = Completion {
            status: match completion.status {
                STATUS_SC | STATUS_UR => completion.status,
                _ => STATUS_CA,
            },
            byte_count: load.remaining,
            lower_address: load.next_address(),
            length: (data.len() / 4) as u16,
            ..*completion
        };
        if is_last(&passed) {
            self.load_tags.free(completion.tag);
            self.counters.count_pcie(PcieCounter::LoadCompleted);
        } else if let Some(load) = self.load_tags.get_mut(completion.tag) {
            load.remaining -= carried(&passed);
        }
        build::cpu_completion(
            &mut self.buffer,
            self.config.completer_id,
            &load,
            &passed,
            data,
        );
        out.tlp(TlpSource::Server, &self.buffer);
    }

    /// Serves what waited for a DMA tag, in order, as far as tags go.
    pub(crate) fn serve_waiting(&mut self, out: &mut impl Sink) {
        while let Some(front) = self.waiting.front() {
            if let Waiting::Request(arrival, _) = front
                && arrival.request.fmt_type != FMT_MWR64
                && !self.dma_tags.has_free()
            {
                return;
            }
            match self.waiting.pop_front() {
                Some(Waiting::Request(arrival, data)) => self.serve(&arrival, &data, out),
                Some(Waiting::Completion(peer, session, completion, data)) => {
                    self.complete(peer, session, &completion, &data, out);
                }
                None => return,
            }
        }
    }

    /// Refuses a store or load: zeros for a load, and an error packet.
    fn deny(
        &mut self,
        code: u8,
        peer: Peer,
        session: Option<u8>,
        request: &Request,
        out: &mut impl Sink,
    ) {
        const ZEROS: [u8; 4 * wire::MAX_DATA_DW] = [0; 4 * wire::MAX_DATA_DW];
        // Anybody can ask for an answer to a stranger, larger than the question: who has sessions needs none.
        if session.is_none() && self.sessions.any() {
            return;
        }
        let Some(route) = self.answer_route(peer, session) else {
            return;
        };
        if request.fmt_type != FMT_MWR64 {
            let completion = Completion {
                tag: request.tag,
                number: request.number,
                status: 0,
                byte_count: wire::read_byte_count(
                    request.dws as u16,
                    request.first_be,
                    request.last_be,
                ),
                lower_address: request.offset as u8 & 0x7C | wire::first_byte(request.first_be),
                has_data: true,
                length: request.dws as u16,
            };
            let zeros = &ZEROS[..4 * request.dws];
            build::tlp_completion(&mut self.buffer, &route, &completion, zeros);
            self.counters.count_net(NetCounter::TxCompletion);
            self.send_frame(FrameSource::Refusals, session, out);
        }
        build::error_packet(&mut self.buffer, &route, code, request);
        self.counters.count_net(NetCounter::TxError);
        self.send_frame(FrameSource::Refusals, session, out);
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
