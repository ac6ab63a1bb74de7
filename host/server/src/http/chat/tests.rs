//! What a conversation may have, and in which words the rest is refused.

use serde_json::{Value, json};

use super::messages;
use crate::http::ApiError;
use crate::http::answer::Fields;

fn read(messages: &Value) -> Result<Vec<Value>, ApiError> {
    let body = json!({ "messages": messages });
    messages::read(&Fields::of_body(&body)?, false)
}

fn message(error: &ApiError) -> String {
    assert_eq!(error.status().as_u16(), 400);
    error.to_string()
}

/// llama.cpp#18463: parts and null broke templates that expect a text.
#[test]
fn llama_cpp_18463_templates_get_every_content_as_one_text() {
    for (given, read_as) in [
        (
            json!({"role": "user", "content": "a"}),
            json!({"role": "user", "content": "a"}),
        ),
        (
            json!({"role": "user", "content": ""}),
            json!({"role": "user", "content": ""}),
        ),
        (
            json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            json!({"role": "user", "content": "a\nb"}),
        ),
        (
            json!({"role": "user", "content": []}),
            json!({"role": "user", "content": ""}),
        ),
        (
            json!({"role": "assistant", "content": null}),
            json!({"role": "assistant", "content": ""}),
        ),
        (
            json!({"role": "assistant", "tool_calls": []}),
            json!({"role": "assistant", "content": ""}),
        ),
        (
            json!({"role": "tool", "content": "4", "tool_call_id": "x", "name": null}),
            json!({"role": "tool", "content": "4", "tool_call_id": "x"}),
        ),
        (
            json!({"role": "developer", "content": "a"}),
            json!({"role": "system", "content": "a"}),
        ),
    ] {
        assert_eq!(read(&json!([given])).unwrap(), [read_as]);
    }
    let body = json!({"messages": [{"role": "developer", "content": "a"}]});
    let kept = messages::read(&Fields::of_body(&body).unwrap(), true).unwrap();
    assert_eq!(kept[0]["role"], "developer", "a template that knows the role keeps it");
}

#[test]
fn what_is_no_conversation_is_refused_with_its_place() {
    let user = |content: Value| json!([{"role": "user", "content": "x"}, {"role": "user", "content": content}]);
    for (messages, words) in [
        (Value::Null, "messages is missing"),
        (json!("hello"), "messages must be an array"),
        (json!([]), "messages is empty"),
        (
            json!(vec![json!({"role": "user", "content": ""}); 5_000]),
            "messages has 5000 messages; at most 4096",
        ),
        (json!(["hello"]), "messages[0] must be an object, found a string"),
        (json!([{"content": "x"}]), "messages[0].role is missing"),
        (
            json!([{"role": 5, "content": "x"}]),
            "messages[0].role must be a string, found the number 5",
        ),
        (
            json!([{"role": "robot", "content": "x"}]),
            "messages[0].role is \"robot\"; it must be one of system",
        ),
        (json!([{"role": "user"}]), "messages[0].content is missing"),
        (user(Value::Null), "messages[1].content is missing"),
        (
            user(json!(5)),
            "messages[1].content must be a string or an array of parts, found the number 5",
        ),
        (
            user(json!(["x"])),
            "messages[1].content[0] must be an object with type and text",
        ),
        (
            user(json!([{"type": "text"}])),
            "messages[1].content[0].text is missing",
        ),
        (
            user(json!([{"type": "text", "text": ""}, {"type": "image_url", "image_url": {}}])),
            "messages[1].content[1].type is \"image_url\"",
        ),
        (
            json!([{"role": "assistant", "content": "", "tool_calls": [{}]}]),
            "messages[0].tool_calls is not supported",
        ),
    ] {
        let error = message(&read(&messages).unwrap_err());
        assert!(error.starts_with(words), "{error:?} does not begin with {words:?}");
    }
}
