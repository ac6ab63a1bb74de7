//! What a stream looks like, byte for byte, and that it says what the whole answer says.

use crate::common::{Server, deployment_file, not_hanging, problems};
use serde_json::{Value, json};
use tokenrouter_core::draw::{Purpose, bits};

const GOLDEN: &str = include_str!("golden/streams.txt");

/// Requests whose streams have no pieces that could be joined: one token, then the end.
fn transcribed() -> Vec<Value> {
    [
        json!({}),
        json!({ "stream_options": { "include_usage": true } }),
        json!({ "stream_options": { "include_usage": true, "continuous_usage_stats": true } }),
        json!({ "logprobs": 2 }),
        json!({ "logprobs": 0, "echo": null }),
        json!({ "return_token_ids": true }),
        json!({ "echo": true }),
        json!({ "stop": "6" }),
        json!({ "stop_token_ids": [9], "include_stop_str_in_output": true }),
        json!({ "tokenrouter": { "attribution": true } }),
        json!({ "model": "tiny/large", "tokenrouter": { "attribution": true } }),
        json!({ "max_tokens": 0, "echo": true }),
    ]
    .to_vec()
}

/// Numbers of which other processors may compute other last digits.
fn mask(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match name.as_str() {
            "id" if value.is_string() => *value = "ID".into(),
            "created" => *value = "CREATED".into(),
            _ => mask(value),
        }),
        Value::Number(number) if number.is_f64() => {
            *value = format!("{:.2}", number.as_f64().unwrap_or_default()).into();
        }
        _ => {}
    }
}

#[tokio::test]
async fn streams_are_as_they_were_written_down() {
    let server = Server::start(&[]);
    let mut transcript = String::new();
    for fields in transcribed() {
        let mut body =
            json!({ "model": "tiny", "prompt": "67-95-32-35-09=", "max_tokens": 1, "temperature": 0, "seed": 1 });
        for (name, value) in fields.as_object().expect("an object") {
            body[name] = value.clone();
        }
        transcript += &format!("# {fields}\n");
        let mut events = server.events(&body).await;
        while let Some(data) = not_hanging("an event", events.next()).await {
            let shown = match serde_json::from_str::<Value>(&data) {
                Ok(mut chunk) => {
                    mask(&mut chunk);
                    chunk.to_string()
                }
                Err(_) => data,
            };
            transcript += &format!("data: {shown}\n");
        }
    }
    for (place, (expected, found)) in GOLDEN.lines().zip(transcript.lines()).enumerate() {
        assert_eq!(
            expected,
            found,
            "line {} of tests/golden/streams.txt; all of it:\n{transcript}",
            place + 1
        );
    }
    assert_eq!(
        GOLDEN.lines().count(),
        transcript.lines().count(),
        "all of it:\n{transcript}"
    );
}

/// A random request: any stop strings, seed, n, sampling, and whether tokens are told.
fn random_request(seed: u64) -> Value {
    let draw = |number: u64, below: u64| bits(seed, number, Purpose::Policy(77)) % below;
    let problems = problems();
    let letters: Vec<char> = "0123456789=;-+*A".chars().collect();
    let stop = |number: u64| -> String {
        (0..1 + draw(number, 3))
            .map(|place| letters[draw(number + 1 + place, 16) as usize])
            .collect()
    };
    let stops: Vec<String> = (0..draw(1, 4)).map(|i| stop(100 + 10 * i)).collect();
    json!({
        "model": (["tiny", "tiny/small", "tiny/large"])[draw(2, 3) as usize],
        "prompt": problems[draw(3, 300) as usize].prompt,
        "stop": stops,
        "seed": draw(4, 1 << 40),
        "n": 1 + draw(5, 3),
        "temperature": draw(6, 3) as f64 * 0.6,
        "max_tokens": 1 + draw(7, 60),
        "min_tokens": 0,
        "presence_penalty": draw(8, 3) as f64 * 0.4,
        "include_stop_str_in_output": draw(9, 2) == 0,
        "echo": draw(10, 4) == 0,
        "return_token_ids": draw(11, 2) == 0,
        "tokenrouter": { "attribution": draw(12, 2) == 0 },
    })
}

/// What a choice says: text, token ids, attribution, finish_reason and stop_reason.
type Said = (String, Vec<Value>, Vec<Value>, Value, Value);

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn add(said: &mut Said, choice: &Value) {
    said.0 += choice["text"].as_str().expect("a text");
    said.1.extend(list(&choice["token_ids"]));
    said.2.extend(list(&choice["attribution"]));
    if !choice["finish_reason"].is_null() {
        assert!(said.3.is_null(), "two ends: {choice}");
        said.3 = choice["finish_reason"].clone();
        said.4 = choice["stop_reason"].clone();
    }
}

async fn said(server: &Server, request: &Value, stream: bool) -> Vec<Said> {
    let mut said = vec![Said::default(); request["n"].as_u64().expect("n") as usize];
    let place = |choice: &Value| choice["index"].as_u64().expect("an index") as usize;
    if !stream {
        let reply = not_hanging("a whole answer", server.complete(request)).await;
        assert_eq!(reply.status, 200, "{request}: {}", reply.body);
        for choice in list(&reply.json()["choices"]) {
            add(&mut said[place(&choice)], &choice);
        }
        return said;
    }
    let mut events = server.events(request).await;
    while let Some(data) = not_hanging("an event", events.next()).await {
        if data != "[DONE]" {
            let chunk: Value = serde_json::from_str(&data).expect("JSON");
            let choice = &chunk["choices"][0];
            add(&mut said[place(choice)], choice);
        }
    }
    said
}

/// However the pieces fall: steps of any size, one model or two, prompts fed in pieces of 5 tokens.
#[tokio::test]
async fn a_stream_says_what_the_whole_answer_says() {
    let seed = 20_261_129_u64;
    let cramped = deployment_file(
        "plugin = \"r-stitch\"\noptions = { threshold = 0.2, unit = \"nats\" }",
        "[limits]\nrows_max = 3\nlong_tokens_max = 5\nrequests_running_max = 6\nkv_tokens = 1024",
    );
    let servers = [Server::start(&[]), Server::with_file(&cramped)];
    for case in 0..60 {
        let request = random_request(seed + case);
        let whole = said(&servers[0], &request, false).await;
        for server in &servers {
            let streamed = said(server, &request, true).await;
            assert_eq!(streamed, whole, "seed {}: {request}", seed + case);
        }
        for (text, ..) in &whole {
            let echoed = if request["echo"] == true {
                request["prompt"].as_str().map_or(0, str::len)
            } else {
                0
            };
            for stop in list(&request["stop"]) {
                let stop = stop.as_str().expect("a string");
                let found = text[echoed..]
                    .find(stop)
                    .map(|place| place + stop.len() == text.len() - echoed);
                let ended = request["include_stop_str_in_output"] == true && found == Some(true);
                assert!(found.is_none() || ended, "seed {}: {stop:?} in {text:?}", seed + case);
            }
        }
    }
}

/// Attribution, usage, text and handoffs are accounts of one answer.
#[tokio::test]
async fn attribution_tells_every_token_and_every_handoff() {
    let server = Server::start(&[]);
    let body = json!({
        "model": "tiny", "prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0, "return_token_ids": true,
        "tokenrouter": { "attribution": true },
    });
    let reply = server.complete(&body).await.json();
    let (choice, routed) = (&reply["choices"][0], &reply["usage"]["tokenrouter"]);
    let (tokens, handoffs) = (list(&choice["attribution"]), list(&choice["handoffs"]));
    assert_eq!(routed["handoffs"].as_u64(), Some(handoffs.len() as u64));
    assert!(handoffs.len() >= 2, "this answer needs both models");
    let ids: Vec<Value> = tokens.iter().map(|token| token["id"].clone()).collect();
    assert_eq!(ids, list(&choice["token_ids"]));
    let text: String = tokens[..tokens.len() - 1]
        .iter()
        .flat_map(|token| list(&token["bytes"]))
        .map(|byte| char::from(byte.as_u64().expect("a byte") as u8))
        .collect();
    assert_eq!(Some(text.as_str()), choice["text"].as_str());
    // Replayed from the handoffs, the writer of every token is the one that is told.
    let mut writer = json!("small");
    let mut moves = handoffs.iter().peekable();
    for (place, token) in tokens.iter().enumerate() {
        let mut moved = false;
        while let Some(handoff) = moves.next_if(|handoff| handoff["position"] == place) {
            assert_eq!(handoff["from"], writer, "{handoff}");
            writer = handoff["to"].clone();
            moved = true;
        }
        assert_eq!(
            (&token["model"], &token["after_handoff"]),
            (&writer, &json!(moved)),
            "token {place}"
        );
    }
    for model in ["small", "large"] {
        let told = tokens.iter().filter(|token| token["model"] == model).count() as u64;
        assert_eq!(routed["tokens_by_model"][model].as_u64(), Some(told));
    }
}
