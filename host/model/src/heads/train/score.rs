//! How good scores are: loss, recall and precision at a threshold, and the threshold for a wanted recall or share.

/// Scores of examples with known labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// (score, positive), scores descending.
    sorted: Vec<(f32, bool)>,
}

/// What a threshold brings: a score at or above it asks for the large model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confusion {
    /// The threshold.
    pub threshold: f32,
    /// Share of the positive examples that are found.
    pub recall: f64,
    /// Share of positive examples among those found.
    pub precision: f64,
    /// Share of all examples that are found.
    pub share: f64,
}

impl Scored {
    /// Scores and labels, one each an example.
    pub fn new(scores: &[f32], labels: &[f32]) -> Self {
        let mut sorted: Vec<(f32, bool)> = scores
            .iter()
            .zip(labels)
            .map(|(score, label)| (*score, *label > 0.5))
            .collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        Self { sorted }
    }

    /// The same of the opposite: scores 1 - s, labels turned around.
    pub fn complement(&self) -> Self {
        let turned = self
            .sorted
            .iter()
            .rev()
            .map(|(score, positive)| (1.0 - score, !positive));
        Self {
            sorted: turned.collect(),
        }
    }

    /// Mean cross entropy, nats.
    pub fn loss(&self) -> f64 {
        let one = |(score, positive): &(f32, bool)| {
            let probability = f64::from(if *positive { *score } else { 1.0 - score });
            -probability.max(1e-12).ln()
        };
        self.sorted.iter().map(one).sum::<f64>() / self.sorted.len().max(1) as f64
    }

    /// What the threshold brings.
    pub fn at(&self, threshold: f32) -> Confusion {
        let found = self.sorted.partition_point(|(score, _)| *score >= threshold);
        let right = self.sorted[..found].iter().filter(|(_, positive)| *positive).count();
        let positives = self.sorted.iter().filter(|(_, positive)| *positive).count();
        let part = |count: usize, of: usize| if of == 0 { 0.0 } else { count as f64 / of as f64 };
        Confusion {
            threshold,
            recall: part(right, positives),
            precision: part(right, found),
            share: part(found, self.sorted.len()),
        }
    }

    /// The largest threshold that finds at least this part of the positive examples; `None` without any.
    pub fn for_recall(&self, recall: f64) -> Option<Confusion> {
        let positives: Vec<f32> = self.sorted.iter().filter(|it| it.1).map(|it| it.0).collect();
        let wanted = (recall * positives.len() as f64).ceil() as usize;
        let score = positives.get(wanted.max(1) - 1)?;
        Some(self.at(*score))
    }

    /// The smallest threshold that finds at most this part of all examples; `None` if even the largest score is too
    /// common.
    pub fn for_share(&self, share: f64) -> Option<Confusion> {
        let most = (share * self.sorted.len() as f64) as usize;
        let candidates = self.sorted[..most.min(self.sorted.len())].iter().rev();
        let mut points = candidates.map(|(score, _)| self.at(*score));
        points.find(|point| point.share <= share + 1e-12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored() -> Scored {
        Scored::new(&[0.1, 0.9, 0.8, 0.3, 0.3], &[0.0, 1.0, 0.0, 1.0, 0.0])
    }

    #[test]
    fn recall_precision_and_share_are_of_scores_at_or_above() {
        let at = scored().at(0.3);
        assert_eq!((at.recall, at.precision, at.share), (1.0, 0.5, 0.8));
        let none = scored().at(0.95);
        assert_eq!((none.recall, none.precision, none.share), (0.0, 0.0, 0.0));
    }

    #[test]
    fn thresholds_keep_what_was_wanted() {
        let scored = scored();
        assert_eq!(scored.for_recall(0.5).unwrap().threshold, 0.9);
        let all = scored.for_recall(0.9).unwrap();
        assert_eq!((all.threshold, all.recall), (0.3, 1.0));
        // The two examples of 0.3 can only be found together.
        assert_eq!(scored.for_share(0.6).unwrap().threshold, 0.8);
        assert_eq!(scored.for_share(0.8).unwrap().threshold, 0.3);
        assert_eq!(scored.for_share(0.1), None);
        assert_eq!(Scored::new(&[0.5], &[0.0]).for_recall(0.9), None);
    }

    #[test]
    fn loss_is_the_mean_cross_entropy() {
        let loss = Scored::new(&[0.5, 0.25], &[1.0, 0.0]).loss();
        assert!((loss - (-(0.5f64.ln()) - 0.75f64.ln()) / 2.0).abs() < 1e-7, "{loss}");
        assert!(Scored::new(&[1.0], &[0.0]).loss().is_finite());
    }
}
