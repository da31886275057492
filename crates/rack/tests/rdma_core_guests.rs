// SPDX-License-Identifier: Apache-2.0
//! rdma-core's own tests of verbs, as Debian's `python3-pyverbs` has them, in a guest with UZURA in RTL and in one with the kernel's
//! RoCEv2 in software: what passes over that passes over UZURA, or asks for what UZURA does not have ([which](../../../docs/uzura.md#what-is-missing)).
//! Needs the kernel of `tools/uml-kernel --rdma`; without it this says so and ends.

mod rdma;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rdma::{Device, kernel, run_hosts};

/// Where the package puts them.
const PACKAGE: &str = "/usr/share/doc/rdma-core/tests";

/// Both ends of a test are the same machine.
const MODULES: &[&str] = &[
    "device",
    "pd",
    "mr",
    "addr",
    "cq",
    "cq_events",
    "cqex",
    "qp",
    "qpex",
    "atomic",
    "odp",
    "parent_domain",
    "relaxed_ordering",
    "shared_pd",
    "fork",
];

/// What UZURA has no part of: memory windows.
const NOT_THERE: &[&str] = &[
    "MW is not supported",
    "Create memory window",
    "Extended QP is not supported",
];

/// Over rxe this one takes all memory of a guest: it asks for queues of a million requests.
const TOO_LARGE: &str = "qp";

/// The package's tests, unpacked, with what they can't be without.
fn unpacked() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(
        Path::new(PACKAGE).join("run_tests.py").exists(),
        "{PACKAGE} is not there: install python3-pyverbs, with its documentation"
    );
    let status = Command::new("sh")
        .args([
            "-c",
            "cp -r \"$0\" \"$1\" && gunzip \"$1\"/tests/*.gz",
            PACKAGE,
        ])
        .arg(directory.path())
        .status()
        .expect("a shell");
    assert!(status.success(), "the tests are not unpacked");
    directory
}

/// Runs them in a guest; returns each verdict by module and name.
fn verdicts(device: Device, directory: &Path) -> BTreeMap<String, String> {
    let mut modules = MODULES.to_vec();
    modules.retain(|module| device == Device::Uzura || *module != TOO_LARGE);
    let command = format!(
        "mkdir /run/tests\nmount -t hostfs none /run/tests -o {}\ncd /run/tests\n\
         export PYTHONDONTWRITEBYTECODE=1\nfor module in {}\ndo\necho \"== $module\"\n\
         timeout -s KILL 5 python3 tests/run_tests.py -v --dev DEVICE --gid 1 --port 1 tests.test_$module 2>&1 || true\ndone\n",
        directory.display(),
        modules.join(" ")
    );
    let text = format!(
        "{}{}[[cable]]\nbetween = [\"one\", \"other\"]\nmetres = 1\n",
        device.host("one", &command),
        device.host("other", "true"),
    );
    let outcome = run_hosts(&text, &["one"]);
    let out = String::from_utf8_lossy(&outcome.guest("one").expect("it is there").stdout);
    let mut module = "";
    let mut found = BTreeMap::new();
    for line in out.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            module = name;
        } else if let Some((name, verdict)) = line.split_once(" ... ") {
            found.insert(format!("{module}: {name}"), verdict.to_owned());
        }
    }
    found
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn what_passes_over_software_passes_over_it() {
    if !kernel() {
        return;
    }
    let directory = unpacked();
    let here = verdicts(Device::Uzura, directory.path());
    let there = verdicts(Device::Software, directory.path());
    let is_excused = |verdict: &str| {
        verdict.starts_with("skipped") && NOT_THERE.iter().any(|reason| verdict.contains(reason))
    };
    let count = |found: &BTreeMap<String, String>| {
        found.values().filter(|verdict| *verdict == "ok").count()
    };
    println!("{} pass, {} over software", count(&here), count(&there));
    for (name, verdict) in &here {
        assert!(
            verdict == "ok" || verdict.starts_with("skipped"),
            "{name}: {verdict}"
        );
    }
    for (name, _) in there.iter().filter(|(_, verdict)| *verdict == "ok") {
        let verdict = here.get(name).map_or("not run", String::as_str);
        assert!(verdict == "ok" || is_excused(verdict), "{name}: {verdict}");
    }
    assert!(count(&here) >= 60, "most of them did not run");
}
