// SPDX-License-Identifier: Apache-2.0
//! Input pins that change while a NIC works: its two resets, the PHY's link, bus-master enable.
//!
//! [`ResetWatch`] tells from the pins alone when a NIC is through with a reset, so that a test knows what is from
//! before it. It looks at the stream from the root complex: the gate of a NIC shuts a few edges after a reset is
//! asserted and opens when both sides have been reset, so the first TLP that was offered to the shut gate and is taken
//! is the first one of the time after. A shell tells the end of a function-level reset itself, and has no gate for it: up to
//! then the function's requests are taken and dropped.

use ipnuma_rtl::TlpBeat;

/// An input of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pin {
    /// `rst_pcie_i`: for the host a function-level reset.
    RstPcie,
    /// `rst_net_i`: the PHY's side alone.
    RstNet,
    /// `link_up_i`.
    LinkUp,
    /// `cfg_bus_master_i`.
    BusMaster,
    /// `flr_i` of the IP-NUMA function of a shell: it goes up, and falls when the shell has told the end.
    Flr,
}

/// What a pin becomes, and when: at the first edge of its own clock from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Picoseconds.
    pub at_ps: u64,
    /// Which.
    pub pin: Pin,
    /// To what.
    pub level: bool,
}

impl Change {
    /// Whether the pin may change at an edge of these clocks.
    pub fn fits(&self, pcie: bool, net: bool) -> bool {
        match self.pin {
            Pin::RstPcie | Pin::BusMaster | Pin::Flr => pcie,
            Pin::RstNet => net,
            Pin::LinkUp => true,
        }
    }
}

/// PCIe edges after which the gate of a NIC is shut that was asked to reset, but for a TLP that was offered before:
/// two synchronisers, and two registers on each side.
const SHUT_EDGES: u32 = 10;
/// PCIe edges after which a NIC without bus-master enable begins no memory request: what was decided before may wait
/// behind three others for a root complex that is ready half of the time.
const MASTER_EDGES: u32 = 1_000;

/// PCIe edges after the end of a function-level reset in which the end of a frame may leave that it has cut: through the MAC, and the padding
/// of a short frame at 1G.
const CUT_EDGES: u32 = 500;

/// Registers that are remembered after a reset.
const MOST_WRITTEN: usize = 512;

/// How far a NIC is with a reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gate {
    /// No reset is under way.
    #[default]
    Open,
    /// One has been asserted so many PCIe edges ago.
    Shutting(u32),
    /// It is shut; a TLP was offered to it first at that time.
    Shut,
}

/// A NIC is through with a reset: it has taken the first TLP after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reborn {
    /// When, in picoseconds.
    pub at_ps: u64,
    /// Writes of registers that it had taken before, from the beginning on.
    pub writes: u32,
    /// Stores, likewise.
    pub stores: u32,
}

/// What the pins of a NIC have said about its resets.
#[derive(Debug, Default)]
pub struct ResetWatch {
    gate: Gate,
    /// A function-level reset of a shell is under way.
    function: bool,
    /// Edges in which a frame may still end that one has cut.
    cut_edges: u32,
    /// The beat that is offered is the first of a TLP that was offered to a shut gate.
    fresh: bool,
    /// A TLP has been taken in part.
    inside: bool,
    /// Edges of PCIe with `rst_pcie_i`.
    held: u32,
    /// Edges of PCIe without bus-master enable.
    slave: u32,
    /// When the first TLP was taken after the last reset.
    reborn: Option<Reborn>,
    /// Writes of registers, and stores, that were ever taken.
    all: (u32, u32),
    /// Writes of registers, and stores, that were taken since then.
    taken: (u32, u32),
    /// Those from the assertion of a reset to the first that is certainly behind it: nobody knows which side of it.
    doubtful: (u32, u32),
    /// Those of the last reset.
    doubted: (u32, u32),
    /// The next beat has the offset of a register that is written.
    address_next: bool,
    /// Registers that were written since a reset was asserted.
    written: Vec<u32>,
}

/// Of an upstream TLP's first DW: a memory request.
fn is_request(beat: &TlpBeat) -> bool {
    matches!(beat.data as u8, 0x00 | 0x20 | 0x40 | 0x60)
}

/// The BAR that a TLP hits, whatever the function.
fn bar(beat: &TlpBeat) -> u8 {
    beat.user & 7
}

impl ResetWatch {
    /// A reset is asserted, of either side.
    pub fn assert(&mut self, pcie: bool) {
        self.gate = Gate::Shutting(0);
        self.written.clear();
        self.doubtful = (0, 0);
        self.fresh = false;
        if pcie {
            (self.inside, self.address_next) = (false, false);
            self.function = false;
        }
    }

    /// A reset is under way, as far as the pins tell.
    pub fn resetting(&self) -> bool {
        self.gate != Gate::Open || self.function || self.cut_edges > 0
    }

    /// A shell begins a function-level reset.
    pub fn assert_function(&mut self) {
        self.function = true;
        self.written.clear();
    }

    /// It is through with it; what is offered or was taken in part may still be taken for a request of the time after.
    pub fn function_done(&mut self, at_ps: u64, offered: Option<&TlpBeat>) {
        (self.function, self.cut_edges) = (false, CUT_EDGES);
        self.reborn = Some(Reborn {
            at_ps,
            writes: self.all.0,
            stores: self.all.1,
        });
        self.taken = (0, 0);
        let one = |is: bool| u32::from(is);
        self.doubted = match offered {
            Some(beat) if !self.inside => (one(bar(beat) == 0), one(bar(beat) != 0)),
            _ => (0, 0),
        };
    }

    /// Part of a TLP has been taken, and the rest has not.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// When the first TLP was taken after a reset, once.
    pub fn take_reborn(&mut self) -> Option<Reborn> {
        self.reborn.take()
    }

    /// Register writes and stores that were taken since then, and how many more there may be.
    pub fn taken(&self) -> [(u32, u32); 2] {
        [self.taken, self.doubted]
    }

    /// Whether a register may have been written since a reset was asserted.
    pub fn was_written(&self, offset: u32) -> bool {
        self.written.contains(&offset)
    }

    /// A beat is offered from now on.
    pub fn offer(&mut self) {
        if self.gate == Gate::Shut && !self.inside {
            self.fresh = true;
        }
    }

    /// The NIC took a beat from the root complex.
    pub fn take(&mut self, at_ps: u64, beat: &TlpBeat) {
        if self.fresh && self.gate == Gate::Shut {
            self.gate = Gate::Open;
            self.reborn = Some(Reborn {
                at_ps,
                writes: self.all.0,
                stores: self.all.1,
            });
            self.taken = (0, 0);
            self.doubted = self.doubtful;
        }
        if self.address_next {
            // Nobody looks at more than the last few, and a driver writes hundreds when it is through.
            if self.written.len() < MOST_WRITTEN {
                self.written.push((beat.data as u32).swap_bytes());
            }
            self.address_next = false;
        }
        if !self.inside && matches!(beat.data as u8, 0x40 | 0x60) {
            let counts = if self.gate == Gate::Open {
                &mut self.taken
            } else {
                &mut self.doubtful
            };
            for counts in [counts, &mut self.all] {
                match bar(beat) {
                    0 => counts.0 += 1,
                    _ => counts.1 += 1,
                }
            }
            self.address_next = bar(beat) == 0;
        }
        self.fresh = false;
        self.inside = !beat.last;
    }

    /// An edge of the PCIe clock: what the NIC showed before it, and whether it is in the middle of a TLP upstream.
    pub fn edge(
        &mut self,
        rst_pcie: bool,
        bus_master: bool,
        offered: Option<&TlpBeat>,
        ready: bool,
        upstream_inside: bool,
    ) -> Result<(), String> {
        self.gate = match self.gate {
            Gate::Shutting(SHUT_EDGES) => Gate::Shut,
            Gate::Shutting(edges) => Gate::Shutting(edges + 1),
            other => other,
        };
        if rst_pcie && self.held > 0 && (offered.is_some() || ready) {
            return Err(format!(
                "a NIC in a reset of its PCIe side offers {offered:x?} or takes something (ready {ready}): \
                 its gates must be shut"
            ));
        }
        self.cut_edges = self.cut_edges.saturating_sub(1);
        self.held = if rst_pcie { self.held + 1 } else { 0 };
        self.slave = if bus_master { 0 } else { self.slave + 1 };
        if let Some(beat) = offered
            && !upstream_inside
            && self.slave > MASTER_EDGES
            && is_request(beat)
        {
            return Err(format!(
                "a memory request {} PCIe edges after bus-master enable was taken away: {beat:x?}",
                self.slave
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: TlpBeat = TlpBeat {
        data: 0x40,
        keep: 0xFF,
        last: true,
        user: 0,
    };

    fn edges(watch: &mut ResetWatch, count: u32) {
        for _ in 0..count {
            watch.edge(false, true, None, true, false).expect("silence");
        }
    }

    #[test]
    fn a_tlp_that_waited_at_the_open_gate_is_from_before() {
        let mut watch = ResetWatch::default();
        watch.offer();
        watch.assert(false);
        edges(&mut watch, SHUT_EDGES + 2);
        watch.take(1, &WRITE);
        assert_eq!(watch.take_reborn(), None);
        watch.offer();
        watch.take(2, &WRITE);
        let reborn = Reborn {
            at_ps: 2,
            writes: 1,
            stores: 0,
        };
        assert_eq!(watch.take_reborn(), Some(reborn));
        assert_eq!(watch.taken(), [(1, 0), (1, 0)]);
        assert!(!watch.resetting());
    }

    #[test]
    fn what_a_nic_in_reset_offers_is_found() {
        let mut watch = ResetWatch::default();
        watch.assert(true);
        watch
            .edge(true, true, Some(&WRITE), false, false)
            .expect("its gate shuts at this edge");
        let error = watch.edge(true, true, Some(&WRITE), false, false);
        assert!(error.unwrap_err().contains("gates must be shut"));
    }

    #[test]
    fn a_request_without_bus_master_enable_is_found() {
        let mut watch = ResetWatch::default();
        for _ in 0..MASTER_EDGES {
            let asks = watch.edge(false, false, Some(&WRITE), true, false);
            asks.expect("it may have been decided before");
        }
        let error = watch.edge(false, false, Some(&WRITE), true, false);
        assert!(error.unwrap_err().contains("bus-master enable"));
    }
}
