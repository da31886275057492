// SPDX-License-Identifier: Apache-2.0
//! A skipped test is seen from outside, though it passes; where everything must run, it fails.

use std::process::{Command, Output};

/// Not tests of their own: the tests below look at what becomes of them.
mod inner {
    #[test]
    #[ignore = "another test starts it"]
    fn that_cannot_run() {
        skip::skip!("there is no {}", "moon");
    }

    #[test]
    #[ignore = "another test starts it"]
    fn that_takes_long() {
        assert!(!skip::long!());
    }
}

fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().expect("this test has a name"))
        .args(["--ignored", "--exact", test])
        .env_remove(skip::LONG)
        .env_remove(skip::REQUIRE_ALL)
        .envs(variables.iter().copied())
        .output()
        .expect("this test runs again")
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.starts_with("skipped: "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_skipped_test_passes_and_is_named() {
    for variables in [&[][..], &[(skip::REQUIRE_ALL, "0")]] {
        let output = run("inner::that_cannot_run", variables);
        assert!(output.status.success());
        assert_eq!(
            lines(&output),
            ["skipped: skip::inner::that_cannot_run: there is no moon"]
        );
    }
}

#[test]
fn where_everything_must_run_it_fails() {
    let output = run("inner::that_cannot_run", &[(skip::REQUIRE_ALL, "1")]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("there is no moon; IPNUMA_REQUIRE_ALL forbids it"),
        "{said}"
    );
}

#[test]
fn a_long_test_is_left_out_unless_it_is_asked_for() {
    let output = run("inner::that_takes_long", &[(skip::REQUIRE_ALL, "1")]);
    assert!(output.status.success());
    assert_eq!(lines(&output).len(), 1);
    let output = run("inner::that_takes_long", &[(skip::LONG, "1")]);
    assert!(!output.status.success(), "it ran");
    assert!(lines(&output).is_empty());
}
