// SPDX-License-Identifier: Apache-2.0
//! Names of components and of stores, which the calendar carries and the recorder writes down.

/// Index of a component in the rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(pub u32);

/// Names one store of a CPU on its whole way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);
