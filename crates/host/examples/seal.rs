// SPDX-License-Identifier: Apache-2.0
//! Tells the NIC of a guest in the rack of the peers in the configuration, and seals the sessions with them: what a daemon does
//! with keys that it has agreed on. Here both ends make them of their addresses, so everybody can: it is for tests.
//! Programs that open the NIC with the same configuration afterwards take the sessions as they find them. CAP_NET_ADMIN is needed.
//!
//! ```text
//! seal
//! ```

#[allow(dead_code)]
#[path = "shared/outcome.rs"]
mod outcome;

use std::net::Ipv4Addr;
use std::process::ExitCode;

use host::Config;
use host::backend::peers::netmask;
use host::backend::rack::Nic;
use host::backend::rack::nic::{Identity, Peer, peer};
use outcome::{Outcome, Wrong};
use wire::KeyEntry;

/// What one machine sends to another with.
fn key(from: Ipv4Addr, to: Ipv4Addr) -> ([u8; 16], [u8; 4]) {
    let mut key = [0x5E; 16];
    key[..4].copy_from_slice(&from.octets());
    key[4..8].copy_from_slice(&to.octets());
    (key, from.octets())
}

fn run() -> Outcome {
    let config = Config::load()?.rack;
    let Some(own) = config.address else {
        return Err(Wrong("the configuration has no address".to_owned()).into());
    };
    let nic = Nic::open(&config.device)?;
    nic.identify(&Identity {
        mac: config.mac.to_bits(),
        gateway_mac: config.gateway_mac.to_bits(),
        ip: own.into(),
        netmask: netmask(config.network_bits),
    })?;
    for known in &config.peers {
        let ((tx_key, tx_salt), (rx_key, rx_salt)) =
            (key(own, known.address), key(known.address, own));
        let entry = KeyEntry {
            tx_key,
            rx_key,
            tx_salt,
            rx_salt,
        };
        let wanted = Peer {
            mac: known.mac.to_bits(),
            ip: known.address.into(),
            session: known.session,
            peer_session: known.peer_session,
            epoch: known.epoch,
            flags: peer::VALID | peer::COMPACT,
            start: known.start,
            reserved: 0,
        };
        nic.seal_peer(&wanted, &entry.to_dws())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    outcome::end(run())
}
