//! From raw logits to a token, by definition: penalties, biases and bans from the whole history, the draw, and
//! log-probabilities.

use tokenrouter_core::draw::{Purpose, uniform};
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_engine::Job;
use tokenrouter_model::Penalties;

/// The law of `Shaping`, from the whole history.
pub fn shape(logits: &[f32], tokens: &[TokenId], job: &Job, eos: &[TokenId]) -> Vec<f32> {
    let (prompt, answer) = tokens.split_at(job.prompt.len());
    let Penalties {
        presence,
        frequency,
        repetition,
    } = job.penalties;
    let shape = |(token, logit): (TokenId, &f32)| {
        let ends = eos.contains(&token) || job.stop_tokens.contains(&token);
        if ends && answer.len() < job.min_tokens as usize {
            return f32::NEG_INFINITY;
        }
        let bias = job.logit_bias.iter().find(|(of, _)| *of == token);
        let mut z = logit + bias.map_or(0.0, |(_, bias)| *bias);
        if prompt.contains(&token) || answer.contains(&token) {
            z = if z > 0.0 { z / repetition } else { z * repetition };
        }
        let count = answer.iter().filter(|of| **of == token).count();
        z - frequency * count as f32 - if count > 0 { presence } else { 0.0 }
    };
    (0..).zip(logits).map(shape).collect()
}

/// The law of `Sampler`, by a full sort.
pub fn draw(logits: &[f32], job: &Job, at: ModelIndex, position: usize) -> TokenId {
    let mut order: Vec<(TokenId, f64)> = (0..).zip(logits).map(|(token, z)| (token, f64::from(*z))).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let sampling = job.sampling;
    if sampling.is_greedy() {
        return order[0].0;
    }
    let largest = order[0].1;
    for (_, z) in &mut order {
        *z = ((*z - largest) / f64::from(sampling.temperature)).exp();
    }
    order.retain(|(_, weight)| *weight > 0.0 && *weight >= f64::from(sampling.min_p));
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k as usize);
    }
    let mass: f64 = order.iter().map(|(_, weight)| weight).sum::<f64>() * f64::from(sampling.top_p.min(1.0));
    let mut sum = 0.0;
    let kept = order.iter().take_while(|(_, weight)| {
        let goes_on = sum < mass;
        sum += weight;
        goes_on
    });
    let kept = kept.count().max(1);
    order.truncate(if sampling.top_p < 1.0 { kept } else { order.len() });
    let total: f64 = order.iter().map(|(_, weight)| weight).sum();
    let target = uniform(job.seed, position as u64, Purpose::Sample(at)) * total;
    let mut sum = 0.0;
    for (token, weight) in &order {
        sum += weight;
        if sum > target {
            return *token;
        }
    }
    order[order.len() - 1].0
}

/// The log-probability of a token by these logits.
pub fn logprob(logits: &[f32], token: TokenId) -> f32 {
    let sum: f64 = logits.iter().map(|z| f64::from(*z).exp()).sum();
    (f64::from(logits[token as usize]) - sum.ln()) as f32
}
