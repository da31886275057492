// SPDX-License-Identifier: Apache-2.0
//! What calls of the socket library cost, as measured: `experiments/library.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cpu::CpuSpec;

const FILE: &str = include_str!("../../../experiments/library.toml");

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    /// What measures it.
    command: String,
    date: String,
    processor: String,
    /// By bytes of a message.
    send_ns: BTreeMap<String, f64>,
    recv_ns: BTreeMap<String, f64>,
    wait_ns: Waits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waits {
    epoll_wait: f64,
    poll: f64,
}

/// A call, and each KiB of its data.
struct Line {
    call_ns: f64,
    kib_ns: f64,
}

/// By bytes, shortest first.
fn by_bytes(points: &BTreeMap<String, f64>) -> Vec<(f64, f64)> {
    let mut sorted: Vec<_> = points
        .iter()
        .filter_map(|(bytes, ns)| Some((bytes.parse().ok()?, *ns)))
        .collect();
    sorted.sort_by(|one: &(f64, f64), other| one.0.total_cmp(&other.0));
    sorted
}

impl Line {
    /// Through the shortest and the longest.
    fn through(points: &BTreeMap<String, f64>) -> Self {
        let sorted = by_bytes(points);
        let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
            return Self {
                call_ns: 0.0,
                kib_ns: 0.0,
            };
        };
        let more = (last.0 - first.0).max(1.0);
        let byte_ns = ((last.1 - first.1) / more).max(0.0);
        Self {
            call_ns: (first.1 - byte_ns * first.0).max(0.0),
            kib_ns: 1024.0 * byte_ns,
        }
    }
}

fn file() -> Result<Measured, toml::de::Error> {
    toml::from_str(FILE)
}

/// What is charged for the library's calls, where it is: of a topology, nothing else.
///
/// # Panics
/// Never: the file is built in, and a test reads it.
pub fn measured() -> CpuSpec {
    let Ok(file) = file() else {
        unreachable!("experiments/library.toml is built in, and a test reads it")
    };
    let [send, recv] = [&file.send_ns, &file.recv_ns].map(Line::through);
    let ns = |ns: f64| Some(ns.round() as u64);
    CpuSpec {
        library_send_ns: ns(send.call_ns),
        library_send_kib_ns: ns(send.kib_ns),
        library_recv_ns: ns(recv.call_ns),
        library_recv_kib_ns: ns(recv.kib_ns),
        library_epoll_wait_ns: ns(file.wait_ns.epoll_wait),
        library_poll_ns: ns(file.wait_ns.poll),
        ..CpuSpec::default()
    }
}

/// Where it is from.
pub fn source() -> String {
    file().map_or_else(
        |_| String::new(),
        |file| {
            format!(
                "measured by {}, {}, {}",
                file.command, file.date, file.processor
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of itself by which a length that was measured may be off the line.
    const OFF: f64 = 0.25;

    #[test]
    fn the_lines_are_near_all_that_was_measured() {
        let file = file().expect("it is right");
        for points in [&file.send_ns, &file.recv_ns] {
            let line = Line::through(points);
            assert_eq!(by_bytes(points).len(), points.len());
            for (bytes, ns) in by_bytes(points) {
                let ours = line.call_ns + line.kib_ns * bytes / 1024.0;
                assert!(
                    (ours - ns).abs() <= OFF * ns,
                    "{bytes} bytes: {ours} ns, measured {ns}"
                );
            }
        }
    }

    #[test]
    fn every_call_costs_something_and_says_where_that_is_from() {
        let spec = measured();
        for ns in [
            spec.library_send_ns,
            spec.library_send_kib_ns,
            spec.library_recv_ns,
            spec.library_recv_kib_ns,
            spec.library_epoll_wait_ns,
            spec.library_poll_ns,
        ] {
            assert!(ns.is_some_and(|ns| (1..10_000).contains(&ns)), "{spec:?}");
        }
        // Nothing of what the dissertation has.
        assert_eq!(
            (spec.kernel_send_ns, spec.application_ns, spec.store_ns),
            (None, None, None)
        );
        assert!(source().contains("bench-sockets"), "{}", source());
    }

    #[test]
    fn a_line_goes_through_the_shortest_and_the_longest() {
        let points = [("1040", 300.0), ("16", 100.0), ("64", 1.0)];
        let points = points.map(|(bytes, ns)| (bytes.to_owned(), ns)).into();
        let line = Line::through(&points);
        assert!((line.kib_ns - 200.0).abs() < 1e-9 && (line.call_ns - 96.875).abs() < 1e-9);
    }
}
