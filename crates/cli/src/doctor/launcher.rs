// SPDX-License-Identifier: Apache-2.0
//! Programs that start others: `env`, and the loader by its own name.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable by which the library comes.
const VARIABLE: &[u8] = b"LD_PRELOAD";
/// A part of the library's name, by which the variable is known to name it.
const LIBRARY: &[u8] = b"libipnuma_socket";

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    Env,
    Loader,
}

impl Launcher {
    /// By a file's own name, or by that of what it is a link to.
    pub fn of(path: &Path) -> Option<Self> {
        let own = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let by_name = |path: &Path| {
            let name = path.file_name()?.as_bytes();
            match name {
                b"env" => Some(Self::Env),
                b"ld.so" => Some(Self::Loader),
                _ if name.starts_with(b"ld-linux") => Some(Self::Loader),
                _ => None,
            }
        };
        by_name(path).or_else(|| by_name(&own))
    }
}

/// What `env` starts; nothing if `words` is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Behind {
    pub words: Vec<OsString>,
    /// Whether without the library's variable.
    pub clears: bool,
}

/// Whether a long option has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    No,
    /// Behind `=` alone.
    Maybe,
    Yes,
}

/// The long options of GNU's `env`, by the letter of the short one.
const LONG: [(&[u8], u8, Value); 13] = [
    (b"argv0", b'a', Value::Yes),
    (b"block-signal", b' ', Value::Maybe),
    (b"chdir", b'C', Value::Yes),
    (b"debug", b'v', Value::No),
    (b"default-signal", b' ', Value::Maybe),
    (b"help", b'h', Value::No),
    (b"ignore-environment", b'i', Value::No),
    (b"ignore-signal", b' ', Value::Maybe),
    (b"list-signal-handling", b' ', Value::No),
    (b"null", b'0', Value::No),
    (b"split-string", b'S', Value::Yes),
    (b"unset", b'u', Value::Yes),
    (b"version", b'h', Value::No),
];

/// What `env` starts with these arguments, options joined or shortened as its own parser takes them.
pub fn env(arguments: &[OsString]) -> Behind {
    let mut left: VecDeque<OsString> = arguments.iter().cloned().collect();
    let mut clears = false;
    let mut directory = None;
    while let Some(word) = left
        .front()
        .filter(|word| word.as_bytes().starts_with(b"-"))
    {
        let word = word.as_bytes().to_vec();
        left.pop_front();
        if word == b"--" {
            break;
        }
        if word == b"-" {
            clears = true;
            continue;
        }
        for (option, value) in options(&word, &mut left) {
            match option {
                b'i' => clears = true,
                b'u' => clears |= value == VARIABLE,
                b'C' => directory = Some(PathBuf::from(OsString::from_vec(value))),
                b'S' => split(&value)
                    .into_iter()
                    .rev()
                    .for_each(|word| left.push_front(word)),
                // It says something about itself, and ends.
                b'h' => return Behind::default(),
                _ => {}
            }
        }
    }
    while let Some(word) = left.front().filter(|word| word.as_bytes().contains(&b'=')) {
        if let Some(value) = word.as_bytes().strip_prefix(b"LD_PRELOAD=") {
            clears = !value.windows(LIBRARY.len()).any(|part| part == LIBRARY);
        }
        left.pop_front();
    }
    if let (Some(directory), Some(program)) = (directory, left.front_mut())
        && program.as_bytes().contains(&b'/')
    {
        *program = directory.join(&*program).into();
    }
    Behind {
        words: left.into(),
        clears,
    }
}

/// The options of a word, by letter, each with its value; that of the last one may be the next word.
fn options(word: &[u8], left: &mut VecDeque<OsString>) -> Vec<(u8, Vec<u8>)> {
    let mut next = || left.pop_front().map(OsString::into_vec).unwrap_or_default();
    if let Some(long) = word.strip_prefix(b"--") {
        let (name, value) = match long.iter().position(|byte| *byte == b'=') {
            Some(at) => (&long[..at], Some(long[at + 1..].to_vec())),
            None => (long, None),
        };
        let mut found = LONG.iter().filter(|(whole, ..)| whole.starts_with(name));
        let exact = LONG.iter().find(|(whole, ..)| *whole == name);
        let Some((_, letter, takes)) = exact.or_else(|| found.next()) else {
            return Vec::new();
        };
        let value = match takes {
            Value::Yes => value.unwrap_or_else(next),
            Value::No | Value::Maybe => Vec::new(),
        };
        return vec![(*letter, value)];
    }
    let mut options = Vec::new();
    let mut letters = &word[1..];
    while let [letter, rest @ ..] = letters {
        if b"uCSa".contains(letter) {
            let value = match rest {
                [] => next(),
                _ => rest.to_vec(),
            };
            options.push((*letter, value));
            break;
        }
        options.push((*letter, Vec::new()));
        letters = rest;
    }
    options
}

/// The words of a string as `env -S` takes it apart: blanks, quotes, `\\` before a letter, `#` before a comment.
fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut letters = text.iter().copied();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (b'\\', Some(b'\'')) => {
                let word = word.get_or_insert_default();
                match letters.next() {
                    Some(escaped @ (b'\\' | b'\'')) => word.push(escaped),
                    other => word.extend([Some(b'\\'), other].into_iter().flatten()),
                }
            }
            (b'\\', _) => match letters.next() {
                Some(b'c') => break,
                Some(b'_') if quote.is_none() => words.extend(word.take()),
                escaped => word.get_or_insert_default().extend(escaped.map(plain)),
            },
            (b'\'' | b'"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, Some(end)) if letter == end => quote = None,
            (b'#', None) if word.is_none() => break,
            (_, None) if letter.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

/// The letter that stands behind a backslash.
const fn plain(letter: u8) -> u8 {
    match letter {
        b'f' => 0x0C,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0B,
        b'_' => b' ',
        other => other,
    }
}

/// What the loader of glibc starts with these arguments; nothing if it only says something.
pub fn loader(arguments: &[OsString]) -> Vec<OsString> {
    const WITH_VALUE: [&[u8]; 7] = [
        b"--argv0",
        b"--audit",
        b"--glibc-hwcaps-mask",
        b"--glibc-hwcaps-prepend",
        b"--inhibit-rpath",
        b"--library-path",
        b"--preload",
    ];
    let mut left = arguments;
    loop {
        let [word, rest @ ..] = left else {
            return Vec::new();
        };
        left = match word.as_bytes() {
            b"--inhibit-cache" => rest,
            option if WITH_VALUE.contains(&option) => rest.get(1..).unwrap_or_default(),
            option if option.starts_with(b"--") => return Vec::new(),
            // The loader does not search for it.
            name if !name.contains(&b'/') => {
                let mut here = OsString::from("./");
                here.push(OsStr::from_bytes(name));
                return std::iter::once(here).chain(rest.iter().cloned()).collect();
            }
            _ => return left.to_vec(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ')
            .filter(|word| !word.is_empty())
            .map(OsString::from)
            .collect()
    }

    #[test]
    fn env_is_seen_through() {
        for (arguments, next, clears) in [
            ("python3 -u x", "python3 -u x", false),
            ("-i A=1 python3", "python3", true),
            ("- python3", "python3", true),
            ("-u LD_PRELOAD x", "x", true),
            ("-u PATH x", "x", false),
            ("-uLD_PRELOAD --unset=B x", "x", true),
            ("-C /tmp LD_PRELOAD= x", "x", true),
            ("-i LD_PRELOAD=/lib/libipnuma_socket.so x", "x", false),
            ("A=1", "", false),
            ("--ignore-env x", "x", true),
            ("--ig x", "x", true),
            ("--uns LD_PRELOAD x", "x", true),
            ("--unset=LD_PRELOAD -v x -i", "x -i", true),
            ("-vi x", "x", true),
            ("-viuPATH x", "x", true),
            ("-0vu LD_PRELOAD x", "x", true),
            ("--default-signal=PIPE --block-signal x", "x", false),
            ("--argv0 name -a other x", "x", false),
            ("-i -- A=1 x", "x", true),
            ("-- -i", "-i", false),
            ("--version x", "", false),
            ("-C /usr bin/x", "/usr/bin/x", false),
            ("--chdir=/usr x", "x", false),
            ("--nosuch x", "x", false),
        ] {
            let behind = Behind {
                words: words(next),
                clears,
            };
            assert_eq!(env(&words(arguments)), behind, "{arguments}");
        }
    }

    #[test]
    fn a_string_is_split_as_env_does() {
        for (text, clears, next) in [
            ("-S -i python3 -u", true, &["python3", "-u", "script"][..]),
            ("-S'-i' python3", true, &["python3", "script"]),
            ("-vS\"-u\" 'LD_PRELOAD' x", true, &["x", "script"]),
            ("-Sx 'a b' \"c\\_d\"", false, &["x", "a b", "c d", "script"]),
            ("-Sx\\_y # no more", false, &["x", "y", "script"]),
            ("-Sx a#b '#' \\c -z", false, &["x", "a#b", "#", "script"]),
            ("-Sx 'it\\'s' ''", false, &["x", "it's", "", "script"]),
        ] {
            let behind = env(&[OsString::from(text), "script".into()]);
            let next: Vec<_> = next.iter().map(OsString::from).collect();
            assert_eq!(
                behind,
                Behind {
                    words: next,
                    clears
                },
                "{text}"
            );
        }
    }

    #[test]
    fn the_loader_is_seen_through() {
        for (arguments, next) in [
            ("/bin/true x", "/bin/true x"),
            ("--library-path /lib --argv0 n /bin/true -u", "/bin/true -u"),
            ("--inhibit-cache true", "./true"),
            ("--list /bin/true", ""),
            ("--preload", ""),
            ("", ""),
        ] {
            assert_eq!(loader(&words(arguments)), words(next), "{arguments}");
        }
    }
}
