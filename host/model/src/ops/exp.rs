//! The exponential function, in a form that compilers turn into vector instructions.

use std::f32::consts::LOG2_E;

/// e^x to within two units in the last place, from the same operations on every processor. Arguments outside of -87.3 to
/// 88 count as these bounds, so that the result is always a normal number; NaN stays NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its series. Adding 1.5 * 2^23 rounds to whole numbers and leaves n in the
/// low bits.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut series = 1.0f32 / 5_040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series.mul_add(r, coefficient);
    }
    series * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential_within_two_units() {
        for i in 0..40_000 {
            let x = -87.2 + i as f32 * 0.004_38;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.5e-7, "exp({x}) = {}, expected {exact}", exp(x));
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 2e-38 && exp(f32::INFINITY) > 1e38);
    }
}
