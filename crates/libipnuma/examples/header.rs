// SPDX-License-Identifier: Apache-2.0
//! Generates `include/ipnuma.h`: `cargo run -p libipnuma --example header -- --write`, or `-- --check`.

#[path = "../tests/header/generate.rs"]
mod generate;

use std::process::ExitCode;

fn main() -> ExitCode {
    let header = generate::header();
    match std::env::args().nth(1).as_deref() {
        Some("--write") => match std::fs::write(generate::path(), header) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {error}", generate::path().display());
                ExitCode::FAILURE
            }
        },
        Some("--check")
            if std::fs::read_to_string(generate::path()).is_ok_and(|text| text == header) =>
        {
            ExitCode::SUCCESS
        }
        Some("--check") => {
            eprintln!(
                "{} is not what the sources say; run this with --write",
                generate::path().display()
            );
            ExitCode::FAILURE
        }
        _ => {
            eprintln!("usage: header --write | --check");
            ExitCode::FAILURE
        }
    }
}
