// SPDX-License-Identifier: Apache-2.0
//! Everything that the schema of a topology does not say.

use super::{
    CableSpec, End, HostKind, HostSpec, MOST_SWITCHES, Neighbours, NicKind, PREFIX_LEN, PortSpec,
    ProgramSpec, Rate, SwitchSpec, Topology,
};
use crate::address::{Subnet, is_unicast};
use crate::model::{NARROW_PORTS, PORTS, WIDE_PORTS};
use crate::platform::Platform;
use crate::run::other_latency;

/// Most guests of a rack: what their addresses have room for.
const MOST_GUESTS: usize = 200;

/// Most NICs of a guest: what its kernel's bus has places for.
const MOST_NICS: usize = 8;
/// Most round trips of a ping-pong.
const MOST_LOOPS: u64 = 100_000_000;
/// Characters of the longest name: a guest's is that of its machine and of its directory.
const MOST_NAME: usize = 63;

/// What is wrong, with the offset that tells the line. A sentence begins with the key, by which a file's line is found.
type Fault = (usize, String);

impl Topology {
    /// Checks everything.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.host.len() < 2 {
            return Err((
                0,
                "host: a rack has at least two hosts; add a [[host]]".to_owned(),
            ));
        }
        self.check_names()?;
        for switch in &self.switch {
            check_ports(switch)?;
            check_latency(switch)?;
            self.check_control(switch)?;
        }
        for (index, host) in self.host.iter().enumerate() {
            let place = host.name.span().start;
            let address = self.host_ip(index);
            if host.nic.kind == NicKind::HostPort && self.switch_of(index).is_none() {
                let name = host.name.as_ref();
                let sentence = format!(
                    "host.nic.kind: `{name}` is the host of no switch; give one control = \"{name}\", or the guest a NIC"
                );
                return Err((place, sentence));
            }
            let checked = match is_unicast(address) && !address.is_broadcast() {
                true => check_host(host),
                false => Err(format!(
                    "nic.ip: {address} is no address of a host; write one such as 10.0.0.1"
                )),
            };
            checked.map_err(|sentence| (place, format!("host.{sentence}")))?;
            self.check_card(index)?;
            if let Some(text) = &host.fetch {
                self.fetch(text)
                    .map_err(|sentence| (place, format!("host.fetch: {sentence}")))?;
            }
        }
        let mut plugged = Vec::new();
        for cable in &self.cable {
            self.check_cable(cable, &mut plugged)?;
        }
        for (index, switch) in self.switch.iter().enumerate() {
            self.check_routes(index, switch)?;
        }
        for host in &self.host {
            if host.nic.auth && !host.nic.reliable {
                let sentence =
                    "host.nic.auth: only sessions can be sealed; set reliable".to_owned();
                return Err((host.name.span().start, sentence));
            }
        }
        self.check_registers()?;
        self.check_program()
    }

    /// What a file says of the platform: that there is it, and that it has what the switches need.
    pub(super) fn check_platform(&self) -> Result<(), Fault> {
        let platform = Platform::load(&self.platform);
        let platform = platform.map_err(|error| (0, format!("platform: {error}")))?;
        for switch in &self.switch {
            if let Some(latency) = &switch.latency_ns {
                other_latency(switch, latency.as_ref(), &platform)
                    .map_err(|error| (latency.span().start, error.to_string()))?;
            }
        }
        Ok(())
    }

    /// The guest that is a switch's host.
    fn check_control(&self, switch: &SwitchSpec) -> Result<(), Fault> {
        let Some(control) = &switch.control else {
            return Ok(());
        };
        let (place, name) = (control.span().start, control.as_ref());
        let switch_name = switch.name.as_ref();
        let fault = |sentence: String| Err((place, format!("switch.control: {sentence}")));
        let Some(host) = self.host_index(name) else {
            let known = self.known_hosts();
            return fault(format!("there is no host `{name}`; the hosts are {known}"));
        };
        let host = &self.host[host];
        if host.kind != HostKind::Uml || host.nic.kind != NicKind::HostPort {
            return fault(format!(
                "`{name}` has a NIC of its own; give it kind = \"uml\" and nic.kind = \"host-port\""
            ));
        }
        if host.nic.rate != switch.rate {
            return fault(format!(
                "`{name}` is {} and `{switch_name}` is {}; make the rates equal",
                host.nic.rate, switch.rate
            ));
        }
        let same = |other: &&SwitchSpec| {
            let control = other.control.as_ref();
            control.is_some_and(|control| control.as_ref() == name)
        };
        if self.switch.iter().filter(same).count() > 1 {
            return fault(format!("`{name}` has two switches; give one another guest"));
        }
        if switch.ideal || switch.latency_ns.is_some() {
            return fault(format!(
                "`{switch_name}` has no tables that a guest could write: only the RTL has; remove ideal and latency_ns"
            ));
        }
        if !switch.route.is_empty() {
            return fault(format!(
                "the routes of `{switch_name}` are those of `{name}`'s kernel; remove its [[switch.route]]"
            ));
        }
        Ok(())
    }

    /// The guest that a card is in.
    fn check_card(&self, card: usize) -> Result<(), Fault> {
        let host = &self.host[card];
        let (place, name) = (host.name.span().start, host.name.as_ref());
        let of = match &host.of {
            None if host.kind != HostKind::Card => return Ok(()),
            None => {
                let sentence =
                    format!("host.of: `{name}` is in no guest; name the one that it is a card of");
                return Err((place, sentence));
            }
            Some(of) => of,
        };
        let (place, guest) = (of.span().start, of.as_ref());
        let fault = |sentence: String| Err((place, format!("host.of: {sentence}")));
        if host.kind != HostKind::Card {
            return fault(format!(
                "`{name}` is a host of its own; give it kind = \"card\", or remove of"
            ));
        }
        let Some(index) = self.host_index(guest) else {
            let known = self.known_hosts();
            return fault(format!("there is no host `{guest}`; the hosts are {known}"));
        };
        let first = &self.host[index];
        if first.kind != HostKind::Uml || first.nic.kind != NicKind::Ring {
            return fault(format!(
                "`{guest}` takes no cards; give it kind = \"uml\" and nic.kind = \"ring\""
            ));
        }
        // One driver has them all, with one set of costs.
        if (first.nic.rate, first.link) != (host.nic.rate, host.link) {
            return fault(format!(
                "`{name}` is not like the first NIC of `{guest}`; give both one nic.rate and one link"
            ));
        }
        if self.cards(index).len() >= MOST_NICS {
            return fault(format!(
                "`{guest}` has more than {MOST_NICS} NICs; leave some out"
            ));
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), Fault> {
        let hosts = self.host.iter().map(|host| ("host", &host.name));
        let switches = self.switch.iter().map(|switch| ("switch", &switch.name));
        let mut seen = Vec::new();
        for (kind, name) in hosts.chain(switches) {
            let (place, text) = (name.span().start, name.as_ref().as_str());
            if seen.contains(&text) {
                return Err((
                    place,
                    format!("{kind}.name: `{text}` is there twice; rename one"),
                ));
            }
            if !is_name(text) {
                let shown: String = text.chars().take(MOST_NAME).collect();
                let shown = shown.escape_debug();
                return Err((
                    place,
                    format!(
                        "{kind}.name: `{shown}` is no name; write 1 to {MOST_NAME} letters, digits and hyphens, none of these at the ends"
                    ),
                ));
            }
            seen.push(text);
        }
        if self.switch.len() > MOST_SWITCHES {
            let place = self.switch[MOST_SWITCHES].name.span().start;
            let sentence =
                format!("switch: a rack has at most {MOST_SWITCHES} switches; leave some out");
            return Err((place, sentence));
        }
        Ok(())
    }

    fn known_hosts(&self) -> String {
        let names = self.host.iter().map(|host| host.name.as_ref().as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// What a cable's end names; the sentence says why it names nothing.
    fn find_end(&self, name: &str) -> Result<End, String> {
        if let Some(end) = self.end(name) {
            return Ok(end);
        }
        let (switch, port) = match name.rsplit_once(':') {
            Some((switch, port)) => (switch, Some(port)),
            None => (name, None),
        };
        let Some(index) = self.switch_index(switch) else {
            let mut sentence = format!("there is no host `{name}`");
            if port.is_some() {
                sentence = format!("there is no switch `{switch}`");
            }
            sentence += &format!("; the hosts are {}", self.known_hosts());
            let mut names = self.switch.iter().map(|switch| switch.name.as_ref());
            if let Some(first) = names.next() {
                let rest = names.map(|name| format!(", {name}"));
                sentence += &format!(", the switches {first}{}", rest.collect::<String>());
            }
            return Err(sentence);
        };
        let known = self.switch[index].port.iter();
        let known: Vec<_> = known
            .map(|port| format!("{switch}:{}", port.number.as_ref()))
            .collect();
        let known = known.join(", ");
        Err(match port {
            None => format!("`{switch}` is a switch; name its port, one of {known}"),
            Some(port) => format!(
                "port {port} of `{switch}` has no address; the ports are {known}, or add one to the switch"
            ),
        })
    }

    fn check_cable(&self, cable: &CableSpec, plugged: &mut Vec<End>) -> Result<(), Fault> {
        let place = cable.between.span().start;
        let fault = |sentence: String| (place, format!("cable.between: {sentence}"));
        let [one, two] = cable.between.as_ref();
        let ends = [
            self.find_end(one).map_err(fault)?,
            self.find_end(two).map_err(fault)?,
        ];
        match ends {
            [End::Host(a), End::Host(b)] if a == b => {
                return Err(fault("a cable joins two different hosts".to_owned()));
            }
            [End::Switch(a, _), End::Switch(b, _)] if a == b => {
                return Err(fault("a cable does not join a switch to itself".to_owned()));
            }
            _ => {}
        }
        for (end, name) in ends.into_iter().zip([one, two]) {
            if matches!(end, End::Host(host) if self.host[host].nic.kind == NicKind::HostPort) {
                return Err(fault(format!(
                    "`{name}` has no NIC, it is the host of a switch; name a port of that"
                )));
            }
            if plugged.contains(&end) {
                return Err(fault(match end {
                    End::Host(_) => {
                        format!("the NIC of `{name}` has a cable already; it has one port")
                    }
                    End::Switch(..) => format!("`{name}` has a cable already; use another port"),
                }));
            }
            plugged.push(end);
        }
        let [a, b] = ends.map(|end| match end {
            End::Host(host) => self.host[host].nic.rate,
            End::Switch(switch, _) => self.switch[switch].rate,
        });
        if a != b {
            return Err(fault(if self.switch.is_empty() {
                "the two NICs have different rates; make them equal".to_owned()
            } else {
                format!("`{one}` is {a} and `{two}` is {b}; make the rates equal")
            }));
        }
        match ends {
            [End::Host(one), End::Host(two)] => self.check_pair([one, two])?,
            _ => self.check_subnet(ends, [one, two]).map_err(fault)?,
        }
        if let Err(sentence) = cable.faults.check() {
            // The option is called `--delay`.
            let sentence = sentence.replacen("delay:", "delay_ns:", 1);
            return Err((place, format!("cable.faults.{sentence}")));
        }
        if let Some(Err(sentence)) = cable.cut.map(|cut| cut.check()) {
            return Err((place, format!("cable.cut.{sentence}")));
        }
        let metres = *cable.metres.as_ref();
        if !(0.0..=100_000.0).contains(&metres) || metres.is_sign_negative() {
            return Err((
                cable.metres.span().start,
                format!("cable.metres: {metres} is no length; write 0 to 100000"),
            ));
        }
        Ok(())
    }

    /// Two hosts with a cable straight between them, and so without a gateway, are in one subnet.
    fn check_pair(&self, hosts: [usize; 2]) -> Result<(), Fault> {
        let [one, two] = hosts.map(|host| self.host_ip(host));
        let subnet = Subnet::around(one, PREFIX_LEN);
        let [first, second] = hosts.map(|host| self.host[host].name.as_ref());
        for (host, address) in hosts.into_iter().zip([one, two]) {
            let place = self.host[host].name.span().start;
            let name = self.host[host].name.as_ref();
            let around = Subnet::around(address, PREFIX_LEN);
            if !around.has_host(address) {
                return Err((
                    place,
                    format!(
                        "host.nic.ip: {address} is no address of a host in {around}; give `{name}` another"
                    ),
                ));
            }
        }
        let place = self.host[hosts[1]].name.span().start;
        if one == two {
            return Err((
                place,
                format!(
                    "host.nic.ip: `{first}` and `{second}` have the same address {one}; change one"
                ),
            ));
        }
        if !subnet.contains(two) {
            return Err((
                place,
                format!(
                    "host.nic.ip: {two} of `{second}` is not in {subnet} with `{first}` at the other end of the cable; set both in one subnet"
                ),
            ));
        }
        Ok(())
    }

    /// Both ends of a cable are in one subnet, with addresses of their own.
    fn check_subnet(&self, ends: [End; 2], names: [&String; 2]) -> Result<(), String> {
        let addresses = ends.map(|end| self.address(end));
        let subnet = |end: End| match end {
            End::Host(_) => None,
            End::Switch(switch, port) => self.switch[switch]
                .port(port)
                .map(|port| port.address.as_ref().subnet),
        };
        let subnets = ends.map(subnet);
        if let [Some(one), Some(two)] = subnets
            && one != two
        {
            return Err(format!(
                "`{}` is in {one} and `{}` in {two}; a cable is one subnet",
                names[0], names[1]
            ));
        }
        let Some(subnet) = subnets[0].or(subnets[1]) else {
            return Ok(());
        };
        for ((end, name), address) in ends.into_iter().zip(names).zip(addresses) {
            let outside =
                matches!(end, End::Host(_)) && !(subnet.has_host(address) && is_unicast(address));
            if outside {
                return Err(format!(
                    "`{name}` has the address {address}, which is none of {subnet} at the other end; set nic.ip"
                ));
            }
        }
        if addresses[0] == addresses[1] {
            return Err(format!(
                "`{}` and `{}` have the same address {}; change one",
                names[0], names[1], addresses[0]
            ));
        }
        Ok(())
    }

    fn check_routes(&self, index: usize, switch: &SwitchSpec) -> Result<(), Fault> {
        for (number, route) in switch.route.iter().enumerate() {
            let place = route.prefix.span().start;
            let (prefix, via) = (*route.prefix.as_ref(), route.via);
            let fault = |sentence: String| Err((place, format!("switch.route: {sentence}")));
            let before = &switch.route[..number];
            if before.iter().any(|other| *other.prefix.as_ref() == prefix) {
                return fault(format!("{prefix} is there twice; remove one"));
            }
            let own = |port: &PortSpec| {
                let subnet = port.address.as_ref().subnet;
                subnet.overlaps(prefix) && subnet.len() <= prefix.len()
            };
            if let Some(port) = switch.port.iter().find(|port| own(port)) {
                let (number, address) = (port.number.as_ref(), port.address.as_ref());
                return fault(format!(
                    "{prefix} is in {} of port {number}; remove the route",
                    address.subnet
                ));
            }
            let mut ports = switch.port.iter().map(|port| *port.number.as_ref());
            if !ports.any(|port| self.neighbour(index, port) == Some(via)) {
                return fault(format!(
                    "no cable of `{}` leads to the gateway {via}; name the address at the other end of one",
                    switch.name.as_ref()
                ));
            }
        }
        Ok(())
    }

    fn check_program(&self) -> Result<(), Fault> {
        let place = self.program.span().start;
        let fault = |sentence: String| (place, format!("program.{sentence}"));
        let uml = matches!(self.program.as_ref(), ProgramSpec::Uml { .. });
        for host in &self.host {
            let (is_guest, name) = (host.kind != HostKind::Native, host.name.as_ref());
            let engine = host.nic.kind == NicKind::Toe;
            if engine && !uml {
                return Err(fault(format!(
                    "kind: `{name}` has a TCP offload engine, which guests have as their peer; write kind = \"uml\""
                )));
            }
            if is_guest != uml && !engine {
                return Err(fault(if uml {
                    format!("kind: uml runs guests, and `{name}` is none; give it kind = \"uml\"")
                } else {
                    format!("kind: `{name}` is a guest; write kind = \"uml\" for the program, too")
                }));
            }
        }
        if uml && self.host.len() > MOST_GUESTS {
            return Err(fault(format!(
                "kind: a rack has at most {MOST_GUESTS} guests"
            )));
        }
        match self.program.as_ref() {
            ProgramSpec::Pingpong {
                first,
                second,
                bytes,
                loops,
                warmup,
            } => {
                let (one, two) = (
                    self.program_host("first", first)?,
                    self.program_host("second", second)?,
                );
                if one == two {
                    let sentence =
                        format!("program: `{first}` is both first and second; name two hosts");
                    return Err((place, sentence));
                }
                self.check_way(one, two)?;
                check_pingpong(*bytes, *loops).map_err(fault)?;
                check_warmup(*warmup).map_err(fault)
            }
            ProgramSpec::Stream {
                from,
                to,
                bytes,
                stores,
                rate_gbps,
            } => {
                let sink = self.program_host("to", to)?;
                if from.is_empty() {
                    return Err(fault("from: nobody sends; name a host".to_owned()));
                }
                for (index, name) in from.iter().enumerate() {
                    let sender = self.program_host("from", name)?;
                    if sender == sink || from[..index].contains(name) {
                        return Err(fault(format!(
                            "from: `{name}` is there twice, or receives; name each host once"
                        )));
                    }
                    self.check_way(sender, sink)?;
                }
                check_stream(*bytes, *stores, *rate_gbps).map_err(fault)
            }
            ProgramSpec::Uml { until, limit_s } => {
                for (index, name) in until.iter().enumerate() {
                    if until[..index].contains(name) {
                        return Err(fault(format!(
                            "until: `{name}` is there twice; name each host once"
                        )));
                    }
                    let host = self.program_host("until", name)?;
                    if self.host[host].command.is_none() {
                        return Err(fault(format!(
                            "until: `{name}` has no command, so it does not end; give it one"
                        )));
                    }
                }
                if self.host.iter().all(|host| host.command.is_none()) {
                    let sentence = "kind: no guest has a command; give one to a host".to_owned();
                    return Err(fault(sentence));
                }
                if !(*limit_s > 0.0 && *limit_s <= 1e6) {
                    return Err(fault(format!(
                        "limit_s: {limit_s} is no time; write up to 1000000 seconds"
                    )));
                }
                Ok(())
            }
        }
    }

    /// Index of a host that the program names.
    fn program_host(&self, key: &str, name: &str) -> Result<usize, Fault> {
        self.host_index(name).ok_or_else(|| {
            let known = self.known_hosts();
            (
                self.program.span().start,
                format!("program.{key}: there is no host `{name}`; the hosts are {known}"),
            )
        })
    }

    /// Packets between two hosts of the program find their way, the same in both directions.
    fn check_way(&self, one: usize, two: usize) -> Result<(), Fault> {
        let place = self.program.span().start;
        let path = |from, to| {
            let path = self.path(from, to);
            path.map_err(|sentence| (place, format!("program: {sentence}")))
        };
        let (there, back) = (path(one, two)?, path(two, one)?);
        let returns = back.iter().rev();
        let returns = returns.map(|(switch, input, output)| (*switch, *output, *input));
        if !returns.eq(there) {
            let [first, second] = [one, two].map(|host| self.host[host].name.as_ref());
            let sentence = format!(
                "program: packets from `{second}` to `{first}` take another way back; make the routes the same both ways"
            );
            return Err((place, sentence));
        }
        Ok(())
    }

    fn check_registers(&self) -> Result<(), Fault> {
        for name in self.register.keys() {
            let known = wire::registers::REGISTERS.iter();
            let mut known =
                known.filter(|register| register.access == wire::registers::Access::ReadWrite);
            if !known.any(|register| register.name == name) {
                return Err((
                    0,
                    format!(
                        "register.{name}: there is no such register to write; docs/registers.md has their names"
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Whether a host or a switch may be called so.
fn is_name(text: &str) -> bool {
    (1..=MOST_NAME).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// What a host's kind and its NIC's permit; the sentence goes on after `host.`.
fn check_host(host: &HostSpec) -> Result<(), String> {
    let name = host.name.as_ref();
    let engine = host.nic.kind == NicKind::Toe;
    if engine && host.kind == HostKind::Uml {
        return Err(format!(
            "nic.kind: no guest has a driver for a TCP offload engine; remove the kind = \"uml\" of `{name}`"
        ));
    }
    if host.fetch.is_some() && !engine {
        return Err(format!(
            "fetch: only a TCP offload engine fetches; give the nic of `{name}` kind = \"toe\""
        ));
    }
    if host.kind == HostKind::Card {
        if host.nic.kind != NicKind::Ring {
            return Err(format!(
                "nic.kind: a card of a guest is the conventional NIC; give `{name}` nic.kind = \"ring\""
            ));
        }
        let own =
            host.command.is_some() || !host.files.is_empty() || host.rdma || !host.cpu.is_empty();
        if own || host.neighbours != Neighbours::Static {
            return Err(format!(
                "of: `{name}` is a card and no machine; give command, files, rdma, cpu and neighbours to its guest"
            ));
        }
    }
    if host.kind == HostKind::Native {
        if !engine && host.nic.kind != NicKind::Ipnuma {
            return Err(format!(
                "nic.kind: only a guest has another NIC than ipnuma; give `{name}` kind = \"uml\""
            ));
        }
        if host.rdma {
            return Err(format!(
                "rdma: only a guest has a kernel; give `{name}` kind = \"uml\""
            ));
        }
        if !host.files.is_empty() {
            return Err(format!(
                "files: only a guest has a directory for them; give `{name}` kind = \"uml\""
            ));
        }
        if host.command.is_some() {
            return Err(format!(
                "command: only a guest runs one; give `{name}` kind = \"uml\""
            ));
        }
    }
    let only_ten = match host.nic.kind {
        NicKind::Uzura => Some("NIC with UZURA"),
        NicKind::Toe => Some("TCP offload engine"),
        _ => None,
    };
    if let Some(what) = only_ten.filter(|_| host.nic.rate != Rate::Ten) {
        return Err(format!(
            "nic.rate: there is no {what} at {}; give that of `{name}` rate = \"10g\"",
            host.nic.rate
        ));
    }
    if host.nic.kind != NicKind::Ipnuma && (host.nic.auth || host.nic.merge) {
        return Err(format!(
            "nic: auth and merge are for the IP-NUMA NIC, and that of `{name}` is another"
        ));
    }
    let driven =
        host.kind == HostKind::Uml && matches!(host.nic.kind, NicKind::Ipnuma | NicKind::Shared);
    if host.nic.interrupts && !driven {
        return Err(format!(
            "nic.interrupts: they are for a guest's IP-NUMA NIC, and `{name}` has none"
        ));
    }
    if !(32..=4096).contains(&host.memory_mb) {
        return Err(format!(
            "memory_mb: {} is no memory for a guest; write 32 to 4096",
            host.memory_mb
        ));
    }
    Ok(())
}

/// The latency of a switch that is not RTL.
fn check_latency(switch: &SwitchSpec) -> Result<(), Fault> {
    let Some(latency) = &switch.latency_ns else {
        if switch.store_and_forward {
            return Ok(());
        }
        let sentence = "switch.store_and_forward: it is for a switch with latency_ns, and this one does what its RTL \
                        does; remove it";
        return Err((switch.name.span().start, sentence.to_owned()));
    };
    let fault = |sentence: String| {
        let place = latency.span().start;
        Err((place, format!("switch.latency_ns: {sentence}")))
    };
    if switch.ideal {
        return fault("an ideal switch has that of the RTL; remove one of the two".to_owned());
    }
    match latency.as_ref().points() {
        Ok(_) => Ok(()),
        Err(sentence) => fault(sentence),
    }
}

/// Numbers and subnets of a switch's ports.
fn check_ports(switch: &SwitchSpec) -> Result<(), Fault> {
    let name = switch.name.as_ref();
    let ports = *switch.ports.as_ref();
    if ![NARROW_PORTS, PORTS, WIDE_PORTS].contains(&ports) {
        let sentence = format!(
            "switch.ports: there is no switch of {ports} ports; write {NARROW_PORTS}, {PORTS} or {WIDE_PORTS}"
        );
        return Err((switch.ports.span().start, sentence));
    }
    if switch.port.is_empty() {
        let sentence = format!("switch.port: `{name}` has no port with an address; add some");
        return Err((switch.name.span().start, sentence));
    }
    for (index, port) in switch.port.iter().enumerate() {
        let number = *port.number.as_ref();
        if number >= ports {
            return Err((
                port.number.span().start,
                format!(
                    "switch.port.number: there is no port {number}; they are 0 to {}",
                    ports - 1
                ),
            ));
        }
        let address = port.address.as_ref();
        for before in &switch.port[..index] {
            if *before.number.as_ref() == number {
                return Err((
                    port.number.span().start,
                    format!(
                        "switch.port.number: port {number} of `{name}` is there twice; remove one"
                    ),
                ));
            }
            let other = before.address.as_ref();
            if other.subnet.overlaps(address.subnet) {
                return Err((
                    port.address.span().start,
                    format!(
                        "switch.port.address: {address} and {other} of port {} share addresses; \
                         give each port a subnet of its own",
                        before.number.as_ref()
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Limits of the ping-pong program, for topologies and command lines.
pub fn check_pingpong(bytes: usize, loops: u64) -> Result<(), String> {
    if !(4..=64).contains(&bytes) || !bytes.is_multiple_of(4) {
        return Err(format!(
            "bytes: {bytes} is not a multiple of 4 from 4 to 64"
        ));
    }
    if !(1..=MOST_LOOPS).contains(&loops) {
        return Err(format!("loops: {loops} is not from 1 to {MOST_LOOPS}"));
    }
    Ok(())
}

/// Limit of the round trips before a ping-pong is measured.
pub fn check_warmup(warmup: u64) -> Result<(), String> {
    if warmup > MOST_LOOPS {
        return Err(format!(
            "warmup: {warmup} is not from 0 to {MOST_LOOPS}; write fewer"
        ));
    }
    Ok(())
}

/// Limits of the stream program, for topologies and command lines.
pub fn check_stream(bytes: usize, stores: u64, rate_gbps: Option<f64>) -> Result<(), String> {
    if !(4..=64).contains(&bytes) || !bytes.is_multiple_of(4) {
        return Err(format!(
            "bytes: {bytes} is not a multiple of 4 from 4 to 64"
        ));
    }
    if !(1..=10_000_000).contains(&stores) {
        return Err(format!("stores: {stores} is not from 1 to 10000000"));
    }
    if let Some(rate) = rate_gbps.filter(|rate| !(*rate > 0.0 && *rate <= 1_000.0)) {
        return Err(format!("rate: {rate} is no rate; write up to 1000 Gb/s"));
    }
    Ok(())
}
