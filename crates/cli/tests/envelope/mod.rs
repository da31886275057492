// SPDX-License-Identifier: Apache-2.0
//! The shape that `--json` has in every command (docs/json.md).

use serde_json::Value;

/// Holds what a command printed to the shape; returns its result.
pub fn result(arguments: &[&str], printed: &[u8]) -> Value {
    let mut whole: Value = serde_json::from_slice(printed).expect("it is JSON");
    let fields = whole.as_object_mut().expect("it is an object");
    let result = fields.remove("result").expect("it has a result");
    assert!(result.is_object(), "{arguments:?}: the result is no object");
    assert_eq!(fields.remove("format"), Some(1.into()), "{arguments:?}");
    assert_eq!(fields.remove("command"), Some(arguments[0].into()));
    assert_eq!(
        fields.remove("version"),
        Some(env!("CARGO_PKG_VERSION").into())
    );
    assert!(fields.is_empty(), "{arguments:?}: {fields:?} besides");
    result
}
