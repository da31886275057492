// SPDX-License-Identifier: Apache-2.0
//! memcached's text protocol and its frame of UDP datagrams, as bytes: nothing here sends.

use crate::{Command, Transport};

/// Bytes of a value at most by TCP: memcached's own default.
pub const MOST_BY_TCP: usize = 1_048_576 - 512;
/// Bytes of a value at most by UDP: memcached takes a command in one datagram only.
pub const MOST_BY_UDP: usize = 64_000;
/// Bytes of a key at most.
const MOST_OF_KEY: usize = 250;
/// Bytes before every datagram: request, number of the datagram, datagrams in all, reserved; 16 bits each.
pub const FRAME_BYTES: usize = 8;

/// The value of a key: bytes that no other key of the same length has, and that are no line ends.
pub fn value(key: &str, length: usize) -> Vec<u8> {
    const FIRST: u8 = b'!';
    const PRINTABLE: u64 = 94;
    // FNV-1a spreads the key, an LCG goes on from it.
    let seed = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut state = seed ^ length as u64;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        FIRST + ((state >> 33) % PRINTABLE) as u8
    };
    (0..length).map(step).collect()
}

/// A command as it is sent, and the answers that are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// For messages: `get mcb-0-5`.
    pub name: String,
    /// What is sent.
    pub request: Vec<u8>,
    /// Any of them may come back.
    pub answers: Vec<Vec<u8>>,
}

impl Exchange {
    fn storage(verb: &str, key: &str, length: usize) -> Self {
        let mut request = format!("{verb} {key} 0 0 {length}\r\n").into_bytes();
        request.extend(value(key, length));
        request.extend(b"\r\n");
        Self {
            name: format!("{verb} {key}"),
            request,
            answers: vec![b"STORED\r\n".to_vec()],
        }
    }

    /// What is timed.
    pub fn of(command: Command, key: &str, length: usize) -> Self {
        match command {
            Command::Set | Command::Add => Self::storage(command.name(), key, length),
            Command::Get => {
                let mut answer = format!("VALUE {key} 0 {length}\r\n").into_bytes();
                answer.extend(value(key, length));
                answer.extend(b"\r\nEND\r\n");
                Self {
                    name: format!("get {key}"),
                    request: format!("get {key}\r\n").into_bytes(),
                    answers: vec![answer],
                }
            }
        }
    }

    /// Takes a key away, whether it is there or not.
    pub fn delete(key: &str) -> Self {
        Self {
            name: format!("delete {key}"),
            request: format!("delete {key}\r\n").into_bytes(),
            answers: vec![b"DELETED\r\n".to_vec(), b"NOT_FOUND\r\n".to_vec()],
        }
    }

    /// An add that is sent again may have been done the first time.
    pub fn again(mut self, command: Command) -> Self {
        if command == Command::Add {
            self.answers.push(b"NOT_STORED\r\n".to_vec());
        }
        self
    }

    /// What has come so far beside what may come.
    pub fn judge(&self, got: &[u8]) -> Verdict {
        let common = |answer: &[u8]| answer.iter().zip(got).take_while(|(a, b)| a == b).count();
        let Some(best) = self.answers.iter().max_by_key(|answer| common(answer)) else {
            return Verdict::Right;
        };
        if self.answers.iter().any(|answer| answer == got) {
            Verdict::Right
        } else if self.answers.iter().any(|answer| answer.starts_with(got)) {
            Verdict::More
        } else {
            let at = common(best);
            Verdict::Wrong {
                expected: show(best, at),
                got: show(got, at),
                at,
            }
        }
    }
}

/// What an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Complete.
    Right,
    /// The beginning of one.
    More,
    /// None of those that may come.
    Wrong {
        /// How the answer should go on from where it is wrong.
        expected: String,
        /// How it does.
        got: String,
        /// First byte that is wrong.
        at: usize,
    },
}

/// A piece of an answer around the byte that counts, for a message.
fn show(bytes: &[u8], at: usize) -> String {
    const BEFORE: usize = 20;
    const MOST: usize = 60;
    let from = if at < MOST - BEFORE { 0 } else { at - BEFORE };
    let from = from.min(bytes.len());
    let to = bytes.len().min(from + MOST);
    let dots = |there: bool| if there { "..." } else { "" };
    format!(
        "\"{}{}{}\"",
        dots(from > 0),
        bytes[from..to].escape_ascii(),
        dots(to < bytes.len())
    )
}

/// Puts the frame before a command.
pub fn framed(request: u16, command: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(FRAME_BYTES + command.len());
    for field in [request, 0, 1, 0] {
        datagram.extend(field.to_be_bytes());
    }
    datagram.extend(command);
    datagram
}

/// The datagrams of an answer, which come in any order.
#[derive(Debug)]
pub struct Datagrams {
    request: u16,
    parts: Vec<Option<Vec<u8>>>,
}

/// What a datagram was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Of an earlier request, or one that came twice.
    Late,
    /// More must come.
    Part,
    /// The whole answer.
    Whole(Vec<u8>),
    /// None that memcached sends; the sentence says why.
    Wrong(String),
}

impl Datagrams {
    /// Waits for the answer to a request.
    pub const fn of(request: u16) -> Self {
        Self {
            request,
            parts: Vec::new(),
        }
    }

    /// Takes the next datagram.
    pub fn take(&mut self, datagram: &[u8]) -> Taken {
        let Some((frame, payload)) = datagram.split_at_checked(FRAME_BYTES) else {
            return Taken::Wrong(format!(
                "a datagram of {} bytes has no frame",
                datagram.len()
            ));
        };
        let field = |index: usize| u16::from_be_bytes([frame[2 * index], frame[2 * index + 1]]);
        let [request, number, all, reserved] = [0, 1, 2, 3].map(field);
        if request != self.request {
            return Taken::Late;
        }
        if number >= all
            || reserved != 0
            || !(self.parts.is_empty() || self.parts.len() == usize::from(all))
        {
            return Taken::Wrong(format!(
                "a datagram says that it is number {number} of {all}, reserved {reserved}"
            ));
        }
        self.parts.resize(usize::from(all), None);
        let part = &mut self.parts[usize::from(number)];
        if part.is_some() {
            return Taken::Late;
        }
        *part = Some(payload.to_vec());
        if self.parts.iter().any(Option::is_none) {
            return Taken::Part;
        }
        Taken::Whole(self.parts.iter().flatten().flatten().copied().collect())
    }
}

/// Whether keys and values fit the protocol; the sentence names the option.
pub fn check(prefix: &str, length: usize, transport: Transport) -> Result<(), String> {
    // Room for the numbers of thread and key.
    let most = MOST_OF_KEY - 42;
    if prefix.is_empty()
        || prefix.len() > most
        || !prefix.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(format!(
            "--prefix: `{}` cannot begin a key; write 1 to {most} visible ASCII characters",
            prefix.escape_default()
        ));
    }
    let most = match transport {
        Transport::Tcp => MOST_BY_TCP,
        Transport::Udp => MOST_BY_UDP,
    };
    if !(1..=most).contains(&length) {
        return Err(format!(
            "--length: {length} is not from 1 to {most}, what memcached takes by {}",
            transport.name()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_keys_and_lengths_apart() {
        let all = [value("a", 16), value("b", 16), value("a", 17)];
        assert_eq!(all[0], value("a", 16));
        assert_ne!(all[0], all[1]);
        assert_ne!(all[0], all[2][..16]);
        assert!(all.concat().iter().all(u8::is_ascii_graphic));
    }

    #[test]
    fn commands_are_the_protocols() {
        let set = Exchange::of(Command::Set, "k", 3);
        let text = String::from_utf8(set.request).expect("ASCII");
        assert!(text.starts_with("set k 0 0 3\r\n") && text.ends_with("\r\n") && text.len() == 18);
        let get = Exchange::of(Command::Get, "k", 3);
        assert_eq!(get.request, b"get k\r\n");
        assert!(get.answers[0].starts_with(b"VALUE k 0 3\r\n"));
        assert!(get.answers[0].ends_with(b"\r\nEND\r\n"));
    }

    #[test]
    fn every_wrong_byte_is_seen() {
        let get = Exchange::of(Command::Get, "k", 64);
        let right = get.answers[0].clone();
        assert_eq!(get.judge(&right), Verdict::Right);
        for at in 0..right.len() {
            assert_eq!(get.judge(&right[..at]), Verdict::More);
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            let Verdict::Wrong { at: found, .. } = get.judge(&wrong) else {
                panic!("byte {at} was taken");
            };
            assert_eq!(found, at);
        }
        let longer = [&right[..], b"x"].concat();
        assert!(matches!(get.judge(&longer), Verdict::Wrong { .. }));
    }

    #[test]
    fn an_add_sent_again_may_be_refused() {
        let add = Exchange::of(Command::Add, "k", 1);
        assert!(matches!(
            add.judge(b"NOT_STORED\r\n"),
            Verdict::Wrong { at: 0, .. }
        ));
        assert_eq!(
            add.again(Command::Add).judge(b"NOT_STORED\r\n"),
            Verdict::Right
        );
        let set = Exchange::of(Command::Set, "k", 1).again(Command::Set);
        assert!(matches!(
            set.judge(b"NOT_STORED\r\n"),
            Verdict::Wrong { .. }
        ));
    }

    #[test]
    fn the_frame_of_a_request() {
        assert_eq!(framed(0x1234, b"x"), [0x12, 0x34, 0, 0, 0, 1, 0, 0, b'x']);
    }

    #[test]
    fn datagrams_come_in_any_order_and_twice() {
        let part = |request: u16, number: u16, all: u16, text: &[u8]| {
            let fields = [request, number, all, 0].map(u16::to_be_bytes);
            [&fields.concat()[..], text].concat()
        };
        let mut answer = Datagrams::of(7);
        assert_eq!(answer.take(&part(6, 0, 1, b"old")), Taken::Late);
        assert_eq!(answer.take(&part(7, 2, 3, b"c")), Taken::Part);
        assert_eq!(answer.take(&part(7, 0, 3, b"a")), Taken::Part);
        assert_eq!(answer.take(&part(7, 0, 3, b"a")), Taken::Late);
        assert_eq!(
            answer.take(&part(7, 1, 3, b"b")),
            Taken::Whole(b"abc".to_vec())
        );
        for wrong in [&b"short"[..], &part(8, 1, 1, b""), &part(8, 0, 0, b"")] {
            assert!(matches!(Datagrams::of(8).take(wrong), Taken::Wrong(_)));
        }
        let mut changing = Datagrams::of(9);
        assert_eq!(changing.take(&part(9, 0, 2, b"")), Taken::Part);
        assert!(matches!(
            changing.take(&part(9, 1, 3, b"")),
            Taken::Wrong(_)
        ));
    }

    #[test]
    fn keys_and_lengths_that_do_not_fit() {
        assert!(check("mcb", 16, Transport::Udp).is_ok());
        for (prefix, length, transport) in [
            ("", 16, Transport::Udp),
            ("a b", 16, Transport::Udp),
            ("mcb", 0, Transport::Tcp),
            ("mcb", MOST_BY_UDP + 1, Transport::Udp),
            ("mcb", MOST_BY_TCP + 1, Transport::Tcp),
        ] {
            let sentence = check(prefix, length, transport).expect_err("it does not fit");
            assert!(sentence.starts_with("--"), "{sentence}");
        }
        assert!(check("mcb", MOST_BY_UDP + 1, Transport::Tcp).is_ok());
    }
}
