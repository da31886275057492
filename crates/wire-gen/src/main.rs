// SPDX-License-Identifier: Apache-2.0
//! Prints what other languages need to know about the wire format from the tables in the `wire` crate.

#![forbid(unsafe_code)]

mod lua;
mod markdown;
mod ring;
mod samples;
mod systemverilog;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: wire-gen --check             say which generated files differ from the tables (exit status 1)
       wire-gen --write             write them
       wire-gen --samples DIR [SEED]  write frames.pcap, tlps.pcap and samples.json for the dissector's test";

/// The generated files: path from the repository's root, and the text.
fn generated() -> [(&'static str, String); 6] {
    [
        ("rtl/nic/wire_pkg.sv", systemverilog::package()),
        ("docs/registers.md", markdown::registers()),
        ("tools/wireshark/ipnuma.lua", lua::dissector()),
        ("rtl/ring/ring_pkg.sv", ring::package()),
        ("docs/ring-nic.md", ring::page()),
        ("linux/ring/ring_hw.h", ring::header()),
    ]
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["--check"] => check(),
        ["--write"] => write(),
        ["--samples", dir] => samples::write(Path::new(dir), 1),
        ["--samples", dir, seed] => match seed.parse() {
            Ok(seed) => samples::write(Path::new(dir), seed),
            Err(_) => Err(format!("the seed {seed:?} is not a number")),
        },
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("wire-gen: {message}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check() -> Result<(), String> {
    let differing: Vec<&str> = generated()
        .into_iter()
        .filter(|(path, text)| fs::read_to_string(root().join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path)
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} differ from the tables in crates/wire; run `cargo run -p wire-gen -- --write`",
        differing.join(", ")
    ))
}

fn write() -> Result<(), String> {
    for (path, text) in generated() {
        let file = root().join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(|error| format!("{path}: {error}"))?;
        }
        fs::write(&file, text).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}
