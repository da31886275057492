// SPDX-License-Identifier: Apache-2.0
//! Figures of this repository, wherever they stand.

use std::fmt;
use std::path::{Path, PathBuf};

use rack::cpu::{Cpu, CpuSpec};
use rack::pcie::LinkKind;
use rack::waiting::Costs;

use crate::claims::OWN_KEYS;

/// Lengths of memcached's values, in the order of `by_length`.
const LENGTHS: [usize; 6] = [16, 32, 64, 128, 256, 512];

/// A figure with its place.
#[derive(Clone, Debug)]
pub struct Number {
    pub file: String,
    pub path: String,
    pub value: f64,
}

impl Number {
    /// In that file.
    pub fn of(self, file: &str) -> Self {
        let file = file.to_owned();
        Self { file, ..self }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.file, self.path, self.value)
    }
}

/// A file's sentences: no line ends within a paragraph, no comment signs.
#[derive(Clone)]
pub struct Text {
    pub file: String,
    pub text: String,
    pub is_code: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file's table.
pub fn toml(path: &str) -> toml::Value {
    let table: toml::Table = read(&root().join(path))
        .parse()
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    toml::Value::Table(table)
}

/// All numbers under a value; names of links count as two.
pub fn numbers(prefix: &str, value: &toml::Value) -> Vec<Number> {
    let mut found = Vec::new();
    collect(prefix.trim_end_matches('.'), value, &mut found);
    found
}

fn collect(path: &str, value: &toml::Value, found: &mut Vec<Number>) {
    let mut add = |path: String, value| {
        found.push(Number {
            file: String::new(),
            path,
            value,
        });
    };
    let under = |key: &str| match path {
        "" => key.to_owned(),
        _ => format!("{path}.{key}"),
    };
    match value {
        toml::Value::Integer(value) => add(path.to_owned(), *value as f64),
        toml::Value::Float(value) => add(path.to_owned(), *value),
        toml::Value::String(text) if path.contains("link") => {
            if let Ok(link) = text.parse::<LinkKind>() {
                let link = link.to_string();
                let (generation, lanes) = link["Gen".len()..].split_once('x').expect("both");
                let number = |text: &str| text.parse().expect("a number");
                add(under("generation"), number(generation));
                add(under("lanes"), number(lanes));
            }
        }
        toml::Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                let key = if path.ends_with("by_length") {
                    format!("b{}", LENGTHS[index])
                } else {
                    index.to_string()
                };
                collect(&under(&key), value, found);
            }
        }
        toml::Value::Table(table) => {
            for (key, value) in table {
                collect(&under(key), value, found);
            }
        }
        _ => {}
    }
}

/// Everything that must be a published figure.
pub fn all_numbers() -> Vec<Number> {
    let mut found = Vec::new();
    for path in [
        "experiments/paper.toml",
        "crates/rack/platforms/keio-2016.toml",
        "crates/rack/platforms/modern.toml",
    ] {
        let file = path.rsplit('/').next().expect("a name");
        let numbers = numbers("", &toml(path));
        found.extend(numbers.into_iter().map(|number| number.of(file)));
    }
    for path in files("experiments", ".toml") {
        if path.ends_with("experiment.toml") {
            let relative = path
                .strip_prefix(root())
                .expect("within")
                .display()
                .to_string();
            let id = path.parent().and_then(Path::file_name).expect("a folder");
            found.extend(conditions(&toml(&relative), &id.to_string_lossy()));
        }
    }
    let costs = Cpu::new(&CpuSpec::default(), &CpuSpec::default()).table();
    found.extend(costs.into_iter().map(|cost| Number {
        file: "costs".to_owned(),
        path: cost.name.to_owned(),
        value: cost.ns as f64,
    }));
    found.push(Number {
        file: "costs".to_owned(),
        path: "waiting.interrupt_ns".to_owned(),
        value: Costs::published().interrupt_ns.ns as f64,
    });
    for path in files("crates", ".rs") {
        found.extend(constants(&path));
    }
    found
}

/// Numbers of an experiment's rows, but for its own.
fn conditions(file: &toml::Value, id: &str) -> Vec<Number> {
    let mut found = Vec::new();
    for row in file
        .get("row")
        .and_then(toml::Value::as_array)
        .expect("rows")
    {
        let name = row
            .get("name")
            .and_then(toml::Value::as_str)
            .expect("a name");
        for number in numbers("", row) {
            let is_link = number.path.starts_with("run.link");
            let is_own = OWN_KEYS
                .iter()
                .any(|own| number.path == *own || number.path.starts_with(&format!("{own}.")));
            if !is_link && !is_own {
                found.push(Number {
                    path: format!("{name}.{}", number.path),
                    ..number.of(id)
                });
            }
        }
    }
    found
}

/// Constants of a source file whose comment names a place in the dissertation, or whose name says that they are its.
fn constants(path: &Path) -> Vec<Number> {
    let stem = path
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let mut found = Vec::new();
    let mut comment = String::new();
    for line in read(path).lines() {
        let line = line.trim();
        if let Some(more) = line.strip_prefix("///").or(line.strip_prefix("//")) {
            comment += more;
            continue;
        }
        let said = std::mem::take(&mut comment);
        let Some((name, value)) = constant(line) else {
            continue;
        };
        if !name.starts_with("PAPER_") && !cites(&said) {
            continue;
        }
        let values: Vec<_> = value.trim_matches(['[', ']', ';']).split(", ").collect();
        for (index, value) in values.iter().enumerate() {
            let value = value.replace('_', "");
            let value = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16)
                    .ok()
                    .map(|value| value as f64),
                None => value.parse().ok(),
            };
            let path = match values.len() {
                1 => format!("{stem}.{name}"),
                _ => format!("{stem}.{name}.{index}"),
            };
            found.extend(value.map(|value| Number {
                file: "constants".to_owned(),
                path,
                value,
            }));
        }
    }
    found
}

/// Name and value of a constant that a line declares.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (before, rest) = line.split_once("const ")?;
    let visible = before.is_empty() || before.starts_with("pub");
    let (name, rest) = rest.split_once(':')?;
    let (_, value) = rest.split_once(" = ")?;
    let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (visible && name.chars().all(upper)).then_some((name, value.trim()))
}

/// Whether a comment names a place in the dissertation, or the dissertation.
fn cites(comment: &str) -> bool {
    let lower = comment.to_lowercase();
    if lower.contains("dissertation") || lower.contains("author") {
        return true;
    }
    !lower.contains("rfc")
        && ["table ", "tables ", "figure ", "figures ", "section "]
            .iter()
            .any(|word| {
                lower.match_indices(word).any(|(at, _)| {
                    let mut after = lower[at + word.len()..].chars();
                    let chapter = after.next().is_some_and(|c| ('1'..='7').contains(&c));
                    chapter
                        && after.next() == Some('.')
                        && after.next().is_some_and(|c| c.is_ascii_digit())
                })
            })
}

/// Files under a folder with that end of their names, in order.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            if path.is_dir() {
                if name != "target" && !path.ends_with("tests/published") {
                    folders.push(path);
                }
            } else if name.ends_with(end) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Where sentences with published figures stand.
pub fn texts() -> Vec<Text> {
    let mut found = Vec::new();
    let readme = [root().join("README.md")];
    for path in files("docs", ".md")
        .into_iter()
        .chain(readme)
        .chain(files("experiments", ".toml"))
        .chain(files("crates/rack/platforms", ".toml"))
        .chain(files("crates", ".rs"))
    {
        let file = path
            .strip_prefix(root())
            .expect("within")
            .display()
            .to_string();
        if file.ends_with("experiments/published.toml") {
            continue;
        }
        let is_code = file.ends_with(".rs");
        let is_document = file.ends_with(".md");
        let mut text = String::new();
        for line in read(&path).lines() {
            let line = line.trim();
            let plain = if is_document {
                line
            } else {
                line.trim_start_matches(['/', '!', '#']).trim_start()
            };
            // Paragraphs, and entries of files, end their sentences.
            let ends = line.is_empty() || (!is_document && line.starts_with('['));
            text.push(if ends { '\n' } else { ' ' });
            text += plain;
        }
        found.push(Text {
            file,
            text,
            is_code,
        });
    }
    found
}

/// A number at the beginning of a text, as sentences and code write it, and its length.
pub fn leading_number(text: &str) -> Option<(f64, usize)> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    let mut digits = String::new();
    while digit(end)
        || (end > 0 && matches!(bytes.get(end), Some(b',' | b'.' | b'_')) && digit(end + 1))
    {
        match bytes[end] {
            b',' | b'_' => {}
            byte => digits.push(byte as char),
        }
        end += 1;
    }
    Some((digits.parse().ok()?, end))
}

/// Numbers with a unit in a sentence.
pub fn quantities(sentence: &str) -> Vec<String> {
    const UNITS: &[&str] = &[" ns", " us", " %", " cycles", " stages", " routes", " MB"];
    let mut found = Vec::new();
    let mut at = 0;
    while at < sentence.len() {
        let Some((_, length)) = leading_number(&sentence[at..]) else {
            at += sentence[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let after = &sentence[at + length..];
        if UNITS.iter().any(|unit| after.starts_with(unit)) {
            found.push(sentence[at..at + length].to_owned() + after.get(..3).unwrap_or(after));
        }
        at += length;
    }
    found
}
