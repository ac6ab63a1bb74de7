//! A plan's curves as one self-contained SVG: throughput over the number of requests, a curve for each threshold.

use std::fmt::Write;

use crate::table::Row;

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

/// Named points (n, tokens per second), in ascending order of n.
struct Curve {
    name: String,
    class: &'static str,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

/// Draws `rows` of any numbers of requests: a curve for each vector of `thresholds`, over the n that have it, and a
/// dashed one for the best threshold of every n.
///
/// Text is escaped, nothing is loaded from elsewhere, and the background is the page's.
pub fn svg(title: &str, rows: &[Row], thresholds: &[Vec<usize>]) -> String {
    let mut curves: Vec<Curve> = thresholds
        .iter()
        .zip(COLOURS.iter().cycle())
        .map(|(b, colour)| Curve {
            name: format!("B = {}", vector(b)),
            class: "curve",
            colour,
            points: points(rows.iter().filter(|row| row.b == *b)),
        })
        .collect();
    let best = points(rows.iter().filter(|row| row.best));
    curves.push(Curve {
        name: "best B for each N".into(),
        class: "best",
        colour: "",
        points: best,
    });
    let drawn = || curves.iter().flat_map(|curve| &curve.points);
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
        title = escape(title)
    );
    axes(&mut out, &scale, x_step, y_step);
    curves
        .iter()
        .enumerate()
        .for_each(|(rank, curve)| draw(&mut out, &scale, rank, curve));
    out.push_str("</svg>\n");
    out
}

/// From data to the picture.
struct Scale {
    x_max: f64,
    y_max: f64,
}

impl Scale {
    fn x(&self, n: f64) -> f64 {
        LEFT + n / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, tokens_per_s: f64) -> f64 {
        HEIGHT - BOTTOM - tokens_per_s / self.y_max * (HEIGHT - TOP - BOTTOM)
    }
}

fn axes(out: &mut String, scale: &Scale, x_step: f64, y_step: f64) {
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
            "<text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">concurrent requests N</text>\n\
             <text x=\"18\" y=\"{middle_y}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {middle_y})\">\
             throughput (tokens/s)</text>\n",
            HEIGHT - 14.0
        ),
    );
}

/// One curve and its line of the legend.
fn draw(out: &mut String, scale: &Scale, rank: usize, curve: &Curve) {
    let Curve {
        name,
        class,
        colour,
        points,
    } = curve;
    let stroke = if colour.is_empty() {
        String::new()
    } else {
        format!(" stroke=\"{colour}\"")
    };
    let path: Vec<String> = points
        .iter()
        .map(|&(n, t)| format!("{:.1},{:.1}", scale.x(n), scale.y(t)))
        .collect();
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

fn points<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = rows.map(|row| (row.n as f64, row.tokens_per_s)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
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

fn vector(b: &[usize]) -> String {
    format!("({})", b.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
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

    fn row(n: usize, b: usize, tokens_per_s: f64, best: bool) -> Row {
        Row {
            n,
            b: vec![1, b],
            tokens_per_s,
            best,
            bound_percent: 0.0,
        }
    }

    #[test]
    fn every_curve_has_its_points_inside_of_the_frame_and_a_name() {
        let rows = [row(1, 1, 63.0, true), row(2, 1, 99.0, false), row(2, 2, 110.0, true)];
        let svg = svg("N < 3 & more", &rows, &[vec![1, 1], vec![1, 2]]);
        assert!(svg.contains("<title>N &lt; 3 &amp; more</title>"));
        let points = |line: &str| {
            line.split("points=\"")
                .nth(1)
                .map(|p| p.split('"').next().unwrap().to_owned())
        };
        let curves: Vec<String> = svg.lines().filter_map(points).collect();
        assert_eq!(
            curves.iter().map(|c| c.split(' ').count()).collect::<Vec<_>>(),
            [2, 1, 2]
        );
        for point in curves.iter().flat_map(|c| c.split(' ')) {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y));
        }
        for name in [
            "B = (1, 1)",
            "B = (1, 2)",
            "best B",
            "concurrent requests N",
            "tokens/s",
        ] {
            assert!(svg.contains(name), "{name}");
        }
    }

    #[test]
    fn a_plan_without_rows_is_a_picture_without_points() {
        let svg = svg("nothing", &[], &[vec![1, 1]]);
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
