//! How often the model that is asked writes what was assumed, and hands back at once: measured for every generation, whether
//! or not anything is written ahead.

use crate::request::GenerationId;

/// What is believed before anything is seen: as likely as not, worth so many observations.
const PRIOR: f32 = 0.5;
const PRIOR_WEIGHT: f32 = 4.0;
/// Weight of a new observation in the long run: what is older than a hundred hand-backs has faded.
const WEIGHT: f32 = 0.02;
/// Generations kept apart. Few are active at a time; of more, the one that was longest without a hand-back is forgotten.
const GENERATIONS_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Seen {
    generation: Option<GenerationId>,
    mean: f32,
    observations: f32,
}

/// The agreement of one model with those that it asks, by generation.
#[derive(Clone, Debug)]
pub struct Agreements {
    /// The latest first.
    seen: Vec<Seen>,
}

impl Default for Agreements {
    fn default() -> Self {
        Self {
            seen: Vec::with_capacity(GENERATIONS_MAX),
        }
    }
}

impl Agreements {
    /// A position that a request of `generation` was asked about was or was not what had been assumed.
    pub fn record(&mut self, generation: Option<GenerationId>, agreed: bool) {
        let found = self.seen.iter().position(|seen| seen.generation == generation);
        let place = found.unwrap_or_else(|| {
            self.seen.truncate(GENERATIONS_MAX - 1);
            self.seen.push(Seen {
                generation,
                mean: PRIOR,
                observations: PRIOR_WEIGHT,
            });
            self.seen.len() - 1
        });
        let seen = &mut self.seen[place];
        seen.observations += 1.0;
        let weight = (1.0 / seen.observations).max(WEIGHT);
        seen.mean += weight * (f32::from(u8::from(agreed)) - seen.mean);
        self.seen[..=place].rotate_right(1);
    }

    /// The probability that the next one is.
    pub fn probability(&self, generation: Option<GenerationId>) -> f32 {
        let seen = self.seen.iter().find(|seen| seen.generation == generation);
        seen.map_or(PRIOR, |seen| seen.mean)
    }

    /// Of the generation that was seen last.
    pub fn latest(&self) -> f32 {
        self.seen.first().map_or(PRIOR, |seen| seen.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_kept_apart_and_the_oldest_is_forgotten() {
        let mut agreements = Agreements::default();
        let generation = |number| Some(GenerationId(number));
        for turn in 0..1_000 {
            agreements.record(generation(1), turn % 10 != 0);
            agreements.record(None, false);
        }
        assert!((agreements.probability(generation(1)) - 0.9).abs() < 0.05);
        assert!(agreements.probability(None) < 0.01);
        assert_eq!(agreements.probability(generation(2)), PRIOR);
        (10..10 + GENERATIONS_MAX as u32 - 1).for_each(|number| agreements.record(generation(number), true));
        assert!(agreements.probability(None) < 0.01, "one of the last sixteen");
        assert_eq!(agreements.probability(generation(1)), PRIOR);
    }

    /// A change of the traffic is followed within some hundred hand-backs.
    #[test]
    fn old_observations_fade() {
        let mut agreements = Agreements::default();
        (0..10_000).for_each(|_| agreements.record(None, true));
        (0..200).for_each(|_| agreements.record(None, false));
        assert!(agreements.probability(None) < 0.05);
    }
}
