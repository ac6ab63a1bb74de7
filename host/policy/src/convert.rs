//! Between the contract's types and the host's.

use crate::bindings::types as wit;
use crate::{Description, ModelFacts, OptionInfo, Setting, Value};

pub(crate) fn description(description: wit::Description) -> Description {
    let option = |option: wit::OptionInfo| OptionInfo {
        name: option.name,
        summary: option.summary,
        default: match option.default {
            wit::ValueResult::Boolean(value) => Value::Boolean(value),
            wit::ValueResult::Number(value) => Value::Number(value),
            wit::ValueResult::Text(value) => Value::Text(value),
            wit::ValueResult::Numbers(values) => Value::Numbers(values),
            wit::ValueResult::Texts(values) => Value::Texts(values),
        },
        per_request: option.per_request,
    };
    Description {
        name: description.name,
        version: description.version,
        summary: description.summary,
        options: description.options.into_iter().map(option).collect(),
    }
}

pub(crate) fn models(models: &[ModelFacts]) -> Vec<wit::ModelInfo<'_>> {
    models
        .iter()
        .map(|model| wit::ModelInfo {
            name: &model.name,
            parameters: model.parameters,
            vocabulary: model.vocabulary,
        })
        .collect()
}

/// The lists of texts in `settings`, one for each setting: what [`settings`] borrows.
pub(crate) fn setting_texts(settings: &[Setting]) -> Vec<Vec<&str>> {
    settings
        .iter()
        .map(|setting| match &setting.value {
            Value::Texts(values) => values.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        })
        .collect()
}

pub(crate) fn settings<'a>(settings: &'a [Setting], texts: &'a [Vec<&'a str>]) -> Vec<wit::Setting<'a>> {
    let setting = |(setting, texts): (&'a Setting, &'a Vec<&'a str>)| wit::Setting {
        name: &setting.name,
        value: match &setting.value {
            Value::Boolean(value) => wit::ValueParam::Boolean(*value),
            Value::Number(value) => wit::ValueParam::Number(*value),
            Value::Text(value) => wit::ValueParam::Text(value),
            Value::Numbers(values) => wit::ValueParam::Numbers(values),
            Value::Texts(_) => wit::ValueParam::Texts(texts),
        },
    };
    settings.iter().zip(texts).map(setting).collect()
}
