//! A column of texts in one piece of memory, so that a step's texts cost no allocation and cross into a policy at once.

/// Texts one after another, and where each ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    joined: String,
    ends: Vec<u32>,
}

impl Texts {
    /// Adds a text.
    ///
    /// # Panics
    /// If all texts together have 4 GiB or more.
    pub fn push(&mut self, text: &str) {
        self.joined.push_str(text);
        let end = u32::try_from(self.joined.len());
        self.ends.push(end.expect("the texts of a step are short"));
    }

    /// The text at `index`; empty where there is none.
    pub fn get(&self, index: usize) -> &str {
        let Some(&end) = self.ends.get(index) else {
            return "";
        };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.joined[start as usize..end as usize]
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes all texts out and keeps the memory.
    pub fn clear(&mut self) {
        self.joined.clear();
        self.ends.clear();
    }

    /// All texts, one after another.
    pub fn joined(&self) -> &str {
        &self.joined
    }

    /// Where each text ends in [`joined`](Self::joined), in bytes.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }
}

impl<T: AsRef<str>> Extend<T> for Texts {
    fn extend<I: IntoIterator<Item = T>>(&mut self, texts: I) {
        for text in texts {
            self.push(text.as_ref());
        }
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut column = Self::default();
        column.extend(texts);
        column
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    #[test]
    fn texts_come_back_as_they_were_put_in() {
        let put_in = ["", "a", "é", "", "\u{fffd}x", ""];
        let mut texts: Texts = put_in.iter().collect();
        assert_eq!(texts.len(), put_in.len());
        for (index, text) in put_in.iter().enumerate() {
            assert_eq!(texts.get(index), *text);
        }
        assert_eq!(texts.get(put_in.len()), "", "beyond the last");
        assert_eq!(texts.ends().last(), Some(&(texts.joined().len() as u32)));
        texts.clear();
        assert!(texts.is_empty() && texts.joined().is_empty());
    }
}
