// SPDX-License-Identifier: Apache-2.0
//! `ipnuma rfc2544` as its users meet it.

mod envelope;

use std::process::Command;

use envelope::result;
use serde_json::Value;

/// The report of a run that succeeds.
fn json(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .output()
        .expect("the command was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    result(arguments, &output.stdout)
}

/// A number of a JSON report.
fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {path} of {value}"))
}

#[test]
fn rfc2544_at_both_rates() {
    // Greatest latency that the switch may have, ns: section 5 of the design and the bounds below it.
    for (rate, byte_ns, v4, v6) in [("10g", 0.8, 105.6, 153.6), ("1g", 8.0, 432.0, 576.0)] {
        let directory = tempfile::tempdir().expect("a directory");
        let plots = directory.path().to_string_lossy();
        let report = json(&[
            "rfc2544", "--short", "--rate", rate, "--json", "--plot", &plots,
        ]);
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 4, "two families, two sizes");
        for row in rows {
            let bytes = number(row, "/bytes");
            let line_rate = 1e9 / (byte_ns * (bytes + 20.0));
            let measured = number(row, "/throughput/frames_per_second");
            assert!((measured / line_rate - 1.0).abs() < 0.01, "{row}");
            assert_eq!(number(row, "/throughput/load"), 1000.0);
            assert_eq!(number(row, "/loss/steps/0/lost"), 0.0);
            assert_eq!(number(row, "/back_to_back/frames"), number(row, "/frames"));
            let bound = if row["family"] == "v4" { v4 } else { v6 };
            assert!(number(row, "/latency/max_ns") <= bound, "{row}");
            assert_eq!(number(row, "/latency/frames"), 4.0 * number(row, "/frames"));
        }
        for sweep in report["sweeps"].as_array().expect("sweeps") {
            assert_eq!(sweep["constant"], true, "{sweep}");
            assert!(number(sweep, "/destinations") > 100.0, "{sweep}");
        }
        for row in report["congestion"].as_array().expect("rows") {
            assert_eq!(row["accounted"], true, "{row}");
            // The output is busy all the time, so that it sends as many frames as one input; behind the last of
            // them four frames of each input wait at most, `Waiting` of the switch.
            let inputs = row["inputs"].as_array().expect("inputs");
            let total =
                |what: &str| -> f64 { inputs.iter().map(|input| number(input, what)).sum() };
            let line = total("/sent") / 3.0;
            let more = total("/received") - line;
            assert!(
                (-1.0..=12.0).contains(&more),
                "{more} frames more than {line}: {row}"
            );
            let lost = 100.0 * (1.0 - total("/received") / total("/sent"));
            assert!((number(row, "/loss_percent") - lost).abs() < 1e-6, "{row}");
        }
        for name in ["throughput", "latency", "loss", "latency-histogram"] {
            let plot = directory.path().join(format!("{name}.svg"));
            let plot = std::fs::read_to_string(plot).expect("the plot");
            assert!(plot.starts_with("<svg"), "{name}");
        }
    }
}

#[test]
fn rfc2544_reads_a_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("routes.txt");
    let prefixes = "# a table\n192.0.2.0/24\n192.0.2.128/25\n203.0.113.7/32\n2001:db8::/32\n";
    std::fs::write(&path, prefixes).expect("it can be written");
    let path = path.to_string_lossy();
    let report = json(&["rfc2544", "--test", "sweep", "--routes", &path, "--json"]);
    // Four subnets of the switch's ports besides.
    assert_eq!(number(&report, "/table/routes4"), 7.0);
    assert_eq!(number(&report, "/table/routes6"), 5.0);
    let visited: Vec<_> = report["sweeps"]
        .as_array()
        .expect("sweeps")
        .iter()
        .map(|sweep| number(sweep, "/destinations"))
        .collect();
    assert_eq!(visited, [3.0, 1.0]);
    assert_eq!(report["rows"], Value::Array(Vec::new()));
}

#[test]
fn rfc2544_with_the_lookup_of_the_dissertation() {
    // 1G: its stages, 62 and 74, and the crossings in front of them and behind. 10G: 28 and 30 cycles, and the crossing, which
    // takes half a cycle by the lane in which a frame starts. The same for every frame.
    for (rate, [v4, v6]) in [
        ("1g", [[528.0, 528.0], [624.0, 624.0]]),
        ("10g", [[198.4, 201.6], [211.2, 214.4]]),
    ] {
        let report = json(&[
            "rfc2544",
            "--short",
            "--rate",
            rate,
            "--lookup",
            "sram22",
            "--test",
            "latency,sweep",
            "--json",
        ]);
        assert_eq!(report["lookup"], "sram22");
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 4, "two families, two sizes");
        for row in rows {
            let ns = if row["family"] == "v4" { v4 } else { v6 };
            let found = ["/latency/min_ns", "/latency/max_ns"].map(|end| number(row, end));
            assert!(ns[0] <= found[0] && found[1] <= ns[1], "{row}");
        }
        for sweep in report["sweeps"].as_array().expect("sweeps") {
            assert_eq!(sweep["constant"], true, "{sweep}");
            assert!(number(sweep, "/destinations") > 100.0, "{sweep}");
        }
    }
}
