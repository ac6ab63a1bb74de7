//! Where a deployment's chat template comes from.

use std::path::Path;

use serde_json::Value;

use super::TemplateError;
use crate::gguf::{GgufFile, GgufTemplate};
use crate::source::Source;
use crate::text::Tokenizer;

/// The embedded models have no folder and were trained on bare problems such as `23*03-98=`, so their template puts the
/// messages' contents together, behind the token that begins every prompt.
const EMBEDDED: &str = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}";

const TEMPLATE: &str = "chat_template.jinja";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Names under which templates know special tokens, as in `tokenizer_config.json`.
const TOKEN_NAMES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// A chat template before it is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSource {
    /// What messages call it.
    pub origin: String,
    /// The template itself.
    pub text: String,
    /// Special tokens by the names that it uses.
    pub tokens: Vec<(String, String)>,
}

impl TemplateSource {
    /// The template that comes with a model: `chat_template.jinja`, or `chat_template` in `tokenizer_config.json`, where it may
    /// be a text or a list of named ones, of which `default` is taken.
    ///
    /// # Errors
    /// [`TemplateError::File`]: a file cannot be read or has something else in that place.
    pub fn of_model(source: &Source, tokenizer: &Tokenizer) -> Result<Option<Self>, TemplateError> {
        let folder = match source {
            Source::Folder(folder) => folder,
            Source::Embedded(_) => {
                return Ok(Some(Self {
                    origin: format!("of {source}"),
                    text: EMBEDDED.to_owned(),
                    tokens: tokens(&Value::Null, tokenizer),
                }));
            }
            Source::Gguf(path) => {
                let GgufTemplate { text, tokens } = in_gguf(path)?;
                let origin = format!("of {source}");
                return Ok(text.map(|text| Self { origin, text, tokens }));
            }
        };
        let config = tokenizer_config(folder)?;
        let path = folder.join(TEMPLATE);
        let (path, text) = match read(&path)? {
            Some(text) => (path, Some(text)),
            None => {
                let path = folder.join(TOKENIZER_CONFIG);
                let text = in_config(&config, &path)?;
                (path, text)
            }
        };
        Ok(text.map(|text| Self {
            origin: path.display().to_string(),
            text,
            tokens: tokens(&config, tokenizer),
        }))
    }

    /// A file of the operator's choice, with the special tokens of a model.
    ///
    /// # Errors
    /// [`TemplateError::File`]: it cannot be read.
    pub fn of_file(path: &Path, source: &Source, tokenizer: &Tokenizer) -> Result<Self, TemplateError> {
        let tokens = match source {
            Source::Folder(folder) => tokens(&tokenizer_config(folder)?, tokenizer),
            Source::Embedded(_) => tokens(&Value::Null, tokenizer),
            Source::Gguf(file) => in_gguf(file)?.tokens,
        };
        let text = read(path)?.ok_or_else(|| file_error(path, "there is no such file"))?;
        Ok(Self {
            origin: path.display().to_string(),
            text,
            tokens,
        })
    }
}

/// The template in a GGUF file, and the special tokens that it may name.
fn in_gguf(path: &Path) -> Result<GgufTemplate, TemplateError> {
    let read = GgufFile::open(path).and_then(|file| file.chat_template());
    read.map_err(|error| file_error(path, &error.to_string()))
}

/// The template in a tokenizer's configuration.
fn in_config(config: &Value, path: &Path) -> Result<Option<String>, TemplateError> {
    let named = match &config["chat_template"] {
        Value::Null => return Ok(None),
        Value::String(text) => return Ok(Some(text.clone())),
        Value::Array(named) => named,
        _ => return Err(file_error(path, "chat_template must be a text or a list of named ones")),
    };
    let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
    let chosen = match named.as_slice() {
        [only] => Some(only),
        several => several.iter().find(|entry| entry["name"] == "default"),
    };
    match chosen.and_then(|entry| entry["template"].as_str()) {
        Some(text) => Ok(Some(text.to_owned())),
        None => {
            let names: Vec<String> = named.iter().map(name).collect();
            let what = format!("chat_template has no entry \"default\" among {}", names.join(", "));
            Err(file_error(path, &what))
        }
    }
}

/// Special tokens by name: the configuration's, and for the first and the last what the model itself says.
fn tokens(config: &Value, tokenizer: &Tokenizer) -> Vec<(String, String)> {
    let of_model = |name: &str| match name {
        "bos_token" => tokenizer.bos(),
        "eos_token" => tokenizer.eos().first().copied(),
        _ => None,
    };
    let token = |name: &&str| {
        let entry = &config[*name];
        let written = entry.as_str().or_else(|| entry["content"].as_str()).map(str::to_owned);
        let token = written.or_else(|| of_model(name).map(|id| tokenizer.token_text(id)))?;
        Some(((*name).to_owned(), token))
    };
    TOKEN_NAMES.iter().filter_map(token).collect()
}

fn tokenizer_config(folder: &Path) -> Result<Value, TemplateError> {
    let path = folder.join(TOKENIZER_CONFIG);
    let Some(text) = read(&path)? else {
        return Ok(Value::Null);
    };
    serde_json::from_str(&text).map_err(|error| file_error(&path, &format!("not JSON: {error}")))
}

/// A file's text; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<String>, TemplateError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path, &error.to_string())),
    }
}

fn file_error(path: &Path, what: &str) -> TemplateError {
    TemplateError::File {
        file: path.display().to_string(),
        what: what.to_owned(),
    }
}
