// SPDX-License-Identifier: Apache-2.0
//! Daemon and programs of a test; all end with the test, also when it fails.

use daemon::keys::{Key, Known};
use ipc::client::Client;
use ipc::protocol::{Reply, Request, SocketStatus, Totals};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long anything may take that must happen at some time; far more than it takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The socket library: `$IPNUMA_SOCKET_LIBRARY`, or where cargo puts it.
pub fn library() -> PathBuf {
    if let Some(path) = std::env::var_os("IPNUMA_SOCKET_LIBRARY") {
        return path.into();
    }
    let path = Path::new(env!("CARGO_BIN_EXE_conformance")).with_file_name("libipnuma_socket.so");
    assert!(
        path.exists(),
        "{} is missing: build it with `cargo build -p preload`, or name another in IPNUMA_SOCKET_LIBRARY",
        path.display()
    );
    path
}

/// A daemon at a path of its own.
pub struct Daemon {
    directory: tempfile::TempDir,
    child: Option<Child>,
    /// It is the daemon of a machine at this address, whose network loses so many frames in a thousand, by this seed; it
    /// waits so many seconds for others.
    machine: Option<(std::net::Ipv4Addr, u32, u64, u64)>,
}

/// Where the key is that machines of this process share.
fn keys() -> &'static Path {
    static KEYS: OnceLock<PathBuf> = OnceLock::new();
    KEYS.get_or_init(|| {
        let own = format!("machines-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(own);
        let [key, known] = ["key", "known_peers"].map(|name| directory.join(name));
        // Of another process with this number, long ago.
        let _ = std::fs::remove_dir_all(&directory);
        let made = Key::make(&key).expect("a key");
        Known::trust(&known, "127.0.0.0/8", made.fingerprint(), "").expect("it can be written");
        directory
    })
}

impl Daemon {
    /// Starts one.
    pub fn start() -> Daemon {
        let mut daemon = Daemon {
            directory: tempfile::tempdir().expect("no temporary directory"),
            child: None,
            machine: None,
        };
        daemon.restart(0);
        daemon
    }

    /// The daemon of a machine of its own, at an address that no other test has.
    #[allow(dead_code)]
    pub fn machine(loss: u32, seed: u64) -> Daemon {
        Self::machine_that_waits(15, loss, seed)
    }

    /// One that gives up others after a second.
    #[allow(dead_code)]
    pub fn impatient_machine(loss: u32, seed: u64) -> Daemon {
        Self::machine_that_waits(1, loss, seed)
    }

    fn machine_that_waits(patience: u64, loss: u32, seed: u64) -> Daemon {
        loop {
            let [a, b, c] = rand::random::<[u8; 3]>().map(|byte| byte.clamp(1, 254));
            let address = std::net::Ipv4Addr::new(127, a, b, c);
            let free = std::net::TcpListener::bind((address, 3422)).is_ok();
            if !free {
                continue;
            }
            let mut daemon = Daemon {
                directory: tempfile::tempdir().expect("no temporary directory"),
                child: None,
                machine: Some((address, loss, seed, patience)),
            };
            daemon.restart(0);
            return daemon;
        }
    }

    /// Its address.
    #[allow(dead_code)]
    pub fn address(&self) -> std::net::Ipv4Addr {
        self.machine
            .map_or(std::net::Ipv4Addr::LOCALHOST, |(address, ..)| address)
    }

    /// One that may have only so many descriptors.
    pub fn with_descriptors(limit: u64) -> Daemon {
        let mut daemon = Daemon {
            directory: tempfile::tempdir().expect("no temporary directory"),
            child: None,
            machine: None,
        };
        daemon.restart(limit);
        daemon
    }

    /// Starts it again at the same path.
    pub fn restart(&mut self, limit: u64) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
        match self.machine {
            None => command.args(["--role", "daemon"]).arg(self.socket()),
            Some((address, loss, seed, patience)) => command
                .args(["--role", "machine"])
                .arg(self.socket())
                .arg(address.to_string())
                .args([loss.into(), seed, patience].map(|number| number.to_string()))
                .arg(keys()),
        };
        command.stdin(Stdio::null()).env_remove("LD_PRELOAD");
        if limit > 0 {
            let limit = libc::rlimit {
                rlim_cur: limit,
                rlim_max: limit,
            };
            // SAFETY: only a system call between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                        0 => Ok(()),
                        _ => Err(std::io::Error::last_os_error()),
                    }
                });
            }
        }
        self.child = Some(command.spawn().expect("the daemon could not be started"));
        eventually("the daemon answers", || {
            Client::connect(&self.socket(), "test").is_ok()
        });
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the daemon is not running");
        child.kill().expect("the daemon could not be killed");
        child.wait().expect("the daemon could not be waited for");
    }

    /// Lets it stand still for a while; returns at once.
    #[allow(dead_code)]
    pub fn stop_for(&self, time: Duration) {
        let pid = self.pid() as i32;
        // SAFETY: signals to our own child, which this value waits for.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        std::thread::spawn(move || {
            std::thread::sleep(time);
            // SAFETY: as above; daemons that are stopped are not waited for before they go on.
            unsafe { libc::kill(pid, libc::SIGCONT) };
        });
    }

    /// Lets it stand still until it goes on.
    #[allow(dead_code)]
    pub fn stand_still(&self) {
        // SAFETY: a signal to our own child, which this value waits for.
        unsafe { libc::kill(self.pid() as i32, libc::SIGSTOP) };
    }

    /// Ends that.
    #[allow(dead_code)]
    pub fn go_on(&self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.pid() as i32, libc::SIGCONT) };
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("daemon.sock")
    }

    /// Its directory.
    #[allow(dead_code)]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its process.
    #[allow(dead_code)]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the daemon is not running").id()
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(&self.socket(), "test").expect("the daemon does not answer")
    }

    /// The channels that it has, and what all channels have carried.
    pub fn sockets(&self) -> (Totals, Vec<SocketStatus>) {
        Self::sockets_by(&self.client())
    }

    /// The same over a connection that there is already.
    pub fn sockets_by(client: &Client) -> (Totals, Vec<SocketStatus>) {
        let (mut all, mut after) = (Vec::new(), 0);
        // Only the first answer has the sums.
        let mut sums = None;
        loop {
            let (reply, _) = client
                .request(&Request::Sockets { after })
                .expect("the daemon does not answer");
            let Reply::Sockets { totals, sockets } = reply else {
                panic!("another answer: {reply:?}")
            };
            let totals = *sums.get_or_insert(totals);
            let Some(last) = sockets.last() else {
                return (totals, all);
            };
            after = last.channel;
            all.extend(sockets);
        }
    }

    /// The channel of the connections to a port that the program has.
    pub fn channel(&self, program: &Program, port: u16) -> Option<SocketStatus> {
        let (_, sockets) = self.sockets();
        sockets.into_iter().find(|status| {
            status.ends[1].address.port() == port && status.ends[0].pid == program.child.id()
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A program under the library.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// Starts a role.
    pub fn start(daemon: &Daemon, role: &[&str]) -> Program {
        Program::start_towards(daemon, daemon, role)
    }

    /// Starts a role with more in its environment.
    #[allow(dead_code)]
    pub fn start_with(daemon: &Daemon, role: &[&str], environment: &[(&str, &str)]) -> Program {
        Program::start_in(daemon, daemon, role, environment)
    }

    /// Starts a role on one machine whose servers are on another one.
    pub fn start_towards(daemon: &Daemon, server: &Daemon, role: &[&str]) -> Program {
        Program::start_in(daemon, server, role, &[])
    }

    fn start_in(
        daemon: &Daemon,
        server: &Daemon,
        role: &[&str],
        environment: &[(&str, &str)],
    ) -> Program {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conformance"))
            .arg("--role")
            .args(role)
            .env("LD_PRELOAD", library())
            .env("IPNUMA_LEARN", "0")
            .env("IPNUMA_DAEMON", daemon.socket())
            .env("SOCKETTEST_HOST", server.address().to_string())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program could not be started");
        let output = BufReader::new(child.stdout.take().expect("no output"));
        let (say, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Program { child, lines }
    }

    /// A server, and its port.
    pub fn server(daemon: &Daemon, limit: u64) -> (Program, u16) {
        let server = Program::start(daemon, &["server", &limit.to_string()]);
        let line = server.line();
        let port = line
            .strip_prefix("port ")
            .and_then(|port| port.parse().ok());
        (
            server,
            port.unwrap_or_else(|| panic!("the server said {line:?}")),
        )
    }

    /// A server at a port.
    #[allow(dead_code)]
    pub fn server_at(daemon: &Daemon, port: u16) -> Program {
        let server = Program::start(daemon, &["server", "0", &port.to_string()]);
        assert_eq!(server.line(), format!("port {port}"));
        server
    }

    /// A server that accepts when it is told to, and its port.
    #[allow(dead_code)]
    pub fn door(daemon: &Daemon) -> (Program, u16) {
        let door = Program::start(daemon, &["door"]);
        let line = door.line();
        let port = line
            .strip_prefix("port ")
            .and_then(|port| port.parse().ok());
        (
            door,
            port.unwrap_or_else(|| panic!("the server said {line:?}")),
        )
    }

    /// Has it accept a connection: its descriptor there.
    #[allow(dead_code)]
    pub fn accept(&mut self, command: &str) -> String {
        let answer = self.ask(command);
        answer
            .strip_prefix("accepted ")
            .unwrap_or_else(|| panic!("accept gave {answer}"))
            .to_string()
    }

    /// The next line that it writes.
    pub fn line(&self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("the program said nothing for {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => "(ended)".into(),
        }
    }

    /// Gives a command without waiting for the answer.
    pub fn tell(&mut self, command: &str) {
        let input = self.child.stdin.as_mut().expect("no input");
        writeln!(input, "{command}").expect("the program takes no command");
    }

    /// Gives a command; its answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.line()
    }

    /// A new connection to a port: its descriptor in the program.
    pub fn connect(&mut self, port: u16) -> String {
        let answer = self.ask(&format!("connect {port}"));
        answer
            .strip_prefix("connected ")
            .unwrap_or_else(|| panic!("connect gave {answer}"))
            .to_string()
    }

    /// A new socket for datagrams at an address: its descriptor in the program.
    #[allow(dead_code)]
    pub fn socket(&mut self, at: std::net::Ipv4Addr) -> String {
        let answer = self.ask(&format!("socket {at}"));
        answer
            .strip_prefix("socket ")
            .unwrap_or_else(|| panic!("socket gave {answer}"))
            .to_string()
    }

    /// kill -STOP; returns when it stands still: on another core it runs on for a moment, long enough for an answer.
    #[allow(dead_code)]
    pub fn stop(&self) {
        let pid = libc::pid_t::try_from(self.pid()).expect("processes have small numbers");
        let mut status = 0;
        // SAFETY: the process is a child that nobody has waited for, and a stop is all that is asked of it; the status is
        // a place of its own.
        unsafe {
            assert_eq!(libc::kill(pid, libc::SIGSTOP), 0);
            assert_eq!(libc::waitpid(pid, &raw mut status, libc::WUNTRACED), pid);
        }
        assert!(
            libc::WIFSTOPPED(status),
            "the program ended instead: {status}"
        );
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("the program could not be killed");
        self.child
            .wait()
            .expect("the program could not be waited for");
    }

    /// Its process.
    #[allow(dead_code)]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it never happened that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a process holds.
#[allow(dead_code)]
#[derive(Debug, Clone, Copy)]
pub struct Holdings {
    /// Descriptors.
    pub descriptors: usize,
    /// Mappings of channels and regions.
    pub shared: usize,
    /// All mappings.
    pub mappings: usize,
    /// Resident memory, KiB.
    pub resident: usize,
}

#[allow(dead_code)]
impl Holdings {
    /// Of the process.
    pub fn of(pid: u32) -> Holdings {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("no such process")
            .count();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("no such process");
        let status =
            std::fs::read_to_string(format!("/proc/{pid}/status")).expect("no such process");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.trim().split(' ').next()?.parse().ok());
        Holdings {
            descriptors,
            shared: maps.lines().filter(|line| line.contains("/memfd:")).count(),
            mappings: maps.lines().count(),
            resident: resident.expect("no VmRSS"),
        }
    }
}
