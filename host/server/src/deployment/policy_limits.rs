//! `[policy.limits]`: what a policy may use.

use serde::Deserialize;
use tokenrouter_policy::PolicyLimits;

use super::Whole;

/// Bounds of every policy of the host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PolicyLimitsEntry {
    /// Largest component, bytes.
    pub component_bytes_max: Whole<1, 67_108_864>,
    /// Longest compilation, milliseconds.
    pub compile_ms_max: Whole<1, 600_000>,
    /// Linear memory of an instance, pages of 64 KiB.
    pub memory_pages_max: Whole<1, 16_384>,
    /// Deadline of `route`, `send`, `receive` and `admit`, milliseconds.
    pub call_ms_max: Whole<1, 60_000>,
    /// Deadline of making an instance, of `describe` and of `init`, milliseconds.
    pub init_ms_max: Whole<1, 60_000>,
}

impl Default for PolicyLimitsEntry {
    fn default() -> Self {
        Self {
            component_bytes_max: Whole::new(4 << 20),
            compile_ms_max: Whole::new(10_000),
            memory_pages_max: Whole::new(256),
            call_ms_max: Whole::new(100),
            init_ms_max: Whole::new(500),
        }
    }
}

impl PolicyLimitsEntry {
    /// For the policy host. What the file does not name has its default.
    pub fn policy_limits(&self) -> PolicyLimits {
        PolicyLimits {
            component_bytes_max: self.component_bytes_max.size(),
            compile_ms_max: self.compile_ms_max.get().into(),
            memory_bytes_max: self.memory_pages_max.size() << 16,
            call_ms_max: self.call_ms_max.get().into(),
            init_ms_max: self.init_ms_max.get().into(),
            ..PolicyLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_policy_host() {
        assert_eq!(PolicyLimitsEntry::default().policy_limits(), PolicyLimits::default());
    }
}
