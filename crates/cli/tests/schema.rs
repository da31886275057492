// SPDX-License-Identifier: Apache-2.0
//! The schema of topologies: the one in docs is the code's, and the documentation has every key.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn docs(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn schema() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(["schema", "topology"])
        .output()
        .expect("the command was built for this test");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn the_committed_schema_is_that_of_the_code() {
    assert_eq!(
        docs("topology.schema.json"),
        schema(),
        "write it again: ipnuma schema topology > docs/topology.schema.json"
    );
}

/// Names of all properties, wherever they are.
fn keys(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| keys(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_a_topology_is_documented() {
    let schema: Value = serde_json::from_str(&schema()).expect("it is JSON");
    let mut found = Vec::new();
    keys(&schema, &mut found);
    assert!(found.len() > 40, "{found:?}");
    let text = docs("experiments.md");
    let known = |key: &String| {
        ["`", "[[", "["]
            .iter()
            .zip(["`", "]]", "]"])
            .any(|(open, close)| text.contains(&format!("{open}{key}{close}")))
    };
    let missing: Vec<_> = found.iter().filter(|key| !known(key)).collect();
    assert!(missing.is_empty(), "docs/experiments.md lacks {missing:?}");
}
