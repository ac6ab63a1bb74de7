//! JSON as Python's `json.dumps` writes it, which is what templates' authors saw: a space behind separators, keys in their
//! order, no escapes for HTML, and floats as Python shows them.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// How the text is laid out.
struct Layout {
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

/// The filter `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, as `transformers` defines it.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a filter of minijinja takes its keywords by value"
)]
pub(super) fn tojson(state: &State<'_, '_>, value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let layout = Layout::of(&kwargs)?;
    kwargs.assert_all_used()?;
    let mut out = String::new();
    write(&layout, value, 0, &mut out)?;
    state.consume_fuel(out.len() as u64 / 64)?;
    Ok(out)
}

impl Layout {
    fn of(kwargs: &Kwargs) -> Result<Self, Error> {
        let indent: Option<Value> = kwargs.get("indent")?;
        let indent = match indent {
            None => None,
            Some(value) if value.is_none() => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_owned(),
                None => " ".repeat(usize::try_from(value)?.min(16)),
            }),
        };
        let separators: Option<Value> = kwargs.get("separators")?;
        let (item_separator, key_separator) = match separators.filter(|value| !value.is_none()) {
            Some(value) => (
                String::from(value.get_item_by_index(0)?),
                String::from(value.get_item_by_index(1)?),
            ),
            None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
            None => (", ".to_owned(), ": ".to_owned()),
        };
        Ok(Self {
            indent,
            item_separator,
            key_separator,
            sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
            ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        })
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }
}

/// Values nest no deeper than the JSON of a request, whose reader has a limit, or than a template that is on disk.
fn write(layout: &Layout, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&python_float(f64::try_from(value.clone())?)),
        ValueKind::String => write_string(layout, value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.checked().collect::<Result<_, _>>()?;
            write_all(layout, ('[', ']'), items.len(), depth, out, |index, out| {
                write(layout, &items[index], depth + 1, out)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.checked().collect::<Result<_, _>>()?;
            if layout.sort_keys {
                keys.sort();
            }
            write_all(layout, ('{', '}'), keys.len(), depth, out, |index, out| {
                write_string(layout, &keys[index].to_string(), out);
                out.push_str(&layout.key_separator);
                write(layout, &value.get_item(&keys[index])?, depth + 1, out)
            })?;
        }
        other => {
            let message = format!("tojson cannot write a value of kind {other}");
            return Err(Error::new(ErrorKind::BadSerialization, message));
        }
    }
    Ok(())
}

fn write_all(
    layout: &Layout,
    (open, close): (char, char),
    count: usize,
    depth: usize,
    out: &mut String,
    mut one: impl FnMut(usize, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    out.push(open);
    for index in 0..count {
        if index > 0 {
            out.push_str(&layout.item_separator);
        }
        layout.new_line(depth + 1, out);
        one(index, out)?;
    }
    if count > 0 {
        layout.new_line(depth, out);
    }
    out.push(close);
    Ok(())
}

fn write_string(layout: &Layout, text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ if layout.ensure_ascii && !(' '..='~').contains(&character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// A float as Python's `repr` shows it: the shortest digits that give it back, with an exponent below 1e-4 and from 1e16.
fn python_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..16).contains(&exponent) {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values: `repr` of CPython 3.11.
    #[test]
    fn floats_are_written_as_python_does() {
        for (number, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-2.5e300, "-2.5e+300"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(python_float(number), text);
        }
    }
}
