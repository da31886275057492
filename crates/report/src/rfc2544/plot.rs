// SPDX-License-Identifier: Apache-2.0
//! The report as drawings.

use std::path::Path;

use ::rfc2544::Family;
use plotters::prelude::*;
use rack::Error;

use super::report::{Report, Row};

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
const TEXT: (&str, u32) = ("sans-serif", 16);
const TITLE: (&str, u32) = ("sans-serif", 20);

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

/// Writes throughput.svg, latency.svg, loss.svg and latency-histogram.svg, those that have data.
pub fn write(report: &Report, directory: &Path) -> Result<(), Error> {
    let by_size = |value: &dyn Fn(&Row) -> Option<f64>| {
        series(report, &|rows| {
            rows.iter()
                .filter_map(|row| Some((row.bytes as f64, value(row)?)))
                .collect()
        })
    };
    let rate = report.rate;
    let drawings = [
        (
            "throughput.svg",
            Drawing {
                title: &format!("Throughput, {rate}"),
                x: "frame size, bytes",
                y: "load without loss, %",
                from_zero: true,
                series: by_size(&|row| Some(row.throughput.as_ref()?.load.percent())),
            },
        ),
        (
            "latency.svg",
            Drawing {
                title: &format!("Latency by frame size, {rate}: worst of all frames"),
                x: "frame size, bytes",
                y: "ns",
                from_zero: true,
                series: by_size(&|row| Some(row.latency.as_ref()?.max_ns)),
            },
        ),
        (
            "loss.svg",
            Drawing {
                title: &format!("Frame loss rate, {rate}, smallest frames"),
                x: "load, %",
                y: "loss, %",
                from_zero: true,
                series: series(report, &|rows| {
                    let loss = rows.iter().find_map(|row| row.loss.as_ref());
                    let steps = loss.map_or(&[][..], |loss| &loss.steps);
                    steps
                        .iter()
                        .map(|step| (step.load.percent(), step.loss_percent))
                        .collect()
                }),
            },
        ),
        (
            "latency-histogram.svg",
            Drawing {
                title: &format!("Frames by latency, {rate}, smallest frames"),
                x: "ns",
                y: "frames",
                from_zero: false,
                series: series(report, &|rows| {
                    let latency = rows.iter().find_map(|row| row.latency.as_ref());
                    let bins = latency.map_or(&[][..], |latency| &latency.histogram);
                    bins.iter().map(|bin| (bin.ns, bin.frames as f64)).collect()
                }),
            },
        ),
    ];
    for (name, drawing) in drawings {
        if !drawing.series.is_empty() {
            let path = directory.join(name);
            drawing.draw(&path).map_err(|error| Error::Output {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
        }
    }
    Ok(())
}

pub(crate) type Points = Vec<(f64, f64)>;

/// A series for each family that has points.
fn series(report: &Report, points: &dyn Fn(&[&Row]) -> Points) -> Vec<Series> {
    [Family::V4, Family::V6]
        .into_iter()
        .map(|family| {
            let rows: Vec<_> = report
                .rows
                .iter()
                .filter(|row| row.family == family)
                .collect();
            Series {
                name: family.name().to_owned(),
                points: points(&rows),
            }
        })
        .filter(|series| !series.points.is_empty())
        .collect()
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
    pub(crate) fn draw(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = points().map(|point| point.0);
        let x = if self.from_zero { upto(x) } else { around(x) };
        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, TITLE)
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(x, upto(points().map(|point| point.1)))?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style(TEXT)
            .axis_desc_style(TEXT)
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            chart
                .draw_series(LineSeries::new(
                    series.points.iter().copied(),
                    colour.stroke_width(2),
                ))?
                .label(&series.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
                });
            let dots = series.points.iter().copied();
            chart.draw_series(dots.map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .border_style(BLACK)
            .background_style(WHITE)
            .label_font(TEXT)
            .draw()?;
        area.present()?;
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
        drawing.draw(&path).expect("it is written");
        let svg = std::fs::read_to_string(&path).expect("it is there");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for word in ["T-i-t-l-e", "x-axis", "y-axis", "one"] {
            assert!(svg.contains(word), "{word}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
