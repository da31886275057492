// SPDX-License-Identifier: Apache-2.0
//! `ipnuma offload` as its users meet it.

mod envelope;

use std::process::{Command, Output};

use envelope::result;
use serde_json::Value;

fn ipnuma(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .output()
        .expect("the command was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

fn json(arguments: &[&str]) -> Value {
    result(arguments, &ipnuma(arguments).stdout)
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {path} of {value}"))
}

#[test]
fn the_evaluation_has_the_documents_figures_goals_and_plots() {
    let directory = tempfile::tempdir().expect("a directory");
    let plots = directory.path().to_string_lossy();
    let arguments = ["offload", "--short", "--json", "--plot", &plots];
    let report = json(&arguments);
    let goals = report["goals"].as_array().expect("goals");
    assert!(goals.len() >= 10, "{goals:?}");
    for goal in goals {
        assert_eq!(goal["holds"], true, "{goal}");
    }
    let tables = report["tables"].as_array().expect("tables");
    let rows = |id: &str| {
        let table = tables.iter().find(|table| table["id"] == id);
        table.unwrap_or_else(|| panic!("no table {id}"))["rows"]
            .as_array()
            .expect("rows")
    };
    assert_eq!(rows("figure-8").len(), 8);
    let published: Vec<_> = rows("table-3")
        .iter()
        .filter_map(|row| row["published_gbps"].as_f64())
        .collect();
    assert_eq!(published, [0.175, 8.6]);
    for row in rows("table-3") {
        let percent = number(row, "/outcome/ceiling_percent");
        let goodput = number(row, "/outcome/goodput_gbps");
        let ceiling = number(row, "/outcome/ceiling_gbps");
        assert!((percent - 100.0 * goodput / ceiling).abs() < 1e-6, "{row}");
    }
    for name in ["figure-8", "windows", "lag", "analyzers", "corruption"] {
        let plot = directory.path().join(format!("{name}.svg"));
        let plot = std::fs::read_to_string(plot).expect("the plot");
        assert!(plot.contains("<svg") && plot.contains("64x1"), "{name}");
    }
    // The same input, the same output.
    assert_eq!(json(&arguments), report);
}

#[test]
fn a_sweep_has_all_combinations_and_no_goals() {
    let arguments = [
        "offload",
        "--duration",
        "5",
        "--policy",
        "counter,8x8",
        "--mix",
        "1024,1024/8192",
        "--window",
        "64,128",
        "--seed",
        "9",
    ];
    let report = json(&[&arguments[..], &["--json"]].concat());
    assert_eq!(report["goals"], Value::Array(Vec::new()));
    let rows = report["tables"][0]["rows"].as_array().expect("rows");
    let of = |row: &Value| {
        let scenario = &row["outcome"]["scenario"];
        format!(
            "{} {} {}",
            scenario["mix"], scenario["policy"], scenario["window"]
        )
    };
    let mut all: Vec<_> = rows.iter().map(of).collect();
    all.dedup();
    assert_eq!(all.len(), 8, "{all:?}");
    let text = String::from_utf8(ipnuma(&arguments).stdout).expect("text");
    assert_eq!(text.matches("1024/8192").count(), 4, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}
