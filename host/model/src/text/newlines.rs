//! The newline boundary that step-wise policies look at.

/// How many newlines the text so far ends with, counted up to 2, when it ended with `before` of them and `text` follows.
///
/// It looks at text, not at tokens: a blank line may be one token, two tokens, or the end of a longer one.
pub fn trailing_newlines(before: u8, text: &str) -> u8 {
    let newlines = text.bytes().rev().take(2).take_while(|&byte| byte == b'\n').count() as u8;
    let carried = if usize::from(newlines) == text.len() { before } else { 0 };
    (carried + newlines).min(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_across_pieces_and_forgets_at_other_text() {
        for (before, text, after) in [
            (0, "", 0),
            (1, "", 1),
            (2, "", 2),
            (0, "a", 0),
            (2, "a", 0),
            (0, "\n", 1),
            (1, "\n", 2),
            (2, "\n", 2),
            (0, "\n\n", 2),
            (0, "\n\n\n", 2),
            (0, ".\n\n", 2),
            (1, ".\n", 1),
            (1, "\n.\n", 1),
            (1, "\r\n", 1),
            (1, "é\n", 1),
        ] {
            assert_eq!(trailing_newlines(before, text), after, "{before} {text:?}");
        }
    }

    #[test]
    fn any_split_of_a_text_counts_the_same() {
        let text = "\n\na\n\nb\n\n\nc\n";
        for end in 0..=text.len() {
            let whole = trailing_newlines(0, &text[..end]);
            for cut in 0..=end {
                let parts = trailing_newlines(trailing_newlines(0, &text[..cut]), &text[cut..end]);
                assert_eq!(parts, whole, "{:?} cut at {cut}", &text[..end]);
            }
        }
    }
}
