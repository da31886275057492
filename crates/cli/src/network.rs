// SPDX-License-Identifier: Apache-2.0
//! Options that `pingpong` and `stream` share: what cables do to frames, and what the NICs do about it.

use rack::Error;
use rack::faults::Faults;
use rack::topology::NicOptions;

/// Options.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "network")]
pub struct Arguments {
    /// Probability that a cable loses a frame
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        conflicts_with = "topology"
    )]
    loss: f64,
    /// Probability that a cable changes bits of a frame and corrects its FCS
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        conflicts_with = "topology"
    )]
    corrupt: f64,
    /// Probability that a cable delivers a frame twice
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        conflicts_with = "topology"
    )]
    duplicate: f64,
    /// Probability that a cable lets other frames pass a frame
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        conflicts_with = "topology"
    )]
    reorder: f64,
    /// Nanoseconds by which a cable holds up each frame at most, drawn for each
    #[arg(
        long,
        value_name = "NS",
        default_value_t = 0.0,
        conflicts_with = "topology"
    )]
    delay: f64,
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
        let faults = Faults {
            loss: self.loss,
            corrupt: self.corrupt,
            duplicate: self.duplicate,
            reorder: self.reorder,
            delay_ns: self.delay,
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
