//! Whether an answer of a policy has the shape the contract asks for.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::PolicyState;

use crate::{Call, PolicyError};

/// Checks one model index.
pub(crate) fn model(call: Call, index: u32, models: usize) -> Result<ModelIndex, PolicyError> {
    if (index as usize) < models {
        return Ok(ModelIndex(index));
    }
    let reason = format!("model {index}; the deployment has models 0 to {}", models - 1);
    Err(PolicyError::Answer { call, reason })
}

/// Checks one request's state.
pub(crate) fn state(call: Call, words: &[u64], state_words: usize) -> Result<PolicyState, PolicyError> {
    length(call, "words of state", words.len(), state_words)?;
    Ok(PolicyState::new(words))
}

/// Checks the length of a list.
pub(crate) fn length(call: Call, what: &str, found: usize, expected: usize) -> Result<(), PolicyError> {
    if found == expected {
        return Ok(());
    }
    Err(PolicyError::Answer {
        call,
        reason: format!("{found} {what}, expected {expected}"),
    })
}
