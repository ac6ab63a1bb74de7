//! Answers in a format, over HTTP: under routing, at any load, streamed or not, every answer that ends is of its format, and
//! it is the same answer each time.

use crate::common::{Server, byte_deployment, not_hanging};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

const IM: &str = include_str!("../host/model/tests/chat_templates/im.jinja");

fn schemas() -> [Value; 3] {
    [
        json!({
            "type": "object", "additionalProperties": false, "required": ["name", "age"],
            "properties": {
                "name": {"type": "string", "maxLength": 6},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
            },
        }),
        json!({
            "type": "object", "additionalProperties": false, "required": ["kind"],
            "properties": {"kind": {"enum": ["a", "be", "see"]}, "on": {"type": "boolean"}},
        }),
        json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 2, "maxItems": 3}),
    ]
}

fn is_of(index: usize, text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"));
    let names = |known: &[&str]| {
        value
            .as_object()
            .is_some_and(|fields| fields.keys().all(|it| known.contains(&it.as_str())))
    };
    match index {
        0 => {
            names(&["name", "age"])
                && value["name"].as_str().is_some_and(|name| name.chars().count() <= 6)
                && value["age"].as_u64().is_some_and(|age| age <= 120)
        }
        1 => {
            names(&["kind", "on"])
                && ["a", "be", "see"].contains(&value["kind"].as_str().unwrap_or_default())
                && value.get("on").is_none_or(Value::is_boolean)
        }
        _ => value.as_array().is_some_and(|items| {
            (2..=3).contains(&items.len()) && items.iter().all(|item| item.as_u64().is_some_and(|item| item <= 99))
        }),
    }
}

fn request(index: usize, seed: u64) -> Value {
    json!({
        "messages": [{"role": "user", "content": format!("question {seed}")}], "seed": seed, "max_tokens": 300,
        "temperature": if seed.is_multiple_of(3) { 0.0 } else { 1.0 },
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "test", "strict": true, "schema": schemas()[index]},
        },
    })
}

/// Both ways of routing send about half of the tokens to each model, so formats are held across handoffs all the time.
#[tokio::test]
async fn every_answer_is_of_its_schema_and_the_same_at_any_load() {
    for policy in [
        "plugin = \"random\"\n[policy.options]\nshare = 0.5",
        "plugin = \"r-stitch\"\n[policy.options]\nunit = \"nats\"\nthreshold = 4.9",
    ] {
        let server = Server::with_file(&byte_deployment(policy, "", Some(IM)));
        let requests: Vec<(usize, Value)> = (0..36)
            .map(|seed| (seed as usize % 3, request(seed as usize % 3, seed)))
            .collect();
        let answers = futures_util::stream::iter(&requests)
            .map(|(_, body)| server.chat(body))
            .buffered(36);
        let answers: Vec<_> = not_hanging("many answers", answers.collect()).await;
        let (mut ended, mut by_large, mut handoffs) = (0, 0, 0);
        for ((index, body), answer) in requests.iter().zip(&answers) {
            let (text, reason) = &answer.choices[0];
            let routed = &answer.usage["tokenrouter"];
            by_large += routed["tokens_by_model"]["large"].as_u64().expect("a count");
            handoffs += routed["handoffs"].as_u64().expect("a count");
            if reason == "stop" {
                ended += 1;
                assert!(
                    is_of(*index, text),
                    "{policy}: {text:?} is not of {}",
                    body["response_format"]
                );
            }
        }
        assert!(ended >= 30, "{policy}: only {ended} of 36 answers ended");
        assert!(
            by_large > 0 && handoffs > 36,
            "{policy}: {by_large} tokens by the large model, {handoffs} handoffs"
        );
        for ((_, body), answer) in requests.iter().zip(&answers).take(9) {
            let mut streamed = body.clone();
            streamed["stream"] = true.into();
            let streamed = not_hanging("an answer alone", server.chat(&streamed)).await;
            assert_eq!(streamed.choices, answer.choices, "{policy}: {body}");
        }
    }
}

#[tokio::test]
async fn guided_fields_hold_completions_too() {
    let server = Server::with_file(&byte_deployment(
        "plugin = \"random\"\n[policy.options]\nshare = 0.5",
        "",
        None,
    ));
    let complete = async |fields: Value| {
        let mut body = json!({"prompt": "x", "max_tokens": 200, "seed": 5, "n": 4});
        for (name, value) in fields.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let reply = server.complete(&body).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let body = reply.json();
        let choices = body["choices"].as_array().expect("choices");
        assert_eq!(choices.len(), 4);
        choices
            .iter()
            .map(|choice| choice["text"].as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    for text in complete(json!({"guided_choice": ["yes", "no \"é\""]})).await {
        assert!(["yes", "no \"é\""].contains(&text.as_str()), "{text:?}");
    }
    for text in complete(json!({"guided_regex": "[a-c]{3,5}=[0-9]{2}"})).await {
        let (letters, digits) = text.split_once('=').expect("a sign");
        assert!((3..=5).contains(&letters.len()) && digits.len() == 2, "{text:?}");
    }
    for text in complete(json!({"guided_json": {"type": "integer", "minimum": 10, "maximum": 19}})).await {
        assert!((10..20).contains(&text.parse::<u32>().expect("a number")), "{text:?}");
    }
}

/// vllm#17248 and llama.cpp#19051: a bad schema is the client's to hear of, before anything is written.
#[tokio::test]
async fn vllm_17248_formats_that_cannot_be_kept_are_refused_and_the_next_request_is_fine() {
    let server = Server::with_file(&byte_deployment("plugin = \"none\"", "", Some(IM)));
    let schema = |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    for (fields, param) in [
        (json!({"response_format": "json_object"}), "response_format"),
        (json!({"response_format": {}}), "response_format.type"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format.json_schema",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}),
            "response_format.json_schema.name",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
            "response_format.json_schema.schema",
        ),
        (
            json!({"response_format": schema(json!("x"))}),
            "response_format.json_schema.schema",
        ),
        (
            json!({"response_format": schema(json!({"type": "objekt"}))}),
            "response_format.json_schema.schema",
        ),
        (
            json!({"response_format": schema(json!({"not": {}}))}),
            "response_format.json_schema.schema",
        ),
        (
            json!({"response_format": schema(json!({"pattern": "(", "type": "string"}))}),
            "response_format.json_schema.schema",
        ),
        (
            json!({"response_format": {"type": "json_object"}, "min_tokens": 2}),
            "min_tokens",
        ),
        (
            json!({"response_format": {"type": "json_object"}, "ignore_eos": true}),
            "ignore_eos",
        ),
        (
            json!({"response_format": {"type": "json_object"}, "guided_regex": "a"}),
            "guided_regex",
        ),
        (json!({"guided_choice": "yes"}), "guided_choice"),
        (json!({"guided_json": "{"}), "guided_json"),
        (json!({"guided_grammar": "start: \"a\""}), "guided_grammar"),
        (json!({"structured_outputs": {"regex": "a"}}), "structured_outputs"),
    ] {
        let mut body = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 4});
        for (name, value) in fields.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let (message, named) = server.refusal("/v1/chat/completions", &body).await;
        assert_eq!(named, param, "{fields}: {message}");
    }
    let text =
        json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 4, "response_format": {"type": "text"}});
    assert_eq!(not_hanging("a chat", server.chat(&text)).await.choices.len(), 1);
}

/// The built-in models have 21 tokens and no braces: what they can write they do, and nothing else is promised.
#[tokio::test]
async fn formats_beyond_the_vocabulary_are_refused() {
    let server = Server::start(&[]);
    let ask = |fields: Value| {
        let mut body = json!({"prompt": "23*03-98-37*05=", "max_tokens": 40, "temperature": 0});
        for (name, value) in fields.as_object().expect("an object") {
            body[name] = value.clone();
        }
        body
    };
    let (message, param) = server
        .refusal(
            "/v1/completions",
            &ask(json!({"response_format": {"type": "json_object"}})),
        )
        .await;
    assert_eq!(param, "response_format");
    assert!(message.contains("no token of this vocabulary"), "{message}");
    let answer = not_hanging("an answer", server.answer(&ask(json!({"guided_regex": "A[0-9]{2}"})))).await;
    assert_eq!((answer.text.len(), answer.finish.as_str()), (3, "stop"));
    assert!(
        answer.text.starts_with('A') && answer.text[1..].parse::<u32>().is_ok(),
        "{}",
        answer.text
    );
}
