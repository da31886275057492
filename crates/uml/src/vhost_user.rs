// SPDX-License-Identifier: Apache-2.0
//! The back end's side of vhost-user, as much of it as `virtio_uml.c` speaks.
//!
//! The guest connects once a device and sends requests; with REPLY_ACK it waits for an answer to each. Kicks come in band
//! (VRING_KICK), because only then they have a place in simulated time: the guest has told its time before (UPDATE), and
//! stands still until the answer. Interrupts go in band as well, over the back end's own channel (SLAVE_REQ), and the guest
//! answers when it has put the interrupt into its calendar. So rings are touched only while the guest stands still: between
//! a kick and its answer, or while it waits.
//!
//! The crates of rust-vmm have no in-band notifications; their queues and memory maps are used ([`crate::ring`]).

use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::memory::{Memory, Region};
use crate::ring::Ring;
use crate::time_travel::closed;

const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Virtio feature: the ring and headers of virtio 1.0.
const VIRTIO_F_VERSION_1: u64 = 1 << 32;
/// Virtio feature: driver and device tell each other how far they have come in a ring.
pub(crate) const VIRTIO_F_EVENT_IDX: u64 = 1 << 29;
const F_PROTOCOL_FEATURES: u64 = 1 << 30;

/// Protocol features: REPLY_ACK, SLAVE_REQ, CONFIG, INBAND_NOTIFICATIONS. Without any of them there is no telling when
/// something happens.
const PROTOCOL_FEATURES: u64 = 1 << 3 | 1 << 5 | 1 << 9 | 1 << 14;

/// Longest payload that is believed.
const LONGEST: usize = 4096;
/// Virtqueues of a device: both kinds have two.
const RINGS: usize = 2;

// Requests of the guest, by their numbers in the protocol.
const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;
const SET_SLAVE_REQ_FD: u32 = 21;
const GET_CONFIG: u32 = 24;
const SET_CONFIG: u32 = 25;
const VRING_KICK: u32 = 35;

/// Request of the back end: the configuration space has changed.
const SLAVE_CONFIG_CHANGE: u32 = 2;
/// Request of the back end: a virtqueue has an interrupt.
const SLAVE_VRING_CALL: u32 = 4;

/// What a request of the guest comes to, for the device behind it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Nothing: it was answered.
    Handled,
    /// A virtqueue was set going.
    Enabled(usize),
    /// A virtqueue was kicked; the guest stands still until [`Port::acknowledge_kick`].
    Kick(usize),
    /// The guest let go of the device.
    Closed,
}

/// The socket of one device, and its virtqueues.
pub(crate) struct Port {
    listener: UnixListener,
    stream: Option<UnixStream>,
    back: Option<UnixStream>,
    features: u64,
    configuration: Vec<u8>,
    /// The virtqueues, in the order of the device's specification.
    pub rings: [Ring; RINGS],
}

impl Port {
    /// A device with these virtio features and this configuration space, for whoever connects.
    pub fn new(listener: UnixListener, features: u64, configuration: Vec<u8>) -> Port {
        Port {
            listener,
            stream: None,
            back: None,
            features: features | VIRTIO_F_VERSION_1 | F_PROTOCOL_FEATURES,
            configuration,
            rings: std::array::from_fn(|_| Ring::new()),
        }
    }

    /// What to wait for: a connection, or a request.
    pub fn requests(&self) -> BorrowedFd<'_> {
        self.stream
            .as_ref()
            .map_or(self.listener.as_fd(), AsFd::as_fd)
    }

    /// What to wait for after [`Port::call`], if the guest takes calls.
    pub fn answers(&self) -> Option<BorrowedFd<'_>> {
        self.back.as_ref().map(AsFd::as_fd)
    }

    /// Handles what [`Port::requests`] is readable for.
    pub fn handle(&mut self, memory: &mut Option<Memory>) -> Result<Request, String> {
        let Some(stream) = &mut self.stream else {
            let (stream, _) = self.listener.accept().map_err(text)?;
            self.stream = Some(stream);
            return Ok(Request::Handled);
        };
        let Some((header, files)) = receive_header(stream).map_err(text)? else {
            self.stream = None;
            self.back = None;
            self.rings = std::array::from_fn(|_| Ring::new());
            return Ok(Request::Closed);
        };
        if header.size as usize > LONGEST {
            return Err(format!(
                "vhost-user request {} has {} bytes",
                header.request, header.size
            ));
        }
        let mut payload = vec![0; header.size as usize];
        stream.read_exact(&mut payload).map_err(text)?;
        self.act(&header, &Payload(&payload), files, memory)
            .map_err(|reason| format!("vhost-user request {}: {reason}", header.request))
    }

    fn act(
        &mut self,
        header: &Header,
        payload: &Payload,
        files: Vec<OwnedFd>,
        memory: &mut Option<Memory>,
    ) -> Result<Request, String> {
        let mut outcome = Request::Handled;
        match header.request {
            GET_FEATURES => return self.answer(header, &self.features.to_ne_bytes()),
            GET_PROTOCOL_FEATURES => return self.answer(header, &PROTOCOL_FEATURES.to_ne_bytes()),
            GET_CONFIG => {
                let (offset, size) = (payload.u32(0)? as usize, payload.u32(4)? as usize);
                let mut answer = payload.0.to_vec();
                let room = answer
                    .get_mut(12..)
                    .filter(|room| room.len() == size)
                    .ok_or("its sizes differ")?;
                room.fill(0);
                for (byte, value) in room.iter_mut().zip(self.configuration.iter().skip(offset)) {
                    *byte = *value;
                }
                return self.answer(header, &answer);
            }
            SET_OWNER | SET_CONFIG => {}
            SET_FEATURES => {
                let chosen = payload.u64(0)?;
                if chosen & !self.features != 0 || chosen & VIRTIO_F_VERSION_1 == 0 {
                    return Err(format!("features {chosen:#x} of {:#x}", self.features));
                }
                for ring in &mut self.rings {
                    ring.set_indices(chosen & VIRTIO_F_EVENT_IDX != 0);
                }
            }
            SET_PROTOCOL_FEATURES => {
                let chosen = payload.u64(0)?;
                if chosen != PROTOCOL_FEATURES {
                    return Err(format!(
                        "protocol features {chosen:#x}; this needs {PROTOCOL_FEATURES:#x} (Linux 5.13 or later)"
                    ));
                }
            }
            SET_SLAVE_REQ_FD => {
                let file = files
                    .into_iter()
                    .next()
                    .ok_or("a file descriptor is missing")?;
                self.back = Some(UnixStream::from(file));
            }
            SET_MEM_TABLE => {
                let count = payload.u32(0)? as usize;
                let regions = (0..count)
                    .map(|at| {
                        let at = 8 + 32 * at;
                        let (address, user) = (payload.u64(at)?, payload.u64(at + 16)?);
                        if address != user {
                            return Err(format!(
                                "memory at {address:#x} is {user:#x} in the rings"
                            ));
                        }
                        Ok(Region {
                            address,
                            size: payload.u64(at + 8)?,
                            offset: payload.u64(at + 24)?,
                        })
                    })
                    .collect::<Result<Vec<_>, String>>()?;
                if files.len() != count {
                    return Err(format!("{} files for {count} regions", files.len()));
                }
                if !memory.as_ref().is_some_and(|memory| memory.is(&regions)) {
                    *memory = Some(Memory::map(regions, files)?);
                }
            }
            SET_VRING_NUM => {
                let size = payload.u32(4)?;
                let ring = self.ring(payload)?;
                if !u16::try_from(size).is_ok_and(|size| ring.set_size(size)) {
                    return Err(format!("a virtqueue of {size} buffers"));
                }
            }
            SET_VRING_BASE => {
                let base = u16::try_from(payload.u32(4)?).map_err(|_| "the base is too large")?;
                self.ring(payload)?.set_base(base);
            }
            SET_VRING_ADDR => {
                let (descriptors, used, available) =
                    (payload.u64(8)?, payload.u64(16)?, payload.u64(24)?);
                if !self
                    .ring(payload)?
                    .set_addresses(descriptors, available, used)
                {
                    return Err("the virtqueue is not aligned".into());
                }
            }
            SET_VRING_ENABLE => {
                let on = payload.u32(4)? != 0;
                self.ring(payload)?.enable(on);
                if on {
                    outcome = Request::Enabled(payload.u32(0)? as usize);
                }
            }
            VRING_KICK => {
                self.ring(payload)?;
                if header.flags & NEED_REPLY == 0 {
                    return Err("a kick that does not wait".into());
                }
                return Ok(Request::Kick(payload.u32(0)? as usize));
            }
            _ => return Err("not known here".into()),
        }
        if header.flags & NEED_REPLY != 0 {
            self.answer(header, &0u64.to_ne_bytes())?;
        }
        Ok(outcome)
    }

    fn ring(&mut self, payload: &Payload) -> Result<&mut Ring, String> {
        let index = payload.u32(0)?;
        self.rings
            .get_mut(index as usize)
            .ok_or_else(|| format!("there is no virtqueue {index}"))
    }

    fn answer(&self, header: &Header, payload: &[u8]) -> Result<Request, String> {
        self.send(header.request, payload)
            .map(|()| Request::Handled)
    }

    fn send(&self, request: u32, payload: &[u8]) -> Result<(), String> {
        match &self.stream {
            Some(stream) => write(
                stream,
                &Header::of(request, VERSION | REPLY, payload),
                payload,
            ),
            None => Ok(()),
        }
    }

    /// Lets the guest go on after a kick.
    pub fn acknowledge_kick(&self) -> Result<(), String> {
        self.send(VRING_KICK, &0u64.to_ne_bytes())
    }

    /// Raises the interrupt of a virtqueue. The guest asks for the time and requests to run before it answers; then
    /// [`Port::take_answer`] must be called. False if it takes no calls.
    pub fn call(&self, ring: usize) -> Result<bool, String> {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&u32::try_from(ring).expect("two rings").to_ne_bytes());
        self.tell(SLAVE_VRING_CALL, &payload)
    }

    /// Changes the configuration space and tells the guest, which then asks for it; as [`Port::call`].
    pub fn configure(&mut self, configuration: Vec<u8>) -> Result<bool, String> {
        self.configuration = configuration;
        self.tell(SLAVE_CONFIG_CHANGE, &[])
    }

    fn tell(&self, request: u32, payload: &[u8]) -> Result<bool, String> {
        let Some(back) = &self.back else {
            return Ok(false);
        };
        let header = Header::of(request, VERSION | NEED_REPLY, payload);
        write(back, &header, payload).map(|()| true)
    }

    /// Takes the answer to [`Port::call`].
    pub fn take_answer(&mut self) -> Result<(), String> {
        let Some(back) = &mut self.back else {
            return Ok(());
        };
        let mut bytes = [0; HEADER_BYTES + 8];
        match back.read_exact(&mut bytes) {
            Err(error) if closed(&error) => {
                self.back = None;
                return Ok(());
            }
            other => other.map_err(text)?,
        }
        match bytes[HEADER_BYTES..] == [0; 8] {
            true => Ok(()),
            false => Err(
                "it does not know the virtqueue of an interrupt, or no other configuration".into(),
            ),
        }
    }
}

const HEADER_BYTES: usize = 12;

/// What each message begins with.
struct Header {
    request: u32,
    flags: u32,
    size: u32,
}

impl Header {
    fn of(request: u32, flags: u32, payload: &[u8]) -> Header {
        let size = u32::try_from(payload.len()).expect("payloads are short");
        Header {
            request,
            flags,
            size,
        }
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        for (place, word) in bytes
            .chunks_exact_mut(4)
            .zip([self.request, self.flags, self.size])
        {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// A payload, read by offsets.
struct Payload<'a>(&'a [u8]);

impl Payload<'_> {
    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], String> {
        let bytes = self.0.get(at..at + N).ok_or("its payload is too short")?;
        Ok(bytes.try_into().expect("N bytes"))
    }

    fn u32(&self, at: usize) -> Result<u32, String> {
        Ok(u32::from_ne_bytes(self.array(at)?))
    }

    fn u64(&self, at: usize) -> Result<u64, String> {
        Ok(u64::from_ne_bytes(self.array(at)?))
    }
}

fn text(error: io::Error) -> String {
    error.to_string()
}

fn write(mut stream: &UnixStream, header: &Header, payload: &[u8]) -> Result<(), String> {
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(payload);
    match stream.write_all(&bytes) {
        // That it is gone is noticed when it is waited for.
        Err(error) if closed(&error) => Ok(()),
        other => other.map_err(text),
    }
}

/// Receives a header, and the files that came with it; none if the guest closed its end.
fn receive_header(stream: &mut UnixStream) -> io::Result<Option<(Header, Vec<OwnedFd>)>> {
    let mut bytes = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(
            &*stream,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    });
    let count = match received {
        Ok(received) => received.bytes,
        Err(error) if closed(&error.into()) => 0,
        Err(error) => return Err(error.into()),
    };
    if count == 0 {
        return Ok(None);
    }
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors);
        }
    }
    stream.read_exact(&mut bytes[count..])?;
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok(Some((
        Header {
            request: word(0),
            flags: word(4),
            size: word(8),
        },
        files,
    )))
}
