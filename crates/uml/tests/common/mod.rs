// SPDX-License-Identifier: Apache-2.0
//! What the tests share: a directory for guests, an init that mounts what programs need, and a clock for one guest alone.
#![allow(dead_code)] // each test uses a part of it

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use uml::{DeviceSpec, Guest, GuestEvent, GuestSpec, Next, OneCpu, Timed};

/// What an init does before and after the commands of a test. The guest's directory is the working directory of the kernel's
/// process on the host.
const BEFORE: &str = "#!/bin/sh
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /run
mkdir /run/own
mount -t hostfs none /run/own -o /proc/self/cwd
mount -t tmpfs none /tmp
exec </dev/null >/run/own/out 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
cd /tmp
";
const AFTER: &str = "
echo $? >/run/own/status
echo o >/proc/sysrq-trigger
sleep 1000
";

/// A temporary directory with a directory for each guest, and a processor for all of them.
pub struct Directory(tempfile::TempDir, OneCpu);

impl Directory {
    /// An empty one.
    pub fn new() -> Directory {
        Directory(tempfile::tempdir().unwrap(), OneCpu::here().unwrap())
    }

    /// Where a guest is.
    pub fn of(&self, guest: &str) -> PathBuf {
        self.0.path().join(guest)
    }

    /// Starts a guest whose init runs these commands and switches the machine off.
    pub fn guest(&self, name: &str, commands: &str, devices: Vec<DeviceSpec>) -> Guest {
        let kernel = uml::kernel().unwrap_or_else(|error| panic!("{error}"));
        let script = format!("{BEFORE}{commands}{AFTER}");
        Guest::start(self.spec(name, kernel, &script, devices))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// A guest with this init.
    pub fn spec(
        &self,
        name: &str,
        kernel: PathBuf,
        script: &str,
        devices: Vec<DeviceSpec>,
    ) -> GuestSpec {
        let directory = self.of(name);
        fs::create_dir_all(&directory).unwrap();
        let init = directory.join("init.sh");
        fs::write(&init, script).unwrap();
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
        GuestSpec {
            name: name.into(),
            kernel,
            memory_mb: 128,
            directory,
            init,
            parameters: vec![],
            devices,
            counter: false,
            id: 7,
        }
    }

    /// What a guest's kernel said.
    pub fn console(&self, guest: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.of(guest).join("console.log")).unwrap()).into_owned()
    }

    /// What a guest's commands said.
    pub fn out(&self, guest: &str) -> String {
        let out = fs::read(self.of(guest).join("out")).unwrap_or_default();
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Exit status of a guest's commands.
    pub fn status(&self, guest: &str) -> Option<i32> {
        fs::read_to_string(self.of(guest).join("status"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

/// Runs a guest that nothing is connected to until it ends.
pub fn alone(guest: &mut Guest, events: &mut Vec<Timed>) -> i32 {
    loop {
        match guest.next() {
            Next::At(now) => {
                guest
                    .run(now, now + 10_000_000, 1000, events)
                    .unwrap_or_else(|error| panic!("{error}"));
            }
            Next::Never => panic!("the guest waits for a device: {}", guest.console_tail()),
            Next::Exited(status) => return status,
        }
    }
}

/// A cable: what one guest sends, the other has so much later.
pub const CABLE_NS: u64 = 2_000;

/// Two guests, each with a network card as its first device, and a cable between them.
pub struct Pair {
    pub guests: [Guest; 2],
    /// Every frame: when it was sent, by which guest, and its bytes.
    pub frames: Vec<(u64, usize, Vec<u8>)>,
    /// Frames for which there was no buffer.
    pub dropped: usize,
}

impl Pair {
    /// Lets both run until they have ended. Among things at the same time, a delivery goes first, then the first guest.
    pub fn run(&mut self) {
        let mut cable: [VecDeque<(u64, Vec<u8>)>; 2] = Default::default();
        let mut events = Vec::new();
        loop {
            let wanted = [0, 1].map(|index| match self.guests[index].next() {
                Next::At(time) => time,
                _ => u64::MAX,
            });
            let arrives =
                [0, 1].map(|index| cable[index].front().map_or(u64::MAX, |(time, _)| *time));
            let (delivery, to) = [(arrives[0], 0), (arrives[1], 1)]
                .into_iter()
                .min()
                .unwrap();
            let (run, who) = [(wanted[0], 0), (wanted[1], 1)].into_iter().min().unwrap();
            if delivery == u64::MAX && run == u64::MAX {
                break;
            }
            if delivery <= run {
                let (time, frame) = cable[to].pop_front().unwrap();
                if !self.guests[to].receive(time, 0, &frame).unwrap() {
                    self.dropped += 1;
                }
                continue;
            }
            // The other may send when it runs, and when something reaches it; it may answer what this one sends.
            let other = wanted[1 - who].min(arrives[1 - who]);
            let free_until = arrives[who].min(other.saturating_add(CABLE_NS));
            self.guests[who]
                .run(run, free_until, 2 * CABLE_NS, &mut events)
                .unwrap_or_else(|error| panic!("{error}"));
            for Timed { ns, event } in events.drain(..) {
                if let GuestEvent::Frame { bytes, .. } = event {
                    cable[1 - who].push_back((ns + CABLE_NS, bytes.clone()));
                    self.frames.push((ns, who, bytes));
                }
            }
        }
    }

    /// A hash of all frames with their times.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for (time, from, bytes) in &self.frames {
            hash.update(time.to_le_bytes());
            hash.update([u8::try_from(*from).unwrap()]);
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        }
        hash.finalize()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}
