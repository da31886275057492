// SPDX-License-Identifier: Apache-2.0
//! One line for each table or figure.

use std::fmt::Write as _;
use std::path::Path;

use super::table::{difference, number};
use super::{FAR_PERCENT, Paper, Row, Section, spoken};
use crate::text;

impl Section {
    /// The row that stands for all: the one that the experiment names, else the first that can be compared, else the
    /// first that ran.
    fn headline(&self) -> Option<&Row> {
        let ran = || self.rows.iter().filter(|row| row.ours.is_some());
        let named = |row: &&Row| {
            let name = self.headline.as_ref();
            name.is_some_and(|name| *name == row.name || *name == row.stem)
        };
        ran()
            .find(named)
            .or_else(|| ran().find(|row| row.paper.is_some()))
            .or_else(|| ran().next())
    }
}

/// Fits into a column.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let short: String = text.chars().take(width - 1).collect();
    format!("{}\u{2026}", short.trim_end())
}

fn line(section: &Section, row: &Row) -> String {
    let compared = section.rows.iter();
    let compared = compared.filter_map(|row| row.difference_percent);
    let (near, all) = compared.fold((0, 0), |(near, all), percent| {
        (near + u32::from(percent.abs() <= FAR_PERCENT), all + 1)
    });
    let near = match all {
        0 => "-".to_owned(),
        all => format!("{near} of {all}"),
    };
    let rtl = row
        .rtl_percent
        .map_or("-".to_owned(), |percent| format!("{percent:.0} %"));
    let mut rows = section.rows.iter();
    let mark = match rows.any(|row| row.as_expected == Some(false)) {
        true => " !",
        false => "",
    };
    format!(
        "{:<17}{:<26}{:>10}{:>10} {:<9}{:>9}{near:>9}{rtl:>7}{mark}\n",
        spoken(&section.id),
        cut(&row.name, 25),
        row.paper.map_or("-".to_owned(), number),
        row.ours.map_or("-".to_owned(), number),
        cut(&row.unit, 9),
        difference(row),
    )
}

/// One line for each table or figure; what could not be run is counted, not listed. `html` is where the page is.
pub fn brief(paper: &Paper, html: Option<&Path>) -> String {
    let mut out = format!(
        "{:<43}{:>10}{:>10} {:<9}{:>9}{:>9}{:>7}\n",
        "", "published", "ours", "unit", "how far", "near", "RTL"
    );
    let mut empty = 0;
    for section in &paper.sections {
        match section.headline() {
            Some(row) => out += &line(section, row),
            None => empty += 1,
        }
    }
    out += &text::wrap(
        &format!(
            "near: rows of the table within {FAR_PERCENT} % of the dissertation; RTL: share of the time that RTL simulated."
        ),
        0,
    );
    let counts = paper.counts();
    let mut end = format!(
        "{} rows ran, {} as the experiments expect, {} not (marked !).",
        counts.ran, counts.expected, counts.surprises
    );
    if counts.not_run > 0 {
        let of = match empty {
            0 => String::new(),
            1 => ", one table or figure whole".to_owned(),
            more => format!(", {more} tables and figures whole"),
        };
        end += &format!(
            " Not run: {} rows{of}; ipnuma paper says what each needs.",
            counts.not_run
        );
    }
    if counts.unexplained > 0 {
        end += &format!(" {} rows are far without a reason.", counts.unexplained);
    }
    if counts.failed > 0 {
        end += &format!(" {} checks do not come out as expected.", counts.failed);
    }
    out += &text::wrap(&end, 0);
    let page = html.map_or("ipnuma paper --html FILE".to_owned(), |path| {
        path.display().to_string()
    });
    let _ = writeln!(out, "Everything, with plots and reasons: {page}");
    out
}

#[cfg(test)]
mod tests {
    use super::super::file::{ExperimentFile, Instance, Planned, parse, plan};
    use super::super::source::{EXPERIMENTS, FIGURES};
    use super::*;

    fn row(name: &str, paper: Option<f64>, ours: Option<f64>) -> Row {
        Row {
            name: name.to_owned(),
            place: None,
            unit: "ns".to_owned(),
            paper,
            ours,
            difference_percent: ours
                .zip(paper)
                .map(|(ours, paper)| 100.0 * (ours - paper) / paper),
            how: String::new(),
            expected: None,
            as_expected: None,
            note: None,
            why: None,
            run_hash: None,
            rtl_percent: Some(12.4),
            instance: Instance::default(),
            stem: name.to_owned(),
        }
    }

    fn section(id: &str, rows: Vec<Row>) -> Section {
        Section {
            id: id.to_owned(),
            title: "t".to_owned(),
            what: String::new(),
            note: None,
            rows,
            checks: Vec::new(),
            headline: None,
            plot: None,
        }
    }

    fn paper(sections: Vec<Section>) -> Paper {
        Paper {
            sections,
            hash: String::new(),
        }
    }

    #[test]
    fn a_line_has_both_figures_how_far_and_the_share_of_rtl() {
        let rows = vec![
            row("nobody published it", None, Some(1.0)),
            row("far", Some(100.0), Some(130.0)),
            row("near", Some(100.0), Some(101.0)),
        ];
        let mut section = section("table-3.4", rows);
        let words = |section: &Section| {
            let line = line(section, section.headline().expect("it ran"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(&section),
            "Table 3.4 far 100 130 ns +30.0 % 1 of 2 12 %"
        );
        section.headline = Some("near".to_owned());
        assert_eq!(
            words(&section),
            "Table 3.4 near 100 101 ns +1.0 % 1 of 2 12 %"
        );
    }

    #[test]
    fn what_could_not_be_run_is_counted_in_one_line() {
        let rows = || vec![row("a", Some(1.0), None), row("b", Some(1.0), None)];
        let paper = paper(vec![
            section("table-6.3", rows()),
            section("table-6.4", rows()),
            section("table-3.4", vec![row("a", Some(1.0), Some(1.0))]),
        ]);
        let out = brief(&paper, Some(Path::new("/tmp/report.html")));
        assert!(!out.contains("Table 6.3"), "{out}");
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("Not run: 4 rows, 2 tables and figures whole"),
            "{out}"
        );
        assert!(out.ends_with("reasons: /tmp/report.html\n"), "{out}");
    }

    #[test]
    fn all_experiments_fit_forty_lines_of_a_hundred_columns() {
        let long = |id: &str| {
            let mut row = row(&"name ".repeat(12), Some(47_890_550.5), Some(47_890_551.5));
            row.unit = "frames per second".to_owned();
            section(id, vec![row])
        };
        let paper = paper(EXPERIMENTS.iter().map(|(id, _)| long(id)).collect());
        let out = brief(&paper, Some(Path::new("/tmp/report.html")));
        assert!(out.lines().count() <= 40, "{out}");
        assert!(
            out.lines().all(|line| line.chars().count() <= text::WIDTH),
            "{out}"
        );
    }

    #[test]
    fn headlines_are_rows() {
        let figures = parse(FIGURES, "paper.toml").expect("it is right");
        for (id, text) in EXPERIMENTS {
            let file: ExperimentFile = parse(text, id).expect("it is right");
            if let Some(headline) = &file.headline {
                let rows = plan(id, &file, &figures).expect("its figures are there");
                let is_one = |row: &Planned| row.name == *headline || row.file.name == *headline;
                assert!(rows.iter().any(is_one), "{id}: {headline}");
            }
        }
    }
}
