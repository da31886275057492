// SPDX-License-Identifier: Apache-2.0
//! A host that waits for the stores of another.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use super::{Options, build, pingpong_config};
use crate::error::Error;
use crate::model::Hardware;
use crate::record::Recorder;
use crate::time::Picoseconds;
use crate::topology::Topology;
use crate::waiting::{self, Plan, Waiting};

/// What came out.
#[derive(Debug)]
pub struct WaitingOutcome {
    /// What the programs saw.
    pub waiting: Waiting,
    /// Everything that was seen.
    pub record: Recorder,
    /// Simulated time of the whole run.
    pub simulated: Picoseconds,
    /// Seconds that it took.
    pub wall_seconds: f64,
}

/// The first host of a topology stores to the second, which waits; the topology's own program is not run.
pub fn run_waiting(
    topology: &Topology,
    plan: &Plan,
    options: &Options,
    hardware: &dyn Hardware,
) -> Result<WaitingOutcome, Error> {
    let (sender, receiver) = (0, 1);
    let mut rack = build(topology, options, hardware, (sender, receiver))?.rack;
    rack.record.tracing = false;
    let shared = Rc::new(RefCell::new(Waiting::default()));

    let config = pingpong_config(topology, sender, receiver);
    let program = waiting::send(
        rack.host(sender).api(),
        config,
        plan.clone(),
        Rc::clone(&shared),
    );
    rack.host(sender).run(Box::pin(program));

    let mut config = pingpong_config(topology, receiver, sender);
    config.registers.extend(waiting::registers(plan));
    for region in config
        .peers
        .iter_mut()
        .filter_map(|peer| peer.region.as_mut())
    {
        region.notify = true;
    }
    let program = waiting::receive(
        rack.host(receiver).api(),
        config,
        plan.clone(),
        Rc::clone(&shared),
    );
    rack.host(receiver).run(Box::pin(program));
    rack.host(receiver).watch(waiting::watcher(&shared));

    let began = Instant::now();
    rack.start();
    rack.run()?;
    Ok(WaitingOutcome {
        waiting: shared.take(),
        simulated: rack.now(),
        record: rack.record,
        wall_seconds: began.elapsed().as_secs_f64(),
    })
}
