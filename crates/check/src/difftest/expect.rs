// SPDX-License-Identifier: Apache-2.0
//! What the model sent and the NIC has not yet: one queue a source, compared head by head.

use std::collections::VecDeque;
use std::fmt::Write as _;

use model::{FrameSource, Sink, TlpSource};

/// The model's outputs that are still to come from the NIC.
#[derive(Debug)]
pub struct Expect {
    tlps: Vec<(TlpSource, VecDeque<Vec<u8>>)>,
    frames: Vec<(FrameSource, VecDeque<Vec<u8>>)>,
}

impl Default for Expect {
    fn default() -> Self {
        use FrameSource as F;
        use TlpSource as T;
        let tlps = [T::Server, T::Registers, T::Refusal, T::LoadTimeout];
        let frames = [F::Requester, F::Completions, F::Refusals, F::Arp];
        Self {
            tlps: tlps.map(|source| (source, VecDeque::new())).into(),
            frames: frames.map(|source| (source, VecDeque::new())).into(),
        }
    }
}

impl Sink for Expect {
    fn tlp(&mut self, source: TlpSource, bytes: &[u8]) {
        self.tlps[source as usize].1.push_back(bytes.to_vec());
    }

    fn frame(&mut self, source: FrameSource, bytes: &[u8]) {
        self.frames[source as usize].1.push_back(bytes.to_vec());
    }
}

impl Expect {
    /// TLPs that are still to come from a source.
    pub fn tlps(&self, source: TlpSource) -> &VecDeque<Vec<u8>> {
        &self.tlps[source as usize].1
    }

    /// Frames that are still to come from a source.
    pub fn frames(&self, source: FrameSource) -> &VecDeque<Vec<u8>> {
        &self.frames[source as usize].1
    }

    /// Nothing is still to come.
    pub fn is_empty(&self) -> bool {
        self.tlps.iter().all(|(_, queue)| queue.is_empty())
            && self.frames.iter().all(|(_, queue)| queue.is_empty())
    }

    /// Takes a TLP off the head of a queue. Time-outs that end together may come in any order.
    pub fn take_tlp(&mut self, bytes: &[u8]) -> Result<TlpSource, String> {
        for (source, queue) in &mut self.tlps {
            let depth = if *source == TlpSource::LoadTimeout {
                queue.len()
            } else {
                1
            };
            if let Some(at) = queue.iter().take(depth).position(|head| head == bytes) {
                queue.remove(at);
                return Ok(*source);
            }
        }
        let mut text = format!(
            "the NIC sent this TLP to the root complex:\n{}",
            show_tlp(bytes)
        );
        for (source, queue) in &self.tlps {
            if let Some(head) = queue.front() {
                let waiting = queue.len();
                let _ = write!(
                    text,
                    "the model's next of {source:?} ({waiting} waiting):\n{}",
                    show_tlp(head)
                );
            }
        }
        Err(text)
    }

    /// Takes the next register reply if it differs from `bytes` in its data at most.
    pub fn next_register_reply(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        const HEADER: usize = 12;
        let queue = &mut self.tlps[TlpSource::Registers as usize].1;
        let head = queue.front()?;
        let same = bytes.len() == head.len() && bytes[..HEADER] == head[..HEADER];
        if same { queue.pop_front() } else { None }
    }

    /// Takes a frame off the head of a queue.
    pub fn take_frame(&mut self, bytes: &[u8]) -> Result<FrameSource, String> {
        for (source, queue) in &mut self.frames {
            if queue.front().is_some_and(|head| head == bytes) {
                queue.pop_front();
                return Ok(*source);
            }
        }
        let mut text = format!("the NIC sent this frame:\n{}", show_frame(bytes));
        for (source, queue) in &self.frames {
            if let Some(head) = queue.front() {
                let waiting = queue.len();
                let _ = write!(
                    text,
                    "the model's next of {source:?} ({waiting} waiting):\n{}",
                    show_frame(head)
                );
            }
        }
        Err(text)
    }

    /// Takes the first TLP of the server that is equal to `bytes`; returns what stood before it, or
    /// nothing if there is none.
    pub fn skip_to_tlp(&mut self, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        skip_to(&mut self.tlps[TlpSource::Server as usize].1, bytes)
    }

    /// Takes the first frame of a source that is equal to `bytes`, like [`Expect::skip_to_tlp`].
    pub fn skip_to_frame(&mut self, source: FrameSource, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        skip_to(&mut self.frames[source as usize].1, bytes)
    }

    /// Takes all that is left of the TLPs of the server, and of the frames of a source.
    pub fn drain(&mut self, source: FrameSource) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        (
            self.tlps[TlpSource::Server as usize].1.drain(..).collect(),
            self.frames[source as usize].1.drain(..).collect(),
        )
    }

    /// What did not come.
    pub fn missing(&self) -> String {
        let mut text = String::new();
        for (source, queue) in &self.tlps {
            for bytes in queue.iter().take(2) {
                let _ = write!(text, "missing from {source:?}:\n{}", show_tlp(bytes));
            }
        }
        for (source, queue) in &self.frames {
            for bytes in queue.iter().take(2) {
                let _ = write!(text, "missing from {source:?}:\n{}", show_frame(bytes));
            }
        }
        text
    }
}

fn skip_to(queue: &mut VecDeque<Vec<u8>>, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let at = queue.iter().position(|entry| entry == bytes)?;
    let skipped = queue.drain(..at).collect();
    queue.pop_front();
    Some(skipped)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, chunk) in bytes.chunks(32).enumerate() {
        let _ = write!(text, "    {:4}:", 32 * index);
        for (at, byte) in chunk.iter().enumerate() {
            let gap = if at % 4 == 0 { " " } else { "" };
            let _ = write!(text, "{gap}{byte:02x}");
        }
        text.push('\n');
    }
    text
}

/// A TLP for people.
pub fn show_tlp(bytes: &[u8]) -> String {
    let header = match wire::TlpView::new(bytes) {
        Ok(view) => match view.header() {
            Ok(header) => format!("{header:x?}"),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    format!("  {header}\n{}", hex(bytes))
}

/// A frame without FCS for people.
pub fn show_frame(bytes: &[u8]) -> String {
    let fields = match wire::Frame::parse(bytes) {
        Ok(parsed) => format!("{:x?}, end code for tag {:#x}", parsed.frame, parsed.tag),
        Err(error) => error.to_string(),
    };
    format!("  {fields}\n{}", hex(bytes))
}
