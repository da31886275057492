// SPDX-License-Identifier: Apache-2.0
//! Settings of ports of which the kernel says nothing, neither in messages nor in dumps: they are looked at in `/proc/sys`.

use std::fs;
use std::time::{Duration, Instant};

use super::{Daemon, Failure, notice};
use crate::message;
use crate::state::State;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// A setting of a device, in the network namespace of this thread.
fn setting(family: &str, device: &str, name: &str) -> Option<u32> {
    let path = format!("/proc/sys/net/{family}/conf/{device}/{name}");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Whether the kernel takes redirects of a family that come in at a device, after which it goes by another next hop than its
/// routes say.
fn is_redirected(device: &str, six: bool) -> bool {
    let is_set = |of: &str, name: &str| {
        let family = if six { "ipv6" } else { "ipv4" };
        setting(family, of, name).is_some_and(|value| value != 0)
    };
    let own = is_set(device, "accept_redirects");
    match (is_set(device, "forwarding"), six) {
        (forwards, true) => own && !forwards,
        (true, false) => own && is_set("all", "accept_redirects"),
        (false, false) => own || is_set("all", "accept_redirects"),
    }
}

/// Looks at what a state needs.
pub(super) fn look(state: &mut State) {
    for port in 0..state.config().ports.len() {
        let device = state.port(port as u8).map(|(device, ..)| device);
        let name = state.config().ports[port].clone();
        if let Some(device) = device {
            // Without IPv6 there is none.
            state.set_mtu_six(device, setting("ipv6", &name, "mtu").unwrap_or(u32::MAX));
        }
    }
}

impl Daemon {
    /// Has the kernel look at devices whose carriers changed: by itself it may do so a second later, and ignores routes there, or
    /// not, as if nothing had happened. Kernels that do not look when they are asked about a device take that second.
    pub(super) fn hurry(&mut self) -> Result<(), Failure> {
        for device in self.state.take_late_devices() {
            let about = |sequence| message::about(device, sequence);
            self.asker.ask(about).map_err(Failure::Netlink)?;
        }
        Ok(())
    }

    /// Looks from time to time.
    pub(super) fn look(&mut self) -> Result<(), Failure> {
        if self.looked.is_some_and(|at| at.elapsed() < PAUSE) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        self.ask_lapsing()?;
        look(&mut self.state);
        for (number, said) in self.redirected.iter_mut().enumerate() {
            let name = &self.state.config().ports[number];
            let is_there = self.state.port(number as u8).is_some();
            for (said, six) in said.iter_mut().zip([false, true]) {
                let is_redirected = is_there && is_redirected(name, six);
                if is_redirected && !*said {
                    notice::say(&notice::redirected(number, name, six));
                }
                *said = is_redirected;
            }
        }
        Ok(())
    }
}
