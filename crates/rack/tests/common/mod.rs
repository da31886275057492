// SPDX-License-Identifier: Apache-2.0
//! A NIC made of a few lines, so that the rack is tested apart from the RTL: any store to BAR 2 becomes a frame, any
//! frame a DMA write to the region of the ping-pong program. It is compiled into tests only.

use std::collections::VecDeque;
use std::path::Path;

use ipnuma_rtl::{Error, NetSpeed, NetWord, NicInputs, NicOutputs, TlpBeat};
use rack::Picoseconds;
use rack::frame::Framer;
use rack::model::NicModel;
use wire::tlp::{MemRequest, TlpHeader, TlpView};

/// Bytes of a frame before the data: addresses to UDP, and the compact header.
const HEAD: usize = 50;
/// PCIe cycles that the stand-in takes each way.
const DELAY: usize = 5;

pub struct StandIn {
    inputs: NicInputs,
    speed: NetSpeed,
    outputs: NicOutputs,
    tlp: Vec<u8>,
    to_wire: VecDeque<(usize, Vec<NetWord>)>,
    line: VecDeque<NetWord>,
    to_host: VecDeque<(usize, VecDeque<TlpBeat>)>,
    framer: Framer,
}

impl StandIn {
    pub fn new(speed: NetSpeed) -> Self {
        let inputs = NicInputs {
            rst_pcie: false,
            rst_net: false,
            flr: 0,
            completer_id: 0,
            bus: Default::default(),
            now_us: 0,
            s_tlp: None,
            m_tlp_ready: false,
            net: speed.idle(),
            link_up: true,
        };
        let outputs = NicOutputs {
            s_tlp_ready: true,
            m_tlp: None,
            net: speed.idle(),
            busy_pcie: false,
            busy_net: false,
            flr_done: 0,
        };
        Self {
            inputs,
            speed,
            outputs,
            tlp: Vec::new(),
            to_wire: VecDeque::new(),
            line: VecDeque::new(),
            to_host: VecDeque::new(),
            framer: Framer::default(),
        }
    }

    fn words(&self, data: &[u8]) -> Vec<NetWord> {
        let mut frame = vec![0; HEAD];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[36..38].copy_from_slice(&wire::UDP_PORT.to_be_bytes());
        frame[42] = 0xC0;
        frame.push((data.len() / 4) as u8);
        frame.extend_from_slice(data);
        frame.resize(frame.len().max(64), 0);
        match self.speed {
            NetSpeed::TenGig => {
                let mut lanes = vec![(0xFB, true)];
                lanes.extend([(0x55, false); 6]);
                lanes.push((0xD5, false));
                lanes.extend(frame.into_iter().map(|byte| (byte, false)));
                lanes.push((0xFD, true));
                lanes.resize(lanes.len().next_multiple_of(8), (7, true));
                let word = |lanes: &[(u8, bool)]| NetWord::Xgmii {
                    data: lanes.iter().rev().fold(0, |d, l| d << 8 | u64::from(l.0)),
                    control: lanes.iter().rev().fold(0, |c, l| c << 1 | u8::from(l.1)),
                };
                lanes.chunks(8).map(word).collect()
            }
            NetSpeed::OneGig => {
                let preamble = [0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xD5];
                let bytes = preamble.into_iter().chain(frame);
                let word = |data| NetWord::Gmii {
                    data,
                    enable: true,
                    error: false,
                };
                bytes.map(word).collect()
            }
        }
    }

    fn pcie_edge(&mut self) {
        for (wait, _) in &mut self.to_wire {
            *wait = wait.saturating_sub(1);
        }
        for (wait, _) in &mut self.to_host {
            *wait = wait.saturating_sub(1);
        }
        if self.outputs.m_tlp.is_some() && self.inputs.m_tlp_ready {
            let beats = &mut self.to_host[0].1;
            beats.pop_front();
            if beats.is_empty() {
                self.to_host.pop_front();
            }
        }
        let Some(beat) = self.inputs.s_tlp else {
            return;
        };
        let count = beat.keep.count_ones() as usize;
        self.tlp.extend(&beat.data.to_le_bytes()[..count]);
        if beat.last {
            let tlp = std::mem::take(&mut self.tlp);
            let view = TlpView::new(&tlp).expect("the host sends whole TLPs");
            if beat.user == 2 {
                let words = self.words(view.data());
                self.to_wire.push_back((DELAY, words));
            }
        }
    }

    fn net_edge(&mut self) {
        if let Some(frame) = self.framer.word(Picoseconds::ZERO, self.inputs.net) {
            let dws = frame.bytes[HEAD];
            let data = &frame.bytes[HEAD + 1..][..4 * usize::from(dws)];
            let header = TlpHeader::MemWrite(MemRequest {
                length: u16::from(dws),
                first_be: 0xF,
                last_be: if dws > 1 { 0xF } else { 0 },
                address: rack::pingpong::REGION,
                ..MemRequest::default()
            });
            let tlp = header.emit(data).expect("a write of at most 16 DWs");
            let last = tlp.len().div_ceil(8) - 1;
            let beats = tlp.chunks(8).enumerate().map(|(index, bytes)| TlpBeat {
                data: bytes.iter().rev().fold(0, |d, b| d << 8 | u64::from(*b)),
                keep: ((1_u16 << bytes.len()) - 1) as u8,
                last: index == last,
                user: 0,
            });
            self.to_host.push_back((DELAY, beats.collect()));
        }
        if self.line.is_empty() && self.to_wire.front().is_some_and(|(wait, _)| *wait == 0) {
            self.line
                .extend(self.to_wire.pop_front().expect("looked at above").1);
            self.line.push_back(self.speed.idle());
        }
        self.outputs.net = self.line.pop_front().unwrap_or(self.speed.idle());
    }
}

impl NicModel for StandIn {
    fn inputs(&mut self) -> &mut NicInputs {
        &mut self.inputs
    }

    fn settle(&mut self) -> Result<NicOutputs, Error> {
        let front = self.to_host.front().filter(|(wait, _)| *wait == 0);
        self.outputs.m_tlp = front.and_then(|(_, beats)| beats.front().copied());
        Ok(self.outputs)
    }

    fn edge(&mut self, pcie: bool, net: bool) -> Result<NicOutputs, Error> {
        if pcie {
            self.pcie_edge();
        }
        if net {
            self.net_edge();
        }
        let busy = !self.to_wire.is_empty() || !self.line.is_empty() || !self.to_host.is_empty();
        self.outputs.busy_pcie = busy;
        self.outputs.busy_net = busy;
        self.outputs.m_tlp = None;
        Ok(self.outputs)
    }

    fn reset(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn set_time(&mut self, _: Picoseconds) {}

    fn trace(&mut self, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn trace_close(&mut self) {}

    fn speed(&self) -> Option<NetSpeed> {
        Some(self.speed)
    }
}
