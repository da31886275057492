// SPDX-License-Identifier: Apache-2.0
//! What two daemons say to each other: postcard, each message after its length (32 bits, little-endian).
//!
//! The one that connects is the writer: it opens windows on regions of the other. Who wants it the other way round
//! connects the other way round. For sockets it is the client's daemon that asks.

use std::io::{self, Read, Write};

use std::net::SocketAddr;

use ipc::token::{Rights, Token};
use serde::{Deserialize, Serialize};

/// Version of these messages: both must have the same.
pub const VERSION: u16 = 9;
/// Longest message; longer ones are none.
pub const LONGEST: usize = 1024;

/// What both NICs of a session begin it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Epoch of the session.
    pub epoch: u8,
    /// Sequence number of the first frame, both ways.
    pub sequence: u32,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// First of all, from both: how this side's NIC is reached.
    Hello {
        /// [`VERSION`].
        version: u16,
        /// MAC address of its NIC; bits 47:40 are the first byte on the wire.
        mac: u64,
        /// IPv4 address of its NIC.
        ip: u32,
        /// Its number of the session.
        session: u8,
        /// The writer chooses.
        start: Start,
    },
    /// In place of the second `Hello`: the session can't be.
    Unwelcome {
        /// A sentence.
        message: String,
        /// Whether another epoch may do.
        again: bool,
    },
    /// The writer wants a window.
    Open {
        /// Its number there.
        window: u64,
        /// What allows it.
        token: Token,
    },
    /// It has it.
    Opened {
        /// As asked.
        window: u64,
        /// Its number here.
        grant: u64,
        /// Key of the region.
        key: u16,
        /// What is folded into the end code.
        tag: u16,
        /// What is allowed.
        rights: Rights,
    },
    /// It does not get it.
    Denied {
        /// As asked.
        window: u64,
        /// Error number.
        errno: i32,
        /// A sentence.
        message: String,
    },
    /// The writer has no more use of it.
    Close {
        /// As it was opened.
        grant: u64,
    },
    /// The token was taken back.
    Withdrawn {
        /// As it was opened.
        grant: u64,
    },
    /// A process is about to connect to an address there.
    Intend {
        /// The asker's number.
        question: u64,
        /// Where to.
        to: SocketAddr,
    },
    /// The answer to [`Message::Intend`].
    Intended {
        /// As asked.
        question: u64,
        /// The intent; none if nobody who has the library listens there.
        intent: Option<u64>,
    },
    /// It does not connect after all.
    Unintend {
        /// As answered.
        intent: u64,
    },
    /// A process has connected, or is about to; or it sends datagrams.
    Announce {
        /// The asker's number of the channel.
        channel: u64,
        /// As answered to [`Message::Intend`]; none for datagrams.
        intent: Option<u64>,
        /// The client's or sender's address.
        from: SocketAddr,
        /// The server's or receiver's.
        to: SocketAddr,
        /// For the asker's copy of the channel.
        token: Token,
    },
    /// The answer to [`Message::Announce`].
    Announced {
        /// As asked.
        channel: u64,
        /// For the other copy; none if the connection, or the datagrams, are the kernel's.
        token: Option<Token>,
    },
    /// The client does not wait for the acceptor any longer.
    Abandon {
        /// The asker's number of the channel.
        channel: u64,
        /// That of the side which is asked.
        theirs: u64,
    },
    /// The answer to [`Message::Abandon`].
    Abandoned {
        /// As asked.
        channel: u64,
        /// Whether the connection is the kernel's now; if not, an acceptor has come.
        done: bool,
    },
    /// Whether anybody is there. Whoever reads the connection answers, however much there is to do.
    Ping,
    /// The answer to [`Message::Ping`].
    Pong,
    /// The sender's NIC has taken keys of the session: the receiver's may send with what it receives with.
    Keys {
        /// Highest number of a key that it receives with; with the one before, too.
        receives: u64,
        /// Number of the key that it sends with.
        sends: u64,
    },
    /// In place of the first [`Message::Hello`]: the writer's windows go by the session that the other side has made with it,
    /// so that what is stored one way takes along acknowledgements of what was stored the other way.
    Join {
        /// [`VERSION`].
        version: u16,
        /// The sender's number of the session.
        session: u8,
        /// The receiver's.
        theirs: u8,
        /// Comes of the secret of the connection that the session belongs to; zeros without TLS.
        proof: [u8; 32],
    },
    /// They may; otherwise the answer is [`Message::Unwelcome`].
    Joined,
}

impl Message {
    /// What it is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "Hello",
            Self::Unwelcome { .. } => "Unwelcome",
            Self::Open { .. } => "Open",
            Self::Opened { .. } => "Opened",
            Self::Denied { .. } => "Denied",
            Self::Close { .. } => "Close",
            Self::Withdrawn { .. } => "Withdrawn",
            Self::Intend { .. } => "Intend",
            Self::Intended { .. } => "Intended",
            Self::Unintend { .. } => "Unintend",
            Self::Announce { .. } => "Announce",
            Self::Announced { .. } => "Announced",
            Self::Abandon { .. } => "Abandon",
            Self::Abandoned { .. } => "Abandoned",
            Self::Ping => "Ping",
            Self::Pong => "Pong",
            Self::Keys { .. } => "Keys",
            Self::Join { .. } => "Join",
            Self::Joined => "Joined",
        }
    }
}

/// Decodes a message; trailing bytes make it none.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Message> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

/// The message that bytes begin with, and how many are its own; none if they are only the beginning of one.
///
/// # Errors
/// `InvalidData` for what is no message.
pub fn split(bytes: &[u8]) -> io::Result<Option<(Message, usize)>> {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let Some(bytes) = rest.get(..length) else {
        return Ok(None);
    };
    match decode(bytes) {
        Some(message) => Ok(Some((message, 4 + length))),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Reads a message; `None` at the end.
///
/// # Errors
/// What the connection says, and `InvalidData` for what is no message.
pub fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = [0; LONGEST];
    from.read_exact(&mut bytes[..length])?;
    let message = decode(&bytes[..length]);
    message
        .map(Some)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Writes a message.
///
/// # Errors
/// What the connection says, and `InvalidData` for one that is too long.
pub fn write(to: &mut impl Write, message: &Message) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(|_| io::ErrorKind::InvalidData)?;
    if bytes.len() > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut packet = (bytes.len() as u32).to_le_bytes().to_vec();
    packet.extend_from_slice(&bytes);
    to.write_all(&packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        vec![
            Message::Hello {
                version: VERSION,
                mac: 0x0200_0000_0001,
                ip: 0x0A00_0001,
                session: 7,
                start: Start {
                    epoch: 50,
                    sequence: u32::MAX,
                },
            },
            Message::Unwelcome {
                message: "there is no room".to_owned(),
                again: true,
            },
            Message::Open {
                window: 1 << 40,
                token: Token {
                    rights: Rights::Write,
                    management: "10.0.0.1:3422".parse().expect("an address"),
                    region: 3,
                    first: 4096,
                    bytes: 64,
                    secret: [0xA5; 16],
                },
            },
            Message::Opened {
                window: 1,
                grant: 2,
                key: 3,
                tag: 4,
                rights: Rights::ReadWrite,
            },
            Message::Denied {
                window: 1,
                errno: 13,
                message: "no".to_owned(),
            },
            Message::Close { grant: 9 },
            Message::Withdrawn { grant: u64::MAX },
            Message::Intend {
                question: 1,
                to: "10.0.0.2:80".parse().expect("an address"),
            },
            Message::Intended {
                question: 1,
                intent: Some(5),
            },
            Message::Unintend { intent: 5 },
            Message::Announce {
                channel: 1,
                intent: Some(5),
                from: "10.0.0.1:40000".parse().expect("an address"),
                to: "10.0.0.2:80".parse().expect("an address"),
                token: Token {
                    rights: Rights::Write,
                    management: "10.0.0.1:3422".parse().expect("an address"),
                    region: 1,
                    first: 0,
                    bytes: 4096,
                    secret: [1; 16],
                },
            },
            Message::Announced {
                channel: 1,
                token: None,
            },
            Message::Abandon {
                channel: 1,
                theirs: 2,
            },
            Message::Abandoned {
                channel: 1,
                done: true,
            },
            Message::Ping,
            Message::Pong,
            Message::Keys {
                receives: 9,
                sends: 8,
            },
        ]
    }

    #[test]
    fn messages_come_back() {
        let mut stream = Vec::new();
        for message in messages() {
            write(&mut stream, &message).expect("a Vec has room");
        }
        let mut from = &stream[..];
        for message in messages() {
            assert_eq!(read(&mut from).expect("a message"), Some(message));
        }
        assert_eq!(read(&mut from).expect("the end"), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &[255, 255, 255, 255][..],
            &[1, 0, 0, 0, 99],
            &[3, 0, 0, 0, 5, 1, 7],
        ] {
            let mut from = [bytes, &[0; 8]].concat();
            from.truncate(bytes.len());
            assert!(read(&mut &from[..]).is_err(), "{bytes:?}");
        }
        for message in messages() {
            let bytes = postcard::to_stdvec(&message).expect("bytes");
            for length in 0..bytes.len() {
                assert_eq!(decode(&bytes[..length]), None);
            }
            assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        }
        let long = Message::Unwelcome {
            message: "x".repeat(LONGEST),
            again: false,
        };
        assert!(write(&mut Vec::new(), &long).is_err());
    }
}
