//! A plan's curves: throughput over the number of requests, a curve for each threshold.

use crate::chart::{Chart, Curve, Style};
use crate::table::Row;

/// `rows` of any numbers of requests: a curve for each vector of `thresholds`, over the n that have it, and
/// a dashed one for the best threshold of every n.
pub fn chart(title: &str, rows: &[Row], thresholds: &[Vec<usize>]) -> Chart {
    let of_threshold = |b: &Vec<usize>| Curve {
        name: format!("B = {}", vector(b)),
        style: Style::Line,
        points: points(rows.iter().filter(|row| row.b == *b)),
    };
    let best = Curve {
        name: "best B for each N".to_owned(),
        style: Style::Dashed,
        points: points(rows.iter().filter(|row| row.best)),
    };
    Chart {
        title: title.to_owned(),
        x_label: "concurrent requests N".to_owned(),
        y_label: "throughput (tokens/s)".to_owned(),
        curves: thresholds.iter().map(of_threshold).chain([best]).collect(),
    }
}

fn points<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = rows.map(|row| (row.n as f64, row.tokens_per_s)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn vector(b: &[usize]) -> String {
    format!("({})", b.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
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
    fn every_threshold_and_the_best_one_have_a_curve() {
        let rows = [row(1, 1, 63.0, true), row(2, 1, 99.0, false), row(2, 2, 110.0, true)];
        let svg = chart("a plan", &rows, &[vec![1, 1], vec![1, 2]]).svg();
        let points = |line: &str| line.split("points=\"").nth(1).map(|p| p.matches(',').count());
        assert_eq!(svg.lines().filter_map(points).collect::<Vec<_>>(), [2, 1, 2]);
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
        let svg = chart("nothing", &[], &[vec![1, 1]]).svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
