//! A plot as SVG. Colours are classes of the page's style sheet, so that a dark page has dark plots.

use std::fmt::Write;

use super::axis::Axis;
use super::escape::escape;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 270.0;
/// The drawing area.
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 40.0;
/// Most points of a line: more can't be told apart.
const POINTS_MAX: usize = 120;

/// Lines or bars of several brokers.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) shapes: Vec<Shape>,
}

/// The shape drawn for one broker.
pub(super) struct Shape {
    /// Number of the colour in the style sheet.
    pub(super) colour: usize,
    /// Whether it is one of several rounds other than the median one.
    pub(super) is_faint: bool,
    pub(super) name: String,
    pub(super) kind: ShapeKind,
}

/// The kind of a shape.
pub(super) enum ShapeKind {
    /// A line through these points.
    Line(Vec<(f64, f64)>),
    /// Bars from left to right: left and right edge and height of each.
    Bars(Vec<(f64, f64, f64)>),
}

impl Plot {
    /// The plot with its title below.
    pub(super) fn figure(&self) -> String {
        let title = escape(self.title);
        let mut out = format!(
            "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n{}",
            self.frame()
        );
        // Clear shapes are drawn last, on top of faint ones.
        let (faint, clear): (Vec<_>, Vec<_>) = self.shapes.iter().partition(|shape| shape.is_faint);
        for shape in faint.into_iter().chain(clear) {
            out += &self.shape(shape);
        }
        out + &format!("</svg><figcaption>{title}</figcaption></figure>\n")
    }

    fn frame(&self) -> String {
        let mut out = String::new();
        for (value, name) in &self.y.ticks {
            let (y, name) = (self.y_of(*value), escape(name));
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        for (value, name) in &self.x.ticks {
            let (x, name) = (self.x_of(*value), escape(name));
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {BOTTOM}v4\"/><text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>",
                BOTTOM + 17.0
            );
        }
        let (middle, x, y) = ((LEFT + RIGHT) / 2.0, escape(self.x.label), escape(self.y.label));
        let _ = writeln!(out, "<text class=\"middle\" x=\"{middle}\" y=\"{}\">{x}</text>", HEIGHT - 6.0);
        let middle = (TOP + BOTTOM) / 2.0;
        let _ = writeln!(out, "<text class=\"middle\" transform=\"translate(12 {middle}) rotate(-90)\">{y}</text>");
        out
    }

    fn shape(&self, shape: &Shape) -> String {
        let faint = if shape.is_faint { " faint" } else { "" };
        let (class, path) = match &shape.kind {
            ShapeKind::Line(points) => ("line", self.line(points)),
            ShapeKind::Bars(bars) => ("bars", self.bars(bars)),
        };
        let name = escape(&shape.name);
        format!("<path class=\"{class} c{}{faint}\" d=\"{path}\"><title>{name}</title></path>\n", shape.colour)
    }

    fn line(&self, points: &[(f64, f64)]) -> String {
        let every = points.len().div_ceil(POINTS_MAX).max(1);
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            if index % every == 0 || index + 1 == points.len() {
                let letter = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{letter}{:.1} {:.1}", self.x_of(*x), self.y_of(*y));
            }
        }
        path
    }

    fn bars(&self, bars: &[(f64, f64, f64)]) -> String {
        let mut path = String::new();
        for (left, right, height) in bars {
            let _ = write!(
                path,
                "M{:.1} {BOTTOM}V{:.1}H{:.1}V{BOTTOM}Z",
                self.x_of(*left),
                self.y_of(*height),
                self.x_of(*right)
            );
        }
        path
    }

    fn x_of(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (RIGHT - LEFT)
    }

    fn y_of(&self, value: f64) -> f64 {
        BOTTOM - self.y.place(value) * (BOTTOM - TOP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::axis::short;

    #[test]
    fn lines_and_bars_stand_where_their_values_are() {
        let shape = |kind, is_faint| Shape { colour: 3, is_faint, name: "A & B".into(), kind };
        let plot = Plot {
            title: "a < b",
            x: Axis::from_zero("x", 10.0, short),
            y: Axis::from_zero("y", 10.0, short),
            shapes: vec![
                shape(ShapeKind::Line(vec![(0.0, 0.0), (10.0, 10.0)]), false),
                shape(ShapeKind::Bars(vec![(0.0, 5.0, 10.0)]), true),
            ],
        };
        let figure = plot.figure();
        assert!(
            figure.contains("<path class=\"line c3\" d=\"M62.0 230.0L466.0 10.0\"><title>A &amp; B</title></path>")
        );
        assert!(figure.contains("<path class=\"bars c3 faint\" d=\"M62.0 230V10.0H264.0V230Z\">"), "{figure}");
        assert!(figure.find("bars c3") < figure.find("line c3"), "what is faint stands behind");
        assert!(figure.contains("aria-label=\"a &lt; b\""));
    }

    #[test]
    fn long_lines_are_thinned_and_keep_their_ends() {
        let plot = Plot {
            title: "",
            x: Axis::from_zero("x", 1000.0, short),
            y: Axis::from_zero("y", 1000.0, short),
            shapes: vec![],
        };
        let points: Vec<_> = (0..=1000).map(|value| (f64::from(value), f64::from(value))).collect();
        let path = plot.line(&points);
        assert!(path.matches('L').count() <= POINTS_MAX, "{path}");
        assert!(path.starts_with("M62.0 230.0") && path.ends_with("L466.0 10.0"), "{path}");
    }
}
