//! Finds the ends of steps and of reasoning in committed text, piece by piece. Tokens may contain a boundary (".\n\n"),
//! or only a part of it.

/// What ends reasoning.
const THINKING_END: &[u8] = b"</think>";

/// Offset basis and prime of the 64-bit FNV-1a hash.
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Something that a piece of text completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// A blank line.
    Step {
        /// The step is the same as the one before it.
        repeats: bool,
    },
    /// `</think>`.
    Thinking,
}

/// What the text of the running step ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextState {
    /// A newline, which one more makes a blank line.
    newline: bool,
    /// So many bytes of `</think>`.
    matched: u8,
}

/// The text of a step as far as it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepText {
    /// How it ends.
    pub state: TextState,
    /// Hash of the running step.
    pub running: u64,
    /// Hash of the step before it, with its blank line.
    pub last: u64,
}

impl Default for StepText {
    fn default() -> Self {
        Self {
            state: TextState::default(),
            running: HASH_BASIS,
            last: 0,
        }
    }
}

impl TextState {
    /// From [`TextState::bits`].
    pub fn of(bits: u8) -> Self {
        Self {
            newline: bits & 0x80 != 0,
            matched: bits & 0x7f,
        }
    }

    /// In one byte.
    pub fn bits(self) -> u8 {
        u8::from(self.newline) << 7 | self.matched
    }

    /// The end of reasoning has no `<` but the first, so a mismatch can only begin it anew.
    fn match_thinking_end(&mut self, byte: u8) -> bool {
        let expected = THINKING_END.get(usize::from(self.matched));
        self.matched = if expected == Some(&byte) {
            self.matched + 1
        } else {
            u8::from(byte == THINKING_END[0])
        };
        usize::from(self.matched) == THINKING_END.len()
    }
}

impl StepText {
    /// Adds committed text. The first blank line in it ends the step; what follows begins the next. If several are in one
    /// piece, the last is told. The end of reasoning goes before all else.
    pub fn push(&mut self, text: &str) -> Option<StepEnd> {
        let mut end = None;
        for byte in text.bytes() {
            if self.state.match_thinking_end(byte) {
                return Some(StepEnd::Thinking);
            }
            self.running = (self.running ^ u64::from(byte)).wrapping_mul(HASH_PRIME);
            let blank = byte == b'\n' && self.state.newline;
            self.state.newline = byte == b'\n';
            if blank {
                end = Some(StepEnd::Step {
                    repeats: self.end_step(),
                });
            }
        }
        end
    }

    /// Ends the step here. Returns whether it is the same as the one before it.
    pub fn end_step(&mut self) -> bool {
        let repeats = self.running == self.last;
        self.last = self.running;
        self.running = HASH_BASIS;
        // A newline before the end is no part of the next step's blank line.
        self.state.newline = false;
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Option<StepEnd> = Some(StepEnd::Step { repeats: false });

    /// What each piece brings.
    fn ends(pieces: &[&str]) -> Vec<Option<StepEnd>> {
        let mut text = StepText::default();
        pieces.iter().map(|piece| text.push(piece)).collect()
    }

    #[test]
    fn a_blank_line_ends_a_step_however_it_is_cut_into_tokens() {
        assert_eq!(ends(&["a", "\n\n"]), [None, END]);
        assert_eq!(ends(&["a", ".\n\n"]), [None, END]);
        assert_eq!(ends(&["a", "\n", "\n"]), [None, None, END]);
        assert_eq!(ends(&["a", ".\n", "\nb"]), [None, None, END]);
        assert_eq!(ends(&["a", "\n\n\n", "b"]), [None, END, None]);
        assert_eq!(ends(&["a", "\n\n", "\n", "b"]), [None, END, None, None]);
    }

    #[test]
    fn a_single_newline_or_a_line_of_spaces_ends_nothing() {
        assert_eq!(ends(&["a", "\n", "b", "\n", " ", "\n"]), [None; 6]);
        assert_eq!(ends(&["a\n", "", "b\r\n", "\r\n"]), [None; 4]);
    }

    #[test]
    fn an_empty_piece_between_two_newlines_changes_nothing() {
        assert_eq!(ends(&["a\n", "", "\n"]), [None, None, END]);
    }

    #[test]
    fn a_newline_before_a_step_that_was_cut_off_counts_for_nothing_after_it() {
        let mut text = StepText::default();
        assert_eq!(text.push("a\n"), None);
        text.end_step();
        assert_eq!(text.push("\n"), None);
        assert_eq!(text.push("\n"), END);
    }

    #[test]
    fn the_end_of_reasoning_is_found_however_it_is_cut() {
        let thinking = Some(StepEnd::Thinking);
        assert_eq!(ends(&["</think>"]), [thinking]);
        assert_eq!(ends(&["so</", "think", ">\n\nThe"]), [None, None, thinking]);
        assert_eq!(ends(&["<", "</think>"]), [None, thinking]);
        assert_eq!(ends(&["</thi", "</think>"]), [None, thinking]);
        assert_eq!(ends(&["\n\n</think>"]), [thinking]);
        assert_eq!(ends(&["<think>", "</thinks>", "/think>"]), [None; 3]);
    }

    #[test]
    fn a_step_repeats_if_its_text_is_that_of_the_one_before_however_it_is_cut() {
        let repeats = Some(StepEnd::Step { repeats: true });
        assert_eq!(ends(&["ab\n\n", "a", "b\n", "\n"]), [END, None, None, repeats]);
        assert_eq!(ends(&["ab\n\n", "ac\n\n", "ab\n\n"]), [END; 3]);
    }
}
