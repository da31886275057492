// SPDX-License-Identifier: Apache-2.0
//! The measurements of section 3.2.2: the bus meter in RTL, in the NIC's place, measures the host's model.

use std::cell::RefCell;
use std::rc::Rc;

use crate::error::Error;
use crate::host::{BAR0, BAR2, HostApi, LINE_BYTES};
use crate::model::{Meter, PCIE_PERIOD};
use crate::pcie::LinkKind;
use crate::platform::Platform;
use crate::rack::{HostSetup, Rack};
use crate::time::Picoseconds;

const CONTROL: u64 = BAR0 + 0x08;
const ADDRESS_LO: u64 = BAR0 + 0x10;
const LENGTH: u64 = BAR0 + 0x18;
const COUNT: u64 = BAR0 + 0x1C;
const CYCLES: u64 = BAR0 + 0x20;
const READS_DONE: u64 = BAR0 + 0x24;
const READ_SUM_LO: u64 = BAR0 + 0x2C;
const WRITES_DONE: u64 = BAR0 + 0x3C;
const CPU_WRITES: u64 = BAR0 + 0x40;
const CPU_INTERVAL: u64 = BAR0 + 0x44;
const START_READS: u32 = 1;
const START_WRITES: u32 = 2;
const CAPTURE: u32 = 4;
/// Where the meter reads and writes.
const BUFFER: u32 = 0x1806_A000;
/// The dissertation's number of DMA reads.
const DMA_READS: u32 = 100;
/// Length of the DMA write experiment. The dissertation's is a second; the rate is constant here.
const WRITE_CYCLES: u32 = 50_000;
/// Copies in a loop. The dissertation's 10,000 are as long as these, divided.
const COPIES: u64 = 512;
/// Bytes of BAR 2 that the copies go round in.
const WINDOW: u64 = 4096;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Table 3.2: reads by the device, one after the other.
    DmaRead,
    /// Table 3.3: writes by the device, as fast as the bus takes them.
    DmaWrite,
    /// Table 3.4: copies from BAR memory.
    CpuRead,
    /// Table 3.4: copies to uncached BAR memory.
    CpuWrite,
    /// Table 3.4: copies to write-combining BAR memory.
    CombinedWrite,
}

/// Measures; returns the time of one operation of `bytes` bytes.
pub fn measure(
    platform: &Platform,
    link: LinkKind,
    experiment: Experiment,
    bytes: usize,
) -> Result<Picoseconds, Error> {
    Ok(measure_with(platform, link, experiment, bytes, true)?.0)
}

/// As [`measure`], with the meter asleep when idle or not; returns the hash of the run as well.
pub fn measure_with(
    platform: &Platform,
    link: LinkKind,
    experiment: Experiment,
    bytes: usize,
    skip_idle: bool,
) -> Result<(Picoseconds, String), Error> {
    // The meter's stream is 64 bits wide; the dissertation's was 128 for Gen2x8.
    let fast = link.occupancy(1_000) < PCIE_PERIOD_OF_1000_BYTES;
    let period = if fast {
        Picoseconds(PCIE_PERIOD.0 / 2)
    } else {
        PCIE_PERIOD
    };
    let mut rack = Rack::new(skip_idle);
    rack.add_host(HostSetup {
        name: "pc".to_owned(),
        timing: platform.host_timing(link)?,
        model: Box::new(Meter::new(period)?),
        phases: (Picoseconds::ZERO, Picoseconds::ZERO),
    })?;
    let result = Rc::new(RefCell::new(Picoseconds::ZERO));
    let api = rack.host(0).api();
    let program = program(api, experiment, bytes, period, Rc::clone(&result));
    rack.host(0).run(Box::pin(program));
    rack.start();
    rack.run()?;
    Ok((result.take(), rack.record.digest()))
}

/// What 1,000 bytes take on the 64-bit stream at 250 MHz.
const PCIE_PERIOD_OF_1000_BYTES: Picoseconds = Picoseconds(125 * PCIE_PERIOD.0);

async fn program(
    api: HostApi,
    experiment: Experiment,
    bytes: usize,
    period: Picoseconds,
    result: Rc<RefCell<Picoseconds>>,
) -> Result<(), String> {
    let time = match experiment {
        Experiment::DmaRead => {
            let sum = dma(&api, START_READS, bytes, READ_SUM_LO).await;
            let done = api.load4(READS_DONE).await;
            if done != DMA_READS {
                return Err(format!("{done} of {DMA_READS} DMA reads were answered"));
            }
            Picoseconds(period.0 * u64::from(sum) / u64::from(DMA_READS))
        }
        Experiment::DmaWrite => {
            let done = dma(&api, START_WRITES, bytes, WRITES_DONE).await;
            Picoseconds(period.0 * u64::from(WRITE_CYCLES) / u64::from(done.max(1)))
        }
        Experiment::CpuRead => {
            let before = api.now();
            for copy in 0..COPIES {
                for offset in (0..bytes as u64).step_by(4) {
                    api.load4(BAR2 + copy * bytes as u64 % WINDOW + offset)
                        .await;
                }
            }
            Picoseconds((api.now() - before).0 / COPIES)
        }
        Experiment::CpuWrite | Experiment::CombinedWrite => {
            copies(&api, experiment, bytes, period).await?
        }
    };
    *result.borrow_mut() = time;
    Ok(())
}

/// Runs a DMA experiment and reads one result.
async fn dma(api: &HostApi, start: u32, bytes: usize, result: u64) -> u32 {
    for (register, value) in [
        (ADDRESS_LO, BUFFER),
        (LENGTH, bytes as u32),
        (COUNT, DMA_READS),
        (CYCLES, WRITE_CYCLES),
        (CONTROL, start),
    ] {
        api.store4(register, value).await;
    }
    while api.load4(CONTROL).await & start != 0 {}
    api.load4(result).await
}

/// Copies to the BAR in a loop; the meter takes the time from the first write to the last.
async fn copies(
    api: &HostApi,
    experiment: Experiment,
    bytes: usize,
    period: Picoseconds,
) -> Result<Picoseconds, String> {
    api.store4(CONTROL, CAPTURE).await;
    let data = vec![0xA5; bytes];
    for copy in 0..COPIES {
        let address = BAR2 + copy * bytes as u64 % WINDOW;
        if experiment == Experiment::CombinedWrite {
            api.store_combined(address, &data).await;
        } else {
            for (offset, dw) in (address..).step_by(4).zip(data.chunks(4)) {
                api.store(offset, dw).await;
            }
        }
    }
    // A load comes after all stores: by then the meter has seen them.
    let writes = u64::from(api.load4(CPU_WRITES).await);
    let interval = u64::from(api.load4(CPU_INTERVAL).await);
    let in_a_write = match experiment {
        Experiment::CombinedWrite => LINE_BYTES as u64,
        _ => 4,
    };
    if writes != COPIES * bytes as u64 / in_a_write {
        return Err(format!("the meter saw {writes} writes"));
    }
    Ok(Picoseconds(
        period.0 * interval * bytes as u64 / ((writes - 1) * in_a_write),
    ))
}
