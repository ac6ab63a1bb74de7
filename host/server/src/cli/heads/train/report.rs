//! What a trained head is worth on held-out positions.

use tokenrouter_model::heads::train::{Confusion, Scored};

use crate::cli::table::Table;

const RECALLS: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 0.99];

/// The threshold as the head's policy compares with it. CITER hands over below its threshold, the others at or above: a
/// score that is to be found must lie below by more than the rounding of its complement.
pub(super) fn threshold(chosen: &Confusion, complement: bool) -> f64 {
    let threshold = f64::from(chosen.threshold);
    if complement {
        (1.0 - threshold + f64::from(f32::EPSILON)).min(1.0)
    } else {
        threshold
    }
}

/// Loss, a line for several recalls, and the chosen threshold.
pub(super) fn text(scored: &Scored, chosen: Option<&Confusion>, complement: bool) -> String {
    let headings = ["threshold", "recall %", "precision %", "of all positions %"];
    let mut table = Table::new(headings.map(str::to_owned).to_vec());
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let mut add = |at: &Confusion, mark: &str| {
        let threshold = format!("{mark}{:.4}", threshold(at, complement));
        table.push(vec![
            threshold,
            percent(at.recall),
            percent(at.precision),
            percent(at.share),
        ]);
    };
    for recall in RECALLS {
        if let Some(at) = scored.for_recall(recall) {
            add(&at, "");
        }
    }
    if let Some(chosen) = chosen {
        add(chosen, "noted: ");
    }
    format!("held-out loss {:.4} nats\n{table}", scored.loss())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citers_threshold_is_just_above_the_scores_that_are_to_be_found() {
        let scores = [0.9_f32, 0.2, 0.7];
        // CITER's labels: whether the small model is good.
        let scored = Scored::new(&scores, &[1.0, 0.0, 1.0]).complement();
        let chosen = scored.for_recall(1.0).unwrap();
        let threshold = threshold(&chosen, true);
        let handed_over: Vec<bool> = scores.iter().map(|score| f64::from(*score) < threshold).collect();
        assert_eq!(handed_over, [false, true, false], "{threshold}");
        assert!(text(&scored, Some(&chosen), true).contains("noted: 0.2"));
    }
}
