// SPDX-License-Identifier: Apache-2.0
//! Names a build by the hash of all that goes into it.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::build::{Compiler, FLAGS, LINK_FLAGS, arguments};
use crate::catalogue::Model;
use crate::filelist::FileList;

/// What this crate adds to a model: the shim's code, and what writes it.
const OWN: &[&str] = &[
    include_str!("shim.rs"),
    include_str!("steps.rs"),
    include_str!("../shim/print.h"),
    include_str!("../shim/runtime.cpp"),
    include_str!("../shim/shim.hpp"),
];

/// A SHA-256 of strings that cannot be confused with others cut elsewhere.
pub struct Hasher(Sha256);

impl Hasher {
    pub fn new() -> Self {
        Self(Sha256::new())
    }

    pub fn add(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// The first 64 bits in hexadecimal: enough for a name.
    pub fn name(self) -> String {
        let digest = self.0.finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The hash of what is common to all models: tools and own code.
pub fn tools(root: &Path, compiler: &Compiler) -> Result<String, Error> {
    let mut hasher = Hasher::new();
    for text in OWN.iter().chain(FLAGS).chain(LINK_FLAGS) {
        hasher.add(text);
    }
    for file in ["tools/env.sh", "tools/requirements.lock"] {
        let path = root.join(file);
        hasher.add(fs::read(&path).map_err(|error| Error::unreadable(&path, error))?);
    }
    hasher.add(&compiler.name);
    hasher.add(&compiler.version);
    hasher.add(processor());
    Ok(hasher.name())
}

/// The hash of a model.
pub fn model(root: &Path, model: &Model, list: &FileList, tools: &str) -> Result<String, Error> {
    let mut hasher = Hasher::new();
    hasher.add(tools);
    for argument in arguments(model) {
        hasher.add(argument);
    }
    for input in list.inputs(root)? {
        let path = root.join(&input);
        hasher.add(input.as_os_str().as_encoded_bytes());
        hasher.add(fs::read(&path).map_err(|error| Error::unreadable(&path, error))?);
    }
    Ok(hasher.name())
}

/// What `-march=native` depends on.
fn processor() -> &'static str {
    static FEATURES: OnceLock<String> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = text
            .lines()
            .find(|line| line.starts_with("flags") || line.starts_with("Features"));
        line.unwrap_or_default().to_owned()
    })
}
