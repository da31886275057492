// SPDX-License-Identifier: Apache-2.0
//! What lines take from those behind them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Action, Line, Policy, Role, Rule};

/// The first address behind IPv4 in IPv6's clothes.
const BEHIND_MAPPED: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 1, 0, 0, 0);

impl Policy {
    /// Whether nothing in one part of a program can be accelerated, by one line or by several together. Only for a
    /// policy [of one program](Self::of_program).
    #[must_use]
    pub fn leaves_all(&self, role: Role) -> bool {
        let mine = |line: &&Line| line.rule.role.is_none_or(|only| only == role);
        let mine: Vec<&Rule> = self
            .lines
            .iter()
            .filter(mine)
            .map(|line| &line.rule)
            .collect();
        // Between two borders all addresses, or ports, have the same lines.
        let mut addresses = vec![
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V6(BEHIND_MAPPED),
        ];
        for network in mine.iter().filter_map(|rule| rule.network) {
            addresses.push(network.first());
            addresses.extend(network.behind());
        }
        addresses.iter().all(|address| {
            let here = mine.iter().filter(|rule| rule.is_at(*address));
            let here: Vec<&Rule> = here.copied().collect();
            let mut ports = vec![1];
            for range in here.iter().filter_map(|rule| rule.ports) {
                ports.push(range.first);
                ports.extend(range.last.checked_add(1));
            }
            ports.iter().all(|port| {
                let address = SocketAddr::new(*address, *port);
                let decides = here.iter().find(|rule| rule.fits(role, address));
                decides.is_some_and(|rule| rule.action == Action::Kernel)
            })
        })
    }

    /// Lines that can decide nothing, each with one before it that takes all that it fits.
    pub fn shadowed(&self) -> impl Iterator<Item = (&Line, &Line)> {
        self.lines.iter().enumerate().filter_map(|(at, line)| {
            let before = self.lines[..at].iter();
            let by = { before }.find(|other| other.rule.covers(&line.rule))?;
            Some((line, by))
        })
    }
}

impl Rule {
    /// Whether it fits all that another one fits.
    fn covers(&self, other: &Self) -> bool {
        let programs = match (&self.program, &other.program) {
            (None, _) => true,
            (Some(mine), Some(its)) if mine.open => its.name.starts_with(&mine.name),
            (Some(mine), Some(its)) => !its.open && its.name == mine.name,
            (Some(_), None) => false,
        };
        let networks = match (self.network, other.network) {
            (None, _) => true,
            (Some(mine), Some(its)) => mine.has_all(&its),
            (Some(_), None) => false,
        };
        let (first, last) = other
            .ports
            .map_or((1, u16::MAX), |its| (its.first, its.last));
        let mine = self.ports;
        programs
            && networks
            && self.role.is_none_or(|only| other.role == Some(only))
            && mine.is_none_or(|mine| mine.first <= first && last <= mine.last)
    }

    fn is_at(&self, address: IpAddr) -> bool {
        self.network.is_none_or(|network| network.has(address))
    }
}
