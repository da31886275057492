// SPDX-License-Identifier: Apache-2.0
//! Next-hop objects beside a slow model, and what an audit does with what differs.

mod messages;

use std::collections::BTreeMap;
use std::net::IpAddr;

use fib::layout::Memory;
use fib::synth::Random;
use fibd::audit::{self, Report, Suspect};
use fibd::message::{Message, ObjectMessage, flags};
use fibd::socket::Netlink;
use fibd::{Net, Target, settle};
use messages::{gateway, link, route, state, tables, tell};

const ROUTES: u32 = 40;

fn net(number: u32) -> Net {
    Net::new(IpAddr::from((44 << 24 | number << 8).to_be_bytes()), 24).unwrap()
}

/// All that the kernel does when an object goes, by looking at everything.
#[derive(Default)]
struct Slow {
    objects: BTreeMap<u32, ObjectMessage>,
    routes: BTreeMap<u32, u32>,
}

impl Slow {
    fn gone(&mut self, id: u32) {
        self.objects.remove(&id);
        let mut empty = Vec::new();
        for (&group, object) in &mut self.objects {
            if let ObjectMessage::Group(members) = object {
                let before = members.len();
                members.retain(|(member, _)| *member != id);
                if before != 0 && members.is_empty() {
                    empty.push(group);
                }
            }
        }
        for group in &empty {
            self.objects.remove(group);
        }
        self.routes.retain(|_, by| *by != id && !empty.contains(by));
    }

    fn at(&self, device: u32) -> Vec<u32> {
        let at = |object: &ObjectMessage| matches!(object, ObjectMessage::Hop(hop) if hop.device == device);
        let at = self.objects.iter().filter(|(_, object)| at(object));
        at.map(|(&id, _)| id).collect()
    }

    /// Where a route may lead.
    fn targets(&self, route: u32) -> Vec<Target> {
        let single = |object: &ObjectMessage| match object {
            ObjectMessage::Hop(hop) => Some(Target::Neighbour {
                port: (hop.device - 1) as u8,
                address: hop.gateway.unwrap(),
            }),
            ObjectMessage::Blackhole => Some(Target::Discard),
            ObjectMessage::Group(_) => None,
        };
        let Some(by) = self.routes.get(&route) else {
            return Vec::new();
        };
        match self.objects.get(by) {
            None => vec![Target::Host],
            Some(ObjectMessage::Group(members)) => {
                let members = members.iter().filter_map(|(id, _)| self.objects.get(id));
                members.filter_map(single).collect()
            }
            Some(object) => single(object).into_iter().collect(),
        }
    }
}

#[test]
fn random_changes_of_objects_lead_where_a_slow_model_leads() {
    let seed = std::env::var("IPNUMA_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("IPNUMA_SEED={seed}");
    let mut random = Random::new(seed);
    let (mut state, mut tables, mut slow) =
        (state(), tables(fib::Config::default()), Slow::default());
    for _ in 0..4000 {
        let id = 1 + random.below(24) as u32;
        match random.below(10) {
            0..3 => {
                let object = match random.below(8) {
                    0 => ObjectMessage::Blackhole,
                    1..4 => {
                        // The kernel has no group in a group, and none of what is not there.
                        let members = (0..1 + random.below(4)).map(|_| 1 + random.below(12) as u32);
                        let mut members: Vec<_> = members.map(|id| (id, 1)).collect();
                        members.retain(|(id, _)| slow.objects.contains_key(id));
                        members.sort_unstable();
                        members.dedup();
                        ObjectMessage::Group(members)
                    }
                    _ => ObjectMessage::Hop(gateway(random.below(2) as u32, random.below(9) as u8)),
                };
                let is_group = matches!(&object, ObjectMessage::Group(_));
                if matches!(&object, ObjectMessage::Group(members) if members.is_empty()) {
                    continue;
                }
                let id = if is_group {
                    12 + id.div_ceil(2)
                } else {
                    id.div_ceil(2)
                };
                slow.objects.insert(id, object.clone());
                tell(&mut state, 0, Message::Object { id, object });
            }
            3..5 => {
                slow.gone(id);
                tell(&mut state, 0, Message::ObjectGone { id });
            }
            5 => {
                let port = random.below(2) as u32;
                slow.at(port + 1).into_iter().for_each(|id| slow.gone(id));
                link(&mut state, port, false);
                link(&mut state, port, true);
            }
            _ => {
                let number = random.below(ROUTES.into()) as u32;
                if slow.objects.contains_key(&id) {
                    let mut by_object = route(net(number), gateway(0, 1));
                    (by_object.object, by_object.hops) = (Some(id), Vec::new());
                    tell(&mut state, flags::REPLACE, Message::Route(by_object));
                    slow.routes.insert(number, id);
                }
            }
        }
        if random.below(3) != 0 {
            continue;
        }
        settle(&mut state, &mut tables).unwrap();
        assert_eq!(state.object_count(), slow.objects.len());
        for number in 0..ROUTES {
            let (found, may) = (state.desired(net(number)), slow.targets(number));
            assert!(
                found.map_or(may.is_empty(), |found| may.contains(&found)),
                "{}: {found:?}, and the model says {may:?}",
                state.describe(net(number))
            );
        }
    }
    assert!(state.counters.multipath > 0);
}

/// What differed is looked at again, and stays if it still differs.
#[test]
fn a_difference_that_stays_is_found_again_and_one_that_went_is_not() {
    let (mut own, fresh) = (state(), state());
    let mut tables = tables(fib::Config::default());
    tell(&mut own, 0, Message::Route(route(net(1), gateway(0, 7))));
    settle(&mut own, &mut tables).unwrap();
    let mut asker = Netlink::asker().unwrap();
    let mut report = Report::default();
    audit::belief(&fresh, &own, net(1), &mut report);
    // Tables of another switch, which has the next hop and not the route.
    let (mut other, mut empty) = (state(), messages::tables(fib::Config::default()));
    tell(&mut other, 0, Message::Route(route(net(2), gateway(0, 7))));
    settle(&mut other, &mut empty).unwrap();
    audit::within(&own, &empty, net(1), &mut Random::new(1), &mut report);
    assert_eq!((report.differences, report.told.len()), (4, 4));
    let suspects = report.doubt();
    assert_eq!(suspects[0], Suspect::Net(net(1)));
    assert_eq!(
        (report.differences, report.told.len(), report.prefixes),
        (0, 0, 1)
    );
    for (tables, fresh, left) in [(&mut empty, &fresh, 4), (&mut tables, &fresh, 1)] {
        let mut found = Report::default();
        for suspect in &suspects {
            audit::again(fresh, &own, tables, &mut asker, *suspect, &mut found).unwrap();
        }
        assert_eq!(
            (found.differences, found.suspects.len()),
            (left, left as usize)
        );
    }
    let mut found = Report::default();
    let word = Suspect::Word(Memory::NextHop, 0);
    for suspect in [suspects[0], word] {
        audit::again(&own, &own, &mut tables, &mut asker, suspect, &mut found).unwrap();
    }
    assert_eq!((found.differences, found.words), (0, 1));
}
