//! `--latency-file`: step latencies by rows, by tokens, and beside another model's step. `config/latency.toml` explains the keys.

use std::path::Path;

use anyhow::{Context as _, anyhow, ensure};
use serde::Deserialize;
use tokenrouter_planner::sim::{Latency, LatencyCurve};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    models: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// (rows, ms)
    points: Vec<(u32, f64)>,
    #[serde(default)]
    token_ms: f64,
    #[serde(default = "undisturbed")]
    busy_factor: f64,
}

fn undisturbed() -> f64 {
    1.0
}

/// The latencies of a file, in the order of its models: JSON if its name ends so, else TOML.
///
/// # Errors
/// With the file, and the place in it.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Latency>> {
    let option = || format!("--latency-file {}", path.display());
    let text = std::fs::read_to_string(path).with_context(option)?;
    let is_json = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    parse(&text, is_json).with_context(option)
}

fn parse(text: &str, is_json: bool) -> anyhow::Result<Vec<Latency>> {
    let file: File = if is_json {
        serde_json::from_str(text)?
    } else {
        toml::from_str(text).map_err(|error| {
            // The library's own message has several lines.
            let line = text[..error.span().map_or(0, |span| span.start)].matches('\n').count() + 1;
            anyhow!("line {line}: {}", error.message())
        })?
    };
    ensure!(
        !file.models.is_empty(),
        "models: there is none; write one [[models]] for each, the small one first"
    );
    file.models
        .into_iter()
        .enumerate()
        .map(|(index, entry)| entry.latency(index))
        .collect()
}

impl Entry {
    fn latency(self, index: usize) -> anyhow::Result<Latency> {
        let Self {
            points,
            token_ms,
            busy_factor,
        } = self;
        let rows_ascend = points.is_sorted_by(|a, b| a.0 < b.0) && points.first().is_some_and(|point| point.0 >= 1);
        ensure!(
            rows_ascend,
            "models[{index}].points: rows ascend from at least 1, as in [[1, 6.0], [16, 7.5]]; found {points:?}"
        );
        let bad = points.iter().find(|(_, ms)| !(ms.is_finite() && *ms > 0.0));
        ensure!(
            bad.is_none(),
            "models[{index}].points: milliseconds are positive; found {bad:?}"
        );
        let is_time = token_ms.is_finite() && token_ms >= 0.0;
        ensure!(
            is_time,
            "models[{index}].token_ms: milliseconds of at least 0, found {token_ms}"
        );
        let is_factor = busy_factor.is_finite() && busy_factor > 0.0;
        ensure!(
            is_factor,
            "models[{index}].busy_factor: a positive factor, 1 for no disturbance; found {busy_factor}"
        );
        let points = points.into_iter().map(|(rows, ms)| (rows, ms * 1e3)).collect();
        Ok(Latency::Curve(LatencyCurve {
            points,
            token_us: token_ms * 1e3,
            busy_factor,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u32, f64)], token_us: f64, busy_factor: f64) -> Latency {
        Latency::Curve(LatencyCurve {
            points: points.to_vec(),
            token_us,
            busy_factor,
        })
    }

    #[test]
    fn toml_and_json_say_the_same() {
        let toml = "[[models]]\npoints = [[1, 6], [16, 7.5]]\ntoken_ms = 0.02\nbusy_factor = 1.3\n[[models]]\npoints = [[1, 28.0]]";
        let json = r#"{"models": [{"points": [[1, 6], [16, 7.5]], "token_ms": 0.02, "busy_factor": 1.3}, {"points": [[1, 28.0]]}]}"#;
        let expected = vec![
            curve(&[(1, 6_000.0), (16, 7_500.0)], 20.0, 1.3),
            curve(&[(1, 28_000.0)], 0.0, 1.0),
        ];
        assert_eq!(parse(toml, false).unwrap(), expected);
        assert_eq!(parse(json, true).unwrap(), expected);
    }

    #[test]
    fn the_example_reads() {
        let latencies = parse(include_str!("../../../../../config/latency.toml"), false).unwrap();
        assert_eq!(latencies.len(), 2);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (keys, part) in [
            ("points = []", "models[0].points: rows ascend from at least 1"),
            ("points = [[4, 1.0], [2, 1.0]]", "models[0].points: rows ascend"),
            ("points = [[0, 1.0]]", "models[0].points: rows ascend"),
            ("points = [[1, -1.0]]", "models[0].points: milliseconds are positive"),
            ("points = [[1, 1.0]]\ntoken_ms = -1.0", "models[0].token_ms: "),
            ("points = [[1, 1.0]]\nbusy_factor = 0.0", "models[0].busy_factor: "),
            ("point = [[1, 1.0]]", "line 2: unknown field `point`, expected one of"),
        ] {
            let error = parse(&format!("[[models]]\n{keys}"), false).unwrap_err().to_string();
            assert!(error.starts_with(part), "{keys}: {error}");
        }
        assert!(
            parse("models = []", false)
                .unwrap_err()
                .to_string()
                .starts_with("models: there is none")
        );
    }
}
