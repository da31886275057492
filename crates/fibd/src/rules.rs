// SPDX-License-Identifier: Apache-2.0
//! Policy rules are not followed, but counted; and the first one makes the kernel keep the local and the main table of
//! IPv4 apart, which are one until then, and look into the local one first. That lasts, if the rule is taken back as well.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::message::{AF_INET, AF_INET6, Attributes, Malformed, Message, kind, number, u32_at};
use crate::state::{Slot, State};

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMessage {
    /// IPv6.
    pub six: bool,
    /// Lower is first.
    pub priority: u32,
    /// The table that it has looked into.
    pub table: u32,
    /// It is for all packets, and does no more than that.
    pub plain: bool,
    /// All of it.
    pub body: Vec<u8>,
}

/// `struct fib_rule_hdr`: family, lengths, TOS, table, reserved, action, flags.
pub(crate) fn read(kind: u16, body: &[u8]) -> Result<Message, Malformed> {
    const FRA_PRIORITY: u16 = 6;
    const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
    const FRA_TABLE: u16 = 15;
    const FRA_PAD: u16 = 18;
    const FRA_PROTOCOL: u16 = 21;
    const TO_TABLE: u8 = 1;
    const INVERT: u32 = 2;
    let head = body.get(..12).ok_or(Malformed::Length)?;
    let six = match head[0] {
        AF_INET => false,
        AF_INET6 => true,
        _ => return Ok(Message::Other),
    };
    let flags = u32_at(head, 8).ok_or(Malformed::Length)?;
    let (mut priority, mut table) = (0, u32::from(head[4]));
    let mut plain = head[1..4] == [0; 3] && head[7] == TO_TABLE && flags & INVERT == 0;
    for attribute in Attributes(&body[12..]) {
        match attribute? {
            (FRA_PRIORITY, value) => priority = number(value)?,
            (FRA_TABLE, value) => table = number(value)?,
            (FRA_SUPPRESS_PREFIXLEN, value) => plain &= number(value)? == u32::MAX,
            (FRA_PROTOCOL | FRA_PAD, _) => {}
            _ => plain = false,
        }
    }
    let rule = RuleMessage {
        six,
        priority,
        table,
        plain,
        body: body.to_vec(),
    };
    let present = kind == kind::NEW_RULE;
    Ok(Message::Rule { rule, present })
}

/// Rules with the dump that had them last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    known: HashMap<Vec<u8>, u8>,
    dump: u8,
}

impl State {
    /// How many policy rules there are that are not followed.
    pub fn rule_count(&self) -> usize {
        self.rules.known.len()
    }

    /// Whether the kernel looks into the local table of IPv4 before the main one.
    pub const fn is_split(&self) -> bool {
        self.split
    }

    pub(crate) fn rule(&mut self, rule: RuleMessage, present: bool) {
        let tables = [(0, 255), (32766, 254), (32767, 253)];
        let is_default = rule.plain && tables.contains(&(rule.priority, rule.table));
        // Any change of one of IPv4, be it one that is always there.
        if !rule.six && (!is_default || self.seen.is_none()) {
            self.keep_apart();
        }
        let followed = rule.plain && self.config.table != 254 && rule.table == self.config.table;
        if is_default || followed {
            return;
        }
        if !present {
            self.rules.known.remove(&rule.body);
        } else if self
            .rules
            .known
            .insert(rule.body, self.rules.dump)
            .is_none()
        {
            self.counters.rules_ignored += 1;
        }
    }

    /// The kernel looks into the local table of IPv4 first from now on.
    pub fn keep_apart(&mut self) {
        if self.split {
            return;
        }
        self.split = true;
        let local = self.routes.iter().filter(|(net, slot)| {
            let is_local = |slot: &Slot| slot.routes().iter().any(|route| route.rank == 0);
            !net.is_ipv6() && !net.is_host() && is_local(slot)
        });
        let local: Vec<_> = local.map(|(net, _)| *net).collect();
        self.dirty.extend(local);
    }

    pub(crate) fn begin_rules(&mut self) {
        self.rules.dump = self.rules.dump.wrapping_add(1);
    }

    pub(crate) fn sweep_rules(&mut self) {
        let dump = self.rules.dump;
        self.rules.known.retain(|_, last| *last == dump);
    }
}

/// Whether the kernel keeps the tables apart, as far as it shows: no message says so. What it shows of both is the same as
/// long as they are one, and as nothing changes while it is read.
pub(crate) fn are_apart(place: &Path) -> bool {
    const READS: usize = 3;
    const ATTEMPTS: usize = 10;
    (0..ATTEMPTS).any(|_| {
        let shown: Vec<_> = (0..READS).map(|_| differs(place)).collect();
        shown[0].is_some() && shown.iter().all(|it| *it == shown[0])
    })
}

/// What the kernel shows, if it is not the same of both.
fn differs(place: &Path) -> Option<[String; 2]> {
    /// Of a longer table the numbers are enough.
    const MOST: usize = 2_000;
    let text = |name| fs::read_to_string(place.join(name)).unwrap_or_default();
    let sections = |text: &str| {
        let mut sections: [String; 2] = Default::default();
        let mut at = None;
        for line in text.lines() {
            match line {
                "Main:" => at = Some(0),
                "Local:" => at = Some(1),
                // Of tables and of what follows the tables' own numbers.
                line if !line.starts_with([' ', '\t', '+', '|']) => at = None,
                line => {
                    if let Some(at) = at {
                        sections[at] += line;
                        sections[at].push('\n');
                    }
                }
            }
        }
        sections
    };
    let [main, local] = sections(&text("fib_triestat"));
    if main.is_empty() || local.is_empty() {
        return None;
    }
    let prefixes = main
        .lines()
        .find_map(|line| line.trim().strip_prefix("Prefixes:"));
    let prefixes = prefixes.and_then(|it| it.trim().parse::<usize>().ok());
    if main != local {
        return Some([main, local]);
    }
    if prefixes.is_none_or(|count| count > MOST) {
        return None;
    }
    let [main, local] = sections(&text("fib_trie"));
    (main != local).then_some([main, local])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_look_the_same_are_one() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, main: &str, local: &str| {
            let text = format!("Basic info:\nMain:\n{main}\nLocal:\n{local}\n");
            fs::write(directory.path().join(name), text).unwrap();
        };
        assert!(!are_apart(directory.path()), "nothing is shown");
        let (few, others) = ("\tLeaves: 3\n\tPrefixes: 3", "\tLeaves: 3\n\tPrefixes: 4");
        let (some, more) = ("  +-- 0.0.0.0/0 3 0 5", "  +-- 127.0.0.0/8 2 0 2");
        write("fib_triestat", few, others);
        assert!(are_apart(directory.path()));
        write("fib_triestat", few, few);
        write("fib_trie", some, more);
        assert!(are_apart(directory.path()));
        write("fib_trie", some, some);
        assert!(!are_apart(directory.path()));
    }
}
