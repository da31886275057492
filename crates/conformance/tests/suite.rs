// SPDX-License-Identifier: Apache-2.0
//! The whole suite over the kernel and over IP-NUMA.

#[allow(dead_code)]
mod support;

use std::process::Command;

#[test]
fn all_cases_agree() {
    let output = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["--compare", "--jobs", "4", "--library"])
        .arg(support::library())
        .output()
        .expect("conformance could not be run");
    let text = String::from_utf8_lossy(&output.stdout);
    let (good, rest): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.ends_with("ok  ok"));
    println!("{} cases agree\n{}", good.len(), rest.join("\n"));
    println!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "some cases do not agree");
}

#[test]
fn all_cases_agree_without_spinning() {
    let output = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["--only-library", "--jobs", "4", "--library"])
        .arg(support::library())
        .env("IPNUMA_SPIN_US", "0")
        .output()
        .expect("conformance could not be run");
    let text = String::from_utf8_lossy(&output.stdout);
    let bad: Vec<&str> = text.lines().filter(|line| !line.ends_with(" ok")).collect();
    println!(
        "{}\n{}",
        bad.join("\n"),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "some cases go wrong where every wait sleeps at once"
    );
}
