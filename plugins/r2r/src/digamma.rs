//! The digamma function.

/// From here on the asymptotic series is exact to about 1e-14.
const SERIES_MIN: f64 = 10.0;

/// Below it no logit is worth the many steps of recurrence.
const ARGUMENT_MIN: f64 = -1000.0;

/// ψ(x), the derivative of ln Γ(x). Not a number below -1000 and at the poles 0, -1, -2, …
///
/// Recurrence ψ(x) = ψ(x + 1) - 1/x up to 10, then the asymptotic series (Abramowitz and Stegun 6.3.5 and 6.3.18).
pub fn digamma(x: f64) -> f64 {
    if !(ARGUMENT_MIN..f64::INFINITY).contains(&x) || (x <= 0.0 && x == x.floor()) {
        return f64::NAN;
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < SERIES_MIN {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    // Bernoulli numbers B(2n) / 2n.
    let tail = y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0)))));
    sum + x.ln() - 0.5 / x - tail
}

#[cfg(test)]
mod tests {
    use super::digamma;

    const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

    fn close(x: f64, expected: f64) {
        let found = digamma(x);
        assert!(
            (found - expected).abs() < 1e-12,
            "ψ({x}) = {found}, expected {expected}"
        );
    }

    #[test]
    fn known_values() {
        close(1.0, -EULER_GAMMA);
        close(2.0, 1.0 - EULER_GAMMA);
        close(0.5, -EULER_GAMMA - 2.0 * 2f64.ln());
        close(10.0, 2.251_752_589_066_721);
        close(100.0, 4.600_161_852_738_087);
        // By reflection: ψ(1 - x) - ψ(x) = π cot(π x), at x = 3/2, where the cotangent is 0.
        close(-0.5, digamma(1.5));
    }

    #[test]
    fn it_is_not_a_number_where_it_has_none() {
        for x in [0.0, -1.0, -20.0, -1000.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!(digamma(x).is_nan(), "ψ({x})");
        }
    }
}
