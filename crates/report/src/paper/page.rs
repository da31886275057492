// SPDX-License-Identifier: Apache-2.0
//! The report as one page of HTML: no script, nothing from elsewhere, light and dark, readable on a phone.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use rack::platform::Platform;

use super::{FAR_PERCENT, PUBLISHED, Row, Section, spoken};
use crate::plot::Plot;
use crate::text::thousands;
use crate::waterfall::{Kind, Waterfall};

/// What the page says.
pub struct Page<'a> {
    /// Tables and figures in order.
    pub sections: &'a [Section],
    /// Requests taken apart.
    pub waterfalls: &'a [Waterfall],
    /// What it was made from, and how.
    pub facts: Vec<(&'static str, String)>,
    /// Everything that is assumed.
    pub platform: &'a Platform,
    /// SHA-256 over all figures and the hashes of their runs.
    pub hash: &'a str,
}

const TITLE: &str = "IP-NUMA and FIBNIC: the dissertation run again";
const STYLE: &str = include_str!("page.css");
/// Nothing may be loaded, whatever the page contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Where a table or figure belongs.
fn chapter(id: &str) -> (&'static str, &'static str) {
    let number = id.split_once('-').map(|(_, number)| number.chars().next());
    match (id, number.flatten()) {
        (id, _) if id.starts_with("hitachi-") => {
            ("hitachi", "Hitachi's parallel TCP offload engine")
        }
        (_, Some('1')) => ("chapter-1", "Chapter 1: what is at stake"),
        (_, Some('3')) => ("chapter-3", "Chapter 3: between CPU and NIC"),
        (_, Some('4')) => ("chapter-4", "Chapter 4: from PC to PC"),
        (_, Some('5')) | ("congestion", _) => ("chapter-5", "Chapter 5: the switch"),
        (_, Some('6')) => ("chapter-6", "Chapter 6: memcached, the whole system"),
        _ => ("beyond", "Beyond the dissertation"),
    }
}

/// Sections by chapter, chapters in order.
fn chapters(sections: &[Section]) -> Vec<((&'static str, &'static str), Vec<&Section>)> {
    let mut found: Vec<((&'static str, &'static str), Vec<&Section>)> = Vec::new();
    for section in sections {
        let chapter = chapter(&section.id);
        match found.iter_mut().find(|(known, _)| *known == chapter) {
            Some((_, all)) => all.push(section),
            None => found.push((chapter, vec![section])),
        }
    }
    found.sort_by_key(|((id, _), _)| (*id == "beyond", *id));
    found
}

/// What stands where there is no figure.
const DASH: &str = "\u{2013}";

impl Page<'_> {
    /// The whole page.
    pub fn html(&self) -> Result<String, String> {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="color-scheme" content="light dark";
                    link rel="icon" href="data:,";
                    title { (TITLE) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#main" { "To the figures" }
                    header { (self.head()) }
                    main id="main" {
                        (self.waterfalls())
                        @for ((id, title), sections) in chapters(self.sections) {
                            section aria-labelledby=(id) {
                                h2 id=(id) { (title) }
                                @for section in sections { (article(section)?) }
                            }
                        }
                    }
                    footer { (self.foot()) }
                }
            }
        };
        Ok(page.into_string() + "\n")
    }

    fn head(&self) -> Markup {
        html! {
            h1 { (TITLE) }
            p.lead {
                "Every table and figure so far: what the dissertation published, and what this project's network cards and \
                 switches give, simulated cycle by cycle in RTL between hosts whose times are published constants. Where the \
                 two are far apart, a sentence says why."
            }
            (self.tiles())
            p {
                "Run hash " span.hash { (self.hash) }
                ". The same program gives the same hash on every machine, every day."
            }
            nav aria-label="Tables and figures" {
                @if !self.waterfalls.is_empty() {
                    ul {
                        li { a href="#waterfall" { "One request, taken apart" } }
                        li { a href="#made" { "How this page was made" } }
                    }
                }
                @for ((_, title), sections) in chapters(self.sections) {
                    strong { (title) }
                    ul {
                        @for section in sections {
                            li { a href={ "#" (section.id) } { (spoken(&section.id)) } }
                        }
                    }
                }
            }
        }
    }

    /// The page in four numbers.
    fn tiles(&self) -> Markup {
        let rows = || self.sections.iter().flat_map(|section| &section.rows);
        let ran = rows().filter(|row| row.ours.is_some()).count();
        let near = rows()
            .filter_map(|row| row.difference_percent)
            .filter(|percent| percent.abs() <= FAR_PERCENT)
            .count();
        let compared = rows()
            .filter(|row| row.difference_percent.is_some())
            .count();
        let not_run = rows()
            .filter(|row| row.ours.is_none() && row.how != PUBLISHED)
            .count();
        let surprises = rows().filter(|row| row.as_expected == Some(false)).count();
        html! {
            ul.tiles {
                li { b { (ran) } span { "figures run" } }
                li {
                    b { (near) " of " (compared) }
                    span { "within " (format!("{FAR_PERCENT:.0}")) " % of the dissertation" }
                }
                li { b { (not_run) } span { "not run, each says why" } }
                li { b { (surprises) } span { "not as the project expects them" } }
            }
        }
    }

    fn waterfalls(&self) -> Markup {
        if self.waterfalls.is_empty() {
            return Markup::default();
        }
        html! {
            section aria-labelledby="waterfall" {
                h2 id="waterfall" { "One request, taken apart" }
                p {
                    "A request of four bytes and its answer, from the store of the one program to the moment at which it sees \
                     the other's store; then GETs of memcached between Linux hosts, each from its first store, or doorbell of a \
                     conventional NIC, to the next one's. What the RTL took is counted in clock cycles; the rest is assumed, \
                     from figures that somebody published. Stages that take no time are left out."
                }
                @for (number, waterfall) in self.waterfalls.iter().enumerate() {
                    (one_waterfall(waterfall, number))
                }
            }
        }
    }

    fn foot(&self) -> Markup {
        html! {
            section aria-labelledby="made" {
                h2 id="made" { "How this page was made" }
                article {
                    dl {
                        @for (name, value) in &self.facts {
                            dt { (name) } dd { (value) }
                        }
                        dt { "Run hash" } dd.hash { (self.hash) }
                    }
                    details open {
                        summary { "The constants of the platform " (self.platform.name) }
                        p.what { (self.platform.title) }
                        (scrolled("Constants", self.constants()))
                    }
                }
            }
        }
    }

    fn constants(&self) -> Markup {
        html! {
            table id="constants" {
                caption { "Everything that is assumed and not simulated." }
                thead {
                    tr {
                        th scope="col" { "constant" }
                        th scope="col" { "value" }
                        th scope="col" { "source" }
                    }
                }
                tbody {
                    @for (key, constant) in self.platform.constants() {
                        tr {
                            th scope="row" { code { (key) } }
                            td { (constant.describe().unwrap_or_else(|| "not published".to_owned())) }
                            td.how {
                                @if constant.source.is_some() {
                                    (constant.origin_name()) ": " (constant.cite())
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What may be wider than the screen; `label` is for those who do not see it.
fn scrolled(label: &str, content: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) { (content) }
    }
}

/// Nanoseconds with one digit at most.
fn tenths(value: f64) -> String {
    thousands((10.0 * value).round() / 10.0)
}

fn one_waterfall(waterfall: &Waterfall, number: usize) -> Markup {
    let total = waterfall.total_ns();
    let percent = |ns: f64| 100.0 * ns / total.max(1e-9);
    html! {
        article.waterfall id={ "waterfall-" (number) } {
            h3 { (waterfall.title) }
            ul.key {
                @for (kind, words) in [
                    (Kind::Rtl, "RTL, simulated"),
                    (Kind::Constant, "constants of hosts, PHYs and cables, assumed"),
                    (Kind::Cpu, "CPU costs, assumed"),
                ] {
                    @let sum = waterfall.sum_ns(kind);
                    @if sum > 0.0 {
                        li {
                            i class=(kind.class()) {}
                            (words) ": " (tenths(sum)) " ns, " (format!("{:.0}", percent(sum))) " %"
                        }
                    }
                }
            }
            (scrolled("Stages", stages(waterfall, percent)))
            p.what { "Run hash " span.hash { (waterfall.run_hash) } }
        }
    }
}

/// The stages, each with a bar from its begin to its end; `percent` says what part of the whole a time is.
fn stages(waterfall: &Waterfall, percent: impl Fn(f64) -> f64) -> Markup {
    let way = |name: &str| name.split_once(':').map_or("", |(way, _)| way).to_owned();
    let ways: Vec<_> = waterfall
        .stages
        .iter()
        .map(|stage| way(&stage.name))
        .collect();
    let total = waterfall.total_ns();
    html! {
        table {
            caption {
                (waterfall.stages.len()) " stages that touch each other, " (tenths(total)) " ns from the first to the last."
            }
            thead {
                tr {
                    th scope="col" { "stage" }
                    th.kind scope="col" { "from" }
                    th.n scope="col" { "ns" }
                    th.n scope="col" { "cycles" }
                    th scope="col" { "when" }
                }
            }
            tbody {
                @for (number, stage) in waterfall.stages.iter().enumerate() {
                    @let before = number.checked_sub(1).map_or("", |before| &ways[before]);
                    @let turns = !before.is_empty() && before != ways[number];
                    @let (class, ns) = (stage.kind.class(), stage.to_ns - stage.from_ns);
                    tr class=[turns.then_some("turn")] {
                        th scope="row" { (stage.name) }
                        td.kind { i class=(class) {} (stage.kind.name()) }
                        td.n { (format!("{ns:.1}")) }
                        td.n { (stage.cycles.map_or_else(String::new, tenths)) }
                        td.bar {
                            svg aria-hidden="true" {
                                rect.track y="45%" width="100%" height="10%" {}
                                rect class=(class) x=(format!("{:.3}%", percent(stage.from_ns)))
                                    width=(format!("{:.3}%", percent(ns))) height="100%" rx="2" {}
                            }
                        }
                    }
                }
            }
            tfoot {
                tr {
                    th scope="row" { "there and back" }
                    td.kind {}
                    td.n { (format!("{total:.1}")) }
                    td {}
                    td {}
                }
            }
        }
    }
}

/// Remarks of a section, each once, numbered from 1.
#[derive(Default)]
struct Notes<'a>(Vec<&'a str>);

impl<'a> Notes<'a> {
    fn mark(&mut self, id: &str, note: Option<&'a String>) -> Markup {
        let Some(note) = note else {
            return Markup::default();
        };
        let known = self.0.iter().position(|known| known == note);
        let number = 1 + known.unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        html! {
            sup { a href={ "#" (id) "-note-" (number) } aria-label={ "note " (number) } { (number) } }
        }
    }
}

fn article(section: &Section) -> Result<Markup, String> {
    let id = &section.id;
    // What all rows lack is said once.
    let lacking: Vec<_> = section.rows.iter().filter(|row| row.lacks()).collect();
    let once = match lacking.split_first() {
        Some((first, rest)) if !rest.is_empty() && rest.iter().all(|row| row.how == first.how) => {
            Some(&first.how)
        }
        _ => None,
    };
    let mut notes = Notes::default();
    let table = if section.rows.iter().all(|row| row.instance.length.is_some()) {
        matrix(section, once, &mut notes)
    } else {
        list(section, once, &mut notes)
    };
    Ok(html! {
        article id=(id) {
            h3 {
                span.id { (spoken(id)) }
                a href={ "#" (id) } { (section.title) }
            }
            p.what { (section.what) }
            @if let Some(how) = once { p.need { (capital(how)) } }
            (scrolled(&spoken(id), table))
            @if !notes.0.is_empty() {
                ol.notes {
                    @for (number, note) in (1..).zip(&notes.0) {
                        li id={ (id) "-note-" (number) } { (note) }
                    }
                }
            }
            @for check in &section.checks {
                @let (class, word) = match check.holds {
                    Some(true) => ("check", "\u{2713} holds"),
                    Some(false) => ("check fails", "\u{2717} fails"),
                    None => ("check open", "not run"),
                };
                p class=(class) { b { (word) } ": " (check.sentence) }
                @if let Some(why) = &check.why { p.what { (why) } }
            }
            @if let Some(plot) = &section.plot { (figure(section, plot)?) }
            @if let Some(note) = &section.note { p.remarks { (note) } }
        }
    })
}

fn figure(section: &Section, plot: &Plot) -> Result<Markup, String> {
    let id = &section.id;
    let svg = plot.svg(
        &format!("{id}-plot"),
        &format!("{}: {}", spoken(id), section.title),
        &alternative(section),
    )?;
    let caption = match plot {
        Plot::Curves { .. } => {
            "Dashed lines are computed from what the dissertation published, full ones from what was run."
        }
        _ => "The figures of the table above.",
    };
    Ok(html! {
        figure {
            (scrolled(&format!("Plot of {}", spoken(id)), PreEscaped(svg)))
            figcaption { (caption) }
        }
    })
}

/// A row for each figure.
fn list<'a>(section: &'a Section, once: Option<&String>, notes: &mut Notes<'a>) -> Markup {
    let id = &section.id;
    html! {
        table {
            caption { (spoken(id)) ": the dissertation's figures and those of this run." }
            thead {
                tr {
                    th scope="col" {}
                    th.n scope="col" { "dissertation" }
                    th.n scope="col" { "as run" }
                    th scope="col" { "unit" }
                    th.n scope="col" { "difference" }
                    th scope="col" { "how" }
                }
            }
            tbody {
                @for row in &section.rows {
                    tr {
                        th scope="row" { (row.name) (notes.mark(id, row.note.as_ref())) }
                        td.n { (published(row)) }
                        td.n.ours { (ours(row)) }
                        td.unit { (row.unit) }
                        td.n.far[row.is_far()] { (difference(row)) (explained(id, row, notes)) }
                        td.how { @if !(row.lacks() && once == Some(&row.how)) { (row.how) } }
                    }
                }
            }
        }
    }
}

/// A row for each arrangement, a column for each length of a value.
fn matrix<'a>(section: &'a Section, once: Option<&String>, notes: &mut Notes<'a>) -> Markup {
    let id = &section.id;
    let unit = section.rows.first().map_or("", |row| &row.unit);
    html! {
        table.matrix {
            caption {
                (spoken(id)) ", " (unit)
                ", by bytes of a value: as run, below it the dissertation's figure and the difference."
            }
            thead {
                tr {
                    th scope="col" {}
                    @for length in super::file::LENGTHS { th.n scope="col" { (length) " B" } }
                }
            }
            tbody {
                @for rows in section.rows.chunk_by(|row, next| row.stem == next.stem) {
                    tr {
                        th scope="row" { (rows[0].stem) (notes.mark(id, rows[0].note.as_ref())) }
                        @for row in rows {
                            td.n.far[row.is_far()] {
                                b { (ours(row)) }
                                small { (published(row)) }
                                small { (difference(row)) (explained(id, row, notes)) }
                                @if row.lacks() && once.is_none() { small.how { (row.how) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The dissertation's figure.
fn published(row: &Row) -> String {
    row.paper.map_or_else(|| DASH.to_owned(), thousands)
}

fn ours(row: &Row) -> Markup {
    html! {
        @match row.ours {
            Some(value) if row.as_expected == Some(false) => {
                span.wrong { (thousands(value)) " (not as expected)" }
            }
            Some(value) => (thousands(value)),
            None if row.lacks() => span.absent { "not run" },
            None => (DASH),
        }
    }
}

fn difference(row: &Row) -> String {
    let sign = |negative: bool| if negative { "\u{2212}" } else { "+" };
    match (row.difference_percent, row.ours.zip(row.paper)) {
        (Some(percent), _) if percent.abs() < 0.05 => "0.0 %".to_owned(),
        (Some(percent), _) => format!("{}{:.1} %", sign(percent < 0.0), percent.abs()),
        (None, Some((ours, paper))) if ours == paper => "0".to_owned(),
        (None, Some((ours, paper))) => {
            let apart = thousands((ours - paper).abs());
            format!("{}{apart}", sign(ours < paper))
        }
        (None, None) => String::new(),
    }
}

/// The note that explains a difference.
fn explained<'a>(id: &str, row: &'a Row, notes: &mut Notes<'a>) -> Markup {
    let why = row.why.as_ref().filter(|_| row.is_far());
    notes.mark(id, why)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        let end = if text.ends_with('.') { "" } else { "." };
        first.to_uppercase().collect::<String>() + letters.as_str() + end
    })
}

/// What a drawing shows, for those who do not see it.
fn alternative(section: &Section) -> String {
    let mut rows = Vec::new();
    for row in &section.rows {
        let ours = row.ours.map_or("not run".to_owned(), thousands);
        let paper = row.paper.map_or("not published".to_owned(), thousands);
        rows.push(format!(
            "{}: dissertation {paper}, as run {ours} {}",
            row.name, row.unit
        ));
    }
    rows.join("; ") + "."
}

#[cfg(test)]
mod tests {
    use super::super::file::Instance;
    use super::super::{Check, draw};
    use super::*;

    #[test]
    fn names_of_sections() {
        assert_eq!(spoken("table-3.4"), "Table 3.4");
        assert_eq!(spoken("incast"), "Incast");
        assert_eq!(chapter("figure-6.17").0, "chapter-6");
        assert_eq!(chapter("congestion").0, "chapter-5");
        assert_eq!(chapter("resend").0, "beyond");
    }

    /// What files say is text, wherever it stands on the page.
    #[test]
    fn words_of_files_are_escaped() {
        let words = || "<x a=\"y\">&".to_owned();
        let row = |length| Row {
            name: words(),
            place: None,
            unit: words(),
            paper: Some(1.0),
            ours: None,
            difference_percent: Some(99.0),
            how: words(),
            expected: None,
            as_expected: None,
            note: Some(words()),
            why: Some(words() + "."),
            run_hash: None,
            rtl_percent: None,
            instance: Instance {
                length,
                ..Instance::default()
            },
            stem: words(),
        };
        // A list and a matrix.
        for length in [None, Some(16)] {
            let section = Section {
                id: "table-3.4".to_owned(),
                title: words(),
                what: words(),
                note: Some(words()),
                rows: vec![row(length)],
                checks: vec![Check {
                    sentence: words(),
                    holds: Some(false),
                    why: Some(words()),
                }],
                headline: None,
                plot: draw::bars([row(length), row(length)].iter()),
            };
            let html = article(&section).expect("it is written").into_string();
            assert!(!html.contains("<x") && !html.contains("\"y\""), "{html}");
            let escaped = html.matches("&lt;x a=&quot;y&quot;&gt;&amp;").count();
            // Title, what, note, name, unit, how, two remarks, check and why; and title and rows of the drawing.
            assert!(escaped >= 12, "{escaped} in {html}");
        }
    }
}
