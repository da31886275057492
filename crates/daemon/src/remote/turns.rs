// SPDX-License-Identifier: Apache-2.0
//! Whose turn it is to hand stores to the NIC.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::remote::carry::Carried;
use crate::remote::nic::Nic;

/// Lets all ends of channels hand the NIC what is new, beginning with `next`. Who fills the NIC up in one turn is the last in
/// the next one: whoever has much to say keeps nobody from saying a little. Calls `ended` for those who have said their
/// last, with their sessions. Whether there was anything.
pub fn in_turn(
    ends: &mut BTreeMap<u64, Carried>,
    next: &mut u64,
    nic: &mut dyn Nic,
    mut ended: impl FnMut(&mut dyn Nic, u64, u8),
) -> bool {
    let from = *next;
    let halves = [
        (Bound::Included(from), Bound::Unbounded),
        (Bound::Unbounded, Bound::Excluded(from)),
    ];
    let (mut busy, mut filled) = (false, !nic.can_store());
    for half in halves {
        for (&number, carried) in ends.range_mut(half) {
            let turn = carried.carry(nic);
            busy |= turn.busy;
            if turn.ended {
                ended(nic, number, carried.session);
            }
            if !filled && !nic.can_store() {
                filled = true;
                *next = number.wrapping_add(1);
            }
        }
    }
    busy
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;
    use std::time::Duration;

    use shm::channel::{Carrier, Channel, End};
    use softnic::{Error, Event, Identity, PeerAddress, Share, Shared};

    use super::*;
    use crate::remote::nic::{Memory, WindowId};

    /// Takes so many stores in a turn, and counts them by window.
    struct Narrow {
        room: usize,
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
        fn can_store(&self) -> bool {
            self.room > 0
        }
        fn store(&mut self, window: WindowId, _: u64, data: &[u8]) -> Result<usize, Error> {
            if self.room == 0 {
                return Ok(0);
            }
            self.room -= 1;
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
        for number in 0..5 {
            let (channel, _) = Channel::create(64).expect("memory");
            let channel = Arc::new(channel);
            let carrier = Carrier::new(channel.clone(), 0);
            ends.insert(number, Carried::new(carrier, number, 1, 0));
            channels.push(End::new(channel, 0));
        }
        // The first ones have a ring full of messages, the last has one.
        for (number, end) in channels.iter().enumerate() {
            let most = if number < 4 { 60 } else { 1 };
            for _ in 0..most {
                let sent = end.sender().try_send(0, &[b"x"]);
                assert!(sent.is_ok(), "the ring has room");
            }
        }
        let mut nic = Narrow {
            room: 0,
            taken: BTreeMap::new(),
        };
        let mut next = 0;
        for _ in 0..5 {
            nic.room = 8;
            in_turn(&mut ends, &mut next, &mut nic, |_, _, _| {
                panic!("nobody has ended")
            });
        }
        let had: Vec<usize> = (0..5)
            .map(|number| nic.taken.get(&number).copied().unwrap_or(0))
            .collect();
        assert_eq!(had[4], 1, "{had:?}");
        assert!(had[..4].iter().all(|&taken| taken >= 8), "{had:?}");
    }
}
