// SPDX-License-Identifier: Apache-2.0
//! `ipnuma paper`: the experiments, and what the dissertation has in the same place.

use std::path::PathBuf;
use std::process::ExitCode;

use rack::Error;
use report::paper::{Request, Section, Watch, brief, run as run_paper, show};

use crate::progress::Progress;
use crate::{Failure, given, output};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these tables or figures, between commas, such as table-3.4
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Read the experiments from this directory instead of the built-in copy
    #[arg(long, value_name = "DIRECTORY")]
    experiments: Option<PathBuf>,
    /// Round trips of each ping-pong
    #[arg(long, default_value_t = 1_000)]
    loops: u64,
    /// Commands of each kind and length that memcached is asked in each of its rows
    #[arg(long, default_value_t = 20)]
    count: u64,
    /// Also write everything as one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// One line for each table or figure: published, ours, how far off, share of RTL
    #[arg(long, conflicts_with = "json")]
    brief: bool,
    /// Say on standard error what runs, as on a terminal
    #[arg(long)]
    progress: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Commands of a kind and length at most, as `ipnuma memcached` takes them.
const MOST_COUNT: u64 = 1_000_000;

/// Prints each table when it is done, and says what runs.
struct Printer {
    tables: bool,
    progress: Progress,
}

impl Watch for Printer {
    fn begin(&mut self, number: usize, of: usize, what: &str) {
        self.progress.step(number, of, what);
    }

    fn section(&mut self, section: &Section) -> Result<(), Error> {
        if self.tables {
            self.progress.clear();
            output::print(&show(section))?;
        }
        Ok(())
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if !(1..=MOST_COUNT).contains(&arguments.count) {
        return Err(Failure::from(Error::Config(format!(
            "--count: {} commands are too few or too many; write 1 to {MOST_COUNT}",
            arguments.count
        ))));
    }
    given::files(&[("--html", arguments.html.as_ref())])?;
    given::distinct("--only", &arguments.only)?;
    let request = Request {
        only: arguments.only.clone(),
        experiments: arguments.experiments.clone(),
        loops: arguments.loops,
        count: arguments.count,
        shares: arguments.brief,
        html: arguments.html.clone(),
    };
    let mut printer = Printer {
        tables: !arguments.json && !arguments.brief,
        progress: Progress::new(arguments.progress),
    };
    let paper = run_paper(&request, &mut printer)?;
    printer.progress.clear();
    let counts = paper.counts();
    let out = if arguments.json {
        output::json("paper", &serde_json::json!({ "sections": paper.sections }))
    } else if arguments.brief {
        brief(&paper, arguments.html.as_deref())
    } else {
        let written = arguments.html.iter();
        let written = written.map(|path| format!("wrote {}\n", path.display()));
        counts.describe() + &written.collect::<String>()
    };
    output::print(&out)?;
    Ok(ExitCode::from(u8::from(counts.is_bad())))
}
