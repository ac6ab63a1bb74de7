//! Step latencies in whole quanta of time.

use crate::error::PlanError;

/// Largest relative error of a latency that the default quantum accepts. A latency that is off by this share moves the
/// predicted throughput by no more than about the same share, and the best threshold hardly ever.
const DEFAULT_ERROR_MAX: f64 = 0.005;

/// Most quanta that the default gives to the shortest latency.
const DEFAULT_SHORTEST_QUANTA_MAX: u16 = 32;

/// Largest relative error of a latency that the fine quantum accepts: latencies written with few digits come out exactly.
const FINE_ERROR_MAX: f64 = 1e-5;

/// Most quanta that the fine quantum gives to the shortest latency.
const FINE_SHORTEST_QUANTA_MAX: u16 = 64;

/// Step latencies `L_i = d_i * quantum`, with whole `d_i`.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    quantum_ms: f64,
    quanta: Vec<u16>,
}

impl Latencies {
    /// Rounds each of `latency_ms` to the nearest number of quanta, at least one.
    ///
    /// # Errors
    /// No latency, one that is not positive and finite, a quantum that is not or is longer than the shortest latency,
    /// or one so short that a latency has more than `u16::MAX` quanta.
    pub fn with_quantum(latency_ms: &[f64], quantum_ms: f64) -> Result<Self, PlanError> {
        let latency_ms_min = shortest(latency_ms)?;
        if !(quantum_ms > 0.0 && quantum_ms <= latency_ms_min) {
            return Err(PlanError::Quantum {
                value: quantum_ms,
                latency_ms_min,
            });
        }
        let quanta = latency_ms.iter().enumerate().map(|(model, ms)| {
            let quanta = (ms / quantum_ms).round();
            if quanta <= f64::from(u16::MAX) {
                Ok(quanta as u16)
            } else {
                Err(PlanError::QuantumTooShort {
                    model,
                    quanta,
                    quanta_max: u16::MAX,
                })
            }
        });
        Ok(Self {
            quantum_ms,
            quanta: quanta.collect::<Result<_, _>>()?,
        })
    }

    /// The longest quantum that divides the shortest latency and represents each other one within 0.5 %; where the
    /// shortest latency would need more than 32 quanta for that, the one of these 32 with the smallest error.
    ///
    /// The size of a chain grows with the number of quanta, so a longer quantum is a faster plan: (6.0, 27.9) ms
    /// becomes (3, 14) quanta of 2 ms rather than (60, 279) of 0.1 ms.
    ///
    /// # Errors
    /// As [`Latencies::with_quantum`].
    pub fn new(latency_ms: &[f64]) -> Result<Self, PlanError> {
        Self::within(latency_ms, DEFAULT_ERROR_MAX, DEFAULT_SHORTEST_QUANTA_MAX)
    }

    /// As [`Latencies::new`], but within 0.001 % and up to 64 quanta: (6.0, 27.9) ms become (20, 93) quanta of 0.3 ms. For
    /// systems that [`Handback`](crate::Handback) solves, where more quanta cost little.
    ///
    /// # Errors
    /// As [`Latencies::with_quantum`].
    pub fn fine(latency_ms: &[f64]) -> Result<Self, PlanError> {
        Self::within(latency_ms, FINE_ERROR_MAX, FINE_SHORTEST_QUANTA_MAX)
    }

    fn within(latency_ms: &[f64], error_max: f64, shortest_quanta_max: u16) -> Result<Self, PlanError> {
        let latency_ms_min = shortest(latency_ms)?;
        let error = |quantum_ms: f64| {
            let off = |ms: &f64| ((ms / quantum_ms).round() * quantum_ms / ms - 1.0).abs();
            latency_ms.iter().map(off).fold(0.0, f64::max)
        };
        let mut best = (f64::INFINITY, latency_ms_min);
        for shortest_quanta in 1..=shortest_quanta_max {
            let quantum_ms = latency_ms_min / f64::from(shortest_quanta);
            let error = error(quantum_ms);
            if error < best.0 {
                best = (error, quantum_ms);
            }
            if error <= error_max {
                break;
            }
        }
        Self::with_quantum(latency_ms, best.1)
    }

    /// M, the number of models.
    pub fn models(&self) -> usize {
        self.quanta.len()
    }

    /// The quantum, in ms.
    pub fn quantum_ms(&self) -> f64 {
        self.quantum_ms
    }

    /// `d_i`: the latency of each model in quanta, at least 1.
    pub fn quanta(&self) -> &[u16] {
        &self.quanta
    }

    /// The latency of model i that a plan works with, in ms: the given one, rounded to whole quanta.
    pub fn latency_ms(&self, i: usize) -> f64 {
        f64::from(self.quanta[i]) * self.quantum_ms
    }
}

/// The shortest latency, in ms, once all are known to be latencies.
fn shortest(latency_ms: &[f64]) -> Result<f64, PlanError> {
    if latency_ms.is_empty() {
        return Err(PlanError::NoModels);
    }
    for (model, &value) in latency_ms.iter().enumerate() {
        if !(value.is_finite() && value > 0.0) {
            return Err(PlanError::Latency { model, value });
        }
    }
    Ok(latency_ms.iter().copied().fold(f64::INFINITY, f64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_longest_quantum_that_is_close_enough() {
        assert_eq!(Latencies::new(&[6.0, 27.9]).unwrap().quanta(), [3, 14]);
        assert_eq!(Latencies::new(&[5.0, 25.0]).unwrap().quanta(), [1, 5]);
        assert_eq!(Latencies::new(&[27.9, 6.0]).unwrap().quanta(), [14, 3]);
        assert_eq!(Latencies::fine(&[6.0, 27.9]).unwrap().quanta(), [20, 93]);
        assert_eq!(Latencies::fine(&[5.0, 25.0]).unwrap().quanta(), [1, 5]);
        for seed in 0..200u32 {
            let ms: Vec<f64> = (1..=3).map(|i| 1.0 + f64::from(seed * i % 97) * 0.37).collect();
            let latencies = Latencies::new(&ms).unwrap();
            for (i, ms) in ms.iter().enumerate() {
                assert!(
                    (latencies.latency_ms(i) / ms - 1.0).abs() < 0.02,
                    "seed {seed}: {ms} ms"
                );
            }
        }
    }

    #[test]
    fn a_wrong_latency_or_quantum_is_named() {
        let says = |result: Result<Latencies, PlanError>| result.unwrap_err().to_string();
        assert!(says(Latencies::new(&[])).contains("at least one model"));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(says(Latencies::new(&[6.0, bad])).starts_with("latency_ms[1]: "));
            assert!(says(Latencies::with_quantum(&[6.0, 27.9], bad)).starts_with("quantum_ms: "));
        }
        assert!(says(Latencies::with_quantum(&[6.0, 27.9], 6.1)).contains("smallest latency (6 ms)"));
        assert!(says(Latencies::with_quantum(&[6.0, 27.9], 1e-6)).contains("use a longer quantum"));
    }
}
