// SPDX-License-Identifier: Apache-2.0
//! The headers, from the sources: one a topic, and `ipnuma.h`, which includes them.

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

/// A source, whose header has its name.
struct Topic {
    name: &'static str,
    about: &'static str,
    /// The topics whose types it uses.
    uses: &'static [&'static str],
}

/// In the order of `ipnuma.h`.
const TOPICS: [Topic; 5] = [
    Topic {
        name: "status",
        about: "the version, and what errors mean",
        uses: &[],
    },
    Topic {
        name: "device",
        about: "devices",
        uses: &[],
    },
    Topic {
        name: "region",
        about: "regions and their tokens, memory that others store to",
        uses: &["device"],
    },
    Topic {
        name: "window",
        about: "windows, memory that somebody else has exported",
        uses: &["device", "region"],
    },
    Topic {
        name: "ring",
        about: "rings, which carry messages",
        uses: &["device", "region"],
    },
];

/// Where the headers are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The headers as the sources say: each one's path below [`directory`], and its text.
pub fn headers() -> Vec<(String, String)> {
    let parts = TOPICS.iter().map(|topic| (path(topic), part(topic)));
    std::iter::once(("ipnuma.h".to_owned(), whole()))
        .chain(parts)
        .collect()
}

fn path(topic: &Topic) -> String {
    format!("ipnuma/{}.h", topic.name)
}

fn whole() -> String {
    let includes: String = TOPICS
        .iter()
        .map(|topic| format!("#include \"{}\"\n", path(topic)))
        .collect();
    format!("{HEAD}\n\n#ifndef IPNUMA_H\n#define IPNUMA_H\n\n{includes}\n#endif  /* IPNUMA_H */\n")
}

fn part(topic: &Topic) -> String {
    let Topic { name, about, uses } = topic;
    let head = format!(
        "\
// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: {about}.
 *
 * ipnuma.h includes this, and says at its head what holds for all functions.
 *
 * Generated from crates/libipnuma/src/{name}.rs by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */"
    );
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: true,
        include_guard: Some(format!("IPNUMA_{}_H", name.to_uppercase())),
        header: Some(head),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        includes: uses.iter().map(|used| format!("{used}.h")).collect(),
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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{name}.rs"));
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(source)
        .generate()
        .expect("cbindgen understands the sources");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).expect("the sources are text");
    text.lines().map(|line| polished(line) + "\n").collect()
}

/// A line as it is in the header.
fn polished(line: &str) -> String {
    let line = line.trim_end();
    // Headings of Rust's documentation are headings of man pages here.
    if let Some(heading) = line.strip_prefix("// # ") {
        return format!("// {}", heading.to_uppercase());
    }
    // cbindgen writes the tags of a topic's own structs only; without any, all functions look alike.
    if line.starts_with("//") || line.starts_with("typedef") {
        return line.to_owned();
    }
    line.replace("struct ipn_", "ipn_")
}
