//! How long a simulated step takes.

/// Latency of a model's step, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// The same for every step.
    Constant(f64),
    /// Depends on the step and on whether another model runs.
    Curve(LatencyCurve),
}

/// A step of b rows with n tokens takes `base(b) + token_us · (n − b)`, and while another model runs everything
/// takes `busy_factor` times as long.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyCurve {
    /// (rows, microseconds), ascending in rows; linear between them, the last slope goes on, the first value holds below.
    pub points: Vec<(u32, f64)>,
    /// Microseconds for every token beyond one a row.
    pub token_us: f64,
    /// Factor while another model runs; 1: models do not disturb each other.
    pub busy_factor: f64,
}

impl Latency {
    /// Microseconds of a step of `rows` rows that feeds `tokens` tokens, with another model beside it all the time or never.
    pub fn step_us(&self, rows: usize, tokens: usize, peer_busy: bool) -> f64 {
        match self {
            Latency::Constant(us) => *us,
            Latency::Curve(curve) => {
                let us = curve.base_us(rows as f64) + curve.token_us * tokens.saturating_sub(rows) as f64;
                if peer_busy { us * curve.busy_factor } else { us }
            }
        }
    }

    /// How many times as long a step takes while another model runs.
    pub(super) fn busy_factor(&self) -> f64 {
        match self {
            Latency::Constant(_) => 1.0,
            Latency::Curve(curve) => curve.busy_factor,
        }
    }
}

impl LatencyCurve {
    fn base_us(&self, rows: f64) -> f64 {
        let points = &self.points;
        let above = points
            .iter()
            .position(|&(at, _)| f64::from(at) >= rows)
            .unwrap_or(points.len());
        match (above, points.len()) {
            (_, 0) => 0.0,
            (0, _) | (_, 1) => points[0].1,
            (above, count) => {
                let ((x0, y0), (x1, y1)) = (points[above.min(count - 1) - 1], points[above.min(count - 1)]);
                y0 + (y1 - y0) * (rows - f64::from(x0)) / f64::from(x1 - x0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_linear_between_points_and_go_on_beyond_them() {
        let curve = LatencyCurve {
            points: vec![(1, 100.0), (3, 200.0), (5, 220.0)],
            token_us: 2.0,
            busy_factor: 2.0,
        };
        let latency = Latency::Curve(curve);
        for (rows, us) in [(1, 100.0), (2, 150.0), (3, 200.0), (4, 210.0), (5, 220.0), (7, 240.0)] {
            assert_eq!(latency.step_us(rows, rows, false), us, "{rows} rows");
        }
        assert_eq!(latency.step_us(1, 4, false), 106.0);
        assert_eq!(latency.step_us(1, 4, true), 212.0);
    }
}
