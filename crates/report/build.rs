// SPDX-License-Identifier: Apache-2.0
//! Tells the command what it was built from, for its reports: commit, compiler, Verilator (as pinned).

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

/// The version of a wheel that tools/setup installs. The wheel itself need not be there yet.
fn pinned(lock: &Path, wheel: &str) -> Option<String> {
    let lock = std::fs::read_to_string(lock).ok()?;
    let line = lock
        .lines()
        .find_map(|line| line.strip_prefix(wheel)?.strip_prefix("=="))?;
    let version = line.split_whitespace().next()?;
    Some(format!("{wheel} {version}"))
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
            pinned(&root.join("tools/requirements.lock"), "verilator"),
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
