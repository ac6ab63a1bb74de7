//! Whether an output is as a page shows it.

use std::sync::LazyLock;

use regex::Regex;

/// What stands for anything.
pub const ANYTHING: &str = "…";

/// How an output is compared.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Numbers and digests match others.
    pub numbers_vary: bool,
    /// It is JSON, whose blanks and new lines mean nothing.
    pub json: bool,
}

/// Digests, and numbers with thousands, fractions and exponents.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[0-9a-f]{12,}\b|[-+]?[0-9][0-9,]*(\.[0-9]+)?(e[-+]?[0-9]+)?").expect("it is one"));
const ANY_NUMBER: &str = r"(?:[0-9a-f]{12,}|[-+]?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|-)";

/// Compares an output with the lines that are shown.
pub fn matches(shown: &[String], found: &[String], form: Form) -> bool {
    if form.json {
        let (shown, found) = (shown.join("\n"), found.join("\n"));
        let (shown, found) = (tokens(&shown), tokens(&found));
        return shown.len() == found.len()
            && shown
                .iter()
                .zip(&found)
                .all(|(left, right)| same(left.1, right.1, form));
    }
    lines_match(shown, found, form)
}

fn lines_match(shown: &[String], found: &[String], form: Form) -> bool {
    match shown.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line.trim() == ANYTHING => {
            (0..=found.len()).any(|skipped| lines_match(rest, &found[skipped..], form))
        }
        Some((line, rest)) => match found.split_first() {
            Some((first, others)) => same(line, first, form) && lines_match(rest, others, form),
            None => false,
        },
    }
}

/// Compares one line, or one token of JSON.
pub fn same(shown: &str, found: &str, form: Form) -> bool {
    let mut pattern = String::from("^");
    let mut words = shown.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let parts: Vec<String> = word.split(ANYTHING).map(|part| literal(part, form)).collect();
        pattern += &parts.join(".*?");
        if words.peek().is_some() {
            pattern += r"\s+";
        }
    }
    pattern.push('$');
    let pattern = Regex::new(&pattern).expect("all but the pattern's own parts is escaped");
    pattern.is_match(found.trim())
}

fn literal(text: &str, form: Form) -> String {
    if !form.numbers_vary {
        return regex::escape(text);
    }
    let (mut pattern, mut at) = (String::new(), 0);
    for number in NUMBER.find_iter(text) {
        pattern += &regex::escape(&text[at..number.start()]);
        pattern += ANY_NUMBER;
        at = number.end();
    }
    pattern + &regex::escape(&text[at..])
}

/// Strings, numbers, words and marks of JSON, each with where it begins.
pub fn tokens(text: &str) -> Vec<(usize, &str)> {
    static TOKEN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#""(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+"#).expect("it is one"));
    TOKEN
        .find_iter(text)
        .map(|token| (token.start(), token.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Form = Form {
        numbers_vary: false,
        json: false,
    };
    const VARYING: Form = Form {
        numbers_vary: true,
        json: false,
    };
    const JSON: Form = Form {
        numbers_vary: false,
        json: true,
    };

    fn matching(shown: &str, found: &str, form: Form) -> bool {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        matches(&lines(shown), &lines(found), form)
    }

    #[test]
    fn an_output_is_as_shown_but_for_blanks_and_what_may_vary() {
        for (shown, found, form) in [
            ("N  a\n8  1.5", "N      a\n8    1.5", EXACT),
            ("sha …, done in … ms", "sha 0a1b, done in 7.25 ms", EXACT),
            ("first\n…\nlast", "first\n1\n2\n3\nlast", EXACT),
            ("first\n…", "first", EXACT),
            ("a (1.5 %) [1+1=]", "a (1.5 %) [1+1=]", EXACT),
            ("in 2320.6 ms, 8 of 1,000", "in 7 ms, 12 of 30", VARYING),
            ("x cfc52aba4b5e -", "x 0123456789ab -", VARYING),
            ("{\"a\": [1, 2],\n \"b c\": …}", "{\"a\":[1,2],\"b c\":17}", JSON),
        ] {
            assert!(matching(shown, found, form), "{shown:?} is not {found:?}");
        }
    }

    #[test]
    fn anything_else_is_another_output() {
        for (shown, found, form) in [
            ("8 1.5", "8 1.6", EXACT),
            ("one", "one\ntwo", EXACT),
            ("one\ntwo", "one", EXACT),
            ("first\n…\nlast", "first\nlost", EXACT),
            ("in 2320.6 ms", "in 7 s", VARYING),
            ("in 7 ms", "in some ms", VARYING),
            ("all 11 checks passed", "11 checks passed", VARYING),
            ("{\"a b\": 1}", "{\"ab\":1}", JSON),
            ("{\"a\": 1}", "{\"a\":1,\"b\":2}", JSON),
        ] {
            assert!(!matching(shown, found, form), "{shown:?} passes for {found:?}");
        }
    }
}
