//! A replay's result, as text and as JSON.

use serde::Serialize;
use tokenrouter_host::trace::Trace;

use super::walk::Tally;
use crate::cli::table::Table;

/// What was recorded and what the replayed policy would do.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    policy: String,
    /// Policies that routed the recorded requests, with their options.
    recorded_by: Vec<String>,
    models: Vec<String>,
    /// Requests replayed.
    requests: u64,
    /// Requests that are not replayed: they stayed at one model.
    requests_unrouted: u64,
    /// Requests that the replayed policy refuses.
    requests_refused: u64,
    steps_recorded: u64,
    /// Steps that the policy decided about; the others lie where it does not go.
    steps_routed: u64,
    /// Of these, steps before the first token that differs from the recorded answer.
    steps_exact: u64,
    /// Of these, steps decided as recorded.
    steps_alike: u64,
    /// Positions at which the policy goes to a model that has no row there.
    positions_missing: u64,
    /// Lines that the trace itself lacks: dropped, or of requests that began before it.
    lines_missing: u64,
    recorded: Side,
    replayed: Side,
    /// Median time of a call of `route` with one row.
    route_us: f64,
}

/// One side of the comparison.
#[derive(Debug, Serialize)]
struct Side {
    /// Share of each model in the tokens.
    share: Vec<f64>,
    handoffs_per_answer: f64,
}

/// What a report is made of, beside the tally.
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) unrouted: u64,
    pub(super) refused: u64,
}

impl Report {
    pub(super) fn new(policy: String, trace: &Trace, counts: &Counts, mut tally: Tally) -> Self {
        let models = trace.header.models.len();
        let (mut tokens, mut handoffs, mut steps_recorded) = (vec![0; models], 0, 0);
        let routed = trace.requests.iter().filter(|it| it.request.generation.is_some());
        for step in routed.flat_map(|it| &it.steps) {
            steps_recorded += 1;
            handoffs += u64::from(step.to.is_some_and(|to| to != step.at));
            if let Some(tokens) = tokens.get_mut(step.at as usize).filter(|_| step.keep) {
                *tokens += 1;
            }
        }
        tally.route_us.sort_unstable_by(f64::total_cmp);
        let side = |tokens: &[u64], handoffs: u64| Side {
            share: tokens.iter().map(|&n| ratio(n, tokens.iter().sum())).collect(),
            handoffs_per_answer: ratio(handoffs, counts.requests),
        };
        let recorded_by = trace.generations.iter().map(|generation| {
            let options: Vec<String> = generation
                .options
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("{} {} {}", generation.name, generation.version, options.join(" "))
                .trim_end()
                .to_owned()
        });
        Self {
            policy,
            recorded_by: recorded_by.collect(),
            models: trace.header.models.iter().map(|model| model.name.clone()).collect(),
            requests: counts.requests,
            requests_unrouted: counts.unrouted,
            requests_refused: counts.refused,
            steps_recorded,
            steps_routed: tally.routed,
            steps_exact: tally.exact,
            steps_alike: tally.alike,
            positions_missing: tally.missing,
            lines_missing: trace.orphans + trace.end.as_ref().map_or(0, |end| end.dropped),
            recorded: side(&tokens, handoffs),
            replayed: side(&tally.tokens, tally.handoffs),
            route_us: tally.route_us.get(tally.route_us.len() / 2).copied().unwrap_or(0.0),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new(["", "recorded", "replayed"].map(str::to_owned).to_vec());
        for (index, model) in self.models.iter().enumerate() {
            let share = |side: &Side| format!("{:.2} %", 100.0 * side.share[index]);
            table.push(vec![
                format!("tokens by {model}"),
                share(&self.recorded),
                share(&self.replayed),
            ]);
        }
        let handoffs = |side: &Side| format!("{:.2}", side.handoffs_per_answer);
        table.push(vec![
            "handoffs per answer".to_owned(),
            handoffs(&self.recorded),
            handoffs(&self.replayed),
        ]);
        let percent = |part: u64| 100.0 * ratio(part, self.steps_routed);
        let mut text = format!(
            "{} over {} requests and {} steps, recorded under {}\n\n{table}\n\
             steps it decides about     {}, {:.1} % as recorded\n\
             seen exactly as it would   {}, {:.1} %: until its answer first differs from the recorded one\n\
             positions without a row    {}: it goes to a model that did not run there\n\
             route, one row             {:.1} us\n",
            self.policy,
            self.requests,
            self.steps_recorded,
            self.recorded_by.join("; "),
            self.steps_routed,
            percent(self.steps_alike),
            self.steps_exact,
            percent(self.steps_exact),
            self.positions_missing,
            self.route_us,
        );
        for (count, what) in [
            (
                self.requests_unrouted,
                "requests stayed at one model and are not counted",
            ),
            (self.requests_refused, "requests are refused by this policy"),
            (self.lines_missing, "lines are missing in the trace"),
        ] {
            if count > 0 {
                text += &format!("{count} {what}\n");
            }
        }
        text
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
