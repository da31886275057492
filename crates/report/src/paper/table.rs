// SPDX-License-Identifier: Apache-2.0
//! An experiment as a table of text.

use super::{Row, Section};
use crate::text;

/// A number with as many digits as it deserves.
pub fn number(value: f64) -> String {
    if value >= 1e6 && value != value.trunc() {
        format!("{:.2} M", value / 1e6)
    } else if value.abs() >= 100.0 || value == value.trunc() {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    }
}

/// How far our figure is from the paper's.
pub fn difference(row: &Row) -> String {
    match (row.difference_percent, row.ours.zip(row.paper)) {
        (Some(percent), _) if percent.abs() < 0.05 => "0.0 %".to_owned(),
        (Some(percent), _) => format!("{percent:+.1} %"),
        (None, Some((ours, paper))) => format!("{:+}", ours - paper),
        (None, None) => "-".to_owned(),
    }
}

/// A table or figure as text.
pub fn show(section: &Section) -> String {
    let mut out = text::wrap(&format!("{}: {}", section.id, section.title), 0);
    out += &text::wrap(&section.what, 2);
    out += &format!(
        "\n  {:<30}{:>10}{:>10}  {:<11}{:>10}   how\n",
        "", "paper", "ours", "unit", "difference"
    );
    let mut said: Vec<&String> = Vec::new();
    for row in &section.rows {
        let ours = row.ours.map_or("-".to_owned(), number);
        let difference = difference(row);
        let mark = match (row.as_expected, row.is_unexplained()) {
            (Some(false), _) => " !",
            (_, true) => " ?",
            _ => "",
        };
        let line = format!(
            "  {:<30}{:>10}{:>10}  {:<11}{difference:>10}   {}{mark}",
            row.name,
            row.paper.map_or("-".to_owned(), number),
            ours,
            row.unit,
            row.how
        );
        if line.chars().count() > text::WIDTH {
            // A long reason goes to a line of its own.
            let short = &line[..line.len() - row.how.len() - mark.len()];
            out += &format!("{}\n", short.trim_end());
            out += &text::wrap(&row.how, 6);
        } else {
            out += &line;
            out.push('\n');
        }
        if let Some(note) = &row.note {
            out += &text::wrap(note, 6);
        }
        // What all rows have in common is said once.
        if let Some(why) = row.why.as_ref().filter(|_| row.is_far())
            && !said.contains(&why)
        {
            out += &text::wrap(&format!("Why: {why}"), 6);
            said.push(why);
        }
    }
    for check in &section.checks {
        let holds = match check.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "not run",
        };
        out += &text::wrap(&format!("{holds}: {}", check.sentence), 2);
        if let Some(why) = &check.why {
            out += &text::wrap(&format!("Why: {why}"), 6);
        }
    }
    if let Some(note) = &section.note {
        out += &text::wrap(note, 2);
    }
    out.push('\n');
    out
}
