// SPDX-License-Identifier: Apache-2.0
//! A cable between two NICs, into which somebody else can put frames, too.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use softnic::{Config, Identity, Transport};

use super::Side;

/// One way of a cable.
#[derive(Clone, Default)]
pub struct Way(Arc<Mutex<Frames>>);

#[derive(Default)]
pub struct Frames {
    pub waiting: VecDeque<Vec<u8>>,
    /// All that have gone, unless it was forged.
    pub seen: Vec<Vec<u8>>,
    pub sent: usize,
    /// Each so many frames one is lost.
    pub loses: Option<usize>,
}

impl Way {
    pub fn with<R>(&self, body: impl FnOnce(&mut Frames) -> R) -> R {
        body(&mut self.0.lock().expect("nobody panics"))
    }
}

pub struct Cable {
    pub identity: Identity,
    pub out: Way,
    pub back: Way,
}

impl Transport for Cable {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.out.with(|way| {
            way.sent += 1;
            way.seen.push(frame.to_vec());
            if way.loses.is_none_or(|each| way.sent % each != 0) {
                way.waiting.push_back(frame.to_vec());
            }
        });
        Ok(())
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let next = self.back.with(|way| way.waiting.pop_front());
        let came = next.is_some();
        if let Some(next) = next {
            *frame = next;
            frame.resize(frame.len().max(60), 0);
        }
        Ok(came)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Two machines at the ends of a cable: what `ways[i]` has comes from machine i.
pub fn joined(config: &Config) -> ([Side; 2], [Way; 2]) {
    let ways = [Way::default(), Way::default()];
    let sides = [0, 1].map(|index| {
        let ip = 0x0A00_0001 + index as u32;
        let cable = Cable {
            identity: Identity {
                mac: 0x0200_0000_0000 | u64::from(ip),
                ip,
            },
            out: ways[index].clone(),
            back: ways[1 - index].clone(),
        };
        Side::new(config.clone(), cable)
    });
    (sides, ways)
}
