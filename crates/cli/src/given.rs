// SPDX-License-Identifier: Apache-2.0
//! What options give, looked at before a run that may take long: places that are written to afterwards, and lists.

use std::path::{Path, PathBuf};

use rack::Error;
use rustix::fs::Access;

fn wrong(option: &str, path: &Path, why: &str, remedy: &str) -> Error {
    Error::Config(format!("{option}: {} {why}; {remedy}", path.display()))
}

/// Whether one can write there: only asked, for what is opened is also made or emptied.
fn allows(path: &Path, access: Access) -> Result<(), std::io::Error> {
    Ok(rustix::fs::access(path, access)?)
}

/// Whether a file can be made that is not there: it is, for a moment. In some directories, /proc for one, all are allowed to
/// write, and nobody can.
fn makes(path: &Path) -> Result<(), std::io::Error> {
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?;
    std::fs::remove_file(path)
}

/// The directory that a file is in.
fn around(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// That a file can be written once the run is done.
pub fn file(option: &str, path: &Path) -> Result<(), Error> {
    let remedy = "write the path of a file that can be made";
    if path.is_dir() {
        return Err(wrong(option, path, "is a directory", remedy));
    }
    let parent = around(path);
    if !parent.is_dir() {
        let why = "is in no directory that there is";
        return Err(wrong(option, path, why, remedy));
    }
    let written = match path.exists() {
        true => allows(path, Access::WRITE_OK),
        false => makes(path),
    };
    written.map_err(|error| wrong(option, path, &format!("can't be written: {error}"), remedy))
}

/// A file by which way it may be named, the directories on its way without links.
fn true_name(path: &Path) -> PathBuf {
    let parent = around(path);
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    parent.join(path.file_name().unwrap_or_default())
}

/// The files of several options, which must be different ones.
pub fn files(given: &[(&str, Option<&PathBuf>)]) -> Result<(), Error> {
    let given: Vec<_> = given
        .iter()
        .filter_map(|(option, path)| Some((*option, (*path)?)))
        .collect();
    for (at, (option, path)) in given.iter().enumerate() {
        file(option, path)?;
        // What goes to a device is kept by nobody.
        let kept = path.is_file() || !path.exists();
        let same = |other: &Path| kept && true_name(other) == true_name(path);
        if let Some((other, _)) = given[..at].iter().find(|(_, other)| same(other)) {
            let why = format!("is the file of {other}, too");
            return Err(wrong(option, path, &why, "write another for one of them"));
        }
    }
    Ok(())
}

/// That files can be made in a directory, which may have to be made itself.
pub fn directory(option: &str, path: Option<&PathBuf>) -> Result<(), Error> {
    let Some(path) = path else {
        return Ok(());
    };
    let remedy = "write the path of a directory that can be made or is there";
    if path.as_os_str().is_empty() {
        return Err(Error::Config(format!("{option}: it is empty; {remedy}")));
    }
    let there = path
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(Path::new("."));
    if !there.is_dir() {
        let why = format!("can't be made: {} is no directory", there.display());
        return Err(wrong(option, path, &why, remedy));
    }
    allows(there, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| wrong(option, path, &format!("can't be written: {error}"), remedy))
}

/// That a list has each value once: whatever is in it twice would be run twice.
pub fn distinct<T: PartialEq>(option: &str, values: &[T]) -> Result<(), Error> {
    let twice = (1..values.len()).find(|at| values[..*at].contains(&values[*at]));
    match twice {
        Some(at) => Err(Error::Config(format!(
            "{option}: value {} of the list is there before; leave it out",
            at + 1
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_looked_at_and_not_made() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("new");
        assert!(file("--x", &path).is_ok() && !path.exists());
        assert!(directory("--x", Some(&path.join("a/b"))).is_ok() && !path.exists());
        assert!(file("--x", &path.join("a")).is_err());
        assert!(file("--x", scratch.path()).is_err());
        assert!(file("--x", Path::new("/proc/new")).is_err());
        std::fs::write(&path, "old").expect("it can be written");
        assert!(file("--x", &path).is_ok());
        assert!(directory("--x", Some(&path.join("a"))).is_err());
        assert_eq!(std::fs::read(&path).expect("it is there"), b"old");
        assert!(file("--x", Path::new("relative")).is_ok());
        let twice = |one: &str, other: &str| {
            let (one, other) = (PathBuf::from(one), PathBuf::from(other));
            files(&[("--x", Some(&one)), ("--y", None), ("--z", Some(&other))])
        };
        assert!(twice("a", "b").is_ok() && twice("/dev/null", "/dev/null").is_ok());
        assert!(twice("a", "a").is_err() && twice("a", "./a").is_err());
    }
}
