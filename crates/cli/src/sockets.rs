// SPDX-License-Identifier: Apache-2.0
//! `ipnuma sockets`: the accelerated connections of this machine.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ipc::client::Client;
use ipc::protocol::{EndStatus, Reply, Request, SocketKind, SocketStatus, Totals};
use serde::Serialize;
use shm::channel::flags;

use crate::host::{Error, Where, age, bytes, columns, list};
use crate::output;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each connection has two lines, the client's and the server's, or the sender's and the receiver's: what this end has
sent, how often it rang the other's doorbell, how often it slept until something came, and how often spinning was
enough. State: `waits` has not attached yet, `ended` sends no more, `closed`, `reset`, `revoked`. With --watch, /s is what
an end has sent each second since the last look.")]
pub struct Arguments {
    #[command(flatten)]
    place: Where,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Prints again and again, every so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
    /// Prints why sockets were left to the kernel, and how many
    #[arg(long, conflicts_with_all = ["watch", "revoke"])]
    fallbacks: bool,
    /// Ends a connection: both programs find it reset
    #[arg(long, value_name = "CHANNEL", conflicts_with_all = ["json", "watch"])]
    revoke: Option<u64>,
}

/// An end, for JSON.
#[derive(Serialize)]
struct End<'a> {
    pid: u32,
    program: &'a str,
    address: std::net::SocketAddr,
    state: &'static str,
    messages: u64,
    bytes: u64,
    doorbells: u64,
    sleeps: u64,
    spins_found: u64,
    dropped: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
}

/// What an end sends in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Rate {
    #[serde(rename = "messages_per_s")]
    messages: u64,
    #[serde(rename = "bytes_per_s")]
    bytes: u64,
}

/// Which end: its channel, and which of the two.
type Which = (u64, usize);

/// What each end had sent at the last look.
#[derive(Default)]
struct Before(HashMap<Which, (Instant, u64, u64)>);

impl Before {
    /// What each end has sent a second since the last look; nothing of ends that were not there.
    fn rates(&mut self, now: Instant, sockets: &[SocketStatus]) -> HashMap<Which, Rate> {
        let mut rates = HashMap::new();
        let mut sent = HashMap::new();
        for socket in sockets {
            for (side, end) in socket.ends.iter().enumerate() {
                let which = (socket.channel, side);
                if let Some(&(since, messages, bytes)) = self.0.get(&which) {
                    let seconds = (now - since).as_secs_f64();
                    let each =
                        |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds) as u64;
                    let rate = Rate {
                        messages: each(end.messages, messages),
                        bytes: each(end.bytes, bytes),
                    };
                    rates.insert(which, rate);
                }
                sent.insert(which, (now, end.messages, end.bytes));
            }
        }
        self.0 = sent;
        rates
    }
}

/// A connection, for JSON.
#[derive(Serialize)]
struct Socket<'a> {
    channel: u64,
    kind: &'static str,
    age_ms: u64,
    ends: [End<'a>; 2],
}

/// All of it, for JSON.
#[derive(Serialize)]
struct Report<'a> {
    totals: Totals,
    sockets: Vec<Socket<'a>>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let client = arguments.place.connect()?;
    if let Some(channel) = arguments.revoke {
        client.done(&Request::RevokeChannel { channel })?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.fallbacks {
        output::print(&fallbacks(&client, arguments.json)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut before = Before::default();
    loop {
        let (totals, sockets) = fetch(&client)?;
        let rates = arguments
            .watch
            .map(|_| before.rates(Instant::now(), &sockets));
        output::print(&match arguments.json {
            true => json(totals, &sockets, rates.as_ref()),
            false => table(totals, &sockets, rates.as_ref()),
        })?;
        match arguments.watch {
            Some(seconds) => std::thread::sleep(Duration::from_secs(seconds.into())),
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Counts by reason.
fn fallbacks(client: &Client, as_json: bool) -> Result<String, Error> {
    let counted = match client.request(&Request::Fallbacks)?.0 {
        Reply::Fallbacks(counted) => counted,
        other => return Err(ipc::client::unexpected(other).into()),
    };
    if as_json {
        let rows: Vec<_> = counted
            .iter()
            .map(|(why, count)| {
                serde_json::json!({"reason": why.name(), "sockets": count, "meaning": why.about()})
            })
            .collect();
        let result = serde_json::json!({ "fallbacks": rows });
        return Ok(output::json("sockets", &result));
    }
    if counted.is_empty() {
        return Ok("no socket was left to the kernel\n".to_owned());
    }
    let rows: Vec<_> = counted
        .iter()
        .map(|(why, count)| vec![count.to_string(), why.name().into(), why.about().into()])
        .collect();
    Ok(columns(
        &["sockets", "reason", "meaning"],
        &[true, false, false],
        &rows,
    ))
}

fn fetch(client: &Client) -> Result<(Totals, Vec<SocketStatus>), Error> {
    let mut first = None;
    let sockets = list(
        client,
        |after| Request::Sockets { after },
        |reply| match reply {
            Reply::Sockets { totals, sockets } => {
                first.get_or_insert(totals);
                Some(sockets)
            }
            _ => None,
        },
        |socket| socket.channel,
    )?;
    Ok((first.unwrap_or_default(), sockets))
}

/// What an end's flags say.
const fn state(flags: u32) -> &'static str {
    match flags {
        _ if flags & flags::REVOKED != 0 => "revoked",
        _ if flags & flags::RESET != 0 => "reset",
        _ if flags & flags::CLOSED != 0 => "closed",
        _ if flags & flags::FIN != 0 => "ended",
        _ if flags & flags::ATTACHED != 0 => "open",
        _ => "waits",
    }
}

const fn kind(kind: SocketKind) -> &'static str {
    match kind {
        SocketKind::Stream => "stream",
        SocketKind::Datagrams => "datagrams",
    }
}

fn end(end: &EndStatus, rate: Option<Rate>) -> End<'_> {
    End {
        pid: end.pid,
        program: &end.program,
        address: end.address,
        state: state(end.flags),
        messages: end.messages,
        bytes: end.bytes,
        doorbells: end.doorbells,
        sleeps: end.sleeps,
        spins_found: end.spins_found,
        dropped: end.dropped,
        rate,
    }
}

type Rates<'a> = Option<&'a HashMap<Which, Rate>>;

fn rate(rates: Rates<'_>, which: Which) -> Option<Rate> {
    rates?.get(&which).copied()
}

fn json(totals: Totals, sockets: &[SocketStatus], rates: Rates<'_>) -> String {
    let sockets = sockets.iter().map(|socket| Socket {
        channel: socket.channel,
        kind: kind(socket.kind),
        age_ms: socket.age_ms,
        ends: [0, 1].map(|side| end(&socket.ends[side], rate(rates, (socket.channel, side)))),
    });
    let report = Report {
        totals,
        sockets: sockets.collect(),
    };
    output::json("sockets", &report)
}

fn table(totals: Totals, sockets: &[SocketStatus], rates: Rates<'_>) -> String {
    let mut rows = Vec::new();
    for socket in sockets {
        let lasted = age(Duration::from_millis(socket.age_ms));
        let roles = match socket.kind {
            SocketKind::Stream => ["client", "server"],
            SocketKind::Datagrams => ["sender", "receiver"],
        };
        for (side, end) in socket.ends.iter().enumerate() {
            let whose = match end.pid {
                0 => "-".to_owned(),
                pid => format!("{} {pid}", end.program),
            };
            let [number, lasted] = match side {
                0 => [socket.channel.to_string(), lasted.clone()],
                _ => [String::new(), String::new()],
            };
            let each = match (rates, rate(rates, (socket.channel, side))) {
                (None, _) => Vec::new(),
                (Some(_), None) => vec!["-".to_owned(); 2],
                (Some(_), Some(rate)) => vec![rate.messages.to_string(), bytes(rate.bytes)],
            };
            let mut row = vec![
                number,
                roles[side].to_owned(),
                whose,
                end.address.to_string(),
                end.messages.to_string(),
                bytes(end.bytes),
            ];
            row.extend(each);
            row.extend([
                end.doorbells.to_string(),
                end.sleeps.to_string(),
                end.spins_found.to_string(),
                state(end.flags).to_owned(),
                lasted,
            ]);
            rows.push(row);
        }
    }
    let mut heads = vec!["channel", "end", "program", "address", "messages", "sent"];
    if rates.is_some() {
        heads.extend(["messages/s", "sent/s"]);
    }
    heads.extend(["rang", "slept", "spun", "state", "age"]);
    let words = ["end", "program", "address", "state"];
    let right: Vec<bool> = heads.iter().map(|head| !words.contains(head)).collect();
    let mut out = String::new();
    if rows.is_empty() {
        out += "no accelerated connections\n";
    } else {
        out += &columns(&heads, &right, &rows);
    }
    let dropped: u64 = sockets
        .iter()
        .flat_map(|socket| &socket.ends)
        .map(|end| end.dropped)
        .sum();
    if dropped > 0 {
        out += &format!("{dropped} datagrams found no room and were dropped\n");
    }
    out + &format!(
        "since the daemon's start: {} streams, {} datagram channels, {} messages, {}, {} doorbells, {} sleeps\n",
        totals.streams,
        totals.datagrams,
        totals.messages,
        bytes(totals.bytes),
        totals.doorbells,
        totals.sleeps
    )
}
