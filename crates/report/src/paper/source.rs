// SPDX-License-Identifier: Apache-2.0
//! Where the experiments come from: built in, or a directory.

use std::path::{Path, PathBuf};

use rack::Error;

/// Published figures.
pub const FIGURES: &str = include_str!("../../../../experiments/paper.toml");

macro_rules! experiments {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../../../../experiments/", $id, "/experiment.toml")))),*]
    };
}

/// One folder each under `experiments`.
pub const EXPERIMENTS: &[(&str, &str)] = experiments![
    "table-1.6",
    "table-3.2",
    "table-3.3",
    "table-3.4",
    "figure-3.5",
    "figure-3.6",
    "figure-3.7",
    "figure-3.8",
    "figure-4.4",
    "table-4.5",
    "table-4.6",
    "table-5.2",
    "table-5.3",
    "table-5.4",
    "table-5.5",
    "table-6.3",
    "table-6.4",
    "table-6.5",
    "table-6.6",
    "table-6.7",
    "table-6.8",
    "figure-6.13",
    "figure-6.14",
    "figure-6.15",
    "figure-6.16",
    "figure-6.17",
    "figure-6.18",
    "figure-5.10",
    "congestion",
    "resend",
    "incast",
    "interrupts",
    "clients",
    "headlines",
    "hitachi-figure-8",
    "hitachi-table-3",
];

fn read(path: PathBuf) -> Result<String, Error> {
    std::fs::read_to_string(&path).map_err(|error| {
        Error::Config(format!(
            "cannot read {}: {error}; name a folder that is made like experiments/",
            path.display()
        ))
    })
}

/// The experiments' texts and the figures, built in or from a directory.
pub fn sources(directory: Option<&Path>) -> Result<(Vec<(String, String)>, String), Error> {
    let Some(directory) = directory else {
        let built_in = EXPERIMENTS
            .iter()
            .map(|(id, text)| (id.to_string(), text.to_string()));
        return Ok((built_in.collect(), FIGURES.to_owned()));
    };
    let entries = std::fs::read_dir(directory).map_err(|error| {
        Error::Config(format!(
            "cannot read the directory {}: {error}; name a folder that is made like experiments/",
            directory.display()
        ))
    })?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let file = entry.path().join("experiment.toml");
        if file.is_file() {
            found.push((
                entry.file_name().to_string_lossy().into_owned(),
                read(file)?,
            ));
        }
    }
    found.sort();
    Ok((found, read(directory.join("paper.toml"))?))
}
