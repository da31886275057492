// SPDX-License-Identifier: Apache-2.0
//! What a case is.

use crate::support::outcome::Outcome;

/// What is expected of a case's connections over IP-NUMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// All that are looked up are accelerated, and there is one at least.
    Accelerated,
    /// None is.
    Kernel,
    /// The case makes no connection that is looked up, or says nothing about it.
    Any,
}

#[derive(Clone, Copy)]
/// One call or one awkward interaction, and what Linux does.
pub struct Case {
    /// The group and the name.
    pub name: &'static str,
    /// One sentence that says what must be.
    pub about: &'static str,
    /// Whether its connections are accelerated.
    pub expect: Expect,
    /// Runs it in this process, which does nothing else.
    pub run: fn() -> Outcome,
}

/// The cases of a file: function, expectation, sentence.
#[macro_export]
macro_rules! cases {
    ($group:literal; $($function:ident $expect:ident $about:literal)+) => {
        /// The cases of this file.
        pub const CASES: &[Case] = &[$(Case {
            name: concat!($group, ".", stringify!($function)),
            about: $about,
            expect: Expect::$expect,
            run: $function,
        }),+];
    };
}
