// SPDX-License-Identifier: Apache-2.0
//! What the rows of an experiment must fulfil together.

use super::file::{self, ExperimentFile};
use super::table::number;
use super::{Check, Row};

/// What the rows together must fulfil.
pub fn checks(file: &ExperimentFile, rows: &[Row]) -> Vec<Check> {
    let mut checks = Vec::new();
    for row in &file.row {
        if let Some(least) = row.at_least {
            let ours = rows.iter().find(|found| found.stem == row.name);
            let (name, ours) = ours.map_or((row.name.as_str(), None), |found| {
                (found.name.as_str(), found.ours)
            });
            checks.push(Check {
                sentence: format!("{name}: at least {}", number(least)),
                holds: ours.map(|ours| ours >= least),
                why: None,
            });
        }
    }
    if file.rising {
        // Rows that nobody published have no place in that order.
        let holds = file::LENGTHS.map(|length| {
            let values: Option<Vec<f64>> = rows
                .iter()
                .filter(|row| row.instance.length == Some(length) && row.paper.is_some())
                .map(|row| row.ours)
                .collect();
            values.map(|values| values.windows(2).all(|pair| pair[0] < pair[1]))
        });
        checks.push(Check {
            sentence: "the order of the rows is the dissertation's, at every length".to_owned(),
            holds: if holds.contains(&Some(false)) {
                Some(false)
            } else {
                holds.iter().all(Option::is_some).then_some(true)
            },
            why: file.rising_fails.clone(),
        });
    }
    checks
}
