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
    let quoted = |rest: &str| rest.split('`').nth(1).unwrap_or_default().to_owned();
    let all = |rest: &str| {
        let names = rest.split('`').skip(1).step_by(2);
        names.collect::<Vec<_>>().join(", ")
    };
    for (words, what, remedy) in [
        ("unknown field ", "there is no key", "the keys are"),
        ("unknown variant ", "no such value:", "write one of"),
    ] {
        if let Some((place, rest)) = sentence.split_once(words)
            && let Some((name, known)) = rest.split_once(", expected ")
        {
            let name = quoted(name);
            return format!("{place}{what} `{name}`; {remedy} {}", all(known));
        }
    }
    for words in ["missing field ", "missing configuration field "] {
        if let Some((place, rest)) = sentence.split_once(words) {
            return format!("{place}the key `{}` is missing; add it", quoted(rest));
        }
    }
    for words in ["invalid type: ", "invalid value: ", "invalid length "] {
        if let Some((place, rest)) = sentence.split_once(words)
            && let Some((found, wanted)) = rest.split_once(", expected ")
        {
            return format!("{place}{found} is out of place; write {wanted}");
        }
    }
    // What the syntax forbids.
    if let Some((found, wanted)) = sentence.rsplit_once(", expected ") {
        return format!("{found}; write {wanted}");
    }
    for words in ["duplicate key", "duplicate field"] {
        if let Some((place, _)) = sentence.split_once(words) {
            return format!("{place}a key is there twice; remove one");
        }
    }
    sentence
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
                "t.toml, line 2: string \"x\" is out of place; write u64",
            ),
            (
                "t.toml, line 1: string values must be quoted, expected literal string",
                "t.toml, line 1: string values must be quoted; write literal string",
            ),
            (
                "--loops: 0 is not from 1 to 100000000",
                "--loops: 0 is not from 1 to 100000000",
            ),
        ] {
            assert_eq!(own_words(theirs), ours);
        }
    }
}
