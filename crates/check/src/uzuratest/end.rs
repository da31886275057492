// SPDX-License-Identifier: Apache-2.0
//! An end of a connection: the RTL with its host and driver, or the model.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use roce::{Address, Completion, Engine, Region, Segment, Settings, WorkRequest};

use super::driver::{Driver, names_of};
use super::host::SCAN_CYCLES;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `rtl/uzura`.
    Rtl,
    /// `crates/roce`.
    Model,
}

/// An end.
pub enum End {
    /// `rtl/uzura`.
    Rtl(Box<Driver>),
    /// `crates/roce`.
    Model(Box<Engine>),
}

impl End {
    /// One with its addresses.
    pub fn new(kind: Kind, own: Address, rng: ChaCha8Rng) -> Result<Self, String> {
        Ok(match kind {
            Kind::Rtl => Self::Rtl(Box::new(Driver::new(own, rng)?)),
            Kind::Model => Self::Model(Box::new(Engine::new(own))),
        })
    }

    /// Registers memory.
    pub fn set_region(&mut self, key: u32, region: Region) -> Result<(), String> {
        match self {
            Self::Rtl(driver) => driver.set_region(key, &region)?,
            Self::Model(engine) => engine.set_region(key, region),
        }
        Ok(())
    }

    /// Reads what a region holds.
    pub fn read(&self, index: u32, offset: usize, bytes: usize) -> Vec<u8> {
        match self {
            Self::Rtl(driver) => driver.read(index, offset, bytes),
            Self::Model(engine) => engine.read(index, offset, bytes).to_vec(),
        }
    }

    /// Writes into a region, as its host does.
    pub fn write(&mut self, index: u32, offset: usize, data: &[u8]) {
        match self {
            Self::Rtl(driver) => driver.write(index, offset, data),
            Self::Model(engine) => engine.write(index, offset, data),
        }
    }

    /// Sets a queue pair and begins anew with it.
    pub fn begin(&mut self, qpn: u32, settings: Settings) -> Result<(), String> {
        match self {
            Self::Rtl(driver) => driver.begin(qpn, &settings)?,
            Self::Model(engine) => engine.begin(qpn, settings),
        }
        Ok(())
    }

    /// Posts a work request; returns its index.
    pub fn post(&mut self, qpn: u32, request: &WorkRequest) -> u16 {
        match self {
            Self::Rtl(driver) => driver.post(qpn, request),
            Self::Model(engine) => engine.post(qpn, request.clone()),
        }
    }

    /// Posts a receive buffer; returns its index.
    pub fn post_receive(&mut self, qpn: u32, list: &[Segment]) -> u16 {
        match self {
            Self::Rtl(driver) => driver.post_receive(qpn, list),
            Self::Model(engine) => engine.post_receive(qpn, list.to_vec()),
        }
    }

    /// Takes the completions that are there.
    pub fn completions(&mut self, qpn: u32) -> Vec<Completion> {
        match self {
            Self::Rtl(driver) => driver.completions(qpn),
            Self::Model(engine) => engine.completions(qpn),
        }
    }

    /// Lets a frame arrive.
    pub fn arrive(&mut self, frame: &[u8]) {
        match self {
            Self::Rtl(driver) => driver.host.arrive(frame),
            Self::Model(engine) => engine.arrive(frame),
        }
    }

    /// Takes the frames that have come out.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        match self {
            Self::Rtl(driver) => std::mem::take(&mut driver.host.frames),
            Self::Model(engine) => engine.frames(),
        }
    }

    /// Goes on by a cycle; the time in microseconds is new or not.
    pub fn step(&mut self, now_us: u32, is_new: bool) -> Result<(), String> {
        match self {
            Self::Rtl(driver) => {
                driver.host.now_us = now_us;
                driver.host.step()?;
            }
            Self::Model(engine) if is_new => engine.tick(now_us),
            Self::Model(_) => {}
        }
        Ok(())
    }

    /// Goes on until nothing is under way but what a clock ends.
    pub fn settle(&mut self) -> Result<(), String> {
        match self {
            Self::Rtl(driver) => driver.host.settle(),
            Self::Model(_) => Ok(()),
        }
    }

    /// It is this time, and the engine has looked at the clock of each queue pair.
    pub fn look_at_clock(&mut self, now_us: u32) -> Result<(), String> {
        match self {
            Self::Rtl(driver) => {
                driver.host.now_us = now_us;
                for _ in 0..SCAN_CYCLES {
                    driver.host.step()?;
                }
            }
            Self::Model(engine) => engine.tick(now_us),
        }
        Ok(())
    }

    /// What it has counted, by name; the RTL counts more than the model.
    pub fn counters(&mut self) -> Result<BTreeMap<&'static str, u32>, String> {
        match self {
            Self::Rtl(driver) => driver.counters(),
            Self::Model(engine) => Ok(names_of(&engine.counters).into()),
        }
    }

    /// Cycles so far; the model has none.
    pub fn cycles(&self) -> u64 {
        match self {
            Self::Rtl(driver) => driver.host.cycle,
            Self::Model(_) => 0,
        }
    }
}
