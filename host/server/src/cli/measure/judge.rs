//! Whether a text gives the right answer: how it is found in the text depends on where the problem came from.

use regex::Regex;

/// How the answer is found in a model's text.
#[derive(Clone, Debug)]
pub(super) enum Judge {
    /// The text ends with it.
    Ends,
    /// The last match of an expression: its first group, or all of it.
    Pattern(Regex),
    /// The last `\boxed{...}`, as AIME's answers are written, or the last number of a text without one.
    Boxed,
    /// The last number, as in GSM8K.
    Number,
}

impl Judge {
    pub(super) fn is_right(&self, text: &str, answer: &str) -> bool {
        match self {
            Judge::Ends => text.trim_end().ends_with(answer.trim()),
            Judge::Pattern(pattern) => {
                let last = pattern.captures_iter(text).last();
                let found = last.and_then(|groups| groups.get(1).or_else(|| groups.get(0)));
                found.is_some_and(|found| same(found.as_str(), answer))
            }
            Judge::Boxed => boxed(text)
                .or_else(|| last_number(text))
                .is_some_and(|found| same(found, answer)),
            Judge::Number => last_number(text).is_some_and(|found| same(found, answer)),
        }
    }
}

/// Equal as numbers if both are numbers, else as texts.
fn same(found: &str, answer: &str) -> bool {
    match (number(found), number(answer)) {
        (Some(found), Some(answer)) => found == answer,
        _ => found.trim() == answer.trim(),
    }
}

/// A number that may have separators of thousands or stand for an amount of money.
fn number(text: &str) -> Option<f64> {
    let plain: String = text.trim().chars().filter(|c| !matches!(c, ',' | '$')).collect();
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The last stretch of digits, with its sign, separators of thousands and decimals.
fn last_number(text: &str) -> Option<&str> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let mut start = text[..end]
        .rfind(|c| !part(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    start += text[start..end].find(|c: char| c.is_ascii_digit())?;
    // A minus is a sign unless it joins the number to what stands before it, as in 10-7.
    let before = &text[..start];
    let joined = |before: &str| before.ends_with(|c: char| c.is_alphanumeric());
    let sign = before.strip_suffix('-').is_some_and(|before| !joined(before));
    Some(&text[start - usize::from(sign)..end])
}

/// What stands in the last `\boxed{...}`, whose braces may be nested.
fn boxed(text: &str) -> Option<&str> {
    const OPEN: &str = "\\boxed{";
    let inside = &text[text.rfind(OPEN)? + OPEN.len()..];
    let mut depth = 1;
    let end = inside.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        (depth == 0).then_some(at)
    })?;
    Some(&inside[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts_with_sign_thousands_and_decimals() {
        for (text, answer) in [
            ("5 + 5 = 10, so she pays $1,234.50.", "1234.5"),
            ("The answer is -7", "-7"),
            ("10-7", "7"),
            ("so 18 eggs\n#### 18", "18"),
            ("Preis 3 \u{20ac}7", "7"),
        ] {
            assert!(Judge::Number.is_right(text, answer), "{text}: {:?}", last_number(text));
        }
        assert!(!Judge::Number.is_right("18 and then 19", "18"));
        assert!(!Judge::Number.is_right("none", "18"));
    }

    #[test]
    fn a_box_wins_over_numbers_after_it_and_may_be_nested() {
        assert!(Judge::Boxed.is_right("\\boxed{1} no, \\boxed{204} in 3 steps", "204"));
        assert!(Judge::Boxed.is_right("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"));
        assert!(Judge::Boxed.is_right("it is 033.", "33"));
        assert!(!Judge::Boxed.is_right("\\boxed{12", "34"));
    }

    #[test]
    fn an_expression_gives_its_last_match() {
        let judge = Judge::Pattern(Regex::new("A([0-9]{2})").unwrap());
        assert!(judge.is_right("A12;A34", "34"));
        assert!(!judge.is_right("A12;A34", "12"));
        assert!(Judge::Ends.is_right("12=34;A34\n", "34"));
    }
}
