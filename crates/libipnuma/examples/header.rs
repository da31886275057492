// SPDX-License-Identifier: Apache-2.0
//! Generates the headers in `include`: `cargo run -p libipnuma --example header -- --write`, or `-- --check`.

#[path = "../tests/header/generate.rs"]
mod generate;

use std::path::Path;
use std::process::ExitCode;

/// Writes a file, and its folder if there is none.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let writing = match argument.as_deref() {
        Some("--write") => true,
        Some("--check") => false,
        _ => {
            eprintln!("usage: header --write | --check");
            return ExitCode::FAILURE;
        }
    };
    let mut done = ExitCode::SUCCESS;
    for (name, text) in generate::headers() {
        let path = generate::directory().join(name);
        let shown = path.display();
        if writing {
            if let Err(error) = write(&path, &text) {
                eprintln!("{shown}: {error}");
                done = ExitCode::FAILURE;
            }
        } else if !std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            eprintln!("{shown} is not what the sources say; run this with --write");
            done = ExitCode::FAILURE;
        }
    }
    done
}
