// SPDX-License-Identifier: Apache-2.0
//! What `tools/install-sockets` installs can be used from where it is, and its package holds the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const LIBRARIES: [&str; 3] = ["libipnuma_socket.so", "libipnuma.so", "libipnuma.a"];

fn good(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Where the command and the libraries were built; the libraries are built now if nobody has.
fn built() -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_ipnuma")).parent();
    let directory = directory.expect("it is in a directory").to_owned();
    if !LIBRARIES.iter().all(|name| directory.join(name).is_file()) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            "libipnuma",
            "-p",
            "preload",
        ]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.env("CARGO_TARGET_DIR", directory.parent().expect("target"));
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        good(&mut cargo);
    }
    directory
}

fn install(option: &str, to: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/install-sockets");
    let mut command = Command::new(script);
    command.arg("--built").arg(built()).arg(option).arg(to);
    good(&mut command);
}

#[test]
fn a_program_runs_over_what_is_installed() {
    let directory = TempDir::new().expect("a directory");
    let prefix = directory.path().join("usr");
    install("--prefix", &prefix);
    let mut run = Command::new(prefix.join("bin/ipnuma"));
    run.args(["run", "--own-daemon", "--"]);
    run.args(["sh", "-c", "tr '\\0' '\\n' < /proc/self/environ"]);
    run.env("XDG_RUNTIME_DIR", directory.path());
    run.env_remove("IPNUMA_SOCKET_LIBRARY");
    let environment = good(&mut run);
    let preloaded = environment
        .lines()
        .find(|line| line.starts_with("LD_PRELOAD="));
    let library = prefix.join("lib/ipnuma/libipnuma_socket.so");
    let library = library.canonicalize().expect("it is installed");
    let expected = format!("LD_PRELOAD={}", library.display());
    assert_eq!(preloaded, Some(&*expected), "{environment}");

    let unit = prefix.join("lib/systemd/user/ipnuma.service");
    let unit = std::fs::read_to_string(unit).expect("there is a unit");
    let starts = format!("ExecStart={}/bin/ipnuma daemon", prefix.display());
    assert!(unit.contains(&starts) && !unit.contains('@'), "{unit}");
}

#[test]
fn every_command_has_a_page_and_is_completed() {
    let directory = TempDir::new().expect("a directory");
    install("--prefix", directory.path());
    let share = directory.path().join("share");
    let page = std::fs::read_to_string(share.join("man/man1/ipnuma.1")).expect("a page");
    let script = share.join("bash-completion/completions/ipnuma");
    good(Command::new("bash").arg("-n").arg(&script));
    let script = std::fs::read_to_string(script).expect("a script");
    for command in ["pingpong", "paper", "daemon", "run", "rfc2544", "man"] {
        let own = share.join(format!("man/man1/ipnuma-{command}.1"));
        assert!(own.is_file(), "{command} has no page");
        assert!(page.contains(command), "the page knows no {command}");
        assert!(script.contains(command), "{command} is not completed");
    }
    for file in [
        "zsh/site-functions/_ipnuma",
        "fish/vendor_completions.d/ipnuma.fish",
    ] {
        let script = std::fs::read_to_string(share.join(file)).expect("a script");
        assert!(script.contains("rfc2544"), "{file}");
    }
}

#[test]
fn the_package_holds_the_same() {
    let directory = TempDir::new().expect("a directory");
    let package = directory.path().join("ipnuma.deb");
    install("--deb", &package);
    let held = good(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for file in [
        "./usr/bin/ipnuma",
        "./usr/lib/ipnuma/libipnuma_socket.so",
        "./usr/lib/libipnuma.so",
        "./usr/include/ipnuma.h",
        "./usr/include/ipnuma/ring.h",
        "./usr/lib/pkgconfig/ipnuma.pc",
        "./usr/lib/systemd/user/ipnuma.service",
        "./usr/share/man/man1/ipnuma-run.1.gz",
    ] {
        assert!(held.contains(file), "{file} is missing:\n{held}");
    }
    let all_root = held.lines().all(|line| line.contains(" root/root "));
    assert!(all_root, "files of somebody else:\n{held}");
}
