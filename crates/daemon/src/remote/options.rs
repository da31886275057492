// SPDX-License-Identifier: Apache-2.0
//! How stores travel to other machines.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use softnic::{AfXdp, Faults, Faulty, SoftNic, Tap, Udp};

use crate::remote::nic::{Nic, Soft};
use crate::remote::rack::Rack;

/// What is below the NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Transport {
    /// UDP sockets at the management address.
    #[default]
    Udp,
    /// An AF_XDP socket for the management address: the name of the device, and its queue.
    Xdp(String, u32),
    /// A TAP device of this name; the NIC beyond it has these addresses.
    Tap(String, u64, Ipv4Addr),
    /// The NIC of a guest in the rack: its driver's device, and what it is told, unless somebody has done so already.
    Rack(String, Option<Own>),
}

/// Own addresses of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// MAC address; 0: that of the interface with the address, and the kernel knows those of others.
    pub mac: u64,
    /// IPv4 address.
    pub address: Ipv4Addr,
    /// Bits of the network in it.
    pub bits: u8,
    /// MAC address of the gateway to other networks; 0 without one.
    pub gateway_mac: u64,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no transport: write `udp`, `xdp:DEVICE`, `xdp:DEVICE,QUEUE`, \
                 `tap:DEVICE,MAC,ADDRESS`, `rack:DEVICE`, `rack:DEVICE,ADDRESS/BITS` or \
                 `rack:DEVICE,MAC,ADDRESS/BITS[,GATEWAY_MAC]`"
            )
        };
        if text == "udp" {
            return Ok(Self::Udp);
        }
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let mut parts = rest.split(',');
        let device = parts.next().filter(|name| !name.is_empty());
        let device = device.ok_or_else(wrong)?.to_owned();
        let transport = match kind {
            "xdp" => {
                let queue = parts.next().map_or(Ok(0), str::parse);
                Self::Xdp(device, queue.map_err(|_| wrong())?)
            }
            "tap" => {
                let mac = parts.next().and_then(parse_mac).ok_or_else(wrong)?;
                let address = parts.next().and_then(|text| text.parse().ok());
                Self::Tap(device, mac, address.ok_or_else(wrong)?)
            }
            "rack" => {
                let own = parts.next().map(|first| {
                    // Without a MAC address there is none of a gateway either.
                    let alone = first.contains('/');
                    let (mac, network) = match alone {
                        true => (0, first),
                        false => (parse_mac(first)?, parts.next()?),
                    };
                    let (address, bits) = network.split_once('/')?;
                    let gateway = if alone { None } else { parts.next() };
                    Some(Own {
                        mac,
                        address: address.parse().ok()?,
                        bits: bits.parse().ok().filter(|bits| *bits <= 32)?,
                        gateway_mac: gateway.map_or(Some(0), parse_mac)?,
                    })
                });
                Self::Rack(device, own.map(|own| own.ok_or_else(wrong)).transpose()?)
            }
            _ => return Err(wrong()),
        };
        parts
            .next()
            .is_none()
            .then_some(transport)
            .ok_or_else(wrong)
    }
}

impl Transport {
    /// Whether stores are carried by hardware, not by threads of this machine.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        matches!(self, Self::Rack(..))
    }
}

impl TryFrom<String> for Transport {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A MAC address in its usual form, 02:00:00:00:00:01.
pub fn parse_mac(text: &str) -> Option<u64> {
    let bytes: Vec<&str> = text.split(':').collect();
    if bytes.len() != 6 || bytes.iter().any(|byte| byte.len() != 2) {
        return None;
    }
    let digits = |byte: &str| byte.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !bytes.iter().all(|byte| digits(byte)) {
        return None;
    }
    bytes.iter().try_fold(0, |mac, byte| {
        Some(mac << 8 | u64::from(u8::from_str_radix(byte, 16).ok()?))
    })
}

/// A network, as 10.0.0.0/24; an address alone is one of a single machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: u32,
    mask: u32,
}

impl Network {
    /// Whether an address is in it.
    #[must_use]
    pub fn has(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask == self.address
    }

    /// Its address and its mask.
    #[must_use]
    pub fn words(&self) -> (u32, u32) {
        (self.address, self.mask)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = input::quoted(text);
            format!("{text} is no network; write ADDRESS/BITS, as 10.0.0.0/24, or ADDRESS")
        };
        let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let bits: u32 = bits.parse().map_err(|_| wrong())?;
        let mask = match bits {
            0 => 0,
            1..=32 => !0 << (32 - bits),
            _ => return Err(wrong()),
        };
        Ok(Self {
            address: u32::from(address) & mask,
            mask,
        })
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What is to be known of machines whose daemons announce connections, beside their addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Where their daemons are.
    pub daemon: Network,
    /// From where their programs connect, besides the daemon's own address.
    #[serde(default)]
    pub sources: Vec<Network>,
    /// Where their NICs are, besides the daemon's own address.
    #[serde(default)]
    pub nics: Vec<Network>,
}

/// Of the part of the daemon that speaks with other machines; used only with a management address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What carries frames.
    pub nic: Transport,
    /// Microseconds that the NIC's thread looks for more to do before it sleeps.
    pub spin_us: u64,
    /// Seconds of silence, while an answer is due, until another daemon is taken for gone; fewer than a process waits for its own.
    pub patience: u64,
    /// Sockets to programs on machines in these networks are accelerated: their daemons are asked, at the port of the own
    /// management address. Only daemons in these networks may announce connections to programs here.
    pub sockets: Vec<Network>,
    /// Sockets go to these machines by a NIC in software, too, although the kernel is faster there. Otherwise only those do
    /// for which a program's policy asks.
    pub software_sockets: bool,
    /// More about daemons in `sockets`.
    pub peer: Vec<Peer>,
    /// Lines of a ring between machines, a power of two.
    pub ring_lines: u32,
    /// Daemons show each other no keys, and sessions are not sealed: whoever reaches the management address is believed.
    pub insecure: bool,
    /// This machine's key; by default `key` in [`crate::keys::default_directory`].
    pub key: Option<PathBuf>,
    /// Those of other machines; by default `known_peers` there.
    pub known_peers: Option<PathBuf>,
    /// A sealed session gets new keys when one side has sent so many frames with its key; 0: never for that reason.
    pub rekey_frames: u64,
    /// And when it has sent with it for so many seconds; 0: never for that reason.
    pub rekey_seconds: u64,
    /// What each other machine may have here.
    pub guests: Guests,
    /// For tests: connections within this machine go by the NIC, too, as if between machines.
    pub loopback: bool,
    /// For tests: what happens to frames that this side sends, and with which seed.
    #[serde(skip)]
    pub faults: Option<(Faults, u64)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nic: Transport::Udp,
            spin_us: 50,
            patience: 3,
            sockets: Vec::new(),
            software_sockets: false,
            peer: Vec::new(),
            ring_lines: shm::channel::STREAM_LINES,
            insecure: false,
            key: None,
            known_peers: None,
            rekey_frames: 1 << 24,
            rekey_seconds: 3600,
            guests: Guests::default(),
            loopback: false,
            faults: None,
        }
    }
}

impl Options {
    /// Whether connections to other machines go by the NIC although nobody asks for it: where it is hardware, or the test's.
    #[must_use]
    pub fn carries_sockets(&self) -> bool {
        self.nic.is_hardware() || self.software_sockets || self.loopback
    }
}

/// What one other machine may have here, so that none takes everything from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guests {
    /// Connections of its daemons, and sessions.
    pub sessions: usize,
    /// Connections that its programs are just opening.
    pub intents: usize,
    /// Channels to programs here.
    pub channels: usize,
    /// Of those, such that nobody has accepted yet.
    pub waiting: usize,
    /// Windows on regions here.
    pub windows: usize,
}

impl Default for Guests {
    fn default() -> Self {
        Self {
            sessions: 16,
            intents: 1024,
            channels: 4096,
            waiting: 1024,
            windows: 1024,
        }
    }
}

impl Options {
    /// Whether the daemon at `peer` may name this address as its NIC's; this machine's NIC is at `own`. The sentence says why not.
    pub(super) fn may_name(
        &self,
        peer: Ipv4Addr,
        nic: Ipv4Addr,
        own: Ipv4Addr,
    ) -> Result<(), String> {
        let refused = |why: &str| {
            Err(format!(
                "{peer} has named {nic} as the address of its NIC and was refused: {why}"
            ))
        };
        let [first, ..] = nic.octets();
        // From 224 on: multicast, reserved, broadcast.
        if first == 0 || first >= 224 || nic.is_loopback() && !peer.is_loopback() {
            return refused("that is no address of another machine");
        }
        // This daemon may be the other one, too.
        if nic == own && peer != own {
            return refused("that is this machine's");
        }
        let of_peer = self.peer.iter().filter(|it| it.daemon.has(peer));
        let mut named = of_peer.flat_map(|it| &it.nics).peekable();
        // A NIC that is a device has an address of its own, and so have those that it speaks with.
        let apart = matches!(self.nic, Transport::Tap(..) | Transport::Rack(..));
        if nic == peer || apart && named.peek().is_none() || named.any(|it| it.has(nic)) {
            return Ok(());
        }
        refused(
            "that is not where its daemon is; if its NIC is there, list the address in the `nics` of a [[remote.peer]] of the \
             configuration",
        )
    }

    /// Where this machine's key is.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        let named = self.key.clone();
        named.unwrap_or_else(|| crate::keys::default_directory().join("key"))
    }

    /// Where other machines' keys are.
    #[must_use]
    pub fn known_peers_file(&self) -> PathBuf {
        let named = self.known_peers.clone();
        named.unwrap_or_else(|| crate::keys::default_directory().join("known_peers"))
    }

    pub(super) fn open(&self, management: Ipv4Addr) -> Result<Box<dyn Nic>, softnic::Error> {
        fn with<T: softnic::Transport + 'static>(
            transport: T,
            faults: Option<(Faults, u64)>,
        ) -> Box<dyn softnic::Transport> {
            match faults {
                Some((faults, seed)) => Box::new(Faulty::new(transport, faults, seed)),
                None => Box::new(transport),
            }
        }
        let transport = match &self.nic {
            Transport::Udp => with(Udp::bind(management)?, self.faults),
            Transport::Xdp(device, queue) => {
                with(AfXdp::open(device, *queue, management)?, self.faults)
            }
            Transport::Tap(device, mac, address) => {
                with(Tap::open(device, *mac, *address)?, self.faults)
            }
            Transport::Rack(device, own) => {
                let rack = Rack::open(Path::new(device), *own, !self.insecure)?;
                return Ok(Box::new(rack));
            }
        };
        let nic = SoftNic::new(softnic::Config::default(), transport)?;
        Ok(Box::new(Soft::new(nic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_is_where_its_daemon_is_unless_the_configuration_says_otherwise() {
        let text = "[[peer]]\ndaemon = '10.0.0.3'\nnics = ['10.1.0.0/24', '0.0.0.0/0']";
        let told: Options = toml::from_str(text).expect("options");
        let text =
            "[[peer]]\ndaemon = '10.0.0.3'\nnics = ['10.1.0.0/24']\n[[peer]]\ndaemon = '10.0.0.2'";
        let some: Options = toml::from_str(text).expect("options");
        let device = Options {
            nic: Transport::Rack("/dev/ipnuma0".into(), None),
            ..Options::default()
        };
        let may = |options: &Options, peer: &str, nic: &str| {
            let [peer, nic, own] =
                [peer, nic, "10.0.0.1"].map(|it| it.parse().expect("an address"));
            options.may_name(peer, nic, own).is_ok()
        };
        let none = Options::default();
        assert!(may(&none, "10.0.0.2", "10.0.0.2"));
        for (peer, nic) in [
            ("10.0.0.2", "10.0.0.3"),
            ("10.0.0.2", "10.0.0.255"),
            ("10.0.0.3", "10.2.0.1"),
            ("127.0.0.2", "127.0.0.3"),
        ] {
            assert!(!may(&none, peer, nic) && !may(&some, peer, nic), "{nic}");
            assert!(may(&device, peer, nic), "{nic}");
        }
        assert!(may(&some, "10.0.0.3", "10.1.0.7") && !may(&some, "10.0.0.2", "10.1.0.7"));
        assert!(may(&some, "10.0.0.3", "10.0.0.3"));
        // Whatever it says.
        for nic in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "10.0.0.1",
        ] {
            for options in [&none, &some, &told, &device] {
                assert!(!may(options, "10.0.0.3", nic), "{nic}");
            }
        }
        // One that is both machines.
        assert!(may(&none, "10.0.0.1", "10.0.0.1"));
    }

    #[test]
    fn transports_have_names() {
        for (text, transport) in [
            ("udp", Transport::Udp),
            ("xdp:eth0", Transport::Xdp("eth0".into(), 0)),
            ("xdp:eth0,3", Transport::Xdp("eth0".into(), 3)),
            (
                "tap:ipnuma0,02:00:00:00:0a:01,10.0.0.1",
                Transport::Tap("ipnuma0".into(), 0x0200_0000_0A01, [10, 0, 0, 1].into()),
            ),
            (
                "rack:/dev/ipnuma0",
                Transport::Rack("/dev/ipnuma0".into(), None),
            ),
            (
                "rack:/dev/ipnuma0,10.0.0.1/24",
                Transport::Rack(
                    "/dev/ipnuma0".into(),
                    Some(Own {
                        mac: 0,
                        address: [10, 0, 0, 1].into(),
                        bits: 24,
                        gateway_mac: 0,
                    }),
                ),
            ),
            (
                "rack:/dev/ipnuma0,02:00:00:00:00:01,10.0.0.1/24",
                Transport::Rack(
                    "/dev/ipnuma0".into(),
                    Some(Own {
                        mac: 0x0200_0000_0001,
                        address: [10, 0, 0, 1].into(),
                        bits: 24,
                        gateway_mac: 0,
                    }),
                ),
            ),
            (
                "rack:/dev/ipnuma0,02:00:00:00:00:01,10.0.0.1/24,02:00:00:00:00:fe",
                Transport::Rack(
                    "/dev/ipnuma0".into(),
                    Some(Own {
                        mac: 0x0200_0000_0001,
                        address: [10, 0, 0, 1].into(),
                        bits: 24,
                        gateway_mac: 0x0200_0000_00FE,
                    }),
                ),
            ),
        ] {
            assert_eq!(text.parse(), Ok(transport), "{text}");
        }
        for text in [
            "",
            "tcp",
            "xdp:",
            "xdp:eth0,x",
            "xdp:eth0,1,2",
            "tap:a,b,c",
            "rack:/dev/ipnuma0,02:00:00:00:00:01",
            "rack:/dev/ipnuma0,10.0.0.1",
            "rack:/dev/ipnuma0,10.0.0.1/24,02:00:00:00:00:fe",
            "rack:/dev/ipnuma0,02:00:00:00:00:01,10.0.0.1",
            "rack:/dev/ipnuma0,02:00:00:00:00:01,10.0.0.1/33",
            "rack:/dev/ipnuma0,02:00:00:00:00:01,10.0.0.1/24,02:00:00:00:00",
            "rack:/dev/ipnuma0,02:00:00:00:00:01,10.0.0.1/24,02:00:00:00:00:fe,x",
            "tap:a,02:00:00:00:0a:01",
            "tap:a,02:00:00:00:0a:+1,10.0.0.1",
        ] {
            let refused = text.parse::<Transport>();
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }
}
