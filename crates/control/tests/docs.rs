// SPDX-License-Identifier: Apache-2.0
//! `docs/fibnic-rfc.md` and `docs/fibnic.md` name tests; they must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names of functions in the sources under a folder.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, names);
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !matches!(extension, Some("rs" | "py")) {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let line = line.trim_start();
            let line = line.strip_prefix("async ").unwrap_or(line);
            let rest = line
                .strip_prefix("fn ")
                .or_else(|| line.strip_prefix("def "));
            if let Some((name, _)) = rest.and_then(|rest| rest.split_once('(')) {
                names.insert(name.to_owned());
            }
        }
    }
}

/// What is between backticks in the last column of a table's row.
fn named(row: &str) -> Vec<&str> {
    let row = row.trim_end().trim_end_matches('|');
    let (_, last) = row.rsplit_once('|').unwrap();
    last.split('`').skip(1).step_by(2).collect()
}

#[test]
fn tests_that_the_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut exist = BTreeSet::new();
    for folder in ["crates/model/tests", "crates/control", "verif/fibnic"] {
        functions(&root.join(folder), &mut exist);
    }
    let rfc = fs::read_to_string(root.join("docs/fibnic-rfc.md")).unwrap();
    let mut rows = 0;
    let mut missing = Vec::new();
    for row in rfc.lines().filter(|line| line.starts_with('|')) {
        let names = named(row);
        // A requirement without a test is one that is not met, and says so.
        let heading = row.contains("| test |") || row.starts_with("|---");
        assert!(
            heading || !names.is_empty() || row.contains("| not: "),
            "no test: {row}"
        );
        rows += usize::from(!heading);
        missing.extend(names.into_iter().filter(|name| !exist.contains(*name)));
    }
    assert!(rows > 60, "the tables were not read");
    let fibnic = fs::read_to_string(root.join("docs/fibnic.md")).unwrap();
    let (_, rest) = fibnic.split_once("Test: `").unwrap();
    let (name, _) = rest.split_once('`').unwrap();
    missing.extend((!exist.contains(name)).then_some(name));
    assert_eq!(missing, Vec::<&str>::new(), "no such test");
}

/// Each RFC test of the control plane is in the table.
#[test]
fn the_document_names_all_rfc_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut exist = BTreeSet::new();
    functions(&root.join("crates/control"), &mut exist);
    functions(&root.join("crates/model/tests"), &mut exist);
    let rfc = fs::read_to_string(root.join("docs/fibnic-rfc.md")).unwrap();
    let left_out: Vec<_> = exist
        .iter()
        .filter(|name| name.starts_with("rfc") && !rfc.contains(&format!("`{name}`")))
        .collect();
    assert_eq!(left_out, Vec::<&String>::new(), "not in docs/fibnic-rfc.md");
}
