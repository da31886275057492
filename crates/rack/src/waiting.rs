// SPDX-License-Identifier: Apache-2.0
//! A host waits for stores that come at a rate: by looking without a pause, by sleeping until the NIC interrupts, or by
//! looking for a while before it sleeps.
//!
//! The waiting program does what `libipnuma` and the driver do on a board, access by access: it arms, looks, sleeps, and is
//! woken by the NIC's MSI; the NIC interrupts for arrivals until one comes that nobody waits for. How long it sleeps is
//! simulated, and everything else counts as the processor's time. What the kernel takes is a constant, see [`Costs`].

use std::cell::RefCell;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use wire::registers::{
    REG_ID, REG_MSI_ADDRESS_HI, REG_MSI_ADDRESS_LO, REG_MSI_CONTROL, REG_MSI_DATA,
    REG_MSI_MODERATION_US,
};

use crate::host::{BAR0, BAR2, HostApi, MSI_FIRST, Watcher};
use crate::pingpong::REGION;
use crate::setup::{NicConfig, configure, read};
use crate::time::Picoseconds;

const FILE: &str = include_str!("../../../experiments/waiting.toml");

/// When messages begin to come; the NICs are ready by then.
const START: Picoseconds = Picoseconds::from_us(200);
/// Where the NIC's interrupts go, and what they write: processor 0, a vector.
const MSI: u64 = MSI_FIRST;
const MSI_VECTOR: u32 = 0x30;
/// MSI_CONTROL.
const ON_ARRIVAL: u32 = 1;
const ON_EVENT: u32 = 2;
/// The word that is waited for.
const WORD_BYTES: usize = 8;
/// Calls of a wait besides the one that sleeps: it arms, drains, disarms.
const CALLS: u64 = 3;

/// A constant with its source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Nanoseconds.
    pub ns: u64,
    /// Whether it was measured, is stated, or is derived.
    pub origin: String,
    /// Where it stands.
    pub source: String,
    /// What else is to be known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a kernel takes: `experiments/waiting.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// From the interrupt's write until the handler runs.
    pub interrupt_ns: Cost,
    /// From there until the woken program goes on.
    pub wake_ns: Cost,
    /// A system call that finds nothing.
    pub call_ns: Cost,
}

/// The longest cost.
const LONGEST_NS: u64 = 1_000_000_000;

impl Costs {
    /// Those of the file.
    ///
    /// # Panics
    /// Never: the file is built in, and a test reads it.
    pub fn published() -> Self {
        let Ok(costs) = toml::from_str(FILE) else {
            unreachable!("experiments/waiting.toml is built in, and a test reads it")
        };
        costs
    }

    /// From an interrupt until the program that it wakes goes on.
    pub const fn woken_ns(&self) -> u64 {
        self.interrupt_ns.ns + self.wake_ns.ns
    }

    /// All of them by name.
    pub fn each(&mut self) -> [(&'static str, &mut Cost); 3] {
        [
            ("interrupt_ns", &mut self.interrupt_ns),
            ("wake_ns", &mut self.wake_ns),
            ("call_ns", &mut self.call_ns),
        ]
    }

    /// Puts another in place of one; the error is a sentence.
    pub fn set(&mut self, name: &str, ns: u64) -> Result<(), String> {
        if ns > LONGEST_NS {
            return Err(format!(
                "{name}: {ns} ns are too many; write {LONGEST_NS} at most, a second"
            ));
        }
        for (known, cost) in self.each() {
            if known == name {
                *cost = Cost {
                    ns,
                    origin: "stated".to_owned(),
                    source: "given".to_owned(),
                    note: None,
                };
                return Ok(());
            }
        }
        let known = self.each().map(|(name, _)| name);
        Err(format!(
            "there is no cost `{name}`; choose {}",
            known.join(", ")
        ))
    }
}

/// How a program waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It looks again and again.
    Poll,
    /// It looks for so long, and sleeps then.
    Sleep {
        /// 0: it sleeps at once.
        spin: Picoseconds,
    },
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the program waits.
    pub manner: Manner,
    /// Messages a second, on the average.
    pub rate: u64,
    /// Messages.
    pub messages: u64,
    /// Microseconds from one interrupt to the next at least.
    pub moderation_us: u16,
    /// What the kernel takes.
    pub costs: Costs,
    /// Draws the intervals.
    pub seed: u64,
}

/// What the two programs share with the one who started them.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// When each message was stored.
    pub issued: Vec<Picoseconds>,
    /// When it was in the waiting host's memory.
    pub landed: Vec<Picoseconds>,
    /// When the program had seen it.
    pub seen: Vec<Picoseconds>,
    /// When the NIC's interrupts were there.
    pub interrupts: Vec<Picoseconds>,
    /// Times that the program slept, and how long in all.
    pub sleeps: u64,
    /// See `sleeps`.
    pub asleep: Picoseconds,
    /// Times that the NIC was told to interrupt for arrivals: a store and a load each.
    pub armed: u64,
    /// From the begin of the first wait to the last message.
    pub span: (Picoseconds, Picoseconds),
}

impl Waiting {
    /// The part of the time in which the program did not sleep.
    pub fn load(&self) -> f64 {
        let span = self.span.1 - self.span.0;
        1.0 - self.asleep.0 as f64 / span.0.max(1) as f64
    }

    fn arrive(&mut self, now: Picoseconds, address: u64) {
        match address {
            MSI => self.interrupts.push(now),
            // In order, and each in a write of its own.
            REGION => self.landed.push(now),
            _ => {}
        }
    }
}

/// What the waiting host is to call at each DMA write.
pub fn watcher(shared: &Rc<RefCell<Waiting>>) -> Watcher {
    let shared = Rc::clone(shared);
    Box::new(move |now, address, _| shared.borrow_mut().arrive(now, address))
}

/// Times of all messages. Each interval is half to one and a half of the mean, so that arrivals meet clocks and sleep in
/// every way; whole picoseconds, the same on every machine.
fn times(plan: &Plan) -> impl Iterator<Item = Picoseconds> {
    let mean = Picoseconds::from_us(1_000_000).0 / plan.rate;
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut time = START;
    (0..plan.messages).map(move |_| {
        time += Picoseconds(mean / 2 + random.random_range(0..=mean));
        time
    })
}

/// The host that stores.
pub async fn send(
    api: HostApi,
    config: NicConfig,
    plan: Plan,
    shared: Rc<RefCell<Waiting>>,
) -> Result<(), String> {
    configure(&api, &config).await;
    for (number, time) in (1u64..).zip(times(&plan)) {
        api.sleep_until(time).await;
        shared.borrow_mut().issued.push(api.now());
        api.store8(BAR2, number).await;
    }
    Ok(())
}

/// The kernel of the host that waits.
struct Kernel<'a> {
    api: &'a HostApi,
    plan: &'a Plan,
    shared: &'a RefCell<Waiting>,
    /// Interrupts that were taken.
    taken: usize,
    /// The NIC interrupts for arrivals.
    arrivals: bool,
    /// An interrupt would be for somebody.
    watched: bool,
}

impl Kernel<'_> {
    async fn busy(&self, ns: u64) {
        self.api.compute(Picoseconds::from_ns(ns)).await;
    }

    async fn control(&self, value: u32) {
        let register = BAR0 + u64::from(REG_MSI_CONTROL);
        self.api.store4(register, value).await;
    }

    /// ARM: from now on an arrival interrupts. The load comes back behind all that were accepted before.
    async fn watch(&mut self) {
        self.watched = true;
        if !self.arrivals {
            self.arrivals = true;
            self.control(ON_ARRIVAL | ON_EVENT).await;
            read(self.api, REG_ID).await;
            self.shared.borrow_mut().armed += 1;
        }
    }

    /// An interrupt that is there: its handler, and whom it wakes. If nobody waits that is the driver's thread, which has the
    /// NIC interrupt for arrivals no more.
    async fn handle(&mut self) {
        self.taken += 1;
        self.busy(self.plan.costs.woken_ns()).await;
        if !std::mem::take(&mut self.watched) && std::mem::take(&mut self.arrivals) {
            self.control(ON_EVENT).await;
        }
    }

    /// Those that have come while the program ran. A processor takes them at once; here they wait for the program's next
    /// call, so that what it does comes out as long, but may end earlier.
    async fn pending(&mut self) {
        while self.shared.borrow().interrupts.len() > self.taken {
            self.api.interrupt(MSI).await;
            self.handle().await;
        }
    }

    /// The program sleeps until it is woken.
    async fn sleep(&mut self) {
        let before = self.api.now();
        self.api.interrupt(MSI).await;
        {
            let mut shared = self.shared.borrow_mut();
            shared.asleep += self.api.now() - before;
            shared.sleeps += 1;
        }
        self.handle().await;
    }
}

/// The host that waits.
pub async fn receive(
    api: HostApi,
    config: NicConfig,
    plan: Plan,
    shared: Rc<RefCell<Waiting>>,
) -> Result<(), String> {
    configure(&api, &config).await;
    if api.now() > START {
        return Err(format!("the NIC was not configured by {START}"));
    }
    api.sleep_until(START).await;
    shared.borrow_mut().span.0 = api.now();
    let mut kernel = Kernel {
        api: &api,
        plan: &plan,
        shared: &shared,
        taken: 0,
        arrivals: false,
        watched: false,
    };
    let mut old = vec![0; WORD_BYTES];
    while (shared.borrow().seen.len() as u64) < plan.messages {
        let new = wait(&mut kernel, &old).await;
        let number = new
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word));
        let mut shared = shared.borrow_mut();
        if number <= shared.seen.len() as u64 || number > shared.issued.len() as u64 {
            return Err(format!(
                "number {number} came after {} of {} were seen",
                shared.seen.len(),
                shared.issued.len()
            ));
        }
        shared.seen.resize(number as usize, api.now());
        old = new;
    }
    shared.borrow_mut().span.1 = api.now();
    Ok(())
}

/// `ipn_wait`: until the word is another.
async fn wait(kernel: &mut Kernel<'_>, old: &[u8]) -> Vec<u8> {
    let api = kernel.api;
    let Manner::Sleep { spin } = kernel.plan.manner else {
        return api.poll(REGION, old).await;
    };
    if spin > Picoseconds::ZERO {
        kernel.pending().await;
        let word = api.poll_until(REGION, old, api.now() + spin).await;
        if word != old {
            return word;
        }
    }
    loop {
        kernel.pending().await;
        let word = api.read_memory(REGION, old.len()).await;
        if word != old {
            return word;
        }
        kernel.busy(CALLS * kernel.plan.costs.call_ns.ns).await;
        kernel.watch().await;
        let word = api.read_memory(REGION, old.len()).await;
        if word != old {
            return word;
        }
        kernel.sleep().await;
    }
}

/// Registers of the NIC that is to interrupt.
pub fn registers(plan: &Plan) -> Vec<(u32, u32)> {
    let values = [
        (REG_MSI_ADDRESS_LO, MSI as u32),
        (REG_MSI_ADDRESS_HI, (MSI >> 32) as u32),
        (REG_MSI_DATA, MSI_VECTOR),
        (REG_MSI_MODERATION_US, u32::from(plan.moderation_us)),
    ];
    values.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_says_where_it_is_from() {
        let mut costs = Costs::published();
        for (name, cost) in costs.each() {
            assert!(cost.ns > 0 && cost.source.len() > "given".len(), "{name}");
            assert!(
                ["measured", "stated", "derived"].contains(&cost.origin.as_str()),
                "{name}"
            );
        }
        costs.set("wake_ns", 7).expect("there is one");
        assert_eq!(
            (costs.wake_ns.ns, costs.wake_ns.source.as_str()),
            (7, "given")
        );
        let error = costs.set("wake", 7).expect_err("there is none");
        assert!(
            error.contains("`wake`") && error.contains("wake_ns"),
            "{error}"
        );
    }

    #[test]
    fn messages_come_at_their_rate() {
        let plan = Plan {
            manner: Manner::Poll,
            rate: 1_000,
            messages: 1_000,
            moderation_us: 0,
            costs: Costs::published(),
            seed: 1,
        };
        let all: Vec<_> = times(&plan).collect();
        assert!(
            all.windows(2)
                .all(|pair| pair[1] - pair[0] >= Picoseconds::from_us(500))
        );
        let seconds = (all[999] - START).as_ns() / 1e9;
        assert!((0.97..1.03).contains(&seconds), "{seconds}");
        assert_eq!(all, times(&plan).collect::<Vec<_>>());
    }

    #[test]
    fn the_load_is_what_is_not_slept() {
        let waiting = Waiting {
            asleep: Picoseconds::from_us(75),
            span: (Picoseconds::from_us(100), Picoseconds::from_us(200)),
            ..Waiting::default()
        };
        assert!((waiting.load() - 0.25).abs() < 1e-12);
    }
}
