// SPDX-License-Identifier: Apache-2.0
//! `ipnuma nic-latency`: the NICs alone.

use std::process::ExitCode;

use rack::run::{nic_latency, rtl};
use rack::topology::NicOptions;
use rack::{Error, Picoseconds};
use serde_json::json;

use crate::{FormatArgument, RateArgument, output};
use report::text;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// Packet format; both if absent
    #[arg(long)]
    format: Option<FormatArgument>,
    /// Bytes of the store: 4 to 64, a multiple of 4
    #[arg(long, default_value_t = 4)]
    bytes: usize,
    /// Without sessions
    #[arg(long)]
    no_resend: bool,
    /// In sealed sessions
    #[arg(long, conflicts_with = "no_resend")]
    auth: bool,
    /// Step of the clock phases in picoseconds
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(50..=4_000))]
    step_ps: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    rack::topology::check_pingpong(arguments.bytes, 1)
        .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
    let all = [FormatArgument::Compact, FormatArgument::Tlp];
    let formats: Vec<_> = match arguments.format {
        Some(format) => vec![format],
        None => all.to_vec(),
    };
    let mut out = format!(
        "ipnuma nic-latency: {}-byte store, {}, two NICs back to back, no PHY, no host\n\
         from the first beat of the store's TLP in to the first beat of the DMA write out\n\n",
        arguments.bytes,
        arguments.rate.name(),
    );
    out += &format!(
        "{:<10}{:>9}{:>9}{:>9}   {:<40}{:>9}{:>8}\n",
        "format",
        "min",
        "mean",
        "worst",
        "worst = transmit + frame + hop + receive",
        "packets",
        "phases"
    );
    let mut results = Vec::new();
    for format in formats {
        let step = Picoseconds(arguments.step_ps);
        let rate = arguments.rate.into();
        let nic = NicOptions {
            reliable: !arguments.no_resend,
            auth: arguments.auth,
            merge: false,
        };
        let found = nic_latency((rate, format.into()), arguments.bytes, nic, step, &rtl)?;
        let [transmit, frame, hop, receive] = found.worst.map(text::ns);
        out += &format!(
            "{:<10}{:>9}{:>9.1}{:>9}   {:<40}{:>9}{:>8}\n",
            format.name(),
            text::ns(found.latency.min),
            found.latency.mean_ns(),
            text::ns(found.latency.max),
            format!("{transmit} + {frame} + {hop} + {receive}"),
            found.latency.count,
            found.combinations,
        );
        results.push(json!({
            "format": format.name(),
            "min_ns": found.latency.min.as_ns(),
            "mean_ns": found.latency.mean_ns(),
            "worst_ns": found.latency.max.as_ns(),
            "worst_parts_ns": found.worst.map(Picoseconds::as_ns),
            "worst_phases_ns": found.worst_phases.map(Picoseconds::as_ns),
            "packets": found.latency.count,
            "phase_combinations": found.combinations,
        }));
    }
    if arguments.json {
        let rate = arguments.rate.name();
        let result = json!({"rate": rate, "bytes": arguments.bytes, "latencies": results});
        out = output::json("nic-latency", &result);
    } else {
        out += "\nAll figures in ns, all of them simulated in RTL.\n";
    }
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
