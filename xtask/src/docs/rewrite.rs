//! A page's output as it is now, with the placeholders and, of JSON, the lines that the page had.

use super::output::{ANYTHING, Form, same, tokens};

/// The lines to show in place of `shown`.
pub fn output(shown: &[String], found: &[String], form: Form) -> Vec<String> {
    if form.json {
        json(&shown.join("\n"), &found.join("\n"), form)
    } else {
        lines(shown, found, form)
    }
}

fn lines(shown: &[String], found: &[String], form: Form) -> Vec<String> {
    let equal = |left: usize, right: usize| shown[left].trim() != ANYTHING && same(&shown[left], &found[right], form);
    let (mut by, mut left, mut right) = (Vec::new(), 0, 0);
    let pairs = common(shown.len(), found.len(), equal);
    for (next_left, next_right) in pairs.into_iter().chain([(shown.len(), found.len())]) {
        gap(&shown[left..next_left], &found[right..next_right], &mut by);
        by.extend(shown.get(next_left).cloned());
        (left, right) = (next_left + 1, next_right + 1);
    }
    by
}

/// What stands between two lines that are as they were. Lines before a placeholder are the first found, those behind it the last.
fn gap(shown: &[String], found: &[String], by: &mut Vec<String>) {
    let placeholder = shown.iter().position(|line| line.trim() == ANYTHING);
    let (first, last) = shown.split_at(placeholder.unwrap_or(shown.len()));
    let from_start = first.len().min(found.len());
    by.extend(first.iter().zip(found).map(|(old, new)| line_of(old, new)));
    let Some((placeholder, last)) = last.split_first() else {
        by.extend(found[from_start..].iter().cloned());
        return;
    };
    by.push(placeholder.clone());
    let from_end = last.len().min(found.len() - from_start);
    let (last, new) = (&last[last.len() - from_end..], &found[found.len() - from_end..]);
    by.extend(last.iter().zip(new).map(|(old, new)| line_of(old, new)));
}

/// A line as it is now, with the placeholders of the old one where both have as many words.
fn line_of(shown: &str, found: &str) -> String {
    let (old, new) = (
        shown.split_whitespace().collect::<Vec<_>>(),
        found.split_whitespace().collect::<Vec<_>>(),
    );
    if old.len() != new.len() {
        return found.trim_end().to_owned();
    }
    let exact = Form {
        numbers_vary: false,
        json: false,
    };
    let (mut text, mut rest) = (String::new(), found.trim_end());
    for (old, new) in old.into_iter().zip(new) {
        let at = rest.find(new).expect("it is a word of the line");
        text += &rest[..at];
        text += if old.contains(ANYTHING) && same(old, new, exact) {
            old
        } else {
            new
        };
        rest = &rest[at + new.len()..];
    }
    text
}

fn json(shown: &str, found: &str, form: Form) -> Vec<String> {
    let (old, new) = (tokens(shown), tokens(found));
    let pairs = common(old.len(), new.len(), |left, right| {
        same(old[left].1, new[right].1, form)
    });
    let (mut text, mut left, mut right) = (String::new(), 0, 0);
    // What stands before a token in the page: blanks and new lines.
    let before = |index: usize| {
        let end = if index == 0 {
            0
        } else {
            old[index - 1].0 + old[index - 1].1.len()
        };
        &shown[end..old[index].0]
    };
    for (next_left, next_right) in pairs.into_iter().chain([(old.len(), new.len())]) {
        for (index, token) in new[right..next_right].iter().enumerate() {
            text += if left + index < next_left {
                before(left + index)
            } else {
                ""
            };
            text += token.1;
        }
        if next_left < old.len() {
            text += before(next_left);
            text += old[next_left].1;
        }
        (left, right) = (next_left + 1, next_right + 1);
    }
    text.lines().map(str::to_owned).collect()
}

/// Pairs of the longest common subsequence of two sequences, in order.
fn common(left: usize, right: usize, equal: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    // best[i][j]: its length from i and j on.
    let mut best = vec![vec![0_usize; right + 1]; left + 1];
    let mut is_equal = vec![vec![false; right]; left];
    for i in (0..left).rev() {
        for j in (0..right).rev() {
            is_equal[i][j] = equal(i, j);
            best[i][j] = if is_equal[i][j] {
                best[i + 1][j + 1] + 1
            } else {
                best[i + 1][j].max(best[i][j + 1])
            };
        }
    }
    let (mut pairs, mut i, mut j) = (Vec::new(), 0, 0);
    while i < left && j < right {
        if is_equal[i][j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if best[i + 1][j] >= best[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::output::matches;

    /// Rewrites, checks that the result is what is found and stays as it is, and returns it.
    fn rewritten(shown: &str, found: &str, json: bool) -> String {
        let split = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let form = Form {
            numbers_vary: false,
            json,
        };
        let now = output(&split(shown), &split(found), form);
        assert!(matches(&now, &split(found), form), "{now:?} is not {found:?}");
        now.join("\n")
    }

    #[test]
    fn placeholders_stay_where_they_match() {
        let shown = "a, generation 1, done in … ms\ndefault: b\n…\nend 1";
        let found = "a, generation 2, done in 5.0 ms\ndefault: b\nx\ny\nend 2";
        assert_eq!(
            rewritten(shown, found, false),
            "a, generation 2, done in … ms\ndefault: b\n…\nend 2"
        );
        assert_eq!(rewritten("one\ntwo", "one\nnew\ntwo", false), "one\nnew\ntwo");
        assert_eq!(rewritten("…\none\ntwo", "a\nb\nc", false), "…\nb\nc");
        assert_eq!(rewritten("one\ntwo\nthree", "one\nthree", false), "one\nthree");
    }

    #[test]
    fn json_keeps_its_lines() {
        let shown = "{\"id\":\"cmpl-…\",\"created\":…,\n \"text\":\"old\",\n \"n\":1}";
        let found = "{\"id\":\"cmpl-77\",\"created\":12,\"text\":\"new\",\"m\":[],\"n\":2}";
        let now = "{\"id\":\"cmpl-…\",\"created\":…,\n \"text\":\"new\",\"m\":[],\n \"n\":2}";
        assert_eq!(rewritten(shown, found, true).replace(' ', ""), now.replace(' ', ""));
    }
}
