//! Closed forms for one-token hand-back over two models with an eager small one: no chain, no iteration.

/// Rule of thumb for the large model's threshold: the smallest whole number that is at least N r / (r + L0) with
/// r = p (L1 - L0), within 1..=n.
///
/// It is where the requests that already wait would lose as much by waiting for another as that one gains. The exact
/// optimum is flat, and this is within 2 of it up to N = 16 at the latencies of the paper.
///
/// `p`: hand-over probability per step of the small model; latencies in ms.
pub fn threshold_rule_of_thumb(n: usize, p: f64, small_ms: f64, large_ms: f64) -> usize {
    let gain = p * (large_ms - small_ms).max(0.0);
    let threshold = (n as f64 * gain / (gain + small_ms)).ceil();
    // A product that is not a number (from inputs that are none) is an eager threshold.
    (threshold as usize).clamp(1, n.max(1))
}

/// Fluid approximation of tokens per second: requests leave the small model as a continuous flow.
///
/// `None` at `threshold` = `n` and beyond, where the flow reaches the threshold only after for ever. Within 5 % of
/// the exact value up to the best threshold from 16 requests on.
///
/// With phi = 1 - (1-p)^(L1/L0), the share of the small model's requests that leave during a step of the large one:
/// where (N-B) phi >= B, the large model never pauses and T = N phi / ((1+phi) p L1). Otherwise q = (N-B) phi wait at
/// its end, the rest arrive within w = (L0/lambda) ln((N-q)/(N-B)), lambda = -ln(1-p), and T = B / (p (L1+w)).
///
/// `p` in (0, 1); latencies in ms.
pub fn fluid_tokens_per_s(n: usize, threshold: usize, p: f64, small_ms: f64, large_ms: f64) -> Option<f64> {
    if threshold >= n {
        return None;
    }
    let (n, b) = (n as f64, threshold as f64);
    let leave_rate = -(-p).ln_1p() / small_ms;
    let phi = -(-leave_rate * large_ms).exp_m1();
    let waiting = (n - b) * phi;
    if waiting >= b {
        return Some(1e3 * n * phi / ((1.0 + phi) * p * large_ms));
    }
    let pause_ms = ((n - waiting) / (n - b)).ln() / leave_rate;
    Some(1e3 * b / (p * (large_ms + pause_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_gives_the_known_thresholds() {
        let rule = [2, 3, 4, 8, 12, 16].map(|n| threshold_rule_of_thumb(n, 0.35, 6.0, 27.9));
        assert_eq!(rule, [2, 2, 3, 5, 7, 9]);
    }

    #[test]
    fn the_rule_is_eager_where_waiting_cannot_pay() {
        assert_eq!(threshold_rule_of_thumb(8, 0.0, 6.0, 27.9), 1);
        assert_eq!(threshold_rule_of_thumb(8, 0.35, 6.0, 5.0), 1);
        assert_eq!(threshold_rule_of_thumb(8, f64::NAN, 6.0, 27.9), 1);
        assert_eq!(threshold_rule_of_thumb(0, 0.35, 6.0, 27.9), 1);
    }

    #[test]
    fn the_fluid_is_undefined_for_all_requests_and_continuous_between_its_cases() {
        assert_eq!(fluid_tokens_per_s(8, 8, 0.35, 6.0, 27.9), None);
        // At (N-B) phi = B both cases hold and agree: q = B, so the pause is nothing, and B = N phi / (1+phi).
        let phi: f64 = 1.0 - 0.65f64.powf(27.9 / 6.0);
        let (n, b) = (1_000_000, (1e6 * phi / (1.0 + phi)) as usize);
        let at = |b| fluid_tokens_per_s(n, b, 0.35, 6.0, 27.9).unwrap();
        assert!((at(b - 1) / at(b + 2) - 1.0).abs() < 1e-5);
    }
}
