// SPDX-License-Identifier: Apache-2.0
//! Directories of runs of guests, which go with the run that made them, also where a signal ends it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::Error;

/// Those that this process made and has not removed; none once it ends.
static MADE: Mutex<Option<Vec<PathBuf>>> = Mutex::new(Some(Vec::new()));

/// How often it is tried to remove a directory in which a guest may still make files, a millisecond apart.
const TRIES: u32 = 100;

/// Removes the directories of the runs of this process, but for those that a user named. Whoever is about to end the
/// process by a signal calls it: no destructor runs then. Runs go on meanwhile; from now on none can begin.
pub fn remove_all() {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    for path in made.take().into_iter().flatten() {
        // By its new name nobody finds it who would make one more file in it.
        let ended = path.with_extension("ended");
        let path = std::fs::rename(&path, &ended).map_or(path, |()| ended);
        // There is nobody to tell.
        for _ in 0..TRIES {
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => break,
            }
        }
    }
}

fn forget(path: &Path) {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = made.as_mut() {
        made.retain(|one| one != path);
    }
}

/// The directory of a run, removed at its end if it is not the user's.
pub struct Scratch {
    /// Where it is.
    pub path: PathBuf,
    remove: bool,
}

impl Scratch {
    /// Leaves the directory where it is.
    pub fn keep(mut self) {
        self.remove = false;
        forget(&self.path);
    }

    /// Makes a directory, or takes the one that is given.
    pub fn new(given: Option<&Path>) -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = given.map_or_else(
            || {
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                let name = format!("ipnuma-rack-{}-{number}", std::process::id());
                std::env::temp_dir().join(name)
            },
            Path::to_owned,
        );
        let failed = |error: std::io::Error| Error::Output {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        // Held until it is noted down: a signal between would leave it.
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(noted) = made.as_mut() else {
            return Err(failed(ErrorKind::Interrupted.into()));
        };
        std::fs::create_dir_all(&path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        if given.is_none() {
            noted.push(path.clone());
        }
        drop(made);
        Ok(Self {
            path,
            remove: given.is_none(),
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.remove {
            forget(&self.path);
            // Nothing depends on it, and there is nobody to tell.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
