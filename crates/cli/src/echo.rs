// SPDX-License-Identifier: Apache-2.0
//! `ipnuma echo`: round trips over whatever sockets it is started with.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use ::echo::{Error, Job, Server};
use mcb::Transport;

use crate::output;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One end serves, the other sends a message, waits until the same bytes are back, compares them, and goes on. With `ipnuma run`
before both, the messages go over IP-NUMA. Exit status: 0, 1 if an answer is wrong or does not come, 2 if an option is wrong.

  ipnuma echo --serve 0.0.0.0:7000
  ipnuma echo 192.0.2.1:7000 -n 10000 -l 4 -T udp")]
pub struct Arguments {
    /// Address and port of the end that serves
    #[arg(required_unless_present = "serve")]
    server: Option<SocketAddr>,
    /// Serve here: send back what comes, until the command is ended
    #[arg(long, value_name = "ADDRESS", conflicts_with = "server")]
    serve: Option<SocketAddr>,
    /// How messages travel
    #[arg(short = 'T', long, default_value = "udp", ignore_case = true)]
    transport: Transport,
    /// Bytes of a message
    #[arg(short = 'l', long, default_value_t = 4)]
    bytes: usize,
    /// Round trips that are timed
    #[arg(short = 'n', long, default_value_t = 10_000)]
    count: u64,
    /// Round trips before measuring
    #[arg(long, default_value_t = 10)]
    warmup: u64,
    /// How long to wait for an answer
    #[arg(long, default_value_t = 1000)]
    timeout_ms: u64,
    /// Read the clock only before the first message and after the last
    #[arg(long)]
    total: bool,
    /// Print JSON, one line
    #[arg(long, conflicts_with = "serve")]
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

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let Some(address) = arguments.serve {
        Server::bind(address, arguments.transport)?.serve();
    }
    let Some(server) = arguments.server else {
        return Err(Error::Usage("SERVER: it is missing; write it, or --serve".to_owned()).into());
    };
    let job = Job {
        server,
        transport: arguments.transport,
        bytes: arguments.bytes,
        count: arguments.count,
        warmup: arguments.warmup,
        timeout: Duration::from_millis(arguments.timeout_ms),
        total: arguments.total,
    };
    let report = ::echo::run(&job)?;
    output::print(&match arguments.json {
        true => output::json_line("echo", &report),
        false => report.text(),
    })?;
    Ok(ExitCode::SUCCESS)
}
