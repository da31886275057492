// SPDX-License-Identifier: Apache-2.0
//! The report as one page of HTML: no script, nothing from elsewhere, light and dark, readable on a phone.

use std::fmt::Write as _;

use rack::platform::Platform;

use super::{FAR_PERCENT, PUBLISHED, Row, Section, spoken};
use crate::text::{escape, thousands};
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

impl Page<'_> {
    /// The whole page.
    pub fn html(&self) -> Result<String, String> {
        let mut out = String::new();
        out += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
        out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
        let _ = writeln!(
            out,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">"
        );
        out += "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n";
        out += "<title>IP-NUMA and FIBNIC: the dissertation run again</title>\n";
        let _ = write!(out, "<style>\n{STYLE}</style>\n</head>\n<body>\n");
        out += "<a class=\"skip\" href=\"#main\">To the figures</a>\n";
        self.head(&mut out);
        out += "<main id=\"main\">\n";
        self.waterfalls(&mut out);
        for ((id, title), sections) in chapters(self.sections) {
            let _ = writeln!(
                out,
                "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>"
            );
            for section in sections {
                article(&mut out, section)?;
            }
            out += "</section>\n";
        }
        out += "</main>\n";
        self.foot(&mut out);
        out += "</body>\n</html>\n";
        Ok(out)
    }

    fn head(&self, out: &mut String) {
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
        out.push_str("<header>\n<h1>IP-NUMA and FIBNIC: the dissertation run again</h1>\n");
        out.push_str(
            "<p class=\"lead\">Every table and figure so far: what the dissertation published, and what this project's \
             network cards and switches give, simulated cycle by cycle in RTL between hosts whose times are published \
             constants. Where the two are far apart, a sentence says why.</p>\n<ul class=\"tiles\">\n",
        );
        for (value, words) in [
            (ran.to_string(), "figures run".to_owned()),
            (
                format!("{near} of {compared}"),
                format!("within {FAR_PERCENT:.0} % of the dissertation"),
            ),
            (not_run.to_string(), "not run, each says why".to_owned()),
            (
                surprises.to_string(),
                "not as the project expects them".to_owned(),
            ),
        ] {
            let _ = writeln!(out, "<li><b>{value}</b><span>{words}</span></li>");
        }
        let _ = writeln!(
            out,
            "</ul>\n<p>Run hash <span class=\"hash\">{}</span>. The same program gives the same hash on every machine, every day.</p>",
            self.hash
        );
        out.push_str("<nav aria-label=\"Tables and figures\">\n");
        if !self.waterfalls.is_empty() {
            out.push_str("<ul><li><a href=\"#waterfall\">One request, taken apart</a></li>\n");
            out.push_str("<li><a href=\"#made\">How this page was made</a></li></ul>\n");
        }
        for ((_, title), sections) in chapters(self.sections) {
            let _ = writeln!(out, "<strong>{title}</strong>\n<ul>");
            for section in sections {
                let _ = writeln!(
                    out,
                    "<li><a href=\"#{}\">{}</a></li>",
                    section.id,
                    spoken(&section.id)
                );
            }
            out.push_str("</ul>\n");
        }
        out.push_str("</nav>\n</header>\n");
    }

    fn waterfalls(&self, out: &mut String) {
        if self.waterfalls.is_empty() {
            return;
        }
        out.push_str("<section aria-labelledby=\"waterfall\">\n<h2 id=\"waterfall\">One request, taken apart</h2>\n");
        out.push_str(
            "<p>A request of four bytes and its answer, from the store of the one program to the moment at which it sees \
             the other's store; then GETs of memcached between Linux hosts, each from its first store, or doorbell of a \
             conventional NIC, to the next one's. What the RTL took is counted in clock cycles; the rest is assumed, from \
             figures that somebody published. Stages that take no time are left out.</p>\n",
        );
        for (number, waterfall) in self.waterfalls.iter().enumerate() {
            one_waterfall(out, waterfall, number);
        }
        out.push_str("</section>\n");
    }

    fn foot(&self, out: &mut String) {
        out.push_str("<footer>\n<section aria-labelledby=\"made\">\n<h2 id=\"made\">How this page was made</h2>\n<article>\n<dl>\n");
        for (name, value) in &self.facts {
            let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        let _ = writeln!(
            out,
            "<dt>Run hash</dt><dd class=\"hash\">{}</dd>\n</dl>",
            self.hash
        );
        let _ = writeln!(
            out,
            "<details open><summary>The constants of the platform {}</summary>\n<p class=\"what\">{}</p>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Constants\"><table id=\"constants\">\n\
             <caption>Everything that is assumed and not simulated.</caption>\n<thead><tr><th scope=\"col\">constant</th>\
             <th scope=\"col\">value</th><th scope=\"col\">source</th></tr></thead>\n<tbody>",
            escape(&self.platform.name),
            escape(&self.platform.title)
        );
        for (key, constant) in self.platform.constants() {
            let value = constant
                .describe()
                .unwrap_or_else(|| "not published".to_owned());
            let source = match constant.source {
                Some(_) => format!("{}: {}", constant.origin_name(), constant.cite()),
                None => String::new(),
            };
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\"><code>{}</code></th><td>{}</td><td class=\"how\">{}</td></tr>",
                escape(key),
                escape(&value),
                escape(&source)
            );
        }
        out.push_str("</tbody></table></div></details>\n</article>\n</section>\n</footer>\n");
    }
}

fn one_waterfall(out: &mut String, waterfall: &Waterfall, number: usize) {
    let total = waterfall.total_ns();
    let share = |ns: f64| 100.0 * ns / total.max(1e-9);
    let _ = writeln!(
        out,
        "<article class=\"waterfall\" id=\"waterfall-{number}\">\n<h3>{}</h3>\n<ul class=\"key\">",
        escape(&waterfall.title)
    );
    for kind in [Kind::Rtl, Kind::Constant, Kind::Cpu] {
        let sum = waterfall.sum_ns(kind);
        if sum > 0.0 {
            let words = match kind {
                Kind::Rtl => "RTL, simulated",
                Kind::Constant => "constants of hosts, PHYs and cables, assumed",
                Kind::Cpu => "CPU costs, assumed",
            };
            let _ = writeln!(
                out,
                "<li><i class=\"{}\"></i>{words}: {} ns, {:.0} %</li>",
                kind.class(),
                thousands((10.0 * sum).round() / 10.0),
                share(sum)
            );
        }
    }
    let _ = writeln!(
        out,
        "</ul>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Stages\"><table>\n<caption>{} stages that touch \
         each other, {} ns from the first to the last.</caption>\n<thead><tr><th scope=\"col\">stage</th><th scope=\"col\" \
         class=\"kind\">from</th><th scope=\"col\" class=\"n\">ns</th><th scope=\"col\" class=\"n\">cycles</th><th \
         scope=\"col\">when</th></tr></thead>\n<tbody>",
        waterfall.stages.len(),
        thousands((10.0 * total).round() / 10.0)
    );
    let mut way = "";
    for stage in &waterfall.stages {
        let now = stage.name.split_once(':').map_or("", |(way, _)| way);
        let turn = if way.is_empty() || way == now {
            ""
        } else {
            " class=\"turn\""
        };
        way = now;
        let cycles = stage.cycles.map_or(String::new(), |cycles| {
            thousands((10.0 * cycles).round() / 10.0)
        });
        let width = share(stage.to_ns - stage.from_ns);
        let _ = writeln!(
            out,
            "<tr{turn}><th scope=\"row\">{}</th><td class=\"kind\"><i class=\"{}\"></i>{}</td><td class=\"n\">{:.1}</td>\
             <td class=\"n\">{cycles}</td><td class=\"bar\"><svg aria-hidden=\"true\"><rect class=\"track\" y=\"45%\" \
             width=\"100%\" height=\"10%\"/><rect class=\"{}\" x=\"{:.3}%\" width=\"{width:.3}%\" height=\"100%\" \
             rx=\"2\"/></svg></td></tr>",
            escape(&stage.name),
            stage.kind.class(),
            stage.kind.name(),
            stage.to_ns - stage.from_ns,
            stage.kind.class(),
            share(stage.from_ns),
        );
    }
    let _ = writeln!(
        out,
        "</tbody>\n<tfoot><tr><th scope=\"row\">there and back</th><td class=\"kind\"></td><td class=\"n\">{total:.1}</td>\
         <td></td><td></td></tr></tfoot>\n</table></div>\n<p class=\"what\">Run hash <span class=\"hash\">{}</span></p>\n</article>",
        waterfall.run_hash
    );
}

/// Remarks of a section, each once, numbered from 1.
#[derive(Default)]
struct Notes<'a>(Vec<&'a str>);

impl<'a> Notes<'a> {
    fn mark(&mut self, id: &str, note: Option<&'a String>) -> String {
        let Some(note) = note else {
            return String::new();
        };
        let known = self.0.iter().position(|known| known == note);
        let number = 1 + known.unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        format!(
            "<sup><a href=\"#{id}-note-{number}\" aria-label=\"note {number}\">{number}</a></sup>"
        )
    }
}

fn article(out: &mut String, section: &Section) -> Result<(), String> {
    let id = &section.id;
    let _ = writeln!(
        out,
        "<article id=\"{id}\">\n<h3><span class=\"id\">{}</span><a href=\"#{id}\">{}</a></h3>\n<p class=\"what\">{}</p>",
        spoken(id),
        escape(&section.title),
        escape(&section.what)
    );
    // What all rows lack is said once.
    let lacking: Vec<_> = section.rows.iter().filter(|row| row.lacks()).collect();
    let once = match lacking.split_first() {
        Some((first, rest)) if !rest.is_empty() && rest.iter().all(|row| row.how == first.how) => {
            Some(&first.how)
        }
        _ => None,
    };
    if let Some(how) = once {
        let _ = writeln!(out, "<p class=\"need\">{}</p>", escape(&capital(how)));
    }
    let mut notes = Notes::default();
    if section.rows.iter().all(|row| row.instance.length.is_some()) {
        matrix(out, section, once, &mut notes);
    } else {
        list(out, section, once, &mut notes);
    }
    if !notes.0.is_empty() {
        out.push_str("<ol class=\"notes\">\n");
        for (number, note) in notes.0.iter().enumerate() {
            let _ = writeln!(
                out,
                "<li id=\"{id}-note-{}\">{}</li>",
                number + 1,
                escape(note)
            );
        }
        out.push_str("</ol>\n");
    }
    for check in &section.checks {
        let (class, word) = match check.holds {
            Some(true) => ("check", "\u{2713} holds"),
            Some(false) => ("check fails", "\u{2717} fails"),
            None => ("check open", "not run"),
        };
        let _ = writeln!(
            out,
            "<p class=\"{class}\"><b>{word}</b>: {}</p>",
            escape(&check.sentence)
        );
        if let Some(why) = &check.why {
            let _ = writeln!(out, "<p class=\"what\">{}</p>", escape(why));
        }
    }
    if let Some(plot) = &section.plot {
        let svg = plot.svg(
            &format!("{id}-plot"),
            &format!("{}: {}", spoken(id), section.title),
            &alternative(section),
        )?;
        let _ = writeln!(
            out,
            "<figure><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Plot of {}\">{svg}</div>\
             <figcaption>{}</figcaption></figure>",
            spoken(id),
            match plot {
                crate::plot::Plot::Curves { .. } =>
                    "Dashed lines are computed from what the dissertation published, full ones from what was run.",
                _ => "The figures of the table above.",
            }
        );
    }
    if let Some(note) = &section.note {
        let _ = writeln!(out, "<p class=\"remarks\">{}</p>", escape(note));
    }
    out.push_str("</article>\n");
    Ok(())
}

/// A row for each figure.
fn list<'a>(out: &mut String, section: &'a Section, once: Option<&String>, notes: &mut Notes<'a>) {
    let id = &section.id;
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<caption>{}: the dissertation's figures \
         and those of this run.</caption>\n<thead><tr><th scope=\"col\"></th><th scope=\"col\" class=\"n\">dissertation</th>\
         <th scope=\"col\" class=\"n\">as run</th><th scope=\"col\">unit</th><th scope=\"col\" class=\"n\">difference</th>\
         <th scope=\"col\">how</th></tr></thead>\n<tbody>",
        spoken(id),
        spoken(id)
    );
    for row in &section.rows {
        table_row(out, id, row, once, notes);
    }
    out.push_str("</tbody></table></div>\n");
}

/// A row for each arrangement, a column for each length of a value.
fn matrix<'a>(
    out: &mut String,
    section: &'a Section,
    once: Option<&String>,
    notes: &mut Notes<'a>,
) {
    let id = &section.id;
    let unit = section.rows.first().map_or("", |row| &row.unit);
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"matrix\">\n<caption>{}, {}, by \
         bytes of a value: as run, below it the dissertation's figure and the difference.</caption>\n<thead><tr>\
         <th scope=\"col\"></th>",
        spoken(id),
        spoken(id),
        escape(unit)
    );
    for length in super::file::LENGTHS {
        let _ = write!(out, "<th scope=\"col\" class=\"n\">{length} B</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut stem = None;
    for row in &section.rows {
        if stem != Some(&row.stem) {
            let end = if stem.is_some() { "</tr>\n" } else { "" };
            let note = notes.mark(id, row.note.as_ref());
            let _ = write!(
                out,
                "{end}<tr><th scope=\"row\">{}{note}</th>",
                escape(&row.stem)
            );
            stem = Some(&row.stem);
        }
        let (ours, difference) = cells(id, row, notes);
        let paper = row.paper.map_or("\u{2013}".to_owned(), thousands);
        let reason = if row.lacks() && once.is_none() {
            format!("<small class=\"how\">{}</small>", escape(&row.how))
        } else {
            String::new()
        };
        let _ = write!(
            out,
            "<td class=\"n{}\"><b>{ours}</b><small>{paper}</small><small>{difference}</small>{reason}</td>",
            if row.is_far() { " far" } else { "" }
        );
    }
    out.push_str("</tr>\n</tbody></table></div>\n");
}

/// Our figure and the difference, with the note that explains it.
fn cells<'a>(id: &str, row: &'a Row, notes: &mut Notes<'a>) -> (String, String) {
    let difference = match (row.difference_percent, row.ours.zip(row.paper)) {
        (Some(percent), _) if percent.abs() < 0.05 => "0.0 %".to_owned(),
        (Some(percent), _) => format!(
            "{}{:.1} %",
            if percent < 0.0 { "\u{2212}" } else { "+" },
            percent.abs()
        ),
        (None, Some((ours, paper))) if ours == paper => "0".to_owned(),
        (None, Some((ours, paper))) => {
            let sign = if ours < paper { "\u{2212}" } else { "+" };
            format!("{sign}{}", thousands((ours - paper).abs()))
        }
        (None, None) => String::new(),
    };
    let why = if row.is_far() {
        notes.mark(id, row.why.as_ref())
    } else {
        String::new()
    };
    let ours = match row.ours {
        Some(value) if row.as_expected == Some(false) => {
            format!(
                "<span class=\"wrong\">{} (not as expected)</span>",
                thousands(value)
            )
        }
        Some(value) => thousands(value),
        None if row.lacks() => "<span class=\"absent\">not run</span>".to_owned(),
        None => "\u{2013}".to_owned(),
    };
    (ours, difference + &why)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        let end = if text.ends_with('.') { "" } else { "." };
        first.to_uppercase().collect::<String>() + letters.as_str() + end
    })
}

fn table_row<'a>(
    out: &mut String,
    id: &str,
    row: &'a Row,
    once: Option<&String>,
    notes: &mut Notes<'a>,
) {
    let note = notes.mark(id, row.note.as_ref());
    let (ours, difference) = cells(id, row, notes);
    let how = if once.is_some_and(|how| row.lacks() && *how == row.how) {
        ""
    } else {
        &row.how
    };
    let _ = writeln!(
        out,
        "<tr><th scope=\"row\">{}{note}</th><td class=\"n\">{}</td><td class=\"n ours\">{ours}</td><td class=\"unit\">{}</td>\
         <td class=\"n{}\">{difference}</td><td class=\"how\">{}</td></tr>",
        escape(&row.name),
        row.paper.map_or("\u{2013}".to_owned(), thousands),
        escape(&row.unit),
        if row.is_far() { " far" } else { "" },
        escape(how)
    );
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
    use super::*;

    #[test]
    fn names_of_sections() {
        assert_eq!(spoken("table-3.4"), "Table 3.4");
        assert_eq!(spoken("incast"), "Incast");
        assert_eq!(chapter("figure-6.17").0, "chapter-6");
        assert_eq!(chapter("congestion").0, "chapter-5");
        assert_eq!(chapter("resend").0, "beyond");
    }
}
