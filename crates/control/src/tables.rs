// SPDX-License-Identifier: Apache-2.0
//! The lookup's tables and the next hops in them, with the writes that keep hardware equal.

use std::collections::VecDeque;
use std::net::IpAddr;

use fib::{Fib, NextHop, NextHopId, Op, Port, Prefix4, Prefix6};

use crate::action::{Action, Change, Write};
use crate::address::Subnet;
use crate::error::Error;
use crate::neighbours::Key;

/// Next hop of routes to the host.
const HOST: NextHopId = NextHopId(1);
/// Next hop of routes to nowhere.
const DISCARD: NextHopId = NextHopId(2);
const FIRST_NEIGHBOUR: u16 = 3;
const LAST: u16 = 4095;

/// What a next hop is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Host,
    Discard,
    Neighbour(Key),
}

#[derive(Clone, Debug)]
pub(crate) struct Tables {
    fib: Fib,
    hops: Vec<Option<Hop>>,
    /// The one that is free for the longest time first: frames may still be under way with it.
    free: VecDeque<u16>,
}

fn emit(out: &mut Vec<Action>, change: Change, ops: &[Op]) {
    out.push(Action::Change(change));
    out.extend(ops.iter().map(|op| Action::Write(Write::from(op))));
}

impl Tables {
    /// Empty tables; [`Tables::start`] is to follow.
    pub fn new(config: fib::Config) -> Result<Self, Error> {
        let mut hops = vec![None; usize::from(LAST) + 1];
        hops[usize::from(HOST.0)] = Some(Hop::Host);
        hops[usize::from(DISCARD.0)] = Some(Hop::Discard);
        Ok(Self {
            fib: Fib::new(config)?,
            hops,
            free: (FIRST_NEIGHBOUR..=LAST).collect(),
        })
    }

    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Sets the next hops that are always there.
    pub fn start(&mut self, out: &mut Vec<Action>) -> Result<(), Error> {
        for (id, port) in [(HOST, Port::Host), (DISCARD, Port::Discard)] {
            let next_hop = NextHop { port, mac: None };
            let ops = self.fib.set_next_hop(id, next_hop)?;
            emit(out, Change::NextHop(id, Some(next_hop)), ops);
        }
        Ok(())
    }

    /// The next hop of an address: as the hardware finds it, or where full tables have given the
    /// address up to the host, by the routes.
    pub fn find(&self, address: IpAddr) -> Option<Hop> {
        let found = match address {
            IpAddr::V4(address) => self.fib.lookup4(address.into()),
            IpAddr::V6(address) => self.fib.lookup6(address.into()),
        }?;
        let id = match (found, address) {
            (NextHopId::SHED, IpAddr::V4(address)) => self.fib.best4(address.into()),
            (NextHopId::SHED, IpAddr::V6(address)) => self.fib.best6(address.into()),
            _ => Some(found),
        }?;
        self.hops[usize::from(id.0)]
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Subnet) -> Option<NextHopId> {
        match prefix.address {
            IpAddr::V4(address) => self.fib.get4(Prefix4::around(address.into(), prefix.len)),
            IpAddr::V6(address) => self.fib.get6(Prefix6::around(address.into(), prefix.len)),
        }
    }

    /// A next hop for a neighbour, not resolved.
    pub fn add_neighbour(&mut self, key: Key, out: &mut Vec<Action>) -> Result<NextHopId, Error> {
        let id = NextHopId(self.free.pop_front().ok_or(Error::NextHopsFull)?);
        self.hops[usize::from(id.0)] = Some(Hop::Neighbour(key));
        self.set_mac(id, None, out)?;
        Ok(id)
    }

    /// Sets or clears a neighbour's MAC address.
    pub fn set_mac(
        &mut self,
        id: NextHopId,
        mac: Option<[u8; 6]>,
        out: &mut Vec<Action>,
    ) -> Result<(), Error> {
        let Some(Hop::Neighbour(key)) = self.hops[usize::from(id.0)] else {
            return Ok(());
        };
        let port = Port::Network(key.port);
        let next_hop = NextHop { port, mac };
        let ops = self.fib.set_next_hop(id, next_hop)?;
        emit(out, Change::NextHop(id, Some(next_hop)), ops);
        Ok(())
    }

    /// Removes the next hop of a neighbour that no route needs any more.
    pub fn remove_neighbour(&mut self, id: NextHopId, out: &mut Vec<Action>) -> Result<(), Error> {
        let ops = self.fib.remove_next_hop(id)?;
        // Frames that found the route before it went must not meet a next hop of another neighbour.
        let drain = [Op::Drain];
        emit(out, Change::NextHop(id, None), &[&drain[..], ops].concat());
        self.hops[usize::from(id.0)] = None;
        self.free.push_back(id.0);
        Ok(())
    }

    /// Sets a route.
    pub fn announce(
        &mut self,
        prefix: Subnet,
        id: NextHopId,
        out: &mut Vec<Action>,
    ) -> Result<(), Error> {
        match prefix.address {
            IpAddr::V4(address) => {
                let prefix = Prefix4::around(address.into(), prefix.len);
                let ops = self.fib.announce4(prefix, id)?;
                emit(out, Change::Route4(prefix, Some(id)), ops);
            }
            IpAddr::V6(address) => {
                let prefix = Prefix6::around(address.into(), prefix.len);
                let ops = self.fib.announce6(prefix, id)?;
                emit(out, Change::Route6(prefix, Some(id)), ops);
            }
        }
        Ok(())
    }

    pub fn announce_host(&mut self, prefix: Subnet, out: &mut Vec<Action>) -> Result<(), Error> {
        self.announce(prefix, HOST, out)
    }

    pub fn announce_discard(&mut self, prefix: Subnet, out: &mut Vec<Action>) -> Result<(), Error> {
        self.announce(prefix, DISCARD, out)
    }

    /// Takes a route out.
    pub fn withdraw(&mut self, prefix: Subnet, out: &mut Vec<Action>) -> Result<(), Error> {
        match prefix.address {
            IpAddr::V4(address) => {
                let prefix = Prefix4::around(address.into(), prefix.len);
                let ops = self.fib.withdraw4(prefix)?;
                emit(out, Change::Route4(prefix, None), ops);
            }
            IpAddr::V6(address) => {
                let prefix = Prefix6::around(address.into(), prefix.len);
                let ops = self.fib.withdraw6(prefix)?;
                emit(out, Change::Route6(prefix, None), ops);
            }
        }
        Ok(())
    }
}
