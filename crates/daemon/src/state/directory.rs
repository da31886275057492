// SPDX-License-Identifier: Apache-2.0
//! Live streams by the addresses of their ends, and where each shows on the notice pages: who gets a socket from another
//! process sees there that it is no stream's, and need not ask.

use std::collections::HashMap;
use std::net::SocketAddr;

use ipc::protocol::notice_page;

use super::shown::Shown;

/// Client and server.
pub type Ends = (SocketAddr, SocketAddr);

/// Where the server of a stream is.
#[derive(Debug, Clone, Copy)]
pub enum Server {
    /// On this machine, the client anywhere.
    Here,
    /// On another one, the client on this.
    Elsewhere,
}

/// Numbers of streams' channels.
#[derive(Debug)]
pub struct Directory {
    here: HashMap<Ends, u64>,
    elsewhere: HashMap<Ends, u64>,
    /// Where they are on the notice pages.
    pub shown: Shown,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            here: HashMap::new(),
            elsewhere: HashMap::new(),
            shown: Shown::new(notice_page::PLACES),
        }
    }
}

impl Directory {
    fn map(&mut self, server: Server) -> &mut HashMap<Ends, u64> {
        match server {
            Server::Here => &mut self.here,
            Server::Elsewhere => &mut self.elsewhere,
        }
    }

    /// The stream between two ends.
    pub fn get(&self, server: Server, ends: &Ends) -> Option<u64> {
        let map = match server {
            Server::Here => &self.here,
            Server::Elsewhere => &self.elsewhere,
        };
        map.get(ends).copied()
    }

    /// One more; the latest between two ends is the one that is found.
    pub fn insert(&mut self, server: Server, ends: Ends, number: u64) {
        self.remove(server, &ends);
        self.map(server).insert(ends, number);
        self.shown.add(place(&ends));
    }

    /// Takes the stream between two ends out.
    pub fn remove(&mut self, server: Server, ends: &Ends) -> Option<u64> {
        let number = self.map(server).remove(ends)?;
        self.shown.remove(place(ends));
        Some(number)
    }

    #[cfg(test)]
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.here.values().chain(self.elsewhere.values()).copied()
    }
}

fn place((client, server): &Ends) -> usize {
    notice_page::place(client.port(), server.port())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A page that was begun at any moment and has had all changes since shows what there is.
    #[test]
    fn a_page_shows_the_streams_that_there_are() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        // Ports whose places are alike, of the same stream or of two.
        let ends = [
            (at(40_000), at(80)),
            (at(80), at(40_000)),
            (at(40_000 ^ 16_384), at(80)),
            (at(40_001), at(80)),
        ];
        let mut directory = Directory::default();
        let mut pages: Vec<BTreeSet<usize>> = Vec::new();
        let mut random = 1_u32;
        for number in 0..2_000 {
            pages.push(directory.shown.all().collect());
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let chosen = ends[(random >> 20) as usize % ends.len()];
            let server = match random >> 30 & 1 {
                0 => Server::Here,
                _ => Server::Elsewhere,
            };
            match random >> 31 {
                0 => directory.insert(server, chosen, number),
                _ => drop(directory.remove(server, &chosen)),
            }
            let changes = directory.shown.take_changes();
            for page in &mut pages {
                for &(place, there) in &changes {
                    match there {
                        true => page.insert(place),
                        false => page.remove(&place),
                    };
                }
            }
            let shown: BTreeSet<usize> = directory.shown.all().collect();
            assert!(pages.iter().all(|page| *page == shown));
        }
    }
}
