// SPDX-License-Identifier: Apache-2.0
//! The routes, the next hops and the image, behind one interface.

use crate::error::Error;
use crate::hw::{Hw, Place, unit};
use crate::image::{Image, Op};
use crate::layout::{self, Bits, HOST_BANKS, Leaf, MEMORIES, Memory, NEXT_HOPS};
use crate::metrics::{MemoryUse, Metrics};
use crate::prefix::{Prefix4, Prefix6};
use crate::runvec::RunVec;
use crate::sram22::Sram22;
use crate::tcam::Tcam;
use crate::trie6::Trie6;

/// Depths of the IPv4 lookup's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config4 {
    /// Directory of run vectors, leaves and groups.
    RunVec {
        /// Words of the leaf memory, at most 2^22.
        leaves: u32,
        /// Groups of 256 leaves, at most 2^17.
        groups: u32,
        /// Entries of each of the four exact-match banks for /32: a power of two, or 0 for none.
        hosts: u32,
    },
    /// The dissertation's SRAM.
    Sram22,
}

/// Depths of the IPv6 lookup's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config6 {
    /// Trie up to /64, exact match for /128, TCAM for the lengths between.
    Trie {
        /// Nodes of levels 1 to 7, at most 2^20 each.
        nodes: [u32; layout::V6_LEVELS - 1],
        /// Words of the leaf memory, at most 2^20.
        leaves: u32,
        /// Entries of each of the four exact-match banks for /128: a power of two, or 0 for none.
        hosts: u32,
        /// TCAM entries.
        tcam: u32,
    },
    /// A TCAM alone, as the dissertation built it: it compares the first 64 address bits.
    Tcam {
        /// Entries; the dissertation has 32.
        entries: u32,
    },
}

/// What the switch was built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// IPv4.
    pub v4: Config4,
    /// IPv6.
    pub v6: Config6,
}

impl Default for Config {
    /// Room for 1.3 million IPv4 and 300,000 IPv6 routes of a real table.
    fn default() -> Self {
        Self {
            v4: Config4::RunVec {
                leaves: 1 << 21,
                groups: 1 << 12,
                hosts: 1 << 12,
            },
            v6: Config6::Trie {
                nodes: [
                    1 << 13,
                    1 << 16,
                    1 << 16,
                    1 << 16,
                    1 << 17,
                    1 << 15,
                    1 << 14,
                ],
                leaves: 1 << 20,
                hosts: 1 << 10,
                tcam: 128,
            },
        }
    }
}

impl Config {
    /// The switch of the dissertation: 4 MB SRAM for IPv4, TCAM with 32 entries for IPv6.
    pub const DISSERTATION: Config = Config {
        v4: Config4::Sram22,
        v6: Config6::Tcam { entries: 32 },
    };

    pub(crate) fn depths(&self) -> Result<[u32; MEMORIES], Error> {
        let mut depths = [0; MEMORIES];
        let mut set = |memory: Memory, depth: u32, most: u32| {
            if depth > most {
                return Err(Error::Depth {
                    memory,
                    depth,
                    reason: "its address field is narrower",
                });
            }
            depths[memory as usize] = depth;
            Ok(())
        };
        let banks = |banks: [Memory; HOST_BANKS], depth: u32| {
            if depth == 0 || depth.is_power_of_two() {
                return Ok(banks);
            }
            let reason = "banks have a power of two of entries";
            Err(Error::Depth {
                memory: banks[0],
                depth,
                reason,
            })
        };
        set(Memory::NextHop, NEXT_HOPS, NEXT_HOPS)?;
        set(Memory::Register, 2, 2)?;
        match self.v4 {
            Config4::RunVec {
                leaves,
                groups,
                hosts,
            } => {
                set(Memory::V4Dir, 1 << layout::V4_DIR_INDEX_BITS, u32::MAX)?;
                set(Memory::V4Leaf, leaves, 1 << layout::V4_DIR_BASE.width)?;
                let most = 1 << layout::LEAF_GROUP.width;
                let words = groups.min(most + 1) * unit(Memory::V4Group);
                set(Memory::V4Group, words, most * unit(Memory::V4Group))?;
                for bank in banks(Memory::V4_HOST, hosts)? {
                    set(bank, hosts, 1 << 31)?;
                }
            }
            Config4::Sram22 => {
                set(Memory::Sram22, 1 << layout::SRAM22_INDEX_BITS, u32::MAX)?;
                set(
                    Memory::Sram22NextHop,
                    1 << layout::SRAM22_CODE_BITS,
                    u32::MAX,
                )?;
            }
        }
        match self.v6 {
            Config6::Trie {
                nodes,
                leaves,
                hosts,
                tcam,
            } => {
                set(Memory::V6Node0, 1 << layout::V6_DIRECT_BITS, u32::MAX)?;
                for (memory, depth) in Memory::V6_NODE[1..].iter().zip(nodes) {
                    set(*memory, depth, 1 << layout::V6_NODE_CHILD_BASE.width)?;
                }
                set(Memory::V6Leaf, leaves, 1 << layout::V6_NODE_LEAF_BASE.width)?;
                for bank in banks(Memory::V6_HOST, hosts)? {
                    set(bank, hosts, 1 << 31)?;
                }
                set(Memory::V6Tcam, tcam, 1 << 16)?;
            }
            Config6::Tcam { entries } => set(Memory::V6Tcam, entries, 1 << 16)?,
        }
        Ok(depths)
    }
}

/// Where a next hop's frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Port {
    /// A network port, 0 to 15.
    Network(u8),
    /// The host port: the router's own addresses, subnets whose neighbours are to be resolved.
    Host,
    /// Nowhere; dropped and counted.
    Discard,
}

impl Port {
    fn code(self) -> Result<u8, Error> {
        match self {
            Port::Network(port) if port < layout::PORT_HOST => Ok(port),
            Port::Network(port) => Err(Error::PortRange { port }),
            Port::Host => Ok(layout::PORT_HOST),
            Port::Discard => Ok(layout::PORT_DISCARD),
        }
    }
}

/// A next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Egress.
    pub port: Port,
    /// The neighbour's MAC address; `None` until it is known, and frames go to the host port.
    pub mac: Option<[u8; 6]>,
}

/// Id of a next hop: 1 to 4095.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHopId(pub u16);

impl NextHopId {
    /// What a lookup finds in a shed word: the host port, by none of the next hops that are set.
    pub const SHED: NextHopId = NextHopId(Leaf::SHED.next_hop());
}

/// How many shed words are tried in vain after a change.
const RESTORES: u32 = 8;

#[derive(Debug, Clone)]
enum Table4 {
    RunVec(Box<RunVec>),
    Sram22(Sram22),
}

#[derive(Debug, Clone)]
struct Table6 {
    trie: Option<Box<Trie6>>,
    hosts: Option<crate::exact::Exact>,
    tcam: Tcam,
}

#[derive(Debug, Clone, Copy, Default)]
struct NextHopState {
    port: Option<u8>,
    routes: u32,
}

/// Routes of both families, next hops, and the memories that hold them.
///
/// Every change returns the ordered list of what is to be written; [`Op::Drain`] marks where
/// lookups under way have to end first. Between any two entries of a list each address is answered
/// with what it was before the change or with what it is after it.
///
/// A withdrawal is never refused for want of room, although it can need more than it frees. Where
/// there is none, the /18 (IPv4) or the trie's node (IPv6) that needs it is *shed*: all its
/// addresses are answered by [`NextHopId::SHED`], the host port, whatever is set below it, until a
/// later change leaves room; that is tried after each change, with writes in the same list. Single
/// hosts and what is in the TCAM are not concerned. [`Fib::best4`] and [`Fib::best6`] know the
/// routes themselves.
#[derive(Debug, Clone)]
pub struct Fib {
    hw: Hw,
    v4: Table4,
    v6: Table6,
    next_hops: Vec<NextHopState>,
    routes4: u32,
    routes6: u32,
    metrics: Metrics,
    /// The shed word that was tried last.
    tried: Option<Place>,
}

impl Fib {
    /// An empty table.
    pub fn new(config: Config) -> Result<Self, Error> {
        let hw = Hw::new(&config.depths()?);
        let v4 = match config.v4 {
            Config4::RunVec { .. } => Table4::RunVec(Box::new(RunVec::new(&hw))),
            Config4::Sram22 => Table4::Sram22(Sram22::new()),
        };
        let trie = matches!(config.v6, Config6::Trie { .. }).then(|| Box::new(Trie6::new()));
        let tcam = Tcam::new(if trie.is_some() {
            128
        } else {
            layout::V6_TRIE_MAX_LEN
        });
        let hosts = crate::exact::Exact::new(&hw, Memory::V6_HOST, 128);
        let next_hops = vec![NextHopState::default(); NEXT_HOPS as usize];
        let v6 = Table6 { trie, hosts, tcam };
        let metrics = Metrics::default();
        Ok(Self {
            hw,
            v4,
            v6,
            next_hops,
            routes4: 0,
            routes6: 0,
            metrics,
            tried: None,
        })
    }

    /// The memories as they are after all changes so far.
    pub fn image(&self) -> &Image {
        &self.hw.image
    }

    /// IPv4 routes.
    pub fn routes4(&self) -> u32 {
        self.routes4
    }

    /// IPv6 routes.
    pub fn routes6(&self) -> u32 {
        self.routes6
    }

    /// Words that are shed, at most: a few may not be any more.
    pub fn shed(&self) -> usize {
        self.hw.shed()
    }

    /// Cost of the changes so far.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Starts counting anew; returns what was counted.
    pub fn clear_metrics(&mut self) -> Metrics {
        std::mem::take(&mut self.metrics)
    }

    /// Use of every memory that the build has.
    pub fn usage(&self) -> Vec<MemoryUse> {
        let image = &self.hw.image;
        Memory::ALL
            .into_iter()
            .filter(|&memory| image.depth(memory) != 0)
            .map(|memory| {
                let capacity = image.depth(memory);
                let (used, held) = match (self.hw.space(memory), memory) {
                    (Some(space), _) => (space.used() * unit(memory), space.held() * unit(memory)),
                    (None, Memory::V4Dir | Memory::V6Node0 | Memory::Sram22) => {
                        (capacity, capacity)
                    }
                    (None, _) => {
                        let used = (0..capacity).filter(|&addr| image.read(memory, addr) != [0; 3]);
                        (used.count() as u32, capacity)
                    }
                };
                MemoryUse {
                    memory,
                    capacity,
                    used,
                    held,
                }
            })
            .collect()
    }

    /// Sets a next hop, or changes its MAC address. Its port can change while it has no routes.
    pub fn set_next_hop(&mut self, id: NextHopId, next_hop: NextHop) -> Result<&[Op], Error> {
        let port = next_hop.port.code()?;
        let state = self.next_hop_state(id)?;
        if state.routes != 0 && state.port != Some(port) {
            return Err(Error::NextHopPortFixed {
                id: id.0,
                routes: state.routes,
            });
        }
        state.port = Some(port);
        let mut word: Bits = [0; 3];
        layout::NEXT_HOP_RESOLVED.set(&mut word, u64::from(next_hop.mac.is_some()));
        layout::NEXT_HOP_PORT.set(&mut word, port.into());
        let mac = next_hop.mac.unwrap_or_default();
        let mac = mac.iter().fold(0, |mac, &byte| mac << 8 | u64::from(byte));
        layout::NEXT_HOP_MAC.set(&mut word, mac);
        self.hw.begin(false);
        self.hw.write(Memory::NextHop, id.0.into(), word);
        Ok(self.hw.commit())
    }

    /// Removes a next hop without routes.
    pub fn remove_next_hop(&mut self, id: NextHopId) -> Result<&[Op], Error> {
        let state = self.next_hop_state(id)?;
        if state.port.is_none() {
            return Err(Error::NextHopUnknown { id: id.0 });
        }
        if state.routes != 0 {
            return Err(Error::NextHopInUse {
                id: id.0,
                routes: state.routes,
            });
        }
        state.port = None;
        self.hw.begin(false);
        self.hw.write(Memory::NextHop, id.0.into(), [0; 3]);
        Ok(self.hw.commit())
    }

    fn next_hop_state(&mut self, id: NextHopId) -> Result<&mut NextHopState, Error> {
        let last = (NEXT_HOPS - 1) as u16;
        if id.0 == 0 || id.0 > last {
            return Err(Error::NextHopRange { id: id.0, last });
        }
        Ok(&mut self.next_hops[usize::from(id.0)])
    }

    fn leaf(&mut self, id: NextHopId) -> Result<Leaf, Error> {
        match self.next_hop_state(id)?.port {
            Some(port) => Ok(Leaf::new(port, id.0)),
            None => Err(Error::NextHopUnknown { id: id.0 }),
        }
    }

    /// Sets a route, in place of the one to the same prefix if there is one.
    pub fn announce4(&mut self, prefix: Prefix4, next_hop: NextHopId) -> Result<&[Op], Error> {
        let result = self
            .leaf(next_hop)
            .and_then(|leaf| self.change4(prefix, leaf));
        self.finish(result)
    }

    /// Takes a route out.
    pub fn withdraw4(&mut self, prefix: Prefix4) -> Result<&[Op], Error> {
        let result = match self.get4(prefix) {
            None => Err(Error::NoSuchRoute {
                prefix: prefix.to_string(),
            }),
            Some(_) => self.change4(prefix, Leaf::NONE),
        };
        self.finish(result)
    }

    /// Sets a route, in place of the one to the same prefix if there is one.
    pub fn announce6(&mut self, prefix: Prefix6, next_hop: NextHopId) -> Result<&[Op], Error> {
        let result = self
            .leaf(next_hop)
            .and_then(|leaf| self.change6(prefix, leaf));
        self.finish(result)
    }

    /// Takes a route out.
    pub fn withdraw6(&mut self, prefix: Prefix6) -> Result<&[Op], Error> {
        let result = match self.get6(prefix) {
            None => Err(Error::NoSuchRoute {
                prefix: prefix.to_string(),
            }),
            Some(_) => self.change6(prefix, Leaf::NONE),
        };
        self.finish(result)
    }

    /// The next hop of exactly this route.
    pub fn get4(&self, prefix: Prefix4) -> Option<NextHopId> {
        answer(self.leaf4(prefix))
    }

    /// The next hop of exactly this route.
    pub fn get6(&self, prefix: Prefix6) -> Option<NextHopId> {
        answer(self.leaf6(prefix))
    }

    /// The next hop of the longest route to an address, also where words are shed. This asks for
    /// every length.
    pub fn best4(&self, addr: u32) -> Option<NextHopId> {
        let mut lengths = (0..=32).rev();
        lengths.find_map(|len| self.get4(Prefix4::around(addr, len)))
    }

    /// The next hop of the longest route to an address, also where words are shed. This asks for
    /// every length.
    pub fn best6(&self, addr: u128) -> Option<NextHopId> {
        let mut lengths = (0..=128).rev();
        lengths.find_map(|len| self.get6(Prefix6::around(addr, len)))
    }

    /// The next hop of an address, as the hardware finds it.
    pub fn lookup4(&self, addr: u32) -> Option<NextHopId> {
        answer(self.hw.image.lookup4(addr))
    }

    /// The next hop of an address, as the hardware finds it.
    pub fn lookup6(&self, addr: u128) -> Option<NextHopId> {
        answer(self.hw.image.lookup6(addr))
    }

    fn leaf4(&self, prefix: Prefix4) -> Leaf {
        match &self.v4 {
            Table4::RunVec(table) => table.get(&self.hw, prefix),
            Table4::Sram22(table) => table.get(&self.hw, prefix),
        }
    }

    fn leaf6(&self, prefix: Prefix6) -> Leaf {
        match (prefix.len(), &self.v6) {
            (0, _) => self
                .hw
                .image
                .leaf(Memory::Register, layout::REGISTER_DEFAULT6),
            (
                1..=64,
                Table6 {
                    trie: Some(trie), ..
                },
            ) => trie.get(&self.hw, prefix),
            (
                128,
                Table6 {
                    hosts: Some(hosts), ..
                },
            ) => hosts.get(&self.hw, prefix.addr()),
            _ => Tcam::get(&self.hw, prefix),
        }
    }

    fn change4(&mut self, prefix: Prefix4, leaf: Leaf) -> Result<(), Error> {
        let old = self.leaf4(prefix);
        self.hw.begin(leaf == Leaf::NONE);
        match &mut self.v4 {
            Table4::RunVec(table) => table.set(&mut self.hw, prefix, leaf)?,
            Table4::Sram22(table) => table.set(&mut self.hw, prefix, leaf)?,
        }
        self.routes4 += u32::from(leaf != Leaf::NONE);
        self.routes4 -= u32::from(old != Leaf::NONE);
        self.count_routes(old, leaf);
        Ok(())
    }

    fn change6(&mut self, prefix: Prefix6, leaf: Leaf) -> Result<(), Error> {
        let old = self.leaf6(prefix);
        let hw = &mut self.hw;
        hw.begin(leaf == Leaf::NONE);
        match (prefix.len(), &mut self.v6) {
            (0, _) => hw.write_leaf(Memory::Register, layout::REGISTER_DEFAULT6, leaf),
            (
                1..=64,
                Table6 {
                    trie: Some(trie), ..
                },
            ) => trie.set(hw, prefix, leaf)?,
            (
                128,
                Table6 {
                    hosts: Some(hosts), ..
                },
            ) => {
                if leaf == Leaf::NONE {
                    hosts.remove(hw, prefix.addr());
                } else {
                    hosts.set(hw, prefix.addr(), leaf)?;
                }
            }
            (_, Table6 { tcam, .. }) => {
                if leaf == Leaf::NONE {
                    Tcam::remove(hw, prefix);
                } else {
                    tcam.set(hw, prefix, leaf)?;
                }
            }
        }
        self.routes6 += u32::from(leaf != Leaf::NONE);
        self.routes6 -= u32::from(old != Leaf::NONE);
        self.count_routes(old, leaf);
        Ok(())
    }

    fn count_routes(&mut self, old: Leaf, new: Leaf) {
        if new != Leaf::NONE {
            self.next_hops[usize::from(new.next_hop())].routes += 1;
        }
        if old != Leaf::NONE {
            self.next_hops[usize::from(old.next_hop())].routes -= 1;
        }
    }

    fn finish(&mut self, result: Result<(), Error>) -> Result<&[Op], Error> {
        match result {
            Ok(()) => {
                self.hw.commit();
                self.restore();
                let ops = self.hw.ops();
                self.metrics.count(ops);
                Ok(ops)
            }
            Err(error) => {
                self.hw.rollback();
                self.metrics.refused += 1;
                Err(error)
            }
        }
    }
}

impl Fib {
    /// Gives shed words their routes back where there is room.
    fn restore(&mut self) {
        let mut failures = 0;
        for _ in 0..self.hw.shed() {
            let Some(place) = self.hw.next_shed(self.tried) else {
                break;
            };
            self.tried = Some(place);
            self.hw.resume();
            let result = match (place, &self.v4, &self.v6.trie) {
                (Place::V4(index), Table4::RunVec(table), _) => table.restore(&mut self.hw, index),
                (Place::V6(level, key), _, Some(trie)) => trie.restore(&mut self.hw, level, key),
                _ => Ok(()),
            };
            if result.is_ok() {
                self.hw.commit();
                self.hw.remove_shed(place);
            } else {
                self.hw.rollback();
                failures += 1;
                if failures == RESTORES {
                    break;
                }
            }
        }
    }
}

fn answer(leaf: Leaf) -> Option<NextHopId> {
    (leaf != Leaf::NONE).then(|| NextHopId(leaf.next_hop()))
}
