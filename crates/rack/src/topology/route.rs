// SPDX-License-Identifier: Apache-2.0
//! Which way packets go.

use std::net::Ipv4Addr;

use super::{End, Topology};

impl Topology {
    /// The port by which a switch sends packets to an address on: its longest prefix; the error says why none.
    pub fn egress(&self, switch: usize, to: Ipv4Addr) -> Result<usize, String> {
        let spec = &self.switch[switch];
        let name = spec.name.as_ref();
        let own = spec.port.iter().map(|port| {
            let interface = port.address.as_ref();
            (interface.subnet, to)
        });
        let routes = spec.route.iter();
        let all = own.chain(routes.map(|route| (*route.prefix.as_ref(), route.via)));
        let best = all
            .filter(|(subnet, _)| subnet.contains(to))
            .max_by_key(|(subnet, _)| subnet.len());
        let Some((subnet, via)) = best else {
            return Err(format!(
                "`{name}` has no route to {to}; add a route with a prefix that has it"
            ));
        };
        let mut ports = spec.port.iter().map(|port| *port.number.as_ref());
        ports
            .find(|port| self.neighbour(switch, *port) == Some(via))
            .ok_or_else(|| {
                format!("`{name}` has {to} in {subnet}, but no cable leads from there to {via}")
            })
    }

    /// Address of what a port's cable leads to.
    pub fn neighbour(&self, switch: usize, port: usize) -> Option<Ipv4Addr> {
        self.opposite(End::Switch(switch, port))
            .map(|end| self.address(end))
    }

    /// Both ends, input and output port, of every switch between two hosts; the error is a sentence.
    pub fn path(&self, from: usize, to: usize) -> Result<Vec<(usize, usize, usize)>, String> {
        let [first, second] = [from, to].map(|host| self.host[host].name.as_ref());
        let apart = || format!("no cable joins `{first}` and `{second}`; add a [[cable]]");
        let address = self.host_ip(to);
        let mut passed = Vec::new();
        let mut at = self.opposite(End::Host(from)).ok_or_else(apart)?;
        loop {
            let (switch, input) = match at {
                End::Host(host) if host == to => return Ok(passed),
                End::Host(_) if passed.is_empty() => return Err(apart()),
                End::Host(host) => {
                    let other = self.host[host].name.as_ref();
                    return Err(format!(
                        "packets from `{first}` to `{second}` end at `{other}`; correct the routes"
                    ));
                }
                End::Switch(switch, input) => (switch, input),
            };
            if passed.iter().any(|(before, _, _)| *before == switch) {
                let name = self.switch[switch].name.as_ref();
                return Err(format!(
                    "packets from `{first}` to `{second}` come to `{name}` a second time; correct the routes"
                ));
            }
            let output = self.egress(switch, address)?;
            passed.push((switch, input, output));
            at = self
                .opposite(End::Switch(switch, output))
                .ok_or_else(apart)?;
        }
    }
}
