// SPDX-License-Identifier: Apache-2.0
//! What ends a report.

/// What ends a report.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Failure {
    /// Of the rack, its input and its output.
    Rack(#[from] rack::Error),
    /// Of a test of the switch.
    Test(#[from] ::rfc2544::Error),
    /// Of the offload engine's model: its input.
    Offload(#[from] ::offload::Error),
}

impl Failure {
    /// Whether the user's input is at fault.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Rack(error) => error.is_usage(),
            Self::Offload(::offload::Error::Config(_)) => true,
            Self::Test(error) => matches!(error, ::rfc2544::Error::Stream(_)),
        }
    }
}
