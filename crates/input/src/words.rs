// SPDX-License-Identifier: Apache-2.0
//! Sentences about what people have given.

/// Characters of a word that are shown.
const MOST: usize = 40;

/// A word between backticks, as long as a line of a message can be, without characters that move a terminal's cursor.
#[must_use]
pub fn quoted(word: &str) -> String {
    let some: String = word.chars().take(MOST).collect();
    let more = if word.chars().nth(MOST).is_some() {
        "..."
    } else {
        ""
    };
    format!("`{}{more}`", one_line(&some))
}

/// A sentence in one line: control characters in it are shown as they are written in Rust, `\\n` for a line's end.
#[must_use]
pub fn one_line(sentence: &str) -> String {
    let mut line = String::new();
    for character in sentence.chars() {
        match character.is_control() {
            true => line.extend(character.escape_debug()),
            false => line.push(character),
        }
    }
    line
}

/// What the parser of a file says, in this project's words and with a remedy; other sentences stay as they are.
///
/// All files (topologies, platforms, experiments, configurations) are read by one library, whose sentences reach the user
/// behind the file's name and line.
#[must_use]
pub fn own_words(sentence: &str) -> String {
    let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    // Behind a file's name and line, or alone.
    for start in starts(&sentence) {
        let (place, theirs) = sentence.split_at(start);
        let ours = whole(theirs)
            .map(str::to_owned)
            .or_else(|| named(theirs))
            .or_else(|| misplaced(theirs));
        if let Some(ours) = ours {
            return format!("{place}{ours}");
        }
    }
    // What the syntax forbids.
    match sentence.rsplit_once(", expected ") {
        Some((theirs, expected)) => format!("{theirs}; write {}", wanted(expected)),
        None => sentence,
    }
}

/// Where the parser's own words may begin.
fn starts(sentence: &str) -> impl Iterator<Item = usize> {
    let behind = sentence
        .match_indices(": ")
        .map(|(at, colon)| at + colon.len());
    std::iter::once(0).chain(behind)
}

/// Sentences in which nothing of the file stands.
fn whole(sentence: &str) -> Option<&'static str> {
    let all = [
        (
            "string values must be quoted",
            "the value is missing, or is a text without quotation marks; write one, a text as in \"text\"",
        ),
        ("key with no value", "a key has no value; write KEY = VALUE"),
        (
            "wanted string or table",
            "this is no value of it; write a text in quotation marks",
        ),
        (
            "invalid IPv4 address syntax",
            "this is no IPv4 address; write one such as 192.0.2.1",
        ),
        (
            "floating-point number overflowed",
            "the number is too large; write a smaller one",
        ),
        (
            "integer number overflowed",
            "the number is too large; write a smaller one",
        ),
        (
            "cannot recurse further",
            "tables or lists stand in one another too deep; write fewer levels",
        ),
        (
            "recursion limit",
            "tables or lists stand in one another too deep; write fewer levels",
        ),
        (
            "data did not match any variant of untagged enum",
            "the value has none of its forms; write a number, or a table of numbers",
        ),
        ("duplicate key", "a key is there twice; remove one"),
        ("duplicate field", "a key is there twice; remove one"),
    ];
    let known = all.iter().find(|(theirs, _)| sentence.starts_with(theirs));
    known.map(|(_, ours)| *ours)
}

/// Sentences about a key or a value by its name.
fn named(sentence: &str) -> Option<String> {
    let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
    let all = |text: &str| {
        let names = text.split('`').skip(1).step_by(2);
        names.collect::<Vec<_>>().join(", ")
    };
    for (words, what, remedy) in [
        ("unknown field ", "there is no key", "the keys are"),
        ("unknown variant ", "no such value:", "write one of"),
    ] {
        if let Some(rest) = sentence.strip_prefix(words)
            && let Some((name, known)) = rest.rsplit_once(", expected ")
        {
            return Some(format!(
                "{what} `{}`; {remedy} {}",
                quoted(name),
                all(known)
            ));
        }
    }
    let name = ["missing field ", "missing configuration field "]
        .iter()
        .find_map(|words| sentence.strip_prefix(words))?;
    Some(format!("the key `{}` is missing; add it", quoted(name)))
}

/// Sentences about a value of another kind than is wanted.
fn misplaced(sentence: &str) -> Option<String> {
    let (theirs, expected) = sentence.rsplit_once(", expected ")?;
    let remedy = wanted(expected);
    for words in ["invalid type: ", "invalid value: "] {
        if let Some(text) = theirs.strip_prefix(words) {
            return Some(format!("{} is out of place; write {remedy}", found(text)));
        }
    }
    let count = theirs.strip_prefix("invalid length ")?;
    Some(format!("a list of {count} is out of place; write {remedy}"))
}

/// A value that is there.
fn found(theirs: &str) -> String {
    let quoted = theirs.split('`').nth(1).unwrap_or_default();
    match theirs {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        _ if theirs.starts_with("integer") || theirs.starts_with("floating point") => {
            format!("the number {quoted}")
        }
        _ if theirs.starts_with("boolean") => quoted.to_owned(),
        _ => match theirs.strip_prefix("string ") {
            Some(text) => format!("the text {text}"),
            None => theirs.to_owned(),
        },
    }
}

/// What is to be there instead.
fn wanted(theirs: &str) -> String {
    let most = match theirs {
        "u8" => Some(u64::from(u8::MAX)),
        "u16" => Some(u64::from(u16::MAX)),
        "u32" => Some(u64::from(u32::MAX)),
        "u64" | "usize" => Some(u64::MAX),
        _ => None,
    };
    if let Some(most) = most {
        return format!("a whole number from 0 to {most}");
    }
    let ours = match theirs {
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number such as 1.5",
        "a boolean" => "true or false",
        "a string" | "path string" | "string" | "variant identifier" => "a text in quotation marks",
        "a sequence" => "a list in square brackets, a table with doubled ones, as in [[NAME]]",
        "a map" | "map" => "a table, as in { KEY = VALUE }",
        "IPv4 address" => "an address such as 192.0.2.1",
        _ if theirs.starts_with("struct ") || theirs.contains("tagged enum") => {
            "a table, as in { KEY = VALUE }"
        }
        _ => {
            return match theirs.strip_prefix("an array of length ") {
                Some(count) => format!("a list of {count}"),
                None => theirs.to_owned(),
            };
        }
    };
    ours.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_stays_in_a_line() {
        assert_eq!(quoted("a\nb\u{1b}[2J"), "`a\\nb\\u{1b}[2J`");
        assert_eq!(quoted(&"x".repeat(41)), format!("`{}...`", "x".repeat(40)));
        assert_eq!(one_line("plain, `w\u{e4}`"), "plain, `w\u{e4}`");
    }

    #[test]
    fn the_parsers_sentences_get_a_remedy() {
        for (theirs, ours) in [
            (
                "t.toml, line 3: unknown field `cabel`, expected one of `between`, `metres`",
                "t.toml, line 3: there is no key `cabel`; the keys are between, metres",
            ),
            (
                "t.toml, line 3: unknown variant `5g`, expected `10g` or `1g`",
                "t.toml, line 3: no such value: `5g`; write one of 10g, 1g",
            ),
            (
                "t.toml, line 1: missing field `platform`",
                "t.toml, line 1: the key `platform` is missing; add it",
            ),
            (
                "t.toml, line 2: invalid type: string \"x\", expected u64",
                "t.toml, line 2: the text \"x\" is out of place; write a whole number from 0 to 18446744073709551615",
            ),
            (
                "t.toml, line 1: string values must be quoted, expected literal string",
                "t.toml, line 1: the value is missing, or is a text without quotation marks; write one, a text as in \"text\"",
            ),
            (
                "--loops: 0 is not from 1 to 100000000",
                "--loops: 0 is not from 1 to 100000000",
            ),
            (
                "unknown field `meters`, expected one of `between`, `metres`",
                "there is no key `meters`; the keys are between, metres",
            ),
            (
                "unknown variant `5g`, expected `10g` or `1g`",
                "no such value: `5g`; write one of 10g, 1g",
            ),
            (
                "missing field `platform`",
                "the key `platform` is missing; add it",
            ),
            (
                "invalid type: string \"x\", expected u32",
                "the text \"x\" is out of place; write a whole number from 0 to 4294967295",
            ),
            (
                "invalid type: integer `99` as i128, expected usize",
                "the number 99 is out of place; write a whole number from 0 to 18446744073709551615",
            ),
            (
                "invalid type: integer `5`, expected struct Faults",
                "the number 5 is out of place; write a table, as in { KEY = VALUE }",
            ),
            (
                "invalid length 1, expected struct NicSpec with 7 elements",
                "a list of 1 is out of place; write a table, as in { KEY = VALUE }",
            ),
            (
                "invalid type: map, expected variant identifier",
                "a table is out of place; write a text in quotation marks",
            ),
            (
                "invalid type: integer `1`, expected path string",
                "the number 1 is out of place; write a text in quotation marks",
            ),
            (
                "invalid type: floating point `1.5`, expected a boolean",
                "the number 1.5 is out of place; write true or false",
            ),
            (
                "invalid length 1, expected an array of length 2",
                "a list of 1 is out of place; write a list of 2",
            ),
            (
                "string values must be quoted, expected literal string",
                "the value is missing, or is a text without quotation marks; write one, a text as in \"text\"",
            ),
            (
                "cannot recurse further; max recursion depth met",
                "tables or lists stand in one another too deep; write fewer levels",
            ),
            ("10 is no length; write 5", "10 is no length; write 5"),
        ] {
            assert_eq!(own_words(theirs), ours);
            assert_eq!(own_words(ours), ours);
        }
    }
}
