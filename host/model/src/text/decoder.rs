//! A tokenizer file's decoder as a chain of stages that text flows through, one token at a time.
//!
//! The `tokenizers` crate decodes a whole list of tokens at once. Its stream decodes a window of the last tokens twice
//! and takes the difference, which loses or refuses text where a decoder looks further than the window. Each decoder
//! that language models use needs only a few bytes of memory to run forward, so here it runs forward.
//!
//! Decoders work on lists of items (at first one per token). Items flow as pieces; a piece says whether it begins an
//! item, because some stages count items and some join them.
//!
//! One result differs from the crate's, on purpose: in a run of byte tokens (`<0xE5>`) with invalid UTF-8 the crate
//! turns the whole run into U+FFFD, including characters that were complete before the bad byte and would long be with
//! the client. As in SentencePiece, where byte tokens come from, only the invalid bytes do so here.

use tokenizers::{Decoder, DecoderWrapper};
use tokenizers::{
    decoders::sequence::Sequence, normalizers::replace::Replace, pre_tokenizers::metaspace::PrependScheme,
};

use super::byte_level::byte_of_letter;
use super::error::TextError;
use super::utf8::{Invalid, Utf8Assembler};

/// Most stages of a decoder: their state is held inline in every request.
pub(super) const STAGES_MAX: usize = 6;

/// A decoder, split in what can be done to each token beforehand and what must be done as tokens come.
#[derive(Debug, Default)]
pub(super) struct DecoderPlan {
    per_token: Vec<Replace>,
    stages: Vec<Stage>,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Space between items: what the library does without a decoder.
    Join,
    /// One character becomes a string, or vanishes from the first item.
    Metaspace { replacement: char, drop_in_first: bool },
    /// One character becomes a string.
    ReplaceCharacter { from: char, to: String },
    /// `<0xNN>` items become bytes; each run of them is one item.
    ByteFallback,
    /// Letters of the byte-level alphabet become bytes; everything is one item.
    ByteLevel,
    /// Everything is one item.
    Fuse,
    /// Drops up to `start` of `content` at the beginning of each item.
    Strip { content: char, start: usize },
}

/// What a stage remembers between pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StageState {
    /// Items begun, up to 2.
    items: u8,
    /// In a run of byte items.
    in_run: bool,
    /// What may still be stripped from this item.
    strip: usize,
    utf8: Utf8Assembler,
}

impl StageState {
    /// The state somewhere inside an answer, where rules about its beginning no longer apply.
    pub(super) fn inside() -> Self {
        Self {
            items: 2,
            ..Self::default()
        }
    }

    /// Whether this piece begins an item, when the stage makes one item of everything.
    fn first_piece(&mut self) -> bool {
        std::mem::replace(&mut self.items, 2) == 0
    }
}

impl DecoderPlan {
    /// Plans the decoder of a tokenizer.
    ///
    /// # Errors
    /// Names the decoder if it cannot run forward.
    pub(super) fn new(decoder: Option<&DecoderWrapper>) -> Result<Self, TextError> {
        let mut plan = Self::default();
        match decoder {
            None => plan.stages.push(Stage::Join),
            Some(decoder) => plan.add(decoder)?,
        }
        if plan.stages.len() > STAGES_MAX {
            let stages = plan.stages.len();
            return Err(TextError::invalid(format!(
                "its decoder has {stages} steps, at most {STAGES_MAX} are supported"
            )));
        }
        Ok(plan)
    }

    fn add(&mut self, decoder: &DecoderWrapper) -> Result<(), TextError> {
        // These stages look at an item as a whole, which can't be once it comes in pieces.
        let whole = !self
            .stages
            .iter()
            .any(|s| matches!(s, Stage::ByteFallback | Stage::ByteLevel | Stage::Fuse));
        let stage = match decoder {
            DecoderWrapper::Sequence(sequence) => return self.add_all(sequence),
            DecoderWrapper::Replace(replace) => match single_character(replace)? {
                _ if self.stages.is_empty() => {
                    self.per_token.push(replace.clone());
                    return Ok(());
                }
                Some(from) => Stage::ReplaceCharacter {
                    from,
                    to: replace.content.clone(),
                },
                None => return Err(unsupported("Replace of more than one character after another step")),
            },
            DecoderWrapper::Metaspace(metaspace) => Stage::Metaspace {
                replacement: metaspace.get_replacement(),
                drop_in_first: metaspace.prepend_scheme != PrependScheme::Never,
            },
            DecoderWrapper::Strip(strip) if strip.stop == 0 => Stage::Strip {
                content: strip.content,
                start: strip.start,
            },
            DecoderWrapper::Strip(_) => return Err(unsupported("Strip at the end of the text")),
            DecoderWrapper::Fuse(_) => Stage::Fuse,
            DecoderWrapper::ByteFallback(_) if whole => Stage::ByteFallback,
            DecoderWrapper::ByteFallback(_) => return Err(unsupported("ByteFallback after a step that joins tokens")),
            DecoderWrapper::ByteLevel(_) if whole => Stage::ByteLevel,
            DecoderWrapper::ByteLevel(_) => return Err(unsupported("ByteLevel after a step that joins tokens")),
            DecoderWrapper::BPE(_) => return Err(unsupported("BPEDecoder")),
            DecoderWrapper::WordPiece(_) => return Err(unsupported("WordPiece")),
            DecoderWrapper::CTC(_) => return Err(unsupported("CTC")),
        };
        self.stages.push(stage);
        Ok(())
    }

    fn add_all(&mut self, sequence: &Sequence) -> Result<(), TextError> {
        sequence.get_decoders().iter().try_for_each(|decoder| self.add(decoder))
    }

    /// A token's string as the first stage takes it.
    pub(super) fn item(&self, token: String) -> Result<String, TextError> {
        self.per_token.iter().try_fold(token, |token, replace| {
            replace.decode(vec![token]).map_err(TextError::invalid)
        })
    }

    /// The bytes of an item that stands for bytes, which need not be UTF-8 by themselves; `None` if it stands for text.
    pub(super) fn bytes(&self, item: &str) -> Option<Vec<u8>> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::ByteFallback => fallback_byte(item).map(|byte| vec![byte]),
            Stage::ByteLevel => item.chars().map(byte_of_letter).collect(),
            _ => None,
        })
    }

    /// Runs one item through all stages.
    pub(super) fn push(&self, states: &mut [StageState; STAGES_MAX], item: &str, out: &mut String) {
        feed(&self.stages, states, item, true, out);
    }

    /// Ends the text: whatever a stage holds comes out.
    pub(super) fn finish(&self, states: &mut [StageState; STAGES_MAX], out: &mut String) {
        for (place, stage) in self.stages.iter().enumerate() {
            let (state, rest) = states[place..].split_first_mut().expect("as many states as stages");
            let invalid = match stage {
                Stage::ByteFallback => Invalid::OnePerByte,
                _ => Invalid::OnePerSequence,
            };
            let (mut utf8, next) = (state.utf8, &self.stages[place + 1..]);
            utf8.finish(invalid, |text| feed(next, rest, text, begins(stage, state), out));
            state.utf8 = utf8;
        }
    }
}

/// Whether the text that a byte stage now emits begins an item.
fn begins(stage: &Stage, state: &mut StageState) -> bool {
    match stage {
        Stage::ByteFallback => !std::mem::replace(&mut state.in_run, true),
        _ => state.first_piece(),
    }
}

/// Feeds one piece to the first of `stages`, which feeds what it makes of it to the others.
fn feed(stages: &[Stage], states: &mut [StageState], piece: &str, begins_item: bool, out: &mut String) {
    let Some((stage, next)) = stages.split_first() else {
        out.push_str(piece);
        return;
    };
    let (state, rest) = states.split_first_mut().expect("as many states as stages");
    match stage {
        Stage::Join => {
            if begins_item && !state.first_piece() {
                feed(next, rest, " ", true, out);
            }
            feed(next, rest, piece, begins_item, out);
        }
        Stage::Fuse => {
            let begins_item = state.first_piece();
            feed(next, rest, piece, begins_item, out);
        }
        Stage::Metaspace {
            replacement,
            drop_in_first,
        } => {
            state.items = (state.items + u8::from(begins_item)).min(2);
            let to = if *drop_in_first && state.items == 1 { "" } else { " " };
            replace(next, rest, piece, (*replacement, to), begins_item, out);
        }
        Stage::ReplaceCharacter { from, to } => replace(next, rest, piece, (*from, to), begins_item, out),
        Stage::Strip { content, start } => {
            if begins_item {
                state.strip = *start;
            }
            let mut kept = piece;
            while state.strip > 0 && !kept.is_empty() {
                match kept.strip_prefix(*content) {
                    Some(shorter) => (kept, state.strip) = (shorter, state.strip - 1),
                    None => state.strip = 0,
                }
            }
            feed(next, rest, kept, begins_item, out);
        }
        Stage::ByteFallback => {
            let mut utf8 = state.utf8;
            match fallback_byte(piece) {
                Some(byte) => utf8.push(byte, Invalid::OnePerByte, |text| {
                    feed(next, rest, text, begins(stage, state), out);
                }),
                None => {
                    utf8.finish(Invalid::OnePerByte, |text| {
                        feed(next, rest, text, begins(stage, state), out);
                    });
                    state.in_run = false;
                    feed(next, rest, piece, true, out);
                }
            }
            state.utf8 = utf8;
        }
        Stage::ByteLevel => {
            let mut utf8 = state.utf8;
            let mut emit = |byte| {
                utf8.push(byte, Invalid::OnePerSequence, |text| {
                    feed(next, rest, text, begins(stage, state), out);
                });
            };
            if piece.chars().all(|letter| byte_of_letter(letter).is_some()) {
                piece.chars().filter_map(byte_of_letter).for_each(&mut emit);
            } else {
                // An added token whose text was never written in the alphabet.
                piece.bytes().for_each(&mut emit);
            }
            state.utf8 = utf8;
        }
    }
}

/// Feeds a piece with every `from` replaced by `to`.
fn replace(
    stages: &[Stage],
    states: &mut [StageState],
    piece: &str,
    (from, to): (char, &str),
    begins_item: bool,
    out: &mut String,
) {
    for (number, part) in piece.split(from).enumerate() {
        if number > 0 {
            feed(stages, states, to, false, out);
        }
        feed(stages, states, part, begins_item && number == 0, out);
    }
}

/// The byte of an item like `<0xE5>`.
fn fallback_byte(item: &str) -> Option<u8> {
    let digits = item.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// The character that a `Replace` replaces, if it is one. The library keeps the pattern private but writes it.
fn single_character(replace: &Replace) -> Result<Option<char>, TextError> {
    let written = serde_json::to_value(replace).map_err(TextError::invalid)?;
    let mut pattern = written["pattern"]["String"].as_str().unwrap_or_default().chars();
    Ok(pattern.next().filter(|_| pattern.next().is_none()))
}

fn unsupported(step: &str) -> TextError {
    TextError::invalid(format!(
        "its decoder has the step {step}, which cannot be streamed; supported are ByteLevel, Metaspace, Replace, \
         ByteFallback, Fuse and Strip at the beginning"
    ))
}
