// SPDX-License-Identifier: Apache-2.0
//! Text output: tables that fit 100 columns.

use std::io::{ErrorKind, Write};

use rack::{Error, Picoseconds};

/// Width of everything that is printed.
pub const WIDTH: usize = 100;

/// Prints; a reader that went away is no error.
pub fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output {
            path: "the standard output".to_owned(),
            reason: error.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Nanoseconds with one digit.
pub fn ns(time: Picoseconds) -> String {
    format!("{:.1}", time.as_ns())
}

/// Breaks a text into indented lines of at most [`WIDTH`] columns.
pub fn wrap(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = " ".repeat(indent);
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    lines + line.trim_end() + "\n"
}

/// Mean, least, median, 99th percentile and greatest of some times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Least.
    pub min: f64,
    /// Half are not greater.
    pub median: f64,
    /// 99 of 100 are not greater.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
}

impl Summary {
    /// Of at least one time.
    pub fn of(times: &[Picoseconds]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let rank = |hundredths: usize| {
            let index = (sorted.len() * hundredths).div_ceil(100).max(1) - 1;
            sorted.get(index).map_or(0.0, |time| time.as_ns())
        };
        let sum: u64 = sorted.iter().map(|time| time.0).sum();
        Self {
            mean: Picoseconds(sum).as_ns() / sorted.len().max(1) as f64,
            min: rank(0),
            median: rank(50),
            p99: rank(99),
            max: rank(100),
        }
    }

    /// One row under [`Summary::HEAD`].
    pub fn row(&self, name: &str) -> String {
        let Self {
            mean,
            min,
            median,
            p99,
            max,
        } = self;
        format!("  {name:<22}{mean:>11.1}{min:>11.1}{median:>11.1}{p99:>11.1}{max:>11.1}\n")
    }

    /// Heading of the columns.
    pub fn head(title: &str) -> String {
        format!(
            "{title:<24}{:>11}{:>11}{:>11}{:>11}{:>11}   ns\n",
            "mean", "min", "median", "p99", "max"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let times: Vec<_> = (1..=200).rev().map(Picoseconds::from_ns).collect();
        let summary = Summary::of(&times);
        assert_eq!(
            summary,
            Summary {
                mean: 100.5,
                min: 1.0,
                median: 100.0,
                p99: 198.0,
                max: 200.0
            }
        );
        let one = Summary::of(&[Picoseconds::from_ns(7)]);
        assert_eq!((one.min, one.p99, one.max), (7.0, 7.0, 7.0));
    }

    #[test]
    fn wrapping() {
        let wrapped = wrap(&"word ".repeat(60), 4);
        assert!(wrapped.lines().all(|line| line.len() <= WIDTH));
        assert!(wrapped.lines().all(|line| line.starts_with("    word")));
    }
}
