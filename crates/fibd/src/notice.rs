// SPDX-License-Identifier: Apache-2.0
//! Sentences about bad input: the first time that it comes, and again when it has come ten times as often, so that who sends
//! it without end fills no log.

use std::io::{self, Write as _};

use crate::counters::Counters;

/// A sentence on the standard error; that nobody may read it ends nothing.
pub fn say(sentence: &str) {
    let _ = writeln!(io::stderr(), "fibd: {sentence}");
}

/// Of a port at which the kernel takes nothing in to forward it.
pub fn deaf(number: usize, name: &str) -> String {
    format!(
        "port {number}: the kernel does not forward IPv4 that comes in at `{name}`, the switch does; set \
         net.ipv4.conf.{name}.forwarding to 1, or take the cable out"
    )
}

/// Of a port at which the kernel takes redirects.
pub fn redirected(number: usize, name: &str, six: bool) -> String {
    let (family, version) = if six {
        ("ipv6", "IPv6")
    } else {
        ("ipv4", "IPv4")
    };
    format!(
        "port {number}: the kernel takes redirects of {version} at `{name}`, after which it sends to other next hops than its \
         routes name, the switch does not; set net.{family}.conf.{name}.accept_redirects to 0{}",
        if six { "" } else { ", and that of all" }
    )
}

/// What was said already.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    said: [u64; KINDS],
}

const KINDS: usize = 6;

/// What is counted, and what is said of so many.
fn kinds(counters: &Counters) -> [(u64, &'static str); KINDS] {
    [
        (
            counters.malformed,
            "messages were refused, since a length in them points behind their end or an address has neither 4 nor 16 \
             bytes; what was there before stays",
        ),
        (
            counters.host_bits,
            "routes were refused, since their prefixes have bits behind their length; what was there before stays",
        ),
        (
            counters.unresolvable,
            "routes name a next-hop object that is not there; their packets go by the host port until it is",
        ),
        (
            counters.loops,
            "members of next-hop groups are groups themselves, and lend no next hop; name the next hops instead",
        ),
        (
            counters.rules_ignored,
            "policy rules came, and are not followed: the switch forwards by the local and the followed table alone, \
             whatever they say; take them out, or let none concern what comes in at a port",
        ),
        (
            counters.fpm_malformed,
            "FPM connections were closed, since their bytes are no FPM; routes stay, and the daemon may connect again",
        ),
    ]
}

impl Notices {
    /// What is to be said now.
    pub fn of(&mut self, counters: &Counters) -> Vec<String> {
        let mut sentences = Vec::new();
        for (said, (count, what)) in self.said.iter_mut().zip(kinds(counters)) {
            if count > 0 && count >= said.saturating_mul(10) {
                *said = count;
                sentences.push(format!("{count} {what}"));
            }
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_said_at_first_and_then_ever_more_seldom() {
        let (mut notices, mut counters) = (Notices::default(), Counters::default());
        assert!(notices.of(&counters).is_empty());
        let mut said = Vec::new();
        for count in 1..=1000 {
            counters.host_bits = count;
            said.extend(notices.of(&counters));
        }
        let counts: Vec<_> = said
            .iter()
            .map(|it| it.split(' ').next().unwrap())
            .collect();
        assert_eq!(counts, ["1", "10", "100", "1000"]);
        assert!(said[0].contains("bits behind their length"));
        counters.loops = 1;
        assert_eq!(notices.of(&counters).len(), 1);
    }
}
