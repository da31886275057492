// SPDX-License-Identifier: Apache-2.0
//! The kernel as a process of the host: its directory, its command line, its environment, and its end.
//!
//! Whatever differs from run to run is kept from it. Addresses of the host are not randomised (the layout of the guest's
//! memory follows the process's heap), the environment is empty, paths are relative to the guest's directory, and
//! getrandom(2) is replaced by a sequence that name and number of the guest seed (`guest/host.c`).

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::Error;
use crate::network;
use crate::pci;
use crate::spec::{DeviceSpec, GuestSpec};

/// What stands between the kernel's process and the host, compiled by the build script.
const HOST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/host.so"));

/// Seconds from 1970 to 2026: what the guest's wall clock starts from.
pub const WALL_CLOCK_NS: u64 = 1_767_225_600_000_000_000;

/// How long a kernel that has closed its sockets may take to end.
const TO_END: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

const TIME_SOCKET: &str = "time";
const CONSOLE: &str = "console.log";

/// The kernel to run: IPNUMA_UML_KERNEL, else what `tools/uml-kernel` built last.
pub fn kernel() -> Result<PathBuf, Error> {
    let path = named_or_built("IPNUMA_UML_KERNEL", "current");
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::Kernel { path })
    }
}

/// The kernel with verbs: IPNUMA_UML_RDMA_KERNEL, else what `tools/uml-kernel --rdma` built last.
pub fn rdma_kernel() -> Result<PathBuf, Error> {
    let path = named_or_built("IPNUMA_UML_RDMA_KERNEL", "rdma");
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::RdmaKernel { path })
    }
}

fn named_or_built(variable: &str, link: &str) -> PathBuf {
    let built = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        root.unwrap_or(Path::new("/"))
            .join(".build/uml")
            .join(link)
            .join("linux")
    };
    env::var_os(variable).map_or_else(built, PathBuf::from)
}

/// A guest's process and what it connects to.
pub(crate) struct Process {
    name: String,
    directory: PathBuf,
    child: Child,
    end: OwnedFd,
    status: Option<i32>,
}

impl Process {
    /// Starts the kernel. Returns the socket of the calendar and those of the devices as well.
    pub fn start(spec: &GuestSpec) -> Result<(Process, UnixListener, Vec<UnixListener>), Error> {
        let failed = |what: String| {
            move |source| Error::System {
                guest: spec.name.clone(),
                what,
                source,
            }
        };
        let show = |path: &Path| path.display().to_string();
        if !spec.kernel.is_file() {
            return Err(Error::Kernel {
                path: spec.kernel.clone(),
            });
        }
        let found =
            |path: &Path| fs::canonicalize(path).map_err(failed(format!("find {}", show(path))));
        let (kernel, init) = (found(&spec.kernel)?, found(&spec.init)?);
        match fs::create_dir(&spec.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(format!("make {}", show(&spec.directory)))(error));
            }
            _ => {}
        }
        let directory = found(&spec.directory)?;

        let devices: Vec<String> = (0..spec.devices.len())
            .map(|index| format!("device{index}"))
            .collect();
        for name in [TIME_SOCKET, CONSOLE, "init", "host.so"]
            .into_iter()
            .chain(devices.iter().map(String::as_str))
        {
            match fs::remove_file(directory.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(format!("remove {name} of {}", show(&directory)))(
                        error,
                    ));
                }
                _ => {}
            }
        }
        symlink(&init, directory.join("init"))
            .map_err(failed("make the link to its init".into()))?;
        fs::write(directory.join("host.so"), HOST).map_err(failed("write host.so".into()))?;
        let console =
            File::create(directory.join(CONSOLE)).map_err(failed(format!("write {CONSOLE}")))?;
        let handle = rustix::fs::open(&directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(format!("open {}", show(&directory)))(error.into()))?;
        let listen = |name: &str| {
            listen(handle.as_fd(), name).map_err(failed(format!("listen on its socket {name}")))
        };
        let time = listen(TIME_SOCKET)?;
        let sockets = devices
            .iter()
            .map(|name| listen(name))
            .collect::<Result<Vec<_>, _>>()?;

        let second = console
            .try_clone()
            .map_err(failed(format!("write {CONSOLE}")))?;
        let mut command = Command::new("setarch");
        command
            .arg("--addr-no-randomize")
            .arg(&kernel)
            .args(command_line(spec, &devices))
            .current_dir(&directory)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LD_PRELOAD", "./host.so")
            .env("IPNUMA_UML_SEED", format!("{}/{}", spec.name, spec.id))
            .stdin(Stdio::null())
            .stdout(console)
            .stderr(second);
        if spec.counter {
            command.env("IPNUMA_UML_COUNTER", "1");
        }
        let child = command.spawn().map_err(failed(
            "start its kernel with setarch (of util-linux)".into(),
        ))?;
        let pid = Pid::from_child(&child);
        let end = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| failed("watch its process".into())(error.into()))?;
        let process = Process {
            name: spec.name.clone(),
            directory,
            child,
            end,
            status: None,
        };
        Ok((process, time, sockets))
    }

    /// Readable when the process has ended.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Its exit status, once [`Process::end`] is readable or its sockets are closed.
    pub fn status(&mut self) -> Result<i32, Error> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // It may still be about to end.
        let mut end = [PollFd::new(&self.end, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| poll(&mut end, Some(&TO_END)));
        self.end_all();
        let status = self.child.wait().map_err(|source| Error::System {
            guest: self.name.clone(),
            what: "learn how its process ended".into(),
            source,
        })?;
        let status = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        self.status = Some(status);
        Ok(status)
    }

    /// Ends it and the processes of its user space. The kernel has made a session of its own, in which they all are. Not
    /// after the process was waited for: then its number may be another's.
    fn end_all(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Where its console is.
    pub fn console(&self) -> PathBuf {
        self.directory.join(CONSOLE)
    }

    /// The last lines of its console.
    pub fn tail(&self) -> String {
        let text = fs::read(self.console()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(8)..].join(" | ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.end_all();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Listens on a socket in a directory, whose path may be longer than a socket's address.
fn listen(directory: BorrowedFd<'_>, name: &str) -> io::Result<UnixListener> {
    use std::os::fd::AsRawFd;
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

fn command_line(spec: &GuestSpec, devices: &[String]) -> Vec<String> {
    let mut line = vec![
        format!("mem={}M", spec.memory_mb),
        "root=/dev/root rootfstype=hostfs rootflags=/ ro".into(),
        // The host's /proc, seen through the root file system, where self is the kernel's process.
        "init=/proc/self/cwd/init".into(),
        "con=null con0=null,fd:1 ssl=null".into(),
        // A frame's buffer is free at once, and no interrupt has to say so.
        "virtio_net.napi_tx=0".into(),
        // What getrandom gives it is enough: it need not gather randomness from events, which takes it simulated seconds.
        "norandmaps random.trust_cpu=on random.trust_bootloader=on".into(),
        "uml_dir=./ umid=guest".into(),
        format!("time-travel=ext:{}:{TIME_SOCKET}", spec.id),
    ];
    line.extend(spec.devices.iter().zip(devices).map(|(device, socket)| {
        let id = match device {
            DeviceSpec::Network { .. } | DeviceSpec::NetworkWithLink { .. } => network::VIRTIO_ID,
            DeviceSpec::Pci(_) => pci::VIRTIO_ID,
        };
        format!("virtio_uml.device={socket}:{id}")
    }));
    let line: Vec<String> = line
        .iter()
        .flat_map(|part| part.split(' '))
        .map(String::from)
        .collect();
    [line, spec.parameters.clone()].concat()
}
