// SPDX-License-Identifier: Apache-2.0
//! Debian's Open MPI, unmodified, between Linux guests: by libfabric (`verbs;ofi_rxm`) and by UCX over UZURA in RTL, through FIBNIC in RTL, and
//! with the kernel's RoCEv2 in software at one end. Needs the kernel of `tools/uml-kernel --rdma`; without it this says so and ends.

mod rdma;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use rack::guests::UmlOutcome;
use rdma::{Device, kernel, run_hosts};

/// What Open MPI is told; [docs/uzura.md](../../../docs/uzura.md) says why.
const SETTINGS: &str = "\
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/run/agent\n\
    export OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_btl=self,vader\n";
/// By what it goes.
const LIBFABRIC: &str = "export OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi\n\
    export OMPI_MCA_mtl_ofi_provider_include='verbs;ofi_rxm'\n";
const UCX: &str = "export OMPI_MCA_pml=ucx UCX_TLS=rc_v,self UCX_USE_MT_MUTEX=y\n";

/// In place of ssh: a shell on the other guest that reads what it is to run. Open MPI's daemon there wants to find the agent, too.
const AGENT: &str = "cat > /run/agent <<'END'\n#!/bin/sh\nhost=$1\nshift\n\
    echo \"$*\" | exec socat -t 1000 - TCP:$host:5514\nEND\nchmod +x /run/agent\n";
const SHELL: &str = "socat TCP-LISTEN:5514,reuseaddr EXEC:sh\n";

/// A program of MPI, and by what it goes.
#[derive(Clone, Copy)]
struct Run<'a> {
    by: &'a str,
    /// Ranks of each guest.
    each: usize,
    command: &'a str,
    /// What the guests have as /run/programs.
    programs: &'a Path,
}

/// Guests with these devices, the first ranks in `n0`, in subnets of their own with FIBNIC between. Returns the outcome and what the ranks said.
fn mpi(devices: &[Device], run: Run) -> (UmlOutcome, String) {
    let Run {
        by,
        each,
        command,
        programs,
    } = run;
    let names: Vec<String> = (0..devices.len()).map(|at| format!("n{at}")).collect();
    let ranks = each * devices.len();
    let mount = format!(
        "{SETTINGS}{by}{AGENT}export FI_UNIVERSE_SIZE={ranks}\nmkdir /run/programs\nmount -t hostfs none /run/programs -o {}\n",
        programs.display()
    );
    // By Open MPI's clock nothing takes time before the machine is a second old.
    let addresses: Vec<String> = (0..devices.len())
        .map(|at| format!("10.0.{at}.1:{each}"))
        .collect();
    let first = format!(
        "{mount}sleep 1\nmpirun --host {} -np {ranks} {command}\n",
        addresses.join(",")
    );
    let mut text = String::new();
    let mut ports = String::new();
    for (at, (device, name)) in devices.iter().zip(&names).enumerate() {
        let command = match at {
            0 => first.clone(),
            _ => format!("{mount}{SHELL}"),
        };
        let host = device.host(name, &command);
        text += &host.replace("\"10g\"", &format!("\"10g\", ip = \"10.0.{at}.1\""));
        write!(
            ports,
            "{{ number = {at}, address = \"10.0.{at}.254/24\" }}, "
        )
        .expect("a string");
        write!(
            text,
            "[[cable]]\nbetween = [\"{name}\", \"sw:{at}\"]\nmetres = 1\n"
        )
        .expect("a string");
    }
    write!(
        text,
        "[[switch]]\nname = \"sw\"\nrate = \"10g\"\nports = {}\nport = [{ports}]\n",
        devices.len().next_power_of_two()
    )
    .expect("a string");
    let until: Vec<&str> = names.iter().map(String::as_str).collect();
    let outcome = run_hosts(&text, &until);
    let out = &outcome.guest("n0").expect("it is there").stdout;
    let out = String::from_utf8_lossy(out).into_owned();
    (outcome, out)
}

/// Compiles `mpi_check.c` into this directory.
fn compile(directory: &Path) {
    let status = Command::new("mpicc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(directory.join("mpi_check"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi_check.c"))
        .status()
        .expect("mpicc of Debian's libopenmpi-dev");
    assert!(status.success(), "mpi_check.c is not compiled");
}

/// That program, a rank in each guest, by libfabric.
fn check(programs: &Path) -> Run<'_> {
    Run {
        by: LIBFABRIC,
        each: 1,
        command: "/run/programs/mpi_check",
        programs,
    }
}

/// Half a round in microseconds, by messages' bytes.
fn half_round(out: &str, bytes: u32) -> f64 {
    let head = format!("{bytes} bytes: ");
    let line = out.lines().find_map(|line| line.strip_prefix(&head));
    line.and_then(|rest| rest.strip_suffix(" us")?.parse().ok())
        .unwrap_or_else(|| panic!("no time of {bytes} bytes is in:\n{out}"))
}

/// Three ranks through FIBNIC; the same frames twice.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn every_byte_of_three_ranks_is_right_and_the_same_twice() {
    if !kernel() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    compile(directory.path());
    let run = || mpi(&[Device::Uzura; 3], check(directory.path()));
    let (outcome, out) = run();
    assert!(out.contains("every byte was right"), "{out}");
    // fi_pingpong takes 2.80 us for 64 bytes over a cable. 64 KB are read by the receiver, at most at the line's rate.
    let (short, long) = (half_round(&out, 16), half_round(&out, 1 << 16));
    assert!((2.8..8.0).contains(&short), "{short} us for 16 bytes");
    assert!((52.4..120.0).contains(&long), "{long} us for 64 KB");
    assert_eq!(outcome.digest(), run().0.digest(), "two runs are the same");
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn the_kernels_rocev2_is_a_rank_of_it() {
    if !kernel() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    compile(directory.path());
    for devices in [
        [Device::Software, Device::Uzura],
        [Device::Uzura, Device::Software],
    ] {
        let (_, out) = mpi(&devices, check(directory.path()));
        assert!(out.contains("every byte was right"), "{out}");
    }
}

/// The benchmark that comes with mpi4py: a token goes around a ring.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn mpi_for_python_runs_over_it() {
    if !kernel() {
        return;
    }
    let run = Run {
        command: "python3 -m mpi4py.bench ringtest -l 20 -n 1000",
        ..check(Path::new("/tmp"))
    };
    let (_, out) = mpi(&[Device::Uzura; 2], run);
    assert!(
        out.contains("(2 processes, 1000 bytes)"),
        "no result is in:\n{out}"
    );
}

/// Two ranks in each of two guests: those of one reach each other over its NIC, too. By UCX each rank reaches itself.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn ranks_of_one_guest_and_ucx() {
    if !kernel() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    compile(directory.path());
    let check = check(directory.path());
    for run in [Run { each: 2, ..check }, Run { by: UCX, ..check }] {
        let (_, out) = mpi(&[Device::Uzura; 2], run);
        assert!(out.contains("every byte was right"), "{out}");
        let short = half_round(&out, 16);
        assert!((2.8..8.0).contains(&short), "{short} us for 16 bytes");
    }
}
