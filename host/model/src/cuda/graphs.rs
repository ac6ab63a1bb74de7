//! Which captures are kept.

/// Values by key, at most so many: the one that was not used for longest goes first.
pub(super) struct Recent<K, V> {
    /// In the order of their last use.
    entries: Vec<(K, V)>,
    max: usize,
}

impl<K: PartialEq, V> Recent<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Self {
            entries: Vec::with_capacity(max),
            max,
        }
    }

    /// The value of a key, which counts as a use.
    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        let place = self.entries.iter().position(|(known, _)| known == key)?;
        let used = self.entries.remove(place);
        self.entries.push(used);
        self.entries.last().map(|(_, value)| value)
    }

    /// Adds a value under a key that is not there, and returns it.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.entries.len() >= self.max && !self.entries.is_empty() {
            self.entries.remove(0);
        }
        self.entries.push((key, value));
    }

    /// Drops all.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_not_used_for_longest_goes() {
        let mut recent = Recent::new(3);
        for key in 0..3 {
            recent.insert(key, key * 10);
        }
        assert_eq!(recent.get(&0), Some(&0));
        recent.insert(3, 30);
        assert_eq!(recent.get(&1), None, "1 was used before 2 and 0");
        assert_eq!(recent.get(&2), Some(&20));
        assert_eq!(recent.get(&0), Some(&0));
        assert_eq!(recent.get(&3), Some(&30));
        assert_eq!(recent.len(), 3);
    }

    #[test]
    fn a_value_that_goes_is_dropped() {
        let token = std::rc::Rc::new(());
        let mut recent = Recent::new(1);
        recent.insert(1, token.clone());
        recent.insert(2, token.clone());
        assert_eq!(std::rc::Rc::strong_count(&token), 2);
        recent.clear();
        assert_eq!(std::rc::Rc::strong_count(&token), 1);
    }
}
