// SPDX-License-Identifier: Apache-2.0
//! Drawings in files of their own: lines with dots on white, a title and a key.

use std::path::Path;

use plotters::prelude::*;
use rack::Error;

use super::canvas::{self, Axes, Axis, Fault, Point, dots, letters, line};

/// Pixels.
const SIZE: (u32, u32) = (800, 480);
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 90, 160),
    RGBColor(200, 80, 0),
    RGBColor(0, 130, 90),
    RGBColor(150, 60, 150),
    RGBColor(110, 110, 110),
    RGBColor(190, 150, 0),
    RGBColor(90, 180, 220),
    RGBColor(170, 30, 60),
];
/// Height of letters, and of the title's.
const TEXT: i32 = 16;
const TITLE: i32 = 20;

pub(crate) type Points = Vec<Point>;

/// A line of a drawing.
pub(crate) struct Series {
    pub name: String,
    pub points: Points,
}

/// A drawing with its axes.
pub(crate) struct Drawing<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    /// Whether the x axis begins at 0, and not shortly before the first point.
    pub from_zero: bool,
    pub series: Vec<Series>,
}

/// Writes drawings into a directory, each into its file; those without data are left out.
pub(crate) fn write<'a>(
    directory: &Path,
    drawings: impl IntoIterator<Item = (&'a str, Drawing<'a>)>,
) -> Result<(), Error> {
    for (name, drawing) in drawings {
        if !drawing.series.is_empty() {
            let path = directory.join(name);
            drawing.write(&path).map_err(|error| Error::Output {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
        }
    }
    Ok(())
}

/// From 0, with air above, to the greatest value.
fn upto(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    const AIR: f64 = 1.15;
    let most = values.fold(0.0, f64::max);
    0.0..if most > 0.0 { most * AIR } else { 1.0 }
}

/// From shortly before the least value to shortly behind the greatest.
fn around(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    const AIR: f64 = 0.1;
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    let air = AIR * (most - least).max(1.0);
    least - air..most + air
}

impl Drawing<'_> {
    fn write(&self, path: &Path) -> Result<(), Fault> {
        let text = canvas::svg(SIZE, |area| self.draw(area))?;
        Ok(std::fs::write(path, text)?)
    }

    fn draw(&self, area: &canvas::Area) -> Result<(), Fault> {
        const MARGIN: i32 = 12;
        area.fill(&WHITE)?;
        let axis = |name, room| Axis {
            name,
            room,
            written: None,
            count: None,
        };
        let axes = Axes {
            x: axis(self.x, 48),
            y: axis(self.y, 72),
            title: Some((self.title, letters(TITLE, BLACK))),
            margins: [MARGIN; 4],
            numbers: letters(TEXT, BLACK),
            names: letters(TEXT, BLACK),
            colours: None,
        };
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = points().map(|point| point.0);
        let x = if self.from_zero { upto(x) } else { around(x) };
        let mut chart = axes.draw(area, x, upto(points().map(|point| point.1)))?;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let style = colour.stroke_width(2);
            line(&mut chart, &series.points, style, None)?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
            dots(&mut chart, &series.points, 3, &[colour.filled()])?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .border_style(BLACK)
            .background_style(WHITE)
            .label_font(letters(TEXT, BLACK))
            .draw()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_its_points_and_words() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("d.svg");
        let drawing = Drawing {
            title: "T-i-t-l-e",
            x: "x-axis",
            y: "y-axis",
            from_zero: true,
            series: vec![Series {
                name: "one".to_owned(),
                points: vec![(64.0, 90.0), (1518.0, 90.0), (9216.0, 90.0)],
            }],
        };
        drawing.write(&path).expect("it is written");
        let svg = std::fs::read_to_string(&path).expect("it is there");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for word in ["T-i-t-l-e", "x-axis", "y-axis", "one"] {
            assert!(svg.contains(word), "{word}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
