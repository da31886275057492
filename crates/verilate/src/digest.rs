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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::build::Place;
    use crate::{MODELS, root};

    /// What a model may be made of.
    const FILES: &[&str] = &["rtl", "crates", "tools", "verif"];

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("it is there").flatten() {
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                copy(&path, &to);
            } else if path.is_file() {
                fs::copy(&path, &to).expect("a copy");
            }
        }
    }

    fn folders(root: &Path) -> Vec<std::path::PathBuf> {
        let of = |model| Place::of(root, model).expect("lists are right");
        MODELS
            .iter()
            .map(|model| of(model).folder().to_owned())
            .collect()
    }

    #[test]
    fn a_change_makes_new_models_of_those_that_contain_it_and_of_no_other() {
        let tree = tempfile::tempdir().expect("a folder");
        for folder in FILES {
            copy(&root().join(folder), &tree.path().join(folder));
        }
        let before = folders(tree.path());
        let nics = [
            "ipnuma_nic_10g",
            "ipnuma_nic_1g",
            "ipnuma_nic_10g_small",
            "ipnuma_nic_1g_small",
            "nic_shell_10g",
            "nic_shell_1g",
        ];
        let of_10g = [
            "ipnuma_nic_10g",
            "ipnuma_nic_10g_small",
            "ring_nic_10g",
            "nic_shell_10g",
            "uzura_shell_10g",
            "toe_10g",
            "rig_10g",
            "rig_10g_sram22",
        ]
        .into_iter()
        .chain([
            "fibnic_10g_narrow",
            "fibnic_10g",
            "fibnic_10g_wide",
            "fibnic_10g_full",
        ]);
        let every = MODELS.iter().map(|model| model.name);
        let cases: &[(&str, BTreeSet<&str>)] = &[
            ("rtl/ipnuma/load_tags.sv", nics.into()),
            ("rtl/pcie/bus_meter.sv", ["bus_meter"].into()),
            ("rtl/eth/xgmii_rx.sv", of_10g.collect()),
            (
                "rtl/tester/tester_port_1g.sv",
                ["rig_1g", "rig_1g_sram22"].into(),
            ),
            ("rtl/ring/ring_nic_1g.sv", ["ring_nic_1g"].into()),
            ("rtl/toe/toe_timer.sv", ["toe_10g"].into()),
            ("rtl/toe/toe_bare.sv", [].into()),
            (
                "crates/rtl/tops/fib_lookup_flat.sv",
                ["fib_lookup_full"].into(),
            ),
            ("crates/cli/src/main.rs", [].into()),
            ("crates/rtl/src/lib.rs", [].into()),
            ("verif/nic/nic_bench.py", [].into()),
            ("tools/requirements.lock", every.collect()),
        ];
        for (file, expected) in cases {
            let path = tree.path().join(file);
            let text = fs::read_to_string(&path).expect("it is there");
            fs::write(&path, format!("{text}\n")).expect("it can be changed");
            let changed: BTreeSet<_> = (MODELS.iter().zip(&before).zip(folders(tree.path())))
                .filter(|((_, before), after)| *before != after)
                .map(|((model, _), _)| model.name)
                .collect();
            assert_eq!(changed, *expected, "{file}");
            fs::write(&path, text).expect("it can be changed back");
        }
        assert_eq!(folders(tree.path()), before);
    }
}
