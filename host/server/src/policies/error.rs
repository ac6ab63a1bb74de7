//! Why a policy was not uploaded, activated or taken out. Whatever the error, what serves is untouched.

use tokenrouter_policy::conformance::ConformanceError;
use tokenrouter_policy::{Digest, PolicyError};

use super::store::StoreError;

/// Any refusal of a change to the policies.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// Not a name.
    #[error("{name:?} cannot be a policy's name; it must be 1 to 64 ASCII letters, digits, `.`, `_` or `-`")]
    Name {
        /// What was given.
        name: String,
    },
    /// Too many names.
    #[error("there are {max} policies already, the most that are kept; delete one")]
    TooManyNames {
        /// The bound.
        max: usize,
    },
    /// No policy of that name.
    #[error("there is no policy \"{name}\"; there are {}", list(.known))]
    NoSuchPolicy {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// No generation of that number.
    #[error("policy \"{name}\" has no generation {generation}; kept are {}", list(.known))]
    NoSuchGeneration {
        /// The policy.
        name: String,
        /// The number.
        generation: u32,
        /// The numbers there are.
        known: Vec<u32>,
    },
    /// Nothing to roll back to.
    #[error("there is nothing to roll \"{name}\" back to: it took no other generation's place, or that one failed")]
    NothingBefore {
        /// The policy.
        name: String,
    },
    /// Still in use.
    #[error("policy \"{name}\" is {role}; activate another or end the trial before it is deleted")]
    InUse {
        /// The policy.
        name: String,
        /// What it is used as.
        role: &'static str,
    },
    /// Somebody else was faster.
    #[error("generation {expected} was expected to be {what}, found {found}; look again before you change it")]
    Expectation {
        /// What the number stands for.
        what: String,
        /// The client's.
        expected: u32,
        /// The one there is; 0 for none.
        found: u32,
    },
    /// Nothing to try.
    #[error("generation {generation} is the default already; a trial is for another one")]
    IsDefault {
        /// The generation.
        generation: u32,
    },
    /// Nothing to be tried beside.
    #[error("there is no default policy, so there is nothing to try \"{name}\" beside; activate it")]
    NoDefault {
        /// The policy.
        name: String,
    },
    /// A share that is none.
    #[error("the share is {share}; it must be between 0 and 1")]
    Share {
        /// The number.
        share: f64,
    },
    /// Other bytes than the client sent.
    #[error("the component's SHA-256 is {found}, expected {expected}: it was damaged on its way, or it is another one")]
    Digest {
        /// The client's.
        expected: Digest,
        /// Of the bytes that came.
        found: Digest,
    },
    /// No signature where one is required.
    #[error("the upload is not signed; this host takes only policies signed with one of its keys ({})", list(.keys))]
    Unsigned {
        /// Names of the keys.
        keys: Vec<String>,
    },
    /// A signature that none of the keys has made.
    #[error("the signature is not one of this component by any of the host's keys ({})", list(.keys))]
    BadSignature {
        /// Names of the keys.
        keys: Vec<String>,
    },
    /// The component is refused.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// The policy loads, but does not keep the contract.
    #[error("smoke test: {0}")]
    Smoke(#[from] ConformanceError),
    /// Too many generations still have requests.
    #[error("{live} generations still have requests, the most that may; try again when some have ended")]
    TooManyLive {
        /// How many.
        live: usize,
    },
    /// The state directory failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine does not take the generation.
    #[error("{0}")]
    Engine(String),
}

fn list<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
