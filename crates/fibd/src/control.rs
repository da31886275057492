// SPDX-License-Identifier: Apache-2.0
//! The control socket: one line of JSON asks, one line answers.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::audit;

/// Clients at once, and bytes of a request: more than any of ours needs.
const MOST_CLIENTS: usize = 16;
const LONGEST: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a client may take to ask.
const SILENCE: Duration = Duration::from_secs(10);
/// Clients that are let in at once.
const AT_ONCE: usize = 64;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// How it is.
    Status,
    /// Compare everything.
    Audit {
        /// Random addresses to look up beside those of all prefixes.
        random: u32,
        /// Addresses to ask the kernel for.
        ask: u32,
        /// For the random ones.
        seed: u64,
    },
    /// Dump the kernel anew.
    Resync,
}

/// What is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// How it is.
    Status(Box<Status>),
    /// What was found.
    Audit(audit::Report),
    /// Done.
    Done,
    /// Not done, and why.
    Error(String),
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortStatus {
    /// Its device's name.
    pub name: String,
    /// The device is there, up, has a carrier.
    pub there: bool,
    /// The device is up.
    pub up: bool,
    /// The device has a carrier.
    pub carrier: bool,
    /// The kernel forwards packets of IPv4 that come in there; the switch does in any case.
    pub forwards4: bool,
}

/// How it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Ports.
    pub ports: Vec<PortStatus>,
    /// The kernel forwards packets of IPv4.
    pub forwards4: bool,
    /// The kernel forwards packets of IPv6.
    pub forwards6: bool,
    /// Prefixes with a route.
    pub prefixes: u64,
    /// Routes in the tables.
    pub routes4: u64,
    /// Routes in the tables.
    pub routes6: u64,
    /// Prefixes that go by the host port since there is no room.
    pub spilled: u64,
    /// Words of the tables that lead to the host since there is no room for what is to be in them.
    pub shed: u64,
    /// Neighbours that are known.
    pub neighbours: u64,
    /// Next hops in the tables.
    pub next_hops: u64,
    /// Next-hop objects.
    pub objects: u64,
    /// Policy rules that are not followed.
    pub rules: u64,
    /// Different paths that routes have.
    pub paths: u64,
    /// A daemon is connected by FPM.
    pub fpm: bool,
    /// Milliseconds that the first dump took, until it was in the tables.
    pub first_ms: u64,
    /// Bytes of memory that the process has.
    pub memory: u64,
    /// Counters.
    pub counters: Vec<(String, u64)>,
    /// Memories: name, words in use, words there are.
    pub memories: Vec<(String, u64, u64)>,
}

struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    since: Instant,
}

/// The server's end.
pub struct Control {
    path: PathBuf,
    /// Where clients connect.
    pub listener: UnixListener,
    clients: Vec<Client>,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Control {
    /// Makes the socket, which only its owner may use. One that nobody answers at is replaced, and nothing else.
    ///
    /// # Errors
    /// If another process answers there, something else is there, or the socket can't be made.
    pub fn listen(path: &Path) -> io::Result<Self> {
        let exists = |text: &str| Err(io::Error::new(ErrorKind::AlreadyExists, text));
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return exists(
                    "there is something that is no socket; move it away, or name another place with --control",
                );
            }
            // Only what refuses has no listener: one that is busy makes who connects wait, or says so.
            Ok(_) => match UnixStream::connect(path) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?
                }
                Err(error) => {
                    return exists(&format!(
                        "a socket is there, and whether a process listens at it can't be found out ({error}); end that \
                         process, remove the socket, or name another place with --control"
                    ));
                }
                Ok(_) => {
                    return exists(
                        "another process listens there; end that fibd first, or name another place with --control",
                    );
                }
            },
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(|error| {
            let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            let text = match (error.kind(), directory.is_dir()) {
                (ErrorKind::NotFound | ErrorKind::NotADirectory, false) => format!(
                    "there is no directory {}; make it, or name another place with --control",
                    directory.display()
                ),
                (ErrorKind::InvalidInput, _) => {
                    "its name is too long for a socket; name a shorter one with --control".to_owned()
                }
                _ => format!(
                    "{error}; fibd must be able to write to the directory {}, or name another place with --control",
                    directory.display()
                ),
            };
            io::Error::new(error.kind(), text)
        })?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            path: path.to_owned(),
            listener,
            clients: Vec::new(),
        })
    }

    /// The clients' sockets.
    pub fn streams(&self) -> impl Iterator<Item = &UnixStream> {
        self.clients.iter().map(|client| &client.stream)
    }

    /// Reads what clients ask: those whose request is whole.
    pub fn requests(&mut self) -> Vec<(UnixStream, Result<Request, String>)> {
        for _ in 0..AT_ONCE {
            let Ok((stream, _)) = self.listener.accept() else {
                break;
            };
            if stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client {
                    stream,
                    input: Vec::new(),
                    since: Instant::now(),
                });
            }
        }
        let mut whole = Vec::new();
        for mut client in std::mem::take(&mut self.clients) {
            let mut room = [0; LONGEST];
            let open = match client.stream.read(&mut room) {
                Ok(0) => false,
                Ok(count) => {
                    client.input.extend_from_slice(&room[..count]);
                    true
                }
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            if let Some(end) = client.input.iter().position(|&byte| byte == b'\n') {
                let request = serde_json::from_slice(&client.input[..end]);
                let request = request.map_err(|error| format!("this is no request: {error}"));
                whole.push((client.stream, request));
            } else if client.input.len() > LONGEST {
                let text = "a request has one line, which is shorter".to_owned();
                whole.push((client.stream, Err(text)));
            } else if open {
                self.clients.push(client);
            }
        }
        // Those who are let in and do not ask give way, the oldest first: they would shut others out.
        self.clients.retain(|it| it.since.elapsed() < SILENCE);
        let many = self.clients.len().saturating_sub(MOST_CLIENTS);
        self.clients.drain(..many);
        whole
    }
}

/// Whether a client has closed its end, so that no answer reaches it; one that only sends nothing more still waits.
pub fn is_gone(client: &UnixStream) -> bool {
    let mut fds = [PollFd::new(client, PollFlags::empty())];
    let now = Timespec::default();
    poll(&mut fds, Some(&now)).is_ok()
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Answers a client, and ends with it.
pub fn reply(mut stream: UnixStream, reply: &Reply) {
    let Ok(mut text) = serde_json::to_vec(reply) else {
        return;
    };
    text.push(b'\n');
    // A client that went away has lost its answer, nothing else.
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let _ = stream.write_all(&text);
}

/// Why nobody answers.
fn unanswered(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    if error.kind() == ErrorKind::PermissionDenied {
        return format!(
            "the control socket {path} is another user's: {error}; run this as the user that fibd runs as, such as root"
        );
    }
    format!("no fibd answers at {path}: {error}; start one with `fibd run`")
}

/// Asks a server.
///
/// # Errors
/// If nobody answers at that path, or with something else.
pub fn ask(path: &Path, request: &Request) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(path)
        .map_err(|error| io::Error::new(error.kind(), unanswered(path, &error)))?;
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    let mut answer = String::new();
    let exchange = stream
        .write_all(&text)
        .and_then(|()| stream.read_to_string(&mut answer));
    let ended = match exchange {
        Ok(_) => answer.is_empty(),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            ) =>
        {
            true
        }
        Err(error) => return Err(error),
    };
    if ended {
        let text = format!(
            "the fibd at {} ended the connection without an answer; if it still runs, ask again",
            path.display()
        );
        return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
    }
    serde_json::from_str(&answer).map_err(|error| {
        let text = format!(
            "the fibd at {} gives no answer that makes sense: {error}",
            path.display()
        );
        io::Error::new(ErrorKind::InvalidData, text)
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn refused(path: &Path, sentence: &str) {
        let error = Control::listen(path)
            .map(|_| ())
            .expect_err("it must not be taken");
        assert!(error.to_string().contains(sentence), "{error}");
    }

    #[test]
    fn only_a_socket_that_nobody_listens_at_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        fs::write(&path, "precious").unwrap();
        refused(&path, "no socket; move it away");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        refused(&link, "no socket");
        refused(directory.path(), "no socket");
        fs::remove_file(&path).unwrap();
        let live = UnixListener::bind(&path).unwrap();
        refused(&path, "another process listens there; end");
        assert!(UnixStream::connect(&path).is_ok());
        drop(live);
        drop(Control::listen(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_place_that_cant_be_has_a_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("absent/control");
        refused(
            &path,
            "absent; make it, or name another place with --control",
        );
        let path = directory.path().join("x".repeat(200));
        refused(&path, "too long for a socket");
    }

    #[test]
    fn those_who_do_not_ask_shut_nobody_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let mut control = Control::listen(&path).unwrap();
        let silent: Vec<_> = (0..3 * MOST_CLIENTS)
            .map(|_| {
                let mut stream = UnixStream::connect(&path).unwrap();
                stream.write_all(b"\"sta").unwrap();
                stream
            })
            .collect();
        assert!(control.requests().is_empty());
        assert_eq!(control.streams().count(), MOST_CLIENTS);
        // The oldest have given way.
        let open: Vec<_> = silent.iter().map(|stream| !is_gone(stream)).collect();
        assert!(open[2 * MOST_CLIENTS..].iter().all(|open| *open));
        assert!(!open[..2 * MOST_CLIENTS].contains(&true));
        let asks = path.clone();
        let client = thread::spawn(move || ask(&asks, &Request::Resync));
        let stream = loop {
            if let Some((stream, request)) = control.requests().pop() {
                assert_eq!(request, Ok(Request::Resync));
                break stream;
            }
        };
        reply(stream, &Reply::Done);
        assert!(matches!(client.join().unwrap(), Ok(Reply::Done)));
        // Nor for ever those who are let in.
        for client in &mut control.clients {
            client.since = Instant::now().checked_sub(SILENCE).unwrap();
        }
        assert!(control.requests().is_empty());
        assert_eq!(control.streams().count(), 0);
    }

    #[test]
    fn another_users_socket_is_no_reason_to_start_a_second_fibd() {
        let said = |kind: ErrorKind| unanswered(Path::new("/run/fibd.sock"), &kind.into());
        let denied = said(ErrorKind::PermissionDenied);
        assert!(denied.contains("another user's"), "{denied}");
        assert!(!denied.contains("start one"), "{denied}");
        assert!(said(ErrorKind::NotFound).contains("start one"));
    }

    #[test]
    fn a_server_that_hangs_up_has_a_sentence_and_a_client_that_did_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || drop(listener.accept()));
        let error = ask(&path, &Request::Status).expect_err("nobody answers");
        server.join().unwrap();
        assert!(error.to_string().contains("without an answer"), "{error}");
        let (one, other) = UnixStream::pair().unwrap();
        other.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!is_gone(&one), "it still waits");
        drop(other);
        assert!(is_gone(&one));
        // Nobody takes it, and nothing happens.
        reply(one, &Reply::Done);
    }
}
