// SPDX-License-Identifier: Apache-2.0
//! `ipnuma completions` and `ipnuma man`: what shells and `man` know of the command, made from its own options.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use rack::Error;

use crate::{given, output};

/// Options of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  ipnuma completions bash > ~/.local/share/bash-completion/completions/ipnuma
  ipnuma completions zsh > ~/.zfunc/_ipnuma
  ipnuma completions fish > ~/.config/fish/completions/ipnuma.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Options of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  ipnuma man ~/.local/share/man/man1; man ipnuma-pingpong")]
pub struct Man {
    /// Directory for the pages, ipnuma.1 and one for each command; it is made if it is missing
    directory: PathBuf,
}

/// Prints the script of a shell.
pub fn completions(arguments: &Completions) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    let mut command = crate::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "ipnuma", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages.
pub fn man(arguments: &Man) -> Result<ExitCode, Error> {
    given::directory("DIRECTORY", Some(&arguments.directory))?;
    let failed = |error: std::io::Error| Error::Output {
        path: arguments.directory.display().to_string(),
        reason: error.to_string(),
    };
    std::fs::create_dir_all(&arguments.directory).map_err(failed)?;
    clap_mangen::generate_to(crate::Arguments::command(), &arguments.directory).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
