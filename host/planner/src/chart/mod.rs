//! Curves over two axes that begin at 0, as one self-contained SVG or PNG.
//!
//! [`Chart::marks`] places everything; [`svg`] and [`png`] each write the same marks.

mod marks;
mod png;
mod svg;

use marks::{Anchor, Ink, Mark};

/// The picture's size and the frame of the curves within it, in the units of all coordinates.
const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 56.0;

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line in a colour of its own.
    Line,
    /// The same with a dot at every point, for values that were measured.
    Dotted,
    /// Dashed and grey: what the others are compared with.
    Dashed,
}

/// Named points (x, y), in ascending order of x; neither is negative.
#[derive(Clone, Debug)]
pub struct Curve {
    /// For the legend.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// A picture of curves.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above the picture.
    pub title: String,
    /// What x is, with its unit.
    pub x_label: String,
    /// What y is, with its unit.
    pub y_label: String,
    /// In the order of the legend.
    pub curves: Vec<Curve>,
}

impl Chart {
    /// Draws it as SVG. Text is escaped, nothing is loaded from elsewhere, and the background is the page's.
    pub fn svg(&self) -> String {
        svg::write(&self.title, &self.marks())
    }

    /// Draws it as PNG, 1,560 x 880 pixels on white, with letters of Noto Sans Mono; letters outside of Latin-1 become `?`.
    pub fn png(&self) -> Vec<u8> {
        png::write(&self.marks())
    }

    /// All there is to draw, in the order in which it is drawn.
    fn marks(&self) -> Vec<Mark> {
        let drawn = || self.curves.iter().flat_map(|curve| &curve.points);
        let x_max = drawn().map(|p| p.0).fold(1.0, f64::max);
        let y_max = drawn().map(|p| p.1).fold(f64::MIN_POSITIVE, f64::max);
        let (x_step, y_step) = (tick_step(x_max, 8.0).max(1.0), tick_step(y_max, 8.0));
        let scale = Scale {
            x_max,
            y_max: (y_max / y_step).ceil() * y_step,
        };
        let mut marks = vec![Mark::title((LEFT, 26.0), &self.title)];
        axes(&mut marks, self, &scale, x_step, y_step);
        let mut colours = 0..;
        for (rank, curve) in self.curves.iter().enumerate() {
            let ink = match curve.style {
                Style::Dashed => Ink::Best,
                Style::Line | Style::Dotted => colours.next().map_or(Ink::Best, Ink::Curve),
            };
            draw(&mut marks, &scale, rank, curve, ink);
        }
        marks
    }
}

/// From data to the picture.
struct Scale {
    x_max: f64,
    y_max: f64,
}

impl Scale {
    fn x(&self, x: f64) -> f64 {
        LEFT + x / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.y_max * (HEIGHT - TOP - BOTTOM)
    }
}

fn axes(marks: &mut Vec<Mark>, chart: &Chart, scale: &Scale, x_step: f64, y_step: f64) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for tick in ticks(y_step, scale.y_max) {
        let y = scale.y(tick);
        marks.push(Mark::Line((LEFT, y), (right, y), Ink::Grid));
        marks.push(Mark::text((LEFT - 8.0, y + 4.0), Anchor::End, tick_text(tick, y_step)));
    }
    for tick in ticks(x_step, scale.x_max) {
        let x = scale.x(tick);
        marks.push(Mark::Line((x, bottom), (x, bottom + 5.0), Ink::Axis));
        marks.push(Mark::text((x, bottom + 20.0), Anchor::Middle, tick_text(tick, x_step)));
    }
    marks.push(Mark::Line((LEFT, bottom), (right, bottom), Ink::Axis));
    let (middle_x, middle_y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
    marks.push(Mark::text(
        (middle_x, HEIGHT - 14.0),
        Anchor::Middle,
        chart.x_label.clone(),
    ));
    marks.push(Mark::upright((18.0, middle_y), &chart.y_label));
}

/// One curve and its line of the legend.
fn draw(marks: &mut Vec<Mark>, scale: &Scale, rank: usize, curve: &Curve, ink: Ink) {
    let points: Vec<_> = curve.points.iter().map(|&(x, y)| (scale.x(x), scale.y(y))).collect();
    if curve.style == Style::Dotted {
        marks.extend(points.iter().map(|&point| Mark::Dot(point, ink)));
    }
    marks.push(Mark::Curve(points, ink));
    let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 10.0 + 22.0 * rank as f64);
    marks.push(Mark::Line((x, y), (x + 24.0, y), ink));
    marks.push(Mark::text((x + 30.0, y + 4.0), Anchor::Start, curve.name.clone()));
}

/// The smallest of 1, 2, 5 times a power of ten that needs at most `count` steps to `max`.
fn tick_step(max: f64, count: f64) -> f64 {
    let power = 10f64.powf((max / count).log10().floor());
    [1.0, 2.0, 5.0]
        .map(|x| x * power)
        .into_iter()
        .find(|step| max / step <= count)
        .unwrap_or(10.0 * power)
}

fn ticks(step: f64, max: f64) -> impl Iterator<Item = f64> {
    (0..=(max / step + 1e-9) as usize).map(move |i| i as f64 * step)
}

/// A tick's number with as many decimals as its step has: 3 times 0.2 is not 0.6000000000000001.
fn tick_text(tick: f64, step: f64) -> String {
    format!("{tick:.*}", (-step.log10()).ceil().max(0.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(curves: Vec<Curve>) -> String {
        let [title, x_label, y_label] = ["N < 3 & more", "share (%)", "right (%)"].map(str::to_owned);
        Chart {
            title,
            x_label,
            y_label,
            curves,
        }
        .svg()
    }

    #[test]
    fn every_point_lies_inside_of_the_frame_and_measured_ones_have_a_dot() {
        let curve = |style, points: &[(f64, f64)]| Curve {
            name: "a < b".to_owned(),
            style,
            points: points.to_vec(),
        };
        let points = [(0.0, 63.0), (12.5, 0.0), (100.0, 95.1)];
        let svg = chart(
            [Style::Line, Style::Dotted, Style::Dashed]
                .map(|style| curve(style, &points))
                .to_vec(),
        );
        for text in [
            "<title>N &lt; 3 &amp; more</title>",
            "a &lt; b",
            "share (%)",
            "right (%)",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        let paths: Vec<&str> = svg
            .split("points=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(paths.len(), 3);
        for point in paths.iter().flat_map(|path| path.split(' ')) {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y));
        }
        assert_eq!(svg.matches("<circle").count(), points.len());
    }

    #[test]
    fn a_chart_without_points_is_a_picture_without_points() {
        let svg = chart(Vec::new());
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn steps_are_round_and_few() {
        assert_eq!(tick_step(64.0, 8.0), 10.0);
        assert_eq!(tick_step(2900.0, 6.0), 500.0);
        assert_eq!(tick_step(8.0, 8.0), 1.0);
        assert_eq!(tick_step(0.7, 6.0), 0.2);
        let written: Vec<String> = ticks(0.2, 0.7).map(|tick| tick_text(tick, 0.2)).collect();
        assert_eq!(written, ["0.0", "0.2", "0.4", "0.6"]);
    }
}
