//! The Jinja environment that chat templates are written for: the one of Hugging Face's `transformers`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::json::tojson;

/// The template's name in its environment.
pub(super) const NAME: &str = "chat template";

/// Work and memory that rendering one conversation may take: an instruction or 64 bytes each. Templates take a few hundred a
/// message.
const FUEL: u64 = 2_000_000;

/// Macros within macros, deepest.
const RECURSION_MAX: usize = 100;

/// What a template's `raise_exception` said: not a fault of the template, so it is told apart.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// An environment with one template, under [`NAME`].
///
/// # Errors
/// The template is not Jinja.
pub(super) fn environment(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_template_owned(NAME, without_generation_tags(source))?;
    Ok(environment)
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// The function `strftime_now` for a render at `now_s`, seconds since 1970, in UTC.
pub(super) fn strftime_now(now_s: i64) -> Value {
    Value::from_function(move |format: String| -> Result<String, Error> {
        let wrong = |error: jiff::Error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}"));
        let now = Timestamp::from_second(now_s).map_err(wrong)?.to_zoned(TimeZone::UTC);
        jiff::fmt::strtime::format(&format, &now).map_err(wrong)
    })
}

/// `{% generation %}` … `{% endgeneration %}` mark what a model is trained on and write nothing. As tags that are always
/// taken they keep their white-space signs.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + length + 2];
        let word = tag
            .trim_start_matches(['{', '%', '-', '+'])
            .trim_end_matches(['}', '%', '-', '+']);
        out.push_str(&rest[..start]);
        match word.trim() {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[start + tag.len()..];
    }
    out.push_str(rest);
    out
}
