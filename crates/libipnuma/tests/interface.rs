// SPDX-License-Identifier: Apache-2.0
//! The C interface from outside: C programs, compiled against the header and the library as a user would.

// As the module of wrong tokens calls it.
extern crate host as ipnuma;

#[path = "header/generate.rs"]
mod generate;
#[path = "../../host/tests/wrong_tokens/mod.rs"]
mod wrong_tokens;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Builds the library as these tests were built, and says where it is: cargo does not build a cdylib for tests.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let executable = std::env::current_exe().expect("this test has a name");
        let directory = executable
            .parent()
            .and_then(Path::parent)
            .expect("tests are in target/PROFILE/deps");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "libipnuma",
            "--lib",
        ]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.env("CARGO_TARGET_DIR", directory.parent().expect("target"));
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        run(&mut cargo);
        directory.to_owned()
    })
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    passed(&format!("{command:?}"), &output)
}

fn passed(what: &str, output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{what}: {}\n{out}{err}",
        output.status
    );
    out.into_owned()
}

fn daemon(directory: &Path) -> daemon::Running {
    let options = daemon::Options {
        socket: directory.join("daemon.sock"),
        ..daemon::Options::default()
    };
    daemon::spawn(options).expect("the daemon starts")
}

/// Installs the library below `directory`.
fn install(directory: &Path) -> PathBuf {
    let prefix = directory.join("usr");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/install-libipnuma");
    run(Command::new(script)
        .arg("--prefix")
        .arg(&prefix)
        .arg("--built")
        .arg(built()));
    prefix
}

/// Whether a line of the header is no comment.
fn is_code(line: &str) -> bool {
    !line.trim_start().starts_with("//") && !line.starts_with(" *")
}

/// All headers, one behind the other.
fn header() -> String {
    generate::headers()
        .into_iter()
        .map(|(_, text)| text)
        .collect()
}

fn functions() -> Vec<String> {
    let header = header();
    let declared = header
        .lines()
        .filter(|line| is_code(line))
        .filter_map(|line| {
            let before = line.split_once('(')?.0;
            let name = before.rsplit([' ', '*']).next()?;
            name.starts_with("ipn_").then(|| name.to_owned())
        });
    let names: Vec<_> = declared.collect();
    assert!(names.len() > 35, "{names:?}");
    names
}

#[test]
fn the_headers_are_what_the_sources_say() {
    let headers = generate::headers();
    for (name, text) in &headers {
        let committed = std::fs::read_to_string(generate::directory().join(name));
        assert!(
            committed.expect("the header is there") == *text,
            "include/{name} is old: cargo run -p libipnuma --example header -- --write"
        );
    }
    let there = ["", "ipnuma"].map(|folder| {
        let files = std::fs::read_dir(generate::directory().join(folder)).expect("a folder");
        files
            .map(|file| file.expect("a file").path())
            .filter(|path| path.is_file())
            .count()
    });
    assert_eq!(
        there.iter().sum::<usize>(),
        headers.len(),
        "include holds a header that no source says anything of"
    );
}

#[test]
fn every_header_stands_alone() {
    for (name, _) in generate::headers() {
        for (language, standard) in [("c", "-std=c11"), ("c++", "-std=c++17")] {
            let mut compile = Command::new("cc");
            compile
                .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic"])
                .args(["-fsyntax-only", "-x", language])
                .arg("-I")
                .arg(generate::directory())
                .args(["-include", &name, "/dev/null"]);
            run(&mut compile);
        }
    }
}

#[test]
fn every_function_is_documented_as_a_man_page() {
    let header = header();
    let lines: Vec<_> = header.lines().collect();
    for name in functions() {
        let at = lines
            .iter()
            .position(|line| is_code(line) && line.contains(&format!("{name}(")))
            .expect("it is declared");
        let page: Vec<_> = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("//"))
            .copied()
            .collect();
        for section in ["RETURN", "ERRORS", "THREADS", "EXAMPLE"] {
            assert!(
                page.contains(&format!("// {section}").as_str()),
                "{name} says nothing about {section}"
            );
        }
        let described = page.contains(&"// DESCRIPTION") || page.contains(&"// UNITS");
        assert!(described, "{name} has no description");
        let example = page
            .iter()
            .take_while(|line| **line != "// EXAMPLE")
            .any(|line| line.contains(&name));
        assert!(example, "the example of {name} does not use it");
    }
}

#[test]
fn nothing_else_is_exported() {
    let library = built().join("libipnuma.so");
    let listed = run(Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(&library));
    let mut exported: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect();
    let mut declared = functions();
    exported.sort();
    declared.sort();
    assert_eq!(exported, declared);
    let headers = run(Command::new("objdump").arg("-p").arg(&library));
    assert!(
        headers
            .lines()
            .any(|line| line.split_whitespace().eq(["SONAME", "libipnuma.so.0"])),
        "{headers}"
    );
}

#[test]
fn the_library_stays_loaded_as_its_handler_of_sigsegv_does() {
    let library = built().join("libipnuma.so");
    let dynamic = run(Command::new("readelf").arg("--dynamic").arg(&library));
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

#[test]
fn every_function_checks_its_arguments() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/arguments.c");
    let text = std::fs::read_to_string(&source).expect("the program is there");
    for name in functions() {
        assert!(
            text.contains(&format!("{name}(")),
            "arguments.c does not try {name}"
        );
    }
    let directory = tempfile::tempdir().expect("a directory");
    let daemon = daemon(directory.path());
    let include = generate::directory();
    for (compiler, language, library) in [
        ("cc", "-std=c11", "shared"),
        ("c++", "-std=c++17", "shared"),
        ("cc", "-std=c11", "static"),
    ] {
        let program = directory.path().join(format!("{compiler}-{library}"));
        let mut compile = Command::new(compiler);
        compile.args([language, "-Wall", "-Wextra", "-Werror", "-pedantic"]);
        if compiler == "c++" {
            compile.args(["-x", "c++"]);
        }
        compile
            .arg("-I")
            .arg(&include)
            .arg(&source)
            .args(["-x", "none", "-o"])
            .arg(&program);
        match library {
            "static" => compile.arg(built().join("libipnuma.a")).args([
                "-lgcc_s",
                "-lpthread",
                "-lm",
                "-ldl",
            ]),
            _ => compile.arg("-L").arg(built()).arg("-lipnuma"),
        };
        run(&mut compile);
        // The shared library is asked for by its soname.
        let soname = directory.path().join("libipnuma.so.0");
        if !soname.exists() {
            std::os::unix::fs::symlink(built().join("libipnuma.so"), &soname).expect("a link");
        }
        let out = run(Command::new(&program)
            .arg(daemon.socket())
            .env("LD_LIBRARY_PATH", directory.path())
            .env("IPNUMA_CONFIG", "/dev/null")
            .env_remove("IPNUMA_BACKEND"));
        assert_eq!(out, "all as documented\n", "{compiler} {library}");
    }
}

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One side of an example, started.
fn start(daemon: &daemon::Running, libraries: &Path, side: &[String], errors: Stdio) -> Running {
    let mut command = Command::new(&side[0]);
    command
        .args(&side[1..])
        .stdout(Stdio::piped())
        .stderr(errors)
        .stdin(Stdio::null());
    command
        .env("IPNUMA_DAEMON", daemon.socket())
        .env("LD_LIBRARY_PATH", libraries);
    command
        .env("IPNUMA_CONFIG", "/dev/null")
        .env_remove("IPNUMA_BACKEND");
    Running(command.spawn().expect("the example starts"))
}

/// Runs the two sides of an example.
fn pair(daemon: &daemon::Running, libraries: &Path, sides: [&[String]; 2]) -> [String; 2] {
    let mut running = sides.map(|side| start(daemon, libraries, side, Stdio::inherit()));
    let mut ends = running.iter_mut().zip(sides);
    std::array::from_fn(|_| {
        let (running, side) = ends.next().expect("two sides");
        ended(running, &side.join(" "))
    })
}

/// What one side of an example has printed when it has ended well.
fn ended(side: &mut Running, name: &str) -> String {
    let mut out = String::new();
    let mut pipe = side.0.stdout.take().expect("piped");
    std::io::Read::read_to_string(&mut pipe, &mut out).expect("text");
    let status = side.0.wait().expect("it ends");
    assert!(status.success(), "{name}: {status}: {out}");
    out
}

/// Runs all examples of a directory.
fn examples(daemon: &daemon::Running, libraries: &Path, examples: &Path) {
    let shared = tempfile::tempdir().expect("a directory");
    let name = |name: &str| examples.join(name).display().to_string();
    let file = |name: &str| shared.path().join(name).display().to_string();
    let sides = |program: &str, first: &str, second: &str, place: &str, count: &str| {
        let start = |side: &str| [name(program), side.into(), place.into(), count.into()];
        pair(daemon, libraries, [&start(first), &start(second)])
    };
    let here = shared.path().display().to_string();
    let out = sides("pingpong", "pong", "ping", &here, "2000");
    assert!(out[1].starts_with("2000 round trips: median "), "{out:?}");
    let other = shared.path().join("figure");
    std::fs::create_dir(&other).expect("a directory");
    // Those that store by plain assignments are in C and C++ only.
    if examples.join("figure43").exists() {
        let other = other.display().to_string();
        let out = sides("figure43", "pong", "ping", &other, "2000");
        assert!(out[1].starts_with("2000 loops: "), "{out:?}");
        let out = sides("queue", "receiver", "sender", &other, "20000");
        assert_eq!(
            out,
            [
                "20000 messages received, all whole\n",
                "20000 messages sent\n"
            ]
        );
        let out = sides("hashtable", "owner", "writer", &other, "20000");
        assert_eq!(out[0], "20000 changes, every value was whole\n");
        for side in ["owner", "writer"] {
            std::fs::remove_file(format!("{other}/{side}")).expect("its token");
        }
        let out = sides("hashtable", "owner", "writer", &other, "0");
        assert_eq!(out[0], "0 changes, every value was whole\n");
        std::fs::remove_file(format!("{other}/owner")).expect("its token");
        let out = sides("matrix", "owner", "helper", &other, "100");
        assert!(
            out[0].ends_with("50 of them from the helper, all right\n"),
            "{out:?}"
        );
    }
    let out = sides("kvpush", "reader", "writer", &file("table"), "20000");
    assert!(out[0].contains("gets, all whole"), "{out:?}");
    assert_eq!(out[1], "20000 writes pushed\n");
    let out = sides("ring", "receive", "send", &file("messages"), "20000");
    assert!(out[0].starts_with("20000 messages of "), "{out:?}");
    assert_eq!(out[1], "20000 messages sent\n");
}

/// Builds the examples in C against an installed library.
fn examples_in(directory: &Path, prefix: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/c");
    run(Command::new("make")
        .arg("-C")
        .arg(&sources)
        .arg(format!("OUT={}", directory.display()))
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
}

#[test]
fn installed_c_examples_run_as_two_processes() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = install(directory.path());
    examples_in(directory.path(), &prefix);
    let daemon = daemon(directory.path());
    examples(&daemon, &prefix.join("lib"), directory.path());
}

/// The sides of an example that has nothing to do wait for each other, however late one of them connects.
#[test]
fn a_side_that_connects_late_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = install(directory.path());
    examples_in(directory.path(), &prefix);
    let daemon = daemon(directory.path());
    let program = directory.path().join("hashtable").display().to_string();
    let begin = |side: &str, place: &Path| {
        let place = place.display().to_string();
        let command = [program.clone(), side.into(), place, "0".into()];
        start(&daemon, &prefix.join("lib"), &command, Stdio::inherit())
    };
    // Each has its own directory: a token gets to the other side when the test takes it there.
    let places = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let carry = |side: &str, from: &Path, to: &Path| {
        while !from.join(side).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::rename(from.join(side), to.join(side)).expect("a token");
    };
    let mut owner = begin("owner", places[0].path());
    let mut writer = begin("writer", places[1].path());
    carry("writer", places[1].path(), places[0].path());
    // Time in which the owner could end, if it did not wait.
    std::thread::sleep(Duration::from_millis(200));
    carry("owner", places[0].path(), places[1].path());
    assert_eq!(ended(&mut writer, "writer"), "0 changes written\n");
    let whole = "0 changes, every value was whole\n";
    assert_eq!(ended(&mut owner, "owner"), whole);
}

#[test]
fn c_examples_tell_wrong_input_with_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = install(directory.path());
    examples_in(directory.path(), &prefix);
    let daemon = daemon(directory.path());
    let libraries = prefix.join("lib");
    wrong_tokens::are_refused(directory.path(), &libraries, &daemon);
    numbers_are_refused(directory.path(), &libraries);
}

/// Ticks of processor time that a process has had in its own code.
fn worked(process: &Running) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.0.id()));
    let stat = stat.expect("it runs");
    let fields = stat.rsplit_once(')').expect("a name").1;
    fields
        .split_ascii_whitespace()
        .nth(11)
        .and_then(|ticks| ticks.parse().ok())
        .expect("a number")
}

#[test]
fn c_examples_end_when_the_other_side_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = install(directory.path());
    examples_in(directory.path(), &prefix);
    let daemon = daemon(directory.path());
    for (program, sides) in [
        ("queue", ["sender", "receiver"]),
        ("queue", ["receiver", "sender"]),
        ("hashtable", ["owner", "writer"]),
        ("figure43", ["ping", "pong"]),
        ("figure43", ["pong", "ping"]),
    ] {
        let place = tempfile::tempdir().expect("a directory");
        let run = |side: &str, errors| {
            let name = directory.path().join(program).display().to_string();
            let place = place.path().display().to_string();
            let command = [name, side.into(), place, "9000000000000".into()];
            start(&daemon, &prefix.join("lib"), &command, errors)
        };
        let mut survivor = run(sides[0], Stdio::piped());
        let victim = run(sides[1], Stdio::inherit());
        // It works only once it is connected.
        while worked(&survivor) < 5 {
            assert_eq!(survivor.0.try_wait().expect("a child"), None);
            std::thread::yield_now();
        }
        drop(victim);
        let mut said = String::new();
        let mut pipe = survivor.0.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut pipe, &mut said).expect("text");
        let status = survivor.0.wait().expect("it ends");
        assert_eq!(
            (status.code(), said.lines().count()),
            (Some(1), 1),
            "{said}"
        );
        assert!(said.starts_with("error: the other side: "), "{said}");
    }
}

/// No example takes for a count what is none.
fn numbers_are_refused(examples: &Path, libraries: &Path) {
    let programs = [
        ("pingpong", "ping", "ROUNDS"),
        ("kvpush", "reader", "WRITES"),
        ("ring", "receive", "MESSAGES"),
        ("figure43", "ping", "LOOPS"),
        ("queue", "sender", "MESSAGES"),
        ("hashtable", "writer", "CHANGES"),
        ("matrix", "owner", "SIZE"),
    ];
    for (program, side, name) in programs {
        for number in ["", "x", "-1", " 1", "1x", "99999999999999999999"] {
            let out = Command::new(examples.join(program))
                .args([side, "nowhere", number])
                .env("LD_LIBRARY_PATH", libraries)
                .output()
                .expect("the example starts");
            let said = String::from_utf8_lossy(&out.stderr);
            let wanted = format!("error: {name} is \"{number}\"; write a whole number up to ");
            assert!(said.starts_with(&wanted), "{program}: {said}");
            assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1));
        }
    }
}
