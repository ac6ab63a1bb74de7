//! `docs/http-reference.md`, written from the two OpenAPI documents, so that it says of every path and field what the server says.

use serde_json::Value;

use super::{cell, hold, words};

const HEAD: &str = "\
# HTTP reference

Written from the API's own descriptions, `GET /openapi.json` and, of the admin listener, `GET /admin/openapi.json`. After a change:
`TOKENROUTER_UPDATE_REFERENCE=1 cargo test --release --lib reference`.

Every path may answer with an error object (`Error`). Where the server has keys, every path that does not say otherwise needs
`authorization: Bearer KEY`.
";

/// Both APIs.
fn reference() -> String {
    let (clients, admin) = (crate::http::openapi_document(), crate::admin::openapi_document());
    let mut text = HEAD.to_owned();
    text += "\n## Paths\n";
    paths(&clients, &mut text);
    text += "\n## Objects\n";
    let schemas = clients["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        text += &format!("\n### {name}\n\n");
        fields(schema, &mut text);
    }
    text += "\n## Paths of the admin listener\n\nEach needs an admin key.\n";
    paths(&admin, &mut text);
    text
}

fn paths(document: &Value, text: &mut String) {
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            *text += &format!(
                "\n### `{} {path}`\n\n{}.",
                method.to_uppercase(),
                words(&operation["summary"])
            );
            match words(&operation["description"]) {
                "" => {}
                description => *text += &format!(" {}.", description.trim_end_matches('.')),
            }
            if operation["security"].as_array().is_some_and(Vec::is_empty) {
                *text += " Needs no key.";
            }
            text.push('\n');
            parameters(operation, text);
            let body = &operation["requestBody"]["content"];
            for (kind, content) in body.as_object().into_iter().flatten() {
                *text += &format!("\nBody, `{kind}`{}\n", of(&content["schema"]));
                if content["schema"]["properties"].is_object() {
                    text.push('\n');
                    fields(&content["schema"], text);
                }
            }
            for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                if status == "default" {
                    continue;
                }
                *text += &format!("\n{status}: {}", words(&response["description"]));
                for (kind, content) in response["content"].as_object().into_iter().flatten() {
                    *text += &format!("; `{kind}`{}", of(&content["schema"]));
                }
                text.push('\n');
            }
        }
    }
}

fn parameters(operation: &Value, text: &mut String) {
    let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if parameters.is_empty() {
        return;
    }
    *text += "\n| parameter | in | type | |\n|---|---|---|---|\n";
    for parameter in parameters {
        let (name, place) = (words(&parameter["name"]), words(&parameter["in"]));
        let (kind, about) = (kind(&parameter["schema"]), cell(words(&parameter["description"])));
        *text += &format!("| `{name}` | {place} | {kind} | {about} |\n");
    }
}

/// The object's name, if a schema only refers to it.
fn of(schema: &Value) -> String {
    let name = words(&schema["$ref"]).rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        String::new()
    } else {
        format!(": [{name}](#{})", name.to_lowercase())
    }
}

/// All fields of an object, those of its parts as `part.field`.
fn fields(schema: &Value, text: &mut String) {
    *text += "| field | type | |\n|---|---|---|\n";
    rows("", schema, text);
}

fn rows(before: &str, schema: &Value, text: &mut String) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().map(words).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let mut about = Vec::new();
        if before.is_empty() && required.contains(&name.as_str()) {
            about.push("required".to_owned());
        }
        match words(&field["description"]) {
            "" => {}
            description => about.push(description.to_owned()),
        }
        let (min, max) = (&field["minimum"], &field["maximum"]);
        match (min.is_null(), max.is_null()) {
            (false, false) => about.push(format!("{min} to {max}")),
            (false, true) => about.push(format!("at least {min}")),
            _ => {}
        }
        if !field["default"].is_null() {
            about.push(format!("{} if left out", field["default"]));
        }
        let path = format!("{before}{name}");
        *text += &format!("| `{path}` | {} | {} |\n", kind(field), cell(&about.join("; ")));
        rows(&format!("{path}."), field, text);
        rows(&format!("{path}[]."), &field["items"], text);
    }
}

/// The type in words.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(|choice| format!("`{choice}`")).collect();
        return choices.join(", ");
    }
    if let Some(several) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let several: Vec<String> = several.iter().map(kind).collect();
        return several.join(", or ");
    }
    let name = of(schema);
    if let Some(name) = name.strip_prefix(": ") {
        return name.to_owned();
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().map(words).collect(),
        one => vec![words(one)],
    };
    let items = || {
        if schema["items"].is_null() {
            String::new()
        } else {
            format!(" of {}", kind(&schema["items"]))
        }
    };
    let named = types.iter().filter(|name| !name.is_empty()).map(|&name| match name {
        "array" => format!("list{}", items()),
        _ => name.to_owned(),
    });
    let text = named.collect::<Vec<_>>().join(" or ");
    if text.is_empty() { "any".to_owned() } else { text }
}

#[test]
fn the_reference_of_the_api_is_what_the_api_says() {
    let text = reference();
    hold("docs/http-reference.md", &text);
    for path in ["/v1/completions", "/timeline", "/admin/policies/{name}/activate"] {
        assert!(text.contains(&format!("{path}`\n")), "{path} is not in the reference");
    }
}
