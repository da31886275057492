// SPDX-License-Identifier: Apache-2.0
//! Drawings of the report: SVG without colours of its own, which the page's style sheet gives, for light and dark. Those in
//! files of their own are in `drawing`.

mod canvas;
pub(crate) mod drawing;

use maud::{PreEscaped, html};
use plotters::coord::ranged1d::{KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use self::canvas::{Area, Axes, Axis, Chart, Fault, Numbers, dots, letters, line};

/// Width of every drawing; the page scales it.
const WIDTH: i32 = 760;
const TEXT: i32 = 14;

/// What a colour is for; [`themed`] puts the style sheet's name in its place.
const PALETTE: [(RGBColor, &str); 10] = [
    (INK, "--ink"),
    (MUTED, "--muted"),
    (GRID, "--grid"),
    (PAPER, "--paper"),
    (SERIES[0], "--c1"),
    (SERIES[1], "--c2"),
    (SERIES[2], "--c3"),
    (SERIES[3], "--c4"),
    (SERIES[4], "--c5"),
    (GROUND, "--ground"),
];
const INK: RGBColor = RGBColor(1, 0, 0);
const MUTED: RGBColor = RGBColor(2, 0, 0);
const GRID: RGBColor = RGBColor(3, 0, 0);
const PAPER: RGBColor = RGBColor(4, 0, 0);
const GROUND: RGBColor = RGBColor(5, 0, 0);
const SERIES: [RGBColor; 5] = [
    RGBColor(11, 0, 0),
    RGBColor(12, 0, 0),
    RGBColor(13, 0, 0),
    RGBColor(14, 0, 0),
    RGBColor(15, 0, 0),
];

/// A value of the paper beside ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    /// As published.
    pub paper: Option<f64>,
    /// As run.
    pub ours: Option<f64>,
}

/// Points of one kind, a pair for each category or place on the x axis.
#[derive(Clone, Debug)]
pub struct Series {
    /// In the key.
    pub name: String,
    /// In order.
    pub pairs: Vec<Pair>,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub enum Plot {
    /// A pair of horizontal bars for each name.
    Bars {
        /// Names and their pairs.
        rows: Vec<(String, Pair)>,
        /// Under the bars.
        unit: String,
    },
    /// Bars made of parts, for each name one of the paper and one of ours.
    Stacks {
        /// Names of the bars.
        rows: Vec<String>,
        /// The parts.
        parts: Vec<Series>,
        /// Under the bars.
        unit: String,
    },
    /// Lines over categories.
    Lines {
        /// On the x axis.
        categories: Vec<String>,
        /// What they are.
        x: String,
        /// What the values are.
        y: String,
        /// The lines.
        series: Vec<Series>,
        /// Whether the y axis is logarithmic.
        log: bool,
    },
    /// Lines over numbers; only what is there is drawn.
    Curves {
        /// What the numbers are.
        x: String,
        /// What the values are.
        y: String,
        /// The lines.
        curves: Vec<Curve>,
    },
}

/// Name, points, whether it is the paper's.
pub type Curve = (String, Vec<(f64, f64)>, bool);

impl Plot {
    /// As SVG; `title` and `description` are for those who do not see it.
    pub fn svg(&self, id: &str, title: &str, description: &str) -> Result<String, String> {
        let height = self.height();
        let text = canvas::svg((WIDTH as u32, height as u32), |area| self.draw(area))
            .map_err(|error| error.to_string())?;
        Ok(themed(&text, id, title, description, height))
    }

    fn height(&self) -> i32 {
        match self {
            Self::Bars { rows, .. } => BAR_TOP + rows.len() as i32 * PAIR_STEP + BAR_BOTTOM,
            Self::Stacks { rows, .. } => {
                BAR_TOP + STACK_KEY + rows.len() as i32 * (PAIR_STEP + 8) + BAR_BOTTOM
            }
            Self::Lines { .. } | Self::Curves { .. } => 400,
        }
    }

    fn draw(&self, area: &Area) -> Result<(), Fault> {
        match self {
            Self::Bars { rows, unit } => bars(area, rows, unit),
            Self::Stacks { rows, parts, unit } => stacks(area, rows, parts, unit),
            Self::Lines {
                categories,
                x,
                y,
                series,
                log,
            } => lines(area, categories, (x, y), series, *log),
            Self::Curves { x, y, curves } => chart_of_curves(area, (x, y), curves),
        }
    }
}

/// Names the drawing, makes it scale, and takes the place-holders' colours for the style sheet's.
fn themed(svg: &str, id: &str, title: &str, description: &str, height: i32) -> String {
    let inside = svg.split_once('>').map_or("", |(_, inside)| inside);
    let inside = inside.trim_end().trim_end_matches("</svg>");
    let named = html! {
        svg.plot viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
            title id={ (id) "-t" } { (title) }
            desc id={ (id) "-d" } { (description) }
            (PreEscaped(inside))
        }
    };
    let mut out = named.into_string();
    for (RGBColor(r, g, b), name) in PALETTE {
        out = out.replace(
            &format!("\"#{r:02X}{g:02X}{b:02X}\""),
            &format!("\"var({name})\""),
        );
    }
    out.replace(" font-family=\"sans-serif\"", "")
}

fn at(h: HPos, v: VPos) -> Pos {
    Pos::new(h, v)
}

fn style(colour: RGBColor, pos: Pos) -> TextStyle<'static> {
    letters(TEXT, colour).pos(pos)
}

const BAR_TOP: i32 = 34;
const BAR_BOTTOM: i32 = 40;
const PAIR_STEP: i32 = 42;
const BAR: i32 = 14;
const LEFT: i32 = 210;
/// Room for the value behind a bar.
const RIGHT: i32 = 90;
const STACK_KEY: i32 = 24;

/// A round number that is not smaller, and the steps to it.
fn ceiling(most: f64) -> (f64, f64) {
    if most <= 0.0 {
        return (1.0, 1.0);
    }
    let mut best = f64::MAX;
    for steps in [1.0, 2.0, 2.5, 5.0] {
        let power = 10f64.powf((most / steps / 5.0).log10().ceil());
        for unit in [power / 10.0, power] {
            let step = unit * steps;
            if most / step <= 6.0 && step < best {
                best = step;
            }
        }
    }
    ((most / best).ceil() * best, best)
}

fn label(value: f64) -> String {
    crate::text::thousands(value)
}

/// A filled or (the paper's) pale box.
fn bar(
    area: &Area,
    (x0, x1): (i32, i32),
    y: i32,
    colour: RGBColor,
    paper: bool,
) -> Result<(), Fault> {
    let corners = [(x0, y), (x1.max(x0 + 1), y + BAR)];
    area.draw(&Rectangle::new(
        corners,
        if paper {
            colour.mix(0.35).filled()
        } else {
            colour.filled()
        },
    ))?;
    if paper {
        area.draw(&Rectangle::new(corners, colour.stroke_width(1)))?;
    }
    Ok(())
}

/// A key: boxes with words, from left to right.
fn key(area: &Area, y: i32, entries: &[(&str, RGBColor, bool)]) -> Result<(), Fault> {
    let mut x = LEFT;
    for (name, colour, paper) in entries {
        bar(area, (x, x + 18), y - BAR / 2, *colour, *paper)?;
        area.draw(&Text::new(
            (*name).to_owned(),
            (x + 25, y),
            style(INK, at(HPos::Left, VPos::Center)),
        ))?;
        x += 25 + 8 * name.chars().count() as i32 + 26;
    }
    Ok(())
}

/// Vertical lines with numbers, for bars that begin at the left.
fn scale(area: &Area, (top, bottom): (i32, i32), most: f64, unit: &str) -> Result<f64, Fault> {
    let (end, step) = ceiling(most);
    let per = f64::from(WIDTH - LEFT - RIGHT) / end;
    let steps = (end / step).round() as i32;
    for number in 0..=steps {
        let value = f64::from(number) * step;
        let x = LEFT + (value * per) as i32;
        area.draw(&PathElement::new(
            [(x, top), (x, bottom)],
            GRID.stroke_width(1),
        ))?;
        let words = if number == steps {
            format!("{} {unit}", label(value))
        } else {
            label(value)
        };
        area.draw(&Text::new(
            words,
            (x, bottom + 8),
            style(MUTED, at(HPos::Center, VPos::Top)),
        ))?;
    }
    Ok(per)
}

fn bars(area: &Area, rows: &[(String, Pair)], unit: &str) -> Result<(), Fault> {
    let values = rows
        .iter()
        .flat_map(|(_, pair)| [pair.paper, pair.ours])
        .flatten();
    let bottom = BAR_TOP + rows.len() as i32 * PAIR_STEP;
    let per = scale(
        area,
        (BAR_TOP - 4, bottom),
        values.fold(0.0, f64::max),
        unit,
    )?;
    key(
        area,
        14,
        &[("dissertation", PAPER, true), ("as run", SERIES[0], false)],
    )?;
    for (number, (name, pair)) in rows.iter().enumerate() {
        let y = BAR_TOP + number as i32 * PAIR_STEP + 4;
        area.draw(&Text::new(
            name.clone(),
            (LEFT - 12, y + BAR + 1),
            style(INK, at(HPos::Right, VPos::Center)),
        ))?;
        for (value, y, colour, paper) in [
            (pair.paper, y, PAPER, true),
            (pair.ours, y + BAR + 2, SERIES[0], false),
        ] {
            let Some(value) = value else { continue };
            let x = LEFT + (value * per) as i32;
            bar(area, (LEFT, x), y, colour, paper)?;
            area.draw(&Text::new(
                label(value),
                (x + 7, y + BAR / 2),
                style(
                    if paper { MUTED } else { INK },
                    at(HPos::Left, VPos::Center),
                ),
            ))?;
        }
    }
    Ok(())
}

fn stacks(area: &Area, rows: &[String], parts: &[Series], unit: &str) -> Result<(), Fault> {
    let value = |part: &Series, row: usize, paper: bool| {
        let pair = part.pairs.get(row).copied().unwrap_or_default();
        if paper { pair.paper } else { pair.ours }
    };
    let total = |row: usize, paper: bool| -> f64 {
        parts
            .iter()
            .filter_map(|part| value(part, row, paper))
            .sum()
    };
    let totals = (0..rows.len()).flat_map(|row| [total(row, true), total(row, false)]);
    let top = BAR_TOP + STACK_KEY;
    let step = PAIR_STEP + 8;
    let bottom = top + rows.len() as i32 * step;
    let per = scale(area, (top - 4, bottom), totals.fold(0.0, f64::max), unit)?;
    let names: Vec<_> = parts
        .iter()
        .zip(SERIES)
        .map(|(part, colour)| (part.name.as_str(), colour, false))
        .collect();
    key(area, 14, &names)?;
    key(
        area,
        38,
        &[
            ("dissertation (pale)", PAPER, true),
            ("as run (full)", MUTED, false),
        ],
    )?;
    for (row, name) in rows.iter().enumerate() {
        let y = top + row as i32 * step + 6;
        area.draw(&Text::new(
            name.clone(),
            (LEFT - 12, y + BAR + 1),
            style(INK, at(HPos::Right, VPos::Center)),
        ))?;
        for (paper, y) in [(true, y), (false, y + BAR + 3)] {
            let mut from = 0.0;
            for (part, colour) in parts.iter().zip(SERIES) {
                let Some(value) = value(part, row, paper) else {
                    continue;
                };
                let ends = [from, from + value].map(|x| LEFT + (x * per) as i32);
                bar(area, (ends[0], ends[1]), y, colour, paper)?;
                from += value;
            }
            if from > 0.0 {
                area.draw(&Text::new(
                    label(from),
                    (LEFT + (from * per) as i32 + 7, y + BAR / 2),
                    style(
                        if paper { MUTED } else { INK },
                        at(HPos::Left, VPos::Center),
                    ),
                ))?;
            }
        }
    }
    Ok(())
}

/// Dashes of the paper's lines: length and gap.
const DASHES: (i32, i32) = (6, 4);
const DOT: i32 = 4;

fn lines(
    area: &Area,
    categories: &[String],
    (x, y): (&str, &str),
    series: &[Series],
    log: bool,
) -> Result<(), Fault> {
    let values = series
        .iter()
        .flat_map(|series| &series.pairs)
        .flat_map(|pair| [pair.paper, pair.ours])
        .flatten();
    let (least, most) = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
    let last = categories.len().saturating_sub(1) as f64;
    let xs = -0.3..last + 0.3;
    let name = |x: &f64| {
        categories
            .get(x.round() as usize)
            .cloned()
            .unwrap_or_default()
    };
    let names: Vec<_> = series.iter().map(|series| series.name.as_str()).collect();
    let mut axes = axes((x, y), names.len());
    axes.x.written = Some(&name);
    // Plotters wants a label for each category, and none between.
    axes.x.count = Some(categories.len());
    if log {
        let from = 10f64.powf(least.log10().floor());
        let ys = (from..most * 1.2).log_scale();
        lines_of(&mut axes.draw(area, Whole(xs), ys)?, series)?;
    } else {
        lines_of(
            &mut axes.draw(area, Whole(xs), 0.0..ceiling(most).0)?,
            series,
        )?;
    }
    line_key(area, &names)
}

/// Draws a dashed and a full line for each series, with dots.
fn lines_of<X: Numbers, Y: Numbers>(
    chart: &mut Chart<X, Y>,
    series: &[Series],
) -> Result<(), Fault> {
    for (series, colour) in series.iter().zip(SERIES.iter().cycle()) {
        let points = |value: fn(&Pair) -> Option<f64>| {
            let points = series.pairs.iter().enumerate();
            points
                .filter_map(|(number, pair)| Some((number as f64, value(pair)?)))
                .collect::<Vec<_>>()
        };
        let paper = points(|pair| pair.paper);
        let around = colour.stroke_width(2);
        line(chart, &paper, around, Some(DASHES))?;
        dots(chart, &paper, DOT, &[GROUND.filled(), around])?;
        let ours = points(|pair| pair.ours);
        line(chart, &ours, colour.stroke_width(3), None)?;
        dots(chart, &ours, DOT, &[colour.filled()])?;
    }
    Ok(())
}

/// Axes in the page's colours, under a key of so many names.
fn axes<'a>((x, y): (&'a str, &'a str), names: usize) -> Axes<'a> {
    const MARGIN: i32 = 8;
    let above = 30 + 22 * i32::try_from(names.div_ceil(2)).unwrap_or(1);
    let axis = |name, room| Axis {
        name,
        room,
        written: Some(&|value| label(*value)),
        count: None,
    };
    Axes {
        x: axis(x, 46),
        y: axis(y, 78),
        title: None,
        margins: [above, MARGIN, MARGIN, MARGIN],
        numbers: style(MUTED, at(HPos::Left, VPos::Top)),
        names: style(INK, at(HPos::Left, VPos::Top)),
        colours: Some([MUTED, GRID]),
    }
}

/// An axis of numbers that has its key points at whole ones.
struct Whole(std::ops::Range<f64>);

impl Ranged for Whole {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.0.start) / (self.0.end - self.0.start);
        limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let (first, last) = (self.0.start.ceil() as i32, self.0.end.floor() as i32);
        (first..=last).map(f64::from).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.0.clone()
    }
}

impl plotters::coord::ranged1d::ValueFormatter<f64> for Whole {}

/// The key of lines: two columns, and what dashes mean.
fn line_key(area: &Area, names: &[&str]) -> Result<(), Fault> {
    let mut entries: Vec<(i32, i32)> = Vec::new();
    for number in 0..names.len() as i32 {
        entries.push((90 + (number % 2) * 330, 16 + (number / 2) * 22));
    }
    for ((name, (x, y)), colour) in names.iter().zip(&entries).zip(SERIES.iter().cycle()) {
        area.draw(&PathElement::new(
            [(*x, *y), (x + 26, *y)],
            colour.stroke_width(3),
        ))?;
        area.draw(&Circle::new((x + 13, *y), DOT, colour.filled()))?;
        area.draw(&Text::new(
            (*name).to_owned(),
            (x + 34, *y),
            style(INK, at(HPos::Left, VPos::Center)),
        ))?;
    }
    let y = 16 + (names.len().div_ceil(2) as i32) * 22;
    for (x, words, dashed) in [(90, "as run", false), (420, "dissertation", true)] {
        let dashes: &[(i32, i32)] = if dashed {
            &[(0, 7), (10, 17), (20, 26)]
        } else {
            &[(0, 26)]
        };
        for (from, to) in dashes {
            area.draw(&PathElement::new(
                [(x + from, y), (x + to, y)],
                MUTED.stroke_width(2),
            ))?;
        }
        area.draw(&Text::new(
            words.to_owned(),
            (x + 34, y),
            style(MUTED, at(HPos::Left, VPos::Center)),
        ))?;
    }
    Ok(())
}

/// Points of a curve that are shown each.
const FEW_POINTS: usize = 12;

fn chart_of_curves(area: &Area, (x, y): (&str, &str), curves: &[Curve]) -> Result<(), Fault> {
    let points = || curves.iter().flat_map(|(_, points, _)| points);
    let end = points().map(|point| point.0).fold(1.0, f64::max);
    let most = points().map(|point| point.1).fold(1.0, f64::max);
    let mut names: Vec<&str> = Vec::new();
    for (name, _, _) in curves {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut axes = axes((x, y), names.len());
    axes.y.room = 60;
    // The last number of the x axis is as wide as this.
    axes.margins[3] = 24;
    let mut chart = axes.draw(area, 0.0..end, 0.0..ceiling(most).0)?;
    for (name, points, paper) in curves {
        let number = names.iter().position(|known| known == name).unwrap_or(0);
        let colour = SERIES[number % SERIES.len()];
        if *paper {
            line(&mut chart, points, colour.stroke_width(2), Some(DASHES))?;
        } else {
            line(&mut chart, points, colour.stroke_width(3), None)?;
        }
        // They were measured one by one, and may all lie in one place.
        if points.len() <= FEW_POINTS {
            dots(&mut chart, points, DOT, &[colour.filled()])?;
        }
    }
    line_key(area, &names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(paper: f64, ours: f64) -> Pair {
        Pair {
            paper: Some(paper),
            ours: Some(ours),
        }
    }

    fn all() -> Vec<Plot> {
        let series = vec![Series {
            name: "one".to_owned(),
            pairs: vec![pair(10.0, 12.0), pair(20.0, 18.0)],
        }];
        vec![
            Plot::Bars {
                rows: vec![
                    ("one".to_owned(), pair(467.0, 470.0)),
                    ("two".to_owned(), Pair::default()),
                ],
                unit: "ns".to_owned(),
            },
            Plot::Stacks {
                rows: vec!["a".to_owned(), "b".to_owned()],
                parts: series.clone(),
                unit: "ns".to_owned(),
            },
            Plot::Lines {
                categories: vec!["16".to_owned(), "32".to_owned()],
                x: "bytes".to_owned(),
                y: "ns".to_owned(),
                series: series.clone(),
                log: false,
            },
            Plot::Lines {
                categories: vec!["16".to_owned(), "32".to_owned()],
                x: "bytes".to_owned(),
                y: "ns".to_owned(),
                series,
                log: true,
            },
            Plot::Curves {
                x: "us".to_owned(),
                y: "ratio".to_owned(),
                curves: vec![("one".to_owned(), vec![(0.0, 4.0), (500.0, 1.1)], true)],
            },
        ]
    }

    #[test]
    fn drawings_have_names_and_take_the_pages_colours() {
        for plot in all() {
            let svg = plot.svg("p", "A < B", "what is seen").expect("it is drawn");
            assert!(
                svg.starts_with("<svg class=\"plot\" viewBox=\"0 0 760 "),
                "{svg}"
            );
            assert!(svg.contains("<title id=\"p-t\">A &lt; B</title>"), "{svg}");
            assert!(
                svg.contains("var(--c1)") && svg.contains("var(--ink)"),
                "{svg}"
            );
            assert!(!svg.contains("\"#"), "a colour of its own: {svg}");
            assert!(!svg.contains("NaN") && !svg.contains("http"), "{svg}");
        }
    }

    #[test]
    fn scales_end_at_round_numbers() {
        for (most, end) in [
            (47.9, 50.0),
            (976.0, 1000.0),
            (1.0, 1.0),
            (62786.0, 70000.0),
            (0.0, 1.0),
        ] {
            let (found, step) = ceiling(most);
            assert!(
                found >= most && (found / step).round() <= 7.0,
                "{most}: {found} by {step}"
            );
            assert!(
                (found - end).abs() < 1e-9 || found <= 1.3 * most,
                "{most}: {found}"
            );
        }
    }
}
