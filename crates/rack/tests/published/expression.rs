// SPDX-License-Identifier: Apache-2.0
//! Sums over published figures: `round(1e9 / table_6_6.direct_sockets_ns.b16)`.

use std::collections::BTreeMap;

use crate::claims::DERIVED;

/// Published figures by their dotted path.
pub type Figures = BTreeMap<String, f64>;

struct Reader<'a> {
    rest: &'a str,
    figures: &'a Figures,
    used: Vec<String>,
}

/// The value of an expression, and the figures that it was made from.
pub fn evaluate(expression: &str, figures: &Figures) -> Result<(f64, Vec<String>), String> {
    let mut reader = Reader {
        rest: expression,
        figures,
        used: Vec::new(),
    };
    let value = reader
        .sum()
        .map_err(|sentence| format!("`{expression}`: {sentence}"))?;
    match reader.rest.trim() {
        "" => Ok((value, reader.used)),
        rest => Err(format!("`{expression}`: nothing can be done with `{rest}`")),
    }
}

impl Reader<'_> {
    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.takes('+') {
                value += self.product()?;
            } else if self.takes('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.atom()?;
        loop {
            if self.takes('*') {
                value *= self.atom()?;
            } else if self.takes('/') {
                value /= self.atom()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.takes('(') {
            return self.closed();
        }
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)))
            .unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        if word == "round" && self.takes('(') {
            let value = self.sum()?;
            let digits = if self.takes(',') { self.sum()? } else { 0.0 };
            let scale = 10_f64.powi(digits as i32);
            let rounded = (value * scale + 1e-9).round() / scale;
            return self.takes(')').then_some(rounded).ok_or_else(unclosed);
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map_err(|_| format!("`{word}` is no number"));
        }
        if let Some((_, derived)) = DERIVED.iter().find(|(name, _)| *name == word) {
            let (value, used) = evaluate(derived, self.figures)?;
            self.used.extend(used);
            return Ok(value);
        }
        self.used.push(word.to_owned());
        let value = self.figures.get(word).copied();
        value.ok_or_else(|| format!("published.toml has no figure `{word}`"))
    }

    fn closed(&mut self) -> Result<f64, String> {
        let value = self.sum()?;
        self.takes(')').then_some(value).ok_or_else(unclosed)
    }
}

fn unclosed() -> String {
    "a bracket is not closed".to_owned()
}

#[test]
fn expressions() {
    let figures = Figures::from([("a.b_1".to_owned(), 6.0), ("c".to_owned(), 0.5)]);
    for (expression, value) in [
        ("a.b_1", 6.0),
        ("1 + 2 * a.b_1 - 3", 10.0),
        ("(1 + 2) * a.b_1 / c", 36.0),
        ("round(a.b_1 / 4)", 2.0),
        ("round(1000 * c / 7, 1)", 71.4),
        ("1e3 * c", 500.0),
    ] {
        assert_eq!(
            evaluate(expression, &figures).map(|found| found.0),
            Ok(value)
        );
    }
    let used = evaluate("a.b_1 - c", &figures).map(|found| found.1);
    assert_eq!(used, Ok(vec!["a.b_1".to_owned(), "c".to_owned()]));
    for wrong in ["", "d", "(c", "round(c", "c c", "1.2.3"] {
        assert!(evaluate(wrong, &figures).is_err(), "{wrong}");
    }
}
