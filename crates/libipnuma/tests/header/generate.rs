// SPDX-License-Identifier: Apache-2.0
//! The header, from the sources.

use std::path::{Path, PathBuf};

const HEAD: &str = "\
// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: memory of other machines.
 *
 * A server allocates a region, exports a range of it as a token of 64 bytes, and gives the token away. Whoever connects with
 * the token gets a window and stores into it; the server polls, or waits for signals. Rings carry messages on top.
 *
 * Status numbers are 0 or a negative errno. Handles and other pointers are NULL where a function says so, or valid as C wants
 * them: from the function that made the handle until the one that ends it, and with room for what is said at the argument.
 * Structs that may grow begin with struct_size. There is nothing to initialise and no state but in handles and, for
 * ipn_error_message(), in threads. Calls that may be made by several threads at a time say \"any thread\".
 *
 * Generated from crates/libipnuma/src by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */";

/// In the order of the header.
const SOURCES: [&str; 5] = [
    "status.rs",
    "device.rs",
    "region.rs",
    "window.rs",
    "ring.rs",
];

/// Where the header is.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/ipnuma.h")
}

/// The header as the sources say.
pub fn header() -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: true,
        include_guard: Some("IPNUMA_H".to_owned()),
        header: Some(HEAD.to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        usize_is_size_t: true,
        style: cbindgen::Style::Both,
        documentation_style: cbindgen::DocumentationStyle::C99,
        documentation_length: cbindgen::DocumentationLength::Full,
        line_length: 110,
        tab_width: 2,
        ..cbindgen::Config::default()
    };
    config.function.sort_by = Some(cbindgen::SortKey::None);
    config.function.args = cbindgen::Layout::Auto;
    let sources = SOURCES.map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name));
    let builder = sources.iter().fold(
        cbindgen::Builder::new().with_config(config),
        |builder, source| builder.with_src(source),
    );
    let bindings = builder
        .generate()
        .expect("cbindgen understands the sources");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).expect("the sources are text");
    // Headings of Rust's documentation are headings of man pages here.
    text.lines()
        .map(|line| {
            line.strip_prefix("// # ").map_or_else(
                || line.to_owned(),
                |heading| format!("// {}", heading.to_uppercase()),
            )
        })
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
