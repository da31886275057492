// SPDX-License-Identifier: Apache-2.0
//! `docs/figures.md` has a line for every figure and table of chapters 3 to 6, and what a line names is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::file::{ExperimentFile, parse};
use super::source::EXPERIMENTS;

/// Chapter, its last figure, its last table: counted in the captions themselves, not in this project's files.
const CAPTIONS: [(u32, u32, u32); 4] = [(3, 14, 4), (4, 4, 6), (5, 10, 5), (6, 18, 8)];
/// Words of a sentence that says why nobody can run something.
const SENTENCE: usize = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/figures.md")).expect("the page is there")
}

/// `figure-3.5` and the like, all of them.
fn captions() -> BTreeSet<String> {
    let all = CAPTIONS.iter().flat_map(|(chapter, figures, tables)| {
        let figures = (1..=*figures).map(move |number| format!("figure-{chapter}.{number}"));
        figures.chain((1..=*tables).map(move |number| format!("table-{chapter}.{number}")))
    });
    all.collect()
}

/// What is between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Rows by experiment, as the files have them.
fn rows() -> BTreeMap<&'static str, Vec<String>> {
    let rows = EXPERIMENTS.iter().map(|(id, text)| {
        let file: ExperimentFile = parse(text, id).expect("it is right");
        (*id, file.row.into_iter().map(|row| row.name).collect())
    });
    rows.collect()
}

/// What is wrong with the page, as sentences.
fn wrong(page: &str) -> Vec<String> {
    let rows = rows();
    let mut wrong = Vec::new();
    let mut left = captions();
    for line in page.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let ["", name, shows, how, ""] = cells[..] else {
            continue;
        };
        let id = name.replacen(' ', "-", 1);
        if !["figure-", "table-"]
            .iter()
            .any(|kind| id.starts_with(kind))
        {
            continue;
        }
        if !left.remove(&id) {
            wrong.push(format!(
                "{name}: the dissertation has none, or it has two lines"
            ));
        }
        if shows.is_empty() {
            wrong.push(format!("{name}: what does it show?"));
        }
        let mut runs = 0;
        for quoted in quoted(how) {
            let (experiment, row) = match quoted.split_once(": ") {
                Some((experiment, row)) => (experiment, Some(row)),
                None => (quoted, None),
            };
            if let Some(known) = rows.get(experiment) {
                runs += 1;
                if row.is_some_and(|row| !known.iter().any(|known| known == row)) {
                    wrong.push(format!("{name}: `ipnuma paper` has no row `{quoted}`"));
                }
            } else if row.is_some()
                || ["figure-", "table-"]
                    .iter()
                    .any(|it| quoted.starts_with(it))
            {
                wrong.push(format!("{name}: `ipnuma paper` has no `{quoted}`"));
            } else if quoted.contains('/') && !root().join(quoted).exists() {
                wrong.push(format!("{name}: there is no file `{quoted}`"));
            }
        }
        let has_own = rows.contains_key(id.as_str());
        if has_own && !quoted(how).any(|quoted| quoted.split(": ").next() == Some(&id)) {
            wrong.push(format!(
                "{name}: `ipnuma paper` runs it, and its line does not say so"
            ));
        }
        if runs == 0 && how.split_whitespace().count() < SENTENCE {
            wrong.push(format!("{name}: it is not run, and no sentence says why"));
        }
    }
    wrong.extend(left.iter().map(|id| format!("{id}: it has no line")));
    wrong
}

#[test]
fn every_figure_and_table_has_a_row_that_is_run_or_a_sentence() {
    assert_eq!(wrong(&page()), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_the_page_is_found() {
    let page = page();
    let changed = |from: &str, to: &str| {
        assert!(page.contains(from), "the page has no `{from}` any more");
        wrong(&page.replacen(from, to, 1)).join("\n")
    };
    for (from, to, sentence) in [
        (
            "| figure 5.7 |",
            "| figure 5.77 |",
            "figure-5.7: it has no line",
        ),
        (
            "| figure 5.7 |",
            "| figure 5.6 |",
            "figure 5.6: the dissertation has none",
        ),
        (
            "| `table-3.2` |",
            "| by nobody |",
            "table 3.2: it is not run",
        ),
        (
            "| `figure-6.13` |",
            "| `figure-6.14` |",
            "figure 6.13: `ipnuma paper` runs it",
        ),
        ("`congestion`", "`figure-5.7`", "has no `figure-5.7`"),
        (
            "`table-6.3: 1G socket, SET`",
            "`table-6.3: 2G`",
            "no row `table-6.3: 2G`",
        ),
        (
            "`rtl/ipnuma/pc_id_table.sv`",
            "`rtl/ipnuma/nothing.sv`",
            "there is no file",
        ),
    ] {
        let found = changed(from, to);
        assert!(found.contains(sentence), "{from}, {to}: {found}");
    }
}
