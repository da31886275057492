// SPDX-License-Identifier: Apache-2.0
//! What guests cost on this machine: a boot, one turn of the calendar, a frame.
//!
//! `cargo run --release -p uml --example cost` prints wall time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use uml::{DeviceSpec, Guest, GuestEvent, GuestSpec, Next, OneCpu};

const BEFORE: &str = "#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc none /proc
mount -t sysfs none /sys
";
const AFTER: &str = "
echo o >/proc/sysrq-trigger
sleep 1000
";
/// A program that sleeps; each sleep is one turn and a little more.
const TURNS: &str = "perl -e 'select(undef, undef, undef, 1e-6) for 1 .. 20000'";
/// Datagrams to a neighbour that never answers.
const FRAMES: &str = "ip link set eth0 up
ip address add 10.0.0.1/24 dev eth0
ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0
perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0); my $to = pack_sockaddr_in(9, inet_aton(\"10.0.0.2\"));
send(S, \"x\" x 64, 0, $to) for 1 .. 20000'";

struct Cost {
    seconds: f64,
    turns: u64,
    events: u64,
}

fn run(
    commands: &str,
    devices: Vec<DeviceSpec>,
    window: u64,
) -> Result<Cost, Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("uml-cost-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let init = directory.join("init.sh");
    fs::write(&init, format!("{BEFORE}{commands}{AFTER}"))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let start = Instant::now();
    let mut guest = Guest::start(GuestSpec {
        name: "cost".into(),
        kernel: uml::kernel()?,
        memory_mb: 128,
        directory: directory.clone(),
        init,
        parameters: vec![],
        devices,
        counter: false,
        id: 1,
    })?;
    let (mut cost, mut events) = (
        Cost {
            seconds: 0.0,
            turns: 0,
            events: 0,
        },
        Vec::new(),
    );
    while let Next::At(now) = guest.next() {
        guest.run(now, now + window, 500, &mut events)?;
        cost.turns += 1;
        cost.events += events
            .drain(..)
            .filter(|timed| !matches!(timed.event, GuestEvent::Exited { .. }))
            .count() as u64;
    }
    cost.seconds = start.elapsed().as_secs_f64();
    fs::remove_dir_all(directory)?;
    Ok(cost)
}

/// The cheapest of three: other work on the machine only adds.
fn best(
    commands: &str,
    devices: &[DeviceSpec],
    window: u64,
) -> Result<Cost, Box<dyn std::error::Error>> {
    let mut costs = (0..3)
        .map(|_| run(commands, devices.to_vec(), window))
        .collect::<Result<Vec<_>, _>>()?;
    costs.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    Ok(costs.swap_remove(0))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _one = OneCpu::here()?;
    let boot = best("", &[], 1 << 40)?;
    println!(
        "boot to init and halt        {:7.3} s, {} turns",
        boot.seconds, boot.turns
    );
    let free = best(TURNS, &[], 1 << 40)?;
    println!(
        "the same and 20,000 sleeps   {:7.3} s, {} turns",
        free.seconds, free.turns
    );
    let turns = best(TURNS, &[], 0)?;
    println!(
        "with a turn for each         {:7.3} s, {} turns: {:.1} us a turn",
        turns.seconds,
        turns.turns,
        (turns.seconds - free.seconds) * 1e6 / (turns.turns - free.turns) as f64
    );
    let network = [DeviceSpec::Network {
        mac: [2, 0, 0, 0, 0, 1],
    }];
    let frames = best(FRAMES, &network, 1 << 40)?;
    println!(
        "20,000 datagrams             {:7.3} s, {} turns, {} frames: {:.1} us a frame",
        frames.seconds,
        frames.turns,
        frames.events,
        (frames.seconds - boot.seconds) * 1e6 / frames.events as f64
    );
    Ok(())
}
