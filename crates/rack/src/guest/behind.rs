// SPDX-License-Identifier: Apache-2.0
//! A guest that is the host of a switch: each port of the switch is a network device of the guest, and a PCI device behind
//! them is the way to the switch's memories ([`crate::switch_host`] has what is in its BAR).
//!
//! Bus and kernel take the time that they take for the card of any guest. The bus has no serialisation and no queue.

use uml::GuestEvent;

use super::{Due, GuestNode};
use crate::calendar::{ComponentId, HostMessage, Message, Outbox};
use crate::record::Recorder;
use crate::time::Picoseconds;
use crate::timeline::What;

/// The switch that a guest is the host of.
#[derive(Clone, Debug)]
pub struct Behind {
    /// It.
    pub switch: ComponentId,
    /// Ports of the switch: that of each network device. The PCI device is the next one.
    pub ports: Vec<u8>,
}

impl GuestNode {
    /// Something comes from the switch.
    pub(super) fn hear_switch(
        &mut self,
        now: Picoseconds,
        message: HostMessage,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        let ports = self.behind.as_ref().map_or(&[][..], |behind| &behind.ports);
        let device = |port: u8| ports.iter().position(|known| *known == port);
        match message {
            HostMessage::Frame { port, bytes } => {
                // What comes in by a port without an address has no device to go to.
                let Some(device) = device(port) else {
                    self.report.frames_dropped += 1;
                    return Ok(());
                };
                let time = self.charge(now, self.charge.1);
                self.later(time, Due::Frame { device, bytes }, out);
                Ok(())
            }
            HostMessage::Carrier { port, up } => {
                let Some(device) = device(port) else {
                    return Ok(());
                };
                record
                    .timeline
                    .happened(now, self.id, What::Carrier { port, up });
                let at = self.delivery(now);
                self.port.set_link(at, device, up)
            }
            HostMessage::Answer { tag, bytes } => {
                let time = now + self.timing.load.unwrap_or_default();
                self.later(time, Due::Answer { tag, bytes }, out);
                Ok(())
            }
            HostMessage::Store { .. } | HostMessage::Load { .. } => {
                unreachable!("a switch does not reach into its host")
            }
        }
    }

    /// The guest does something with its devices: all of them lead to the switch.
    pub(super) fn tell_switch(
        &mut self,
        now: Picoseconds,
        event: GuestEvent,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        let behind = self.behind.as_ref().expect("asked before");
        let switch = behind.switch;
        let down = self.timing.down;
        match event {
            GuestEvent::Frame { device, bytes } => {
                let port = behind.ports.get(device).copied();
                let port = port.ok_or_else(|| format!("there is no network device {device}"))?;
                self.report.frames_sent += 1;
                let arrival = self.charge(now, self.charge.0) + down;
                let message = HostMessage::Frame { port, bytes };
                out.send(arrival, switch, Message::HostSide(message));
            }
            GuestEvent::MmioWrite { offset, bytes, .. } => {
                self.report.stores += 1;
                if offset == fib::device::STORE {
                    record.timeline.happened(now, self.id, What::Stored);
                }
                let message = HostMessage::Store { offset, bytes };
                out.send(now + down, switch, Message::HostSide(message));
            }
            GuestEvent::MmioRead {
                offset,
                length,
                tag,
                ..
            } => {
                self.report.loads += 1;
                let message = HostMessage::Load {
                    offset,
                    length: length as usize,
                    tag,
                };
                out.send(now + down, switch, Message::HostSide(message));
            }
            // It has no DMA.
            GuestEvent::BusMaster { .. } => {}
            GuestEvent::Exited { .. } => unreachable!("asked before"),
        }
        Ok(())
    }
}
