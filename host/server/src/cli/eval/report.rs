//! How the points are shown: a table, and a picture of accuracy by share.

use tokenrouter_planner::chart::{Chart, Curve, Style};

use super::measure::Point;
use crate::cli::table::Table;

/// What random routing is called.
pub(super) const RANDOM: &str = "random";

/// Fills in how much more is right than under random routing at the same share. `baseline` has the models alone and
/// random routing; between its points the line is straight.
pub(super) fn compare(points: &mut [Point], baseline: &[Point]) {
    let line = line(baseline);
    for point in points.iter_mut() {
        let random = interpolated(&line, point.share());
        point.over_random = point.right.zip(random).map(|(right, random)| right - random);
    }
}

/// (share, right) in ascending order of shares.
fn line(points: &[Point]) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = points
        .iter()
        .filter_map(|point| Some((point.share(), point.right?)))
        .collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    line
}

/// The value of a line at x, if x lies between its ends.
fn interpolated(line: &[(f64, f64)], x: f64) -> Option<f64> {
    line.windows(2).find_map(|ends| {
        let [(x0, y0), (x1, y1)] = *ends else { return None };
        (x0 <= x && x <= x1).then(|| {
            if x1 > x0 {
                y0 + (y1 - y0) * (x - x0) / (x1 - x0)
            } else {
                y0
            }
        })
    })
}

/// One line a point.
pub(super) fn table(points: &[Point], models: &[String]) -> Table {
    let last = models.last().map_or("", String::as_str);
    let headings = [
        "policy",
        "",
        "launch",
        "right %",
        "over random",
        &format!("by {last} %"),
        "handoffs/answer",
        "tokens/answer",
        "tokens/s",
        "TTFT ms p50",
        "TPOT ms p50",
        "parameters/token",
    ];
    let mut table = Table::new(headings.map(str::to_owned).to_vec());
    for point in points {
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        table.push(vec![
            point.name.clone(),
            point.at.clone().unwrap_or_default(),
            point.launch.clone(),
            point.right.map(percent).unwrap_or_default(),
            point
                .over_random
                .map(|more| format!("{:+.1}", 100.0 * more))
                .unwrap_or_default(),
            percent(point.share()),
            format!("{:.2}", point.handoffs_per_answer),
            format!("{:.1}", point.tokens_per_answer),
            format!("{:.0}", point.tokens_per_s),
            format!("{:.1}", point.first_token_ms.p50),
            format!("{:.2}", point.per_token_ms.p50),
            format!("{:.2} M", point.parameters_per_token / 1e6),
        ]);
    }
    table
}

/// Accuracy by share: a curve for each policy, and a dashed line from the small model alone over random routing to the
/// large one alone. Launch rules do not change answers, so only the first one's points are drawn.
pub(super) fn picture(points: &[Point], baseline: &[Point], problems: usize) -> Chart {
    let percent = |line: Vec<(f64, f64)>| line.into_iter().map(|(x, y)| (100.0 * x, 100.0 * y)).collect();
    let mut names: Vec<&str> = Vec::new();
    for point in points.iter().filter(|point| point.name != RANDOM) {
        if !names.contains(&point.name.as_str()) {
            names.push(&point.name);
        }
    }
    let launch = points.first().map(|point| point.launch.clone());
    let of_policy = |name: &&str| {
        let own = points
            .iter()
            .filter(|point| point.name == **name && Some(&point.launch) == launch.as_ref());
        Curve {
            name: (*name).to_owned(),
            style: Style::Dotted,
            points: percent(line(&own.cloned().collect::<Vec<_>>())),
        }
    };
    let random = Curve {
        name: "random routing".to_owned(),
        style: Style::Dashed,
        points: percent(line(baseline)),
    };
    Chart {
        title: format!("Right answers by share of the large model, {problems} problems"),
        x_label: "tokens by the large model (%)".to_owned(),
        y_label: "right answers (%)".to_owned(),
        curves: names.iter().map(of_policy).chain([random]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, share: f64, right: f64) -> Point {
        Point {
            name: name.to_owned(),
            at: None,
            launch: "eager".to_owned(),
            right: Some(right),
            shares: vec![1.0 - share, share],
            handoffs_per_answer: 0.0,
            tokens_per_answer: 1.0,
            tokens_per_s: 1.0,
            first_token_ms: Default::default(),
            per_token_ms: Default::default(),
            parameters_per_token: 1.0,
            over_random: None,
        }
    }

    #[test]
    fn points_are_compared_with_random_routing_at_their_own_share() {
        let baseline = [
            point("small alone", 0.0, 0.4),
            point("large alone", 1.0, 1.0),
            point(RANDOM, 0.5, 0.5),
        ];
        let mut points = vec![point("p", 0.25, 0.7), point("p", 0.75, 0.7), point("p", 1.0, 0.9)];
        compare(&mut points, &baseline);
        let over: Vec<f64> = points
            .iter()
            .map(|point| (point.over_random.unwrap() * 1e6).round() / 1e6)
            .collect();
        assert_eq!(over, [0.25, -0.05, -0.1]);
    }

    #[test]
    fn a_picture_has_a_curve_for_each_policy_and_one_for_random_routing() {
        let baseline = [point("small alone", 0.0, 0.4), point("large alone", 1.0, 1.0)];
        let points = [point("a", 0.2, 0.7), point("b", 0.1, 0.7), point("a", 0.1, 0.6)];
        let svg = picture(&points, &baseline, 3).svg();
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(svg.contains("random routing") && svg.contains("3 problems"));
    }
}
