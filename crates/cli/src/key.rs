// SPDX-License-Identifier: Apache-2.0
//! `ipnuma key`: by what other machines' daemons know this one, and it knows them.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use ::daemon::keys::{Fingerprint, Key, Known, Trusted, default_directory, one_party};
use ::daemon::remote::Network;

use crate::host::Error;
use crate::output;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a command it prints the fingerprint of this machine's key, which it makes if there is none. On each of two
machines, trust the other's:

  there$ ipnuma key
  sha256:6f1e...
  here$  ipnuma key trust 10.0.0.2 sha256:6f1e...

The files are in /etc/ipnuma for root, else in ~/.config/ipnuma; whoever is not trusted any more is removed from
known_peers with an editor.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// This machine's key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Trusts the key of another machine: an address, a network or a name, and what `ipnuma key` shows there
    Trust {
        /// Address, network (ADDRESS/BITS) or name of the machine
        #[arg(value_name = "NAME-OR-ADDRESS")]
        machine: String,
        /// What `ipnuma key` shows there
        fingerprint: Fingerprint,
        /// Other machines' keys
        #[arg(long, value_name = "FILE")]
        known_peers: Option<PathBuf>,
    },
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    match &arguments.command {
        None => {
            let path = arguments.key.clone();
            let path = path.unwrap_or_else(|| default_directory().join("key"));
            let key = match Key::load(&path).map_err(Error::Usage)? {
                Some(key) => key,
                None => Key::make(&path).map_err(Error::Usage)?,
            };
            output::print(&format!("{}\n", key.fingerprint()))?;
        }
        Some(Command::Trust {
            machine,
            fingerprint,
            known_peers,
        }) => {
            let path = known_peers.clone();
            let path = path.unwrap_or_else(|| default_directory().join("known_peers"));
            for (network, remark) in networks(machine)? {
                let trusted = Known::trust(&path, &network, *fingerprint, &remark);
                match trusted.map_err(Error::Usage)? {
                    Trusted::Now => {}
                    Trusted::Before => {
                        output::print(&format!("{network} was trusted with this key before\n"))?;
                    }
                    Trusted::Besides(address) => eprintln!("warning: {}", one_party(address)),
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The network that a right address in it with bits is of, if it is not that.
fn without_host_bits(text: &str) -> Option<String> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits): (Ipv4Addr, u32) = (address.parse().ok()?, bits.parse().ok()?);
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    let network = Ipv4Addr::from(u32::from(address) & mask);
    (network != address).then(|| format!("{network}/{bits}"))
}

/// The networks of a machine, and what people call it.
fn networks(machine: &str) -> Result<Vec<(String, String)>, Error> {
    if machine.parse::<Network>().is_ok() {
        if let Some(network) = without_host_bits(machine) {
            return Err(Error::Usage(format!(
                "`{machine}` is an address in a network; write {network} for all of the network"
            )));
        }
        return Ok(vec![(machine.to_owned(), String::new())]);
    }
    let shown = input::quoted(machine);
    let found = (machine, 0).to_socket_addrs().map_err(|error| {
        let why = error.to_string();
        let why = why.rsplit(": ").next().unwrap_or_default();
        Error::Usage(format!(
            "{shown} is no address, and no machine of this name is found ({why}); write an address, a network or a name \
             that is known here"
        ))
    })?;
    let mut found: Vec<Ipv4Addr> = found
        .filter_map(|address| match address {
            SocketAddr::V4(address) => Some(*address.ip()),
            SocketAddr::V6(_) => None,
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err(Error::Usage(format!(
            "the machine {shown} has no IPv4 address, by which daemons know each other; write the address of a daemon"
        )));
    }
    let named = |address: Ipv4Addr| (address.to_string(), machine.to_owned());
    Ok(found.into_iter().map(named).collect())
}
