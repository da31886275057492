// SPDX-License-Identifier: Apache-2.0
//! Rings between machines: the receiver's region holds the lines, the sender's the credit.
//!
//! The receiver's region is a control page and the lines. At offset 1024 of the control page the sender leaves, before
//! its first message, a token for the page into which it wants its credit: so the two need no other way to speak than
//! the receiver's token.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ipc::token::{BYTES as TOKEN_BYTES, Rights, Token};
use shm::memory::PAGE;
use shm::ring::{
    Full, Receiver, ReceiverState, Sender, SenderState, Target, max_message, valid_lines,
};
pub use shm::ring::{INLINE, LINE, Message, PAD};

use crate::clock::Deadline;
use crate::device::{Device, Region, Window};
use crate::error::{Error, Result};

/// Bytes in front of the lines.
const CONTROL: usize = PAGE;
/// Where in them the sender leaves its token.
const CREDIT_TOKEN: usize = 1024;
/// Where in the sender's page the credit is.
const CREDIT: usize = 0;
/// Most lines of a ring.
const MAX_LINES: u32 = 1 << 20;
/// A sender that waits for room looks so often whether the receiver can be reached: when it no longer can nobody wakes it.
const LOOK: Duration = Duration::from_millis(250);

/// Whether there are rings of so many lines.
const fn permitted(lines: u32) -> bool {
    valid_lines(lines) && lines <= MAX_LINES
}

/// Makes a ring of `lines` lines (a power of two from 8 to 1048576): the end that receives, and the token with which
/// one sender connects.
///
/// # Errors
/// If there is no such ring, or the device has no memory.
pub fn create(device: &Device, lines: u32) -> Result<(RingReceiver, Token)> {
    if !permitted(lines) {
        return Err(shm::Error::Lines { lines }.into());
    }
    let bytes = CONTROL + lines as usize * LINE;
    let region = device.alloc(bytes)?;
    let token = region.export(0..bytes, Rights::Write, None)?;
    let receiver = RingReceiver {
        device: device.clone(),
        region,
        credit: Credit(None),
        unreached: None,
        state: ReceiverState::default(),
        lines,
    };
    Ok((receiver, token))
}

/// Connects to a ring: the end that sends.
///
/// # Errors
/// If the token is refused, or is no ring's.
pub fn connect(device: &Device, token: &Token) -> Result<RingSender> {
    let lines = token
        .bytes
        .checked_sub(CONTROL as u64)
        .map_or(0, |bytes| bytes / LINE as u64);
    let lines = u32::try_from(lines).unwrap_or(0);
    if !permitted(lines) || !token.first.is_multiple_of(LINE as u64) {
        return Err(Error::NoRing {
            first: token.first,
            bytes: token.bytes,
        });
    }
    let window = device.connect(token)?;
    let credit = device.alloc(PAGE)?;
    let own = credit.export(CREDIT..CREDIT + 8, Rights::Write, None)?;
    window.put64(CREDIT_TOKEN, &own.to_bytes())?;
    window.fence();
    Ok(RingSender {
        window,
        credit,
        state: SenderState::default(),
        lines,
    })
}

/// The end of a ring that sends.
#[derive(Debug)]
pub struct RingSender {
    window: Window,
    credit: Region,
    state: SenderState,
    lines: u32,
}

impl RingSender {
    /// The longest message.
    #[must_use]
    pub fn max_message(&self) -> usize {
        max_message(self.lines)
    }

    /// Sends one message that consists of `parts`; `kind` is for the receiver, below 255.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no room now, [`Error::TooLong`] if there never is.
    #[inline]
    pub fn try_send(&mut self, kind: u8, parts: &[&[u8]]) -> Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > self.max_message() {
            return Err(Error::TooLong {
                bytes,
                most: self.max_message(),
            });
        }
        if kind == PAD {
            return Err(Error::Denied {
                what: "kind 255, which is the ring's own",
            });
        }
        self.sender()
            .try_send(kind, parts)
            .map_err(|Full| Error::Full)?;
        self.window.signal()
    }

    /// As [`RingSender::try_send`], but waits for room.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if there is none in time, [`Error::Revoked`] or [`Error::PeerLost`] if there never will be.
    pub fn send(&mut self, kind: u8, parts: &[&[u8]], timeout: Option<Duration>) -> Result<()> {
        match self.try_send(kind, parts) {
            Err(Error::Full) => {}
            other => return other,
        }
        let bytes = parts.iter().map(|part| part.len()).sum();
        let deadline = Deadline::after(timeout);
        loop {
            self.check()?;
            self.window.reachable()?;
            let most = deadline.left().map_or(LOOK, |left| left.min(LOOK));
            let room = || self.sender().fits(bytes).then_some(());
            match self.credit.wait_until(Some(most), room) {
                Ok(()) => return self.try_send(kind, parts),
                Err(Error::TimedOut { .. }) if !deadline.passed() => {}
                Err(error) => {
                    self.check()?;
                    return Err(error);
                }
            }
        }
    }

    /// Whether the receiver may still get what is sent. Never blocks.
    ///
    /// # Errors
    /// [`Error::Revoked`] or [`Error::PeerLost`] if messages may have been lost.
    pub fn check(&self) -> Result<()> {
        self.window.check(crate::device::Epoch(0))
    }

    /// The window to the receiver's memory.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// The region into which credit returns: its [`Region::event_fd`] tells, after [`Region::recheck`], that there is
    /// room again.
    #[must_use]
    pub fn credit(&self) -> &Region {
        &self.credit
    }

    #[inline]
    fn sender(&self) -> Sender<'_, Window> {
        Sender::new(
            &self.state,
            &self.window,
            CONTROL,
            self.lines,
            self.credit.word(CREDIT),
        )
    }
}

/// The end of a ring that receives.
#[derive(Debug)]
pub struct RingReceiver {
    device: Device,
    region: Region,
    credit: Credit,
    /// Why the sender's memory could not be reached.
    unreached: Option<Error>,
    state: ReceiverState,
    lines: u32,
}

/// Where credit goes, once the sender has said so.
#[derive(Debug)]
struct Credit(Option<Window>);

impl Target for Credit {
    fn store(&self, offset: usize, bytes: &[u8]) {
        if let Some(window) = &self.0 {
            Target::store(window, offset, bytes);
        }
    }

    fn store_line(&self, offset: usize, line: &[u8; LINE]) {
        if let Some(window) = &self.0 {
            Target::store_line(window, offset, line);
        }
    }

    fn store64(&self, offset: usize, value: u64) {
        if let Some(window) = &self.0 {
            Target::store64(window, offset, value);
        }
    }

    fn fence(&self) {
        if let Some(window) = &self.0 {
            Target::fence(window);
        }
    }
}

impl RingReceiver {
    /// The next message, in place, if one is there. Release it before the next one. Never waits.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the ring holds what no sender writes; others, once and behind all that has come, if a release
    /// could not reach the sender's memory, to which credit returns.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Message<'_>>> {
        if !self.receiver().readable() {
            // A pad in front of a message is stepped over by `peek` below; corruption is only seen here.
            return if self.receiver().peek().is_none() && self.receiver().is_corrupt() {
                Err(Error::Corrupt)
            } else {
                self.unreached.take().map_or(Ok(None), Err)
            };
        }
        Ok(self.receiver().into_message())
    }

    /// Releases the message that [`RingReceiver::peek`] showed. The first time it asks the daemon for the sender's memory, to
    /// which credit returns: if that is on a machine that does not answer it takes until the daemon gives up. What comes of it
    /// the next peek tells, and the next release tries again.
    #[inline]
    pub fn release(&mut self) {
        if self.credit.0.is_none() {
            self.meet_sender();
        }
        if self.receiver().release() {
            self.wake_sender();
        }
    }

    /// Takes the next message: its kind and length, and as much of it as fits. `None` if there is none.
    ///
    /// # Errors
    /// As [`RingReceiver::peek`].
    #[inline]
    pub fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<(u8, usize)>> {
        let Some(message) = self.peek()? else {
            return Ok(None);
        };
        let found = (message.kind(), message.len());
        message.copy_to(0, into);
        self.release();
        Ok(Some(found))
    }

    /// As [`RingReceiver::try_receive`], but waits for a message.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if none comes in time; others as there.
    pub fn receive(&mut self, into: &mut [u8], timeout: Option<Duration>) -> Result<(u8, usize)> {
        let deadline = crate::clock::Deadline::after(timeout);
        loop {
            if let Some(found) = self.try_receive(into)? {
                return Ok(found);
            }
            let receiver = self.receiver();
            self.region.wait_until(deadline.left(), || {
                (receiver.readable() || receiver.is_corrupt()).then_some(())
            })?;
        }
    }

    /// Its memory: the [`Region::event_fd`] tells, after [`Region::recheck`], that messages have come.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    #[inline]
    fn receiver(&self) -> Receiver<'_, Credit> {
        self.region.settle();
        // SAFETY: the region has `lines` lines behind its control page, and lives as long as `self`.
        unsafe {
            Receiver::new(
                &self.state,
                self.region.as_ptr().add(CONTROL),
                self.lines,
                &self.credit,
                0,
            )
        }
    }

    #[cold]
    fn meet_sender(&mut self) {
        if !self.receiver().readable() {
            return;
        }
        match self.find_sender() {
            // Where an earlier one could not be told credit may be due.
            Ok(()) => {
                let returned = self.state.returned.load(Ordering::Relaxed);
                if returned > 0 {
                    self.credit.store64(CREDIT, returned);
                    self.wake_sender();
                }
            }
            Err(error) => self.unreached = Some(error),
        }
    }

    /// The sender left its token before its first message.
    #[cold]
    fn find_sender(&mut self) -> Result<()> {
        let mut token = [0; TOKEN_BYTES];
        self.region.read(CREDIT_TOKEN, &mut token)?;
        let token = Token::parse(&token).map_err(|_| Error::Corrupt)?;
        if token.bytes < 8 || !token.first.is_multiple_of(8) || !token.rights.can_write() {
            return Err(Error::Corrupt);
        }
        self.credit.0 = Some(self.device.connect(&token)?);
        Ok(())
    }

    fn wake_sender(&self) {
        if let Some(window) = &self.credit.0 {
            // It has the right to store, as was checked when it was found.
            let _ = window.signal();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_have_the_lines_that_their_documentation_says() {
        for lines in [8, 16, 4096, MAX_LINES] {
            assert!(permitted(lines), "{lines}");
        }
        for lines in [0, 4, 12, MAX_LINES - 1, MAX_LINES + 1, 2 * MAX_LINES] {
            assert!(!permitted(lines), "{lines}");
        }
    }
}
