// SPDX-License-Identifier: Apache-2.0
//! What a measurement gave.

use serde::{Deserialize, Serialize};

use crate::{Command, Transport};

/// Times of commands, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Of the commands one by one; none if only all together were timed.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub each: Option<Each>,
}

/// Of commands that were timed one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Each {
    /// Least.
    pub min: u64,
    /// Half are not greater.
    pub p50: u64,
    /// 99 of 100 are not greater.
    pub p99: u64,
    /// Greatest.
    pub max: u64,
}

impl Summary {
    /// Of at least one time; zeros of none.
    pub fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let rank = |hundredths: usize| {
            let index = (times.len() * hundredths).div_ceil(100).max(1) - 1;
            times.get(index).copied().unwrap_or(0)
        };
        let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
        Self {
            mean: sum as f64 / times.len().max(1) as f64,
            each: Some(Each {
                min: rank(0),
                p50: rank(50),
                p99: rank(99),
                max: rank(100),
            }),
        }
    }

    /// Of all commands of a thread together.
    pub fn together(elapsed_ns: u64, commands: u64) -> Self {
        Self {
            mean: elapsed_ns as f64 / commands.max(1) as f64,
            each: None,
        }
    }
}

/// What a measurement gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// What was timed.
    pub command: Command,
    /// How it travelled.
    pub transport: Transport,
    /// Name or address of the server.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// Clients at once.
    pub threads: usize,
    /// Bytes of a value.
    pub length: usize,
    /// Commands that were timed.
    pub count: u64,
    /// Of one command, from before it is sent to after its answer was read.
    pub ns: Summary,
    /// From the first command to the last answer, in nanoseconds.
    pub elapsed_ns: u64,
    /// Datagrams that had no answer and were sent again.
    pub resent: u64,
}

impl Report {
    /// Commands a second, of all threads together.
    pub fn per_second(&self) -> f64 {
        self.count as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// As a person reads it, three lines.
    pub fn text(&self) -> String {
        let Self { ns, .. } = self;
        let threads = if self.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        let resent = match self.resent {
            0 => String::new(),
            count => format!(", {count} datagrams sent again"),
        };
        let each = ns.each.map_or(String::new(), |each| {
            let Each { min, p50, p99, max } = each;
            format!("  p50 {p50}  p99 {p99}  min {min}  max {max}")
        });
        format!(
            "{} x {} of {} bytes by {} to {}:{}, {} {threads}; every answer as it must be\n\
             ns per command: mean {:.0}{each}\n\
             {:.0} commands/s in {:.6} s{resent}\n",
            self.count,
            self.command.name().to_uppercase(),
            self.length,
            self.transport.name(),
            self.address,
            self.port,
            self.threads,
            ns.mean,
            self.per_second(),
            self.elapsed_ns as f64 / 1e9,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let of = Summary::of((1..=200).rev().collect());
        assert!((of.mean - 100.5).abs() < 1e-9);
        let of = of.each.expect("one by one");
        assert_eq!((of.min, of.p50, of.p99, of.max), (1, 100, 198, 200));
        let one = Summary::of(vec![7]).each.expect("one by one");
        assert_eq!((one.min, one.p50, one.p99, one.max), (7, 7, 7, 7));
    }

    #[test]
    fn all_together_have_a_mean_only() {
        let both = [Summary::together(1000, 4), Summary::of(vec![1, 2])];
        assert!((both[0].mean - 250.0).abs() < 1e-9);
        assert!(both[0].each.is_none());
    }
}
