// SPDX-License-Identifier: Apache-2.0
//! One connection to another daemon: a thread that reads, and one that writes. They decide nothing, and answer only when
//! they are asked whether they are there: so a daemon that has much to do is not taken for one that is gone.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::remote::coordinator::Input;
use crate::remote::messages::{self, Message};

/// Number of a connection.
pub type LinkId = u64;

/// A connection, or one in the making. Dropped, it is closed.
#[derive(Debug)]
pub struct Link {
    /// The writing thread ends with it.
    messages: Arc<mpsc::Sender<Message>>,
    stream: Option<TcpStream>,
    heard: Heard,
}

/// When the other side has said something last; it is known before anybody has time to listen.
#[derive(Clone, Debug)]
struct Heard(Arc<Mutex<Instant>>);

impl Heard {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn again(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Link {
    /// Connects to a daemon, from the own address by which tokens know this machine. [`Input::Connected`] or
    /// [`Input::Closed`] follows.
    pub fn connect(
        id: LinkId,
        from: Ipv4Addr,
        to: SocketAddrV4,
        patience: Duration,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        let (messages, queue) = queue();
        let heard = Heard::now();
        let hears = heard.clone();
        let answers = Arc::downgrade(&messages);
        thread::spawn(move || {
            let stream = connect(from, to, patience);
            let copies = stream.and_then(|stream| Ok((stream.try_clone()?, stream)));
            match copies {
                Ok((copy, stream)) => {
                    let _ = inputs.send(Input::Connected(id, copy));
                    run(id, stream, &queue, &inputs, hears, answers);
                }
                Err(error) => {
                    let _ = inputs.send(Input::Closed(id, error.to_string()));
                }
            }
        });
        Self {
            messages,
            stream: None,
            heard,
        }
    }

    /// A connection that another daemon has made.
    pub fn accepted(
        id: LinkId,
        stream: TcpStream,
        inputs: mpsc::Sender<Input>,
    ) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let copy = stream.try_clone()?;
        let (messages, queue) = queue();
        let heard = Heard::now();
        let hears = heard.clone();
        let answers = Arc::downgrade(&messages);
        thread::spawn(move || run(id, stream, &queue, &inputs, hears, answers));
        Ok(Self {
            messages,
            stream: Some(copy),
            heard,
        })
    }

    /// The connection has come about: it is closed through this one.
    pub fn connected(&mut self, stream: TcpStream) {
        self.stream = Some(stream);
    }

    /// When the other side has said something last, or the connection was begun.
    pub fn heard(&self) -> Instant {
        *self.heard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message, without waiting. If the connection is gone, [`Input::Closed`] says so.
    pub fn send(&self, message: Message) {
        let _ = self.messages.send(message);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn queue() -> (Arc<mpsc::Sender<Message>>, mpsc::Receiver<Message>) {
    let (messages, queue) = mpsc::channel();
    (Arc::new(messages), queue)
}

fn connect(from: Ipv4Addr, to: SocketAddrV4, patience: Duration) -> io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let timeout = Timespec {
                tv_sec: patience.as_secs().cast_signed(),
                tv_nsec: 0,
            };
            let mut one = [PollFd::new(&socket, PollFlags::OUT)];
            if poll(&mut one, Some(&timeout))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Writes here, reads in another thread.
fn run(
    id: LinkId,
    stream: TcpStream,
    queue: &mpsc::Receiver<Message>,
    inputs: &mpsc::Sender<Input>,
    heard: Heard,
    answers: Weak<mpsc::Sender<Message>>,
) {
    let mut writer = match stream.try_clone() {
        Ok(writer) => writer,
        Err(error) => {
            let _ = inputs.send(Input::Closed(id, error.to_string()));
            return;
        }
    };
    // Without these it is only slower, and a dead machine is noticed by its NIC's silence.
    let _ = writer.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(&writer, true);
    let back = inputs.clone();
    heard.again();
    thread::spawn(move || read(id, stream, &back, &heard, &answers));
    for message in queue {
        if messages::write(&mut writer, &message).is_err() {
            // The reader sees it too, and says so.
            let _ = writer.shutdown(Shutdown::Both);
            return;
        }
    }
    // The link was dropped while it was in the making.
    let _ = writer.shutdown(Shutdown::Both);
}

fn read(
    id: LinkId,
    mut stream: TcpStream,
    inputs: &mpsc::Sender<Input>,
    heard: &Heard,
    answers: &Weak<mpsc::Sender<Message>>,
) {
    loop {
        let why = match messages::read(&mut stream) {
            Ok(Some(message)) => {
                heard.again();
                let taken = match message {
                    Message::Pong => true,
                    // Not written here: whoever reads must go on reading, or both sides may wait for each other.
                    Message::Ping => answers
                        .upgrade()
                        .is_none_or(|answers| answers.send(Message::Pong).is_ok()),
                    message => inputs.send(Input::Arrived(id, message)).is_ok(),
                };
                if !taken {
                    return;
                }
                continue;
            }
            Ok(None) => "it has closed the connection".to_owned(),
            Err(error) => error.to_string(),
        };
        let _ = stream.shutdown(Shutdown::Both);
        let _ = inputs.send(Input::Closed(id, why));
        return;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_daemon_that_decides_nothing_still_says_that_it_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let mut other = TcpStream::connect(at).expect("it listens");
        let (stream, _) = listener.accept().expect("it has connected");
        // Nobody takes what arrives.
        let (inputs, received) = mpsc::channel();
        let link = Link::accepted(7, stream, inputs).expect("a connection");
        let heard = link.heard();
        let patience = Some(Duration::from_secs(20));
        other.set_read_timeout(patience).expect("a time limit");
        for question in 0..100 {
            let intend = Message::Unintend { intent: question };
            messages::write(&mut other, &intend).expect("it reads");
        }
        messages::write(&mut other, &Message::Ping).expect("it reads");
        let answer = messages::read(&mut other).expect("it answers");
        assert_eq!(answer, Some(Message::Pong));
        assert!(link.heard() > heard);
        // Neither is anything for those who decide.
        messages::write(&mut other, &Message::Pong).expect("it reads");
        drop(link);
        assert_eq!(messages::read(&mut other).ok().flatten(), None);
        let arrived = received.iter().map(|input| match input {
            Input::Arrived(7, Message::Unintend { .. }) => 1,
            Input::Closed(7, _) => 0,
            other => panic!("{other:?}"),
        });
        assert_eq!(arrived.sum::<u32>(), 100);
    }
}
