// SPDX-License-Identifier: Apache-2.0
//! Files with wrong tokens, given to the examples: exit status 2, and one line with what is wrong, the file and the remedy.
//! The examples in C are tried with the same ones.

use std::path::Path;
use std::process::Command;

use host::{Config, Device, Region, Rights};

/// Bytes of a ring of eight lines, which a window may have, too.
const RING: usize = 4096 + 8 * 64;

/// Tokens of a process that lives, but for the last one's region.
struct Tokens {
    /// Of a window, and right.
    window: [u8; 64],
    /// Taken back by its owner.
    revoked: [u8; 64],
    /// Of a region that there is no more.
    gone: [u8; 64],
    _regions: [Region; 2],
}

impl Tokens {
    fn new(device: &Device) -> Self {
        let [window, other, gone] = [(); 3].map(|()| device.alloc(RING).expect("memory"));
        let export = |region: &Region, bytes| {
            let token = region.export(0..bytes, Rights::Write, None);
            token.expect("it is exported")
        };
        let revoked = export(&other, RING);
        other.revoke(&revoked).expect("it is taken back");
        Self {
            window: export(&window, 64).to_bytes(),
            revoked: revoked.to_bytes(),
            gone: export(&gone, RING).to_bytes(),
            _regions: [window, other],
        }
    }
}

/// What is in the file, what is to be said of it, and what would help. A directory instead of a file is `None`.
type Case = (Option<Vec<u8>>, &'static str, &'static str);

fn cases(tokens: &Tokens) -> Vec<Case> {
    let changed = |at: usize, value: u8| {
        let mut bytes = tokens.window.to_vec();
        bytes[at] = value;
        bytes
    };
    let text: String = tokens.window.map(|byte| format!("{byte:02x}")).concat();
    let window = &tokens.window[..];
    let file = |(bytes, what, remedy): (Vec<u8>, _, _)| (Some(bytes), what, remedy);
    let mut cases = Vec::from(
        [
            (Vec::new(), "0 bytes instead of 64", "pass on all"),
            (
                window[..63].to_vec(),
                "63 bytes instead of 64",
                "pass on all",
            ),
            (
                [window, b"\n"].concat(),
                "65 bytes instead of 64",
                "nothing else",
            ),
            (text.into_bytes(), "128 bytes instead of 64", "nothing else"),
            (changed(0, b'i'), "begin with IPNT", "pass on the bytes"),
            (vec![0; 64], "begin with IPNT", "pass on the bytes"),
            (changed(4, 2), "version 2", "install the same"),
            (changed(40, !window[40]), "damaged", "fetch it again"),
            (changed(63, !window[63]), "damaged", "fetch it again"),
            (tokens.revoked.to_vec(), "revoked", "fetch a new one"),
            (tokens.gone.to_vec(), "no such token", "Fetch a new one"),
        ]
        .map(file),
    );
    cases.push((None, "directory", "name the file"));
    cases
}

/// Tries all files with all examples in a folder, whose libraries are in another one.
pub fn are_refused(examples: &Path, libraries: &Path, daemon: &daemon::Running) {
    let device = Device::open(&Config {
        daemon: daemon.socket().to_owned(),
        ..Config::default()
    });
    let tokens = Tokens::new(&device.expect("the daemon lets us in"));
    let own = |program, side| (program, side, "");
    // The ping-pong is given a directory, in which the other side's file is.
    let programs = [
        own("kvpush", "writer"),
        own("ring", "send"),
        ("pingpong", "ping", "pong"),
    ];
    let mut failures = Vec::new();
    for (program, side, inside) in programs {
        let mut cases = cases(&tokens);
        if program == "ring" {
            cases.push((
                Some(tokens.window.to_vec()),
                "not a ring's",
                "came with the ring",
            ));
        }
        for (bytes, what, remedy) in cases {
            let directory = tempfile::tempdir().expect("a directory");
            let file = match inside {
                "" => directory.path().join("token"),
                inside => directory.path().join(inside),
            };
            match bytes {
                Some(bytes) => std::fs::write(&file, bytes),
                None => std::fs::create_dir(&file),
            }
            .expect("it can be made");
            let given = if inside.is_empty() {
                &*file
            } else {
                directory.path()
            };
            let mut command = Command::new(examples.join(program));
            command.arg(side).arg(given).arg("1");
            command
                .env("IPNUMA_DAEMON", daemon.socket())
                .env("LD_LIBRARY_PATH", libraries)
                .env("IPNUMA_CONFIG", "/dev/null")
                .env_remove("IPNUMA_BACKEND");
            let output = command.output().expect("the example starts");
            let said = String::from_utf8_lossy(&output.stderr);
            let begin = format!("error: {}: ", file.display());
            let good = output.status.code() == Some(2)
                && output.stdout.is_empty()
                && said.lines().count() == 1
                && said.starts_with(&begin)
                && said.contains(what)
                && said.contains(remedy);
            if !good {
                let status = output.status;
                failures.push(format!(
                    "{program}, {status}: want {what:?} and {remedy:?} in {said:?}"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
