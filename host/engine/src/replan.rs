//! Thresholds planned while the engine runs: from where requests went and how long steps took, the Markov model's best
//! thresholds for every number of requests. A thread of low rate looks at the counters; subservers only read its tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tokenrouter_core::launch::{LaunchRule, ThresholdTable};
use tokenrouter_planner::{Latencies, Planner, Routing, Search, System};

use crate::engine::Shared;
use crate::link::Message;
use crate::stats::ModelCounters;

/// How often the counters are looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// Steps of every model before there is anything to plan with.
const STEPS_MIN: f64 = 50.0;
/// Share that the counts keep from one look to the next: about half a minute's memory.
const KEEP: f64 = 0.97;
/// A table is kept unless the new one promises more than this.
const GAIN_MIN: f64 = 1.02;
/// A latency that moved by less than this is the same.
const LATENCY_CHANGE_MIN: f64 = 0.1;
/// Numbers of requests that are planned for; between them the next smaller one serves.
const REQUESTS: [usize; 17] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64];

/// One model's counts, fading.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    steps: f64,
    step_us: f64,
    requests: Vec<f64>,
    committed: Vec<f64>,
}

/// What a plan was made from: only the models that have work, the entry model first.
#[derive(Clone, Debug, PartialEq)]
struct Measured {
    /// Which models these are.
    models: Vec<usize>,
    latency_ms: Vec<f64>,
    /// Probability that a request goes from i to j, and how far that can be off by chance (standard error).
    p: Vec<Vec<f64>>,
    error: Vec<Vec<f64>>,
    /// Tokens that such a move commits.
    committed: Vec<Vec<f64>>,
}

/// The planner of a running engine.
pub(crate) struct Replanner {
    counters: Vec<Arc<ModelCounters>>,
    shared: Arc<Shared>,
    entry: usize,
    requests_max: usize,
    seen: Vec<Counts>,
    faded: Vec<Counts>,
    planned_from: Option<Measured>,
    table: Vec<(u32, Vec<u32>)>,
}

impl Replanner {
    /// `entry`: the model that requests start at; `requests_max`: most requests that run at once.
    pub(crate) fn new(
        counters: Vec<Arc<ModelCounters>>,
        shared: Arc<Shared>,
        entry: usize,
        requests_max: usize,
    ) -> Self {
        let models = counters.len();
        let none = Counts {
            requests: vec![0.0; models],
            committed: vec![0.0; models],
            ..Counts::default()
        };
        Self {
            counters,
            shared,
            entry,
            requests_max,
            seen: vec![none.clone(); models],
            faded: vec![none; models],
            planned_from: None,
            table: Vec::new(),
        }
    }

    /// Works until the other end of `stop` is gone.
    pub(crate) fn run(mut self, stop: &Receiver<()>) {
        while stop.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            self.look();
            let Some(measured) = self.measure() else { continue };
            if self
                .planned_from
                .as_ref()
                .is_some_and(|before| !has_moved(before, &measured))
            {
                continue;
            }
            if let Some(table) = plan(&measured, self.counters.len(), self.requests_max, &self.table) {
                tracing::info!(?table, latency_ms = ?measured.latency_ms, p = ?measured.p, "thresholds planned");
                self.table = table;
                let rule = LaunchRule::Planned(ThresholdTable::new(self.table.clone()));
                for link in &self.shared.links {
                    drop(link.send(Message::Rule(rule.clone())));
                }
            }
            self.planned_from = Some(measured);
        }
    }

    /// Adds what the counters have gained, and lets the older counts fade.
    fn look(&mut self) {
        let models = self.counters.len();
        for (index, counters) in self.counters.iter().enumerate() {
            let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
            let now = Counts {
                steps: get(&counters.steps),
                step_us: get(&counters.step_us),
                requests: counters.moved[..models].iter().map(get).collect(),
                committed: counters.committed[..models].iter().map(get).collect(),
            };
            let (seen, faded) = (&mut self.seen[index], &mut self.faded[index]);
            faded.steps = KEEP * faded.steps + now.steps - seen.steps;
            faded.step_us = KEEP * faded.step_us + now.step_us - seen.step_us;
            for to in 0..models {
                faded.requests[to] = KEEP * faded.requests[to] + now.requests[to] - seen.requests[to];
                faded.committed[to] = KEEP * faded.committed[to] + now.committed[to] - seen.committed[to];
            }
            *seen = now;
        }
    }

    /// P, C and L of the models that have run enough steps, once the entry model and another have. A model that is hardly
    /// used launches eagerly.
    fn measure(&self) -> Option<Measured> {
        let others = (0..self.faded.len()).filter(|&model| model != self.entry);
        let used: Vec<usize> = std::iter::once(self.entry)
            .chain(others)
            .filter(|&model| self.faded[model].steps >= STEPS_MIN)
            .collect();
        if used.len() < 2 || used[0] != self.entry {
            return None;
        }
        let mut measured = Measured {
            latency_ms: Vec::new(),
            p: Vec::new(),
            error: Vec::new(),
            committed: Vec::new(),
            models: used.clone(),
        };
        for &from in &used {
            let counts = &self.faded[from];
            let moves: Vec<f64> = used.iter().map(|&to| counts.requests[to]).collect();
            let rows: f64 = moves.iter().sum();
            if rows <= 0.0 {
                return None;
            }
            let p: Vec<f64> = moves.iter().map(|moves| moves / rows).collect();
            let error = |p: &f64| (p * (1.0 - p) / rows).sqrt();
            measured.error.push(p.iter().map(error).collect());
            measured.p.push(p);
            let tokens = used.iter().map(|&to| counts.committed[to]);
            let per_move = tokens
                .zip(&moves)
                .map(|(tokens, &moves)| if moves > 0.0 { tokens / moves } else { 0.0 });
            measured.committed.push(per_move.collect());
            measured.latency_ms.push(counts.step_us / counts.steps / 1e3);
        }
        Some(measured)
    }
}

/// Whether a probability moved by more than two standard errors, or a latency by more than its noise.
fn has_moved(before: &Measured, now: &Measured) -> bool {
    if before.models != now.models {
        return true;
    }
    let latency = before
        .latency_ms
        .iter()
        .zip(&now.latency_ms)
        .any(|(a, b)| (b / a - 1.0).abs() > LATENCY_CHANGE_MIN);
    let routing = before
        .p
        .iter()
        .zip(&now.p)
        .zip(now.error.iter().zip(&before.error))
        .any(|((a, b), (ea, eb))| {
            a.iter()
                .zip(b)
                .zip(ea.iter().zip(eb))
                .any(|((a, b), (ea, eb))| (b - a).abs() > 2.0 * ea.hypot(*eb))
        });
    latency || routing
}

/// The best thresholds for every number of requests, or `None` when the old ones are as good or nothing can be planned.
/// Overshooting costs more than undershooting, so probabilities of leaving the entry model are taken one standard error low.
///
/// `models`: how many the deployment has; those that were not measured get 1.
fn plan(
    measured: &Measured,
    models: usize,
    requests_max: usize,
    old: &[(u32, Vec<u32>)],
) -> Option<Vec<(u32, Vec<u32>)>> {
    let mut p = measured.p.clone();
    for (to, error) in measured.error[0].iter().enumerate().skip(1) {
        let lower = (p[0][to] - error).max(0.0);
        p[0][0] += p[0][to] - lower;
        p[0][to] = lower;
    }
    let routing = Routing::new(p, measured.committed.clone()).ok()?;
    let latencies = Latencies::new(&measured.latency_ms).ok()?;
    let mut planner = Planner::new(System::new(latencies, routing).ok()?);
    let old_table = ThresholdTable::new(old.to_vec());
    let mut table = Vec::new();
    let mut gains = false;
    for n in REQUESTS.into_iter().filter(|&n| n <= requests_max) {
        // Beyond what the exact chain can do, the thresholds of the last number that it could serve.
        let Ok(rows) = planner.plan(n, Search::default()) else {
            break;
        };
        let Some(best) = rows.iter().find(|row| row.best) else {
            break;
        };
        let held = old_table.at(n as u32);
        let is_held = |b: &[usize]| {
            let mut pairs = b.iter().zip(&measured.models);
            !held.is_empty() && pairs.all(|(&b, &model)| held[model] as usize == b)
        };
        let before = rows.iter().find(|row| is_held(&row.b));
        gains |= before.is_none_or(|before| best.tokens_per_s > GAIN_MIN * before.tokens_per_s);
        let mut thresholds = vec![1; models];
        for (&b, &model) in best.b.iter().zip(&measured.models) {
            thresholds[model] = b as u32;
        }
        table.push((n as u32, thresholds));
    }
    (gains && !table.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(p: f64) -> Measured {
        Measured {
            models: vec![0, 1],
            latency_ms: vec![6.0, 27.9],
            p: vec![vec![1.0 - p, p], vec![1.0, 0.0]],
            error: vec![vec![0.0, 0.0], vec![0.0, 0.0]],
            committed: vec![vec![1.0, 0.0], vec![1.0, 0.0]],
        }
    }

    /// The paper's setting: B1 = 2 at two requests, 3 at four, 5 at eight.
    #[test]
    fn measured_rates_give_the_papers_thresholds() {
        let table = ThresholdTable::new(plan(&paper(0.35), 2, 16, &[]).unwrap());
        for (n, large) in [(2, 2), (4, 3), (8, 5)] {
            assert_eq!(table.at(n), [1, large], "{n} requests");
        }
    }

    /// Three models of which the middle one is never used, requests starting at the last.
    #[test]
    fn models_without_work_launch_eagerly() {
        let measured = Measured {
            models: vec![2, 0],
            ..paper(0.35)
        };
        let table = ThresholdTable::new(plan(&measured, 3, 16, &[]).unwrap());
        assert_eq!(table.at(8), [5, 1, 1]);
    }

    #[test]
    fn a_plan_is_kept_while_a_new_one_promises_little() {
        let table = plan(&paper(0.35), 2, 16, &[]).unwrap();
        assert_eq!(plan(&paper(0.352), 2, 16, &table), None);
        assert!(
            plan(&paper(0.05), 2, 16, &table).is_some(),
            "at small p the old thresholds cost more than half"
        );
    }

    #[test]
    fn only_what_exceeds_chance_counts_as_a_move() {
        let with_error = |p: f64| Measured {
            error: vec![vec![0.01, 0.01], vec![0.0, 0.0]],
            ..paper(p)
        };
        assert!(!has_moved(&with_error(0.35), &with_error(0.37)));
        assert!(has_moved(&with_error(0.35), &with_error(0.40)));
        let slower = Measured {
            latency_ms: vec![6.0, 35.0],
            ..with_error(0.35)
        };
        assert!(has_moved(&with_error(0.35), &slower));
    }
}
