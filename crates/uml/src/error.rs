// SPDX-License-Identifier: Apache-2.0
//! Why something could not be done.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// What a guest could not do, or what could not be done to it. Each names the guest.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no kernel.
    #[error(
        "there is no User-Mode Linux kernel at {}: build it with tools/uml-kernel, or name one with IPNUMA_UML_KERNEL",
        path.display()
    )]
    Kernel {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// There is no kernel with verbs.
    #[error(
        "there is no User-Mode Linux kernel with verbs at {}: build it with tools/uml-kernel --rdma, or name one with \
         IPNUMA_UML_RDMA_KERNEL",
        path.display()
    )]
    RdmaKernel {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The specification can't be met.
    #[error("guest {guest}: {reason}")]
    Spec {
        /// Its name.
        guest: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused something.
    #[error("guest {guest}: can't {what}: {source}")]
    System {
        /// Its name.
        guest: String,
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The guest does not say anything any more.
    #[error(
        "guest {guest} at {ns} ns has computed for {seconds} s without waiting or reading the clock. A program in it that \
         polls must yield (sleep, or read the clock): computing takes no simulated time. Its console is in {}",
        console.display()
    )]
    Silent {
        /// Its name.
        guest: String,
        /// Its time.
        ns: u64,
        /// How long it was waited for.
        seconds: u64,
        /// Where its console is.
        console: PathBuf,
    },
    /// The guest's process ended before it was up.
    #[error(
        "guest {guest} ended with status {status} before it was up; its console is in {}: {tail}",
        console.display()
    )]
    Stillborn {
        /// Its name.
        guest: String,
        /// Exit status of its process.
        status: i32,
        /// Where its console is.
        console: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// The guest broke one of the protocols.
    #[error("guest {guest} at {ns} ns: {reason}")]
    Protocol {
        /// Its name.
        guest: String,
        /// Its time.
        ns: u64,
        /// What it did.
        reason: String,
    },
    /// The caller asked for something at a time when it can't be.
    #[error("guest {guest} is at {ns} ns and {reason} (the call was for {now} ns)")]
    Order {
        /// Its name.
        guest: String,
        /// Its time.
        ns: u64,
        /// The time of the call.
        now: u64,
        /// Why that can't be.
        reason: String,
    },
    /// An access outside of the guest's memory.
    #[error("guest {guest}: {bytes} bytes at {address:#x} are not inside its memory; {remedy}")]
    Memory {
        /// Its name.
        guest: String,
        /// Where.
        address: u64,
        /// How many.
        bytes: usize,
        /// What may be wrong.
        remedy: &'static str,
    },
    /// There is no such thing.
    #[error("guest {guest} has no {what} {number}")]
    Missing {
        /// Its name.
        guest: String,
        /// What.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// The guest ended. No public call returns it: [`crate::Guest::next`] says so.
    #[error("guest {guest} ended at {ns} ns with status {status}")]
    Exited {
        /// Its name.
        guest: String,
        /// Its time.
        ns: u64,
        /// Exit status of its process.
        status: i32,
    },
}
