// SPDX-License-Identifier: Apache-2.0
//! `ipnuma mcb`: times memcached's commands, over whatever sockets it is started with.

use std::process::ExitCode;
use std::time::Duration;

use ::mcb::{Command, Error, Job, Transport};

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each thread sends one command, waits for the answer, compares every byte, and goes on. A get reads what was stored
before measuring; an add takes a new key each time, which is deleted before measuring; what a set or an add stored is
read back afterwards. Only the commands themselves are timed. Exit status: 0, 1 if an answer is wrong or does not come,
2 if an option is wrong.

  memcached -U 11211 &
  ipnuma mcb -c get -a 127.0.0.1 -n 10000 -l 16 -T udp")]
pub struct Arguments {
    /// What is timed
    #[arg(short, long, default_value = "get")]
    command: Command,
    /// Name or address of the server
    #[arg(short, long, default_value = "127.0.0.1")]
    address: String,
    /// Its port
    #[arg(short, long, default_value_t = 11211)]
    port: u16,
    /// Clients at once, each with a socket of its own
    #[arg(short, long, default_value_t = 1)]
    threads: usize,
    /// Commands that are timed, of all threads together
    #[arg(short = 'n', long, default_value_t = 10_000)]
    count: u64,
    /// Bytes of a value
    #[arg(short, long, default_value_t = 16)]
    length: usize,
    /// How commands travel
    #[arg(short = 'T', long, default_value = "udp", ignore_case = true)]
    transport: Transport,
    /// Commands of each thread before measuring
    #[arg(long, default_value_t = 0)]
    warmup: u64,
    /// Keys of each thread, used in turn by set and get
    #[arg(long, default_value_t = 16)]
    keys: u64,
    /// How every key begins
    #[arg(long, default_value = "mcb")]
    prefix: String,
    /// How long to wait for an answer; 0: for ever
    #[arg(long, default_value_t = 1000)]
    timeout_ms: u64,
    /// How often a datagram without an answer is sent again
    #[arg(long, default_value_t = 0)]
    retries: u32,
    /// The server has none of the keys: add without deleting before
    #[arg(long)]
    fresh: bool,
    /// Read the clock only before the first command and after the last
    #[arg(long)]
    total: bool,
    /// When the commands begin, once all is ready: seconds since 1970, as of date +%s
    #[arg(long, value_name = "SECONDS")]
    at: Option<u32>,
    /// Print JSON, one line
    #[arg(long)]
    json: bool,
}

/// What ends the command.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Failure {
    /// The measurement.
    Measured(#[from] Error),
    /// Its output.
    Output(#[from] rack::Error),
}

impl Failure {
    /// Whether the user's input is at fault.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Measured(error) => error.is_usage(),
            Self::Output(error) => error.is_usage(),
        }
    }
}

impl Arguments {
    fn job(&self) -> Job {
        Job {
            command: self.command,
            address: self.address.clone(),
            port: self.port,
            threads: self.threads,
            count: self.count,
            warmup: self.warmup,
            length: self.length,
            transport: self.transport,
            keys: self.keys,
            prefix: self.prefix.clone(),
            timeout: Duration::from_millis(self.timeout_ms),
            retries: self.retries,
            fresh: self.fresh,
            total: self.total,
            at: self.at.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let report = ::mcb::run(&arguments.job())?;
    let out = if arguments.json {
        crate::output::json_line("mcb", &report)
    } else {
        report.text()
    };
    crate::output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
