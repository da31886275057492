// SPDX-License-Identifier: Apache-2.0
//! Tells the command what it was built from, for its reports: commit, compiler, Verilator.

use std::path::Path;
use std::process::Command;

fn first_line(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let facts = [
        (
            "COMMIT",
            first_line(
                Command::new("git")
                    .args(["rev-parse", "HEAD"])
                    .current_dir(&root),
            ),
        ),
        ("RUSTC", first_line(Command::new(rustc).arg("--version"))),
        (
            "VERILATOR",
            first_line(
                Command::new("bash")
                    .args(["-c", ". tools/env.sh && verilator --version"])
                    .current_dir(&root),
            ),
        ),
    ];
    for (name, value) in facts {
        println!(
            "cargo::rustc-env=IPNUMA_BUILT_{name}={}",
            value.unwrap_or_else(|| "unknown".to_owned())
        );
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rerun-if-changed={}",
        root.join("tools/requirements.lock").display()
    );
    // A commit writes here; without git there is none to wait for.
    let log = root.join(".git/logs/HEAD");
    if log.is_file() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
}
