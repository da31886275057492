// SPDX-License-Identifier: Apache-2.0
//! The command as its users meet it.

mod envelope;

use std::path::Path;
use std::process::{Command, Output};

use envelope::result;
use serde_json::Value;

fn ipnuma(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .output()
        .expect("the command was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn good(arguments: &[&str]) -> String {
    let output = ipnuma(arguments);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    text(&output.stdout)
}

fn json(arguments: &[&str]) -> Value {
    result(arguments, good(arguments).as_bytes())
}

#[test]
fn wrong_input_is_one_sentence_and_status_2() {
    for (arguments, sentence) in [
        (
            &["pingpong", "--bytes", "6"][..],
            "error: --bytes: 6 is not a multiple of 4 from 4 to 64\n",
        ),
        (
            &["pingpong", "--loops", "0"],
            "error: --loops: 0 is not from 1 to 100000000\n",
        ),
        (
            &["pingpong", "--cable-m=-3"],
            "error: --cable-m (or --metres): -3 is no length; write 0 to 100000\n",
        ),
        (
            &["pingpong", "--switches", "17"],
            "error: --switches: 17 are too many; write 0 to 16\n",
        ),
        (
            &["pingpong", "--platform", "cray-1"],
            "error: there is no platform `cray-1`; choose keio-2016 or modern or keio-2016-fitted, or give the path of a .toml file\n",
        ),
        (
            &["paper", "--only", "table-9.9"],
            "error: --only: there is no experiment `table-9.9`; choose from table-1.6, table-3.2, table-3.3, table-3.4, \
             figure-3.5, figure-3.6, figure-3.7, figure-3.8, figure-4.4, table-4.5, table-4.6, \
             table-5.2, table-5.3, table-5.4, table-5.5, table-6.3, table-6.4, table-6.5, table-6.6, table-6.7, \
             table-6.8, figure-6.13, figure-6.14, figure-6.15, figure-6.16, figure-6.17, figure-6.18, figure-5.10, \
             congestion, resend, incast, interrupts, clients, headlines, hitachi-figure-8, hitachi-table-3\n",
        ),
        (
            &["rfc2544", "--routes", "0"],
            "error: --routes: 0 made-up routes are too few or too many; choose 1 to 1300000\n",
        ),
        (
            &["rfc2544", "--routes", "/no/routes"],
            "error: --routes: cannot read /no/routes: No such file or directory (os error 2); \
             crates/fib/tools/fetch-routes brings a real table\n",
        ),
    ] {
        let output = ipnuma(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stderr), sentence);
        assert_eq!(text(&output.stdout), "");
    }
    for arguments in [
        &["pingpong", "--rate", "40g"][..],
        &["pingpong", "--topology", "t.toml", "--bytes", "4"],
        &["pingpong", "--topology", "t.toml", "--switches", "1"],
        &["nic-latency", "--step-ps", "1"],
        &["rfc2544", "--sizes", "63"],
        &["rfc2544", "--ports", "1"],
        &["rfc2544", "--frames", "1"],
        &["rfc2544", "--short", "--sizes", "64"],
        &["fly"],
        &[],
    ] {
        assert_eq!(ipnuma(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn wrong_topologies_name_file_line_and_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.toml");
    std::fs::write(
        &path,
        "platform = \"keio-2016\"\nhost = []\ncable = []\nspeed = 1\n",
    )
    .expect("it can be written");
    let path = path.to_string_lossy();
    let output = ipnuma(&["pingpong", "--topology", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        format!(
            "error: {path}, line 4: there is no key `speed`; the keys are platform, seed, host, switch, cable, cpu, register, program\n"
        )
    );
}

#[test]
fn a_run_is_repeatable_and_skipping_changes_nothing() {
    let run = |more: &[&str]| {
        let mut arguments = vec!["pingpong", "--loops", "30", "--seed", "7", "--json"];
        arguments.extend(more);
        json(&arguments)
    };
    let (one, two, awake) = (run(&[]), run(&[]), run(&["--no-skip"]));
    assert_eq!(one, two);
    assert_eq!(one["run_hash"], awake["run_hash"]);
    assert_eq!(one["round_trip_ns"], awake["round_trip_ns"]);
    let stages = one["stages"].as_array().expect("stages are a list");
    let sum: f64 = stages
        .iter()
        .filter_map(|stage| stage["mean_ns"].as_f64())
        .sum();
    let mean = one["one_way_ns"]["mean"].as_f64().expect("a number");
    assert!((sum - mean).abs() < 1e-6, "{sum} and {mean}");
}

#[test]
fn the_example_topology_is_the_default_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments/topologies/ping-pong-10g.toml");
    let file = json(&["pingpong", "--json", "--topology", &root.to_string_lossy()]);
    let default = json(&["pingpong", "--json"]);
    assert_eq!(file["run_hash"], default["run_hash"]);
}

#[test]
fn the_example_topologies_with_switches_are_the_runs_of_the_options() {
    for (name, switches, metres) in [("in-rack", "1", "20"), ("between-racks", "4", "200")] {
        let file = format!("../../experiments/topologies/ping-pong-{name}.toml");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let file = json(&["pingpong", "--json", "--topology", &file.to_string_lossy()]);
        let options = json(&["pingpong", "--json", "--switches", switches]);
        assert_eq!(file["run_hash"], options["run_hash"], "{name}");
        // The metres of the file are those of the option's default.
        let given = json(&[
            "pingpong",
            "--json",
            "--switches",
            switches,
            "--metres",
            metres,
        ]);
        assert_eq!(file["run_hash"], given["run_hash"], "{name}");
    }
}

#[test]
fn switches_are_stages_of_their_own() {
    for rate in ["10g", "1g"] {
        for count in [1, 4] {
            let switches = count.to_string();
            let arguments = ["--loops", "10", "--rate", rate, "--switches", &switches];
            let mut arguments = [&["pingpong", "--json"][..], &arguments].concat();
            let one = json(&arguments);
            arguments.push("--no-skip");
            assert_eq!(one["run_hash"], json(&arguments)["run_hash"]);
            let stages = one["stages"].as_array().expect("stages are a list");
            let mean = |stage: &Value| stage["mean_ns"].as_f64().expect("a number");
            let sum: f64 = stages.iter().map(mean).sum();
            let all = mean_of(&one["one_way_ns"]);
            assert!((sum - all).abs() < 1e-6, "{sum} and {all}");
            let name = |stage: &&Value| {
                let name = stage["name"].as_str().expect("a name");
                name.starts_with("switch sw")
            };
            assert_eq!(stages.iter().filter(name).count(), count);
            let rows = one["switches"].as_array().expect("switches are a list");
            assert_eq!(rows.len(), count);
            // The bounds of the latency from pins to pins; the first of these cycles is the wait for the edge.
            let most = if rate == "10g" { 16.0 } else { 54.0 };
            for row in rows {
                let cycles = row["max_cycles"].as_f64().expect("a number");
                assert!(cycles + 1.0 <= most, "{rate}: {row}");
                assert_eq!(row["min_cycles"], row["max_cycles"], "{rate}: {row}");
            }
        }
    }
}

fn mean_of(summary: &Value) -> f64 {
    summary["mean"].as_f64().expect("a number")
}

#[test]
fn files_of_a_run_with_switches() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (trace, pcap, waves) = (path("t.json"), path("p.pcapng"), path("waves.fst"));
    good(&[
        "pingpong",
        "--switches",
        "2",
        "--loops",
        "5",
        "--warmup",
        "1",
        "--trace",
        &trace,
        "--pcap",
        &pcap,
        "--waves",
        &waves,
    ]);
    let trace = std::fs::read_to_string(trace).expect("the timeline");
    let trace: Value = serde_json::from_str(&trace).expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    // 6 round trips of 2 packets, each through 2 switches.
    let forwards = events.iter().filter(|event| event["name"] == "forward");
    let tracks: Vec<_> = forwards.map(|event| event["pid"].as_u64()).collect();
    assert_eq!(tracks.len(), 24);
    for track in [2, 3] {
        let here = tracks.iter().filter(|pid| **pid == Some(track));
        assert_eq!(here.count(), 12);
    }
    let named = |name: &str| {
        let is_it = |event: &&Value| event["args"]["name"] == name;
        events.iter().find(is_it).map(|event| event["pid"].clone())
    };
    assert_eq!(named("sw1"), Some(2.into()));
    assert_eq!(named("sw2"), Some(3.into()));
    let pcap = std::fs::read(pcap).expect("the capture");
    for name in ["pc1 cable", "sw1:0 cable", "sw2:1 cable"] {
        let found = pcap
            .windows(name.len())
            .any(|bytes| bytes == name.as_bytes());
        assert!(found, "{name}");
    }
    for name in ["pc1", "pc2", "sw1", "sw2"] {
        let file = Path::new(&waves).with_extension(format!("{name}.fst"));
        let length = std::fs::metadata(file).expect("waves").len();
        assert!(length > 1_000, "{name}: {length} bytes of waves");
    }
}

#[test]
fn files_are_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (trace, pcap, waves) = (path("t.json"), path("p.pcapng"), path("waves.fst"));
    good(&[
        "pingpong", "--loops", "5", "--warmup", "1", "--trace", &trace, "--pcap", &pcap, "--waves",
        &waves,
    ]);
    let trace = std::fs::read_to_string(trace).expect("the timeline");
    let trace: Value = serde_json::from_str(&trace).expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    // 6 round trips of 2 packets; each flow begins and ends once.
    assert_eq!((count("s"), count("f"), count("X")), (12, 12, 84));
    let pcap = std::fs::read(pcap).expect("the capture");
    assert_eq!(
        pcap[..4],
        [0x0A, 0x0D, 0x0D, 0x0A],
        "a pcapng section header"
    );
    for host in ["pc1", "pc2"] {
        let file = Path::new(&waves).with_extension(format!("{host}.fst"));
        let length = std::fs::metadata(file).expect("waves").len();
        assert!(length > 1_000, "{host}: {length} bytes of waves");
    }
}

#[test]
fn output_fits_a_terminal() {
    for arguments in [
        &["pingpong", "--loops", "20"][..],
        &[
            "pingpong", "--loops", "20", "--rate", "1g", "--format", "tlp", "--bytes", "64",
        ],
        &["pingpong", "--loops", "20", "--platform", "modern"],
        &["pingpong", "--loops", "5", "--switches", "4"],
        &[
            "pingpong",
            "--loops",
            "5",
            "--switches",
            "1",
            "--rate",
            "1g",
        ],
        &["nic-latency", "--step-ps", "1600"],
        &["paper", "--only", "figure-3.8"],
        &["platform", "modern"],
        &["rfc2544", "--short"],
    ] {
        let out = good(arguments);
        for line in out.lines() {
            // Addresses of sources can't be broken.
            assert!(
                line.chars().count() <= 100 || line.contains("https://"),
                "{line}"
            );
            assert_eq!(line, line.trim_end());
        }
        assert!(!out.contains('\u{1b}'), "no colours");
    }
}

#[test]
fn every_experiment_comes_out_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    // Hosts with a kernel have tests of their own.
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .env("IPNUMA_UML_KERNEL", "/nonexistent")
        .args(["paper", "--json", "--loops", "100", "--experiments"])
        .arg(&root)
        .output()
        .expect("the command was built for this test");
    let (found, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}{found}");
    let from_files = result(&["paper"], &output.stdout);
    let sections = from_files["sections"].as_array().expect("a list").iter();
    let mut ids: Vec<_> = sections
        .filter_map(|section| section["id"].as_str())
        .collect();
    let known = text(&ipnuma(&["paper", "--only", "nothing"]).stderr);
    let known = known.trim().rsplit_once("choose from ");
    let mut built_in: Vec<_> = known.expect("a list").1.split(", ").collect();
    ids.sort_unstable();
    built_in.sort_unstable();
    assert_eq!(ids, built_in, "every folder is built in");
}

#[test]
fn figure_3_8() {
    let expected = "\
figure-3.8: Estimate of the hardware latency, without NIC logic and software
  Recomputed from the constants of the platform; nothing is simulated.

                                     paper      ours  unit       difference   how
  RDMA, 64 B                          1245      1237  ns             -0.6 %   constants only
      223 + 479 + 300 + 235; the author's own sum implies 308 for PHY/FIFO at 64 B, and 300 at 4 B.
  RDMA, 4 B                           1213      1213  ns              0.0 %   constants only
  IP-NUMA, 64 B                        778       770  ns             -1.0 %   constants only
      235 + 300 + 235; the author's own sum implies 308 for PHY/FIFO at 64 B.
  IP-NUMA, 4 B                         746       746  ns              0.0 %   constants only

4 rows ran, 4 as the experiments expect, 0 not (marked !); 0 not run.
";
    assert_eq!(good(&["paper", "--only", "figure-3.8"]), expected);
}
