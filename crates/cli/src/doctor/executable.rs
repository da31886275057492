// SPDX-License-Identifier: Apache-2.0
//! What is started when a program is: through scripts, `env` and the loader to the executable, and what that one is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::launcher::{self, Launcher};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Architecture, File, Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef};

/// Interpreters that are scripts themselves, and `env` before others.
const DEPTH: usize = 6;
/// What exec with a search path gives a file to that begins as no executable does.
const SHELL: &str = "/bin/sh";
/// The loader takes both bits for other rights.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// What speaks against a program, and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub says: String,
    pub remedy: String,
}

fn fault<T>(says: String, remedy: &str) -> Result<T, Fault> {
    Err(Fault {
        says,
        remedy: remedy.to_owned(),
    })
}

/// The executable that runs in the end.
#[derive(Debug)]
pub struct Found {
    /// What was followed, the program first.
    pub steps: Vec<PathBuf>,
    /// Whether one of them is a script.
    pub script: bool,
    /// Whether something on the way takes the library's variable away.
    pub cleared_by: Option<String>,
    /// The program that the kernel runs, where that is the loader: it opens the last of `steps` itself.
    pub loader: Option<PathBuf>,
    /// Why the executable may be started but not looked at.
    pub unread: Option<std::io::Error>,
}

impl Found {
    /// The executable.
    pub fn last(&self) -> &Path {
        self.steps.last().map_or(Path::new(""), PathBuf::as_path)
    }

    /// What the kernel takes for the program, and the policy with it.
    pub fn runs(&self) -> &Path {
        self.loader.as_deref().unwrap_or_else(|| self.last())
    }
}

/// A letter of a name that comes from a file, for a terminal.
fn visible(letter: char) -> String {
    match letter.is_control() {
        true => letter.escape_default().collect(),
        false => letter.into(),
    }
}

/// A program's file, as exec with a search path finds it.
pub fn find(name: &OsStr) -> Result<PathBuf, Fault> {
    let shown: String = name.to_string_lossy().chars().map(visible).collect();
    let path = if name.as_bytes().contains(&b'/') {
        Some(PathBuf::from(name)).filter(|path| path.exists())
    } else {
        let places = std::env::var_os("PATH").unwrap_or_default();
        let runs = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        std::env::split_paths(&places)
            .map(|place| place.join(name))
            .find(runs)
    };
    let Some(path) = path else {
        return fault(
            format!("there is no program {shown}"),
            "install it, or give its path",
        );
    };
    let meta = path.metadata();
    if !meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0) {
        return fault(
            format!("{shown} is not executable"),
            "set its permission with chmod +x, or give another path",
        );
    }
    Ok(path)
}

/// Follows a program to the executable that runs in the end.
pub fn follow(program: &[OsString]) -> Result<Found, Fault> {
    let mut found = Found {
        steps: Vec::new(),
        script: false,
        cleared_by: None,
        loader: None,
        unread: None,
    };
    let mut words = program.to_vec();
    for _ in 0..DEPTH {
        let [name, arguments @ ..] = &words[..] else {
            break;
        };
        let path = find(name)?;
        let head = match head(&path) {
            Ok(head) => head,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                found.unread = Some(error);
                found.steps.push(path);
                return Ok(found);
            }
            Err(error) => {
                return fault(
                    format!("{} cannot be read ({error})", path.display()),
                    "ask its owner for the right to read it",
                );
            }
        };
        let next = if head.starts_with(b"#!") {
            found.script = true;
            let mut next = interpreter(&head);
            next.push(path.clone().into());
            Some(next)
        } else if is_text(&head) {
            found.script = true;
            Some(vec![SHELL.into(), path.clone().into()])
        } else {
            match Launcher::of(&path) {
                Some(Launcher::Env) => {
                    let behind = launcher::env(arguments);
                    if behind.clears {
                        let shown = words.iter().map(|word| word.to_string_lossy());
                        found.cleared_by = Some(shown.collect::<Vec<_>>().join(" "));
                    }
                    Some(behind.words).filter(|next| !next.is_empty())
                }
                Some(Launcher::Loader) => {
                    let next = launcher::loader(arguments);
                    if !next.is_empty() {
                        found.loader = Some(path.clone());
                    }
                    Some(next).filter(|next| !next.is_empty())
                }
                None => None,
            }
        };
        found.steps.push(path);
        match next {
            Some(next) => words = next,
            None => return Ok(found),
        }
    }
    fault(
        format!(
            "{} is a script of too many scripts",
            found
                .steps
                .first()
                .map_or(Path::new(""), PathBuf::as_path)
                .display()
        ),
        "give the program that interprets it in the end",
    )
}

/// Whether a file begins as a text that a shell could read: its first line has no byte that no text has.
fn is_text(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !head.is_empty() && !line.contains(&0) && std::str::from_utf8(line).is_ok()
}

/// The first bytes of a file.
fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut head = Vec::new();
    std::fs::File::open(path)?
        .take(256)
        .read_to_end(&mut head)?;
    Ok(head)
}

/// What a script's first line names, and its one argument.
fn interpreter(head: &[u8]) -> Vec<OsString> {
    let line = head[2..]
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    // As the kernel does: a carriage return is a letter of the name.
    let is_blank = |byte: &u8| [b' ', b'\t'].contains(byte);
    let line = trim(line, is_blank);
    let end = line.iter().position(is_blank);
    let (path, argument) = line.split_at(end.unwrap_or(line.len()));
    [path, trim(argument, is_blank)]
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}

fn trim(line: &[u8], is_blank: impl Fn(&u8) -> bool) -> &[u8] {
    let first = line.iter().position(|byte| !is_blank(byte));
    let last = line.iter().rposition(|byte| !is_blank(byte));
    match (first, last) {
        (Some(first), Some(last)) => &line[first..=last],
        _ => &[],
    }
}

/// Whether an executable can have a library of that architecture; then its loader.
pub fn loads(path: &Path, architecture: Architecture) -> Result<String, Fault> {
    let shown = path.display();
    // Of a large program only what is looked at is read.
    let data = match std::fs::File::open(path) {
        Ok(file) => ReadCache::new(file),
        Err(error) => {
            return fault(
                format!("{shown} cannot be read ({error})"),
                "ask its owner for the right to read it",
            );
        }
    };
    let Ok(file) = File::parse(&data) else {
        return fault(
            format!("{shown} is neither an ELF executable nor a script that begins with #!"),
            "give the program that is started in the end",
        );
    };
    if file.architecture() != architecture {
        return fault(
            format!(
                "{shown} is for {:?}, the socket library for {architecture:?}",
                file.architecture()
            ),
            "use the program's build for the library's processor",
        );
    }
    // Go calls the kernel itself, whether it has a loader or not.
    if [".go.buildinfo", ".note.go.buildid"]
        .iter()
        .any(|name| file.section_by_name(name).is_some())
    {
        return fault(
            format!("{shown} is written in Go, which calls the kernel without the C library"),
            "leave it to the kernel; its peers notice nothing",
        );
    }
    let loader = match &file {
        File::Elf32(elf) => loader(elf),
        File::Elf64(elf) => loader(elf),
        _ => None,
    };
    let Some(loader) = loader else {
        return fault(
            format!("{shown} is linked statically, so no library can be put before it"),
            "link it dynamically",
        );
    };
    let name = Path::new(&loader).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    if !name.starts_with("ld-linux") {
        let whose = match name.starts_with("ld-musl") {
            true => "musl",
            false => "another C library",
        };
        return fault(
            format!("{shown} is built for {whose} (loader {loader}), the socket library for glibc"),
            "use the program's build for glibc",
        );
    }
    if !Path::new(&loader).exists() {
        return fault(
            format!("{shown} wants the loader {loader}, which is not there"),
            "install the C library that it was built for",
        );
    }
    Ok(loader)
}

/// The loader that an executable names.
fn loader<'data, Header: FileHeader, Data: ReadRef<'data>>(
    elf: &ElfFile<'data, Header, Data>,
) -> Option<String> {
    let endian = elf.endian();
    elf.elf_program_headers().iter().find_map(|header| {
        let name = header.interpreter(endian, elf.data()).ok()??;
        Some(String::from_utf8_lossy(name).into_owned())
    })
}

/// Whether the loader ignores the library for an executable, because that gets other rights than its user's.
pub fn rights(path: &Path) -> Result<(), Fault> {
    let shown = path.display();
    let remedy = "start it as the user it becomes from a copy without these rights, or leave it to the kernel";
    let Ok(meta) = path.metadata() else {
        return Ok(());
    };
    let user = rustix::process::geteuid();
    if meta.mode() & SET_USER != 0 && meta.uid() != user.as_raw() {
        return fault(
            format!(
                "{shown} is set-user-ID to user {}, and the loader ignores LD_PRELOAD for such",
                meta.uid()
            ),
            remedy,
        );
    }
    if meta.mode() & SET_GROUP != 0 && meta.gid() != rustix::process::getegid().as_raw() {
        return fault(
            format!(
                "{shown} is set-group-ID to group {}, and the loader ignores LD_PRELOAD for such",
                meta.gid()
            ),
            remedy,
        );
    }
    let mut value = [0u8; 64];
    // Root has them anyhow.
    if !user.is_root() && rustix::fs::getxattr(path, "security.capability", &mut value).is_ok() {
        return fault(
            format!("{shown} has file capabilities, and the loader ignores LD_PRELOAD for such"),
            remedy,
        );
    }
    Ok(())
}

/// What a library's file says: its processor, and the protocol that it speaks with the daemon.
pub fn library(path: &Path) -> Result<(Architecture, u16), Fault> {
    let remedy = "install command and library from one release, or say with $IPNUMA_SOCKET_LIBRARY where it is";
    let none = |why: &str| {
        fault(
            format!("{} is not the socket library: {why}", path.display()),
            remedy,
        )
    };
    let data = match std::fs::File::open(path) {
        Ok(file) => ReadCache::new(file),
        Err(error) => return none(&format!("it cannot be read ({error})")),
    };
    let Ok(file) = File::parse(&data) else {
        return none("it is no ELF file");
    };
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok("ipnuma_socket_protocol"));
    let version = symbol.and_then(|symbol| {
        file.segments()
            .find_map(|segment| segment.data_range(symbol.address(), 2).ok().flatten())
    });
    match version.and_then(|bytes| <[u8; 2]>::try_from(bytes).ok()) {
        Some(bytes) => Ok((file.architecture(), u16::from_le_bytes(bytes))),
        None => none("it does not say which protocol it speaks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter_and_one_argument() {
        assert_eq!(interpreter(b"#! /bin/sh -e -u \nx"), ["/bin/sh", "-e -u"]);
        assert_eq!(interpreter(b"#!/bin/sh\n"), ["/bin/sh"]);
        assert_eq!(interpreter(b"#!\t/bin/sh\r\n"), ["/bin/sh\r"]);
        assert_eq!(interpreter(b"#!  \n"), [""; 0]);
        assert!(interpreter(b"#!").is_empty());
    }
}
