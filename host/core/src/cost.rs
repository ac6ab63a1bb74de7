//! What a step costs by what is in it: a line through the steps that were measured.

/// Weight of a new step in the long run: what is older than a few hundred steps has faded.
const WEIGHT: f64 = 0.01;
/// Rows, tokens beyond one a row, and the share of the step beside another model's.
const FACTORS: usize = 3;
/// How much the factors must vary before a slope is believed, in squares of their units: slopes of what hardly varies are drawn
/// towards 0, so what nobody has tried yet counts as free, and is tried.
const RIDGE: [f64; FACTORS] = [0.02, 0.02, 0.0002];
/// From this variance of the share on, what is measured of it replaces what was known.
const SHARE_VARIANCE_MIN: f64 = 0.01;

/// What other models have to know of a model's steps to decide whether to write ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepCosts {
    /// How long its next step would take with no other model beside it, in microseconds; 0: not known.
    pub alone_us: f32,
    /// How much longer its steps take while another model runs; 1 or less: no longer.
    pub slowdown: f32,
    /// What it takes to run a step at all, without what rows and tokens add, in microseconds.
    pub base_us: f32,
    /// What one token more adds to a step, in microseconds.
    pub token_us: f32,
}

/// The latency of a model's steps as `base + row_us · rows + token_us · (tokens − rows)`, more by a share while another model runs
/// (as on a device that they share). Fitted by least squares with exponential forgetting.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepCost {
    steps: f64,
    mean: [f64; FACTORS],
    mean_us: f64,
    /// Of the factors with each other, and with the latency.
    covariance: [[f64; FACTORS]; FACTORS],
    covariance_us: [f64; FACTORS],
    slopes: [f64; FACTORS],
    share_known: bool,
}

impl StepCost {
    /// A step of `rows` rows with `tokens` tokens took `us` microseconds; in `beside_us` of them another model ran.
    pub fn record(&mut self, rows: usize, tokens: usize, us: u64, beside_us: u64) {
        let us = us.max(1) as f64;
        let share = (beside_us as f64 / us).min(1.0);
        let factors = [rows as f64, tokens.saturating_sub(rows) as f64, share];
        self.steps += 1.0;
        let weight = (1.0 / self.steps).max(WEIGHT);
        let off = std::array::from_fn::<_, FACTORS, _>(|index| factors[index] - self.mean[index]);
        let off_us = us - self.mean_us;
        for row in 0..FACTORS {
            self.mean[row] += weight * off[row];
            for column in 0..FACTORS {
                let covariance = &mut self.covariance[row][column];
                *covariance = (1.0 - weight) * (*covariance + weight * off[row] * off[column]);
            }
            let covariance = &mut self.covariance_us[row];
            *covariance = (1.0 - weight) * (*covariance + weight * off[row] * off_us);
        }
        self.mean_us += weight * off_us;
        self.fit();
    }

    fn fit(&mut self) {
        let share_known = self.covariance[2][2] >= SHARE_VARIANCE_MIN;
        self.share_known |= share_known;
        // With a share that hardly varies, its slope is what it was, and explains its part.
        let mut free = [true, true, share_known || !self.share_known];
        // A slope below 0 is noise: without it, the others explain what there is.
        loop {
            let slopes = self.solve(free);
            let Some(negative) = (0..FACTORS).find(|&index| free[index] && slopes[index] < 0.0) else {
                self.slopes = slopes;
                return;
            };
            self.slopes[negative] = 0.0;
            free[negative] = false;
        }
    }

    /// Least squares for the `free` slopes; the others stay. By elimination in the order of the factors: the matrix is positive
    /// definite.
    fn solve(&self, free: [bool; FACTORS]) -> [f64; FACTORS] {
        let mut matrix = self.covariance;
        let mut right = self.covariance_us;
        for index in 0..FACTORS {
            matrix[index][index] += RIDGE[index];
            for other in 0..FACTORS {
                if free[index] && !free[other] {
                    right[index] -= self.covariance[index][other] * self.slopes[other];
                }
                if !free[index] || !free[other] {
                    matrix[index][other] = f64::from(u8::from(index == other));
                }
            }
            if !free[index] {
                right[index] = self.slopes[index];
            }
        }
        for pivot in 0..FACTORS {
            for row in pivot + 1..FACTORS {
                let (above, below) = matrix.split_at_mut(row);
                let (from, with) = (&mut below[0], &above[pivot]);
                let times = from[pivot] / with[pivot];
                for (from, with) in from.iter_mut().zip(with).skip(pivot) {
                    *from -= times * with;
                }
                right[row] -= times * right[pivot];
            }
        }
        for row in (0..FACTORS).rev() {
            for column in row + 1..FACTORS {
                right[row] -= matrix[row][column] * right[column];
            }
            right[row] /= matrix[row][row];
        }
        right
    }

    /// Whether any step was measured.
    pub fn is_known(&self) -> bool {
        self.steps > 0.0
    }

    /// What one row more, of one token, adds to a step, in microseconds.
    pub fn row_us(&self) -> f32 {
        self.slopes[0] as f32
    }

    /// What one token more adds to a step of as many rows, in microseconds.
    pub fn token_us(&self) -> f32 {
        self.slopes[1] as f32
    }

    /// A usual step without what its rows and tokens add: what it costs to run one at all, in microseconds.
    pub fn base_us(&self) -> f32 {
        let added = self.slopes[0] * self.mean[0] + self.slopes[1] * self.mean[1];
        (self.mean_us - added).max(0.0) as f32
    }

    /// A step of `rows` rows of one token each with no other model beside it; `None`: not known, because another always runs.
    pub fn alone_us(&self, rows: usize) -> Option<f32> {
        let known = self.is_known() && (self.share_known || self.mean[2] < 0.5);
        known.then(|| {
            let off = self.slopes[0] * (rows as f64 - self.mean[0]) - self.slopes[1] * self.mean[1];
            let alone = self.mean_us - self.slopes[2] * self.mean[2];
            // Never nothing: a line may cut the axis.
            (alone + off).max(alone / 8.0).max(1.0) as f32
        })
    }

    /// How long a step would have taken alone that took `us` microseconds, `beside_us` of them beside another model's.
    pub fn undisturbed_us(&self, us: u64, beside_us: u64) -> u64 {
        let beside_us = beside_us.min(us);
        us - beside_us + (beside_us as f32 / self.slowdown()) as u64
    }

    /// How much longer steps take while another model runs; 1 as long as nothing says otherwise.
    pub fn slowdown(&self) -> f32 {
        let alone = self.mean_us - self.slopes[2] * self.mean[2];
        if alone > 0.0 {
            1.0 + (self.slopes[2] / alone) as f32
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Purpose, bits};

    /// Steps of a known law are measured; rows and tokens vary together, as requests bring several tokens each.
    fn measured(law: impl Fn(f64, f64, f64) -> f64, beside: impl Fn(u64) -> f64) -> StepCost {
        let mut cost = StepCost::default();
        for step in 0..2_000 {
            let number = |key, below| (bits(7, 3 * step + key, Purpose::Admission) % below) as usize;
            let rows = 1 + number(0, 8);
            let tokens = rows + number(1, 1 + 4 * rows as u64);
            let share = beside(step);
            let us = law(rows as f64, (tokens - rows) as f64, share);
            cost.record(rows, tokens, us as u64, (us * share) as u64);
        }
        cost
    }

    fn near(is: f32, wanted: f32) {
        assert!((is - wanted).abs() <= 0.05 * wanted + 1.0, "{is}, wanted {wanted}");
    }

    #[test]
    fn costs_of_rows_tokens_and_company_are_told_apart() {
        let law = |rows, tokens, share| (5_000.0 + 400.0 * rows + 900.0 * tokens) * (1.0 + 0.5 * share);
        let cost = measured(|rows, tokens, _| law(rows, tokens, 0.0), |_| 0.0);
        near(cost.row_us(), 400.0);
        near(cost.token_us(), 900.0);
        near(cost.base_us(), 5_000.0);
        near(cost.alone_us(3).unwrap(), 6_200.0);
        near(cost.slowdown(), 1.0);
        let cost = measured(law, |step| (step % 4) as f64 / 3.0);
        assert!((cost.slowdown() - 1.5).abs() < 0.1, "{}", cost.slowdown());
    }

    /// What never varies explains nothing, and what is always beside another model says nothing of how it would be alone.
    #[test]
    fn what_never_varies_stays_unknown() {
        let mut cost = StepCost::default();
        assert_eq!(cost.alone_us(1), None);
        (0..100).for_each(|_| cost.record(4, 12, 9_000, 9_000));
        assert_eq!((cost.row_us(), cost.token_us(), cost.slowdown()), (0.0, 0.0, 1.0));
        assert_eq!(cost.alone_us(1), None);
        near(cost.base_us(), 9_000.0);
    }

    /// Once it is known how a model fares alone, that stays so while another always runs.
    #[test]
    fn the_slow_down_is_remembered_where_it_cannot_be_seen() {
        let mut cost = StepCost::default();
        (0..200).for_each(|step| cost.record(1, 1, if step % 2 == 0 { 4_000 } else { 8_000 }, step % 2 * 8_000));
        (0..2_000).for_each(|_| cost.record(1, 1, 8_000, 8_000));
        near(cost.alone_us(1).unwrap(), 4_000.0);
        assert!((cost.slowdown() - 2.0).abs() < 0.1, "{}", cost.slowdown());
    }
}
