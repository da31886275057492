// SPDX-License-Identifier: Apache-2.0
//! Text for people: tables that fit 100 columns, numbers with as many digits as they deserve.

use rack::Picoseconds;

/// Width of everything that is printed.
pub const WIDTH: usize = 100;

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

/// A number with as many digits as it deserves, thousands apart.
pub fn thousands(value: f64) -> String {
    let digits = if value.abs() >= 100.0 || (value - value.round()).abs() < 1e-9 {
        0
    } else if value.abs() >= 10.0 {
        2
    } else {
        3
    };
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), ""), |parts| parts);
    let rest = rest.trim_end_matches('0');
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    let sign = if value < 0.0 && !text.trim_matches(['0', '.']).is_empty() {
        "\u{2212}"
    } else {
        ""
    };
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{sign}{out}{dot}{rest}")
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

    /// One row under [`Summary::head`].
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
    fn numbers() {
        for (value, text) in [
            (50546.0, "50,546"),
            (47890550.0, "47,890,550"),
            (0.843, "0.843"),
            (13.4, "13.4"),
            (976.4, "976"),
            (0.0, "0"),
            (-3.25, "\u{2212}3.25"),
            (-0.0001, "0"),
        ] {
            assert_eq!(thousands(value), text);
        }
    }

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
