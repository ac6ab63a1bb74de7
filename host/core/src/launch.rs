//! When an idle model starts its next step: the launch rules. A rule is a value, and a decision is a function of what
//! can be seen now, so every rule runs on the same scheduler.

use std::sync::Arc;

use crate::cost::StepCosts;
use crate::ids::ModelIndex;

/// When an idle model with waiting requests launches.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchRule {
    /// At once, with all that waits.
    Eager,
    /// When at least B wait, B given for each model (delayed batching). The last value serves further models.
    Threshold(Vec<u32>),
    /// The same, with thresholds that a planner has found for every number of requests.
    Planned(ThresholdTable),
    /// When waiting for the next event that can bring requests costs more than it brings: one-step look-ahead.
    Lookahead,
    /// One step at a time in the whole deployment, the models in turn: all requests move in lock step.
    StepSync,
    /// One model at a time, until nothing waits there any more.
    ModelSync,
}

impl LaunchRule {
    /// Whether models take turns instead of running at their own pace.
    pub fn is_synchronous(&self) -> bool {
        matches!(self, LaunchRule::StepSync | LaunchRule::ModelSync)
    }

    /// The threshold at a model while `live` requests are in the deployment: 1 for all rules but the thresholds, and never
    /// more than could come.
    pub fn threshold(&self, model: ModelIndex, live: u32) -> u32 {
        let planned = match self {
            LaunchRule::Threshold(thresholds) => thresholds.as_slice(),
            LaunchRule::Planned(table) => table.at(live),
            _ => &[],
        };
        let wanted = planned.get(model.index()).or(planned.last()).copied().unwrap_or(1);
        wanted.min(live).max(1)
    }
}

/// Thresholds by the number of requests in the deployment. Empty: 1 for all. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThresholdTable(Arc<[(u32, Vec<u32>)]>);

impl ThresholdTable {
    /// From (number of requests, threshold of each model), ascending in the number.
    pub fn new(rows: Vec<(u32, Vec<u32>)>) -> Self {
        debug_assert!(rows.is_sorted_by_key(|row| row.0));
        Self(rows.into())
    }

    /// The thresholds for `live` requests: of the largest number that is not above it, else of the smallest.
    pub fn at(&self, live: u32) -> &[u32] {
        let above = self.0.partition_point(|row| row.0 <= live);
        self.0.get(above.saturating_sub(1)).map_or(&[], |row| row.1.as_slice())
    }
}

/// What can be seen of one model from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelView {
    /// Requests that wait at it or are on their way to it.
    pub waiting: u32,
    /// Requests in its running step; 0 when it is idle.
    pub running: u32,
    /// Rows of its running step that are written ahead, for requests that are elsewhere.
    pub ahead: u32,
    /// Whether it has decided to hold back what waits. Idle with something waiting and not holding back means that it is
    /// about to decide.
    pub holding: bool,
    /// Whether it cannot launch what waits, because older requests that are away hold the KV.
    pub stalled: bool,
    /// When its running step is expected to end, on the clock of `now_us`.
    pub ends_us: u64,
    /// How long its next step would take with what waits now.
    pub step_us: u64,
    /// Requests of its running step that are expected to come to the model that decides.
    pub newcomers: f32,
    /// Probability that a request comes to the model that decides after a step there.
    pub to_here: f32,
    /// How long its steps have taken until now, all told, with the one that runs as far as it has come.
    pub ran_us: u64,
    /// What its steps cost.
    pub costs: StepCosts,
}

/// What a model sees when it decides. `models` has an entry for each model of the deployment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Now, in microseconds.
    pub now_us: u64,
    /// All models, the deciding one included.
    pub models: &'a [ModelView],
    /// Whose turn it is under a synchronous rule.
    pub turn: ModelIndex,
}

impl View<'_> {
    /// Requests in the deployment: each waits, is on its way, or runs.
    fn live(&self) -> u32 {
        self.models.iter().map(|model| model.waiting + model.running).sum()
    }

    /// How long other models' steps than this one's have taken until now, all told.
    pub fn others_ran_us(&self, model: ModelIndex) -> u64 {
        let others = self
            .models
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != model.index());
        others.map(|(_, peer)| peer.ran_us).sum()
    }
}

/// The queue of the deciding model.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Requests that can run.
    pub ready: u32,
    /// Whether one of them has a long stretch to feed: a prompt, or a sequence whose KV was dropped.
    pub long: bool,
    /// When the first of them came.
    pub oldest_us: u64,
    /// How many requests lose their time while the model waits. As many as can run; but one that another model writes ahead
    /// meanwhile counts less, by the chance that this is of use, and one that this model would write ahead counts by that chance.
    pub losing: f32,
    /// The same of a request that comes next: 1, or less if it will be written ahead.
    pub losing_next: f32,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Launch now.
    Launch,
    /// Wait; decide again at this time at the latest, or when something changes.
    Wait {
        /// On the clock of `now_us`; `u64::MAX`: only when something changes.
        until_us: u64,
    },
}

/// Whether `model` launches now. `wait_us_max` bounds how long a request waits under any asynchronous rule.
pub fn decide(rule: &LaunchRule, model: ModelIndex, queue: Queue, view: View<'_>, wait_us_max: u64) -> Decision {
    if queue.ready == 0 {
        return Decision::Wait { until_us: u64::MAX };
    }
    if rule.is_synchronous() {
        let alone = view.models.iter().all(|peer| peer.running == 0);
        return if alone && view.turn == model {
            Decision::Launch
        } else {
            Decision::Wait { until_us: u64::MAX }
        };
    }
    let deadline_us = queue.oldest_us.saturating_add(wait_us_max);
    // A long stretch keeps the device busy by itself, so waiting for company would save nothing.
    if queue.long || view.now_us >= deadline_us || nobody_else_will_move(model, queue, view) {
        return Decision::Launch;
    }
    let wait_until_us = match rule {
        LaunchRule::Threshold(_) | LaunchRule::Planned(_) => {
            (queue.ready < rule.threshold(model, view.live())).then_some(deadline_us)
        }
        LaunchRule::Lookahead => lookahead(model, queue, view),
        _ => None,
    };
    match wait_until_us {
        None => Decision::Launch,
        Some(until_us) => Decision::Wait {
            until_us: until_us.min(deadline_us),
        },
    }
}

/// Liveness, whatever is configured: if no other model runs, and those with something waiting hold back too, then only one
/// of them can bring anything about: the one with the fullest queue.
fn nobody_else_will_move(model: ModelIndex, queue: Queue, view: View<'_>) -> bool {
    view.models
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != model.index())
        .all(|(index, peer)| {
            let less_full = (peer.waiting, model.0) < (queue.ready, index as u32);
            peer.running == 0 && (peer.waiting == 0 || peer.stalled || (peer.holding && less_full))
        })
}

/// One-step look-ahead. With k requests waiting and the next event that can bring more in r: waiting costs k·r
/// request-seconds; launching makes the newcomers, E[a] of them, wait about L(k) − r each. Launch iff
/// k·r ≥ E[a]·(L(k) − r), or nobody can come. Requests that are written ahead count by what they lose, on either side. Returns
/// `None` to launch, else when to look again at the latest.
fn lookahead(model: ModelIndex, queue: Queue, view: View<'_>) -> Option<u64> {
    let peers = view
        .models
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != model.index());
    let (residual_us, newcomers) = peers
        .filter_map(|(_, peer)| next_arrivals(peer, view.now_us))
        .min_by_key(|&(residual_us, _)| residual_us)?;
    let own_us = view.models[model.index()].step_us as f64;
    let residual = residual_us as f64;
    let coming = newcomers * f64::from(queue.losing_next);
    if f64::from(queue.losing) * residual >= coming * (own_us - residual) {
        return None;
    }
    // The event itself wakes this model. If it is late, look again: what is late may be late for long.
    Some(view.now_us.saturating_add(2 * residual_us.max(1)))
}

/// When a peer can bring requests next, and how many are expected then.
fn next_arrivals(peer: &ModelView, now_us: u64) -> Option<(u64, f64)> {
    let (residual_us, newcomers) = if peer.running > 0 {
        // A step that is overdue takes as long again as it is late: the best guess for what has no scale of its own.
        (peer.ends_us.abs_diff(now_us), f64::from(peer.newcomers))
    } else if peer.stalled {
        return None;
    } else {
        // Idle with something waiting, or on its way there: about to launch.
        (peer.step_us, f64::from(peer.waiting) * f64::from(peer.to_here))
    };
    (newcomers > 0.0).then_some((residual_us, newcomers))
}

/// Whose turn it is next under a synchronous rule, `after` a step of that model: itself while something waits there
/// (`model-sync`), else the next model in a circle that has something waiting.
pub fn next_turn(rule: &LaunchRule, after: ModelIndex, models: &[ModelView]) -> ModelIndex {
    if *rule == LaunchRule::ModelSync && models[after.index()].waiting > 0 {
        return after;
    }
    let count = models.len();
    (1..=count)
        .map(|offset| (after.index() + offset) % count)
        .find(|&index| models[index].waiting > 0)
        .map_or(after, |index| ModelIndex(index as u32))
}

#[cfg(test)]
mod tests;
