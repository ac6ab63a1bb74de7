//! Heads with random weights, so that a policy can be tried before its head is trained.

use tokenrouter_core::draw::{Purpose, uniform_f32};

use super::error::HeadError;
use super::file::HeadFile;
use super::header::HeadHeader;

/// Fills a head with random weights, a function of the header and `seed`: matrices uniform within sqrt(6 / inputs) (He et
/// al., 2015), so that scores spread over [0, 1]; norms 1, biases 0. The header is marked as not trained.
///
/// # Errors
/// When the header contradicts itself.
pub fn random(header: HeadHeader, seed: u64) -> Result<HeadFile, HeadError> {
    let header = HeadHeader {
        trained: false,
        source: format!("random weights of seed {seed}, not trained"),
        ..header
    };
    let mut draws = 0;
    HeadFile::build("random head", header, |spec| {
        Ok(match spec.shape.as_slice() {
            [_, inputs] => {
                let bound = (6.0 / *inputs as f32).sqrt();
                let mut draw = || {
                    draws += 1;
                    (uniform_f32(seed, draws, Purpose::Policy(0)) * 2.0 - 1.0) * bound
                };
                (0..spec.elements()).map(|_| draw()).collect()
            }
            _ if spec.name.ends_with(".weight") => vec![1.0; spec.elements()],
            _ => vec![0.0; spec.elements()],
        })
    })
}
