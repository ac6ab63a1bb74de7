//! Curves over two axes that begin at 0, as one self-contained SVG.

use std::fmt::Write;

const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 56.0;

/// Okabe and Ito's colours without black and yellow: told apart by colour-blind eyes, seen on light and on dark.
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];

/// Greys that read on a light and on a dark page; a viewer that knows the reader's preference sharpens them.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#767676}\
.title{font-size:15px;font-weight:600}\
.grid{stroke:#808080;stroke-opacity:.25}\
.axis{stroke:#808080}\
.curve{fill:none;stroke-width:1.6}\
.best{fill:none;stroke:#808080;stroke-width:2.6;stroke-dasharray:7 4}\
@media(prefers-color-scheme:light){text{fill:#333}.best{stroke:#222}}\
@media(prefers-color-scheme:dark){text{fill:#ccc}.best{stroke:#eee}}";

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
    /// Draws it. Text is escaped, nothing is loaded from elsewhere, and the background is the page's.
    pub fn svg(&self) -> String {
        let drawn = || self.curves.iter().flat_map(|curve| &curve.points);
        let x_max = drawn().map(|p| p.0).fold(1.0, f64::max);
        let y_max = drawn().map(|p| p.1).fold(f64::MIN_POSITIVE, f64::max);
        let (x_step, y_step) = (tick_step(x_max, 8.0).max(1.0), tick_step(y_max, 8.0));
        let scale = Scale {
            x_max,
            y_max: (y_max / y_step).ceil() * y_step,
        };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\
             <title>{title}</title><style>{STYLE}</style>\
             <text class=\"title\" x=\"{LEFT}\" y=\"26\">{title}</text>\n",
            title = escape(&self.title)
        );
        axes(&mut out, self, &scale, x_step, y_step);
        let mut colours = COLOURS.iter().cycle();
        for (rank, curve) in self.curves.iter().enumerate() {
            let colour = match curve.style {
                Style::Dashed => None,
                Style::Line | Style::Dotted => colours.next().copied(),
            };
            draw(&mut out, &scale, rank, curve, colour);
        }
        out.push_str("</svg>\n");
        out
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

fn axes(out: &mut String, chart: &Chart, scale: &Scale, x_step: f64, y_step: f64) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for tick in ticks(y_step, scale.y_max) {
        let (y, text_y) = (scale.y(tick), scale.y(tick) + 4.0);
        add(
            out,
            format_args!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"),
        );
        add(
            out,
            format_args!(
                "<text x=\"{}\" y=\"{text_y:.1}\" text-anchor=\"end\">{tick}</text>\n",
                LEFT - 8.0
            ),
        );
    }
    for tick in ticks(x_step, scale.x_max) {
        let (x, text_y) = (scale.x(tick), bottom + 20.0);
        add(
            out,
            format_args!(
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>",
                bottom + 5.0
            ),
        );
        add(
            out,
            format_args!("<text x=\"{x:.1}\" y=\"{text_y}\" text-anchor=\"middle\">{tick}</text>\n"),
        );
    }
    add(
        out,
        format_args!("<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\n"),
    );
    let (middle_x, middle_y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
    add(
        out,
        format_args!(
            "<text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"18\" y=\"{middle_y}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {middle_y})\">\
             {}</text>\n",
            HEIGHT - 14.0,
            escape(&chart.x_label),
            escape(&chart.y_label)
        ),
    );
}

/// One curve and its line of the legend.
fn draw(out: &mut String, scale: &Scale, rank: usize, curve: &Curve, colour: Option<&str>) {
    let Curve { name, style, points } = curve;
    let class = if *style == Style::Dashed { "best" } else { "curve" };
    let stroke = colour.map(|colour| format!(" stroke=\"{colour}\"")).unwrap_or_default();
    let path: Vec<String> = points
        .iter()
        .map(|&(x, y)| format!("{:.1},{:.1}", scale.x(x), scale.y(y)))
        .collect();
    if let (Style::Dotted, Some(colour)) = (style, colour) {
        for &(x, y) in points {
            let (x, y) = (scale.x(x), scale.y(y));
            add(
                out,
                format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"),
            );
        }
    }
    add(
        out,
        format_args!("<polyline class=\"{class}\"{stroke} points=\"{}\"/>\n", path.join(" ")),
    );
    let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 10.0 + 22.0 * rank as f64);
    add(
        out,
        format_args!(
            "<line class=\"{class}\"{stroke} x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
            x + 24.0
        ),
    );
    add(
        out,
        format_args!("<text x=\"{}\" y=\"{}\">{}</text>\n", x + 30.0, y + 4.0, escape(name)),
    );
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all that is written to it");
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
    }
}
