// SPDX-License-Identifier: Apache-2.0
//! Where in a file something is wrong, and forms of values that the schema's types alone do not refuse.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::line_of;

/// Offset of the key with which a sentence begins (`cable.faults.loss: ...`); of several tables of one name it is that in
/// which `offset` lies, and without such a key it stays.
pub(super) fn of_sentence(text: &str, offset: usize, sentence: &str) -> usize {
    let Ok(document) = DeTable::parse(text) else {
        return offset;
    };
    let key = sentence.split_once(": ").map_or("", |(key, _)| key);
    let mut table = document.get_ref();
    let mut place = offset;
    for part in key.split('.') {
        let Some((name, value)) = entry(table, part) else {
            break;
        };
        let tables = match value.get_ref() {
            DeValue::Table(inner) => {
                (table, place) = (inner, name.span().start);
                continue;
            }
            DeValue::Array(tables) => tables.iter(),
            _ => return name.span().start,
        };
        let mut before = tables.filter(|inner| inner.span().start <= offset);
        match before.next_back().map(Spanned::get_ref) {
            Some(DeValue::Table(inner)) => table = inner,
            _ => return name.span().start,
        }
    }
    place
}

/// Offset of what the parser complains of. What the kind of a program decides it reads without places, and names the whole
/// table.
pub(super) fn of_error(text: &str, error: &toml::de::Error) -> usize {
    let offset = error.span().map_or(0, |span| span.start);
    let found = || {
        let document = DeTable::parse(text).ok()?;
        let (name, value) = entry(document.get_ref(), "program")?;
        let DeValue::Table(program) = value.get_ref() else {
            return None;
        };
        if line_of(text, name.span().start) != line_of(text, offset) {
            return None;
        }
        let message = error.message();
        let mut all = program.iter();
        let (name, _) = match message.strip_prefix("unknown field `") {
            Some(rest) => all.find(|(name, _)| rest.starts_with(&format!("{}`", name.get_ref()))),
            None => all.find(|(_, value)| message.contains(&found(value.get_ref()))),
        }?;
        Some(name.span().start)
    };
    found().unwrap_or(offset)
}

fn entry<'a, 'text>(
    table: &'a DeTable<'text>,
    key: &str,
) -> Option<(
    &'a Spanned<std::borrow::Cow<'text, str>>,
    &'a Spanned<DeValue<'text>>,
)> {
    table.iter().find(|(name, _)| name.get_ref() == key)
}

/// A value as the parser's sentences have it.
fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!(": string {text:?}"),
        DeValue::Integer(number) => format!(": integer `{number}`"),
        DeValue::Float(number) => format!(": floating point `{number}`"),
        DeValue::Boolean(yes) => format!(": boolean `{yes}`"),
        DeValue::Array(_) => ": sequence".to_owned(),
        _ => ": map".to_owned(),
    }
}

/// The two ends of a cable: an array's own reader takes the first two of more.
pub(super) fn two_ends<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Spanned<[String; 2]>, D::Error> {
    let all = Spanned::<Vec<String>>::deserialize(from)?;
    let (span, all) = (all.span(), all.into_inner());
    let count = all.len();
    let ends = all.try_into().map_err(|_| {
        D::Error::custom(format!(
            "a cable has two ends, and {count} are here; write two"
        ))
    })?;
    Ok(Spanned::new(span, ends))
}

/// A table by its keys only: a derived reader takes a list of the values as well, and an empty one for no values.
pub(super) fn table<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Table<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Table<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    from.deserialize_map(Table(PhantomData))
}
