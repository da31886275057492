// SPDX-License-Identifier: Apache-2.0
//! Builds the Verilated models of the project's RTL, each once.
//!
//! A model of the [catalogue] becomes a shared library under `models` of the user's [cache], in a folder named by the hash
//! of everything that goes into it: RTL, parameters, flags, the versions of Verilator and of the C++ compiler, this crate's
//! own code. All checkouts, profiles, crates and processes share it; who needs a model that is not there builds it and lets
//! the others wait.
//!
//! ```no_run
//! # fn main() -> Result<(), verilate::Error> {
//! let path = verilate::library("ipnuma_nic_10g")?;   // builds it, if nobody has
//! # let _ = path; Ok(())
//! # }
//! ```
//!
//! The command of the same name builds all of them, or those that it is told. Loading a library is the business of
//! `crates/rtl`.

#![forbid(unsafe_code)]

mod build;
pub mod catalogue;
mod digest;
mod filelist;
mod shim;
mod steps;
mod work;

use std::env;
use std::io;
use std::path::{Path, PathBuf};

pub use catalogue::{FULL_TABLES, MODELS, Model, SMALL_TABLES, WIDE_TABLES};
pub use filelist::FileList;
pub use work::{Event, Report, build};

/// Environment variable with a folder of libraries (`NAME.so`) to be taken as they are, for an installation without the
/// RTL's sources.
pub const LIBRARIES: &str = "IPNUMA_MODEL_DIR";

/// Environment variable with the folder of what is built once: see [`cache`].
pub const CACHE: &str = "IPNUMA_CACHE";

/// Why there is no library of a model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalogue does not have it.
    #[error("there is no model {name}; crates/verilate/src/catalogue.rs lists them")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file list is wrong.
    #[error("{place}: {reason}")]
    FileList {
        /// List and line.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The header that Verilator wrote was not understood.
    #[error("{}: its port declarations are not what crates/verilate/src/shim.rs reads", path.display())]
    Header {
        /// The header.
        path: PathBuf,
    },
    /// Verilator is not installed.
    #[error("Verilator is not installed in {}: run tools/setup first", .0.join(".venv").display())]
    NoVerilator(PathBuf),
    /// It is not there, and what builds it is not there either.
    #[error("there is no model {model}, and it cannot be built: {missing} is not found; {remedy}")]
    Impossible {
        /// The model.
        model: String,
        /// The tool.
        missing: String,
        /// What brings it.
        remedy: &'static str,
    },
    /// A tool failed.
    #[error("model {model}: {what} failed:\n{output}")]
    Tool {
        /// The model.
        model: String,
        /// Verilator, or the compilation of a file.
        what: String,
        /// What it printed.
        output: String,
    },
}

impl Error {
    fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            error,
        }
    }
}

/// The repository that this crate was compiled in.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// Where what is built once by its content lies, for all checkouts of this user: [`CACHE`], or `ipnuma` in the folder that
/// the XDG base directories name, or `.build` of the repository where there is no home. `tools/stamps.py` has the same.
pub fn cache(root: &Path) -> PathBuf {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    if let Some(own) = named(CACHE) {
        return std::path::absolute(&own).unwrap_or_else(|_| own.into());
    }
    if let Some(base) = named("XDG_CACHE_HOME") {
        return Path::new(&base).join("ipnuma");
    }
    named("HOME").map_or_else(
        || root.join(".build"),
        |home| Path::new(&home).join(".cache/ipnuma"),
    )
}

/// Finds a model by its name.
pub fn model(name: &str) -> Result<&'static Model, Error> {
    catalogue::find(name).ok_or_else(|| Error::Unknown { name: name.into() })
}

/// Where the shared library of a model is, or will be when it is built.
pub fn path(model: &'static Model) -> Result<PathBuf, Error> {
    Ok(build::Place::of(&root(), model)?.library())
}

/// The shared library of a model; builds it if it is not there, which is told on standard error.
pub fn library(name: &str) -> Result<PathBuf, Error> {
    if let Some(folder) = env::var_os(LIBRARIES) {
        return Ok(Path::new(&folder).join(format!("{name}.so")));
    }
    let model = model(name)?;
    let root = root();
    let place = build::Place::of(&root, model)?;
    if !place.library().is_file() {
        build::possible(&root, model, build::Compiler::get())?;
        eprintln!(
            "building the model {name} in {}, once",
            place.folder().display()
        );
        build(&root, &[model], work::cores(), &|_| {})?;
    }
    Ok(place.library())
}
