// SPDX-License-Identifier: Apache-2.0
//! What other machines' daemons must not say, in the daemon's log. They could say it very often, so not each time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// At most one line in so much time.
const PAUSE: Duration = Duration::from_secs(1);

/// Logs refusals, of all threads that have a clone.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<Said>>);

/// What was logged, and what was not.
#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    /// Since then, without a line.
    silent: u64,
}

impl Refusals {
    /// Logs a sentence, unless there was one just now.
    pub fn say(&self, why: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = said.line(why, Instant::now()) {
            crate::log(&line);
        }
    }
}

impl Said {
    fn line(&mut self, why: &str, now: Instant) -> Option<String> {
        if self
            .last
            .is_some_and(|last| now.duration_since(last) < PAUSE)
        {
            self.silent += 1;
            return None;
        }
        self.last = Some(now);
        Some(match std::mem::take(&mut self.silent) {
            0 => why.to_owned(),
            silent => format!("{why} (and {silent} more before)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_a_line_a_second() {
        let mut refusals = Said::default();
        let begin = Instant::now();
        let mut lines = Vec::new();
        for ms in 0..2500 {
            lines.extend(refusals.line("no", begin + Duration::from_millis(ms)));
        }
        let more = "no (and 999 more before)";
        assert_eq!(lines, ["no", more, more]);
    }
}
