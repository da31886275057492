// SPDX-License-Identifier: Apache-2.0
//! What is drawn of an experiment's rows.

use super::Row;
use super::file::Instance;
use crate::plot::{Pair, Plot, Series};

fn pair(row: &Row) -> Pair {
    Pair {
        paper: row.paper,
        ours: row.ours,
    }
}

/// Bars of the rows that have something to show; one alone says no more than the table.
pub fn bars<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Plot> {
    let rows: Vec<_> = rows
        .filter(|row| row.paper.or(row.ours).is_some())
        .collect();
    let [first, _, ..] = &rows[..] else {
        return None;
    };
    Some(Plot::Bars {
        unit: first.unit.clone(),
        rows: rows
            .iter()
            .map(|row| (row.name.clone(), pair(row)))
            .collect(),
    })
}

pub fn lines<'a>(rows: impl Iterator<Item = &'a Row>, (x, y): (&str, &str), log: bool) -> Plot {
    let mut categories: Vec<String> = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let Instance {
            link,
            length,
            clients,
        } = row.instance;
        let category = match (link, length.or(clients)) {
            (Some(link), _) => link.to_string(),
            (None, Some(number)) => number.to_string(),
            (None, None) => row.name.clone(),
        };
        if !categories.contains(&category) {
            categories.push(category);
        }
        match series.iter_mut().find(|series| series.name == row.stem) {
            Some(series) => series.pairs.push(pair(row)),
            None => series.push(Series {
                name: row.stem.clone(),
                pairs: vec![pair(row)],
            }),
        }
    }
    Plot::Lines {
        categories,
        x: x.to_owned(),
        y: y.to_owned(),
        series,
        log,
    }
}

pub fn stacks(rows: &[Row]) -> Plot {
    let mut names: Vec<String> = Vec::new();
    let mut parts: Vec<Series> = Vec::new();
    for row in rows {
        let (bar, part) = row.name.split_once(": ").unwrap_or((&row.name, ""));
        if !names.iter().any(|name| name == bar) {
            names.push(bar.to_owned());
        }
        match parts.iter_mut().find(|series| series.name == part) {
            Some(series) => series.pairs.push(pair(row)),
            None => parts.push(Series {
                name: part.to_owned(),
                pairs: vec![pair(row)],
            }),
        }
    }
    Plot::Stacks {
        rows: names,
        parts,
        unit: rows.first().map_or(String::new(), |row| row.unit.clone()),
    }
}
