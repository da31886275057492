// SPDX-License-Identifier: Apache-2.0
//! A line on standard error that says what runs, which step of how many it is, and how long it has been.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a terminal's line says how long it has been.
const TICK: Duration = Duration::from_secs(1);
/// A longer line could wrap, and then not be overwritten.
const WIDTH: usize = 79;
/// Returns to the beginning of the line and empties it.
const EMPTY: &str = "\r\x1b[K";

/// Says what runs. On a terminal it is one line that is overwritten; elsewhere, if it is wanted, a line for each step.
pub struct Progress {
    wanted: bool,
    terminal: bool,
    begin: Instant,
    /// The thread that keeps a terminal's line; it ends when the sender is gone.
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
}

fn line(number: usize, of: usize, what: &str, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let line = format!("[{number}/{of}, {minutes}:{seconds:02}] {what}");
    line.chars().take(WIDTH).collect()
}

/// Writes to standard error; where nobody reads it, nothing is lost.
fn write(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Progress {
    /// On a terminal always, else if it is wanted.
    pub fn new(wanted: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            wanted: wanted || terminal,
            terminal,
            begin: Instant::now(),
            keeper: None,
        }
    }

    /// Something begins: the `number`th step of `of`.
    pub fn step(&mut self, number: usize, of: usize, what: &str) {
        self.clear();
        if !self.wanted {
            return;
        }
        if !self.terminal {
            write(&(line(number, of, what, self.begin.elapsed()) + "\n"));
            return;
        }
        let (keep, kept) = mpsc::channel::<()>();
        let (begin, what) = (self.begin, what.to_owned());
        let keeper = std::thread::spawn(move || {
            loop {
                let now = line(number, of, &what, begin.elapsed());
                write(&format!("{EMPTY}{now}"));
                if kept.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                    write(EMPTY);
                    return;
                }
            }
        });
        self.keeper = Some((keep, keeper));
    }

    /// Takes the line away, so that something else can be printed.
    pub fn clear(&mut self) {
        if let Some((keep, keeper)) = self.keeper.take() {
            drop(keep);
            // If the thread had panicked there would be no line to take away.
            let _ = keeper.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_runs_which_step_it_is_and_how_long_it_has_been() {
        let found = line(3, 31, "Table 3.4: memcpy", Duration::from_secs(125));
        assert_eq!(found, "[3/31, 2:05] Table 3.4: memcpy");
        let long = line(1, 2, &"x".repeat(200), Duration::ZERO);
        assert_eq!(long.chars().count(), WIDTH);
    }
}
