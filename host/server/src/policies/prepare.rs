//! From a component's bytes to a generation that may route: every check, in the order in which a mistake is cheapest to
//! find. Nothing here touches what serves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokenrouter_policy::{Deployment, Generation, PolicyCode, PolicyHost, Setting, conformance};

use super::SwapError;
use crate::deployment::OptionValue;

/// What the checks need to know.
pub(super) struct Workshop {
    pub(super) host: std::sync::Arc<PolicyHost>,
    pub(super) deployment: Deployment,
}

/// A generation that has passed all checks.
pub(super) struct Prepared {
    pub(super) generation: Generation,
    /// How long reading, compiling and describing took; zero if its code was at hand.
    pub(super) compile_time: Duration,
}

impl Workshop {
    /// Reads, compiles, configures and tries a component. `at_hand` is its code, if a generation with it is loaded.
    pub(super) fn prepare(
        &self,
        bytes: &[u8],
        options: &BTreeMap<String, OptionValue>,
        at_hand: Option<PolicyCode>,
    ) -> Result<Prepared, SwapError> {
        let start = Instant::now();
        let (code, compile_time) = match at_hand {
            Some(code) => (code, Duration::ZERO),
            None => (self.host.load(bytes)?, start.elapsed()),
        };
        let setting = |(name, value): (&String, &OptionValue)| Setting {
            name: name.clone(),
            value: value.clone().into(),
        };
        let settings: Vec<_> = options.iter().map(setting).collect();
        let generation = code.configure(&self.deployment, &settings)?;
        conformance::smoke(&generation)?;
        Ok(Prepared {
            generation,
            compile_time,
        })
    }
}
