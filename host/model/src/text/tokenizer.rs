//! A deployment's tokenizer.

use std::sync::Arc;

use tokenrouter_core::TokenId;

use super::alphabet;
use super::decoder::DecoderPlan;
use super::detokenizer::Detokenizer;
use super::error::TextError;
use super::special::SpecialTokens;
use super::template::Rendered;
use super::vocabulary::Vocabulary;

/// Text to tokens and back, for one model. Cloning it shares it.
#[derive(Clone, Debug)]
pub struct Tokenizer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    library: tokenizers::Tokenizer,
    vocabulary: Vocabulary,
    special: SpecialTokens,
    decoder: DecoderPlan,
    may_lose_characters: bool,
    bos: Option<TokenId>,
    eos: Vec<TokenId>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// `bos` is the token that this model wants at the beginning of every prompt; give `None` for families that name one
    /// in `config.json` but train without it (Qwen: `"add_bos_token": false` in `tokenizer_config.json`). `eos` are the
    /// tokens that end an answer.
    ///
    /// # Errors
    /// [`TextError::InvalidTokenizer`] if the file does not parse, has a decoder that cannot be streamed, or lacks `bos`
    /// or one of `eos`.
    pub fn from_bytes(json: &[u8], bos: Option<TokenId>, eos: &[TokenId]) -> Result<Self, TextError> {
        Self::new(
            tokenizers::Tokenizer::from_bytes(json).map_err(TextError::invalid)?,
            bos,
            eos,
        )
    }

    /// The same for a tokenizer that came from somewhere else, such as a GGUF file.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub fn new(mut library: tokenizers::Tokenizer, bos: Option<TokenId>, eos: &[TokenId]) -> Result<Self, TextError> {
        // What a user writes is text: a special token in it must not become control over the model.
        library.set_encode_special_tokens(true);
        // Files keep the padding and truncation of their training; truncation would cut a prompt without a word.
        library
            .with_truncation(None)
            .map_err(TextError::invalid)?
            .with_padding(None);
        let decoder = DecoderPlan::new(library.get_decoder())?;
        let vocabulary = Vocabulary::new(&library, |token| decoder.item(token))?;
        for (name, id) in bos
            .iter()
            .map(|id| ("beginning", id))
            .chain(eos.iter().map(|id| ("end", id)))
        {
            if !vocabulary.contains(*id) {
                return Err(TextError::invalid(format!(
                    "the model's {name}-of-sequence token {id} is not among its {} ids",
                    vocabulary.len()
                )));
            }
        }
        let special = SpecialTokens::new(&library);
        let may_lose_characters = alphabet::may_lose_characters(&library);
        Ok(Self(Arc::new(Shared {
            library,
            vocabulary,
            special,
            decoder,
            may_lose_characters,
            bos,
            eos: eos.to_vec(),
        })))
    }

    /// The tokens of a text, all of it: special tokens written in it stay ordinary text, and nothing is put around it.
    ///
    /// # Errors
    /// [`TextError::UnknownCharacter`] for a character that this tokenizer has no token for and would drop;
    /// [`TextError::Encode`] if the tokenizer itself fails.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>, TextError> {
        self.encode_with(text, false)
    }

    /// The tokens of a prompt: [`encode`](Self::encode), with what the tokenizer puts around a text, and with the
    /// model's BOS in front, once.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<TokenId>, TextError> {
        let mut ids = self.encode_with(text, true)?;
        if let Some(bos) = self.0.bos.filter(|bos| ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// The tokens of what a chat template wrote: its special tokens as such, and the stretches between them as text, each
    /// encoded on its own. The model's BOS is there if the template wrote it, or, with `begin`, in any case; never twice.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_rendered(&self, rendered: &Rendered, begin: bool) -> Result<Vec<TokenId>, TextError> {
        let (text, marks) = rendered.parts();
        let mut ids = Vec::new();
        let mut done = 0;
        loop {
            let found = self.0.special.find(text, done);
            let stretch = &text[done..found.as_ref().map_or(text.len(), |found| found.start)];
            if !stretch.is_empty() {
                let encoded = self.encode(&marks.remove(stretch));
                ids.extend(encoded.map_err(|error| error.after(&marks.remove(&text[..done])))?);
            }
            let Some(found) = found else { break };
            ids.push(found.id);
            done = found.end;
        }
        if let Some(bos) = self.0.bos.filter(|bos| begin && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    fn encode_with(&self, text: &str, post_processor: bool) -> Result<Vec<TokenId>, TextError> {
        if self.0.may_lose_characters {
            alphabet::check(&self.0.library, text)?;
        }
        let encoding = self
            .0
            .library
            .encode_fast(text, post_processor)
            .map_err(TextError::encode)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Checks that a token exists for each id. A model's logits may be padded beyond the last token; those are outside.
    ///
    /// # Errors
    /// [`TextError::OutsideVocabulary`] for the first that has none.
    pub fn check_ids(&self, ids: &[TokenId]) -> Result<(), TextError> {
        match ids.iter().position(|&id| !self.0.vocabulary.contains(id)) {
            None => Ok(()),
            Some(index) => Err(TextError::OutsideVocabulary {
                id: ids[index],
                index,
                size: self.vocabulary_size(),
            }),
        }
    }

    /// The text of an answer, or of any tokens on their own. Special tokens and ids without a token have no text.
    ///
    /// "On their own": an answer's text does not depend on its prompt. Tokenizers in the manner of SentencePiece write a
    /// space before the first word and drop it again, so there an answer that begins with a word begins without a space.
    /// Bytes that are not UTF-8 become U+FFFD: one for each beginning of a character that doesn't go on (byte-level BPE),
    /// or one for each byte token (SentencePiece).
    pub fn decode(&self, ids: &[TokenId]) -> String {
        let (mut detokenizer, mut text) = (Detokenizer::new(), String::new());
        for &id in ids {
            detokenizer.push(self, id, &mut text);
        }
        detokenizer.flush(self, &mut text);
        text
    }

    /// The same with the names of special tokens in their places. What stands between them is decoded on its own.
    pub fn decode_with_special(&self, ids: &[TokenId]) -> String {
        let mut text = String::new();
        for run in ids.chunk_by(|&a, &b| !self.is_special(a) && !self.is_special(b)) {
            match self.0.vocabulary.special(run[0]) {
                Some(name) => text.push_str(name),
                None => text.push_str(&self.decode(run)),
            }
        }
        text
    }

    /// What one token adds in the middle of a text; a special token's name; empty for an id without a token. Bytes of an
    /// incomplete character become U+FFFD, so these texts do not add up: for that there is [`Detokenizer`].
    pub fn token_text(&self, id: TokenId) -> String {
        if let Some(name) = self.0.vocabulary.special(id) {
            return name.to_owned();
        }
        let (mut detokenizer, mut text) = (Detokenizer::inside(), String::new());
        detokenizer.push(self, id, &mut text);
        detokenizer.flush(self, &mut text);
        text
    }

    /// The bytes of [`token_text`](Self::token_text), but exact where a token is a part of a character.
    pub fn token_bytes(&self, id: TokenId) -> Vec<u8> {
        let text = self.token_text(id);
        let has_part = text.contains(char::REPLACEMENT_CHARACTER);
        let item = self.0.vocabulary.ordinary(id).filter(|_| has_part);
        item.and_then(|item| self.0.decoder.bytes(item))
            .unwrap_or_else(|| text.into_bytes())
    }

    /// The id of a token, special or not, as the tokenizer file writes it (`<|im_start|>`).
    pub fn token_id(&self, token: &str) -> Option<TokenId> {
        self.0.library.token_to_id(token)
    }

    /// Whether a token is special: no part of any text.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.0.vocabulary.special(id).is_some()
    }

    /// One more than the largest id that has a token.
    pub fn vocabulary_size(&self) -> usize {
        self.0.vocabulary.len()
    }

    /// The token that begins every prompt, if the model has one.
    pub fn bos(&self) -> Option<TokenId> {
        self.0.bos
    }

    /// The tokens that end an answer.
    pub fn eos(&self) -> &[TokenId] {
        &self.0.eos
    }

    /// Checks that every id means the same token in both, so that models can pass tokens to each other. What the models
    /// begin and end sequences with may differ.
    ///
    /// # Errors
    /// [`TextError::VocabulariesDiffer`] for the first id that does not.
    pub fn same_vocabulary(&self, other: &Self) -> Result<(), TextError> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(());
        }
        let ids = self.vocabulary_size().max(other.vocabulary_size()) as TokenId;
        match (0..ids)
            .map(|id| (id, self.entry(id), other.entry(id)))
            .find(|(_, ours, theirs)| ours != theirs)
        {
            None => Ok(()),
            Some((id, ours, theirs)) => Err(TextError::VocabulariesDiffer { id, ours, theirs }),
        }
    }

    /// A vocabulary entry in words.
    fn entry(&self, id: TokenId) -> String {
        match (self.0.library.id_to_token(id), self.0.vocabulary.special(id)) {
            (None, _) => "no token".to_owned(),
            (Some(token), None) => format!("{token:?}"),
            (Some(token), Some(_)) => format!("the special token {token:?}"),
        }
    }

    pub(super) fn special_tokens(&self) -> &SpecialTokens {
        &self.0.special
    }

    pub(super) fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocabulary
    }

    pub(super) fn decoder(&self) -> &DecoderPlan {
        &self.0.decoder
    }
}
