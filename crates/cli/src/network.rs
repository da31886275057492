// SPDX-License-Identifier: Apache-2.0
//! Options that `pingpong` and `stream` share: what cables do to frames, and what the NICs do about it.

use rack::faults::Faults;
use rack::topology::NicOptions;
use rack::{Error, Topology};

/// Options.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "network")]
pub struct Arguments {
    /// Probability that a cable loses a frame
    #[arg(long, value_name = "P")]
    loss: Option<f64>,
    /// Probability that a cable changes bits of a frame and corrects its FCS
    #[arg(long, value_name = "P")]
    corrupt: Option<f64>,
    /// Probability that a cable delivers a frame twice
    #[arg(long, value_name = "P")]
    duplicate: Option<f64>,
    /// Probability that a cable lets other frames pass a frame
    #[arg(long, value_name = "P")]
    reorder: Option<f64>,
    /// Nanoseconds by which a cable holds up each frame at most, drawn for each
    #[arg(long, value_name = "NS")]
    delay: Option<f64>,
    /// Seal the sessions: AES-GCM with keys drawn by the seed
    #[arg(long, conflicts_with_all = ["topology", "no_resend"])]
    auth: bool,
    /// No sessions: nothing is acknowledged, and nothing is sent again
    #[arg(long, conflicts_with = "topology")]
    no_resend: bool,
}

impl Arguments {
    /// What happens on every cable.
    pub fn faults(&self) -> Result<Faults, Error> {
        self.over(Faults::default())
    }

    /// Takes the place of what a topology says about its cables, as far as options were given.
    pub fn apply(&self, topology: &mut Topology) -> Result<(), Error> {
        for cable in &mut topology.cable {
            cable.faults = self.over(cable.faults)?;
        }
        Ok(())
    }

    fn over(&self, faults: Faults) -> Result<Faults, Error> {
        let faults = Faults {
            loss: self.loss.unwrap_or(faults.loss),
            corrupt: self.corrupt.unwrap_or(faults.corrupt),
            duplicate: self.duplicate.unwrap_or(faults.duplicate),
            reorder: self.reorder.unwrap_or(faults.reorder),
            delay_ns: self.delay.unwrap_or(faults.delay_ns),
        };
        faults
            .check()
            .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
        Ok(faults)
    }

    /// How the NICs send.
    pub const fn nic(&self, merge: bool) -> NicOptions {
        NicOptions {
            reliable: !self.no_resend,
            auth: self.auth,
            merge,
        }
    }

    /// Whether sessions are sealed.
    pub const fn auth(&self) -> bool {
        self.auth
    }
}
