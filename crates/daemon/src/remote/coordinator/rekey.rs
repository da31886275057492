// SPDX-License-Identifier: Apache-2.0
//! New keys of sealed sessions.
//!
//! Keys are numbered, and both daemons derive each of them from their connection's secret. A NIC receives with two, so the order
//! is: one daemon has its NIC receive with the next key, and says so; only then the other has its NIC send with it, and says
//! that. The key before the last is given up when nobody sends with it any more. Nothing is said between the two NICs.

use std::time::{Duration, Instant};

use wire::{KeyEntry, KeyUse};

use super::{Coordinator, Input};
use crate::remote::link::LinkId;
use crate::remote::messages::Message;
use crate::remote::tls::Secret;
use crate::state::Refusal;

/// Where one side is: the highest number of a key that its NIC receives with, and that of the one that it sends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    receives: u64,
    sends: u64,
}

/// The keys of one end of a session.
#[derive(Clone, Debug)]
pub struct Keys {
    secret: Secret,
    /// Numbers of the session at the writer and the reader, and its epoch.
    of: (u8, u8, u8),
    is_writer: bool,
    ours: Numbers,
    theirs: Numbers,
    /// When the key that it sends with became that.
    since: Instant,
}

/// What the NIC is to do.
type Write = (KeyEntry, KeyUse);

impl Keys {
    /// Of a session that begins, with keys of number 0.
    pub fn new(secret: Secret, of: (u8, u8, u8), is_writer: bool) -> Self {
        Self {
            secret,
            of,
            is_writer,
            ours: Numbers::default(),
            theirs: Numbers::default(),
            since: Instant::now(),
        }
    }

    /// The keys of a number.
    pub fn entry(&self, number: u64) -> Option<KeyEntry> {
        let (writer, reader, epoch) = self.of;
        self.secret
            .session(writer, reader, epoch, self.is_writer, number)
    }

    /// What shows that one has the connection which they come of.
    pub fn proof(&self) -> Option<[u8; 32]> {
        let (writer, reader, epoch) = self.of;
        self.secret.proof(writer, reader, epoch)
    }

    /// All is said and done about the last change.
    fn is_settled(&self) -> bool {
        let Numbers { receives, sends } = self.ours;
        receives == sends && self.theirs == self.ours
    }

    /// Goes on to the next key, if both sides are where they were to get.
    fn begin(&mut self) -> Option<Vec<Write>> {
        self.is_settled()
            .then(|| self.receive())?
            .map(|it| vec![it])
    }

    fn receive(&mut self) -> Option<Write> {
        let number = self.ours.receives.checked_add(1)?;
        let entry = self.entry(number)?;
        self.ours.receives = number;
        Some((entry, KeyUse::Receive(number % 2 == 1)))
    }

    fn send(&mut self) -> Option<Write> {
        let number = self.ours.sends + 1;
        let entry = self.entry(number)?;
        self.ours.sends = number;
        self.since = Instant::now();
        Some((entry, KeyUse::Send(number % 2 == 1)))
    }

    /// The other side is at these numbers: what the NIC is to do about it. `None`: it can't be there.
    fn hear(&mut self, theirs: Numbers) -> Option<Vec<Write>> {
        let one = |from: u64, to: u64| to == from || Some(to) == from.checked_add(1);
        let known = theirs.sends <= self.ours.receives && theirs.sends <= theirs.receives;
        // Nobody receives with a third key: the first of three may still be sent with.
        let two = theirs.receives <= self.ours.sends.saturating_add(1);
        let near =
            one(self.theirs.receives, theirs.receives) && one(self.theirs.sends, theirs.sends);
        if !(known && two && near) || theirs == self.theirs {
            return None;
        }
        self.theirs = theirs;
        let mut writes = Vec::new();
        if theirs.receives > self.ours.receives && theirs.sends == self.ours.receives {
            writes.push(self.receive()?);
        }
        if theirs.receives > self.ours.sends && self.ours.receives > self.ours.sends {
            writes.push(self.send()?);
        }
        Some(writes)
    }
}

impl Coordinator {
    /// The keys of a connection's session.
    fn keys(&mut self, link: LinkId) -> Option<(u8, &mut Keys)> {
        if let Some(writer) = self.writers.get_mut(&link) {
            return Some((writer.session?, writer.keys.as_mut()?));
        }
        let reader = self.readers.get_mut(&link)?;
        Some((reader.session?, reader.keys.as_mut()?))
    }

    /// A session has sent as many frames with its key as it should.
    pub(super) fn worn(&mut self, session: u8) {
        if let Some(link) = self.link_of(session) {
            self.rekey(link);
        }
    }

    fn rekey(&mut self, link: LinkId) {
        if let Some((_, keys)) = self.keys(link)
            && let Some(writes) = keys.begin()
        {
            self.write_keys(link, writes);
        }
    }

    /// Looks for keys that were used for long enough.
    pub(super) fn rekey_old(&mut self) {
        let seconds = self.options.rekey_seconds;
        if seconds == 0 {
            return;
        }
        let longest = Duration::from_secs(seconds);
        let old = |keys: &Option<Keys>| {
            let keys = keys.as_ref();
            keys.is_some_and(|it| it.since.elapsed() >= longest && it.is_settled())
        };
        let writers = self
            .writers
            .iter()
            .filter(|(_, it)| it.is_up() && old(&it.keys));
        let readers = self.readers.iter().filter(|(_, it)| old(&it.keys));
        let links: Vec<LinkId> = (writers.map(|(id, _)| *id))
            .chain(readers.map(|(id, _)| *id))
            .collect();
        for link in links {
            self.rekey(link);
        }
    }

    /// The other side has said where it is; `false` if it can't be there.
    pub(super) fn hear_keys(&mut self, link: LinkId, receives: u64, sends: u64) -> bool {
        let theirs = Numbers { receives, sends };
        let Some(writes) = self.keys(link).and_then(|(_, keys)| keys.hear(theirs)) else {
            return false;
        };
        if !writes.is_empty() {
            self.write_keys(link, writes);
        }
        true
    }

    /// Has the NIC take keys; [`Coordinator::keyed`] follows.
    fn write_keys(&mut self, link: LinkId, writes: Vec<Write>) {
        let Some((session, keys)) = self.keys(link) else {
            return;
        };
        let ours = keys.ours;
        self.engine.post(move |engine| {
            let written = engine.write_keys(session, &writes);
            engine.say(Input::Keyed(link, ours, written));
        });
    }

    /// The NIC has taken them: the other side may know.
    pub(super) fn keyed(&mut self, id: LinkId, ours: Numbers, written: Result<(), Refusal>) {
        if let Err(why) = written {
            return self.closed(id, &why.message);
        }
        let Numbers { receives, sends } = ours;
        let message = Message::Keys { receives, sends };
        if let Some(writer) = self.writers.get(&id) {
            writer.tell(message);
        } else if let Some(reader) = self.readers.get(&id) {
            reader.tell(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn pair() -> [Keys; 2] {
        [true, false].map(|is_writer| Keys::new(Secret::of([7; 32]), (3, 4, 50), is_writer))
    }

    /// A NIC, and what its daemon has said that has not arrived.
    #[derive(Default)]
    struct Side {
        sends: Option<([u8; 16], bool)>,
        receives: [Option<[u8; 16]>; 2],
        said: VecDeque<Numbers>,
    }

    impl Side {
        fn begin(&mut self, keys: &Keys) {
            let entry = keys.entry(0).expect("a key");
            self.sends = Some((entry.tx_key, false));
            self.receives = [Some(entry.rx_key), None];
        }

        fn take(&mut self, keys: &Keys, writes: Vec<Write>) {
            for (entry, what) in &writes {
                match *what {
                    KeyUse::Begin => panic!("it has begun"),
                    KeyUse::Receive(phase) => {
                        self.receives[usize::from(phase)] = Some(entry.rx_key);
                    }
                    KeyUse::Send(phase) => self.sends = Some((entry.tx_key, phase)),
                }
            }
            if !writes.is_empty() {
                self.said.push_back(keys.ours);
            }
        }
    }

    proptest! {
        /// In whatever order messages arrive and keys are worn: what is sent can be opened.
        #[test]
        fn nobody_sends_with_a_key_that_is_not_received_with(
            steps in prop::collection::vec((any::<bool>(), 0..2_usize), 1..400),
        ) {
            let mut keys = pair();
            let mut sides = [Side::default(), Side::default()];
            for (side, keys) in sides.iter_mut().zip(&keys) {
                side.begin(keys);
            }
            let hear = |keys: &mut [Keys; 2], sides: &mut [Side; 2], to: usize| {
                if let Some(said) = sides[1 - to].said.pop_front() {
                    let writes = keys[to].hear(said).expect("it makes sense");
                    sides[to].take(&keys[to], writes);
                }
            };
            let opens = |sides: &[Side; 2]| (0..2).all(|from| {
                let (key, phase) = sides[from].sends.expect("it has one");
                sides[1 - from].receives[usize::from(phase)] == Some(key)
            });
            for (is_worn, at) in steps {
                if is_worn {
                    let writes = keys[at].begin().unwrap_or_default();
                    sides[at].take(&keys[at], writes);
                } else {
                    hear(&mut keys, &mut sides, at);
                }
                prop_assert!(opens(&sides));
            }
            // They come to rest, and can go on.
            while sides.iter().any(|side| !side.said.is_empty()) {
                (0..2).for_each(|to| hear(&mut keys, &mut sides, to));
                prop_assert!(opens(&sides));
            }
            prop_assert!(keys.iter().all(Keys::is_settled), "{keys:?}");
            prop_assert!(keys[0].begin().is_some());
        }
    }

    #[test]
    fn both_ends_show_the_same_and_only_of_their_session() {
        let [writer, reader] = pair();
        assert!(writer.proof().is_some() && writer.proof() == reader.proof());
        for other in [
            Keys::new(Secret::of([8; 32]), (3, 4, 50), true),
            Keys::new(Secret::of([7; 32]), (4, 3, 50), true),
            Keys::new(Secret::of([7; 32]), (3, 4, 51), true),
        ] {
            assert_ne!(other.proof(), writer.proof());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (receives, sends) in [
            (0, 0),
            (0, 1),
            (1, 1),
            (2, 0),
            (2, 1),
            (u64::MAX, 0),
            (1, u64::MAX),
        ] {
            let [mut keys, _] = pair();
            let theirs = Numbers { receives, sends };
            assert!(keys.hear(theirs).is_none(), "{theirs:?}");
            assert_eq!(keys.ours, Numbers::default());
        }
        let [mut keys, _] = pair();
        let first = Numbers {
            receives: 1,
            sends: 0,
        };
        assert_eq!(keys.hear(first).map(|writes| writes.len()), Some(2));
        assert!(keys.hear(first).is_none(), "it says it twice");
        assert!(
            keys.begin().is_none(),
            "the other side still sends with key 0"
        );
        let third = Numbers {
            receives: 2,
            sends: 0,
        };
        assert!(
            keys.hear(third).is_some(),
            "it knows that we send with key 1"
        );
        assert_eq!(keys.ours.receives, 1, "it may still send with key 0");
    }
}
