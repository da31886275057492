// SPDX-License-Identifier: Apache-2.0
//! Connections of the TCP offload engine as a program has them: streams in buffers, over the engine's commands and events.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::rc::Rc;

use ipnuma_rtl::{Toe, ToeCommand, ToeCommandKind, ToeEvent, ToeRead, ToeState, ToeWrite};

/// Bytes of a send buffer: a power of two, and no matter of the engine, which asks for words by sequence number.
pub const TX_BYTES: usize = 65_536;
const WORD: usize = 8;

/// What a program does with a connection.
pub trait Session {
    /// Bytes came, or room, or the peer's end: all that can be done is to be done.
    fn run(&mut self, socket: &mut Socket<'_>);
    /// The connection is gone.
    fn gone(&mut self, _reset: bool) {}
}

/// Makes the program for a connection to a port that is listened at.
pub type Accept = Rc<dyn Fn() -> Box<dyn Session>>;

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounts {
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that were reset or given up, before or after that.
    pub reset: u64,
    /// Bytes that programs took.
    pub received: u64,
    /// Bytes that programs gave.
    pub sent: u64,
}

/// Bytes by sequence number.
struct Ring(Box<[u8]>);

impl Ring {
    fn new(bytes: usize) -> Self {
        assert!(bytes.is_power_of_two() && bytes >= WORD);
        Self(vec![0; bytes].into_boxed_slice())
    }

    fn place(&self, number: u32) -> usize {
        number as usize & (self.0.len() - 1)
    }

    fn get(&self, number: u32, count: usize) -> Vec<u8> {
        let numbers = (0..count as u32).map(|index| number.wrapping_add(index));
        numbers.map(|number| self.0[self.place(number)]).collect()
    }

    fn put(&mut self, number: u32, bytes: &[u8]) {
        for (index, byte) in (0_u32..).zip(bytes) {
            let place = self.place(number.wrapping_add(index));
            self.0[place] = *byte;
        }
    }
}

struct Buffers {
    receive: Ring,
    send: Ring,
}

/// A connection that is open.
struct Connection {
    session: Option<Box<dyn Session>>,
    /// Number of the next byte to be taken.
    read: u32,
    /// Number behind the last byte that came, without a FIN.
    came: u32,
    ended: bool,
    /// Number behind the last byte that was given.
    written: u32,
    acknowledged: u32,
    closed: bool,
    state: ToeState,
}

/// One connection, for its program.
pub struct Socket<'a> {
    number: u16,
    connection: &'a mut Connection,
    buffers: &'a mut Buffers,
    commands: &'a mut VecDeque<ToeCommand>,
    counts: &'a mut SocketCounts,
}

impl Socket<'_> {
    /// Takes at most so many bytes.
    pub fn take(&mut self, most: usize) -> Vec<u8> {
        let there = self.connection.came.wrapping_sub(self.connection.read) as usize;
        let bytes = self
            .buffers
            .receive
            .get(self.connection.read, there.min(most));
        if !bytes.is_empty() {
            let amount = bytes.len() as u32;
            self.connection.read = self.connection.read.wrapping_add(amount);
            self.counts.received += u64::from(amount);
            self.commands
                .push_back(command(ToeCommandKind::Read, self.number, amount));
        }
        bytes
    }

    /// Whether the peer sends no more, and all that it sent was taken.
    pub fn has_ended(&self) -> bool {
        self.connection.ended && self.connection.read == self.connection.came
    }

    /// Bytes that [`Socket::give`] has room for.
    pub fn room(&self) -> usize {
        let connection = &self.connection;
        let used = connection.written.wrapping_sub(connection.acknowledged) as usize;
        if connection.closed {
            0
        } else {
            TX_BYTES - used
        }
    }

    /// Gives bytes to be sent.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn give(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "a program gives what fits");
        if bytes.is_empty() {
            return;
        }
        self.buffers.send.put(self.connection.written, bytes);
        let amount = bytes.len() as u32;
        self.connection.written = self.connection.written.wrapping_add(amount);
        self.counts.sent += u64::from(amount);
        self.commands
            .push_back(command(ToeCommandKind::Write, self.number, amount));
    }

    /// No more will be given.
    pub fn close(&mut self) {
        if !std::mem::replace(&mut self.connection.closed, true) {
            self.commands
                .push_back(command(ToeCommandKind::Close, self.number, 0));
        }
    }
}

fn command(kind: ToeCommandKind, conn: u16, amount: u32) -> ToeCommand {
    ToeCommand {
        kind,
        conn,
        mac: 0,
        ip: 0,
        peer_port: 0,
        local_port: 0,
        amount,
    }
}

/// Where a connection leads that is being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where its frames go.
    pub mac: u64,
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its port.
    pub port: u16,
}

/// All connections.
pub struct Sockets {
    buffers: Vec<Buffers>,
    connections: Vec<Option<Connection>>,
    commands: VecDeque<ToeCommand>,
    services: BTreeMap<u16, Accept>,
    /// Programs of connections that are being opened, by own port.
    dialling: BTreeMap<u16, Box<dyn Session>>,
    next_port: u16,
    /// What passed.
    pub counts: SocketCounts,
}

/// First port of connections that are opened from here (RFC 6335).
const FIRST_PORT: u16 = 49_152;

impl Sockets {
    /// Listens at the ports of services.
    pub fn new(services: Vec<(u16, Accept)>) -> Self {
        assert!(
            services.len() <= Toe::LISTENERS,
            "the engine listens at {} ports",
            Toe::LISTENERS
        );
        let buffers = || Buffers {
            receive: Ring::new(Toe::RX_BYTES),
            send: Ring::new(TX_BYTES),
        };
        let listen = |(port, _): &(u16, Accept)| ToeCommand {
            local_port: *port,
            ..command(ToeCommandKind::Listen, 0, 0)
        };
        Self {
            buffers: (0..Toe::CONNECTIONS).map(|_| buffers()).collect(),
            connections: (0..Toe::CONNECTIONS).map(|_| None).collect(),
            commands: services.iter().map(listen).collect(),
            services: services.into_iter().collect(),
            dialling: BTreeMap::new(),
            next_port: FIRST_PORT,
            counts: SocketCounts::default(),
        }
    }

    /// Opens a connection.
    pub fn connect(&mut self, peer: Peer, session: Box<dyn Session>) {
        let local_port = self.next_port;
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        self.dialling.insert(local_port, session);
        self.commands.push_back(ToeCommand {
            mac: peer.mac,
            ip: peer.ip.to_bits(),
            peer_port: peer.port,
            local_port,
            ..command(ToeCommandKind::Connect, 0, 0)
        });
    }

    /// The command to offer.
    pub fn offered(&self) -> Option<ToeCommand> {
        self.commands.front().copied()
    }

    /// It was taken.
    pub fn taken(&mut self) {
        self.commands.pop_front();
    }

    /// The engine writes a word.
    pub fn write(&mut self, write: ToeWrite) {
        let number = write.word.wrapping_mul(WORD as u32);
        let ring = &mut self.buffers[usize::from(write.conn)].receive;
        for (lane, byte) in (0_u32..).zip(write.data.to_le_bytes()) {
            if write.strobe >> lane & 1 != 0 {
                ring.put(number.wrapping_add(lane), &[byte]);
            }
        }
    }

    /// The engine reads a word.
    pub fn read(&self, read: ToeRead) -> u64 {
        let ring = &self.buffers[usize::from(read.conn)].send;
        let bytes = ring.get(read.word.wrapping_mul(WORD as u32), WORD);
        bytes.iter().rev().fold(0, |d, b| d << 8 | u64::from(*b))
    }

    /// The engine tells of a connection.
    pub fn event(&mut self, event: ToeEvent) {
        let index = usize::from(event.conn);
        if event.opened {
            self.counts.opened += 1;
            let dialled = self.dialling.remove(&event.local_port);
            let accepted = || self.services.get(&event.local_port).map(|accept| accept());
            self.connections[index] = Some(Connection {
                session: dialled.or_else(accepted),
                read: event.rcv_read,
                came: event.rcv_read,
                ended: false,
                written: event.snd_una,
                acknowledged: event.snd_una,
                closed: false,
                state: event.state,
            });
        }
        self.counts.reset += u64::from(event.reset);
        if event.state == ToeState::Closed {
            self.forget(event);
            return;
        }
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        let fin = event.state.has_fin();
        connection.ended |= fin;
        connection.came = event.rcv_nxt.wrapping_sub(u32::from(connection.ended));
        // With an own FIN acknowledged this is one beyond what was given.
        let given = connection.written.wrapping_sub(connection.acknowledged);
        let acknowledged = event.snd_una.wrapping_sub(connection.acknowledged);
        connection.acknowledged = connection
            .acknowledged
            .wrapping_add(acknowledged.min(given));
        connection.state = event.state;
        self.run(event.conn);
    }

    /// Has the program of a connection go on, which waited for something else than the connection.
    pub fn run(&mut self, conn: u16) {
        let index = usize::from(conn);
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        let Some(mut session) = connection.session.take() else {
            return;
        };
        session.run(&mut Socket {
            number: conn,
            connection,
            buffers: &mut self.buffers[index],
            commands: &mut self.commands,
            counts: &mut self.counts,
        });
        connection.session = Some(session);
    }

    /// Connections that were opened and are not gone, with their states.
    pub fn states(&self) -> impl Iterator<Item = (u16, ToeState)> {
        let numbered = (0_u16..).zip(&self.connections);
        numbered.filter_map(|(number, connection)| Some((number, connection.as_ref()?.state)))
    }

    /// A connection is gone. Commands that wait for it must not reach the next one with its number.
    fn forget(&mut self, event: ToeEvent) {
        let own = |command: &ToeCommand| {
            matches!(
                command.kind,
                ToeCommandKind::Close
                    | ToeCommandKind::Abort
                    | ToeCommandKind::Read
                    | ToeCommandKind::Write
            ) && command.conn == event.conn
        };
        self.commands.retain(|command| !own(command));
        let connection = self.connections[usize::from(event.conn)].take();
        let open = connection.and_then(|connection| connection.session);
        let session = open.or_else(|| self.dialling.remove(&event.local_port));
        if let Some(mut session) = session {
            session.gone(event.reset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends back what comes, and closes behind the peer.
    struct Back;

    impl Session for Back {
        fn run(&mut self, socket: &mut Socket<'_>) {
            let bytes = socket.take(socket.room());
            socket.give(&bytes);
            if socket.has_ended() {
                socket.close();
            }
        }
    }

    fn event(state: ToeState, opened: bool, rcv_nxt: u32, snd_una: u32) -> ToeEvent {
        ToeEvent {
            conn: 3,
            state,
            opened,
            reset: false,
            rcv_nxt,
            snd_una,
            rcv_read: 0xFFFF_FFFE,
            local_port: 7,
            peer_port: 1,
            peer_ip: 1,
        }
    }

    fn kinds(sockets: &Sockets) -> Vec<(ToeCommandKind, u32)> {
        let commands = sockets.commands.iter();
        commands
            .map(|command| (command.kind, command.amount))
            .collect()
    }

    /// Numbers wrap within the first bytes, and what came before the connection was told of belongs to it.
    #[test]
    fn a_stream_comes_back_and_ends() {
        let mut sockets = Sockets::new(vec![(7, Rc::new(|| Box::new(Back)))]);
        sockets.taken();
        // Bytes 0xFFFF_FFFE to 2: the last two of one word, and the first three of the next one.
        for (word, data, strobe) in [
            (0x1FFF_FFFF, 0x6261_0000_0000_0000, 0xC0),
            (0, 0x65_6463, 7),
        ] {
            sockets.write(ToeWrite {
                conn: 3,
                word,
                data,
                strobe,
            });
        }
        sockets.event(event(ToeState::Established, true, 3, 1000));
        let (read, write) = (ToeCommandKind::Read, ToeCommandKind::Write);
        assert_eq!(kinds(&sockets), [(read, 5), (write, 5)]);
        // 1000 is the first byte of its word.
        let word = ToeRead { conn: 3, word: 125 };
        assert_eq!(sockets.read(word).to_le_bytes()[..5], *b"abcde");
        sockets.event(event(ToeState::CloseWait, false, 4, 1005));
        assert_eq!(
            kinds(&sockets)[2..],
            [(ToeCommandKind::Close, 0)],
            "a FIN is no byte"
        );
        assert_eq!((sockets.counts.received, sockets.counts.sent), (5, 5));
    }

    #[test]
    fn commands_of_a_connection_that_is_gone_go_with_it() {
        let mut sockets = Sockets::new(vec![(7, Rc::new(|| Box::new(Back)))]);
        sockets.event(event(ToeState::Established, true, 2, 1000));
        assert_eq!(kinds(&sockets).len(), 3);
        sockets.event(event(ToeState::Closed, false, 2, 1000));
        assert_eq!(kinds(&sockets), [(ToeCommandKind::Listen, 0)]);
    }
}
