//! The fields that say what an answer may look like: `response_format`, and vLLM's `guided_json`, `guided_regex` and
//! `guided_choice`. What cannot be kept is refused before anything is written; nothing is ever written without its format.

use std::sync::OnceLock;

use serde_json::Value;
use tokenrouter_core::TokenId;
use tokenrouter_model::grammar::{Format, Grammar, GrammarCompiler, GrammarError};
use tokenrouter_model::text::Tokenizer;

use super::Fields;
use crate::http::ApiError;

/// Makes grammars for the deployment's tokenizer. The work that serves all of them is done when the first is asked for.
#[derive(Debug)]
pub(in crate::http) struct Grammars {
    tokenizer: Tokenizer,
    ends: Vec<TokenId>,
    compiler: OnceLock<Result<GrammarCompiler, GrammarError>>,
}

impl Grammars {
    /// `ends` are the tokens that end answers.
    pub(in crate::http) fn new(tokenizer: &Tokenizer, ends: &[TokenId]) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            ends: ends.to_vec(),
            compiler: OnceLock::new(),
        }
    }

    fn compile(&self, format: &Format) -> Result<Grammar, GrammarError> {
        let compiler = self
            .compiler
            .get_or_init(|| GrammarCompiler::new(&self.tokenizer, &self.ends));
        compiler.as_ref().map_err(Clone::clone)?.compile(format)
    }
}

/// A format and the field that asked for it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct Wanted {
    field: String,
    format: Format,
}

impl Wanted {
    /// The format that the fields ask for, if they do.
    pub(super) fn read(fields: &Fields<'_>) -> Result<Option<Self>, ApiError> {
        let read = [response_format(fields)?, json(fields)?, regex(fields)?, choice(fields)?];
        let mut wanted = read.into_iter().flatten();
        match (wanted.next(), wanted.next()) {
            (Some(first), Some(second)) => Err(fields.refuse(
                &second.field,
                &format!("cannot be combined with {}; give one of them", first.field),
            )),
            (first, _) => Ok(first),
        }
    }

    /// The format as a grammar, at the beginning of an answer.
    pub(super) fn grammar(&self, grammars: &Grammars) -> Result<Grammar, ApiError> {
        grammars
            .compile(&self.format)
            .map_err(|error| ApiError::field(&self.field, format!("{}: {error}", self.field)))
    }

    /// Refuses fields that would keep an answer from ending where its format does.
    pub(super) fn check(&self, fields: &Fields<'_>, min_tokens: u32, ignore_eos: bool) -> Result<(), ApiError> {
        let conflict = match (min_tokens, ignore_eos) {
            (0, false) => return Ok(()),
            (0, true) => "ignore_eos",
            _ => "min_tokens",
        };
        let sentence = format!(
            "cannot be combined with {}: an answer ends where its format does",
            self.field
        );
        Err(fields.refuse(conflict, &sentence))
    }
}

fn response_format(fields: &Fields<'_>) -> Result<Option<Wanted>, ApiError> {
    let Some(format) = fields.object("response_format")? else {
        return Ok(None);
    };
    let wanted = |field: String, format| Some(Wanted { field, format });
    match format.text("type")? {
        Some("text") => Ok(None),
        Some("json_object") => Ok(wanted("response_format".to_owned(), Format::JsonObject)),
        Some("json_schema") => {
            let Some(named) = format.object("json_schema")? else {
                return Err(format.refuse("json_schema", "is missing; it is an object with name and schema"));
            };
            if named.text("name")?.is_none() {
                return Err(named.refuse("name", "is missing; it is a string"));
            }
            // Schemas are always kept strictly; to ask for less changes nothing.
            named.boolean("strict")?;
            named.text("description")?;
            match named.get("schema") {
                Some(schema) => Ok(wanted(named.path("schema"), Format::JsonSchema(schema.clone()))),
                None => Err(named.refuse("schema", "is missing; it is a JSON Schema")),
            }
        }
        Some(other) => {
            let sentence = format!("is \"{other}\"; it must be \"text\", \"json_object\" or \"json_schema\"");
            Err(format.refuse("type", &sentence))
        }
        None => Err(format.refuse("type", "is missing; it is \"text\", \"json_object\" or \"json_schema\"")),
    }
}

/// `guided_json`: a schema, or its text.
fn json(fields: &Fields<'_>) -> Result<Option<Wanted>, ApiError> {
    let name = "guided_json";
    let schema = match fields.get(name) {
        None => return Ok(None),
        Some(Value::String(text)) if text.is_empty() => return Ok(None),
        Some(Value::String(text)) => {
            serde_json::from_str(text).map_err(|error| fields.refuse(name, &format!("is not JSON: {error}")))?
        }
        Some(schema) => schema.clone(),
    };
    Ok(Some(Wanted {
        field: name.to_owned(),
        format: Format::JsonSchema(schema),
    }))
}

fn regex(fields: &Fields<'_>) -> Result<Option<Wanted>, ApiError> {
    let name = "guided_regex";
    let expression = fields.text(name)?.filter(|expression| !expression.is_empty());
    Ok(expression.map(|expression| Wanted {
        field: name.to_owned(),
        format: Format::Regex(expression.to_owned()),
    }))
}

fn choice(fields: &Fields<'_>) -> Result<Option<Wanted>, ApiError> {
    let name = "guided_choice";
    let expected = "an array of strings";
    let texts = match fields.get(name) {
        None => return Ok(None),
        Some(Value::Array(items)) if items.is_empty() => return Ok(None),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(fields.wrong(name, expected, other)),
    };
    let text = |item: &Value| {
        item.as_str()
            .map(str::to_owned)
            .ok_or_else(|| fields.wrong(name, expected, item))
    };
    Ok(Some(Wanted {
        field: name.to_owned(),
        format: Format::Choice(texts.iter().map(text).collect::<Result<_, _>>()?),
    }))
}
