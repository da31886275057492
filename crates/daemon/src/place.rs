// SPDX-License-Identifier: Apache-2.0
//! The daemon's socket in the file system: made so that only its user reaches it, and only one daemon has it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::Error;

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// The listening socket; dropped, its file is removed.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// It is held as long as this is.
    _lock: File,
    /// The directory is nobody else's.
    own_directory: bool,
    /// The socket.
    pub listener: OwnedFd,
}

impl Place {
    /// Takes the place, unless another daemon has it; what a dead one left behind is replaced.
    pub fn take(path: &Path, own_directory: bool) -> Result<Self, Error> {
        let at = |what: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source: std::io::Error| Error::File { what, path, source }
        };
        if let Some(directory) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            close_directory(directory)?;
        }
        let lock_path = with_suffix(path, ".lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&lock_path)
            .map_err(at("open the lock file", &lock_path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // Who it is only helps; the lock has told what matters.
                let _ = lock.read_to_string(&mut owner);
                return Err(Error::Running {
                    path: path.to_owned(),
                    owner: owner.trim().to_owned(),
                });
            }
            Err(errno) => return Err(at("lock", &lock_path)(errno.into())),
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(at("write", &lock_path))?;
        match fs::symlink_metadata(path) {
            Ok(there) if there.file_type().is_socket() => {
                fs::remove_file(path).map_err(at("remove the old socket", path))?;
            }
            Ok(_) => {
                return Err(Error::NotASocket {
                    path: path.to_owned(),
                });
            }
            Err(_) => {}
        }
        let listener =
            listen(path).map_err(|errno| at("listen at the socket", path)(errno.into()))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            own_directory,
            listener,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A file that is gone already is as good. The lock file stays: to remove it would race with the next daemon.
        let _ = fs::remove_file(&self.path);
        if self.own_directory {
            let _ = fs::remove_file(with_suffix(&self.path, ".lock"));
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}

fn listen(path: &Path) -> Result<OwnedFd, Errno> {
    let listener = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&listener, &SocketAddrUnix::new(path)?)?;
    // Nobody can connect before it listens, so nobody gets in between.
    fs::set_permissions(path, Permissions::from_mode(0o600))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Makes a directory for its owner only; one with our name that is ours but open to others is closed to them. One with our
/// name that is anybody else's, or not what it seems, is refused: whoever has it could put a socket of his own there.
pub fn close_directory(directory: &Path) -> Result<(), Error> {
    let failed = |source| Error::File {
        what: "make the directory",
        path: directory.to_owned(),
        source,
    };
    // A link that leads nowhere is there, too.
    if fs::symlink_metadata(directory).is_err() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed)?;
    }
    let ours = directory
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("ipnuma"));
    if !ours {
        return Ok(());
    }
    let there = fs::symlink_metadata(directory).map_err(failed)?;
    let own = there.uid() == rustix::process::geteuid().as_raw();
    if there.is_dir() && own && there.mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    ipc::client::check_directory(directory).map_err(|why| Error::Unsafe {
        path: directory.to_owned(),
        why,
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
