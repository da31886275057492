// SPDX-License-Identifier: Apache-2.0
//! What is counted, each with its name.

/// Makes the structure, and the list of names and values.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Everything that is counted.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Names and values.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counters! {
    /// Messages of the kernel that were read.
    messages,
    /// Messages that were malformed: a length that points outside, an address of no family.
    malformed,
    /// Routes with bits behind their prefix length.
    host_bits,
    /// Times that the kernel had no room for messages and threw some away.
    overruns,
    /// Full dumps.
    resyncs,
    /// Dumps that were begun again since what they tell of changed meanwhile.
    dumps_interrupted,
    /// Routes, neighbours and objects that a full dump no longer had, and no message had said so.
    swept,
    /// Next hops whose MAC address a full dump found to be another in the tables.
    healed,
    /// Routes that were taken out since the kernel does so without a message.
    implied,
    /// Messages of routes to take out that were not there.
    unmatched,
    /// Next hops that name an object that is not there.
    unresolvable,
    /// Groups whose member is a group, or themselves.
    loops,
    /// Routes for one type of service, which hardware does not look at.
    tos_ignored,
    /// Routes for one source prefix, which hardware does not look at: all packets to their destinations go by the host
    /// port.
    from_by_host,
    /// Policy rules that came, and are not followed.
    rules_ignored,
    /// Routes for which packets that fit their port may be too long: they go by the host port.
    narrow,
    /// Routes whose next hops are several: hardware spreads prefixes over them, not flows.
    multipath,
    /// Changes of routes in the tables.
    route_changes,
    /// Changes of next hops in the tables.
    hop_changes,
    /// Words written.
    words,
    /// Routes for which the tables had no room: they go by the host port.
    spilled,
    /// Spilled routes that found room later.
    unspilled,
    /// Routes that go by the host port since all next hops of the tables are taken.
    hops_full,
    /// Neighbours that the kernel was asked to keep known.
    managed,
    /// Neighbours that it refused to keep.
    manage_refused,
    /// Connections of a routing daemon by FPM.
    fpm_connections,
    /// Messages that came by FPM.
    fpm_messages,
    /// FPM connections that were closed since their bytes made no sense.
    fpm_malformed,
    /// Routes handed back by FPM as in hardware.
    fpm_offloaded,
    /// Routes handed back as not in hardware, since they are of a table that is not followed.
    fpm_failed_table,
    /// The same, since their destination is a group or link-local.
    fpm_failed_multicast,
    /// The same, since they are for one type of service.
    fpm_failed_tos,
    /// The same, since their type is none of Linux.
    fpm_failed_type,
    /// The same, since they are of no protocol of FRR's, and not in the kernel.
    fpm_failed_protocol,
    /// The same, since they name a next-hop object that is not there.
    fpm_failed_object,
    /// The same, since their next hops are at devices that are not there.
    fpm_failed_device,
    /// The same, since they have no next hop that can be used.
    fpm_failed_unusable,
    /// The same, since there is no room.
    fpm_failed_spilled,
    /// Answers by FPM that were thrown away since the other end does not read.
    fpm_answers_dropped,
    /// Audits.
    audits,
    /// Audits that were given up since nobody waited for them any more.
    audits_given_up,
    /// Differences that audits found.
    differences,
}
