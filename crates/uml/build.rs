// SPDX-License-Identifier: Apache-2.0
//! Compiles the library that stands between the process of a guest's kernel and the host.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let sources = ["guest/host.c", "guest/counter.c"];
    println!("cargo:rerun-if-changed=guest");
    println!("cargo:rerun-if-env-changed=CC");
    let library = Path::new(&env::var("OUT_DIR")?).join("host.so");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(&compiler)
        .args([
            "-std=gnu11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
        ])
        .arg(&library)
        .args(sources)
        .status()
        .map_err(|error| {
            format!(
                "{compiler} could not be run: {error}; install a C compiler, or name one with CC"
            )
        })?;
    if !status.success() {
        return Err(format!("{compiler} could not compile {}", sources.join(" and ")).into());
    }
    Ok(())
}
