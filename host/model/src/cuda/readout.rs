//! What comes back from a step: of each row of logits a summary, and its largest logits if any policy asked for them.

use tokenrouter_core::TokenId;
use tokenrouter_core::signal::Signal;

use super::scratch::{PART_WORDS, Scratch, TOP_KEPT};
use crate::signals::{SignalKey, Summary};

/// `Part` of `logits.cu`, for a whole row.
#[derive(Clone, Copy)]
pub(super) struct RowSummary {
    summary: Summary,
    /// The greedy candidate.
    token: TokenId,
    /// Whether the logits are a distribution; where it is not so, their columns and scores are 0.
    pub(super) finite: bool,
}

impl RowSummary {
    /// That of the last step's row.
    pub(super) fn of(scratch: &Scratch, row: usize) -> Self {
        Self::read(&scratch.rows_host.as_slice()[row * PART_WORDS..][..PART_WORDS])
    }

    /// Reads one row's words.
    fn read(words: &[u64]) -> Self {
        debug_assert_eq!(words.len(), PART_WORDS);
        Self {
            summary: Summary {
                max: f64::from(f32::from_bits(words[2] as u32)),
                sum: f64::from_bits(words[0]),
                weighted: f64::from_bits(words[1]),
            },
            token: (words[2] >> 32) as u32,
            finite: words[3] as u32 != 0,
        }
    }

    /// The greedy candidate, if the logits are a distribution.
    pub(super) fn candidate(&self) -> Option<TokenId> {
        self.finite.then_some(self.token)
    }

    /// Appends the columns of `plan`, as [`crate::signals::Signals::append`] does from the logits themselves. `top` has the row's
    /// largest logits, if the plan needs them.
    pub(super) fn append(
        &self,
        plan: &[Signal],
        top: &[u64],
        vocabulary: usize,
        key: SignalKey,
        score: impl Fn(&str) -> f32,
        out: &mut Vec<f32>,
    ) {
        let largest = |k: u32| top.iter().take((k as usize).min(vocabulary)).map(|rank| logit(*rank));
        for signal in plan {
            let end = out.len() + signal.columns();
            match signal {
                Signal::Uniform(_) | Signal::Position | Signal::Newlines => out.extend(key.value(signal)),
                _ if !self.finite => out.resize(end, 0.0),
                Signal::HeadScore(name) => out.push(score(name)),
                Signal::Entropy => out.push(self.summary.entropy() as f32),
                Signal::EntropyNormalised if vocabulary < 2 => out.push(0.0),
                Signal::EntropyNormalised => out.push((self.summary.entropy() / (vocabulary as f64).ln()) as f32),
                Signal::MaxProbability => out.push((1.0 / self.summary.sum) as f32),
                Signal::TopKEntropy(k) => out.push(Summary::of(largest(*k)).entropy() as f32),
                Signal::TopKLogits(k) => {
                    out.extend(largest(*k));
                    out.resize(end, f32::NEG_INFINITY);
                }
                Signal::TopKProbabilities(k) => {
                    out.extend(largest(*k).map(|logit| self.summary.probability(logit) as f32));
                    out.resize(end, 0.0);
                }
            }
        }
    }
}

/// The rows of logits that were copied to the host, asked for in ascending order.
pub(super) struct Whole<'a> {
    rows: std::iter::Peekable<std::iter::Zip<std::slice::Iter<'a, usize>, std::slice::ChunksExact<'a, f32>>>,
}

impl<'a> Whole<'a> {
    /// `copied` has the rows' numbers, `logits` the rows one after the other.
    pub(super) fn new(copied: &'a [usize], logits: &'a [f32], vocabulary: u32) -> Self {
        let logits = logits.chunks_exact(vocabulary as usize);
        Self {
            rows: copied.iter().zip(logits).peekable(),
        }
    }

    /// A row, if it was copied.
    pub(super) fn row(&mut self, row: usize) -> Option<&'a [f32]> {
        let next = self.rows.next_if(|(copied, _)| **copied == row);
        next.map(|(_, logits)| logits)
    }
}

/// The logit of a rank: the inverse of `rank` in `logits.cu`.
fn logit(rank: u64) -> f32 {
    let ordered = (rank >> 32) as u32;
    f32::from_bits(if ordered >> 31 == 1 {
        ordered & 0x7fff_ffff
    } else {
        !ordered
    })
}

/// How many of a row's largest logits a plan needs.
pub(super) fn top_needed(plan: &[Signal]) -> usize {
    let k = plan.iter().map(|signal| match signal {
        Signal::TopKEntropy(k) | Signal::TopKLogits(k) | Signal::TopKProbabilities(k) => *k as usize,
        _ => 0,
    });
    k.max().unwrap_or(0)
}

/// Whether the device's list of largest logits is long enough for a plan.
pub(super) fn top_fits(plan: &[Signal], vocabulary: usize) -> bool {
    top_needed(plan).min(vocabulary) <= TOP_KEPT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Signals;

    const KEY: SignalKey = SignalKey {
        seed: 7,
        position: 41,
        newlines: 1,
    };

    fn plan() -> Vec<Signal> {
        vec![
            Signal::Entropy,
            Signal::TopKLogits(3),
            Signal::EntropyNormalised,
            Signal::TopKEntropy(4),
            Signal::MaxProbability,
            Signal::HeadScore("r2r".to_owned()),
            Signal::Position,
            Signal::TopKProbabilities(7),
            Signal::Uniform(3),
            Signal::Newlines,
        ]
    }

    fn score(head: &str) -> f32 {
        head.len() as f32
    }

    /// What the kernels make of a row of logits, in the plainest way.
    fn on_device(logits: &[f32]) -> (RowSummary, Vec<u64>) {
        let mut ranks: Vec<u64> = logits
            .iter()
            .zip(0u32..)
            .map(|(z, token)| {
                let bits = z.to_bits();
                let ordered = if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 };
                u64::from(ordered) << 32 | u64::from(!token)
            })
            .collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        ranks.resize(TOP_KEPT, 0);
        let summary = Summary::of(logits.iter().copied());
        let words = [
            summary.sum.to_bits(),
            summary.weighted.to_bits(),
            u64::from((summary.max as f32).to_bits()) | u64::from(!(ranks[0] as u32)) << 32,
            1,
        ];
        (RowSummary::read(&words), ranks)
    }

    #[test]
    fn signals_are_those_of_the_logits() {
        for logits in [
            vec![1.0f32, -3.5, 7.25, 7.25, -0.5, 0.0, 2.0, -90.0],
            vec![0.5, 0.25],
            vec![f32::NEG_INFINITY, -2.0, -2.5],
            vec![3.0],
        ] {
            let (summary, ranks) = on_device(&logits);
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            summary.append(&plan(), &ranks, logits.len(), KEY, score, &mut found);
            Signals::default().append(&plan(), Some(&logits), KEY, score, &mut expected);
            assert_eq!(found, expected, "{logits:?}");
            let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(Some(summary.token as usize), logits.iter().position(|z| *z == largest));
        }
    }

    #[test]
    fn without_a_distribution_the_columns_are_there_and_zero() {
        let words = [0, 0, 0, 0];
        let mut found = Vec::new();
        RowSummary::read(&words).append(&plan(), &[], 8, KEY, score, &mut found);
        let mut expected = Vec::new();
        Signals::default().append(&plan(), None, KEY, score, &mut expected);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_list_longer_than_the_devices_is_left_to_the_host() {
        assert!(top_fits(&[Signal::TopKLogits(128)], 1000));
        assert!(!top_fits(&[Signal::Entropy, Signal::TopKEntropy(129)], 1000));
        assert!(
            top_fits(&[Signal::TopKProbabilities(1000)], 100),
            "a short vocabulary is in the list whole"
        );
        assert_eq!(top_needed(&[Signal::Entropy]), 0);
    }
}
