// SPDX-License-Identifier: Apache-2.0
//! Whose turn it is to hand stores to the NIC.

use std::collections::BTreeMap;

use crate::remote::nic::Nic;

/// Numbers of sessions that there can be.
const SESSIONS: usize = 1 + u8::MAX as usize;

/// Of each session, the number with which the next turn begins.
#[derive(Clone, Debug)]
pub struct Turns([u64; SESSIONS]);

impl Default for Turns {
    fn default() -> Self {
        Self([0; SESSIONS])
    }
}

impl Turns {
    /// Lets all have their `turn`, which says whether anything was done; so does this. Who fills a session up in one turn is the last of that session in the next one: whoever has
    /// much to say keeps nobody from saying a little, and a peer that takes nothing keeps nobody from others.
    pub fn take<T>(
        &mut self,
        all: &mut BTreeMap<u64, T>,
        session: impl Fn(&T) -> u8,
        nic: &mut dyn Nic,
        mut turn: impl FnMut(u64, &mut T, &mut dyn Nic) -> bool,
    ) -> bool {
        let from = self.0;
        let mut filled = [false; SESSIONS];
        let mut busy = false;
        for behind in [false, true] {
            for (&number, one) in &mut *all {
                let of = session(one);
                let at = usize::from(of);
                if (number < from[at]) != behind {
                    continue;
                }
                if turn(number, one, nic) {
                    busy = true;
                    if !filled[at] && !nic.can_store(of) {
                        filled[at] = true;
                        self.0[at] = number.wrapping_add(1);
                    }
                }
            }
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;
    use std::time::Duration;

    use shm::channel::{Carrier, Channel, End};
    use softnic::{Error, Event, Identity, PeerAddress, Share, Shared};

    use super::*;
    use crate::remote::carry::Carried;
    use crate::remote::nic::{Memory, WindowId};

    /// Takes so many stores of each session in a turn, and counts them by window. A window's session is its number's tens.
    struct Narrow {
        room: [usize; 2],
        taken: BTreeMap<WindowId, usize>,
    }

    impl Nic for Narrow {
        fn identity(&self) -> Identity {
            Identity { mac: 0, ip: 0 }
        }
        fn reserve_session(&mut self) -> Result<u8, Error> {
            Ok(1)
        }
        fn open_session(&mut self, _: u8, _: &PeerAddress) -> Result<(), Error> {
            Ok(())
        }
        fn close_session(&mut self, _: u8) {}
        fn share(&mut self, _: &Memory, _: &Share) -> Result<Shared, Error> {
            Ok(Shared { key: 0, tag: 0 })
        }
        fn unshare(&mut self, _: u16) {}
        fn map(&mut self, _: u8, _: &Shared, _: u64, _: u64) -> Result<WindowId, Error> {
            Ok(0)
        }
        fn unmap(&mut self, _: WindowId) {}
        fn can_store(&self, session: u8) -> bool {
            self.room[usize::from(session)] > 0
        }
        fn store(&mut self, window: WindowId, _: u64, data: &[u8]) -> Result<usize, Error> {
            let room = &mut self.room[window as usize / 10];
            if *room == 0 {
                return Ok(0);
            }
            *room -= 1;
            *self.taken.entry(window).or_default() += 1;
            Ok(data.len())
        }
        fn load(&mut self, _: WindowId, _: u64, _: usize) -> Result<u64, Error> {
            Ok(0)
        }
        fn flush(&mut self, _: u8, _: u64) -> Result<(), Error> {
            Ok(())
        }
        fn kick(&mut self) {}
        fn poll(&mut self) -> Result<bool, Error> {
            Ok(false)
        }
        fn next_event(&mut self) -> Option<Event> {
            None
        }
        fn deadline(&self) -> Option<Duration> {
            None
        }
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }

    #[test]
    fn nobody_waits_for_those_who_have_much_to_say() {
        let mut ends = BTreeMap::new();
        let mut channels = Vec::new();
        // Of two sessions, in turns.
        for number in 0..10 {
            let (channel, _) = Channel::create(64).expect("memory");
            let channel = Arc::new(channel);
            let carrier = Carrier::new(channel.clone(), 0);
            let session = (number % 2) as u8;
            let window = number % 2 * 10 + number / 2;
            ends.insert(number, Carried::new(carrier, window, session, 0));
            channels.push(End::new(channel, 0));
        }
        // The first ones have a ring full of messages, the last of each session has one.
        for (number, end) in channels.iter().enumerate() {
            let most = if number < 8 { 60 } else { 1 };
            for _ in 0..most {
                let sent = end.sender().try_send(0, &[b"x"]);
                assert!(sent.is_ok(), "the ring has room");
            }
        }
        let mut nic = Narrow {
            room: [0; 2],
            taken: BTreeMap::new(),
        };
        let mut turns = Turns::default();
        for _ in 0..5 {
            // The second takes more at a time, so that others fill it.
            nic.room = [8, 11];
            turns.take(
                &mut ends,
                |it| it.session,
                &mut nic,
                |_, it, nic| {
                    let turn = it.carry(nic);
                    assert!(!turn.ended, "nobody has ended");
                    turn.busy
                },
            );
        }
        for session in 0..2 {
            let had: Vec<usize> = (0..5)
                .map(|number| {
                    nic.taken
                        .get(&(session * 10 + number))
                        .copied()
                        .unwrap_or(0)
                })
                .collect();
            assert_eq!(had[4], 1, "{had:?}");
            assert!(had[..4].iter().all(|&taken| taken >= 8), "{had:?}");
        }
    }
}
