// SPDX-License-Identifier: Apache-2.0
//! One session for both directions of two machines.
//!
//! Each daemon connects to the other when processes of its machine want to write there. The second connection needs no session
//! of its own: its windows go by that of the first. A NIC then sends an acknowledgement along with what it stores the other
//! way, where it would need a frame of its own otherwise, and that frame would stand in the way of the next store.
//!
//! The session belongs to the connection that made it, and ends with it; so does what has joined.

use super::Coordinator;
use super::rekey::Keys;
use crate::remote::link::LinkId;
use crate::remote::messages::{Message, VERSION};

/// What shows that one has the connection of a session; zeros where there is no TLS. Nothing if that can't be computed.
fn proof(keys: Option<&Keys>) -> Option<[u8; 32]> {
    keys.map_or(Some([0; 32]), Keys::proof)
}

impl Coordinator {
    /// Offers the session that the other machine's daemon has made for what a connection of this one's is about; `false` if
    /// there is none.
    pub(super) fn join(&mut self, id: LinkId) -> bool {
        let Some(writer) = self.writers.get(&id) else {
            return false;
        };
        let peer = *writer.peer.ip();
        let found = self.readers.iter().find_map(|(&of, reader)| {
            let session = reader.session?;
            let own = reader.peer == peer && reader.joined.is_none();
            let proof = proof(reader.keys.as_ref()).filter(|_| own)?;
            Some((of, session, reader.theirs, proof))
        });
        let Some((of, session, theirs, proof)) = found else {
            return false;
        };
        let message = Message::Join {
            version: VERSION,
            session,
            theirs,
            proof,
        };
        self.offer_to_join(id, of, session, message);
        true
    }

    /// The daemon of a connection wants its windows to go by a session, of which these are the numbers here and there.
    pub(super) fn let_join(&mut self, id: LinkId, (own, theirs): (u8, u8), shown: [u8; 32]) {
        let Some(peer) = self.readers.get(&id).map(|reader| reader.peer) else {
            return;
        };
        // It may be another daemon at that address: only who has the session's connection knows its secret.
        let found = self.writers.iter().find(|(_, writer)| {
            let same = writer.session == Some(own) && writer.theirs == theirs;
            let its = *writer.peer.ip() == peer && writer.joined.is_none() && writer.is_up();
            same && its && proof(writer.keys.as_ref()) == Some(shown)
        });
        match found.map(|(&of, writer)| (of, writer.ip)) {
            Some((of, ip)) => self.joins(id, of, own, ip),
            None => {
                if let Some(reader) = self.readers.get(&id) {
                    reader.tell(Message::Unwelcome {
                        message: "there is no such session".to_owned(),
                        again: true,
                    });
                }
            }
        }
    }

    /// A connection has ended: its session ends if it is its own, and with that what has joined.
    pub(super) fn end_session(
        &mut self,
        link: LinkId,
        session: Option<u8>,
        joined: Option<LinkId>,
    ) {
        if joined.is_some() {
            return;
        }
        let writers = self.writers.iter();
        let writers = writers.filter(|(_, it)| it.joined == Some(link));
        let readers = self.readers.iter();
        let readers = readers.filter(|(_, it)| it.joined == Some(link));
        let all: Vec<LinkId> = (writers.map(|(id, _)| *id))
            .chain(readers.map(|(id, _)| *id))
            .collect();
        for id in all {
            self.closed(id, "the session that it shares has ended");
        }
        self.close_session(session);
    }
}
