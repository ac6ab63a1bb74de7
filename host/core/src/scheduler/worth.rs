//! Whether writing ahead is worth what it costs, by what is measured: how often the models agree, how long steps take, and how
//! much steps of models that share a device slow each other down.

use super::Scheduler;
use crate::ahead::{Draft, Optimistic};
use crate::launch::{LaunchRule, ModelView, View};
use crate::limits::AHEAD_TOKENS_MAX;
use crate::request::{Answer, SeatIndex};
use crate::step::StepBatch;

/// Tokens less likely than this to be confirmed are never written ahead, however cheap they seem: what they really cost is only
/// estimated.
pub(super) const CHANCE_MIN: f32 = 0.05;
/// Models that slow each other down by less than this are taken to be independent.
const SLOWDOWN_MIN: f32 = 1.1;

impl<A: Answer> Scheduler<A> {
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
                let own_us = self.slowdown.alone_us(rows).max(1) as f32;
                rows > 0 && chances * own_us + saved_us >= self.cost_us(view, rows)
            }
            _ => rows > 0,
        }
    }

    /// A token that is confirmed in the end was worth a step of this model. Where it is asked about as well, it may be settled
    /// together with others, which saves half a step of the other model, roughly.
    fn saved_settling_us(&self, draft: &Draft<A>, view: View<'_>) -> f32 {
        let settling_us = view.models.get(draft.settler.index()).map_or(0, |model| model.step_us) as f32;
        let asked_again = self.counts.probability(draft.settler) * self.agreements.probability(draft.generation);
        asked_again * settling_us / 2.0
    }

    /// What a step of `rows` rows takes from other requests: it slows down the models that run beside it, its tokens have to be fed
    /// there too, and who comes before it ends has to wait. Too much, as long as nobody knows how fast those models are alone.
    fn cost_us(&self, view: View<'_>, rows: usize) -> f32 {
        let own_us = self.latency.expected_us(rows).max(1) as f32;
        let (slowed, fed_us) = self.cost_elsewhere(view);
        let delayed = self.peers(view).map(|peer| {
            let residual_us = if peer.running > 0 {
                peer.ends_us.saturating_sub(view.now_us)
            } else {
                peer.step_us
            };
            let unknown = peer.alone_us == 0 && peer.running + peer.waiting > 0;
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
            (beside * (1.0 - 1.0 / peer.slowdown.max(1.0)), beside * peer.token_us)
        });
        costs.fold((0.0, 0.0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1))
    }

    /// For a step that settles: how likely a position is to be confirmed, and what a token more costs the step's requests, as a
    /// share of the step.
    pub(super) fn settling_terms(&self) -> (f32, f32) {
        match self.optimistic {
            Optimistic::Auto => {
                let rows = self.queue.len().min(self.limits.rows_max);
                let share = self.by_tokens.marginal(self.step_tokens.max(rows));
                (self.confirming.latest(), share * rows as f32)
            }
            _ => (1.0, 0.0),
        }
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
        if peer.ahead == 0 || peer.slowdown < SLOWDOWN_MIN || peer.alone_us == 0 {
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
        let token_us = peer.alone_us as f32 + self.token_us() * waiting;
        if mean / token_us <= self.progress.tokens_per_us() {
            return None;
        }
        let limit_us = self.ended_us + self.latency.expected_us(self.queue.len()).min(self.limits.wait_us_max);
        (view.now_us < limit_us).then(|| limit_us.min(view.now_us + peer.alone_us))
    }

    /// What one token more adds to a step of this model.
    pub fn token_us(&self) -> f32 {
        self.by_tokens.marginal(self.step_tokens) * self.by_tokens.expected_us(self.step_tokens) as f32
    }

    /// How long the next step would take, with all that waits and all that is written ahead, if no other model ran; 0: not
    /// known.
    pub fn alone_us(&self) -> u64 {
        self.slowdown.alone_us((self.queue.len() + self.drafts_live).max(1))
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
                    let own_us = self.latency.expected_us(rows + 1) as f32;
                    let more_us = own_us * self.latency.marginal(rows + 1);
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
