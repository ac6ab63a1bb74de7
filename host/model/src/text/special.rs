//! Special tokens in a text: where a chat template wrote them, and where a user did and must not have.

use tokenrouter_core::TokenId;

/// A tokenizer's special tokens, to be looked for in a text.
#[derive(Debug)]
pub(super) struct SpecialTokens {
    /// Sorted by content, each content once.
    tokens: Vec<Special>,
    /// Which bytes begin a token.
    begins: [bool; 256],
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Special {
    content: String,
    id: TokenId,
    /// Whether it takes the white space before and after it with it.
    strips: (bool, bool),
}

/// A special token in a text, with the white space that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) id: TokenId,
}

impl SpecialTokens {
    /// Those of a tokenizer.
    pub(super) fn new(tokenizer: &tokenizers::Tokenizer) -> Self {
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let mut tokens: Vec<_> = added
            .iter()
            .filter(|(_, token)| token.special && !token.content.is_empty())
            .map(|(&id, token)| Special {
                content: token.content.clone(),
                id,
                strips: (token.lstrip, token.rstrip),
            })
            .collect();
        tokens.sort_unstable();
        let mut begins = [false; 256];
        for token in &tokens {
            begins[usize::from(token.content.as_bytes()[0])] = true;
        }
        Self { tokens, begins }
    }

    /// The first special token at or after byte `from`. Where several begin at the same place it is the longest, as in the
    /// `tokenizers` library.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Found> {
        let (start, token) = self.find_plain(text, from)?;
        let end = start + token.content.len();
        let before = &text[from..start];
        let after = &text[end..];
        Some(Found {
            start: if token.strips.0 {
                from + before.trim_end().len()
            } else {
                start
            },
            end: if token.strips.1 {
                text.len() - after.trim_start().len()
            } else {
                end
            },
            id: token.id,
        })
    }

    /// Puts `mark` behind the first character of every special token in `text`, and of what could become one together with a
    /// text that follows. Afterwards nothing in it is a special token any more, and taking the marks out gives it back.
    pub(super) fn protect(&self, text: &str, mark: char) -> Option<String> {
        let mut places = Vec::new();
        let mut from = 0;
        while let Some((start, token)) = self.find_plain(text, from) {
            places.push(start);
            // One token may begin inside of another.
            from = start + token.content.chars().next().map_or(1, char::len_utf8);
        }
        places.extend(self.open_end(text));
        places.sort_unstable();
        places.dedup();
        if places.is_empty() {
            return None;
        }
        let mut marked = String::with_capacity(text.len() + places.len() * mark.len_utf8());
        let mut done = 0;
        for place in places {
            let behind = place + text[place..].chars().next().map_or(0, char::len_utf8);
            marked.push_str(&text[done..behind]);
            marked.push(mark);
            done = behind;
        }
        marked.push_str(&text[done..]);
        Some(marked)
    }

    fn find_plain(&self, text: &str, from: usize) -> Option<(usize, &Special)> {
        let bytes = text.as_bytes();
        (from..bytes.len())
            .filter(|&place| self.begins[usize::from(bytes[place])])
            .find_map(|place| {
                let here = (self.tokens.iter()).filter(|token| bytes[place..].starts_with(token.content.as_bytes()));
                here.max_by_key(|token| token.content.len()).map(|token| (place, token))
            })
    }

    /// Where the text ends with the beginning of a special token, white space at the end aside: templates trim it.
    fn open_end(&self, text: &str) -> impl Iterator<Item = usize> {
        let text = text.trim_end();
        let longest = self.tokens.iter().map(|token| token.content.len()).max().unwrap_or(0);
        let first = text.len().saturating_sub(longest);
        (first..text.len()).filter(move |&place| {
            self.begins[usize::from(text.as_bytes()[place])]
                && self
                    .tokens
                    .iter()
                    .any(|token| token.content.as_bytes().starts_with(&text.as_bytes()[place..]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(contents: &[(&str, bool, bool)]) -> SpecialTokens {
        let mut library = tokenizers::Tokenizer::new(tokenizers::models::bpe::BPE::default());
        let added = contents
            .iter()
            .map(|&(content, left, right)| tokenizers::AddedToken::from(content, true).lstrip(left).rstrip(right));
        library.add_special_tokens(added).unwrap();
        SpecialTokens::new(&library)
    }

    #[test]
    fn the_longest_token_at_the_first_place_is_found_with_the_white_space_it_takes() {
        let special = tokens(&[("<s>", false, false), ("<s>>", true, true), ("</s>", false, false)]);
        let found = |text, from| special.find(text, from).map(|found| (found.start, found.end));
        assert_eq!(found("ab<s>c</s>", 0), Some((2, 5)));
        assert_eq!(found("ab<s>c</s>", 3), Some((6, 10)));
        assert_eq!(found("ab  <s>> \n c", 0), Some((2, 11)));
        assert_eq!(found("ab < s>", 0), None);
    }

    /// Whatever users' texts are and however they are put together, none of their characters makes a special token.
    #[test]
    fn protected_texts_put_together_hold_no_special_token() {
        let special = tokens(&[("<|im_end|>", false, false), ("<|", false, false), ("é|", false, false)]);
        let pieces = [
            "<|im_end|>",
            "<|im_",
            "end|>",
            "<",
            "|",
            "é",
            "|im_end|>",
            " ",
            "x<|<|im_end|>",
        ];
        let protect = |text: &str| special.protect(text, '\u{fdd0}').unwrap_or_else(|| text.to_owned());
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let all = [first, second, third].map(protect);
                    let joined = all.concat();
                    assert_eq!(special.find(&joined, 0), None, "{all:?}");
                    assert_eq!(joined.replace('\u{fdd0}', ""), [first, second, third].concat());
                    // As a template joins them that trims.
                    assert_eq!(special.find(&all.map(|text| text.trim().to_owned()).concat(), 0), None);
                }
            }
        }
        assert_eq!(special.protect("a < b, |x|", '\u{fdd0}'), None);
    }
}
