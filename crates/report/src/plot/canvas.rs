// SPDX-License-Identifier: Apache-2.0
//! The layer over plotters that all drawings share: an area that becomes SVG, a pair of axes on it, and lines and dots between
//! them. What they look like is the drawings' own.

use plotters::chart::{ChartContext, SeriesAnno};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

pub(super) type Fault = Box<dyn std::error::Error>;
/// Place on both axes.
pub(crate) type Point = (f64, f64);
pub(super) type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;
pub(super) type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// An axis of numbers.
pub(super) trait Numbers: Ranged<ValueType = f64> + ValueFormatter<f64> {}
impl<T: Ranged<ValueType = f64> + ValueFormatter<f64>> Numbers for T {}

/// Makes an area of some pixels, width and height, and returns what is drawn there as SVG.
pub(super) fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&Area) -> Result<(), Fault>,
) -> Result<String, Fault> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    Ok(text)
}

/// Letters of a size.
pub(super) fn letters(size: i32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour)
}

/// Writes the number at a place of an axis.
pub(super) type Written<'a> = &'a dyn Fn(&f64) -> String;

/// One of the two axes.
pub(super) struct Axis<'a> {
    /// What its numbers are.
    pub name: &'a str,
    /// Pixels for numbers and name.
    pub room: i32,
    /// How the numbers are written, if not as plotters does.
    pub written: Option<Written<'a>>,
    /// How many there are, if not as many as there is room for.
    pub count: Option<usize>,
}

/// A pair of axes.
pub(super) struct Axes<'a> {
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    /// Above it all.
    pub title: Option<(&'a str, TextStyle<'static>)>,
    /// Pixels above, below, at the left and at the right.
    pub margins: [i32; 4],
    pub numbers: TextStyle<'static>,
    pub names: TextStyle<'static>,
    /// The axes' colour, and that of lines from the y axis. Without them there are lines from both, as plotters has them.
    pub colours: Option<[RGBColor; 2]>,
}

impl Axes<'_> {
    /// Draws them for these ranges.
    pub fn draw<'a, 'b, X, Y>(
        &self,
        area: &'a Area<'b>,
        x: X,
        y: Y,
    ) -> Result<Chart<'a, 'b, X::CoordDescType, Y::CoordDescType>, Fault>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: Numbers>,
        Y: AsRangedCoord<Value = f64, CoordDescType: Numbers>,
    {
        let mut builder = ChartBuilder::on(area);
        let [above, below, left, right] = self.margins;
        builder
            .margin_top(above)
            .margin_bottom(below)
            .margin_left(left)
            .margin_right(right)
            .x_label_area_size(self.x.room)
            .y_label_area_size(self.y.room);
        if let Some((title, style)) = &self.title {
            builder.caption(title, style.clone());
        }
        let mut chart = builder.build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x.name)
            .y_desc(self.y.name)
            .label_style(self.numbers.clone())
            .axis_desc_style(self.names.clone());
        if let Some([axes, lines]) = self.colours {
            mesh.disable_x_mesh()
                .axis_style(axes)
                .bold_line_style(lines)
                .light_line_style(TRANSPARENT);
        }
        if let Some(written) = self.x.written {
            mesh.x_label_formatter(written);
        }
        if let Some(written) = self.y.written {
            mesh.y_label_formatter(written);
        }
        if let Some(count) = self.x.count {
            mesh.x_labels(count);
        }
        if let Some(count) = self.y.count {
            mesh.y_labels(count);
        }
        mesh.draw()?;
        Ok(chart)
    }
}

/// Draws a line through points, with dashes and gaps of some pixels or without.
pub(super) fn line<'c, 'a, 'b, X: Numbers, Y: Numbers>(
    chart: &'c mut Chart<'a, 'b, X, Y>,
    points: &[Point],
    style: ShapeStyle,
    dashes: Option<(i32, i32)>,
) -> Result<&'c mut SeriesAnno<'a, SVGBackend<'b>>, Fault> {
    let points = points.iter().copied();
    Ok(match dashes {
        Some((dash, gap)) => chart.draw_series(DashedLineSeries::new(points, dash, gap, style))?,
        None => chart.draw_series(LineSeries::new(points, style))?,
    })
}

/// Draws a dot at each point, in one style over the other.
pub(super) fn dots<X: Numbers, Y: Numbers>(
    chart: &mut Chart<X, Y>,
    points: &[Point],
    radius: i32,
    styles: &[ShapeStyle],
) -> Result<(), Fault> {
    for point in points {
        let dots = styles
            .iter()
            .map(|style| Circle::new(*point, radius, *style));
        chart.draw_series(dots)?;
    }
    Ok(())
}
