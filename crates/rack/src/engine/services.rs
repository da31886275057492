// SPDX-License-Identifier: Apache-2.0
//! What runs behind the TCP offload engine: echo, discard, chargen, and HTTP/1.0 as a server and as a client.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use sha2::{Digest as _, Sha256};

use super::sockets::{Accept, Session, Socket};

/// Ports and what is behind them: RFC 862, 863 and 864, and RFC 1945.
pub fn services() -> Vec<(u16, Accept)> {
    vec![
        (7, Rc::new(|| Box::new(Echo))),
        (9, Rc::new(|| Box::new(Discard))),
        (19, Rc::new(|| Box::new(Chargen(Numbers::default())))),
        (80, Rc::new(|| Box::<Http>::default())),
    ]
}

/// The numbers from 1, each on a line, as `seq` prints them: text that repeats itself nowhere.
#[derive(Default)]
pub struct Numbers {
    last: u64,
    rest: Vec<u8>,
}

impl Numbers {
    /// The next bytes.
    pub fn next(&mut self, count: usize) -> Vec<u8> {
        let mut text = String::new();
        while self.rest.len() + text.len() < count {
            self.last += 1;
            let _ = writeln!(text, "{}", self.last);
        }
        self.rest.extend(text.into_bytes());
        self.rest.drain(..count).collect()
    }
}

/// What came comes back.
struct Echo;

impl Session for Echo {
    fn run(&mut self, socket: &mut Socket<'_>) {
        let bytes = socket.take(socket.room());
        socket.give(&bytes);
        if socket.has_ended() {
            socket.close();
        }
    }
}

/// What came is forgotten.
struct Discard;

impl Session for Discard {
    fn run(&mut self, socket: &mut Socket<'_>) {
        socket.take(usize::MAX);
        if socket.has_ended() {
            socket.close();
        }
    }
}

/// Numbers without end.
struct Chargen(Numbers);

impl Session for Chargen {
    fn run(&mut self, socket: &mut Socket<'_>) {
        socket.take(usize::MAX);
        if socket.has_ended() {
            socket.close();
        }
        let bytes = self.0.next(socket.room());
        socket.give(&bytes);
    }
}

/// Where a request is.
#[derive(Default)]
enum Stage {
    /// Its head is not whole.
    #[default]
    Head,
    /// So many bytes of its body are to come.
    Body(u64, Sha256),
    /// So many numbers are still to be sent behind what waits.
    Answer(u64),
}

/// `GET /N`: the first N bytes of [`Numbers`]. `PUT` or `POST`: length and SHA-256 of the body.
#[derive(Default)]
struct Http {
    stage: Stage,
    head: Vec<u8>,
    numbers: Numbers,
    /// Not sent yet.
    waits: Vec<u8>,
    bytes: u64,
}

/// Longest head of a request or an answer.
const MOST_HEAD: usize = 16_384;
/// Longest body that is asked for: the name of the resource is a number.
const MOST_BODY: u64 = 1 << 40;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Length of a head with the empty line behind it.
fn head_length(bytes: &[u8]) -> Option<usize> {
    let windows = bytes.windows(HEAD_END.len());
    let place = windows.into_iter().position(|window| window == HEAD_END)?;
    Some(place + HEAD_END.len())
}

/// The value of a field.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut found = fields.filter(|(key, _)| key.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}

impl Http {
    fn answer(&mut self, status: &str, text: &str, numbers: u64) {
        let length = text.len() as u64 + numbers;
        let head = format!("HTTP/1.0 {status}\r\nContent-Length: {length}\r\n\r\n{text}");
        self.waits.extend(head.into_bytes());
        self.stage = Stage::Answer(numbers);
    }

    /// The head is whole; what is behind it is put back.
    fn begin(&mut self, length: usize) {
        let body = self.head.split_off(length);
        let head = String::from_utf8_lossy(&self.head).into_owned();
        let mut words = head.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("GET"), Some(path)) => match path.trim_start_matches('/').parse() {
                Ok(count) if count <= MOST_BODY => self.answer("200 OK", "", count),
                _ => self.answer("404 Not Found", "ask for a number of bytes\n", 0),
            },
            (Some("PUT" | "POST"), Some(_)) => {
                match field(&head, "Content-Length").and_then(|text| text.parse().ok()) {
                    Some(count) => {
                        if field(&head, "Expect").is_some() {
                            self.waits.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
                        }
                        self.stage = Stage::Body(count, Sha256::new());
                        self.body(&body);
                    }
                    None => self.answer("411 Length Required", "say how long the body is\n", 0),
                }
            }
            _ => self.answer("400 Bad Request", "write GET, PUT or POST\n", 0),
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        let Stage::Body(left, hash) = &mut self.stage else {
            return;
        };
        let count = (bytes.len() as u64).min(*left);
        hash.update(&bytes[..count as usize]);
        *left -= count;
        self.bytes += count;
        if *left == 0 {
            let text = format!("{} {}\n", self.bytes, hex(std::mem::take(hash)));
            self.answer("200 OK", &text, 0);
        }
    }
}

fn hex(hash: Sha256) -> String {
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Session for Http {
    fn run(&mut self, socket: &mut Socket<'_>) {
        let bytes = socket.take(usize::MAX);
        match self.stage {
            Stage::Head => {
                self.head.extend(bytes);
                match head_length(&self.head) {
                    Some(length) => self.begin(length),
                    None if self.head.len() > MOST_HEAD => {
                        self.answer("431 Request Header Fields Too Large", "", 0);
                    }
                    None => {}
                }
            }
            Stage::Body(..) => self.body(&bytes),
            Stage::Answer(_) => {}
        }
        if let Stage::Head | Stage::Body(..) = self.stage
            && socket.has_ended()
        {
            self.answer("400 Bad Request", "the request is not whole\n", 0);
        }
        let waits = self.waits.len().min(socket.room());
        socket.give(&self.waits.drain(..waits).collect::<Vec<_>>());
        if let Stage::Answer(left) = &mut self.stage {
            let count = (socket.room() as u64).min(*left);
            socket.give(&self.numbers.next(count as usize));
            *left -= count;
            if *left == 0 && self.waits.is_empty() {
                socket.close();
            }
        }
    }
}

/// What a fetch brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The status line.
    pub status: String,
    /// Bytes of the body.
    pub bytes: u64,
    /// Their SHA-256 in hexadecimal.
    pub sha256: String,
}

/// How a fetch goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// It is under way.
    #[default]
    Going,
    /// Its connection was reset before anything came: nobody listens yet.
    Refused,
    /// It has ended.
    Done(Fetched),
}

/// Asks for a path by HTTP/1.0 and takes everything until the end.
pub struct Fetch {
    request: Vec<u8>,
    head: Option<Vec<u8>>,
    fetched: Fetched,
    hash: Sha256,
    progress: Rc<RefCell<Progress>>,
}

impl Fetch {
    /// A request to `host` for `path`; `progress` is told how it goes.
    pub fn new(host: &str, path: &str, progress: Rc<RefCell<Progress>>) -> Self {
        Self {
            request: format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").into_bytes(),
            head: Some(Vec::new()),
            fetched: Fetched::default(),
            hash: Sha256::new(),
            progress,
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        self.fetched.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }
}

impl Session for Fetch {
    fn run(&mut self, socket: &mut Socket<'_>) {
        socket.give(&std::mem::take(&mut self.request));
        let bytes = socket.take(usize::MAX);
        match &mut self.head {
            None => self.body(&bytes),
            Some(head) => {
                head.extend(bytes);
                if let Some(length) = head_length(head) {
                    let head = self.head.take().unwrap_or_default();
                    let text = String::from_utf8_lossy(&head[..length]);
                    self.fetched.status = text.lines().next().unwrap_or_default().to_owned();
                    self.body(&head[length..]);
                } else if head.len() > MOST_HEAD {
                    let head = self.head.take().unwrap_or_default();
                    "no HTTP".clone_into(&mut self.fetched.status);
                    self.body(&head);
                }
            }
        }
        if socket.has_ended() {
            self.fetched.sha256 = hex(std::mem::take(&mut self.hash));
            let done = Progress::Done(self.fetched.clone());
            let mut progress = self.progress.borrow_mut();
            if *progress == Progress::Going {
                *progress = done;
            }
            socket.close();
        }
    }

    fn gone(&mut self, reset: bool) {
        let mut progress = self.progress.borrow_mut();
        if reset && *progress == Progress::Going {
            *progress = Progress::Refused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_seq() {
        let mut numbers = Numbers::default();
        let parts = [3, 0, 1, 20].map(|count| numbers.next(count));
        assert_eq!(parts.concat(), b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n");
    }

    #[test]
    fn heads_are_taken_apart() {
        let head = "PUT /x HTTP/1.1\r\nHost: a\r\ncontent-length:  12 \r\n\r\nrest";
        assert_eq!(head_length(head.as_bytes()), Some(head.len() - 4));
        assert_eq!(field(head, "Content-Length"), Some("12"));
        assert_eq!(field(head, "Expect"), None);
        assert_eq!(head_length(b"GET / HTTP/1.0\r\n"), None);
    }
}
