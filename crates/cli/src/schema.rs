// SPDX-License-Identifier: Apache-2.0
//! `ipnuma schema`: what a file may say, as a JSON schema.

use std::process::ExitCode;

use clap::ValueEnum;
use rack::{Error, Topology};

use crate::output;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  ipnuma schema topology > topology.schema.json")]
pub struct Arguments {
    /// Kind of the file
    what: What,
}

/// Files that have a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Hosts, NICs, switches, cables and the program of a rack
    Topology,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let schema = match arguments.what {
        What::Topology => Topology::schema(),
    };
    output::print(&format!("{:#}\n", schema.as_value()))?;
    Ok(ExitCode::SUCCESS)
}
