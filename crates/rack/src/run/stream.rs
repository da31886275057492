// SPDX-License-Identifier: Apache-2.0
//! One host or several that store to another without a pause.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use super::{Options, build, nic_config, peer};
use crate::error::Error;
use crate::faults::FaultCounts;
use crate::model::Hardware;
use crate::nic::Effort;
use crate::pingpong;
use crate::record::Recorder;
use crate::setup::{Pages, Peer, Region};
use crate::stream::{self, Sender, Stream};
use crate::time::Picoseconds;
use crate::topology::{ProgramSpec, Topology};

/// What came out of a stream.
#[derive(Debug)]
pub struct StreamOutcome {
    /// What the programs saw.
    pub stream: Stream,
    /// What happened on the cables.
    pub faults: FaultCounts,
    /// Everything that was seen.
    pub record: Recorder,
    /// What was simulated.
    pub effort: Effort,
    /// Simulated time of the whole run.
    pub simulated: Picoseconds,
    /// Seconds that it took.
    pub wall_seconds: f64,
}

/// Runs the stream of a topology.
pub fn run_stream(
    topology: &Topology,
    options: &Options,
    hardware: &dyn Hardware,
) -> Result<StreamOutcome, Error> {
    let ProgramSpec::Stream {
        from,
        to,
        bytes,
        stores,
        rate_gbps,
    } = topology.program.as_ref()
    else {
        return Err(Error::Config(
            "program.kind: this is no stream; run it with ipnuma pingpong, or ipnuma rack if its hosts are guests"
                .to_owned(),
        ));
    };
    let number = |name: &str| topology.host_index(name).expect("the topology was checked");
    let sink = number(to);
    let senders: Vec<usize> = from.iter().map(|name| number(name)).collect();
    let built = build(topology, options, hardware, (senders[0], sink))?;
    let mut rack = built.rack;
    rack.record.tracing = false;
    let reliable = |host: &usize| topology.host[*host].nic.reliable;
    let interval = rate_gbps.map_or(Picoseconds::ZERO, |rate| {
        Picoseconds::from_ns_f64(8.0 * *bytes as f64 / rate)
    });
    let shared = Rc::new(RefCell::new(Stream {
        bytes: *bytes,
        stores: *stores,
        interval,
        reliable: reliable(&sink) && senders.iter().all(reliable),
        senders: vec![Sender::default(); senders.len()],
        ..Stream::default()
    }));
    let mut sink_config = nic_config(topology, sink);
    for (index, host) in senders.iter().enumerate() {
        let key = pingpong::KEY + index as u16;
        sink_config.peers.push(Peer {
            region: Some(Region {
                key,
                base: stream::region(index),
                bytes: stream::WINDOW as u32,
                notify: false,
            }),
            ..peer(topology, sink, *host, (stream::pc_id(index), stream::SINK))
        });
        let mut config = nic_config(topology, *host);
        config.peers.push(Peer {
            pages: Some(Pages {
                first: 0,
                count: stream::PAGES,
                key,
            }),
            ..peer(topology, *host, sink, (stream::SINK, stream::pc_id(index)))
        });
        let api = rack.host(*host).api();
        let program = stream::send(api, config, index, Rc::clone(&shared));
        rack.host(*host).run(Box::pin(program));
    }
    let api = rack.host(sink).api();
    let program = stream::receive(api, sink_config, Rc::clone(&shared));
    rack.host(sink).run(Box::pin(program));
    rack.host(sink).watch(stream::watcher(&shared));

    let began = Instant::now();
    rack.start();
    rack.run()?;
    let stream = shared.take();
    Ok(StreamOutcome {
        stream,
        faults: rack.faults(),
        effort: rack.effort(),
        simulated: rack.now(),
        record: rack.record,
        wall_seconds: began.elapsed().as_secs_f64(),
    })
}
