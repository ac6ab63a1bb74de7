//! Rotary frequencies and their scaling for contexts beyond those of training.

use serde::Deserialize;
use serde_json::Value;

/// How rotary frequencies are changed, as `rope_scaling` (or `rope_parameters`) of `config.json` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RopeScaling {
    /// They are not.
    #[default]
    None,
    /// All divided by a factor ("position interpolation", Chen et al., 2023).
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Each divided by a factor of its own, as GGUF files write Llama 3's.
    Factors(Vec<f32>),
    /// Llama 3's: long waves divided by `factor`, short ones kept, those between interpolated.
    Llama3 {
        /// Divides the frequencies of long waves.
        factor: f64,
        /// A wave is long beyond `original_positions / low_freq_factor`.
        low_freq_factor: f64,
        /// A wave is short below `original_positions / high_freq_factor`.
        high_freq_factor: f64,
        /// Positions of training.
        original_positions: f64,
    },
    /// YaRN (Peng et al., 2023), as `transformers` computes it.
    Yarn {
        /// How many times longer the context is.
        factor: f64,
        /// Positions of training.
        original_positions: f64,
        /// Turns within the training context beyond which a frequency is kept.
        beta_fast: f64,
        /// Turns within the training context below which a frequency is divided by `factor`.
        beta_slow: f64,
        /// Multiplies cosines and sines.
        attention_factor: f64,
        /// Whether the bounds between kept and divided are rounded to whole frequencies.
        truncate: bool,
    },
}

#[derive(Deserialize)]
struct Fields {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    attention_factor: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
    truncate: Option<bool>,
}

impl RopeScaling {
    /// Reads the value of `rope_scaling`; `positions` is the configuration's `max_position_embeddings`.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub(crate) fn parse(value: &Value, positions: usize) -> Result<Self, String> {
        // Both names of the kind appear in one file, with the same value; only one of them may be read.
        let mut value = value.clone();
        if let Some(object) = value.as_object_mut()
            && object.contains_key("rope_type")
        {
            object.remove("type");
        }
        let fields: Fields = match &value {
            Value::Null => return Ok(Self::None),
            other => Fields::deserialize(other).map_err(|error| format!("rope_scaling {value}: {error}"))?,
        };
        let positive = |name: &str, value: Option<f64>| match value {
            Some(value) if value.is_finite() && value > 0.0 => Ok(value),
            Some(value) => Err(format!("rope_scaling: {name} is {value}, expected a positive number")),
            None => Err(format!("rope_scaling: {name} is missing")),
        };
        let original = fields.original_max_position_embeddings;
        match fields.rope_type.as_deref() {
            Some("default") => Ok(Self::None),
            None if fields.factor.is_none() => Ok(Self::None),
            Some("linear") => Ok(Self::Linear {
                factor: positive("factor", fields.factor)?,
            }),
            Some("llama3") => {
                let (low, high) = (
                    positive("low_freq_factor", fields.low_freq_factor)?,
                    positive("high_freq_factor", fields.high_freq_factor)?,
                );
                if low >= high {
                    return Err(format!(
                        "rope_scaling: low_freq_factor {low} is not below high_freq_factor {high}"
                    ));
                }
                Ok(Self::Llama3 {
                    factor: positive("factor", fields.factor)?,
                    low_freq_factor: low,
                    high_freq_factor: high,
                    original_positions: positive("original_max_position_embeddings", original)?,
                })
            }
            Some("yarn") => {
                let factor = positive("factor", fields.factor)?;
                let mscale = |scale: f64| match factor <= 1.0 {
                    true => 1.0,
                    false => 0.1 * scale * factor.ln() + 1.0,
                };
                let attention_factor = match (fields.attention_factor, fields.mscale, fields.mscale_all_dim) {
                    (Some(given), ..) => given,
                    (None, Some(one), Some(all)) if one != 0.0 && all != 0.0 => mscale(one) / mscale(all),
                    _ => mscale(1.0),
                };
                Ok(Self::Yarn {
                    factor,
                    original_positions: positive(
                        "original_max_position_embeddings",
                        Some(original.unwrap_or(positions as f64)),
                    )?,
                    beta_fast: positive("beta_fast", Some(fields.beta_fast.unwrap_or(32.0)))?,
                    beta_slow: positive("beta_slow", Some(fields.beta_slow.unwrap_or(1.0)))?,
                    attention_factor: positive("attention_factor", Some(attention_factor))?,
                    truncate: fields.truncate.unwrap_or(true),
                })
            }
            kind => Err(format!(
                "rope_scaling of type {} is not supported, expected default, linear, llama3 or yarn",
                kind.map_or_else(|| "null".to_owned(), |kind| format!("\"{kind}\""))
            )),
        }
    }

    /// Radians per position of each pair of elements of a head, and what cosines and sines are multiplied with.
    pub(crate) fn speeds(&self, head_dim: usize, theta: f64) -> (Vec<f32>, f32) {
        // Rounded to f32 where PyTorch rounds it, so that results can be compared.
        let plain = |i: usize| 1.0 / theta.powf((2 * i) as f64 / head_dim as f64) as f32;
        let plain: Vec<f32> = (0..head_dim / 2).map(plain).collect();
        match self.clone() {
            Self::None => (plain, 1.0),
            Self::Factors(factors) => (
                plain
                    .iter()
                    .zip(factors)
                    .map(|(speed, factor)| speed / factor)
                    .collect(),
                1.0,
            ),
            Self::Linear { factor } => (plain.iter().map(|speed| speed / factor as f32).collect(), 1.0),
            Self::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_positions,
            } => {
                let scaled = |speed: &f32| {
                    let speed = f64::from(*speed);
                    let turns = original_positions * speed / std::f64::consts::TAU;
                    let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                    ((1.0 - kept) * speed / factor + kept * speed) as f32
                };
                (plain.iter().map(scaled).collect(), 1.0)
            }
            Self::Yarn {
                factor,
                original_positions,
                beta_fast,
                beta_slow,
                attention_factor,
                truncate,
            } => {
                let bound = |turns: f64| {
                    head_dim as f64 * (original_positions / (turns * std::f64::consts::TAU)).ln() / (2.0 * theta.ln())
                };
                let (mut low, mut high) = (bound(beta_fast), bound(beta_slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let (low, mut high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
                if low == high {
                    high += 0.001;
                }
                let scaled = |(i, speed): (usize, &f32)| {
                    let speed = f64::from(*speed);
                    let divided = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    (divided * speed / factor + (1.0 - divided) * speed) as f32
                };
                (plain.iter().enumerate().map(scaled).collect(), attention_factor as f32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scaling(value: &Value) -> Result<RopeScaling, String> {
        RopeScaling::parse(value, 4_096)
    }

    #[test]
    fn kinds_are_read_under_both_of_their_names() {
        assert_eq!(scaling(&Value::Null), Ok(RopeScaling::None));
        assert_eq!(
            scaling(&json!({"rope_theta": 1e6, "rope_type": "default"})),
            Ok(RopeScaling::None)
        );
        assert_eq!(
            scaling(&json!({"type": "linear", "factor": 2.0})),
            Ok(RopeScaling::Linear { factor: 2.0 })
        );
        let both = scaling(&json!({"type": "yarn", "rope_type": "yarn", "factor": 4.0})).unwrap();
        let RopeScaling::Yarn {
            original_positions,
            attention_factor,
            ..
        } = both
        else {
            panic!("{both:?}")
        };
        assert_eq!(original_positions, 4_096.0);
        assert!((attention_factor - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-12);
        for (value, message) in [
            (
                json!({"rope_type": "longrope", "factor": 2.0}),
                "of type \"longrope\" is not supported",
            ),
            (json!({"rope_type": "linear"}), "factor is missing"),
            (
                json!({"rope_type": "linear", "factor": 0.0}),
                "factor is 0, expected a positive number",
            ),
            (
                json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}),
                "not below",
            ),
        ] {
            assert!(scaling(&value).unwrap_err().contains(message), "{value}");
        }
    }

    /// Short waves are kept and long ones divided, whichever way the bounds between them are found.
    #[test]
    fn scaled_frequencies_lie_between_divided_and_plain_ones() {
        let plain = RopeScaling::None.speeds(64, 1e5).0;
        for value in [
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 2048}),
            json!({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2048}),
        ] {
            let (speeds, _) = scaling(&value).unwrap().speeds(64, 1e5);
            assert_eq!(speeds[0], plain[0]);
            assert!((speeds[31] / plain[31] * 8.0 - 1.0).abs() < 1e-6);
            let ratios: Vec<f32> = speeds.iter().zip(&plain).map(|(speed, plain)| speed / plain).collect();
            assert!(ratios.is_sorted_by(|a, b| a >= &(b - 1e-6)), "{ratios:?}");
        }
    }
}
