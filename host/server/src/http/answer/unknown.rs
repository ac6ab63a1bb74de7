//! Fields that nobody knows are accepted, as OpenAI clients expect, but not in silence: they are counted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::http::limits::UNKNOWN_FIELDS_MAX;

/// Where names beyond the bound are counted.
const OTHERS: &str = "(others)";
/// Longer names are clients' data, not names.
const NAME_BYTES_MAX: usize = 64;

/// How often each unknown field came. Clients choose the names, so the number of names is bounded.
#[derive(Debug, Default)]
pub(in crate::http) struct UnknownFields(Mutex<BTreeMap<String, u64>>);

impl UnknownFields {
    /// Counts the fields of one request.
    pub(in crate::http) fn count<'a>(&self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = name.len() <= NAME_BYTES_MAX && (counts.contains_key(name) || counts.len() < UNKNOWN_FIELDS_MAX);
            let name = if fits { name } else { OTHERS };
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// The counts by name.
    pub(in crate::http) fn counts(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_and_their_number_is_bounded() {
        let fields = UnknownFields::default();
        let names: Vec<String> = (0..1000).map(|number| format!("field{number}")).collect();
        for _ in 0..2 {
            fields.count(names.iter().map(String::as_str));
        }
        fields.count(["x".repeat(65).as_str()].into_iter());
        let counts = fields.counts();
        assert_eq!(counts.len(), UNKNOWN_FIELDS_MAX + 1);
        assert_eq!(counts["field7"], 2);
        assert_eq!(counts.values().sum::<u64>(), 2001);
    }
}
