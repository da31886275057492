// SPDX-License-Identifier: Apache-2.0
//! Another TCP in virtual time: smoltcp, with one connection.

use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint, Ipv4Address};

use crate::frame::Socket;
use crate::{Error, Picoseconds};

#[derive(Debug)]
struct Queues {
    mtu: usize,
    received: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

struct Receiving(Vec<u8>);
struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for Receiving {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Receiving;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Receiving, Sending<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Receiving(packet), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

fn instant(time: Picoseconds) -> Instant {
    Instant::from_micros(time.whole_us() as i64)
}

fn endpoint(socket: Socket) -> IpEndpoint {
    let [a, b, c, d] = socket.address;
    let address = IpAddress::Ipv4(Ipv4Address::new(a, b, c, d));
    IpEndpoint::new(address, socket.port)
}

/// smoltcp with one socket.
pub struct Peer {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    queues: Queues,
    local: Socket,
}

impl Peer {
    /// With buffers of that many bytes; `mtu` is of IP.
    pub fn new(local: Socket, mtu: usize, buffer: usize, seed: u64) -> Self {
        let mut queues = Queues {
            mtu,
            received: VecDeque::new(),
            sent: VecDeque::new(),
        };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, Instant::ZERO);
        let [a, b, c, d] = local.address;
        interface.update_ip_addrs(|addresses| {
            // There is room for one in every build.
            let _ = addresses.push(IpCidr::new(IpAddress::v4(a, b, c, d), 24));
        });
        let buffers = || tcp::SocketBuffer::new(vec![0; buffer]);
        let mut socket = tcp::Socket::new(buffers(), buffers());
        socket.set_congestion_control(tcp::CongestionControl::Reno);
        socket.set_ack_delay(Some(Duration::from_micros(50)));
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self {
            interface,
            sockets,
            handle,
            queues,
            local,
        }
    }

    /// The socket.
    pub fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Connects.
    pub fn connect(&mut self, to: Socket) -> Result<(), Error> {
        let port = self.local.port;
        let context = self.interface.context();
        let socket = self.sockets.get_mut::<tcp::Socket>(self.handle);
        let connected = socket.connect(context, endpoint(to), port);
        connected.map_err(|error| Error::Config(format!("smoltcp does not connect: {error}")))
    }

    /// Listens.
    pub fn listen(&mut self) -> Result<(), Error> {
        let port = self.local.port;
        let listens = self.socket().listen(port);
        listens.map_err(|error| Error::Config(format!("smoltcp does not listen: {error}")))
    }

    /// A packet arrives.
    pub fn arrive(&mut self, packet: Vec<u8>) {
        self.queues.received.push_back(packet);
    }

    /// Does what is to be done, and gives the packets to send.
    pub fn poll(&mut self, now: Picoseconds) -> Vec<Vec<u8>> {
        let now = instant(now);
        self.interface
            .poll(now, &mut self.queues, &mut self.sockets);
        self.queues.sent.drain(..).collect()
    }

    /// When it wants to be asked again.
    pub fn next(&mut self, now: Picoseconds) -> Picoseconds {
        let again = self.interface.poll_at(instant(now), &self.sockets);
        again.map_or(Picoseconds::NEVER, |time| {
            let time = Picoseconds::from_us(time.total_micros().max(0) as u64);
            // Its clock has whole microseconds.
            time.max(now + Picoseconds::from_us(1))
        })
    }
}
