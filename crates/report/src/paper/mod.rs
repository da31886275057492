// SPDX-License-Identifier: Apache-2.0
//! The experiments, and what the dissertation has in the same place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rack::Error;
use rack::platform::Platform;
use serde::Serialize;
use sha2::{Digest, Sha256};

mod brief;
mod checks;
mod draw;
#[cfg(test)]
mod figures;
mod file;
mod memcached;
mod offload;
mod page;
mod router;
mod run;
mod source;
mod stream;
mod switch;
mod table;
mod waiting;

pub use brief::brief;
pub use offload::published;
pub use table::show;

use crate::Failure;
use crate::plot::Plot;
use crate::waterfall::Waterfall;
use file::{ExperimentFile, Figure, Instance, parse};
use run::Runner;

/// A row that is further from the paper's figure must say why.
const FAR_PERCENT: f64 = 15.0;
/// How a row came about that is only there to compare with.
const PUBLISHED: &str = "published";

/// One row of the result.
#[derive(Debug, Serialize)]
pub struct Row {
    name: String,
    place: Option<String>,
    unit: String,
    paper: Option<f64>,
    ours: Option<f64>,
    difference_percent: Option<f64>,
    how: String,
    expected: Option<f64>,
    as_expected: Option<bool>,
    note: Option<String>,
    /// Why ours is far from the paper's.
    why: Option<String>,
    /// Of the run that the figure is from, where the rack made it.
    run_hash: Option<String>,
    /// Of a time: hundredths that RTL simulated; the rest are constants. Absent where that is not known.
    rtl_percent: Option<f64>,
    /// What tells it from other rows of the same name.
    #[serde(skip)]
    instance: Instance,
    #[serde(skip)]
    stem: String,
}

impl Row {
    /// Whether it is further from the paper's figure than goes without saying.
    fn is_far(&self) -> bool {
        self.difference_percent
            .is_some_and(|percent| percent.abs() > FAR_PERCENT)
    }

    /// Whether a sentence is missing that says why it is far.
    fn is_unexplained(&self) -> bool {
        self.is_far() && self.why.as_ref().is_none_or(|why| why.trim().is_empty())
    }

    /// Whether something could be run, and is not.
    fn lacks(&self) -> bool {
        self.ours.is_none() && self.how != PUBLISHED
    }
}

/// Something that the rows together must fulfil.
#[derive(Debug, Serialize)]
pub struct Check {
    sentence: String,
    /// Absent: not everything that it needs was run.
    holds: Option<bool>,
    /// Why it does not hold, where that is known.
    why: Option<String>,
}

impl Check {
    /// Whether it fails without a known reason, or holds against one.
    fn surprises(&self) -> bool {
        self.holds == Some(self.why.is_some())
    }
}

/// A table or figure.
#[derive(Debug, Serialize)]
pub struct Section {
    id: String,
    title: String,
    what: String,
    note: Option<String>,
    rows: Vec<Row>,
    checks: Vec<Check>,
    /// Name of the row that stands for all in a line.
    headline: Option<String>,
    #[serde(skip)]
    plot: Option<Plot>,
}

/// The figure of a row, and how it came about.
struct Found {
    ours: Option<f64>,
    how: String,
    /// Something is wrong, whatever the figure.
    fault: bool,
    /// Of the run.
    hash: Option<String>,
    /// Hundredths of a time that RTL simulated.
    rtl_percent: Option<f64>,
}

impl Found {
    fn new(ours: f64, how: impl Into<String>) -> Self {
        Self {
            ours: Some(ours),
            ..Self::nothing(how)
        }
    }

    fn nothing(how: impl Into<String>) -> Self {
        Self {
            ours: None,
            how: how.into(),
            fault: false,
            hash: None,
            rtl_percent: None,
        }
    }

    fn of_run(mut self, hash: &str) -> Self {
        self.hash = Some(hash.to_owned());
        self
    }

    fn with_rtl(mut self, percent: Option<f64>) -> Self {
        self.rtl_percent = percent;
        self
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Tables and figures; all of them if empty.
    pub only: Vec<String>,
    /// Directory of the experiments; the built-in ones if absent.
    pub experiments: Option<PathBuf>,
    /// Round trips of each ping-pong.
    pub loops: u64,
    /// Commands of each kind and length that memcached is asked in each of its rows.
    pub count: u64,
    /// Whether GETs are taken apart for the share of RTL, where that costs a run of its own.
    pub shares: bool,
    /// Where the page goes.
    pub html: Option<PathBuf>,
}

/// Who is told how far it is.
pub trait Watch {
    /// Something begins: the `number`th of `of`, from 1.
    fn begin(&mut self, number: usize, of: usize, what: &str) {
        let _ = (number, of, what);
    }

    /// A table or figure is done.
    fn section(&mut self, section: &Section) -> Result<(), Error> {
        let _ = section;
        Ok(())
    }
}

/// Everything that came out.
#[derive(Debug)]
pub struct Paper {
    /// Tables and figures, in the order of the experiments.
    pub sections: Vec<Section>,
    /// SHA-256 over all figures and the hashes of their runs.
    pub hash: String,
}

/// How many rows, and how they came out.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// With a figure of ours.
    pub ran: usize,
    /// Without one, where there could be.
    pub not_run: usize,
    /// As the experiments expect.
    pub expected: usize,
    /// Not so.
    pub surprises: usize,
    /// Far from the dissertation without a reason.
    pub unexplained: usize,
    /// Checks that do not come out as expected.
    pub failed: usize,
    /// Checks that do not hold for a reason that is known.
    pub known: usize,
}

impl Counts {
    /// Whether something is not as it should be.
    pub const fn is_bad(&self) -> bool {
        self.surprises + self.unexplained + self.failed > 0
    }

    /// In sentences.
    pub fn describe(&self) -> String {
        let Self {
            ran,
            not_run,
            expected,
            surprises,
            unexplained,
            failed,
            known,
        } = self;
        let mut out = format!(
            "{ran} rows ran, {expected} as the experiments expect, {surprises} not (marked !); {not_run} not run.\n"
        );
        if *unexplained > 0 {
            out += &format!(
                "{unexplained} rows are more than {FAR_PERCENT} % from the dissertation, and no `why` in their \
                 experiment.toml says why (marked ?).\n"
            );
        }
        if *failed > 0 {
            out += &format!("{failed} checks do not come out as expected.\n");
        }
        if *known > 0 {
            out += &format!("{known} checks do not hold, for reasons that stand beside them.\n");
        }
        out
    }
}

impl Paper {
    /// Counts its rows and checks.
    pub fn counts(&self) -> Counts {
        let rows = || self.sections.iter().flat_map(|section| &section.rows);
        let count = |is: &dyn Fn(&Row) -> bool| rows().filter(|row| is(row)).count();
        let checks = || self.sections.iter().flat_map(|section| &section.checks);
        let explained = |check: &&Check| check.holds == Some(false) && check.why.is_some();
        Counts {
            ran: count(&|row| row.ours.is_some()),
            not_run: count(&Row::lacks),
            expected: count(&|row| row.as_expected == Some(true)),
            surprises: count(&|row| row.as_expected == Some(false)),
            unexplained: count(&Row::is_unexplained),
            failed: checks().filter(|check| check.surprises()).count(),
            known: checks().filter(explained).count(),
        }
    }
}

/// Runs experiments, and writes the page if one is wanted.
pub fn run(request: &Request, watch: &mut dyn Watch) -> Result<Paper, Failure> {
    rack::topology::check_pingpong(4, request.loops)
        .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
    let (texts, figures) = source::sources(request.experiments.as_deref())?;
    let figures: BTreeMap<String, Figure> = parse(&figures, "paper.toml")?;
    for only in &request.only {
        if !texts.iter().any(|(id, _)| id == only) {
            let known: Vec<_> = texts.iter().map(|(id, _)| id.as_str()).collect();
            return Err(Error::Config(format!(
                "--only: there is no experiment `{only}`; choose from {}",
                known.join(", ")
            ))
            .into());
        }
    }
    // All are read before the first one runs: a mistake in the last must not cost the time of all others.
    let mut files: Vec<(&str, ExperimentFile)> = Vec::new();
    for (id, text) in &texts {
        if request.only.is_empty() || request.only.contains(id) {
            files.push((id, parse(text, &format!("{id}/experiment.toml"))?));
        }
    }
    let mut runner = Runner::new(
        Platform::load("keio-2016")?,
        figures,
        request.loops,
        request.count,
        request.shares,
    );
    runner.begin(&files, request.html.is_some());
    let steps = files.len() + usize::from(request.html.is_some());
    let mut sections = Vec::new();
    for (number, (id, file)) in files.iter().enumerate() {
        watch.begin(
            number + 1,
            steps,
            &format!("{}: {}", spoken(id), file.title),
        );
        let section = runner.section(id, file)?;
        watch.section(&section)?;
        sections.push(section);
    }
    let mut waterfalls = Vec::new();
    if request.html.is_some() {
        watch.begin(steps, steps, "requests taken apart, the page");
        waterfalls = runner.waterfalls()?;
    }
    let hash = hash(&sections, &waterfalls);
    if let Some(path) = &request.html {
        write_page(&runner, &sections, &waterfalls, &hash, path)?;
    }
    Ok(Paper { sections, hash })
}

/// `table-3.4` as people write it.
fn spoken(id: &str) -> String {
    if let Some(rest) = id.strip_prefix("hitachi-") {
        return format!("Hitachi {}", rest.replacen('-', " ", 1));
    }
    match id.split_once('-') {
        Some((kind @ ("table" | "figure"), number)) => {
            let capital = if kind == "table" { "Table" } else { "Figure" };
            format!("{capital} {number}")
        }
        _ => {
            let mut letters = id.chars();
            letters.next().map_or(String::new(), |first| {
                first.to_uppercase().collect::<String>() + letters.as_str()
            })
        }
    }
}

/// SHA-256 over all figures with the hashes of their runs.
fn hash(sections: &[Section], waterfalls: &[Waterfall]) -> String {
    let mut sha = Sha256::new();
    let json = serde_json::to_vec(&(sections, waterfalls));
    sha.update(json.expect("numbers and strings have JSON"));
    let digest = sha.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the page.
fn write_page(
    runner: &Runner,
    sections: &[Section],
    waterfalls: &[Waterfall],
    hash: &str,
    path: &Path,
) -> Result<(), Error> {
    let page = page::Page {
        sections,
        waterfalls,
        facts: runner.facts(),
        platform: runner.platform(),
        hash,
    };
    let unwritten = |reason: String| Error::Output {
        path: path.display().to_string(),
        reason,
    };
    let html = page.html().map_err(unwritten)?;
    std::fs::write(path, html).map_err(|error| unwritten(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::checks::checks;
    use super::file::{Planned, plan};
    use super::run::TOLERANCE_PERCENT;
    use super::source::{EXPERIMENTS, FIGURES};
    use super::*;

    /// All rows as the files have them, with the experiment's id.
    fn all_rows(check: impl Fn(&str, &ExperimentFile, &Planned)) {
        let figures: BTreeMap<String, Figure> = parse(FIGURES, "paper.toml").expect("it is right");
        for (id, text) in EXPERIMENTS {
            let file: ExperimentFile = parse(text, id).expect("it is right");
            for row in plan(id, &file, &figures).expect("its figures are there") {
                check(id, &file, &row);
            }
        }
    }

    #[test]
    fn what_is_expected_far_from_the_paper_says_why() {
        all_rows(|id, file, row| {
            // Beside nothing there are no hundredths.
            let (Some(paper), Some(expect)) = (row.paper.filter(|paper| *paper != 0.0), row.expect)
            else {
                return;
            };
            let percent = 100.0 * (expect - paper).abs() / paper.abs();
            let why = row.why.or(file.why.as_deref());
            assert!(
                percent <= FAR_PERCENT || why.is_some_and(|why| why.split_whitespace().count() > 4),
                "{id}, {}: {expect} is {percent:.0} % from {paper}, and there is no `why`",
                row.name
            );
        });
    }

    /// A tolerance beyond this must say why it is needed, in the row or at the link that needs it.
    const WIDE_PERCENT: f64 = 5.0;

    #[test]
    fn a_wide_tolerance_says_why() {
        all_rows(|id, _, row| {
            let percent = row.tolerance_percent.unwrap_or(TOLERANCE_PERCENT);
            assert!(
                percent <= WIDE_PERCENT
                    || row
                        .why
                        .is_some_and(|why| why.split_whitespace().count() > 4),
                "{id}, {}: {percent} % are allowed, and neither row nor link says why",
                row.name
            );
        });
    }

    /// What the bus meter in RTL found: reads, writes and combined writes of 4 bytes, then of 64, link by link.
    const TABLE_3_4: [[f64; 6]; 6] = [
        [4836.0, 2996.0, 2708.0, 2804.0, 1908.0, 1738.0],
        [386.0, 226.0, 223.0, 223.0, 224.0, 223.0],
        [21.0, 11.0, 11.0, 11.0, 11.0, 11.0],
        [77376.0, 47936.0, 43328.0, 44864.0, 30528.0, 27808.0],
        [6176.0, 3616.0, 3568.0, 3568.0, 3584.0, 3568.0],
        [336.0, 84.0, 42.003, 168.0, 41.996, 20.998],
    ];

    #[test]
    fn each_link_of_table_3_4_is_held_by_itself() {
        let figures: BTreeMap<String, Figure> = parse(FIGURES, "paper.toml").expect("it is right");
        let (id, text) = EXPERIMENTS
            .iter()
            .find(|(id, _)| *id == "table-3.4")
            .expect("it is there");
        let file: ExperimentFile = parse(text, id).expect("it is right");
        let rows = plan(id, &file, &figures).expect("its figures are there");
        assert_eq!(rows.len(), 36);
        for (row, found) in rows.iter().zip(TABLE_3_4.as_flattened()) {
            let paper = row.paper.expect("the paper has all of them");
            assert!(row.allows(*found, paper), "{}: {found}", row.name);
            // What one link is allowed does not excuse another: 4 % beyond what was found, away from the paper's figure.
            let off = found + 0.04 * paper.max(25.0) * if *found < paper { -1.0 } else { 1.0 };
            assert!(!row.allows(off, paper), "{}: {off}", row.name);
        }
    }

    fn row(paper: f64, ours: f64, why: Option<&str>) -> Row {
        Row {
            name: "a".to_owned(),
            place: None,
            unit: "ns".to_owned(),
            paper: Some(paper),
            ours: Some(ours),
            difference_percent: Some(100.0 * (ours - paper) / paper),
            how: String::new(),
            expected: None,
            as_expected: None,
            note: None,
            why: why.map(str::to_owned),
            run_hash: None,
            rtl_percent: None,
            instance: Instance::default(),
            stem: "a".to_owned(),
        }
    }

    #[test]
    fn a_difference_without_a_sentence_is_found() {
        assert!(row(100.0, 116.0, None).is_unexplained());
        assert!(row(100.0, 84.0, Some("  ")).is_unexplained());
        assert!(!row(100.0, 84.0, Some("Because.")).is_unexplained());
        assert!(!row(100.0, 115.0, None).is_unexplained());
    }

    #[test]
    fn checks_hold_fail_and_wait() {
        let text = r#"
            title = "t"
            what = "w"
            rising = true
            [[row]]
            name = "one"
            unit = "%"
            each_length = true
            run = { kind = "published" }
            [[row]]
            name = "two"
            unit = "%"
            each_length = true
            at_least = 432
            run = { kind = "published" }
        "#;
        let file: ExperimentFile = parse(text, "a test").expect("it is right");
        let rows = |one: f64, two: Option<f64>| {
            let mut rows = Vec::new();
            for (stem, ours) in [("one", Some(one)), ("two", two)] {
                for length in file::LENGTHS {
                    rows.push(Row {
                        stem: stem.to_owned(),
                        ours,
                        instance: Instance {
                            length: Some(length),
                            ..Instance::default()
                        },
                        ..row(1.0, 1.0, None)
                    });
                }
            }
            rows
        };
        let found = |rows: &[Row]| {
            checks(&file, rows)
                .iter()
                .map(|check| check.holds)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&rows(100.0, Some(432.0))), [Some(true), Some(true)]);
        assert_eq!(found(&rows(432.0, Some(431.0))), [Some(false), Some(false)]);
        assert_eq!(found(&rows(100.0, None)), [None, None]);
        // Not rising at one length only.
        let mut one_wrong = rows(100.0, Some(500.0));
        one_wrong[3].ours = Some(501.0);
        assert_eq!(found(&one_wrong), [Some(true), Some(false)]);
        // What nobody published has no place in the order.
        let mut more = rows(100.0, Some(500.0));
        more.extend(rows(100.0, Some(200.0)).into_iter().map(|row| Row {
            paper: None,
            stem: "three".to_owned(),
            ..row
        }));
        assert_eq!(found(&more), [Some(true), Some(true)]);
        // A reason that is known explains a failure, and nothing else.
        let known = ExperimentFile {
            rising_fails: Some("because".to_owned()),
            ..file
        };
        for (rows, surprise) in [(&one_wrong, false), (&rows(100.0, Some(432.0)), true)] {
            assert_eq!(checks(&known, rows)[1].surprises(), surprise);
        }
    }
}
