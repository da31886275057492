// SPDX-License-Identifier: Apache-2.0
//! Without privileges: routes from messages, full tables, hostile input.

mod messages;

use std::net::IpAddr;

use fib::synth::Random;
use fib::{Config4, Config6};
use fibd::audit::{self, looked_up};
use fibd::message::{
    Event, Hop, Malformed, Message, ObjectMessage, RouteKind, RouteMessage, Settings, flags, parse,
};
use fibd::{Net, Preference, State, Tables, Target, Terms, fpm, settle};
use messages::{gateway, link, route, state, tables, tell};

fn seed() -> u64 {
    let seed = std::env::var("IPNUMA_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("IPNUMA_SEED={seed}");
    seed
}

/// A table with room for very little: what it leads to is the truth, or the host.
#[test]
fn a_full_table_sends_by_the_host_and_never_elsewhere() {
    let mut random = Random::new(seed());
    let (mut state, mut tables) = (
        state(),
        tables(fib::Config {
            v4: Config4::RunVec {
                leaves: 64,
                groups: 4,
                hosts: 2,
            },
            v6: Config6::Tcam { entries: 4 },
        }),
    );
    let mut there: Vec<Net> = Vec::new();
    let mut to_host = 0;
    for round in 0..400 {
        if random.below(3) == 0 && !there.is_empty() {
            let net = there.swap_remove(random.below(there.len() as u64) as usize);
            let hop = gateway(0, 0);
            let mut gone = route(net, hop);
            // Which of the hops it had does not matter: the state knows.
            for port in 0..2 {
                for host in 1..5 {
                    gone.hops = vec![gateway(port, host)];
                    tell(&mut state, 0, Message::RouteGone(gone.clone()));
                }
            }
        } else {
            let address =
                IpAddr::from(((random.bits() as u32) & 0x0FFF_FF0F | 0xC000_0000).to_be_bytes());
            let len = [0, 8, 12, 16, 20, 22, 24, 26, 28, 32][random.below(10) as usize];
            let net = Net::host(address).around(len);
            let hop = gateway(random.below(2) as u32, 1 + random.below(4) as u8);
            tell(
                &mut state,
                flags::EXCLUSIVE,
                Message::Route(route(net, hop)),
            );
            there.retain(|other| *other != net);
            there.push(net);
        }
        settle(&mut state, &mut tables).unwrap();
        for net in &there {
            for address in [net.first(), net.last(), net.inside(random.wide())] {
                let want = audit::longest(&state, address).map(|(_, target)| target);
                let found = looked_up(&tables, tables.fib().image(), address);
                let by_host = matches!(found, None | Some(Target::Host));
                assert!(
                    found == want || by_host,
                    "round {round}: {address}: {found:?}, not {want:?}"
                );
                to_host += u32::from(found != want);
            }
        }
        let mut report = audit::Report::default();
        let plan = audit::Plan {
            random: 20,
            ask: 0,
            seed: round,
        };
        audit::image(&state, &tables, plan, &mut report);
        assert_eq!(report.differences, 0, "round {round}: {:?}", report.told);
    }
    assert!(
        to_host > 0 && state.counters.spilled > 0,
        "the table was never full"
    );
    // Nothing is spilled for ever: with all the rest gone there is room again.
    for net in there.split_off(2.min(there.len())) {
        for port in 0..2 {
            for host in 1..5 {
                tell(
                    &mut state,
                    0,
                    Message::RouteGone(route(net, gateway(port, host))),
                );
            }
        }
        settle(&mut state, &mut tables).unwrap();
    }
    let mut report = audit::Report::default();
    let plan = audit::Plan {
        random: 1000,
        ask: 0,
        seed: 1,
    };
    audit::image(&state, &tables, plan, &mut report);
    audit::hardware(&state, &mut tables, &mut report);
    assert_eq!(
        (report.differences, tables.spilled(), tables.shed()),
        (0, 0, 0),
        "{:?}",
        report.told
    );
}

/// The withdrawal makes three runs of one, and there is no room for them.
#[test]
fn a_withdrawal_without_room_sheds_what_lies_around_until_there_is_room() {
    let (mut state, mut tables) = (
        state(),
        tables(fib::Config {
            v4: Config4::RunVec {
                leaves: 64,
                groups: 4,
                hosts: 2,
            },
            v6: Config6::Tcam { entries: 4 },
        }),
    );
    let net = |bytes: [u8; 4], len| Net::new(IpAddr::from(bytes), len).unwrap();
    let (far, near) = (gateway(1, 2), gateway(0, 1));
    let middle = route(net([10, 1, 64, 0], 18), near);
    let fillers: Vec<_> = (0..64)
        .map(|second| route(net([20, second, 0, 0], 19), near))
        .collect();
    let others = [
        route(net([10, 1, 0, 0], 16), far),
        middle.clone(),
        route(net([10, 1, 80, 0], 20), near),
    ];
    for some in [&others[..], &fillers] {
        for one in some {
            tell(&mut state, flags::EXCLUSIVE, Message::Route(one.clone()));
        }
        settle(&mut state, &mut tables).unwrap();
    }
    assert!(tables.spilled() > 0 && tables.shed() == 0);
    let to = |tables: &Tables, third| {
        let address = IpAddr::from([10, 1, third, 1]);
        looked_up(tables, tables.fib().image(), address)
    };
    let neighbour = |port, host| {
        Some(Target::Neighbour {
            port,
            address: IpAddr::from([10, 0, port, host]),
        })
    };
    tell(&mut state, 0, Message::RouteGone(middle));
    settle(&mut state, &mut tables).unwrap();
    assert_eq!(tables.shed(), 1);
    assert_eq!(
        [to(&tables, 0), to(&tables, 64), to(&tables, 80)],
        [neighbour(1, 2), Some(Target::Host), Some(Target::Host)]
    );
    assert!(tables.by_host(net([10, 1, 80, 0], 20)) && !tables.by_host(net([10, 1, 0, 0], 16)));
    let mut report = audit::Report::default();
    let plan = audit::Plan {
        random: 100,
        ask: 0,
        seed: 1,
    };
    audit::image(&state, &tables, plan, &mut report);
    assert_eq!((report.differences, report.shed), (0, 1));
    for filler in fillers {
        tell(&mut state, 0, Message::RouteGone(filler));
    }
    settle(&mut state, &mut tables).unwrap();
    assert_eq!((tables.shed(), tables.spilled()), (0, 0));
    assert_eq!(
        [to(&tables, 0), to(&tables, 64), to(&tables, 80)],
        [neighbour(1, 2), neighbour(1, 2), neighbour(0, 1)]
    );
}

#[test]
fn groups_in_circles_and_objects_that_are_not_there_lead_to_the_kernel() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let net = Net::new(IpAddr::from([192, 0, 2, 0]), 24).unwrap();
    let mut by_object = route(net, gateway(0, 1));
    (by_object.object, by_object.hops) = (Some(7), Vec::new());
    tell(
        &mut state,
        flags::EXCLUSIVE,
        Message::Route(by_object.clone()),
    );
    settle(&mut state, &mut tables).unwrap();
    assert_eq!(state.desired(net), Some(Target::Host));
    assert_eq!(state.counters.unresolvable, 1);
    // A group of itself and of a group of it.
    for (id, member) in [(7, 7), (8, 7), (7, 8)] {
        let object = ObjectMessage::Group(vec![(member, 1)]);
        tell(&mut state, 0, Message::Object { id, object });
        settle(&mut state, &mut tables).unwrap();
        assert_eq!(state.desired(net), None);
    }
    tell(&mut state, flags::EXCLUSIVE, Message::Route(by_object));
    assert_eq!(state.counters.loops, 1);
    tell(&mut state, 0, Message::ObjectGone { id: 7 });
    settle(&mut state, &mut tables).unwrap();
    assert_eq!((state.desired(net), state.net_count()), (None, 0));
}

#[test]
fn a_link_that_goes_takes_its_routes_along_and_nothing_else() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let nets = [1, 2].map(|third| Net::new(IpAddr::from([192, 0, third, 0]), 24).unwrap());
    for (net, port) in nets.into_iter().zip(0..) {
        tell(
            &mut state,
            flags::EXCLUSIVE,
            Message::Route(route(net, gateway(port, 7))),
        );
    }
    settle(&mut state, &mut tables).unwrap();
    assert_eq!(tables.fib().routes4(), 2);
    link(&mut state, 0, false);
    settle(&mut state, &mut tables).unwrap();
    assert_eq!((state.desired(nets[0]), tables.fib().routes4()), (None, 1));
    // It does not come back by itself.
    link(&mut state, 0, true);
    settle(&mut state, &mut tables).unwrap();
    assert_eq!((state.desired(nets[0]), state.counters.implied), (None, 1));
}

/// Of a route of IPv4 with several next hops a device that goes down takes its own; one that is no more takes all.
#[test]
fn a_device_that_is_no_more_takes_whole_routes_of_ipv4_along() {
    let mut state = state();
    let net = Net::new(IpAddr::from([192, 0, 2, 0]), 24).unwrap();
    let mut message = route(net, gateway(0, 7));
    message.hops.push(gateway(1, 7));
    tell(&mut state, flags::EXCLUSIVE, Message::Route(message));
    link(&mut state, 0, false);
    assert_eq!(state.desired(net), Some(of(gateway(1, 7))));
    tell(&mut state, 0, Message::LinkGone { device: 1 });
    assert_eq!((state.desired(net), state.counters.implied), (None, 1));
}

/// The kernel tells of the IPv6 routes that a link took along, but leaves one that is between next hops of another. The
/// message about the first of two equal ones must not take out the second.
#[test]
fn what_the_kernel_tells_of_a_link_that_went_leaves_routes_between_next_hops() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let net = Net::new("2001:db8:ff::".parse().unwrap(), 48).unwrap();
    let by = |port: u8, host: Option<u8>| {
        let address = |host| format!("2001:db8:{port}::{host}").parse().unwrap();
        let hop = Hop {
            gateway: host.map(address),
            ..gateway(port.into(), 0)
        };
        route(net, hop)
    };
    let direct = by(0, None);
    let order = [
        direct.clone(),
        by(1, Some(8)),
        direct.clone(),
        by(0, Some(7)),
    ];
    // The kernel has one twice only after a replacement.
    let mut blackhole = direct.clone();
    (blackhole.kind, blackhole.hops) = (RouteKind::Blackhole, Vec::new());
    // Of next hops that are one route it tells together.
    let mut both = order[3].clone();
    both.hops.extend(&order[1].hops);
    for one in [&blackhole, &order[1], &order[2], &both] {
        tell(&mut state, flags::APPEND, Message::Route(one.clone()));
    }
    tell(&mut state, flags::REPLACE, Message::Route(direct.clone()));
    for settled in [false, true] {
        let mut state = state.clone();
        link(&mut state, 0, false);
        if settled {
            settle(&mut state, &mut tables).unwrap();
        }
        tell(&mut state, 0, Message::RouteGone(direct.clone()));
        link(&mut state, 0, true);
        for gone in [&order[1], &order[3]] {
            tell(&mut state, 0, Message::RouteGone(gone.clone()));
        }
        settle(&mut state, &mut tables).unwrap();
        assert_eq!(state.desired(net), Some(Target::Host), "settled: {settled}");
        tell(&mut state, 0, Message::RouteGone(direct.clone()));
        settle(&mut state, &mut tables).unwrap();
        assert_eq!(state.desired(net), None, "settled: {settled}");
    }
}

/// The kernel says which next hops of IPv6 are dead, and not that they are not any more: the link does.
#[test]
fn a_carrier_revives_next_hops_of_ipv6() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let net = Net::new("2001:db8:ff::".parse().unwrap(), 48).unwrap();
    let address = "2001:db8::7".parse().unwrap();
    let hop = Hop {
        gateway: Some(address),
        dead: true,
        terms: Terms::default(),
        ..gateway(0, 7)
    };
    tell(&mut state, flags::APPEND, Message::Route(route(net, hop)));
    settle(&mut state, &mut tables).unwrap();
    let leads = |state: &State, tables: &Tables| {
        let found = looked_up(tables, tables.fib().image(), net.first());
        assert_eq!(state.desired(net), found);
        found
    };
    assert_eq!(leads(&state, &tables), None);
    link(&mut state, 0, true);
    settle(&mut state, &mut tables).unwrap();
    let neighbour = Target::Neighbour { port: 0, address };
    assert_eq!(leads(&state, &tables), Some(neighbour));
}

/// A dump passes over what is between next hops, and says of these which are dead, before or after a message of the link.
#[test]
fn a_dump_that_knows_which_next_hops_are_dead_keeps_what_is_between() {
    let mut state = state();
    let net = Net::new("2001:db8:ff::".parse().unwrap(), 48).unwrap();
    let direct = Hop {
        gateway: None,
        ..gateway(0, 0)
    };
    let by = |port: u8, dead| Hop {
        gateway: Some(format!("2001:db8:{port}::8").parse().unwrap()),
        dead,
        ..gateway(port.into(), 0)
    };
    let both = |dead| RouteMessage {
        hops: vec![by(0, dead), by(1, false)],
        ..route(net, direct)
    };
    for one in [route(net, by(0, false)), route(net, direct), both(false)] {
        tell(&mut state, flags::APPEND, Message::Route(one));
    }
    for dead in [true, false] {
        state.begin_resync(false);
        link(&mut state, 0, true);
        link(&mut state, 1, true);
        tell(&mut state, 0, Message::Route(both(dead)));
        state.end_resync();
        let first = if dead { Target::Host } else { of(by(0, false)) };
        assert_eq!(state.desired(net), Some(first));
    }
    for hop in [by(0, false), by(1, false)] {
        tell(&mut state, 0, Message::RouteGone(route(net, hop)));
    }
    assert_eq!(state.desired(net), Some(Target::Host), "what was between");
}

fn of(hop: Hop) -> Target {
    Target::Neighbour {
        port: hop.device as u8 - 1,
        address: hop.gateway.unwrap(),
    }
}

/// A dump has what the messages say that wait: taken in once more they would replace another route.
#[test]
fn what_is_told_while_the_kernel_is_dumped_makes_it_be_dumped_again() {
    let net = Net::new(IpAddr::from([192, 0, 2, 0]), 24).unwrap();
    let (old, new) = (route(net, gateway(0, 1)), route(net, gateway(1, 2)));
    let dump = |state: &mut State| {
        state.begin_resync(false);
        link(state, 0, true);
        link(state, 1, true);
        // The replaced one was the first of two; it is gone.
        tell(state, 0, Message::Route(old.clone()));
        state.end_resync();
    };
    let event = |flags, message| Event {
        flags,
        sequence: 0,
        port: 0,
        message,
    };
    let mut state = state();
    dump(&mut state);
    assert!(!state.is_unsure());
    let before = state.desired(net);
    state.take_late(event(flags::REPLACE, Message::Route(new.clone())));
    state.take_late(event(0, Message::RouteGone(new)));
    assert!(state.is_unsure() && state.desired(net) != before);
    dump(&mut state);
    assert!(!state.is_unsure() && state.desired(net) == before);
}

#[test]
fn cut_and_altered_messages_are_refused_and_harm_nothing() {
    let mut random = Random::new(seed());
    // 192.0.2.0/24 by 10.0.0.7 at device 1.
    let mut good = vec![0; 16];
    good[4] = 24;
    good.extend([2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0]);
    for (kind, value) in [
        (1, [192, 0, 2, 0]),
        (5, [10, 0, 0, 7]),
        (4, 1_u32.to_ne_bytes()),
    ] {
        good.extend(8_u16.to_ne_bytes());
        good.extend(u16::to_ne_bytes(kind));
        good.extend(value);
    }
    let Ok(Message::Route(read)) = parse(&good).map(|event| event.message) else {
        panic!("a good message is not read");
    };
    assert_eq!(
        (read.net.to_string(), read.hops),
        ("192.0.2.0/24".to_owned(), vec![gateway(0, 7)])
    );
    let mut host_bits = good.clone();
    host_bits[35] = 9;
    assert_eq!(parse(&host_bits), Err(Malformed::Prefix));
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bad = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bad.len() as u64) as usize;
            bad[at] = random.bits() as u8;
        }
        bad.truncate(random.below(bad.len() as u64 + 8) as usize);
        refused += u32::from(parse(&bad).is_err());
    }
    assert!(refused > 1000);
}

#[test]
fn fpm_is_cut_into_messages_and_nonsense_ends_it() {
    let messages: Vec<Vec<u8>> = (0..50)
        .map(|count| vec![count; usize::from(count) * 7])
        .collect();
    let stream: Vec<u8> = messages
        .iter()
        .flat_map(|one| fpm::frame(one).unwrap())
        .collect();
    let (mut input, mut out) = (Vec::new(), Vec::new());
    let mut random = Random::new(seed());
    let mut at = 0;
    while at < stream.len() {
        let end = stream.len().min(at + 1 + random.below(90) as usize);
        input.extend_from_slice(&stream[at..end]);
        at = end;
        fpm::split(&mut input, &mut |body| out.push(body.to_vec())).unwrap();
    }
    assert!(out == messages && input.is_empty());
    for bad in [[2, 1, 0, 9], [1, 2, 0, 9], [1, 1, 0, 3], [0; 4]] {
        assert!(fpm::split(&mut bad.to_vec(), &mut |_| {}).is_err());
    }
}

#[test]
fn a_local_subnet_hides_longer_routes_of_ipv6_until_it_goes() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let net = |text: &str, len| Net::new(text.parse().unwrap(), len).unwrap();
    let (inside, outside) = (net("2001:db8:ff:1::", 64), net("2001:db8:fe::", 48));
    let by = |net| {
        let gateway = Some("2001:db8::7".parse().unwrap());
        let hop = Hop {
            gateway,
            ..gateway_of(0)
        };
        route(net, hop)
    };
    for net in [inside, outside] {
        tell(&mut state, flags::CREATE, Message::Route(by(net)));
    }
    let mut local = by(net("2001:db8:ff::", 48));
    (local.table, local.kind, local.hops) = (255, RouteKind::Local, vec![gateway_of(1)]);
    let mut leads = |state: &mut State, net: Net| {
        settle(state, &mut tables).unwrap();
        let found = looked_up(&tables, tables.fib().image(), net.first());
        assert_eq!(state.desired(net), found);
        found
    };
    let neighbour = leads(&mut state, outside);
    assert_ne!(neighbour, Some(Target::Host));
    assert_eq!(leads(&mut state, inside), neighbour);
    tell(&mut state, flags::CREATE, Message::Route(local.clone()));
    assert_eq!(leads(&mut state, inside), Some(Target::Host));
    assert_eq!(leads(&mut state, outside), neighbour);
    tell(&mut state, 0, Message::RouteGone(local.clone()));
    assert_eq!(leads(&mut state, inside), neighbour);
    // One that goes while it is hidden is not there afterwards.
    tell(&mut state, flags::CREATE, Message::Route(local.clone()));
    assert_eq!(leads(&mut state, inside), Some(Target::Host));
    tell(&mut state, 0, Message::RouteGone(by(inside)));
    assert_eq!(state.desired(inside), None);
    tell(&mut state, 0, Message::RouteGone(local));
    assert_eq!(leads(&mut state, inside), None);
}

/// A device, and no neighbour.
fn gateway_of(port: u32) -> Hop {
    Hop {
        gateway: None,
        ..gateway(port, 0)
    }
}

#[test]
fn what_is_set_for_all_devices_counts_beside_what_is_set_for_each() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let net = Net::new(IpAddr::from([192, 0, 2, 0]), 24).unwrap();
    tell(&mut state, 0, Message::Route(route(net, gateway(0, 7))));
    let message = Message::Link {
        device: 1,
        name: "sw0".into(),
        up: true,
        carrier: false,
        running: false,
        mac: None,
        mtu: 1500,
    };
    tell(&mut state, 0, message);
    let mut set = |state: &mut State, device, ignores| {
        let message = Message::IgnoresLinkDown {
            device,
            six: false,
            ignores,
            forwards: None,
        };
        tell(state, 0, message);
        settle(state, &mut tables).unwrap();
        let found = looked_up(&tables, tables.fib().image(), net.first());
        assert_eq!(state.desired(net), found);
        found.is_none()
    };
    assert!(state.take_unset(), "devices came");
    assert!(!set(&mut state, Settings::Of(1), false));
    assert!(set(&mut state, Settings::All, true));
    assert!(set(&mut state, Settings::Of(1), true));
    assert!(set(&mut state, Settings::All, false));
    assert!(!set(&mut state, Settings::Of(1), false));
    assert!(!state.take_unset());
    // Which devices take it over, no message says.
    assert!(!set(&mut state, Settings::Default, true));
    assert!(state.take_unset() && !state.take_unset());
}

/// Where there is no ARP the kernel gives each neighbour the device's own address.
#[test]
fn a_neighbour_with_the_devices_own_address_is_none() {
    let (mut state, own) = (state(), [2, 0, 0, 0, 0, 1]);
    let message = Message::Link {
        device: 1,
        name: "sw0".into(),
        up: true,
        carrier: true,
        running: true,
        mac: Some(own),
        mtu: 1500,
    };
    tell(&mut state, 0, message);
    let address = IpAddr::from([10, 0, 0, 7]);
    let mut given = |mac, given| {
        let message = Message::Neighbour {
            device: 1,
            address,
            mac: Some(mac),
            given,
        };
        tell(&mut state, 0, message);
        (state.mac(0, address), state.take_released())
    };
    let other = [2, 0, 0, 0, 0, 2];
    assert_eq!(given(own, true), (None, vec![]));
    assert_eq!(given(other, true), (Some(other), vec![]));
    // Nobody gives it any more: from then on the kernel may be asked to keep it known.
    assert_eq!(given(other, false), (Some(other), vec![(0, address)]));
    assert_eq!(given(own, false), (Some(own), vec![]));
}

/// All that a swap of names says comes at once: first neither device is at the port, then the other one is.
#[test]
fn ports_that_exchange_names_leave_no_neighbour_of_the_other_behind() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let address: IpAddr = "fe80::1".parse().unwrap();
    for port in 0..2 {
        let net = Net::new(format!("2001:db8:f{port}::").parse().unwrap(), 48).unwrap();
        let hop = Hop {
            gateway: Some(address),
            ..gateway(port, 0)
        };
        tell(&mut state, 0, Message::Route(route(net, hop)));
    }
    let mac = [2, 0, 0, 0, 0, 2];
    let known = Message::Neighbour {
        device: 1,
        address,
        mac: Some(mac),
        given: true,
    };
    tell(&mut state, 0, known);
    settle(&mut state, &mut tables).unwrap();
    state.take_moved();
    let in_tables = |tables: &Tables| {
        let of = |port: u8| {
            let all = tables.neighbours();
            let (id, ..) = all.iter().find(|hop| hop.1 == port).unwrap();
            tables.mac(*id)
        };
        [of(0), of(1)]
    };
    assert_eq!(in_tables(&tables), [Some(mac), None]);
    for (device, name) in [(1, "sw"), (2, "sw0"), (1, "sw1")] {
        let message = Message::Link {
            device,
            name: name.into(),
            up: true,
            carrier: true,
            running: true,
            mac: None,
            mtu: 1500,
        };
        tell(&mut state, 0, message);
    }
    settle(&mut state, &mut tables).unwrap();
    assert_eq!(in_tables(&tables), [None, Some(mac)]);
    // The kernel was asked to keep those of the other device known.
    assert_eq!(state.take_moved(), [0, 1]);
    assert!(state.take_moved().is_empty());
}

/// Whatever went wrong, a full dump puts it right, and says how often.
#[test]
fn next_hops_with_another_mac_address_are_healed() {
    let (mut state, mut tables) = (state(), tables(fib::Config::default()));
    let net = Net::new(IpAddr::from([192, 0, 2, 0]), 24).unwrap();
    tell(&mut state, 0, Message::Route(route(net, gateway(0, 7))));
    settle(&mut state, &mut tables).unwrap();
    let mut counters = fibd::counters::Counters::default();
    let (id, port, address) = tables.neighbours()[0];
    let wrong = Some([2, 0, 0, 0, 0, 9]);
    tables.set_mac(port, address, wrong, &mut counters).unwrap();
    assert_eq!(tables.mac(id), wrong);
    for healed in [1, 1] {
        let mac = |port, address| state.mac(port, address);
        tables.heal(mac, &mut counters).unwrap();
        assert_eq!((tables.mac(id), counters.healed), (None, healed));
    }
}

/// A port without a carrier, whose setting has routes ignored: the kernel calls its next hops dead, and says of the setting
/// when it is another, but not of them.
#[test]
fn what_is_ignored_without_a_carrier_is_alive_once_the_setting_is_another() {
    for was_down in [false, true] {
        let mut state = state();
        let net = Net::new("2001:db8:ff::".parse().unwrap(), 48).unwrap();
        let address = "2001:db8::7".parse().unwrap();
        let hop = Hop {
            gateway: Some(address),
            dead: true,
            terms: Terms::default(),
            ..gateway(0, 7)
        };
        let set = |state: &mut State, ignores| {
            let message = Message::IgnoresLinkDown {
                device: Settings::Of(1),
                six: true,
                ignores,
                forwards: None,
            };
            tell(state, 0, message);
        };
        set(&mut state, true);
        if was_down {
            link(&mut state, 0, false);
        }
        let message = Message::Link {
            device: 1,
            name: "sw0".into(),
            up: true,
            carrier: false,
            running: false,
            mac: None,
            mtu: 1500,
        };
        tell(&mut state, 0, message);
        state.begin_resync(false);
        for port in 0..2 {
            let message = Message::Link {
                device: port + 1,
                name: format!("sw{port}"),
                up: true,
                carrier: port == 1,
                running: port == 1,
                mac: None,
                mtu: 1500,
            };
            tell(&mut state, 0, message);
        }
        let message = RouteMessage {
            idle: vec![1],
            ..route(net, hop)
        };
        tell(&mut state, 0, Message::Route(message));
        state.end_resync();
        assert_eq!(state.desired(net), None);
        set(&mut state, false);
        // After it was down some may really be dead, which a dump says then.
        let alive = (!was_down).then_some(Target::Neighbour { port: 0, address });
        assert_eq!((state.desired(net), state.is_unsure()), (alive, was_down));
    }
}

/// A next hop that is dead and without a carrier is only ignored where that is set, and only while there is IPv6: when that
/// ends at a device the kernel has those of routes with others die, whatever its carrier.
#[test]
fn what_is_dead_without_a_carrier_is_no_more_than_ignored_only_where_that_is_set() {
    for (ignores, ends, carrier, alive) in [
        (true, false, false, true),
        (false, false, false, false),
        (false, true, false, false),
        (true, true, false, false),
        (true, true, true, false),
    ] {
        let mut state = state();
        let net = Net::new("2001:db8:ff::".parse().unwrap(), 48).unwrap();
        let own = "2001:db8::1".parse().unwrap();
        let told = |state: &mut State| {
            for port in 0..2 {
                let ready = carrier || port == 1;
                let message = Message::Link {
                    device: port + 1,
                    name: format!("sw{port}"),
                    up: true,
                    carrier: ready,
                    running: ready,
                    mac: None,
                    mtu: 1500,
                };
                tell(state, 0, message);
            }
        };
        let address = |present| Message::Address {
            device: 1,
            address: own,
            len: 64,
            peer: None,
            present,
        };
        let set = |ignores| Message::IgnoresLinkDown {
            device: Settings::Of(1),
            six: true,
            ignores,
            forwards: None,
        };
        tell(&mut state, 0, address(true));
        tell(&mut state, 0, set(ignores));
        told(&mut state);
        if ends {
            tell(&mut state, 0, address(false));
            assert!(state.is_unsure(), "it is dumped");
        }
        state.begin_resync(false);
        told(&mut state);
        if !ends {
            tell(&mut state, 0, address(true));
        }
        let hop = Hop {
            gateway: Some("2001:db8::7".parse().unwrap()),
            dead: true,
            ..gateway(0, 7)
        };
        let message = RouteMessage {
            idle: vec![1],
            ..route(net, hop)
        };
        tell(&mut state, 0, Message::Route(message));
        state.end_resync();
        // Nothing else says whether it was only ignored.
        tell(&mut state, 0, set(false));
        assert_eq!(
            state.desired(net).is_some(),
            alive,
            "{ignores} {ends} {carrier}"
        );
    }
}

/// Where a device is without IPv6, only a dump says what that did to next hops there, and what it does that IPv6 begins anew.
#[test]
fn next_hops_of_a_device_without_ipv6_do_not_live_again_by_its_being_ready() {
    let mut state = state();
    let net = Net::new("2001:db8:ff::".parse().unwrap(), 48).unwrap();
    let hop = Hop {
        gateway: Some("2001:db8::7".parse().unwrap()),
        dead: true,
        ..gateway(0, 7)
    };
    let dump = |state: &mut State| {
        state.begin_resync(false);
        for port in 0..2 {
            link(state, port, true);
        }
        tell(state, 0, Message::Route(route(net, hop)));
        state.end_resync();
    };
    dump(&mut state);
    assert_eq!((state.desired(net), state.is_unsure()), (None, false));
    link(&mut state, 0, true);
    assert!(
        state.is_unsure(),
        "it is dumped after a message of the link"
    );
    dump(&mut state);
    assert_eq!((state.desired(net), state.is_unsure()), (None, false));
    let message = Message::Address {
        device: 1,
        address: "fe80::1".parse().unwrap(),
        len: 64,
        peer: None,
        present: true,
    };
    tell(&mut state, 0, message);
    assert!(state.is_unsure(), "it is dumped when IPv6 begins");
}

/// A route's preference counts before the order, its longest packet and its source make the kernel forward.
#[test]
fn preference_mtu_and_source_of_a_route_decide() {
    let mut state = state();
    let six = |text: &str| text.parse::<IpAddr>().unwrap();
    let net = Net::new(six("2001:db8:ff::"), 48).unwrap();
    let at = |port: u32, preference: Preference| {
        let hop = Hop {
            gateway: None,
            ..gateway(port, 7)
        };
        let terms = Terms { preference, mtu: 0 };
        RouteMessage {
            terms,
            ..route(net, hop)
        }
    };
    let tell_route = |state: &mut State, message: RouteMessage| {
        let flags = flags::CREATE | flags::APPEND;
        tell(state, flags, Message::Route(message));
        state.changes();
    };
    tell_route(&mut state, at(0, Preference::Low));
    let hole = RouteMessage {
        kind: RouteKind::Blackhole,
        hops: Vec::new(),
        ..at(0, Preference::Medium)
    };
    assert_eq!(state.desired(net), Some(Target::Host));
    tell_route(&mut state, hole.clone());
    assert_eq!(state.desired(net), Some(Target::Discard));
    tell_route(&mut state, at(1, Preference::High));
    assert_eq!(state.desired(net), Some(Target::Host));
    tell(&mut state, 0, Message::RouteGone(at(1, Preference::High)));
    state.changes();
    assert_eq!(state.desired(net), Some(Target::Discard));
    let sourced = RouteMessage {
        from: Net::new(six("2001:db8:1::"), 64),
        ..hole
    };
    tell_route(&mut state, sourced.clone());
    assert_eq!(state.desired(net), Some(Target::Host));
    assert_eq!(state.counters.from_by_host, 1);
    tell(&mut state, 0, Message::RouteGone(sourced));
    state.changes();
    assert_eq!(state.desired(net), Some(Target::Discard));
    let four = Net::new(IpAddr::from([192, 0, 2, 0]), 24).unwrap();
    for (mtu, by_host) in [(0, false), (1499, true), (1500, false)] {
        let terms = Terms {
            mtu,
            ..Terms::default()
        };
        let message = RouteMessage {
            terms,
            ..route(four, gateway(0, 7))
        };
        tell(&mut state, flags::REPLACE, Message::Route(message));
        state.changes();
        assert_eq!(state.desired(four) == Some(Target::Host), by_host, "{mtu}");
    }
    assert_eq!(state.counters.narrow, 1);
}
