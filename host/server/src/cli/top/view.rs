//! From one look at the timeline to the next.

use serde::Deserialize;
use serde_json::Value;

use crate::cli::table::Table;

/// The first look has no look before it: it is at the steps of so many microseconds.
const FIRST_US: u64 = 1_000_000;

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct View {
    now_us: u64,
    /// The last step of each model.
    last: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct Timeline {
    now_us: u64,
    launch: String,
    requests_running: u64,
    requests_waiting: u64,
    models: Vec<Model>,
}

#[derive(Debug, Deserialize)]
struct Model {
    name: String,
    waiting: u64,
    running: u64,
    pending: u64,
    steps: Steps,
}

#[derive(Debug, Deserialize)]
struct Steps {
    number: Vec<u64>,
    started_us: Vec<u64>,
    took_us: Vec<u64>,
    rows: Vec<u64>,
    wait_us_max: Vec<u64>,
}

impl View {
    /// Where the next look is to be had.
    pub(super) fn path(&self) -> String {
        let last: Vec<String> = self.last.iter().map(u64::to_string).collect();
        match last.len() {
            0 => "/timeline?steps=2048".to_owned(),
            _ => format!("/timeline?steps=2048&after={}", last.join(",")),
        }
    }

    /// What happened since the last look, as text.
    pub(super) fn look(&mut self, timeline: &Value) -> anyhow::Result<String> {
        let timeline = Timeline::deserialize(timeline)?;
        if timeline.now_us < self.now_us {
            // The host was started anew and counts from the beginning.
            *self = Self::default();
        }
        let since_us = if self.last.is_empty() {
            timeline.now_us.saturating_sub(FIRST_US)
        } else {
            self.now_us
        };
        let span_us = timeline.now_us.saturating_sub(since_us).max(1) as f64;
        let headings = [
            "model", "waiting", "running", "pending", "steps/s", "busy", "batch", "step ms", "wait ms",
        ];
        let mut table = Table::new(headings.map(str::to_owned).to_vec());
        for model in &timeline.models {
            table.push(row(model, since_us, span_us));
        }
        self.now_us = timeline.now_us;
        let before = std::mem::take(&mut self.last);
        let last = |(index, model): (usize, &Model)| {
            let seen = before.get(index).copied().unwrap_or(0);
            model.steps.number.last().copied().unwrap_or(seen)
        };
        self.last = timeline.models.iter().enumerate().map(last).collect();
        Ok(format!(
            "{} requests run, {} wait to start; launch rule {}\n{table}",
            timeline.requests_running, timeline.requests_waiting, timeline.launch
        ))
    }
}

fn row(model: &Model, since_us: u64, span_us: f64) -> Vec<String> {
    let steps = &model.steps;
    let ends = steps
        .started_us
        .iter()
        .zip(&steps.took_us)
        .map(|(start, took)| start + took);
    let seen: Vec<usize> = ends
        .enumerate()
        .filter(|(_, end)| *end > since_us)
        .map(|it| it.0)
        .collect();
    let sum = |column: &[u64]| seen.iter().filter_map(|&step| column.get(step)).sum::<u64>() as f64;
    // More steps than the host keeps may have run: those that are there tell their own time.
    let first_us = seen
        .first()
        .map_or(since_us, |&step| steps.started_us[step].max(since_us));
    let overflowed = seen.len() == steps.number.len() && steps.number.len() == tokenrouter_engine::STEPS_KEPT;
    let span_us = if overflowed {
        span_us - (first_us - since_us) as f64
    } else {
        span_us
    }
    .max(1.0);
    let count = seen.len() as f64;
    let mean = |total: f64| {
        if count > 0.0 {
            format!("{:.2}", total / count)
        } else {
            "-".to_owned()
        }
    };
    vec![
        model.name.clone(),
        model.waiting.to_string(),
        model.running.to_string(),
        model.pending.to_string(),
        format!("{:.1}", count / span_us * 1e6),
        format!("{:.0} %", (100.0 * sum(&steps.took_us) / span_us).min(100.0)),
        mean(sum(&steps.rows)),
        mean(sum(&steps.took_us) / 1e3),
        mean(sum(&steps.wait_us_max) / 1e3),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn timeline(now_us: u64, numbers: &[u64]) -> Value {
        // Steps of 200 ms, one every 250 ms, the first at 0.
        let column = |of: fn(u64) -> u64| numbers.iter().map(|&number| of(number)).collect::<Vec<_>>();
        json!({
            "now_us": now_us, "launch": "eager", "requests_running": 3, "requests_waiting": 0,
            "models": [{ "name": "small", "waiting": 1, "running": 2, "pending": 0, "steps": {
                "number": numbers, "started_us": column(|n| (n - 1) * 250_000), "took_us": column(|_| 200_000),
                "rows": column(|n| n), "tokens": column(|n| n), "wait_us_max": column(|_| 50_000), "left_waiting": column(|_| 0),
            } }],
        })
    }

    fn cells(text: &str) -> Vec<&str> {
        text.lines().last().unwrap_or_default().split_whitespace().collect()
    }

    #[test]
    fn a_look_tells_of_the_steps_since_the_last_one() {
        let mut view = View::default();
        assert_eq!(view.path(), "/timeline?steps=2048");
        // At 2 s eight steps have ended; the first look is at the last second's: numbers 5 to 8.
        let text = view.look(&timeline(2_000_000, &[1, 2, 3, 4, 5, 6, 7, 8])).unwrap();
        assert!(
            text.starts_with("3 requests run, 0 wait to start; launch rule eager\n"),
            "{text}"
        );
        assert_eq!(
            cells(&text),
            ["small", "1", "2", "0", "4.0", "80", "%", "6.50", "200.00", "50.00"]
        );
        assert_eq!(view.path(), "/timeline?steps=2048&after=8");
        let text = view.look(&timeline(2_500_000, &[9, 10])).unwrap();
        assert_eq!(
            cells(&text),
            ["small", "1", "2", "0", "4.0", "80", "%", "9.50", "200.00", "50.00"]
        );
        let text = view.look(&timeline(3_000_000, &[])).unwrap();
        assert_eq!(cells(&text), ["small", "1", "2", "0", "0.0", "0", "%", "-", "-", "-"]);
        assert_eq!(view.path(), "/timeline?steps=2048&after=10", "nothing new was seen");
        view.look(&timeline(400_000, &[])).unwrap();
        assert_eq!(
            view.path(),
            "/timeline?steps=2048&after=0",
            "a host that was started anew"
        );
    }
}
