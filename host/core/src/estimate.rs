//! What the launch rules know of the future, measured as it goes: how long a step takes, and where requests go.

use crate::ids::ModelIndex;
use crate::limits::MODELS_MAX;

/// Weight of a new step in the running mean of latencies: recent steps count, one outlier does not.
const STEP_WEIGHT: f64 = 0.1;
/// Steps after which a routing count has lost half its weight.
const ROUTING_HALF_LIFE_STEPS: f64 = 1_000.0;
/// Rows' worth of belief in an even split before anything is counted.
const ROUTING_PRIOR: f64 = 1.0;
/// Batch sizes are grouped by powers of two: 1, 2, 3–4, 5–8, … The last group takes all that is larger.
const BUCKETS: usize = 10;

/// Running mean of a model's step latency by batch size.
#[derive(Clone, Debug, Default)]
pub struct StepLatency {
    mean_us: [Option<f64>; BUCKETS],
}

impl StepLatency {
    /// A step of `rows` rows took this long.
    pub fn record(&mut self, rows: usize, us: u64) {
        let mean = &mut self.mean_us[bucket(rows)];
        let us = us as f64;
        *mean = Some(mean.map_or(us, |mean| mean + STEP_WEIGHT * (us - mean)));
    }

    /// The expected latency of a step of `rows` rows: its group's mean, else the nearest group's, else 0.
    pub fn expected_us(&self, rows: usize) -> u64 {
        let wanted = bucket(rows);
        (0..BUCKETS)
            .filter_map(|index| self.mean_us[index].map(|mean| (index.abs_diff(wanted), mean)))
            .min_by_key(|&(distance, _)| distance)
            .map_or(0, |(_, mean)| mean as u64)
    }
}

/// How fast requests get on that are written ahead: from one settling step to the next of the same request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    tokens: f32,
    us: f32,
}

impl Progress {
    /// A request has got so many tokens in so many microseconds.
    pub fn record(&mut self, tokens: u32, us: u64) {
        self.tokens += STEP_WEIGHT as f32 * (tokens as f32 - self.tokens);
        self.us += STEP_WEIGHT as f32 * (us as f32 - self.us);
    }

    /// Tokens of one request per microsecond; infinite as long as nothing is known.
    pub fn tokens_per_us(&self) -> f32 {
        if self.us > 0.0 {
            self.tokens / self.us
        } else {
            f32::INFINITY
        }
    }
}

/// All moves after a model's steps since the start, by where they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Requests that went on at each model; at the model itself: stayed.
    pub requests: [u64; MODELS_MAX],
    /// Tokens that those moves committed.
    pub committed: [u64; MODELS_MAX],
    /// Moves to another model that did not end a request.
    pub handoffs: u64,
}

/// Weight of a request's last step in its running mean of leaving a model: a dozen steps tell an easy stretch from a hard
/// one.
const LEAVING_WEIGHT: f32 = 0.1;
/// Weight of one request's step in the spread of those means.
const SPREAD_WEIGHT: f32 = 0.002;

/// How likely single requests are to leave a model after a step. Requests differ, and are hard for stretches, so each
/// has a running mean of its own; but a mean of a dozen steps is mostly noise if in truth all are alike. So it counts as much
/// as the spread of the means exceeds what chance alone would give (shrinkage as of James and Stein).
#[derive(Clone, Copy, Debug, Default)]
pub struct Leaving {
    spread: f32,
}

impl Leaving {
    /// A request, with `mean` until now, did or did not leave; `usual` is the probability over all requests. Returns its
    /// new mean.
    pub fn record(&mut self, mean: Option<f32>, left: bool, usual: f32) -> f32 {
        let before = mean.unwrap_or(usual);
        let mean = before + LEAVING_WEIGHT * (f32::from(u8::from(left)) - before);
        self.spread += SPREAD_WEIGHT * ((mean - usual).powi(2) - self.spread);
        mean
    }

    /// The probability that a request with this mean leaves after its next step.
    pub fn probability(&self, mean: Option<f32>, usual: f32) -> f32 {
        // Variance of an exponential mean of independent trials.
        let chance = LEAVING_WEIGHT / (2.0 - LEAVING_WEIGHT) * usual * (1.0 - usual);
        let trust = if self.spread > chance {
            1.0 - chance / self.spread
        } else {
            0.0
        };
        mean.map_or(usual, |mean| usual + trust * (mean - usual))
    }
}

fn bucket(rows: usize) -> usize {
    (usize::BITS - rows.saturating_sub(1).leading_zeros()).min(BUCKETS as u32 - 1) as usize
}

/// Where requests go after a step of one model: counts with exponential forgetting.
#[derive(Clone, Debug)]
pub struct RoutingCounts {
    counts: [f64; MODELS_MAX],
    models: usize,
}

impl RoutingCounts {
    /// Nothing counted yet, for a deployment of so many models.
    pub fn new(models: usize) -> Self {
        Self {
            counts: [ROUTING_PRIOR / models as f64; MODELS_MAX],
            models,
        }
    }

    /// A step has ended; older counts fade.
    pub fn fade(&mut self) {
        let keep = 0.5f64.powf(1.0 / ROUTING_HALF_LIFE_STEPS);
        self.counts.iter_mut().for_each(|count| *count *= keep);
    }

    /// One request of the step goes on at `to`.
    pub fn record(&mut self, to: ModelIndex) {
        self.counts[to.index()] += 1.0;
    }

    /// The probability that a request goes on at `to`.
    pub fn probability(&self, to: ModelIndex) -> f32 {
        (self.counts[to.index()] / self.total()) as f32
    }

    /// The probability that a request which leaves `at` goes to `to`; 0 for `to == at`.
    pub fn probability_leaving(&self, at: ModelIndex, to: ModelIndex) -> f32 {
        let leaving = self.total() - self.counts[at.index()];
        if to == at || leaving <= 0.0 {
            0.0
        } else {
            (self.counts[to.index()] / leaving) as f32
        }
    }

    fn total(&self) -> f64 {
        self.counts[..self.models].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_sizes_fall_into_groups_and_neighbours_stand_in() {
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(bucket), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(bucket(usize::MAX), BUCKETS - 1);
        let mut latency = StepLatency::default();
        assert_eq!(latency.expected_us(4), 0);
        latency.record(1, 100);
        latency.record(8, 400);
        assert_eq!(
            (latency.expected_us(1), latency.expected_us(2), latency.expected_us(64)),
            (100, 100, 400)
        );
    }

    /// Alike requests are told apart by nothing; unlike ones by their own history.
    #[test]
    fn single_requests_count_only_as_far_as_they_differ() {
        use crate::draw::{Purpose, uniform_f32};
        for (p, spread) in [([0.35, 0.35], 0.05), ([0.05, 0.65], 0.5)] {
            let (mut leaving, mut means) = (Leaving::default(), [None; 2]);
            for step in 0..5_000 {
                for (request, mean) in means.iter_mut().enumerate() {
                    let draw = uniform_f32(request as u64, step, Purpose::Admission);
                    *mean = Some(leaving.record(*mean, draw < p[request], 0.35));
                }
            }
            let [low, high] = means.map(|mean| leaving.probability(mean, 0.35));
            assert!(
                if p[0] == p[1] {
                    (high - low).abs() < spread
                } else {
                    high - low > spread * 0.6
                },
                "{low} {high}"
            );
        }
    }

    #[test]
    fn routing_probabilities_follow_the_counts_and_sum_to_one() {
        let mut counts = RoutingCounts::new(2);
        for row in 0..1_000 {
            counts.record(ModelIndex(u32::from(row % 4 == 0)));
        }
        let large = counts.probability(ModelIndex(1));
        assert!((large - 0.25).abs() < 0.01, "{large}");
        assert!((large + counts.probability(ModelIndex(0)) - 1.0).abs() < 1e-6);
    }
}
