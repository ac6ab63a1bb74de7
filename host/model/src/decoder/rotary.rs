//! Rotary position embeddings (Su et al., "RoFormer", 2021) in the layout of Hugging Face's models: element i of a head
//! turns with element i + head_dim / 2.

use crate::config::DecoderConfig;

/// How fast each pair of elements turns.
#[derive(Debug)]
pub(crate) struct Rotary {
    /// Radians per position, head_dim / 2 of them.
    speeds: Vec<f32>,
    /// Multiplies cosines and sines.
    scale: f32,
}

impl Rotary {
    pub(crate) fn new(config: &DecoderConfig) -> Self {
        let (speeds, scale) = config.rope_scaling.speeds(config.head_dim, config.rope_theta);
        Self { speeds, scale }
    }

    /// Replaces `out` by the (cosine, sine) of every pair at each of the positions, one position after the other.
    ///
    /// Angles are rounded to f32 where PyTorch rounds them, so that results can be compared.
    pub(crate) fn turns(&self, positions: impl Iterator<Item = u32>, out: &mut Vec<(f32, f32)>) {
        out.clear();
        for position in positions {
            out.extend(self.speeds.iter().map(|speed| {
                let angle = position as f32 * speed;
                (angle.cos() * self.scale, angle.sin() * self.scale)
            }));
        }
    }
}
