//! As much of JSON Schema as the API's description uses. A keyword that is not known here fails, so that none is believed to
//! be checked that is not.

use serde_json::Value;

/// Checks a value; the error says where it differs.
pub fn validate(document: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    for (keyword, rule) in schema
        .as_object()
        .ok_or_else(|| format!("{at}: no schema but {schema}"))?
    {
        let holds = match keyword.as_str() {
            "$ref" => {
                let target = rule
                    .as_str()
                    .and_then(|path| document.pointer(path.trim_start_matches('#')));
                let target = target.ok_or_else(|| format!("{at}: {rule} leads nowhere"))?;
                validate(document, target, value, at)?;
                true
            }
            "type" => one_or_many(rule).any(|name| is(value, name)),
            "const" => value == rule,
            "enum" => rule.as_array().is_some_and(|allowed| allowed.contains(value)),
            "anyOf" => {
                let any = rule.as_array().into_iter().flatten();
                any.map(|schema| validate(document, schema, value, at))
                    .any(|checked| checked.is_ok())
            }
            "required" => {
                let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
                names
                    .into_iter()
                    .all(|name| !value.is_object() || value.get(name).is_some())
            }
            "properties" => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        validate(document, schema, member, &format!("{at}.{name}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(name).is_some() {
                        continue;
                    }
                    match rule {
                        Value::Bool(true) => {}
                        Value::Bool(false) => return Err(format!("{at} has {name}, which is not described")),
                        schema => validate(document, schema, member, &format!("{at}.{name}"))?,
                    }
                }
                true
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(document, rule, item, &format!("{at}[{index}]"))?;
                }
                true
            }
            "minItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 >= rule.as_u64().expect("a number")),
            "maxItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 <= rule.as_u64().expect("a number")),
            "minimum" => value
                .as_f64()
                .is_none_or(|number| number >= rule.as_f64().expect("a number")),
            "maximum" => value
                .as_f64()
                .is_none_or(|number| number <= rule.as_f64().expect("a number")),
            "exclusiveMinimum" => value
                .as_f64()
                .is_none_or(|number| number > rule.as_f64().expect("a number")),
            "description" | "default" | "title" | "examples" | "format" => true,
            other => return Err(format!("{at}: the keyword {other} is not checked by this test")),
        };
        if !holds {
            return Err(format!("{at}: {value} is against {keyword} {rule}"));
        }
    }
    Ok(())
}

fn one_or_many(rule: &Value) -> impl Iterator<Item = &str> {
    let many = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
    rule.as_str().into_iter().chain(many)
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn what_differs_is_found() {
    use serde_json::json;

    let schema = json!({
        "type": "object",
        "required": ["a"],
        "properties": { "a": { "type": ["integer", "null"], "minimum": 1 }, "b": { "items": { "enum": ["x"] } } },
        "additionalProperties": false,
    });
    for good in [json!({ "a": 1 }), json!({ "a": null, "b": ["x"] })] {
        assert_eq!(validate(&json!({}), &schema, &good, "it"), Ok(()));
    }
    for bad in [
        json!([]),
        json!({}),
        json!({ "a": 0 }),
        json!({ "a": 1, "b": ["y"] }),
        json!({ "a": 1, "c": 1 }),
    ] {
        assert!(validate(&json!({}), &schema, &bad, "it").is_err(), "{bad}");
    }
}
