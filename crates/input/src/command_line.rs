// SPDX-License-Identifier: Apache-2.0
//! What is wrong with a command line, in one line: the place, what is wrong, and the remedy.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::words::one_line;

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

/// The sentence, in one line. `words` are those of the command line.
pub fn sentence(error: &clap::Error, words: &[OsString]) -> String {
    one_line(&match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, words),
        ErrorKind::InvalidUtf8 => no_text(words),
        _ => of_kind(error),
    })
}

/// What is no option: a negative number behind one that takes none, a word too many, or a slip of the pen.
fn unknown(error: &clap::Error, words: &[OsString]) -> String {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let help = "--help lists what there is";
    // Of `-12` the parser names `-1`, the first of the options that it takes it for.
    let negative = words.windows(2).find_map(|pair| {
        let (option, value) = (pair[0].to_str()?, pair[1].to_str()?);
        let number = value.starts_with('-') && value.parse::<f64>().is_ok();
        let named = !argument.is_empty() && value.starts_with(&argument);
        (number && named && option.starts_with('-')).then_some((option, value))
    });
    if let Some((option, value)) = negative {
        return format!(
            "{option}: {value} is negative; write a number from 0 on, --help says which"
        );
    }
    if !argument.starts_with('-') {
        return format!("`{argument}` is a word too many; leave it out, or see --help");
    }
    let near = text(error, ContextKind::SuggestedArg);
    let near = near.map_or(help.to_owned(), |near| {
        format!("write {near}, or see --help")
    });
    format!("{}: there is no such option; {near}", place(&argument))
}

/// The first word that is no text, and whose it is.
fn no_text(words: &[OsString]) -> String {
    let remedy = "write it in UTF-8";
    let Some(at) = words.iter().position(|word| word.to_str().is_none()) else {
        return format!("an argument is no text in UTF-8; {remedy}");
    };
    let shown = words[at].to_string_lossy();
    let option = |word: &str| word.starts_with('-').then(|| word.to_owned());
    let before = words[..at].last().and_then(|word| option(word.to_str()?));
    match (shown.split_once('='), before) {
        (Some((name, value)), _) if name.starts_with("--") => {
            format!("{name}: `{value}` is no text in UTF-8; {remedy}")
        }
        (_, Some(name)) => format!("{name}: `{shown}` is no text in UTF-8; {remedy}"),
        _ => format!("`{shown}` is no text in UTF-8; {remedy}"),
    }
}

fn of_kind(error: &clap::Error) -> String {
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
        ErrorKind::InvalidSubcommand => {
            let name = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let near = text(error, ContextKind::SuggestedSubcommand);
            let near = near.map_or("--help lists them".to_owned(), |near| {
                format!("write {near}, or see --help")
            });
            match name.as_str() {
                "" => format!("the command is an empty word; {near}"),
                name => format!("{name}: there is no such command; {near}"),
            }
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
        _ if why.contains("float") => format!("`{value}` is no number; write one such as 0.5"),
        _ if why.contains("invalid digit") || why.contains("from empty string") => {
            format!("`{value}` is no whole number; write one such as 10")
        }
        _ if why.contains("number too") => {
            format!("`{value}` is too large or too small a number; write a smaller one")
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for why in [
            "invalid float literal",
            "cannot parse float from empty string",
        ] {
            assert_eq!(
                value_of("x", why),
                "`x` is no number; write one such as 0.5"
            );
        }
    }
}
