//! From answers to figures, and how they are shown.

use serde::Serialize;
use tokenrouter_planner::chart::{Chart, Curve, Style};

use super::load::{Arrivals, Measured};
use crate::cli::measure::{Percentiles, percentiles};
use crate::cli::table::Table;

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// What was measured.
    pub(super) name: String,
    /// Clients in a closed loop; absent at a rate.
    pub(super) concurrency: Option<u32>,
    /// Requests a second that arrive; absent in a closed loop.
    pub(super) rate: Option<f64>,
    /// Answers counted.
    pub(super) answers: usize,
    /// Answers that failed, and why the first did.
    pub(super) failures: usize,
    pub(super) failure: Option<String>,
    pub(super) answers_per_s: f64,
    pub(super) tokens_per_s: f64,
    /// Mean speed of one answer, in tokens a second.
    pub(super) tokens_per_s_per_user: f64,
    /// Tokens a second of answers that are fast enough for `--speed-min`.
    pub(super) goodput_tokens_per_s: f64,
    /// Share of the last model; absent where the server does not say it.
    pub(super) share: Option<f64>,
    pub(super) handoffs_per_answer: f64,
    /// Times in milliseconds: to the first token, a token after it, between pieces, and of a whole answer.
    pub(super) first_token_ms: Percentiles,
    pub(super) per_token_ms: Percentiles,
    pub(super) between_ms: Percentiles,
    pub(super) answer_ms: Percentiles,
}

impl Line {
    pub(super) fn new(name: &str, arrivals: Arrivals, measured: &Measured, speed_min: f64) -> Self {
        let answers = &measured.answers;
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        // Not `sum`: that of nothing is -0.
        let sum = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |sum: f64, value| sum + value);
        let tokens = sum(&mut answers.iter().map(|answer| f64::from(answer.tokens)));
        let speed = |answer: &&crate::cli::measure::Answered| f64::from(answer.tokens) / answer.total.as_secs_f64();
        let fast = answers.iter().filter(|answer| speed(answer) >= speed_min);
        let of_last = sum(&mut answers
            .iter()
            .filter_map(|it| it.tokens_by_model.last())
            .map(|n| f64::from(*n)));
        let told = answers.iter().any(|answer| !answer.tokens_by_model.is_empty());
        let count = answers.len().max(1) as f64;
        Self {
            name: name.to_owned(),
            concurrency: match arrivals {
                Arrivals::Closed(clients) => Some(clients),
                Arrivals::Rate(_) => None,
            },
            rate: match arrivals {
                Arrivals::Closed(_) => None,
                Arrivals::Rate(per_s) => Some(per_s),
            },
            answers: answers.len(),
            failures: measured.failures,
            failure: measured.failure.clone(),
            answers_per_s: answers.len() as f64 / measured.seconds,
            tokens_per_s: tokens / measured.seconds,
            tokens_per_s_per_user: sum(&mut answers.iter().map(|answer| speed(&answer))) / count,
            goodput_tokens_per_s: sum(&mut fast.map(|answer| f64::from(answer.tokens))) / measured.seconds,
            share: told.then(|| of_last / tokens.max(1.0)),
            handoffs_per_answer: sum(&mut answers.iter().map(|answer| f64::from(answer.handoffs))) / count,
            first_token_ms: percentiles(answers.iter().map(|answer| ms(answer.first)).collect()),
            per_token_ms: percentiles(answers.iter().filter_map(|it| it.per_token()).map(ms).collect()),
            between_ms: percentiles(answers.iter().flat_map(|it| &it.gaps).map(|gap| ms(*gap)).collect()),
            answer_ms: percentiles(answers.iter().map(|answer| ms(answer.total)).collect()),
        }
    }

    fn load(&self) -> String {
        match (self.concurrency, self.rate) {
            (Some(clients), _) => clients.to_string(),
            (None, Some(per_s)) => format!("{per_s}/s"),
            (None, None) => String::new(),
        }
    }
}

/// One line each. With more than one name, the ratio of throughput to the first name's at the same load.
pub(super) fn table(lines: &[Line]) -> Table {
    let compared = lines
        .first()
        .is_some_and(|first| lines.iter().any(|line| line.name != first.name));
    let mut headings = vec!["", "N", "answers", "failed", "answers/s", "tokens/s"];
    if compared {
        headings.push("ratio");
    }
    headings.extend([
        "per user",
        "goodput",
        "large %",
        "TTFT p50/90/99 ms",
        "TPOT ms",
        "ITL ms",
        "E2E ms",
    ]);
    let mut table = Table::new(headings.into_iter().map(str::to_owned).collect());
    for line in lines {
        let mut row = vec![
            line.name.clone(),
            line.load(),
            line.answers.to_string(),
            line.failures.to_string(),
            format!("{:.1}", line.answers_per_s),
            format!("{:.0}", line.tokens_per_s),
        ];
        if compared {
            row.push(
                ratio(lines, line)
                    .map(|ratio| format!("{ratio:.2}x"))
                    .unwrap_or_default(),
            );
        }
        row.extend([
            format!("{:.0}", line.tokens_per_s_per_user),
            format!("{:.0}", line.goodput_tokens_per_s),
            line.share
                .map(|share| format!("{:.1}", 100.0 * share))
                .unwrap_or_default(),
            shown(&line.first_token_ms),
            shown(&line.per_token_ms),
            shown(&line.between_ms),
            shown(&line.answer_ms),
        ]);
        table.push(row);
    }
    table
}

/// Throughput by load, a curve for each name.
pub(super) fn picture(lines: &[Line]) -> Chart {
    let mut names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    names.dedup();
    let load = |line: &Line| line.concurrency.map(f64::from).or(line.rate).unwrap_or_default();
    let curve = |name: &str| {
        let own = lines.iter().filter(|line| line.name == name);
        let mut points: Vec<(f64, f64)> = own.map(|line| (load(line), line.tokens_per_s)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve {
            name: name.to_owned(),
            style: Style::Dotted,
            points,
        }
    };
    let in_a_loop = lines.iter().all(|line| line.rate.is_none());
    Chart {
        title: "Measured throughput".to_owned(),
        x_label: if in_a_loop { "clients" } else { "requests a second" }.to_owned(),
        y_label: "throughput (tokens/s)".to_owned(),
        curves: names.into_iter().map(curve).collect(),
    }
}

/// Throughput over that of the first name at the same load.
pub(super) fn ratio(lines: &[Line], line: &Line) -> Option<f64> {
    let first = lines
        .iter()
        .find(|other| other.name == lines[0].name && other.load() == line.load())?;
    (first.tokens_per_s > 0.0).then(|| line.tokens_per_s / first.tokens_per_s)
}

fn shown(times: &Percentiles) -> String {
    format!("{:.1}/{:.1}/{:.1}", times.p50, times.p90, times.p99)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::measure::Answered;

    fn answer(tokens: u32, total_ms: u64) -> Answered {
        Answered {
            tokens,
            tokens_by_model: vec![tokens - 1, 1],
            first: Duration::from_millis(10),
            total: Duration::from_millis(total_ms),
            ..Answered::default()
        }
    }

    #[test]
    fn throughput_is_of_all_and_goodput_of_the_fast() {
        let measured = Measured {
            answers: vec![answer(10, 100), answer(10, 1_000)],
            seconds: 2.0,
            ..Measured::default()
        };
        let line = Line::new("x", Arrivals::Closed(2), &measured, 50.0);
        assert_eq!((line.tokens_per_s, line.goodput_tokens_per_s), (10.0, 5.0));
        assert_eq!((line.share, line.tokens_per_s_per_user), (Some(0.1), 55.0));
        assert_eq!((line.per_token_ms.p50, line.answer_ms.p99), (10.0, 1_000.0));
    }

    #[test]
    fn ratios_are_to_the_first_name_at_the_same_load() {
        let line = |name, clients, tokens| {
            let measured = Measured {
                answers: vec![answer(tokens, 100)],
                seconds: 1.0,
                ..Measured::default()
            };
            Line::new(name, Arrivals::Closed(clients), &measured, 0.0)
        };
        let lines = [line("a", 1, 10), line("a", 4, 20), line("b", 1, 15), line("b", 4, 50)];
        let ratios: Vec<_> = lines.iter().map(|line| ratio(&lines, line).unwrap()).collect();
        assert_eq!(ratios, [1.0, 1.0, 1.5, 2.5]);
        assert!(table(&lines).to_string().contains("2.50x"));
        let curves = picture(&lines).curves;
        let points: Vec<_> = curves
            .iter()
            .map(|curve| (curve.name.as_str(), curve.points.as_slice()))
            .collect();
        assert_eq!(
            points,
            [
                ("a", &[(1.0, 10.0), (4.0, 20.0)][..]),
                ("b", &[(1.0, 15.0), (4.0, 50.0)])
            ]
        );
        assert!(!table(&lines[..2]).to_string().contains("ratio"));
        let empty = Line::new("x", Arrivals::Rate(2.0), &Measured::default(), 0.0);
        assert_eq!((empty.answers, empty.share), (0, None));
    }
}
