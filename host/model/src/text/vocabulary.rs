//! What each token id stands for, ready to be decoded.

use std::ops::Range;

use tokenrouter_core::TokenId;

use super::error::TextError;

/// Largest vocabulary that is believed: a stray huge id in a file must not allocate gigabytes.
const IDS_MAX: usize = 1 << 24;

/// One id's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No token has this id.
    Hole,
    /// An ordinary token.
    Ordinary,
    /// A special token: no part of decoded text.
    Special,
}

/// All tokens' items: the strings that the decoder's stages take. In one allocation.
#[derive(Debug)]
pub(super) struct Vocabulary {
    items: String,
    ends: Vec<u32>,
    kinds: Vec<Kind>,
}

impl Vocabulary {
    /// Reads every token of a tokenizer; `item` turns an ordinary token's string into its item.
    pub(super) fn new(
        tokenizer: &tokenizers::Tokenizer,
        item: impl Fn(String) -> Result<String, TextError>,
    ) -> Result<Self, TextError> {
        let ids = tokenizer
            .get_vocab(true)
            .into_values()
            .max()
            .map_or(0, |id| id as usize + 1);
        if ids > IDS_MAX {
            return Err(TextError::invalid(format!(
                "its largest token id is {}, above {}",
                ids - 1,
                IDS_MAX - 1
            )));
        }
        let mut table = Self {
            items: String::new(),
            ends: Vec::with_capacity(ids),
            kinds: Vec::with_capacity(ids),
        };
        for id in 0..ids as TokenId {
            let kind = match tokenizer.id_to_token(id) {
                None => Kind::Hole,
                Some(token) if tokenizer.get_added_vocabulary().is_special_token(&token) => {
                    table.items.push_str(&token);
                    Kind::Special
                }
                Some(token) => {
                    table.items.push_str(&item(token)?);
                    Kind::Ordinary
                }
            };
            let end = u32::try_from(table.items.len()).map_err(|_| TextError::invalid("its tokens exceed 4 GiB"))?;
            table.ends.push(end);
            table.kinds.push(kind);
        }
        Ok(table)
    }

    /// One more than the largest id.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether a token has this id.
    pub(super) fn contains(&self, id: TokenId) -> bool {
        self.kinds.get(id as usize).is_some_and(|&kind| kind != Kind::Hole)
    }

    /// The item of an ordinary token.
    pub(super) fn ordinary(&self, id: TokenId) -> Option<&str> {
        (self.kinds.get(id as usize) == Some(&Kind::Ordinary)).then(|| &self.items[self.range(id)])
    }

    /// The content of a special token.
    pub(super) fn special(&self, id: TokenId) -> Option<&str> {
        (self.kinds.get(id as usize) == Some(&Kind::Special)).then(|| &self.items[self.range(id)])
    }

    fn range(&self, id: TokenId) -> Range<usize> {
        let place = id as usize;
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        start as usize..self.ends[place] as usize
    }
}
