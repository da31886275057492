// SPDX-License-Identifier: Apache-2.0
//! `ipnuma platform`: constants with their sources.

use std::process::ExitCode;

use rack::Error;
use rack::platform::Platform;

use crate::output;
use report::text;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Built-in name (keio-2016, modern) or path of a .toml file
    #[arg(default_value = "keio-2016")]
    platform: String,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let platform = Platform::load(&arguments.platform)?;
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
