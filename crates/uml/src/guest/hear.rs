// SPDX-License-Identifier: Apache-2.0
//! What a guest says, on any of its sockets, and what is done about it.

use std::os::fd::{AsFd, BorrowedFd};

use super::{Guest, Kind, protocol, silent, wait};
use crate::error::Error;
use crate::network;
use crate::pci::{self, Outcome, Read};
use crate::process::WALL_CLOCK_NS;
use crate::spec::{GuestEvent, Timed};
use crate::time_travel::{Message, Operation, Received};
use crate::vhost_user::Request;

/// What said something.
#[derive(Clone, Copy)]
enum Source {
    Time,
    Device(usize),
    Answer,
    End,
}

impl Guest {
    /// Until the guest waits.
    pub(super) fn pump(&mut self) -> Result<(), Error> {
        while !self.waiting {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Error> {
        match self.listen(None)? {
            Source::Time => self.hear_time(),
            Source::Device(device) => self.hear_device(device),
            Source::Answer | Source::End => self.end(),
        }
    }

    /// Waits until something is said: by anyone, or, after a call to a device, in answer to that.
    fn listen(&self, called: Option<usize>) -> Result<Source, Error> {
        if self.link.has_message() {
            return Ok(Source::Time);
        }
        let mut sources = vec![(Source::Time, self.link.as_fd())];
        match called {
            Some(device) => sources.extend(
                self.devices[device]
                    .port
                    .answers()
                    .map(|socket| (Source::Answer, socket)),
            ),
            None => sources.extend(
                self.devices
                    .iter()
                    .enumerate()
                    .map(|(index, device)| (Source::Device(index), device.port.requests())),
            ),
        }
        sources.push((Source::End, self.process.end()));
        let sockets: Vec<BorrowedFd<'_>> = sources.iter().map(|(_, socket)| *socket).collect();
        match wait(&sockets, self.patience) {
            Ok(Some(index)) => Ok(sources[index].0),
            Ok(None) => Err(silent(&self.name, self.now, self.patience, &self.process)),
            Err(source) => Err(self.system("wait for it", source)),
        }
    }

    fn hear_time(&mut self) -> Result<(), Error> {
        let message = match self
            .link
            .receive()
            .map_err(|source| self.system("hear its calendar", source))?
        {
            Received::Message(message) => message,
            Received::Unknown(number) => {
                return Err(self.protocol(format!("it said {number} to its calendar")));
            }
            Received::Closed => return self.end(),
        };
        match message.operation {
            Operation::Ack => {
                // In order; RUN and FREE_UNTIL need nothing further.
                self.unanswered = match self.unanswered.checked_sub(1) {
                    Some(left) => left,
                    None => return Err(self.protocol("it acknowledges what was not said".into())),
                };
                return Ok(());
            }
            Operation::Start => {}
            Operation::Request => self.request = message.time,
            Operation::Wait => self.waiting = true,
            Operation::Update => self.update(&message)?,
            Operation::Get | Operation::GetTimeOfDay => {}
            Operation::Run | Operation::FreeUntil => {
                return Err(
                    self.protocol(format!("it says {:?} to its calendar", message.operation))
                );
            }
        }
        let time = match message.operation {
            Operation::Get => self.now,
            Operation::GetTimeOfDay => WALL_CLOCK_NS + self.now,
            _ => 0,
        };
        self.link.acknowledge(&message, time);
        self.flush()
    }

    fn update(&mut self, message: &Message) -> Result<(), Error> {
        if message.time < self.now {
            return Err(self.protocol(format!("its time goes back to {} ns", message.time)));
        }
        self.now = message.time;
        self.shorten();
        Ok(())
    }

    /// A kick follows: it may go on for the lookahead only. Whether something happened is the calendar's to see.
    fn shorten(&mut self) -> bool {
        let limit = self.now.saturating_add(self.lookahead);
        let shorter = limit < self.limit;
        if shorter {
            self.limit = limit;
            self.say(Operation::FreeUntil, limit);
        }
        shorter
    }

    fn hear_device(&mut self, index: usize) -> Result<(), Error> {
        let device = &mut self.devices[index];
        let request = device
            .port
            .handle(&mut self.memory)
            .map_err(|reason| self.protocol(reason))?;
        match request {
            Request::Handled | Request::Closed => Ok(()),
            Request::Enabled(ring) => self.enabled(index, ring),
            Request::Kick(ring) => {
                // It stands still at a time that it may have told in an earlier run; only now it can be told to stay near.
                if self.shorten() {
                    self.flush()?;
                    while self.unanswered > 0 {
                        match self.listen(Some(index))? {
                            Source::Time => self.hear_time()?,
                            _ => return self.end(),
                        }
                    }
                }
                self.kicked(index, ring)?;
                self.devices[index]
                    .port
                    .acknowledge_kick()
                    .map_err(|reason| self.protocol(reason))
            }
        }
    }

    /// The rings in which the guest gives buffers need no kicks: they are looked at when there is something to put there.
    fn enabled(&mut self, index: usize, ring: usize) -> Result<(), Error> {
        let device = &self.devices[index];
        let quiet = match device.kind {
            Kind::Network | Kind::Linked(_) => network::RECEIVE,
            // Its indices do that.
            Kind::Pci(_) => return self.clear(index),
        };
        let Some(memory) = self.memory.as_ref().filter(|_| ring == quiet) else {
            return Ok(());
        };
        match device.port.rings[ring].silence(memory) {
            true => Ok(()),
            false => {
                Err(self.protocol("a virtqueue is not in the memory it shares with devices".into()))
            }
        }
    }

    fn kicked(&mut self, index: usize, ring: usize) -> Result<(), Error> {
        match self.devices[index].kind {
            Kind::Network | Kind::Linked(_) if ring == network::TRANSMIT => self.transmit(index),
            Kind::Pci(_) if ring == pci::COMMANDS => self.command(index),
            _ => Ok(()),
        }
    }

    fn transmit(&mut self, index: usize) -> Result<(), Error> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let port = &mut self.devices[index].port;
        let frames = network::take_sent(port, memory);
        let tell = port.rings[network::TRANSMIT].wants_interrupt(memory);
        let frames = frames.map_err(|reason| self.protocol(reason))?;
        let sent = !frames.is_empty();
        for bytes in frames {
            self.happened(GuestEvent::Frame {
                device: index,
                bytes,
            });
        }
        if sent && tell {
            self.call(index, network::TRANSMIT)
        } else {
            Ok(())
        }
    }

    fn command(&mut self, index: usize) -> Result<(), Error> {
        loop {
            let (device, memory) = (&mut self.devices[index], &self.memory);
            let (Kind::Pci(pci), Some(memory)) = (&mut device.kind, memory) else {
                return Ok(());
            };
            let commands = &mut device.port.rings[pci::COMMANDS];
            let Some(chain) = commands
                .take(memory)
                .map_err(|reason| protocol(&self.name, self.now, reason))?
            else {
                break;
            };
            let outcome = pci
                .act(&chain, self.now)
                .map_err(|reason| protocol(&self.name, self.now, reason))?;
            let (answer, event) = match outcome {
                Outcome::Answer(answer) => (answer, None),
                Outcome::Write { bar, offset, bytes } => (
                    Vec::new(),
                    Some(GuestEvent::MmioWrite {
                        device: index,
                        bar,
                        offset,
                        bytes,
                    }),
                ),
                Outcome::BusMaster(on) => (
                    Vec::new(),
                    Some(GuestEvent::BusMaster { device: index, on }),
                ),
                Outcome::Read {
                    bar,
                    offset,
                    length,
                } => {
                    self.tag += 1;
                    let tag = self.tag;
                    pci.reads.push(Read {
                        tag,
                        length: length as usize,
                        chain,
                    });
                    self.happened(GuestEvent::MmioRead {
                        device: index,
                        bar,
                        offset,
                        length,
                        tag,
                    });
                    continue;
                }
            };
            commands
                .give(memory, &chain, &answer)
                .map_err(|reason| protocol(&self.name, self.now, reason))?;
            if let Some(event) = event {
                self.happened(event);
            }
        }
        self.clear(index)?;
        self.deliver(index)
    }

    /// Lets the driver free the buffers of its posted writes. It does so in an interrupt, for which its time must pass; if
    /// it writes on and on in no time, its kernel throws writes away without a word once the ring is full.
    fn clear(&mut self, index: usize) -> Result<(), Error> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let commands = &mut self.devices[index].port.rings[pci::COMMANDS];
        let listening = commands.listen(memory);
        let (unseen, size) = (commands.unseen(memory), commands.size());
        listening.map_err(|reason| self.protocol(reason))?;
        if unseen >= size {
            return Err(self.protocol(format!(
                "{unseen} writes to PCI device {index} in no time, or with interrupts off; the kernel would lose what \
                 follows. The driver must let time pass (ndelay) or read now and then"
            )));
        }
        let Kind::Pci(pci) = &self.devices[index].kind else {
            return Ok(());
        };
        if unseen > 0 && unseen.is_multiple_of(pci.posted_before_interrupt()) {
            self.call(index, pci::COMMANDS)?;
        }
        Ok(())
    }

    /// Puts raised interrupts into the guest's ring and tells it.
    pub(super) fn deliver(&mut self, index: usize) -> Result<(), Error> {
        let (device, memory) = (&mut self.devices[index], &self.memory);
        let (Kind::Pci(pci), Some(memory)) = (&mut device.kind, memory) else {
            return Ok(());
        };
        let ring = &mut device.port.rings[pci::INTERRUPTS];
        let mut tell = false;
        while let Some(&vector) = pci.raised.front() {
            let Some(message) = pci.interrupt_message(vector) else {
                // Masked in the meantime: pending again.
                pci.raised.pop_front();
                pci.raise(vector);
                continue;
            };
            // Without a buffer it waits: the driver gives all of them back in each interrupt.
            let Some(chain) = ring
                .take(memory)
                .map_err(|reason| protocol(&self.name, self.now, reason))?
            else {
                break;
            };
            ring.give(memory, &chain, &message)
                .map_err(|reason| protocol(&self.name, self.now, reason))?;
            pci.raised.pop_front();
            tell = true;
        }
        if tell {
            self.call(index, pci::INTERRUPTS)
        } else {
            Ok(())
        }
    }

    /// Raises the interrupt of a virtqueue; the guest puts it into its calendar now.
    pub(super) fn call(&mut self, index: usize, ring: usize) -> Result<(), Error> {
        let told = self.devices[index].port.call(ring);
        match told.map_err(|reason| self.protocol(reason))? {
            true => self.answered(index),
            false => Ok(()),
        }
    }

    /// Waits until the guest has taken in what a device told it.
    pub(super) fn answered(&mut self, index: usize) -> Result<(), Error> {
        loop {
            match self.listen(Some(index))? {
                Source::Time => self.hear_time()?,
                Source::Answer => {
                    return self.devices[index]
                        .port
                        .take_answer()
                        .map_err(|reason| self.protocol(reason));
                }
                Source::Device(_) | Source::End => return self.end(),
            }
        }
    }

    fn happened(&mut self, event: GuestEvent) {
        self.events.push(Timed {
            ns: self.now,
            event,
        });
    }

    fn end(&mut self) -> Result<(), Error> {
        let status = self.process.status()?;
        self.exited = Some(status);
        Err(Error::Exited {
            guest: self.name.clone(),
            ns: self.now,
            status,
        })
    }
}
