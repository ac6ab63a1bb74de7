//! The contract's functions, by name.

use std::fmt;

use crate::PolicyLimits;

/// A function of the contract, for errors and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Making an instance: memory, tables and the component's own start code, if it has any.
    Instantiate,
    /// `describe`.
    Describe,
    /// `init`.
    Init,
    /// `admit`.
    Admit,
    /// `route`.
    Route,
    /// `send`.
    Send,
    /// `receive`.
    Receive,
}

impl Call {
    /// The name, as in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Call::Instantiate => "instantiate",
            Call::Describe => "describe",
            Call::Init => "init",
            Call::Admit => "admit",
            Call::Route => "route",
            Call::Send => "send",
            Call::Receive => "receive",
        }
    }

    /// The call's deadline, in milliseconds.
    pub(crate) fn ms_max(self, limits: &PolicyLimits) -> u64 {
        match self {
            Call::Instantiate | Call::Describe | Call::Init => limits.init_ms_max,
            Call::Admit | Call::Route | Call::Send | Call::Receive => limits.call_ms_max,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
