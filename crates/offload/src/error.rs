// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, in one sentence each.

/// Errors of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An option is wrong; the sentence has the place and the remedy.
    #[error("{0}")]
    Config(String),
}
