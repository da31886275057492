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
}

impl Failure {
    /// Whether the user's input is at fault.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Rack(error) => error.is_usage(),
            Self::Test(error) => matches!(error, ::rfc2544::Error::Stream(_)),
        }
    }
}
