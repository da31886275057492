// SPDX-License-Identifier: Apache-2.0
//! `ipnuma platform`: constants with their sources.

use std::collections::BTreeMap;
use std::process::ExitCode;

use rack::Error;
use rack::platform::Platform;
use rack::time::Picoseconds;
use serde::Serialize;

use crate::output;
use report::text;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Built-in name (keio-2016, modern, keio-2016-fitted) or path of a .toml file
    #[arg(default_value = "keio-2016")]
    platform: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A platform, for JSON.
#[derive(Serialize)]
struct Described<'a> {
    platform: &'a str,
    title: &'a str,
    constants: Vec<Row<'a>>,
}

/// A constant, for JSON; one that is not published has no value.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    value: Option<String>,
    ns: Option<f64>,
    ns_by_link: Option<BTreeMap<String, f64>>,
    origin: &'a str,
    source: Option<&'a str>,
    url: Option<&'a str>,
    note: Option<&'a str>,
    checked: bool,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let platform = Platform::load(&arguments.platform)?;
    if arguments.json {
        let constants = platform.constants().into_iter();
        let constants = constants.map(|(name, constant)| Row {
            name,
            value: constant.describe(),
            ns: constant.value().map(Picoseconds::as_ns),
            ns_by_link: constant.by_link().map(|map| {
                let values = map.iter();
                values.map(|(link, ns)| (link.to_string(), *ns)).collect()
            }),
            origin: constant.origin_name(),
            source: constant.source.as_deref(),
            url: constant.url.as_deref(),
            note: constant.note.as_deref(),
            checked: constant.checked,
        });
        let described = Described {
            platform: &platform.name,
            title: &platform.title,
            constants: constants.collect(),
        };
        output::print(&output::json("platform", &described))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = text::wrap(&format!("{}: {}", platform.name, platform.title), 0);
    for (key, constant) in platform.constants() {
        let value = constant.describe().unwrap_or("not published".to_owned());
        out += &format!("\n{key:<18}");
        out += text::wrap(&value, 18).trim_start();
        if constant.source.is_some() {
            let source = format!("{}: {}", constant.origin_name(), constant.cite());
            out += &text::wrap(&source, 18);
        }
        for more in [&constant.note, &constant.url].into_iter().flatten() {
            out += &text::wrap(more, 18);
        }
    }
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
