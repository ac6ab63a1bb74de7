//! Which generation routes a new request.

use std::sync::Arc;

use tokenrouter_core::draw::{Purpose, uniform};
use tokenrouter_core::policy::PolicyState;

use crate::comparison::Comparison;
use crate::served::{Lease, Served};

/// What new requests are routed by. Replaced as a whole, so every request sees one state of it; requests that have begun
/// keep what they began with.
#[derive(Clone, Default)]
pub struct Traffic {
    /// The policies by their names, the default first. Without any, the first model answers alone.
    pub policies: Vec<Arc<Served>>,
    /// Takes a share of the default's new requests.
    pub canary: Option<Canary>,
    /// Watches a share of the requests that the default routes.
    pub shadow: Option<Shadow>,
}

/// A generation on trial: it routes a share of the requests that name no policy.
#[derive(Clone)]
pub struct Canary {
    /// The generation.
    pub served: Arc<Served>,
    /// From 0 to 1. Which requests is a function of their seeds: a request that is repeated goes the same way.
    pub share: f64,
}

/// A generation that watches: it is asked at every step of a share of the default's requests, and its decisions are counted
/// beside those in force, never used.
#[derive(Clone)]
pub struct Shadow {
    /// The generation.
    pub served: Arc<Served>,
    /// From 0 to 1, by seed as well, but drawn independently of the canary's.
    pub share: f64,
    /// Where the decisions are counted.
    pub comparison: Arc<Comparison>,
}

/// Positions of the draws for [`Purpose::Traffic`].
const CANARY: u64 = 0;
const SHADOW: u64 = 1;

impl Traffic {
    /// The generation that routes a request which names no policy.
    pub(crate) fn default_for(&self, seed: u64) -> Option<&Arc<Served>> {
        match &self.canary {
            Some(canary) if uniform(seed, CANARY, Purpose::Traffic) < canary.share => Some(&canary.served),
            _ => self.policies.first(),
        }
    }

    /// The generation that a request asks for by name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Served>> {
        self.policies.iter().find(|served| served.name() == name)
    }

    /// The shadow of a request that `served` routes.
    pub(crate) fn shadow_for(&self, seed: u64, served: &Arc<Served>) -> Option<&Shadow> {
        let default = self.policies.first()?;
        let shadow = self.shadow.as_ref()?;
        (Arc::ptr_eq(default, served) && uniform(seed, SHADOW, Purpose::Traffic) < shadow.share).then_some(shadow)
    }
}

/// What a request carries of the generations that route and watch it.
#[derive(Debug, Default)]
pub(crate) struct Routed {
    /// The generation in force; none for a request that stays at one model.
    pub(crate) lease: Option<Lease>,
    /// The generation that watches.
    pub(crate) shadow: Option<Box<Shadowed>>,
}

/// A request as its shadow sees it.
#[derive(Debug)]
pub(crate) struct Shadowed {
    pub(crate) lease: Lease,
    /// The shadow's words about the request.
    pub(crate) state: PolicyState,
    pub(crate) comparison: Arc<Comparison>,
}
