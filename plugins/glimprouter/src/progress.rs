//! What is remembered of a request.

use tokenrouter_sdk::prelude::*;

use super::text::{StepText, TextState};

/// How far a request is. In words of state: threshold and budget; tokens and tokens of the step; steps and flags;
/// and two for the text of the steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Entropy from which the large model writes a step, nats.
    pub threshold: f32,
    /// Tokens after which reasoning ends.
    pub budget: u32,
    /// Tokens of the answer.
    pub tokens: u32,
    /// Tokens of the step that is being written.
    pub step_tokens: u32,
    /// Steps that have ended.
    pub steps: u32,
    /// Reasoning is over.
    pub is_answering: bool,
    /// For `send`, which follows `route`: whether the candidate was committed.
    pub keep_candidate: bool,
    /// The text of this step and the one before.
    pub text: StepText,
}

const ANSWERING: StateWord = 1 << 32;
const KEEP: StateWord = 1 << 33;
/// The bits from here on are the text's.
const TEXT_SHIFT: u32 = 40;

impl Progress {
    /// Words of state.
    pub const WORDS: u32 = 5;

    /// A request that has written nothing yet. `threshold` is a word as [`Threshold::admit`] makes it.
    pub fn begin(threshold: StateWord, budget: u32) -> Self {
        Self {
            threshold: Threshold::of(threshold),
            budget,
            tokens: 0,
            step_tokens: 0,
            steps: 0,
            is_answering: budget == 0,
            keep_candidate: false,
            text: StepText::default(),
        }
    }

    /// Whether the next token begins a step.
    pub fn at_step_start(&self) -> bool {
        self.step_tokens == 0
    }

    /// From words of state.
    pub fn of(words: &[StateWord]) -> Self {
        let flags = words[2];
        Self {
            threshold: Threshold::of(low(words[0]).into()),
            budget: high(words[0]),
            tokens: low(words[1]),
            step_tokens: high(words[1]),
            steps: low(flags),
            is_answering: flags & ANSWERING != 0,
            keep_candidate: flags & KEEP != 0,
            text: StepText {
                state: TextState::of((flags >> TEXT_SHIFT) as u8),
                running: words[3],
                last: words[4],
            },
        }
    }

    /// As words of state.
    pub fn words(&self) -> [StateWord; Self::WORDS as usize] {
        let flag = |is: bool, bit| if is { bit } else { 0 };
        let flags = flag(self.is_answering, ANSWERING) | flag(self.keep_candidate, KEEP);
        let text = StateWord::from(self.text.state.bits()) << TEXT_SHIFT;
        [
            word(self.threshold.to_bits(), self.budget),
            word(self.tokens, self.step_tokens),
            word(self.steps, 0) | flags | text,
            self.text.running,
            self.text.last,
        ]
    }
}

fn word(low: u32, high: u32) -> StateWord {
    StateWord::from(high) << 32 | StateWord::from(low)
}

fn low(word: StateWord) -> u32 {
    word as u32
}

fn high(word: StateWord) -> u32 {
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_everything() {
        for (is_answering, keep_candidate) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut progress = Progress {
                threshold: 1.25,
                budget: u32::MAX,
                tokens: 3,
                step_tokens: 4,
                steps: u32::MAX,
                is_answering,
                keep_candidate,
                text: StepText::default(),
            };
            for piece in ["one\n\ntwo", "\n", "\nthree</thi"] {
                progress.text.push(piece);
                assert_eq!(Progress::of(&progress.words()), progress, "{piece:?}");
            }
        }
    }
}
