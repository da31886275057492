// SPDX-License-Identifier: Apache-2.0
//! The PCIe side: what becomes of a TLP from the root complex. The order of the checks is that of
//! the table "Behaviour of the PCIe side" in `docs/architecture.md`.

use wire::{
    FMT_CPL, FMT_CPLD, FMT_MRD64, FMT_MWR64, KeyEntry, PcieCounter, SessionEntry, SessionStatus,
    TlpView, registers as reg,
};

use crate::build::{self, Route};
use crate::bytes::be16;
use crate::effects::{FrameSource, Sink, TlpSource};
use crate::nic::{DmaRead, Load, Nic};
use crate::session::Ticket;
use crate::session::sender::Operation;
use crate::verdict::{Completion, Identity, Peer, Request};

/// BAR of registers, tables and counters.
pub const BAR_REGISTERS: u8 = 0;
/// BAR of the pages.
pub const BAR_PAGES: u8 = 2;

/// Completion status: successful.
pub(crate) const STATUS_SC: u8 = 0;
/// Completion status: unsupported request.
pub(crate) const STATUS_UR: u8 = 1;
/// Completion status: completer abort.
pub(crate) const STATUS_CA: u8 = 4;

/// DWs that one store or load carries at most.
const MAX_PAGE_DWS: usize = wire::MAX_DATA_DW;
const PAGE: usize = reg::PAGE_BYTES as usize;

impl Nic {
    /// Takes a whole TLP from the root complex, DW 0 first, with the BAR it hit (7: none).
    pub fn tlp_from_root(&mut self, tlp: &[u8], bar: u8, out: &mut impl Sink) {
        let Ok(view) = TlpView::new(tlp) else {
            self.counters.count_pcie(PcieCounter::TlpMalformed);
            return;
        };
        if view.ep() {
            self.counters.count_pcie(PcieCounter::TlpPoisoned);
            if view.is_non_posted() {
                self.refuse(&view, STATUS_UR, out);
            }
            return;
        }
        let kind = view.fmt_type();
        let is_request = kind & !0x60 == 0;
        let is_completion = matches!(kind, FMT_CPL | FMT_CPLD);
        let is_read = is_request && !view.has_data();
        let address = if is_request { view.address_field() } else { 0 };
        let in_page = address as usize & (PAGE - 1) & !3;
        let dws = usize::from(view.length());
        let right_place = match bar {
            BAR_REGISTERS => dws <= 2,
            BAR_PAGES => dws <= MAX_PAGE_DWS && in_page + 4 * dws <= PAGE,
            _ => false,
        };
        let supported = is_completion || is_request && right_place;
        if !supported {
            self.counters.count_pcie(PcieCounter::TlpUnsupported);
            if view.is_non_posted() {
                self.refuse(&view, STATUS_UR, out);
            }
        } else if is_completion {
            self.completion_from_root(tlp, view.data(), out);
        } else if bar == BAR_REGISTERS {
            self.register_operation(&view, is_read, out);
        } else {
            self.page_operation(&view, is_read, out);
        }
    }

    /// Completes a request without data.
    fn refuse(&mut self, view: &TlpView<'_>, status: u8, out: &mut impl Sink) {
        let load = load_of(view, 0);
        self.complete_without_data(&load, status, TlpSource::Refusal, out);
    }

    pub(crate) fn complete_without_data(
        &mut self,
        load: &Load,
        status: u8,
        source: TlpSource,
        out: &mut impl Sink,
    ) {
        let completion = Completion {
            tag: 0,
            number: 0,
            status,
            byte_count: load.byte_count,
            lower_address: load.lower_address,
            has_data: false,
            length: 0,
        };
        let id = self.config.completer_id;
        build::cpu_completion(&mut self.buffer, id, load, &completion, &[]);
        out.tlp(source, &self.buffer);
    }

    fn page_operation(&mut self, view: &TlpView<'_>, is_read: bool, out: &mut impl Sink) {
        let address = view.address_field();
        let page = (address >> 12) as usize & ((1 << (reg::BAR2_ADDR_W - 12)) - 1);
        let Some(&entry) = self.pages.get(page) else {
            self.counters.count_pcie(PcieCounter::TlpPageBeyond);
            if is_read {
                self.refuse(view, STATUS_UR, out);
            }
            return;
        };
        let pc_id = usize::from(entry.pc_id);
        let peer = self.pc_ids.get(pc_id).copied();
        let Some(peer) = peer.filter(|peer| pc_id != 0 && peer.valid) else {
            self.counters.count_pcie(if is_read {
                PcieCounter::TlpLoadUnmapped
            } else {
                PcieCounter::TlpStoreUnmapped
            });
            if is_read {
                self.refuse(view, STATUS_UR, out);
            }
            return;
        };
        let mut tag = 0;
        if is_read {
            let Ok(taken) = self.load_tags.take(load_of(view, peer.ip), self.now_us) else {
                self.counters.count_pcie(PcieCounter::LoadNoTag);
                self.refuse(view, STATUS_CA, out);
                return;
            };
            tag = taken;
            self.counters.count_pcie(PcieCounter::TlpLoad);
        } else {
            self.counters.count_pcie(PcieCounter::TlpStore);
        }

        let through_gateway = (peer.ip ^ self.registers.ip) & self.registers.netmask != 0;
        let session = u8::try_from(pc_id)
            .ok()
            .filter(|session| peer.session && usize::from(*session) < self.sessions.len());
        let next_hop = if through_gateway {
            self.registers.gateway_mac
        } else {
            peer.mac
        };
        let request = Request {
            fmt_type: if is_read { FMT_MRD64 } else { FMT_MWR64 },
            key: entry.key(),
            offset: entry.offset() | address as u32 & 0xFFC,
            dws: usize::from(view.length()),
            first_be: view.first_be(),
            last_be: view.last_be(),
            tag,
            number: match session {
                Some(_) if is_read => self.load_tags.number(tag).unwrap_or(0),
                _ => 0,
            },
            sequence: 0,
        };
        let ticket = Ticket {
            operation: Operation {
                form: build::compact_form(&request).filter(|_| peer.compact),
                request,
                to: Peer {
                    mac: next_hop,
                    ip: peer.ip,
                },
                tag: entry.tag,
            },
            session,
            pc_id: entry.pc_id,
            source_port: peer.source_port,
        };
        if is_read
            && session.is_some()
            && let Some(load) = self.load_tags.get_mut(tag)
        {
            load.ticket = Some(ticket);
            load.sent_us = self.now_us;
        }
        self.submit(&ticket, view.data(), out);
    }

    fn register_operation(&mut self, view: &TlpView<'_>, is_read: bool, out: &mut impl Sink) {
        let offset = view.address_field() as u32 & ((1 << reg::BAR0_ADDR_W) - 1) & !3;
        let dws = u32::from(view.length());
        self.counters.count_pcie(if is_read {
            PcieCounter::TlpRegisterRead
        } else {
            PcieCounter::TlpRegisterWrite
        });
        if is_read {
            let mut data = [0; 8];
            for dw in 0..dws {
                let value = self.read_register(offset + 4 * dw).unwrap_or_else(|| {
                    self.counters.count_pcie(PcieCounter::RegisterRefused);
                    0
                });
                data[4 * dw as usize..][..4].copy_from_slice(&value.to_le_bytes());
            }
            let load = load_of(view, 0);
            let completion = Completion {
                tag: 0,
                number: 0,
                status: 0,
                byte_count: load.byte_count,
                lower_address: load.lower_address,
                has_data: true,
                length: view.length(),
            };
            build::cpu_completion(
                &mut self.buffer,
                self.config.completer_id,
                &load,
                &completion,
                &data[..4 * dws as usize],
            );
            out.tlp(TlpSource::Registers, &self.buffer);
            return;
        }
        for (dw, bytes) in (0..dws).zip(view.data().chunks_exact(4)) {
            let enables = if dw == 0 {
                view.first_be()
            } else {
                view.last_be()
            };
            let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let done = if enables == 0xF {
                self.write_register(offset + 4 * dw, value, out)
            } else {
                None
            };
            if done.is_none() {
                self.counters.count_pcie(PcieCounter::RegisterRefused);
            }
        }
    }

    fn read_register(&self, offset: u32) -> Option<u32> {
        let counter = |window: &[u32], base| window.get((offset - base) as usize / 4).copied();
        match offset {
            reg::PAGE_MAP_BASE.. => self.pages.read_dw((offset - reg::PAGE_MAP_BASE) as usize),
            reg::REGION_BASE.. => self.regions.read_dw((offset - reg::REGION_BASE) as usize),
            reg::PC_ID_BASE.. => self.pc_ids.read_dw((offset - reg::PC_ID_BASE) as usize),
            reg::SESSION_STATUS_BASE.. => {
                let at = (offset - reg::SESSION_STATUS_BASE) as usize;
                let session = u8::try_from(at / SessionStatus::BYTES).ok()?;
                let status = self.session_status(session)?;
                Some(status.to_dws()[at % SessionStatus::BYTES / 4])
            }
            reg::KEY_BASE.. => {
                let session = (offset - reg::KEY_BASE) as usize / KeyEntry::BYTES;
                (session < self.sessions.len()).then_some(0)
            }
            reg::SESSION_BASE.. => {
                let at = (offset - reg::SESSION_BASE) as usize;
                self.sessions.table.read_dw(at)
            }
            reg::NET_COUNTER_BASE.. => counter(self.counters.net_window(), reg::NET_COUNTER_BASE),
            reg::PCIE_COUNTER_BASE.. => {
                counter(self.counters.pcie_window(), reg::PCIE_COUNTER_BASE)
            }
            _ => self.registers.read(offset),
        }
    }

    fn write_register(&mut self, offset: u32, value: u32, out: &mut impl Sink) -> Option<()> {
        match offset {
            reg::PAGE_MAP_BASE.. => {
                let at = (offset - reg::PAGE_MAP_BASE) as usize;
                self.pages.write_dw(at, value)
            }
            reg::REGION_BASE.. => {
                let at = (offset - reg::REGION_BASE) as usize;
                self.regions.write_dw(at, value)
            }
            reg::PC_ID_BASE.. => {
                let at = (offset - reg::PC_ID_BASE) as usize;
                self.pc_ids.write_dw(at, value)
            }
            reg::SESSION_STATUS_BASE.. => None,
            reg::KEY_BASE.. => {
                let at = (offset - reg::KEY_BASE) as usize;
                self.sessions.write_key(at, value)
            }
            reg::SESSION_BASE.. => {
                let at = (offset - reg::SESSION_BASE) as usize;
                self.sessions.table.write_dw(at, value)?;
                if at % SessionEntry::BYTES == SessionEntry::BYTES - 4 {
                    self.begin_session((at / SessionEntry::BYTES) as u8, out);
                }
                Some(())
            }
            reg::PCIE_COUNTER_BASE.. => None,
            _ => {
                self.registers.write(offset, value)?;
                match offset {
                    reg::REG_FLUSH => self.flush(value as u16, (value >> 16) as u16, out),
                    reg::REG_EVENT_LOG2 => self.empty_ring(),
                    reg::REG_EVENT_TAIL => self.write_events(out),
                    reg::REG_WINDOW => self.send_waiting(out),
                    _ => {}
                }
                Some(())
            }
        }
    }

    /// A completion of a DMA read becomes a frame to the load's peer.
    fn completion_from_root(&mut self, tlp: &[u8], data: &[u8], out: &mut impl Sink) {
        let status = be16(tlp, 4 + 2);
        let mut completion = Completion {
            tag: tlp[10],
            number: 0,
            status: (status >> 13) as u8,
            byte_count: status & 0xFFF,
            lower_address: tlp[11] & 0x7F,
            has_data: tlp[0] == FMT_CPLD,
            length: (data.len() / 4) as u16,
        };
        // More data than any load asks for can't be sent; a CplD of length 0 has 1024 DWs.
        let fits = data.len() / 4 <= MAX_PAGE_DWS;
        let read = self.dma_tags.get(completion.tag).filter(|_| fits);
        let Some(&read) = read else {
            self.counters
                .count_pcie(PcieCounter::TlpCompletionUnexpected);
            if fits && is_last(&completion) {
                self.dma_tags.end_late(completion.tag);
                self.serve_waiting(out);
            }
            return;
        };
        self.counters.count_pcie(PcieCounter::TlpCompletion);
        if is_last(&completion) {
            self.dma_tags.free(completion.tag);
        }
        completion.tag = read.net_tag;
        completion.number = read.number;
        self.send_completion(&read, &completion, data, out);
        self.serve_waiting(out);
    }

    pub(crate) fn send_completion(
        &mut self,
        read: &DmaRead,
        completion: &Completion,
        data: &[u8],
        out: &mut impl Sink,
    ) {
        let Some(mut route) = self.answer_route(read.peer, read.session) else {
            return;
        };
        if read.session.is_some() {
            // Its requester may be another by now, with the same tags.
            route = route.with_epoch(read.epoch);
        }
        build::tlp_completion(&mut self.buffer, &route, completion, data);
        self.counters.count_net(wire::NetCounter::TxCompletion);
        self.send_frame(FrameSource::Completions, read.session, out);
    }

    /// How an answer to a frame is addressed; `None`, and counted, if its session is no longer there.
    pub(crate) fn answer_route(&mut self, to: Peer, session: Option<u8>) -> Option<Route> {
        let Some(session) = session else {
            return Some(self.reply_route(to));
        };
        let route = self.session_route(session, to);
        if route.is_none() {
            self.counters.count_net(wire::NetCounter::TxLost);
        }
        route
    }

    pub(crate) fn reply_route(&self, to: Peer) -> Route {
        Route {
            from: self.identity(),
            to,
            source_port: wire::UDP_PORT,
            epoch: self.registers.epoch,
            acknowledgement: None,
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            mac: self.registers.mac,
            ip: self.registers.ip,
        }
    }
}

/// What must be remembered to complete a request of the CPU.
fn load_of(view: &TlpView<'_>, peer_ip: u32) -> Load {
    let (byte_count, lower_address) = view.completion_span();
    Load {
        requester_id: view.requester_id(),
        tag: view.tag(),
        tc: view.tc(),
        attr: view.attr(),
        locked: view.is_locked_read(),
        byte_count,
        lower_address,
        peer_ip,
        remaining: byte_count,
        sent_us: 0,
        ticket: None,
    }
}

/// Bytes of the read that a completion brings.
pub(crate) fn carried(completion: &Completion) -> u16 {
    let carried = if completion.has_data {
        4 * completion.length
    } else {
        0
    };
    // Bytes before the lower address are in the first DW, but not counted.
    carried.saturating_sub(u16::from(completion.lower_address & 3))
}

/// Whether no further completion of the same read follows.
pub(crate) fn is_last(completion: &Completion) -> bool {
    let byte_count = match completion.byte_count {
        0 => 4096,
        count => count,
    };
    completion.status != 0 || byte_count <= carried(completion)
}
