// SPDX-License-Identifier: Apache-2.0
//! Directories of runs go with a process that a signal ends, while the run still writes into them.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};

use rack::scratch::{Scratch, remove_all};

/// Makes directories with a file each until it can't, as a run does that starts its guests.
fn fill(path: &Path, begun: &Sender<()>) {
    for number in 0.. {
        let guest = path.join(number.to_string());
        let made = std::fs::create_dir(&guest);
        // The first ones may be gone already; the directory itself then is, too.
        if made.is_err() && !path.exists() {
            return;
        }
        let _ = std::fs::write(guest.join("console.log"), "");
        let _ = begun.send(());
    }
}

#[test]
fn nothing_is_left_and_nothing_comes_after() {
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: nothing else runs in this process.
    unsafe { std::env::set_var("TMPDIR", folder.path()) };
    let scratch = Scratch::new(None).expect("a directory of its own");
    let path = scratch.path.clone();
    let (begun, begins) = channel();
    let run = std::thread::spawn(move || fill(&path, &begun));
    for _ in 0..100 {
        begins.recv().expect("the run has begun");
    }
    remove_all();
    let left = std::fs::read_dir(folder.path()).expect("it is there");
    assert_eq!(left.count(), 0, "a directory is left");
    run.join().expect("it ends without its directory");
    assert!(Scratch::new(None).is_err(), "one more began");
}
