// SPDX-License-Identifier: Apache-2.0
//! The kernel's time-travel protocol (`linux/um_timetravel.h`), the calendar's end of it.
//!
//! Messages of 16 bytes go both ways over one stream socket, and each is acknowledged. The guest says START once, REQUEST
//! for the next time it wants to run at, and WAIT when it has nothing to do before that; the calendar answers in its own
//! time with RUN. Before RUN it may say FREE_UNTIL: up to there the guest schedules itself. The guest says UPDATE before it
//! kicks a device when its time has moved since it last did, and GET when a device's interrupt reaches it.
//!
//! The kernel is strict in two things: time never goes back, and RUN carries the time that was asked for last.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// What a message is about; the numbers are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Operation {
    /// Answer to a message with the same number.
    Ack = 0,
    /// The guest is there.
    Start = 1,
    /// The guest wants to run at this time.
    Request = 2,
    /// The guest waits until it is told to run.
    Wait = 3,
    /// The guest asks for the time.
    Get = 4,
    /// The guest's time has come to this.
    Update = 5,
    /// The guest runs at this time.
    Run = 6,
    /// The guest may run on its own until this time.
    FreeUntil = 7,
    /// The guest asks for the time of day.
    GetTimeOfDay = 8,
}

impl Operation {
    fn from_number(number: u32) -> Option<Operation> {
        use Operation::{Ack, FreeUntil, Get, GetTimeOfDay, Request, Run, Start, Update, Wait};
        [
            Ack,
            Start,
            Request,
            Wait,
            Get,
            Update,
            Run,
            FreeUntil,
            GetTimeOfDay,
        ]
        .into_iter()
        .find(|operation| *operation as u32 == number)
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub operation: Operation,
    pub sequence: u32,
    pub time: u64,
}

const MESSAGE_BYTES: usize = 16;

impl Message {
    fn encode(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&(self.operation as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.time.to_ne_bytes());
        bytes
    }

    fn decode(bytes: [u8; MESSAGE_BYTES]) -> Result<Message, u32> {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let operation = Operation::from_number(word(0)).ok_or(word(0))?;
        let mut time = [0; 8];
        time.copy_from_slice(&bytes[8..]);
        Ok(Message {
            operation,
            sequence: word(4),
            time: u64::from_ne_bytes(time),
        })
    }
}

/// What came from the guest.
pub(crate) enum Received {
    /// A message.
    Message(Message),
    /// A message with an operation that is not in the protocol.
    Unknown(u32),
    /// The guest closed its end.
    Closed,
}

/// The calendar's end of the socket.
pub(crate) struct Link {
    socket: UnixStream,
    sequence: u32,
    /// Sent in one piece, so that the guest wakes once.
    buffer: Vec<u8>,
    /// Received and not yet looked at: what the guest said before it waits comes at once.
    heard: Vec<u8>,
}

impl Link {
    /// Over a connection that the guest made.
    pub fn new(socket: UnixStream) -> Link {
        Link {
            socket,
            sequence: 0,
            buffer: Vec::with_capacity(3 * MESSAGE_BYTES),
            heard: Vec::new(),
        }
    }

    /// Whether a message is there already.
    pub fn has_message(&self) -> bool {
        self.heard.len() >= MESSAGE_BYTES
    }

    /// Waits for a message; the caller knows that one is there.
    pub fn receive(&mut self) -> io::Result<Received> {
        while !self.has_message() {
            let mut bytes = [0; 8 * MESSAGE_BYTES];
            match self.socket.read(&mut bytes) {
                Ok(0) => return Ok(Received::Closed),
                Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if closed(&error) => return Ok(Received::Closed),
                Err(error) => return Err(error),
            }
        }
        let mut bytes = [0; MESSAGE_BYTES];
        bytes.copy_from_slice(&self.heard[..MESSAGE_BYTES]);
        self.heard.drain(..MESSAGE_BYTES);
        Ok(match Message::decode(bytes) {
            Ok(message) => Received::Message(message),
            Err(number) => Received::Unknown(number),
        })
    }

    /// Adds an answer to what [`Link::flush`] sends.
    pub fn acknowledge(&mut self, message: &Message, time: u64) {
        let answer = Message {
            operation: Operation::Ack,
            sequence: message.sequence,
            time,
        };
        self.buffer.extend_from_slice(&answer.encode());
    }

    /// Adds a message of the calendar's own to what [`Link::flush`] sends; returns its number.
    pub fn say(&mut self, operation: Operation, time: u64) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        let message = Message {
            operation,
            sequence: self.sequence,
            time,
        };
        self.buffer.extend_from_slice(&message.encode());
        self.sequence
    }

    /// Sends. A guest that is gone is noticed when it is waited for, not here.
    pub fn flush(&mut self) -> io::Result<()> {
        let result = self.socket.write_all(&self.buffer);
        self.buffer.clear();
        match result {
            Err(error) if !closed(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether the other end is gone.
pub(crate) fn closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the kernel's header: START is 1, FREE_UNTIL 7.
    #[test]
    fn messages_have_the_kernels_layout() {
        let message = Message {
            operation: Operation::FreeUntil,
            sequence: 0x0102_0304,
            time: 0x1112_1314_1516_1718,
        };
        let bytes = message.encode();
        assert_eq!(bytes[..4], 7u32.to_ne_bytes());
        assert_eq!(bytes[4..8], 0x0102_0304u32.to_ne_bytes());
        assert_eq!(bytes[8..], 0x1112_1314_1516_1718u64.to_ne_bytes());
        assert_eq!(Message::decode(bytes), Ok(message));
        assert_eq!(Message::decode([0x55; 16]), Err(0x5555_5555));
    }

    #[test]
    fn answers_go_out_with_what_is_said_and_an_end_is_told() {
        let (guest, calendar) = UnixStream::pair().unwrap();
        let (mut guest, mut calendar) = (Link::new(guest), Link::new(calendar));
        guest.say(Operation::Update, 40);
        guest.flush().unwrap();
        let Received::Message(update) = calendar.receive().unwrap() else {
            panic!("no message")
        };
        assert_eq!((update.operation, update.time), (Operation::Update, 40));
        calendar.say(Operation::FreeUntil, 90);
        calendar.acknowledge(&update, 0);
        calendar.flush().unwrap();
        let Received::Message(free) = guest.receive().unwrap() else {
            panic!("no message")
        };
        let Received::Message(ack) = guest.receive().unwrap() else {
            panic!("no message")
        };
        assert_eq!((free.operation, free.time), (Operation::FreeUntil, 90));
        assert_eq!(
            (ack.operation, ack.sequence),
            (Operation::Ack, update.sequence)
        );
        drop(guest);
        assert!(matches!(calendar.receive().unwrap(), Received::Closed));
        calendar.say(Operation::Run, 90);
        calendar.flush().unwrap();
    }
}
