//! Whether writing ahead is worth what it costs, by what is measured: how often the models agree, how long steps take, and how
//! much steps of models that share a device slow each other down.

use super::Scheduler;
use crate::ahead::{Draft, Optimistic, SettlingTerms};
use crate::cost::StepCosts;
use crate::launch::{LaunchRule, ModelView, View};
use crate::limits::AHEAD_TOKENS_MAX;
use crate::request::{Answer, SeatIndex};
use crate::step::StepBatch;

/// Tokens less likely than this to be confirmed are never written ahead, however cheap they seem: what they really cost is only
/// estimated.
pub(super) const CHANCE_MIN: f32 = 0.05;
/// Models that slow each other down by less than this are taken to be independent.
const SLOWDOWN_MIN: f32 = 1.1;

/// What is measured of the step that is out. It is entered at the next launch, when it can be seen how long others ran meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    rows: usize,
    tokens: usize,
    others_ran_us: u64,
    /// With a part of a long stretch: such steps say little of what a token adds to others.
    pub(super) is_long: bool,
    /// How long it took, once it has ended.
    pub(super) us: Option<u64>,
}

impl Measured {
    /// The step in `batch` starts.
    pub(super) fn begin(&mut self, batch: &StepBatch, others_ran_us: u64) {
        (self.rows, self.tokens) = (batch.rows.len(), batch.tokens.len());
        self.others_ran_us = others_ran_us;
    }
}

impl<A: Answer> Scheduler<A> {
    /// Enters the last step into what steps cost.
    pub(super) fn learn_cost(&mut self, view: View<'_>) {
        let Measured {
            rows,
            tokens,
            others_ran_us,
            is_long,
            us,
        } = std::mem::take(&mut self.measured);
        if let Some(us) = us.filter(|_| !is_long) {
            let beside_us = view.others_ran_us(self.model).saturating_sub(others_ran_us);
            self.cost.record(rows, tokens, us, beside_us);
            self.alone.record(rows, self.cost.undisturbed_us(us, beside_us));
        }
    }

    /// How long a step of `rows` rows is expected to take. Where models may write ahead, batches have as many rows beside other steps as
    /// without, so the mean over both would fit neither: then it is what the step takes alone.
    pub fn expected_us(&self, rows: usize) -> u64 {
        match self.optimistic {
            Optimistic::Auto if self.cost.is_known() => self.alone.expected_us(rows),
            _ => self.latency.expected_us(rows),
        }
    }

    /// Whether to run a step of nothing but what is written ahead.
    pub(super) fn is_worth_a_step(&self, view: View<'_>) -> bool {
        if self.drafts_live == 0 {
            return false;
        }
        let (mut rows, mut chances, mut saved_us) = (0, 0.0, 0.0);
        for draft in self.drafts.iter().flatten() {
            let Some(chance) = self.chance(draft).filter(|&chance| chance >= CHANCE_MIN) else {
                continue;
            };
            rows += 1;
            saved_us += chance * self.saved_settling_us(draft, view);
            chances += chance;
        }
        match self.optimistic {
            Optimistic::Auto => {
                let own_us = self.cost.alone_us(rows).unwrap_or(0.0);
                rows > 0 && chances * own_us + saved_us >= self.cost_us(view, rows)
            }
            _ => rows > 0,
        }
    }

    /// A token that is confirmed in the end was worth a step of this model. Where it is asked about as well, it may be settled
    /// together with others, which saves half a step of the other model, roughly.
    fn saved_settling_us(&self, draft: &Draft<A>, view: View<'_>) -> f32 {
        let settling_us = view
            .models
            .get(draft.settler.index())
            .map_or(0.0, |model| model.costs.base_us);
        let asked_again = self.counts.probability(draft.settler) * self.agreements.probability(draft.generation);
        asked_again * settling_us / 2.0
    }

    /// What a step of `rows` rows takes from other requests: it slows down the models that run beside it, its tokens have to be fed
    /// there too, and who comes before it ends has to wait. Too much, as long as nobody knows how fast those models are alone.
    fn cost_us(&self, view: View<'_>, rows: usize) -> f32 {
        let runs_beside = self.peers(view).any(|peer| peer.running + peer.ahead > 0);
        let slowdown = if runs_beside { self.cost.slowdown() } else { 1.0 };
        let own_us = self.expected_us(rows).max(1) as f32 * slowdown;
        let (slowed, fed_us) = self.cost_elsewhere(view);
        let delayed = self.peers(view).map(|peer| {
            let residual_us = if peer.running > 0 {
                peer.ends_us.saturating_sub(view.now_us)
            } else {
                peer.step_us
            };
            let unknown = peer.costs.alone_us == 0.0 && peer.running + peer.waiting > 0;
            let delayed_us = peer.newcomers * (own_us - residual_us as f32).max(0.0);
            if unknown { f32::INFINITY } else { delayed_us }
        });
        slowed * own_us + fed_us * rows as f32 + delayed.sum::<f32>()
    }

    fn peers<'v>(&self, view: View<'v>) -> impl Iterator<Item = &'v ModelView> + use<'v, A> {
        let own = self.model.index();
        let peers = view.models.iter().enumerate().filter(move |(index, _)| *index != own);
        peers.map(|(_, peer)| peer)
    }

    /// What a microsecond more of a step here costs the requests at other models, and what a token more costs them.
    fn cost_elsewhere(&self, view: View<'_>) -> (f32, f32) {
        let costs = self.peers(view).map(|peer| {
            let beside = if peer.running > 0 { peer.running } else { peer.waiting } as f32;
            (
                beside * (1.0 - 1.0 / peer.costs.slowdown.max(1.0)),
                beside * peer.costs.token_us,
            )
        });
        costs.fold((0.0, 0.0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1))
    }

    /// For a step that settles.
    pub(super) fn settling_terms(&self) -> SettlingTerms {
        match self.optimistic {
            Optimistic::Auto => {
                let rows = self.queue.len().min(self.limits.rows_max) as f32;
                SettlingTerms {
                    agreement: self.confirming.latest(),
                    // Whoever comes back a step earlier brings its own part of the step along. What it gains is the rest.
                    token_cost: rows * self.cost.token_us() / self.cost.base_us().max(1.0),
                }
            }
            _ => SettlingTerms {
                agreement: 1.0,
                token_cost: 0.0,
            },
        }
    }

    /// For the launch rule: how many requests lose time while this model waits, and how much a request does that comes next; see
    /// [`crate::launch::Queue`].
    pub(super) fn losing(&self) -> (f32, f32) {
        let ready = self.queue.len() as f32;
        if self.optimistic == Optimistic::Off || self.queue.is_empty() {
            return (ready, 1.0);
        }
        let agreement = self.confirming.latest();
        let (mut chances, mut written) = (0.0, 0.0);
        for waiting in &self.queue {
            if waiting.request.suffix.writer.is_some() {
                chances += waiting.request.suffix.chance(agreement);
                written += 1.0;
            }
        }
        let ahead = self.drafts.iter().flatten().filter_map(|draft| self.chance(draft));
        let ahead = ahead.filter(|&chance| chance >= CHANCE_MIN).sum::<f32>();
        (ready - chances + ahead, 1.0 - agreement * written / ready)
    }

    /// Whether the requests that wait here get on better as long as this model does not run: they are written ahead by a model
    /// that a step here would slow down, and what is written now is more likely to be of use than it has to be for their average
    /// speed. Until when, if so: never for longer than a step.
    pub(super) fn waits_for_drafts(&self, view: View<'_>) -> Option<u64> {
        if self.optimistic != Optimistic::Auto || self.rule != LaunchRule::Lookahead {
            return None;
        }
        let writer = self.queue.front()?.request.suffix.writer?;
        let peer = view.models.get(writer.index())?;
        if peer.ahead == 0 || peer.costs.slowdown < SLOWDOWN_MIN || peer.costs.alone_us == 0.0 {
            return None;
        }
        let agreement = self.confirming.latest();
        let chances = self.queue.iter().map(|waiting| match waiting.request.suffix.writer {
            Some(_) => waiting.request.suffix.chance(agreement),
            None => 0.0,
        });
        let waiting = self.queue.len() as f32;
        let mean = chances.sum::<f32>() / waiting;
        // What is written now has to be fed here as well, while all wait for it.
        let token_us = peer.costs.alone_us + self.cost.token_us() * waiting;
        if mean / token_us <= self.progress.tokens_per_us() {
            return None;
        }
        let limit_us = self.ended_us + self.latency.expected_us(self.queue.len()).min(self.limits.wait_us_max);
        (view.now_us < limit_us).then(|| limit_us.min(view.now_us + peer.costs.alone_us as u64))
    }

    /// What this model's steps cost, for others to decide: the next one with all that waits and all that is written ahead.
    pub fn costs(&self) -> StepCosts {
        let rows = (self.queue.len() + self.drafts_live).max(1);
        StepCosts {
            alone_us: self.cost.alone_us(rows).unwrap_or(0.0),
            slowdown: self.cost.slowdown(),
            base_us: self.cost.base_us(),
            token_us: self.cost.token_us(),
        }
    }

    /// How likely the draft's next token is to be of use, if it can be written at all.
    fn chance(&self, draft: &Draft<A>) -> Option<f32> {
        let (window, chance) = match self.optimistic {
            Optimistic::Off => return None,
            Optimistic::Window(tokens) => (tokens, 1.0),
            Optimistic::Auto => {
                let agreement = self.agreements.probability(draft.generation);
                (AHEAD_TOKENS_MAX, agreement.powi(draft.unsettled as i32))
            }
        };
        let may = !draft.blocked
            && draft.entries.len() as u32 <= window
            && draft.end() < draft.length_max
            // Where older requests have taken its KV, it waits.
            && self.kv.fed(draft.seat) >= draft.start;
        may.then_some(chance)
    }

    /// Adds to the step what is written ahead: behind all that is certain, in blocks that nobody else wants, and only what gains
    /// more than it delays the step's other rows.
    pub(super) fn fill_ahead(&mut self, view: View<'_>, batch: &mut StepBatch) {
        if self.drafts_live == 0 {
            return;
        }
        let certain = batch.rows.len() as f32;
        let (slowed, fed_us) = self.cost_elsewhere(view);
        for seat in (0..self.drafts.len() as u32).map(SeatIndex) {
            let rows = batch.rows.len();
            if rows == self.limits.rows_max {
                return;
            }
            let Some(draft) = &self.drafts[seat.0 as usize] else {
                continue;
            };
            let end = draft.end() as usize;
            let Some(chance) = self.chance(draft) else { continue };
            let worth = match self.optimistic {
                // A step of its own has been found to be worth it.
                Optimistic::Auto if certain == 0.0 => chance >= CHANCE_MIN,
                Optimistic::Auto => {
                    let more_us = self.cost.row_us();
                    let own_us = self.expected_us(rows + 1) as f32;
                    let gain_us = chance * (own_us + self.saved_settling_us(draft, view));
                    chance >= CHANCE_MIN && gain_us >= (certain + slowed) * more_us + fed_us
                }
                _ => true,
            };
            if worth && self.kv.reserve_free(seat, end) {
                self.push_ahead_row(seat, view.now_us, batch);
            }
        }
    }
}
