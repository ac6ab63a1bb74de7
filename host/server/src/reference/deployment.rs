//! `docs/deployment-reference.md` and `config/deployment.schema.json`, written from the structs that a deployment file is read into.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{cell, hold, words};
use crate::deployment::{BUILT_IN, DeploymentFile, DeviceName, Launch, ModelSource, OptimisticSetting, Whole};

const HEAD: &str = "\
# Deployment-file reference

Every key of a deployment file (`tokenrouter-host --config FILE`), written from the code that reads it. After a change:
`TOKENROUTER_UPDATE_REFERENCE=1 cargo test --release --lib reference`. [config/tiny.toml](../config/tiny.toml) is the built-in deployment
and explains the same keys at greater length.

A key that is not known, and a value of another type or out of its range, keep the server from starting, with file, line and column. Paths
are relative to the file. Editors that know JSON Schema complete and check the keys with
[config/deployment.schema.json](../config/deployment.schema.json), which the line `#:schema deployment.schema.json` names.
";

/// A JSON Schema, in which nothing refers to anything else.
fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<DeploymentFile>()
        .into()
}

/// One table of the file: its name, `[[models]]` or `[policy.limits]`, empty for the keys before all tables; and its schema.
fn tables(header: String, name: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
    found.push((header, schema.clone()));
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let name = if name.is_empty() {
            key.clone()
        } else {
            format!("{name}.{key}")
        };
        let (table, elements) = (whole(value), whole(&value["items"]));
        if table["properties"].is_object() {
            tables(format!("[{name}]"), &name, table, found);
        } else if elements["properties"].is_object() {
            tables(format!("[[{name}]]"), &name, elements, found);
        }
    }
}

/// The schema of a value that is there, of one that may be left out.
fn whole(schema: &Value) -> &Value {
    let some = schema["anyOf"]
        .as_array()
        .filter(|several| several.len() == 2 && several[1]["type"] == "null");
    some.map_or(schema, |several| &several[0])
}

fn all_tables() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    tables(String::new(), "", &schema(), &mut found);
    found
}

fn is_table(schema: &Value) -> bool {
    whole(schema)["properties"].is_object() || schema["items"]["properties"].is_object()
}

fn reference() -> String {
    let mut text = HEAD.to_owned();
    for (header, table) in all_tables() {
        if header.is_empty() {
            text += "\n## Before all tables\n";
        } else {
            text += &format!("\n## `{header}`\n\n{}\n", words(&table["description"]));
        }
        text += "\n| key | value | default | |\n|---|---|---|---|\n";
        let required: Vec<&str> = table["required"].as_array().into_iter().flatten().map(words).collect();
        for (key, value) in table["properties"].as_object().into_iter().flatten() {
            if is_table(value) {
                continue;
            }
            let default = match &value["default"] {
                Value::Null if required.contains(&key.as_str()) => "required".to_owned(),
                Value::Null => String::new(),
                default => format!("`{default}`"),
            };
            let about = cell(words(&value["description"]));
            text += &format!("| `{key}` | {} | {default} | {about} |\n", cell(&kind(value)));
        }
    }
    text
}

/// What a value may be, in words of TOML.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(|choice| format!("`{choice}`")).collect();
        return choices.join(" or ");
    }
    if !schema["const"].is_null() {
        return format!("`{}`", schema["const"]);
    }
    if let Some(several) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let several: Vec<String> = several.iter().filter(|it| it["type"] != "null").map(kind).collect();
        return several.join(" or ");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().map(words).filter(|name| *name != "null").collect(),
        one => vec![words(one)],
    };
    match types.as_slice() {
        ["integer"] => format!("whole number{}", range(schema)),
        ["number"] => "number".to_owned(),
        ["string"] => "text".to_owned(),
        ["array"] => format!("list of {}", kind(&schema["items"])),
        ["object"] if schema["properties"].is_object() => {
            let keys = schema["properties"].as_object().into_iter().flatten();
            let keys: Vec<String> = keys.map(|(key, value)| format!("{key} = {}", kind(value))).collect();
            format!("{{ {} }}", keys.join(", "))
        }
        ["object"] => format!("table of {}", kind(&schema["additionalProperties"])),
        others => others.join(" or "),
    }
}

fn range(schema: &Value) -> String {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Null, _) => String::new(),
        (min, Value::Null) => format!(", at least {min}"),
        (min, max) => format!(", {min} to {max}"),
    }
}

/// The keys that `config/tiny.toml` has or shows in a comment, each as `[table] key`.
fn explained() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut table = String::new();
    for line in BUILT_IN.lines() {
        // A comment may show a key by itself, indented, or within quotes where it has no default.
        let line = line.trim_start_matches('#').trim();
        let line = line
            .split('"')
            .find(|part| part.contains(" = "))
            .filter(|_| line.starts_with('"'))
            .unwrap_or(line);
        if line.starts_with('[') && line.ends_with(']') {
            line.clone_into(&mut table);
        } else if let Some((key, _)) = line.split_once(" = ")
            && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        {
            found.insert(format!("{table} {key}"));
        }
    }
    found
}

#[test]
fn the_reference_of_deployment_files_is_what_the_code_reads() {
    let text = reference();
    hold("docs/deployment-reference.md", &text);
    hold(
        "config/deployment.schema.json",
        &(serde_json::to_string_pretty(&schema()).expect("a schema") + "\n"),
    );
    for key in ["kv_tokens", "fallback", "key_file", "memory_pages_max", "min"] {
        assert!(text.contains(key), "{key} is not in the reference");
    }
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        assert!(!line.ends_with("|  |"), "a key without a meaning: {line}");
    }
}

/// The file promises to explain every key, so each must be there, in its table; and it must name none that is not read.
#[test]
fn the_built_in_deployment_explains_every_key() {
    let mut keys = BTreeSet::new();
    for (header, table) in all_tables() {
        for (key, value) in table["properties"].as_object().into_iter().flatten() {
            // Options of a policy and bounds of requests are tables of their own there.
            let is_named = !is_table(value) && !["options", "request_options"].contains(&key.as_str());
            keys.extend(is_named.then(|| format!("{header} {key}")));
        }
    }
    let of_the_policy =
        |key: &String| key.starts_with("[policy.options]") || key.starts_with("[policy.request_options]");
    let explained: BTreeSet<String> = explained().into_iter().filter(|key| !of_the_policy(key)).collect();
    let missing: Vec<_> = keys.difference(&explained).collect();
    let unknown: Vec<_> = explained.difference(&keys).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not explained: {missing:?}; explained, but not read: {unknown:?}"
    );
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// Values that the file has as texts.
macro_rules! text {
    ($($name:ident),*) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    )*};
}

text!(DeviceName, Launch, ModelSource, OptimisticSetting);

impl Serialize for DeviceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Launch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for OptimisticSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
