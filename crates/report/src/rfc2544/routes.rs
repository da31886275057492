// SPDX-License-Identifier: Apache-2.0
//! Where the routes come from.

use fib::synth::Table;
use rack::Error;

/// Prefixes for the switch.
pub struct Routes {
    /// The prefixes.
    pub table: Table,
    /// What to call them.
    pub name: String,
}

/// Made-up IPv4 routes without `--routes`.
const COUNT: u32 = 1_000;
/// More don't fit the switch of this project's size.
const MOST: u32 = 1_300_000;
/// Shares of the families in a full table of about 2022.
const FULL_TABLE: (u64, u64) = (901_899, 160_147);

impl Routes {
    /// From `--routes`.
    pub fn read(routes: Option<&str>, seed: u64) -> Result<Self, Error> {
        let Some(routes) = routes else {
            return Ok(Self::made_up(COUNT, seed));
        };
        match routes.parse() {
            Ok(count) if (1..=MOST).contains(&count) => Ok(Self::made_up(count, seed)),
            Ok(count) => Err(Error::Config(format!(
                "--routes: {count} made-up routes are too few or too many; choose 1 to {MOST}"
            ))),
            Err(_) => Self::file(routes),
        }
    }

    fn made_up(v4: u32, seed: u64) -> Self {
        let v6 = (u64::from(v4) * FULL_TABLE.1).div_ceil(FULL_TABLE.0) as u32;
        Self {
            table: Table::synthetic(seed, v4, v6),
            name: format!("made up from seed {seed}"),
        }
    }

    fn file(path: &str) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::Config(format!(
                "--routes: cannot read {path}: {error}; crates/fib/tools/fetch-routes brings a real table"
            ))
        })?;
        let table = Table::parse(&text).map_err(|error| {
            // Each line is parsed by itself, so the first that fails alone is the one.
            let line = text.lines().position(|line| Table::parse(line).is_err());
            let line = line.map_or(String::new(), |line| format!(", line {}", line + 1));
            Error::Config(format!("--routes: {path}{line}: {error}"))
        })?;
        if table.v4.is_empty() && table.v6.is_empty() {
            return Err(Error::Config(format!(
                "--routes: {path} has no prefix; write one a line, such as 192.0.2.0/24"
            )));
        }
        Ok(Self {
            table,
            name: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_families() {
        let routes = Routes::read(Some("9018"), 1).expect("a number");
        assert_eq!((routes.table.v4.len(), routes.table.v6.len()), (9018, 1602));
        assert!(Routes::read(Some("0"), 1).is_err());
    }
}
