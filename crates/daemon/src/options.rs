// SPDX-License-Identifier: Apache-2.0
//! What a daemon is told at its start, by the command line or a TOML file.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Error;
use crate::state::Limits;

/// Longest silence until another daemon is taken for gone: an hour, seconds.
const MOST_PATIENCE: u64 = 3600;

/// Options of a daemon; the configuration file has the same names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Its Unix socket.
    pub socket: PathBuf,
    /// Where other machines' daemons reach it; without, it serves this machine only.
    pub management: Option<SocketAddrV4>,
    /// Lines of 64 bytes of a stream's ring, a power of two.
    pub ring_lines: u32,
    /// Lines of 64 bytes of a datagram ring, a power of two.
    pub datagram_lines: u32,
    /// Writes each request and its answer to standard error.
    pub trace: bool,
    /// What one process may have.
    pub limits: Limits,
    /// How it speaks with other machines, if it does.
    pub remote: crate::remote::Options,
    /// Ends once this process has ended and no other is connected.
    #[serde(skip)]
    pub follow: Option<u32>,
    /// The socket's directory is this daemon's alone, and goes with it.
    #[serde(skip)]
    pub own_directory: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            socket: ipc::client::default_path(),
            management: None,
            ring_lines: shm::channel::STREAM_LINES,
            datagram_lines: shm::channel::DATAGRAM_LINES,
            trace: false,
            limits: Limits::default(),
            remote: crate::remote::Options::default(),
            follow: None,
            own_directory: false,
        }
    }
}

impl Options {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// If it can't be read or is wrong.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = input::text(path).map_err(|why| Error::Config {
            place: path.display().to_string(),
            problem: format!("{why}; give the path of a configuration"),
        })?;
        Self::parse(&text).map_err(|problem| Error::Config {
            place: path.display().to_string(),
            problem,
        })
    }

    /// The text of a configuration file.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let options: Self = toml::from_str(text)
            .map_err(|error| input::at_line(text, error.span(), error.message()))?;
        options.check()?;
        Ok(options)
    }

    /// Whether the numbers can be used.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.socket.as_os_str().is_empty() {
            return Err("socket: it is empty; write a path, or leave it away".to_owned());
        }
        for (key, lines) in [
            ("ring_lines", self.ring_lines),
            ("datagram_lines", self.datagram_lines),
            ("remote.ring_lines", self.remote.ring_lines),
        ] {
            if !shm::ring::valid_lines(lines) || lines > shm::channel::MAX_LINES {
                return Err(format!(
                    "{key}: {lines} is no power of two from {} to {}",
                    shm::ring::MIN_LINES,
                    shm::channel::MAX_LINES
                ));
            }
        }
        let patience = self.remote.patience;
        if patience > MOST_PATIENCE {
            return Err(format!(
                "remote.patience: {patience} s is too long; write {MOST_PATIENCE} at most"
            ));
        }
        Ok(())
    }

    /// The configuration file, if there is one: `$IPNUMA_DAEMON_CONFIG`, `~/.config/ipnuma/daemon.toml`,
    /// `/etc/ipnuma/daemon.toml`.
    #[must_use]
    pub fn default_file() -> Option<PathBuf> {
        if let Some(path) = std::env::var_os("IPNUMA_DAEMON_CONFIG").filter(|path| !path.is_empty())
        {
            return Some(path.into());
        }
        let home = std::env::var_os("HOME")
            .map(|home| Path::new(&home).join(".config/ipnuma/daemon.toml"));
        let candidates = [home, Some("/etc/ipnuma/daemon.toml".into())];
        candidates.into_iter().flatten().find(|path| path.exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_names_of_the_options() {
        let options = Options::parse(
            "socket = '/run/x/daemon.sock'\nmanagement = '10.0.0.1:3422'\nring_lines = 64\n[limits]\nchannels = 7\n",
        );
        let options = options.expect("it is right");
        assert_eq!(options.socket, Path::new("/run/x/daemon.sock"));
        assert_eq!(
            options.management,
            Some("10.0.0.1:3422".parse().expect("an address"))
        );
        assert_eq!((options.ring_lines, options.limits.channels), (64, 7));
        assert_eq!(options.limits.windows, Limits::default().windows);
    }

    #[test]
    fn the_documentation_names_all_keys_and_their_defaults() {
        let page = include_str!("../../../docs/daemon.md");
        let example = page
            .split("```toml")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let options = Options::parse(example.expect("there is an example")).expect("it is right");
        let wanted = Options {
            socket: "/run/ipnuma/daemon.sock".into(),
            management: Some("10.0.0.1:3422".parse().expect("an address")),
            ..Options::default()
        };
        assert_eq!(options, wanted);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("ring_lines = 65", "ring_lines: 65 is no power of two"),
            ("datagram_lines = 4", "datagram_lines: 4 is no power of two"),
            ("socket = ''", "socket: it is empty"),
            (
                "sokcet = 'x'",
                "there is no key `sokcet`; the keys are socket",
            ),
            ("[limits]\nforks = 1", "line 2: there is no key `forks`"),
            (
                "[remote]\npatience = 4611686018427387904",
                "remote.patience: 4611686018427387904 s is too long",
            ),
        ] {
            let problem = Options::parse(text).expect_err(text);
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }
}
