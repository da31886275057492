// SPDX-License-Identifier: Apache-2.0
//! The policy of the socket library: which connections it may accelerate, and which are the kernel's.
//!
//! ```text
//! file    = { [ rule ] [ "#" comment ] newline }
//! rule    = ( "ipnuma" | "kernel" ) { word }            the first rule that fits decides; none: accelerated
//! word    = "program" NAME                              the executable's file name; NAME* for all that begin so;
//!                                                       "A NAME" in quotes for one with blanks or stars
//!         | "listen" | "connect"                        the program's part; both if missing
//!         | ADDRESS [ "/" BITS ]                        IPv4 or IPv6: own one of a listener, other one of a client
//!         | "port" FIRST [ "-" LAST ]                   of the server
//! ```
//!
//! Words may come in any order, each at most once. The file is `$IPNUMA_POLICY`, or `/etc/ipnuma/sockets.policy` if that
//! exists; else the [built-in list](BUILT_IN) holds.

mod cover;
mod network;
mod words;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use network::Network;
use rustix::fs::OFlags;
use words::Word;

use crate::config::Ports;
use crate::error::{Error, Result};

/// Names the file.
pub const VARIABLE: &str = "IPNUMA_POLICY";
/// Where it is otherwise.
pub const PLACE: &str = "/etc/ipnuma/sockets.policy";
/// What holds where there is no file.
pub const BUILT_IN: &str = include_str!("policy/built-in.policy");
/// A file that is longer is none of ours.
const LONGEST: u64 = 1 << 20;

/// Who serves a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The rings, where the peer has the library, too.
    Ipnuma,
    /// The kernel.
    Kernel,
}

/// The program's part in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It listens, or has bound a socket for datagrams.
    Listen,
    /// It connects, or sends datagrams.
    Connect,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Listen, Self::Connect];
}

/// Which programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    /// All whose names begin so.
    open: bool,
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Who serves what it fits.
    pub action: Action,
    /// All if none is named.
    pub program: Option<Program>,
    /// Both if none is named.
    pub role: Option<Role>,
    /// Every address if none is named.
    pub network: Option<Network>,
    /// Every port if none is named.
    pub ports: Option<Ports>,
}

/// A rule and its line's number, from 1 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The number.
    pub number: usize,
    /// The rule.
    pub rule: Rule,
}

/// All rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Where it is written, for people.
    pub place: String,
    /// In the file's order.
    pub lines: Vec<Line>,
}

/// The file that holds; none: the built-in list.
#[must_use]
pub fn file() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => Some(path.into()),
        // What cannot be looked at is taken for there: reading it says why not.
        // So is a link that leads nowhere.
        None => is_there(Path::new(PLACE)).then(|| PLACE.into()),
    }
}

fn is_there(path: &Path) -> bool {
    let looked = path.symlink_metadata();
    !looked.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

impl Policy {
    /// The policy that holds for programs which start now.
    ///
    /// # Errors
    /// If its file cannot be read or understood.
    pub fn load() -> Result<Self> {
        match file() {
            Some(path) => Self::read(&path),
            None => Self::parse(BUILT_IN, "the built-in policy"),
        }
    }

    /// The policy that leaves everything to the kernel.
    #[must_use]
    pub fn of_the_kernel() -> Self {
        let rule = Rule {
            action: Action::Kernel,
            program: None,
            role: None,
            network: None,
            ports: None,
        };
        Self {
            place: String::new(),
            lines: vec![Line { number: 1, rule }],
        }
    }

    /// A file.
    ///
    /// # Errors
    /// If it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let wrong = |problem: String| Error::Config {
            place: place.clone(),
            problem,
        };
        let text = text(path).map_err(|why| {
            wrong(format!(
                "{why}; name another file with ${VARIABLE}, or remove it"
            ))
        })?;
        Self::parse(&text, &place)
    }

    /// A file's text; `place` is for messages.
    ///
    /// # Errors
    /// If a line cannot be understood.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let mut lines = Vec::new();
        // Some editors begin a file with a mark of its byte order.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let rule = rule(line).map_err(|problem| Error::Config {
                place: format!("{place}, line {number}"),
                problem,
            })?;
            lines.extend(rule.map(|rule| Line { number, rule }));
        }
        Ok(Self {
            place: place.to_owned(),
            lines,
        })
    }

    /// What is left of it for one program, by its executable's file name.
    #[must_use]
    pub fn of_program(mut self, name: &str) -> Self {
        self.lines.retain(|line| line.rule.names(name));
        self
    }

    /// The line that decides; none: it is accelerated. Only for a policy [of one program](Self::of_program).
    #[must_use]
    pub fn find(&self, role: Role, address: SocketAddr) -> Option<&Line> {
        self.lines.iter().find(|line| line.rule.fits(role, address))
    }

    /// Whether a connection is the kernel's. Only for a policy [of one program](Self::of_program).
    #[must_use]
    pub fn leaves(&self, role: Role, address: SocketAddr) -> bool {
        self.find(role, address)
            .is_some_and(|line| line.rule.action == Action::Kernel)
    }

    /// Whether a line asks for a connection to be accelerated. Only for a policy [of one program](Self::of_program).
    #[must_use]
    pub fn asks_for(&self, role: Role, address: SocketAddr) -> bool {
        self.find(role, address)
            .is_some_and(|line| line.rule.action == Action::Ipnuma)
    }

    /// The lines for one part of a program, up to the one that leaves nothing to those behind it.
    #[must_use]
    pub fn part(&self, role: Role) -> Vec<&Line> {
        let mut part = Vec::new();
        let mine = |line: &&Line| line.rule.role.is_none_or(|only| only == role);
        for line in self.lines.iter().filter(mine) {
            part.push(line);
            if line.rule.is_for_all() {
                break;
            }
        }
        part
    }
}

impl Program {
    fn has(&self, name: &str) -> bool {
        name == self.name || self.open && name.starts_with(&self.name)
    }
}

impl Rule {
    /// Whether it is for that program, by its executable's file name.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.program
            .as_ref()
            .is_none_or(|program| program.has(name))
    }

    /// Whether it is for every address and port.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        let every = |ports: Ports| ports.first <= 1 && ports.last == u16::MAX;
        self.network.is_none() && self.ports.is_none_or(every)
    }

    fn fits(&self, role: Role, address: SocketAddr) -> bool {
        self.role.is_none_or(|only| only == role)
            && self
                .ports
                .is_none_or(|ports| (ports.first..=ports.last).contains(&address.port()))
            && self.network.is_none_or(|network| network.has(address.ip()))
    }
}

/// The text of a file, for which nobody waits: not of a pipe, nor without end.
fn text(path: &Path) -> Result<String, String> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::InvalidData => "it is no text in UTF-8".to_owned(),
        _ => format!("cannot be read ({error})"),
    };
    let mut file: File = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(cannot)?;
    let kind = file.metadata().map_err(cannot)?.file_type();
    // /dev/null is an empty policy.
    if !kind.is_file() && !kind.is_char_device() {
        return Err("it is no ordinary file".to_owned());
    }
    let mut text = String::new();
    let limited = Read::by_ref(&mut file).take(LONGEST + 1);
    { limited }.read_to_string(&mut text).map_err(cannot)?;
    match text.len() as u64 {
        0..=LONGEST => Ok(text),
        _ => Err(format!("it is longer than {LONGEST} bytes")),
    }
}

/// What is said of a line that is not understood.
const WORDS: &str = "write ipnuma or kernel, then any of program NAME, listen or connect, ADDRESS/BITS, port N or N-M";

/// The rule of a line; none if it is empty but for a comment.
fn rule(line: &str) -> Result<Option<Rule>, String> {
    if line.contains('\r') {
        return Err(
            "a carriage return stands within the line; end each line with a line feed".to_owned(),
        );
    }
    let words = words::of(line)?;
    let mut words = words.iter();
    let Some(first) = words.next() else {
        return Ok(None);
    };
    let action = match first.plain() {
        Some("ipnuma") => Action::Ipnuma,
        Some("kernel") => Action::Kernel,
        _ => return Err(format!("{} begins no rule; {WORDS}", quoted(&first.text))),
    };
    let mut rule = Rule {
        action,
        program: None,
        role: None,
        network: None,
        ports: None,
    };
    while let Some(word) = words.next() {
        let mut value = |example: &str| {
            words
                .next()
                .ok_or_else(|| format!("behind `{}` there is nothing; write {example}", word.text))
        };
        match word.plain() {
            Some("program") => {
                let program = Program::of(value("program NAME")?)?;
                once(&mut rule.program, program, "program")?;
            }
            Some("port") => {
                let ports = ports(&value("port 80")?.text)?;
                once(&mut rule.ports, ports, "port")?;
            }
            Some("listen") => once(&mut rule.role, Role::Listen, "part")?,
            Some("connect") => once(&mut rule.role, Role::Connect, "part")?,
            Some(word)
                if word.starts_with(|first: char| first.is_ascii_digit()) || word.contains(':') =>
            {
                once(&mut rule.network, word.parse()?, "network")?;
            }
            _ => {
                let word = quoted(&word.text);
                return Err(format!("{word} is no word of a rule; {WORDS}"));
            }
        }
    }
    Ok(Some(rule))
}

/// A word, as long as a line of a message can be.
fn quoted(word: &str) -> String {
    const MOST: usize = 40;
    let some: String = word
        .chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect();
    match word.chars().count() {
        0..=MOST => format!("`{some}`"),
        _ => format!("`{some}...`"),
    }
}

fn once<T>(place: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!(
            "a rule has one {what}; write a line for each, or remove one"
        )),
    }
}

fn ports(text: &str) -> Result<Ports, String> {
    let wrong = || {
        format!(
            "{} is no port and no range of ports; write 80 or 8000-8099",
            quoted(text)
        )
    };
    // `+80` is a number for Rust.
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-')
    {
        return Err(wrong());
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let (first, last) = (port(first)?, port(last)?);
    match 0 < first && first <= last {
        true => Ok(Ports { first, last }),
        false => Err(wrong()),
    }
}

impl Program {
    fn of(word: &Word) -> Result<Self, String> {
        let text = &word.text;
        if let Some((_, name)) = text.rsplit_once('/') {
            return Err(format!(
                "{} has a directory, but programs go by their file's name; write program {}",
                quoted(text),
                if name.is_empty() { "NAME" } else { name }
            ));
        }
        if word.stars_within {
            return Err(format!(
                "{} has a star before its end; write it last, as in python3*, or in quotes if it is of the name",
                quoted(text)
            ));
        }
        Ok(Self {
            name: text.clone(),
            open: word.star_behind,
        })
    }

    /// Its name in the file system, if it is one only.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        Some(&*self.name).filter(|_| !self.open)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.open { "*" } else { "" };
        match words::needs_quotes(&self.name) {
            true => write!(f, "\"{}\"{star}", self.name),
            false => write!(f, "{}{star}", self.name),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipnuma => "ipnuma",
            Self::Kernel => "kernel",
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listen => "listen",
            Self::Connect => "connect",
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.action)?;
        if let Some(program) = &self.program {
            write!(f, " program {program}")?;
        }
        if let Some(role) = self.role {
            write!(f, " {role}")?;
        }
        if let Some(network) = self.network {
            write!(f, " {network}")?;
        }
        match self.ports {
            Some(Ports { first, last }) if first == last => write!(f, " port {first}"),
            Some(Ports { first, last }) => write!(f, " port {first}-{last}"),
            None => Ok(()),
        }
    }
}

/// What is known of programs, by what this project's tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The executable's file name.
    pub program: &'static str,
    /// `seccomp` or `io_uring`.
    pub uses: &'static str,
    /// What follows from that, for its user.
    pub about: &'static str,
}

/// The shipped list.
pub const KNOWN: [Known; 2] = [
    Known {
        program: "sshd",
        uses: "seccomp",
        about: "it confines itself by seccomp, so its connections would leave the rings at once",
    },
    Known {
        program: "node",
        uses: "io_uring",
        about: "it asks for an io_uring and is told that there is none; then it uses epoll, which is accelerated",
    },
];

/// What is known of the program of that name.
pub fn known(name: &str) -> impl Iterator<Item = &'static Known> {
    KNOWN.iter().filter(move |known| known.program == name)
}

#[cfg(test)]
mod tests;
