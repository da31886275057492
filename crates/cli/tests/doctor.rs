// SPDX-License-Identifier: Apache-2.0
//! `ipnuma doctor`: what it says of programs, of the daemon and of policy files, by its exit status, its text and its JSON.

mod envelope;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// A directory with programs, and a daemon's socket in it if there is one.
struct Place {
    directory: TempDir,
    _daemon: Option<daemon::Running>,
}

/// What was said.
struct Said {
    status: Option<i32>,
    out: String,
    errors: String,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            _daemon: None,
        }
    }

    fn with_daemon() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let options = daemon::Options {
            socket: directory.path().join("daemon.sock"),
            ..Default::default()
        };
        let daemon = daemon::spawn(options).expect("it starts");
        Self {
            directory,
            _daemon: Some(daemon),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("it can be written");
        mark(&path, mode);
        path
    }

    /// A program in C; none where there is no compiler, or no C library for it.
    fn compile(&self, name: &str, options: &[&str]) -> Option<PathBuf> {
        let source = self.write("main.c", "int main(void) { return 0; }\n", 0o644);
        let path = self.path(name);
        let done = Command::new("cc")
            .args(options)
            .arg("-o")
            .args([&path, &source])
            .status();
        done.is_ok_and(|status| status.success()).then_some(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipnuma"));
        command
            .arg("doctor")
            .args(arguments)
            .env("IPNUMA_DAEMON", self.path("daemon.sock"))
            .env("HOME", self.directory.path())
            .env("IPNUMA_SOCKET_LIBRARY", library());
        for variable in [
            "IPNUMA_CONFIG",
            "IPNUMA_POLICY",
            "IPNUMA_PORTS",
            "IPNUMA_SOCKET",
            "LD_PRELOAD",
            "XDG_CONFIG_HOME",
        ] {
            command.env_remove(variable);
        }
        command
    }

    fn say(&self, arguments: &[&str]) -> Said {
        said(&mut self.command(arguments))
    }

    /// The checks, by name, and the status; what is said for people must agree.
    fn checks(&self, program: &Path, change: impl Fn(&mut Command)) -> Checks {
        let program = program.to_str().expect("a name in UTF-8");
        let run = |arguments: &[&str]| {
            let mut command = self.command(arguments);
            change(&mut command);
            said(&mut command)
        };
        let text = run(&[program]);
        let json = run(&["--json", program]);
        let result = envelope::result(&["doctor"], json.out.as_bytes());
        assert_eq!(text.status, json.status);
        assert_eq!(
            result["accelerated"],
            Value::Bool(text.status == Some(0)),
            "{}",
            text.out
        );
        assert_eq!(text.errors, "");
        let checks = result["checks"].as_array().expect("a list").clone();
        assert_eq!(text.out.lines().count(), checks.len() + 1, "{}", text.out);
        Checks {
            status: text.status,
            checks,
        }
    }
}

fn said(command: &mut Command) -> Said {
    let output = command
        .output()
        .expect("the command was built for this test");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        status: output.status.code(),
        out: text(&output.stdout),
        errors: text(&output.stderr),
    }
}

fn mark(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("it is ours");
}

/// The socket library beside the command; it is built now if nobody has.
fn library() -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_ipnuma")).parent();
    let directory = directory.expect("it is in a directory");
    let library = directory.join("libipnuma_socket.so");
    if !library.is_file() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--locked", "-p", "preload"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("CARGO_TARGET_DIR", directory.parent().expect("target"));
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo").success());
    }
    library
}

#[derive(Debug)]
struct Checks {
    status: Option<i32>,
    checks: Vec<Value>,
}

impl Checks {
    /// What stops it: the one check, with what it says and the remedy.
    #[track_caller]
    fn stopped(&self, by: &str, says: &str, remedy: &str) {
        assert_eq!(self.status, Some(1), "{self:#?}");
        let stops: Vec<_> = self.of("stops").collect();
        let [one] = stops[..] else {
            panic!("not one: {stops:#?}");
        };
        assert_eq!(one["check"], by);
        let (found, way) = (one["says"].to_string(), one["remedy"].to_string());
        assert!(found.contains(says), "{found}");
        assert!(way.contains(remedy), "{way}");
    }

    fn of(&self, verdict: &str) -> impl Iterator<Item = &Value> {
        self.checks
            .iter()
            .filter(move |check| check["verdict"] == verdict)
    }

    fn good(&self) {
        assert_eq!(self.status, Some(0), "{self:#?}");
        assert_eq!(self.of("ok").count(), self.checks.len(), "{self:#?}");
    }
}

const NOTHING: fn(&mut Command) = |_| {};

#[test]
fn an_ordinary_program_can_be_accelerated() {
    let place = Place::with_daemon();
    let Some(program) = place.compile("ordinary", &[]) else {
        skip::skip!("there is no C compiler");
        return;
    };
    place.checks(&program, NOTHING).good();
    let said = place.say(&[program.to_str().expect("UTF-8")]);
    let end = "can be accelerated: ipnuma run -- ";
    assert!(said.out.contains(end), "{}", said.out);
}

#[test]
fn a_script_is_followed_to_its_interpreter() {
    let place = Place::with_daemon();
    let script = place.write("script", "#!/bin/sh\n", 0o755);
    let checks = place.checks(&script, NOTHING);
    checks.good();
    let says = checks.checks[0]["says"].to_string();
    assert!(says.contains("script, then /bin/sh, loaded by "), "{says}");
    let script = place.write("clears", "#!/usr/bin/env -S -i sh\n", 0o755);
    place
        .checks(&script, NOTHING)
        .stopped("preload", "takes LD_PRELOAD away", "behind it");
    let script = place.write("lost", "#!/no/interpreter\n", 0o755);
    place
        .checks(&script, NOTHING)
        .stopped("program", "no program /no/interpreter", "install it");
    let own = place.path("circle");
    place.write("circle", format!("#!{}\n", own.display()), 0o755);
    place
        .checks(&own, NOTHING)
        .stopped("program", "too many scripts", "give the program");
}

#[test]
fn what_starts_others_is_seen_through() {
    let place = Place::with_daemon();
    let shell = Path::new("/bin/sh").canonicalize().expect("a shell");
    // Exec with a search path gives a text to the shell.
    let text = place.write("text", "echo hello\n", 0o755);
    let checks = place.checks(&text, NOTHING);
    checks.good();
    assert!(
        checks.checks[0]["says"]
            .to_string()
            .contains("text, then /bin/sh")
    );
    // By a link's name, and with options that are joined and shortened.
    let other = place.path("other");
    std::os::unix::fs::symlink("/usr/bin/env", &other).expect("a link");
    for name in ["/usr/bin/env", other.to_str().expect("UTF-8")] {
        for options in [
            &["-vi"][..],
            &["--ignore-env", "-v"],
            &["-vuLD_PRELOAD"],
            &["-S-i X='a b'"],
        ] {
            let line = [&["--", name][..], options, &["sh", "-c", "true"]].concat();
            let said = place.say(&line);
            assert_eq!(said.status, Some(1), "{line:?}: {}", said.out);
            assert!(said.out.contains("takes LD_PRELOAD away"), "{}", said.out);
        }
    }
    // The loader by its own name; the policy knows the program by that.
    let loader = std::fs::read_dir("/lib64").expect("it is there").flatten();
    let Some(loader) = loader
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("ld-linux"))
    else {
        skip::skip!("there is no loader in /lib64");
        return;
    };
    let own = loader.canonicalize().expect("it is there");
    let own = own
        .file_name()
        .and_then(|name| name.to_str())
        .expect("UTF-8");
    let policy = place.write("policy", format!("kernel program {own}\n"), 0o644);
    let loader = loader.to_str().expect("UTF-8");
    let line = [loader, "--inhibit-cache", shell.to_str().expect("UTF-8")];
    let said = place.say(&line);
    assert_eq!(said.status, Some(0), "{}", said.out);
    let under = [
        &["--policy", policy.to_str().expect("UTF-8"), "--"][..],
        &line,
    ]
    .concat();
    assert_eq!(place.say(&under).status, Some(1));
    assert_eq!(place.say(&["--", loader, "--help"]).status, Some(1));
}

#[test]
fn what_may_be_started_but_not_read_is_let_through() {
    let place = Place::with_daemon();
    let program = place.path("closed");
    std::fs::copy("/bin/sh", &program).expect("it can be copied");
    mark(&program, 0o711);
    mark(place.directory.path(), 0o755);
    let checks = place.checks(&program, |command| {
        use std::os::unix::process::CommandExt;
        command.uid(65_534).gid(65_534);
    });
    let first = &checks.checks[0];
    if first["verdict"] == "ok" {
        skip::skip!("only root can become somebody who may not read");
        return;
    }
    assert_eq!(first["verdict"], "warning", "{first}");
    assert!(
        first["says"]
            .to_string()
            .contains("may be started but not read")
    );
}

#[test]
fn what_is_no_program_is_named() {
    let place = Place::with_daemon();
    place.checks(Path::new("/no/program"), NOTHING).stopped(
        "program",
        "there is no program /no/program",
        "give its path",
    );
    place
        .checks(Path::new("no-such-program-anywhere"), NOTHING)
        .stopped("program", "there is no program", "install it");
    for data in [&b"\0\x01hello"[..], b"", b"\xff\xfe\n"] {
        let data = place.write("data", data, 0o755);
        place
            .checks(&data, NOTHING)
            .stopped("program", "neither an ELF", "started in the end");
    }
    let plain = place.write("plain", "#!/bin/sh\n", 0o644);
    place
        .checks(&plain, NOTHING)
        .stopped("program", "not executable", "chmod +x");
}

#[test]
fn static_and_foreign_programs_are_named() {
    let place = Place::with_daemon();
    let Some(ordinary) = place.compile("ordinary", &[]) else {
        skip::skip!("there is no C compiler");
        return;
    };
    // The same with another loader of the same length, and for another processor.
    let bytes = std::fs::read(&ordinary).expect("it is there");
    let at = |text: &[u8]| bytes.windows(text.len()).position(|part| part == text);
    if let Some(loader) = at(b"/ld-linux-x86-64.so.2") {
        let mut musl = bytes.clone();
        musl[loader..loader + 21].copy_from_slice(b"/ld-musl-x86_64.so.1\0");
        let musl = place.write("musl", musl, 0o755);
        place
            .checks(&musl, NOTHING)
            .stopped("program", "musl", "glibc");
        let mut away = bytes.clone();
        away[loader..loader + 21].copy_from_slice(b"/ld-linux-x86-00.so.2");
        let away = place.write("away", away, 0o755);
        place
            .checks(&away, NOTHING)
            .stopped("program", "which is not there", "install");
    }
    let mut other = bytes.clone();
    other[18..20].copy_from_slice(&243u16.to_le_bytes());
    let other = place.write("other", other, 0o755);
    place
        .checks(&other, NOTHING)
        .stopped("program", "Riscv64", "processor");
    let cut = place.write("cut", &bytes[..100], 0o755);
    assert_eq!(place.checks(&cut, NOTHING).status, Some(1));
    let Some(fixed) = place.compile("fixed", &["-static"]) else {
        skip::skip!("the C library cannot be linked statically");
        return;
    };
    place
        .checks(&fixed, NOTHING)
        .stopped("program", "linked statically", "dynamically");
}

#[test]
fn other_rights_are_named() {
    let place = Place::with_daemon();
    let Some(program) = place.compile("ordinary", &[]) else {
        skip::skip!("there is no C compiler");
        return;
    };
    // One's own bit changes nothing.
    mark(&program, 0o4755);
    place.checks(&program, NOTHING).good();
    let give = |user, group| std::os::unix::fs::chown(&program, user, group).is_ok();
    if !give(Some(1), None) {
        skip::skip!("only root can give files away");
        return;
    }
    mark(&program, 0o4755);
    place
        .checks(&program, NOTHING)
        .stopped("rights", "set-user-ID to user 1", "copy");
    assert!(give(Some(0), Some(1)));
    mark(&program, 0o2755);
    place
        .checks(&program, NOTHING)
        .stopped("rights", "set-group-ID to group 1", "copy");
}

#[test]
fn a_daemon_or_a_library_that_is_missing_or_odd_is_named() {
    let place = Place::new();
    let shell = Path::new("/bin/sh");
    place
        .checks(shell, NOTHING)
        .stopped("daemon", "no daemon at", "ipnuma daemon");
    let place = Place::with_daemon();
    place
        .checks(shell, |command| {
            command.env("IPNUMA_SOCKET_LIBRARY", "/no/library.so");
        })
        .stopped(
            "library",
            "there is no file /no/library.so",
            "give the path",
        );
    let empty = place.write("libipnuma_socket.so", "", 0o644);
    place
        .checks(shell, |command| {
            command.env("IPNUMA_SOCKET_LIBRARY", &empty);
        })
        .stopped("library", "no ELF file", "one release");
    place
        .checks(shell, |command| {
            command.env("IPNUMA_SOCKET", "0");
        })
        .stopped("config", "switched off", "IPNUMA_SOCKET=1");
    let limited = place.checks(shell, |command| {
        command.env("IPNUMA_PORTS", "80,8000-8099");
    });
    assert_eq!(limited.status, Some(0));
    let warned = limited.of("warning").next().expect("a warning");
    assert!(warned["says"].to_string().contains("80, 8000-8099"));
}

#[test]
fn the_policy_is_asked_for_the_executable() {
    let place = Place::with_daemon();
    let under = |text: &str, program: &Path| {
        let file = place.write("policy", text, 0o644);
        place.checks(program, |command| {
            command.env("IPNUMA_POLICY", &file);
        })
    };
    let shell = Path::new("/bin/sh");
    let name = shell.canonicalize().expect("there is a shell");
    let name = name
        .file_name()
        .and_then(|name| name.to_str())
        .expect("UTF-8")
        .to_owned();
    under("kernel program other\n", shell).good();
    let part = under("kernel connect 10.0.0.0/8 port 5432\n", shell);
    assert_eq!(part.status, Some(0));
    let warned: Vec<_> = part
        .of("warning")
        .map(|check| check["says"].to_string())
        .collect();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(
        warned[0].contains("line 1 `kernel connect 10.0.0.0/8 port 5432`, otherwise ipnuma"),
        "{warned:?}"
    );
    let all = under(&format!("# none\nkernel program {name}\n"), shell);
    assert_eq!(all.status, Some(1));
    all.stopped("policy", "listen and connect: ", "in a policy file");
    let parts = under("kernel listen\nkernel connect\n", shell);
    assert_eq!(parts.of("stops").count(), 2, "{parts:#?}");
    under("kernel prot\n", shell).stopped("policy", "policy, line 1: `prot`", "write");
    // The built-in list, by a program's name.
    let sshd = place.path("sshd");
    std::fs::copy(shell, &sshd).expect("it can be copied");
    let denied = place.checks(&sshd, NOTHING);
    if !Path::new("/etc/ipnuma/sockets.policy").exists() {
        assert_eq!(denied.status, Some(1));
        assert!(
            denied
                .of("warning")
                .any(|check| check["says"].to_string().contains("seccomp"))
        );
    }
}

#[test]
fn lines_that_cannot_be_meant_so_are_named() {
    let place = Place::new();
    let file = place.path("policy");
    let file = file.to_str().expect("UTF-8");
    let shell = Path::new("/bin/sh").canonicalize().expect("a shell");
    let shell = shell
        .file_name()
        .and_then(|name| name.to_str())
        .expect("UTF-8");
    place.write(
        "policy",
        "kernel port 1-99\nkernel program sh port 100\nipnuma port 80\n",
        0o644,
    );
    let said = place.say(&["--policy", file]);
    assert_eq!(said.status, Some(0), "{}", said.errors);
    let warnings: Vec<_> = said
        .out
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    let mut expected = vec![
        "warning: line 3: line 1 `kernel port 1-99` takes all that it fits; put it before line 1, or remove it".to_owned(),
    ];
    if shell != "sh" {
        expected.insert(0, format!("warning: line 2: sh is a link here, and programs go by their true names; write program {shell}"));
    }
    assert_eq!(warnings, expected);
    let said = place.say(&["--json", "--policy", file]);
    let result = envelope::result(&["doctor"], said.out.as_bytes());
    assert_eq!(
        result["warnings"].as_array().map(Vec::len),
        Some(expected.len())
    );
}

#[test]
fn a_daemon_that_never_answers_is_not_waited_for() {
    let place = Place::new();
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        None,
    )
    .expect("a socket");
    let address = rustix::net::SocketAddrUnix::new(place.path("daemon.sock")).expect("short");
    rustix::net::bind(&socket, &address).expect("it is free");
    rustix::net::listen(&socket, 8).expect("it listens");
    mark(&place.path("daemon.sock"), 0o600);
    place
        .checks(Path::new("/bin/sh"), NOTHING)
        .stopped("daemon", "", "");
}

#[test]
fn a_policy_file_is_checked_and_shown() {
    let place = Place::new();
    let file = place.write(
        "policy",
        "kernel  port 80-80 connect # x\n\nipnuma ::1\n",
        0o644,
    );
    let file = file.to_str().expect("UTF-8");
    let said = place.say(&["--policy", file]);
    assert_eq!(said.status, Some(0), "{}", said.errors);
    assert_eq!(
        said.out,
        "line 1: kernel connect port 80\nline 3: ipnuma ::1\notherwise: ipnuma\n"
    );
    let said = place.say(&["--json", "--policy", file]);
    let result = envelope::result(&["doctor"], said.out.as_bytes());
    assert_eq!(result["rules"][0]["role"], "connect");
    assert_eq!(result["rules"][0]["last_port"], 80);
    assert_eq!(result["rules"][1]["network"], "::1");
    assert_eq!(result["rules"][1]["program"], Value::Null);
    let with = place.say(&["--policy", file, "--", "/bin/sh"]);
    assert!(
        with.out.contains("line 1 `kernel connect port 80`"),
        "{}",
        with.out
    );
    place.write("policy", "kernel\nallow\n", 0o644);
    for arguments in [
        &["--policy", file][..],
        &["--policy", file, "sh"],
        &["--policy", "/no/file"],
        &[],
    ] {
        let said = place.say(arguments);
        assert_eq!(said.status, Some(2), "{arguments:?}: {}", said.errors);
        assert_eq!(
            (said.errors.lines().count(), &*said.out),
            (1, ""),
            "{}",
            said.errors
        );
        assert!(said.errors.contains(';'), "no remedy: {}", said.errors);
    }
}
