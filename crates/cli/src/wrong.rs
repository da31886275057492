// SPDX-License-Identifier: Apache-2.0
//! What is wrong with a command line, in one line: the place, what is wrong, and the remedy.

use clap::error::{ContextKind, ContextValue, ErrorKind};

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    Some(match error.get(kind)? {
        ContextValue::String(text) => text.clone(),
        ContextValue::Strings(texts) => texts.join(", "),
        ContextValue::StyledStr(text) => text.to_string(),
        ContextValue::Number(number) => number.to_string(),
        ContextValue::Bool(yes) => yes.to_string(),
        _ => return None,
    })
}

/// The name of an option without its value: `--rate` of `--rate <RATE>`.
fn place(argument: &str) -> &str {
    argument.split_whitespace().next().unwrap_or(argument)
}

/// The sentence, in one line.
pub fn sentence(error: &clap::Error) -> String {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let place = place(&argument);
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    let known = text(error, ContextKind::ValidValue).filter(|known| !known.is_empty());
    let help = "--help lists what there is";
    match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => {
            let known = known.map_or(String::new(), |known| format!(", one of {known}"));
            format!("{place}: a value is missing; write one behind it{known}")
        }
        ErrorKind::InvalidValue => match known {
            Some(known) => {
                format!("{place}: `{value}` is none of its values; write one of {known}")
            }
            None => format!("{place}: `{value}` is no value of it; {help}"),
        },
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string);
            format!(
                "{place}: {}",
                value_of(&value, why.as_deref().unwrap_or(""))
            )
        }
        ErrorKind::UnknownArgument => {
            let near = text(error, ContextKind::SuggestedArg);
            let near = near.map_or(help.to_owned(), |near| {
                format!("write {near}, or see --help")
            });
            format!("{place}: there is no such option; {near}")
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let near = text(error, ContextKind::SuggestedSubcommand);
            let near = near.map_or("ipnuma --help lists them".to_owned(), |near| {
                format!("write {near}, or see ipnuma --help")
            });
            format!("{name}: there is no such command; {near}")
        }
        ErrorKind::ArgumentConflict => {
            let other = text(error, ContextKind::PriorArg).unwrap_or_default();
            if other.is_empty() || other == argument {
                format!("{place}: it is there twice, or goes with nothing else; leave one out")
            } else {
                format!("{place}: it does not go with {other}; leave one out")
            }
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{argument}: it is missing; write it, {help}")
        }
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("{place}: it has too few or too many values; {help}")
        }
        _ => {
            let whole = error.to_string();
            let first = whole.lines().next().unwrap_or_default();
            format!("{}; {help}", first.trim_start_matches("error: "))
        }
    }
}

/// What the parsers of numbers say in English of their own gets this project's words.
fn value_of(value: &str, why: &str) -> String {
    // A range: `70000 is not in 64..=9216`.
    if let Some((_, range)) = why.split_once(" is not in ")
        && let Some((from, to)) = range.split_once("..")
    {
        let to = to.trim_start_matches('=');
        let to = if to.is_empty() {
            "more".to_owned()
        } else {
            to.to_owned()
        };
        return format!("{value} is out of range; write {from} to {to}");
    }
    match why {
        "" => format!("`{value}` is no value of it; --help says what is"),
        _ if why.contains("invalid digit") || why.contains("from empty string") => {
            format!("`{value}` is no whole number; write one such as 10")
        }
        _ if why.contains("number too") => {
            format!("`{value}` is too large or too small a number; write a smaller one")
        }
        _ if why.contains("float") => format!("`{value}` is no number; write one such as 0.5"),
        _ if why.contains("socket address") => {
            format!("`{value}` is no address with a port; write one such as 192.0.2.1:3422")
        }
        _ if why.contains(';') => why.lines().collect::<Vec<_>>().join(" "),
        _ => format!(
            "`{value}`: {}; --help says what it may be",
            why.lines().collect::<Vec<_>>().join(" ")
        ),
    }
}

/// What the parser of a file says, in this project's words and with a remedy; other sentences stay as they are.
///
/// All files (topologies, platforms, experiments, configurations) are read by one library, whose sentences reach the user
/// behind the file's name and line.
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

    #[test]
    fn numbers_out_of_range_name_the_range() {
        assert_eq!(
            value_of("70000", "70000 is not in 64..=9216"),
            "70000 is out of range; write 64 to 9216"
        );
        assert_eq!(
            value_of("x", "invalid digit found in string"),
            "`x` is no whole number; write one such as 10"
        );
        assert_eq!(
            value_of("x", "invalid float literal"),
            "`x` is no number; write one such as 0.5"
        );
    }
}
