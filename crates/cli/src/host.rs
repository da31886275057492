// SPDX-License-Identifier: Apache-2.0
//! What the commands about this machine's daemon have in common.

use std::path::PathBuf;
use std::time::Duration;

use ipc::client::{self, Client};
use ipc::protocol::{Reply, Request};

/// What ends such a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Of the daemon.
    #[error(transparent)]
    Daemon(#[from] ::daemon::Error),
    /// Of the connection with it.
    #[error(transparent)]
    Library(#[from] ipc::Error),
    /// Of the output.
    #[error(transparent)]
    Output(#[from] rack::Error),
    /// Of what the user has said.
    #[error("{0}")]
    Usage(String),
    /// Of this machine.
    #[error("{0}")]
    Machine(String),
}

impl Error {
    /// Whether the user's input is at fault.
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Usage(_) | Self::Daemon(::daemon::Error::Config { .. })
        )
    }
}

/// Which daemon.
#[derive(Clone, Debug, clap::Args)]
pub struct Where {
    /// Socket of the daemon [default: $IPNUMA_DAEMON, or the user's own]
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
}

impl Where {
    /// Its socket.
    pub fn path(&self) -> PathBuf {
        self.daemon.clone().unwrap_or_else(client::default_path)
    }

    /// Says whether it was given.
    pub const fn is_given(&self) -> bool {
        self.daemon.is_some()
    }

    /// A connection with it.
    pub fn connect(&self) -> Result<Client, Error> {
        Ok(Client::connect(&self.path(), "ipnuma")?)
    }
}

/// Asks for a list piece by piece. `take` gets the items out of an answer; `number` is an item's.
pub fn list<T>(
    client: &Client,
    ask: impl Fn(u64) -> Request,
    mut take: impl FnMut(Reply) -> Option<Vec<T>>,
    number: impl Fn(&T) -> u64,
) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    loop {
        let (reply, _) = client.request(&ask(all.last().map_or(0, &number)))?;
        let Some(more) = take(reply) else {
            return Err(Error::Machine(
                "the daemon's answer is no list; install command and daemon from one release"
                    .to_owned(),
            ));
        };
        if more.is_empty() {
            return Ok(all);
        }
        all.extend(more);
    }
}

/// Columns of a table, each as wide as its widest cell; numbers to the right.
pub fn columns(heads: &[&str], right: &[bool], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([heads[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).zip(right);
        let padded: Vec<String> = cells
            .map(|((cell, &width), &right)| match right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            })
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    line(&heads) + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return match unit {
                "B" => format!("{count} B"),
                unit => format!("{value:.1} {unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A time for people.
pub fn age(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 << 40), "5.0 TiB");
        assert_eq!(age(Duration::from_millis(999)), "999 ms");
        assert_eq!(age(Duration::from_secs(119)), "119 s");
        assert_eq!(age(Duration::from_secs(7199)), "119 min");
        assert_eq!(age(Duration::from_secs(7200)), "2 h");
    }

    #[test]
    fn columns_are_as_wide_as_needed() {
        let rows = [
            vec!["a".to_owned(), "10".to_owned()],
            vec!["bcd".to_owned(), "9".to_owned()],
        ];
        let table = columns(&["name", "n"], &[false, true], &rows);
        assert_eq!(table, "name   n\na     10\nbcd    9\n");
    }
}
