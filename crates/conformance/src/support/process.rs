// SPDX-License-Identifier: Apache-2.0
//! Children of a case, threads, signals.

use super::errno::{Call, Errno};
use super::outcome::{Failure, Outcome};
use super::sys::{Fd, answer, done};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A forked child.
#[derive(Debug)]
pub struct Child(pub libc::pid_t);

/// Forks; the child runs the closure and exits with status 0 if that went well.
pub fn fork(body: impl FnOnce() -> Outcome) -> Call<Child> {
    // SAFETY: cases that fork have no other threads that hold locks which the child needs.
    match unsafe { libc::fork() } {
        -1 => Err(Errno::last()),
        0 => {
            let status = match body() {
                Ok(()) => 0,
                Err(Failure(text)) => {
                    eprintln!("in a child: {text}");
                    1
                }
            };
            // SAFETY: ends the child without what the parent registered to run at its exit.
            unsafe { libc::_exit(status) }
        }
        pid => Ok(Child(pid)),
    }
}

impl Child {
    /// Waits for the child; what it found wrong is on standard error.
    #[track_caller]
    pub fn join(&self) -> Outcome {
        match self.status()? {
            0 => Ok(()),
            status => Err(Failure::new(format!(
                "the child ended with status {status:#x}"
            ))),
        }
    }

    /// The wait status.
    pub fn status(&self) -> Call<i32> {
        loop {
            let mut status = 0;
            // SAFETY: room for the status.
            match answer(unsafe { libc::waitpid(self.0, &raw mut status, 0) } as isize) {
                Err(Errno(libc::EINTR)) => {}
                other => return other.map(|_| status),
            }
        }
    }

    /// SIGKILL, and waits until the child is gone.
    pub fn kill(&self) -> Call<()> {
        // SAFETY: the child is ours and not yet waited for.
        done(unsafe { libc::kill(self.0, libc::SIGKILL) })?;
        self.status().map(drop)
    }
}

/// A thread with an outcome.
pub struct Thread(JoinHandle<Outcome>);

/// Runs the closure in a thread.
pub fn thread(body: impl FnOnce() -> Outcome + Send + 'static) -> Thread {
    Thread(std::thread::spawn(|| {
        let outcome = body();
        // At once: whoever would join it may wait for what it does not do any more.
        if let Err(failure) = &outcome {
            eprintln!("a thread: {}", failure.0);
        }
        outcome
    }))
}

impl Thread {
    /// Waits for the thread.
    #[track_caller]
    pub fn join(self) -> Outcome {
        self.0
            .join()
            .unwrap_or_else(|_| Err(Failure::new("the thread panicked")))
    }

    /// The thread has ended.
    pub fn ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Sends the thread a signal every few milliseconds until it ends: one alone might come before it blocks.
    #[track_caller]
    pub fn interrupt(self, signal: i32) -> Outcome {
        use std::os::unix::thread::JoinHandleExt;
        for _ in 0..500 {
            std::thread::sleep(Duration::from_millis(10));
            if self.ended() {
                break;
            }
            // SAFETY: the handle is not joined, so the thread's identity is valid.
            unsafe { libc::pthread_kill(self.0.as_pthread_t(), signal) };
        }
        if !self.ended() {
            return Err(Failure::new(
                "five hundred signals did not interrupt the call",
            ));
        }
        self.join()
    }
}

/// Signals that the handler of `count_signal` has seen.
pub static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_signal: i32) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// Installs a handler that counts; `flags` 0 makes calls fail with EINTR, SA_RESTART makes those go on that may.
pub fn count_signal(signal: i32, flags: i32) -> Call<()> {
    // SAFETY: all zeroes is a valid sigaction; the handler only touches an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(i32) as usize;
        action.sa_flags = flags;
        done(libc::sigaction(
            signal,
            &raw const action,
            std::ptr::null_mut(),
        ))
    }
}

/// The set of one signal.
pub fn signal_set(signal: i32) -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        set
    }
}

/// Blocks or unblocks signals in this thread.
pub fn mask(how: i32, set: &libc::sigset_t) -> Call<()> {
    // SAFETY: the set outlives the call.
    done(unsafe { libc::pthread_sigmask(how, &raw const *set, std::ptr::null_mut()) })
}

/// This program again, in one of its helper roles (`crate::roles`), with its first line of output.
pub struct Role {
    child: std::process::Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Role {
    /// Starts a role; `plain` takes the preloaded library from its environment, so that it uses the kernel only.
    pub fn start(arguments: &[&str], plain: bool) -> Result<Role, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("--role")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if plain {
            command.env_remove("LD_PRELOAD");
        }
        let mut child = command.spawn()?;
        let lines = child
            .stdout
            .take()
            .ok_or_else(|| Failure::new("the role has no output"))?;
        Ok(Role {
            child,
            lines: BufReader::new(lines),
        })
    }

    /// The next line that the role writes.
    pub fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        Ok(line.trim_end().to_string())
    }

    /// Waits for an orderly end.
    #[track_caller]
    pub fn join(mut self) -> Outcome {
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::new(format!("the role ended with {status}")))
        }
    }
}

/// Closes a descriptor on exec, or not.
pub fn close_on_exec(fd: Fd, on: bool) -> Call<()> {
    super::sys::fcntl(fd, libc::F_SETFD, if on { libc::FD_CLOEXEC } else { 0 }).map(drop)
}

/// Room for the ancillary data that carries one descriptor.
fn with_control<T>(call: impl FnOnce(&mut libc::msghdr) -> Call<T>) -> Call<T> {
    let mut byte = [0u8; 1];
    let mut vector = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = [0u64; 8];
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: takes a number only.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    call(&mut header)
}

/// Sends a descriptor over a Unix socket.
pub fn give_descriptor(over: Fd, fd: Fd) -> Call<()> {
    with_control(|header| {
        // SAFETY: the header has control room for one descriptor.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const *header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(first).cast::<Fd>().write_unaligned(fd);
            answer(libc::sendmsg(over, &raw const *header, 0)).map(drop)
        }
    })
}

/// Takes a descriptor from a Unix socket.
pub fn take_descriptor(over: Fd) -> Call<Fd> {
    with_control(|header| {
        // SAFETY: the header has control room for one descriptor, which the peer sends.
        unsafe {
            answer(libc::recvmsg(over, &raw mut *header, 0))?;
            let first = libc::CMSG_FIRSTHDR(&raw const *header);
            if first.is_null() {
                return Err(Errno(libc::EBADF));
            }
            Ok(libc::CMSG_DATA(first).cast::<Fd>().read_unaligned())
        }
    })
}
