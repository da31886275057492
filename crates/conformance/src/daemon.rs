// SPDX-License-Identifier: Apache-2.0
//! The daemon of a run, and what it knows.

use crate::support::outcome::{Failure, Outcome};
use crate::support::seen;
use ipc::client::Client;
use ipc::protocol::{Reply, Request, SocketKind, SocketStatus};
use std::io::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds until a daemon that does not answer is given up: a machine that runs other tests may be slow.
const PATIENCE: u64 = 15;

/// A daemon in a process of its own, so that its descriptors and memory can be counted; ended with this value.
pub struct Process(Child);

impl Process {
    /// Starts a daemon and waits until it answers.
    ///
    /// With `far` every TCP connection goes as between machines, by a network that loses so many frames in a thousand.
    pub fn start(socket: &Path, far: Option<u32>, seed: u64) -> Result<Process, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--role").arg("daemon").arg(socket);
        if let Some(loss) = far {
            command.args([loss.to_string(), seed.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        crate::runner::Over::Kernel.prepare(&mut command);
        let mut process = Process(command.spawn()?);
        let deadline = Instant::now() + Duration::from_secs(10);
        while Client::connect(socket, "conformance").is_err() {
            if let Some(status) = process.0.try_wait()? {
                return Err(Error::other(format!("the daemon ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(Error::other("the daemon did not answer within ten seconds"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is ours; that it has ended already is no harm.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Frames after which a session gets new keys: they shall change while the cases run.
const REKEY_FRAMES: u64 = 1_000;

/// The key in this directory, which it trusts itself: machines at loopback addresses share one.
fn keyed(options: &mut daemon::Options, directory: &Path) -> Outcome {
    keyed::by_directory(&mut options.remote, directory, "127.0.0.0/8").map_err(Failure::new)?;
    options.remote.rekey_frames = REKEY_FRAMES;
    Ok(())
}

/// Where the daemon that is two machines says at which address they are.
fn told(socket: &Path) -> PathBuf {
    socket.with_file_name("address")
}

/// The address of the machines that a daemon is.
pub fn address(socket: &Path) -> Result<Ipv4Addr, Error> {
    let text = std::fs::read_to_string(told(socket))?;
    text.parse().map_err(Error::other)
}

/// Is the daemon, until the process that started it ends. With `far` (frames lost in a thousand, and a seed) it is two
/// machines at once: what would be local goes through its NIC.
pub fn serve(socket: &Path, far: Option<(u32, u64)>) -> Outcome {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    daemon::raise_descriptor_limit();
    let mut options = daemon::Options {
        socket: socket.to_path_buf(),
        ..Default::default()
    };
    let Some((loss, seed)) = far else {
        let mut server = daemon::Server::new(options).map_err(Failure::new)?;
        return server.run().map_err(Failure::new);
    };
    options.remote.loopback = true;
    keyed(&mut options, socket.parent().unwrap_or(Path::new(".")))?;
    options.remote.patience = PATIENCE;
    if loss > 0 {
        options.remote.faults = Some((faults(loss), seed));
    }
    // An address that no other run has.
    for _ in 0..100 {
        let [a, b, c] = rand::random::<[u8; 3]>().map(|byte| byte.clamp(1, 254));
        let address = Ipv4Addr::new(127, a, b, c);
        options.management = Some(std::net::SocketAddrV4::new(address, 3422));
        std::fs::write(told(socket), address.to_string()).map_err(Failure::new)?;
        if let Ok(mut server) = daemon::Server::new(options.clone()) {
            return server.run().map_err(Failure::new);
        }
    }
    Err(Failure::new(
        "no address of this machine was free for the daemon",
    ))
}

/// Is the daemon of a machine at a loopback address; all others there are other machines. The network loses so many
/// frames in a thousand, and it waits so many seconds for others. Its key is in a directory.
pub fn machine(
    socket: &Path,
    address: Ipv4Addr,
    loss: (u32, u64),
    patience: u64,
    keys: &Path,
) -> Outcome {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    daemon::raise_descriptor_limit();
    let mut options = daemon::Options {
        socket: socket.to_path_buf(),
        management: Some(std::net::SocketAddrV4::new(address, 3422)),
        ..Default::default()
    };
    let machines: daemon::remote::Network = "127.0.0.0/8".parse().map_err(Failure::new)?;
    options.remote.sockets = vec![machines];
    options.remote.software_sockets = true;
    keyed(&mut options, keys)?;
    // The kernel gives programs the source address 127.0.0.1, whichever machine they stand for.
    options.remote.peer = vec![daemon::remote::Peer {
        daemon: machines,
        sources: vec![machines],
        nics: Vec::new(),
    }];
    options.remote.patience = patience;
    options.remote.faults = (loss.0 > 0).then(|| (faults(loss.0), loss.1));
    let mut server = daemon::Server::new(options).map_err(Failure::new)?;
    server.run().map_err(Failure::new)
}

fn faults(loss: u32) -> daemon::remote::Faults {
    daemon::remote::Faults {
        loss,
        ..Default::default()
    }
}

/// Tries to talk to a daemon, and says what came of it.
pub fn knock(socket: &Path) -> Outcome {
    match Client::connect(socket, "knock") {
        Ok(_) => println!("welcome"),
        Err(error) => println!("refused: {error}"),
    }
    Ok(())
}

/// The daemon has a channel between the two addresses.
pub fn knows(own: SocketAddr, peer: SocketAddr) -> bool {
    let Some(path) = std::env::var_os(seen::DAEMON) else {
        return false;
    };
    let Ok(client) = Client::connect(Path::new(&path), "conformance") else {
        return false;
    };
    let wanted = [plain(own), plain(peer)];
    let mut after = 0;
    while let Ok((Reply::Sockets { sockets, .. }, _)) = client.request(&Request::Sockets { after })
    {
        let Some(last) = sockets.last() else {
            return false;
        };
        after = last.channel;
        // As between machines, either end says where the other one is.
        let far = std::env::var_os(seen::FAR).is_some();
        let fits = |status: &SocketStatus| {
            let through = status.ends.iter().any(|end| end.program.starts_with("at "));
            let v4 = wanted.iter().all(SocketAddr::is_ipv4);
            if far && v4 && status.kind == SocketKind::Stream && !through {
                return false;
            }
            let ends = [plain(status.ends[0].address), plain(status.ends[1].address)];
            ends == wanted || [ends[1], ends[0]] == wanted
        };
        if sockets.iter().any(fits) {
            return true;
        }
    }
    false
}

/// An address without what is only another way of writing it.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
