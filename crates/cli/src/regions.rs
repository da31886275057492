// SPDX-License-Identifier: Apache-2.0
//! `ipnuma regions`: memory of this machine that others may use.

use std::process::ExitCode;

use ipc::Rights;
use ipc::protocol::{RegionStatus, Reply, Request};
use serde::Serialize;

use crate::host::{Error, Where, bytes, columns, list};
use crate::output;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Where,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Takes back all tokens of a region; its owner gets fresh memory
    #[arg(long, value_name = "REGION", conflicts_with = "json")]
    revoke: Option<u64>,
}

/// A token, for JSON.
#[derive(Serialize)]
struct Export {
    first: u64,
    bytes: u64,
    rights: &'static str,
    windows: u32,
}

/// A region, for JSON.
#[derive(Serialize)]
struct Region {
    region: u64,
    pid: u32,
    program: String,
    bytes: u64,
    tokens: Vec<Export>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let client = arguments.place.connect()?;
    if let Some(region) = arguments.revoke {
        client.done(&Request::RevokeRegion { region })?;
        return Ok(ExitCode::SUCCESS);
    }
    let regions = list(
        &client,
        |after| Request::Regions { after },
        |reply| match reply {
            Reply::Regions(regions) => Some(regions),
            _ => None,
        },
        |region| region.region,
    )?;
    output::print(&match arguments.json {
        true => json(regions),
        false => table(&regions),
    })?;
    Ok(ExitCode::SUCCESS)
}

const fn rights(rights: Rights) -> &'static str {
    match rights {
        Rights::Read => "read",
        Rights::Write => "write",
        Rights::ReadWrite => "read, write",
    }
}

fn json(regions: Vec<RegionStatus>) -> String {
    let regions: Vec<Region> = regions
        .into_iter()
        .map(|region| Region {
            region: region.region,
            pid: region.pid,
            program: region.program,
            bytes: region.bytes,
            tokens: region
                .exports
                .into_iter()
                .map(|export| Export {
                    first: export.first,
                    bytes: export.bytes,
                    rights: rights(export.rights),
                    windows: export.windows,
                })
                .collect(),
        })
        .collect();
    output::json("regions", &serde_json::json!({ "regions": regions }))
}

fn table(regions: &[RegionStatus]) -> String {
    let mut rows = Vec::new();
    for region in regions {
        let whose = [
            region.region.to_string(),
            format!("{} {}", region.program, region.pid),
            bytes(region.bytes),
        ];
        if region.exports.is_empty() {
            rows.push([&whose[..], &["none", "", "", ""].map(str::to_owned)].concat());
        }
        for (index, export) in region.exports.iter().enumerate() {
            let whose = match index {
                0 => whose.clone(),
                _ => [const { String::new() }; 3],
            };
            let token = [
                export.first.to_string(),
                bytes(export.bytes),
                rights(export.rights).to_owned(),
                export.windows.to_string(),
            ];
            rows.push([whose.as_slice(), &token].concat());
        }
    }
    if rows.is_empty() {
        return "no regions\n".to_owned();
    }
    let heads = [
        "region",
        "program",
        "size",
        "token from",
        "bytes",
        "rights",
        "windows",
    ];
    columns(&heads, &[true, false, true, true, true, false, true], &rows)
}
