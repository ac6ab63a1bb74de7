//! Faults of other servers that their users reported, each tried here over HTTP under the report's name. Those that need
//! only text are in `host/model/src/text/tests/reported.rs`.

use crate::common::{Answer, Events, Server, not_hanging};
use serde_json::{Value, json};

const PROMPT: &str = "67-95-32-35-09=";
const ANSWER: &str = "67-95=72;72-32=40;40-35=05;05-09=96;A96";

#[expect(clippy::needless_pass_by_value, reason = "it is written where it is passed")]
fn with(fields: Value) -> Value {
    let mut body = json!({ "model": "tiny", "prompt": PROMPT, "max_tokens": 64, "temperature": 0 });
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

async fn chunks(mut events: Events) -> Vec<String> {
    let mut chunks = Vec::new();
    while let Some(data) = events.next().await {
        chunks.push(data);
    }
    chunks
}

/// Status 400 (or another) for a field, as JSON and not as a stream, and the next request is answered.
async fn refused(server: &Server, body: &Value, status: u16, param: &str) -> Value {
    let reply = not_hanging("a refusal", server.complete(body)).await;
    assert_eq!(reply.status, status, "{body}: {}", reply.body);
    let error = reply.error();
    assert_eq!(error["param"], param, "{body}: {error}");
    assert_eq!(server.answer(&with(json!({}))).await.text, ANSWER, "after {body}");
    error
}

/// A stop string of several tokens never matched, or its beginning was streamed first. Every character is a token here.
#[tokio::test]
async fn vllm_3574_stop_string_of_several_tokens() {
    let server = Server::start(&[]);
    let body = with(json!({ "stop": ["=40;40", "zzz"], "stream": true }));
    let mut text = String::new();
    for data in chunks(server.events(&body).await).await {
        if let Ok(chunk) = serde_json::from_str::<Value>(&data) {
            text += chunk["choices"][0]["text"].as_str().expect("a text");
            assert!(
                "67-95=72;72-32".starts_with(&text),
                "a part of the stop string was sent: {text}"
            );
        }
    }
    assert_eq!(text, "67-95=72;72-32");
    let whole = server.complete(&with(json!({ "stop": "=40;40" }))).await.json();
    assert_eq!(whole["choices"][0]["text"], "67-95=72;72-32");
    assert_eq!(whole["choices"][0]["stop_reason"], "=40;40");
    let included = with(json!({ "stop": "=40;40", "include_stop_str_in_output": true }));
    for stream in [false, true] {
        let mut body = included.clone();
        body["stream"] = stream.into();
        assert_eq!(server.answer(&body).await.text, "67-95=72;72-32=40;40");
    }
}

/// Text that was held back for a stop string was lost when the answer ended for another reason.
#[tokio::test]
async fn vllm_42210_text_held_back_comes_at_the_end() {
    let server = Server::start(&[]);
    for stream in [false, true] {
        // At the length, at the end token, and at a token of the request's own ('A').
        let held = server
            .answer(&with(json!({ "stop": "72;73", "max_tokens": 9, "stream": stream })))
            .await;
        assert_eq!((held.text.as_str(), held.finish.as_str()), ("67-95=72;", "length"));
        let held = server.answer(&with(json!({ "stop": "A967", "stream": stream }))).await;
        assert_eq!((held.text.as_str(), held.finish.as_str()), (ANSWER, "stop"));
    }
}

#[tokio::test]
async fn vllm_7283_an_empty_prompt_is_refused() {
    let server = Server::start(&[]);
    for prompt in [json!(""), json!([]), json!([[]]), json!(["1+1=", ""]), json!(null)] {
        refused(&server, &with(json!({ "prompt": prompt })), 400, "prompt").await;
    }
}

/// max_tokens 0 crashed. With echo it returns the prompt, without it there is nothing to return.
#[tokio::test]
async fn vllm_6521_max_tokens_of_zero() {
    let server = Server::start(&[]);
    refused(&server, &with(json!({ "max_tokens": 0 })), 400, "max_tokens").await;
    refused(
        &server,
        &with(json!({ "max_tokens": -1, "echo": true })),
        400,
        "max_tokens",
    )
    .await;
    for stream in [false, true] {
        let body = with(json!({ "max_tokens": 0, "echo": true, "stream": stream }));
        let answer = not_hanging("an echo", server.answer(&body)).await;
        assert_eq!((answer.text.as_str(), answer.finish.as_str()), (PROMPT, "length"));
        let body = with(json!({ "echo": true, "stream": stream }));
        assert_eq!(server.answer(&body).await.text, format!("{PROMPT}{ANSWER}"));
        // Token ids are echoed as text; the begin token has none.
        let body = with(json!({ "prompt": [2, 4, 5], "max_tokens": 0, "echo": true, "stream": stream }));
        assert_eq!(server.answer(&body).await.text.chars().count(), 2);
    }
    let reply = server
        .complete(&with(json!({ "max_tokens": 0, "echo": true })))
        .await
        .json();
    assert_eq!(
        (&reply["usage"]["completion_tokens"], &reply["usage"]["prompt_tokens"]),
        (&json!(0), &json!(16))
    );
}

/// An explicit null was a 500.
#[tokio::test]
async fn vllm_19862_null_is_absent() {
    let server = Server::start(&[]);
    let names = [
        "seed",
        "stop",
        "stream",
        "stream_options",
        "tokenrouter",
        "top_p",
        "top_k",
        "min_p",
        "n",
        "logprobs",
        "echo",
        "suffix",
        "user",
        "best_of",
        "logit_bias",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "stop_token_ids",
        "min_tokens",
        "ignore_eos",
        "return_token_ids",
        "max_completion_tokens",
        "tools",
        "response_format",
        "include_stop_str_in_output",
        "cache_salt",
        "guided_json",
        "unheard_of",
    ];
    let nulls: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    assert_eq!(server.answer(&with(nulls.into())).await.text, ANSWER);
}

/// A prompt longer than the context gave an empty stream, or an error body under status 200.
#[tokio::test]
async fn llamacpp_19774_a_prompt_longer_than_the_context_is_refused_before_the_stream() {
    let server = Server::start(&[]);
    for stream in [false, true] {
        let body = with(json!({ "prompt": PROMPT.repeat(40), "stream": stream }));
        let error = refused(&server, &body, 400, "prompt").await;
        assert_eq!(error["code"], "context_length_exceeded");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("512") && message.contains("601"), "{message}");
    }
}

/// The usage chunk came unasked, or without `choices`.
#[tokio::test]
async fn apfel_100_usage_comes_only_when_asked_for() {
    let server = Server::start(&[]);
    let usages = async |options: Value| -> Vec<(Value, Value)> {
        let body = with(json!({ "stream_options": options, "stream": true }));
        let mut chunks = chunks(server.events(&body).await).await;
        assert_eq!(chunks.pop().as_deref(), Some("[DONE]"));
        let parsed = chunks
            .iter()
            .map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
        parsed
            .map(|mut chunk| {
                (
                    chunk["choices"].take(),
                    chunk.get("usage").cloned().unwrap_or("absent".into()),
                )
            })
            .collect()
    };
    for options in [json!(null), json!({}), json!({ "include_usage": false })] {
        for (choices, usage) in usages(options).await {
            assert_eq!((choices.as_array().map(Vec::len), usage), (Some(1), json!("absent")));
        }
    }
    let mut asked = usages(json!({ "include_usage": true })).await;
    let (choices, usage) = asked.pop().expect("a last chunk");
    assert_eq!((choices, &usage["completion_tokens"]), (json!([]), &json!(40)));
    assert!(
        asked
            .iter()
            .all(|(choices, usage)| choices != &json!([]) && usage.is_null())
    );
    // Running counts never fall, and end where the last chunk does.
    let running = usages(json!({ "include_usage": true, "continuous_usage_stats": true })).await;
    let counts: Vec<u64> = running
        .iter()
        .map(|(_, usage)| usage["completion_tokens"].as_u64().expect("a count"))
        .collect();
    assert!(counts.is_sorted() && counts.last() == Some(&40), "{counts:?}");
    assert!(running.iter().all(|(_, usage)| usage["prompt_tokens"] == 16));
}

/// finish_reason was null, empty or there twice; and the stream had no [DONE].
#[tokio::test]
async fn vllmmlx_628_every_choice_has_one_finish_reason_and_the_stream_one_done() {
    let server = Server::start(&[]);
    let body = with(json!({ "prompt": [PROMPT, "11+22-33-44-55="], "n": 2, "temperature": 1, "max_tokens": 5 }));
    let mut chunks = chunks(server.events(&body).await).await;
    assert_eq!(chunks.pop().as_deref(), Some("[DONE]"));
    let mut reasons = vec![Vec::new(); 4];
    for data in chunks {
        let chunk: Value = serde_json::from_str(&data).expect("one [DONE]");
        let choice = &chunk["choices"][0];
        let index = choice["index"].as_u64().expect("an index") as usize;
        assert!(reasons[index].is_empty(), "a choice goes on after its end: {data}");
        if !choice["finish_reason"].is_null() {
            reasons[index].push(choice["finish_reason"].clone());
        }
    }
    assert_eq!(reasons, vec![vec![json!("length")]; 4]);
}

/// A token id outside the vocabulary ended the process.
#[tokio::test]
async fn vllm_9634_token_ids_outside_the_vocabulary() {
    let server = Server::start(&[]);
    for id in [
        21_u64,
        1_000_000,
        u64::from(u32::MAX),
        u64::from(u32::MAX) + 1,
        u64::MAX,
    ] {
        refused(&server, &with(json!({ "prompt": [2, 3, id] })), 400, "prompt").await;
        refused(&server, &with(json!({ "stop_token_ids": [id] })), 400, "stop_token_ids").await;
    }
}

/// A bias for a token outside the vocabulary crashed; so did one out of range.
#[tokio::test]
async fn sglang_7670_logit_bias_outside_the_vocabulary() {
    let server = Server::start(&[]);
    for bias in [
        json!({ "21": 1 }),
        json!({ "4294967295": 1 }),
        json!({ "-1": 1 }),
        json!({ "3": 1e9 }),
    ] {
        refused(&server, &with(json!({ "logit_bias": bias })), 400, "logit_bias").await;
    }
    // All that may be given at once, at every token: an answer of one token only, over and over.
    let mut bias: serde_json::Map<String, Value> = (0..21).map(|id| (id.to_string(), json!(-100))).collect();
    bias["7"] = json!(100);
    let body = with(json!({ "logit_bias": bias, "max_tokens": 5, "tokenrouter": { "attribution": true } }));
    let ids: Vec<u64> = server.answer(&body).await.tokens.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [7; 5]);
}

#[tokio::test]
async fn gpt4all_3635_huge_counts_are_refused_with_the_limit() {
    let server = Server::start(&[]);
    for n in [33_u64, 1_000_000_000, u64::MAX] {
        let error = refused(&server, &with(json!({ "n": n })), 400, "n").await;
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| message.contains("1 to 32")),
            "{error}"
        );
    }
    // Each in range, the product is not.
    let error = refused(&server, &with(json!({ "n": 17, "prompt": [PROMPT, PROMPT] })), 400, "n").await;
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| message.contains("34 answers")),
        "{error}"
    );
    refused(&server, &with(json!({ "max_tokens": u64::MAX })), 400, "max_tokens").await;
    let error = refused(&server, &with(json!({ "max_tokens": u32::MAX })), 400, "prompt").await;
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(server.info().await["limits"]["prompts_max"], 32);
}

/// A tiny temperature divided logits to infinity and drew from NaN.
#[tokio::test]
async fn vllm_3063_tiny_temperatures_are_greedy() {
    let server = Server::start(&[]);
    for temperature in [json!(1e-6), json!(1e-30), json!(f64::MIN_POSITIVE), json!(-0.0)] {
        assert_eq!(
            server.answer(&with(json!({ "temperature": temperature }))).await.text,
            ANSWER,
            "{temperature}"
        );
    }
    for (temperature, wrong) in [
        ("NaN", "not valid JSON"),
        ("1e999", "not valid JSON"),
        ("-1e-30", "must be 0 to 2"),
    ] {
        let body = format!("{{\"model\": \"tiny\", \"prompt\": \"1+1=\", \"temperature\": {temperature}}}");
        let reply = server.send("POST", "/v1/completions", body).await;
        assert_eq!(reply.status, 400, "{temperature}: {}", reply.body);
        assert!(reply.body.contains(wrong), "{temperature}: {}", reply.body);
    }
}

#[tokio::test]
async fn mlxserve_257_an_unknown_model_is_not_found() {
    let server = Server::start(&[]);
    let error = refused(
        &server,
        &with(json!({ "model": "gpt-4", "stream": true })),
        404,
        "model",
    )
    .await;
    assert_eq!(error["code"], "model_not_found");
    for name in server.get("/v1/models").await.json()["data"]
        .as_array()
        .expect("a list")
    {
        let body = with(json!({ "model": name["id"] }));
        assert_eq!(server.complete(&body).await.status, 200, "{name}");
    }
}

/// A prompt as token ids or as a list failed. A choice's index is prompt × n + its number among the prompt's answers.
#[tokio::test]
async fn lmdeploy_4186_all_forms_of_a_prompt_and_their_indices() {
    let server = Server::start(&[]);
    let sampled = json!({ "temperature": 1, "seed": 5, "return_token_ids": true });
    let ask = async |prompt: Value, n: usize| -> Vec<Value> {
        let mut body = with(sampled.clone());
        (body["prompt"], body["n"]) = (prompt, n.into());
        let reply = server.complete(&body).await.json();
        let choices = reply["choices"].as_array().expect("choices").clone();
        assert!(
            (0..).zip(&choices).all(|(place, choice)| choice["index"] == place),
            "{reply}"
        );
        choices
    };
    let other = "11+22-33-44-55=";
    let (first, second) = (ask(json!(PROMPT), 2).await, ask(json!(other), 2).await);
    let ids = [&first[0]["prompt_token_ids"], &second[0]["prompt_token_ids"]];
    let texts = |choices: &[Value]| -> Vec<Value> { choices.iter().map(|choice| choice["text"].clone()).collect() };
    let expected = texts(&[first.clone(), second.clone()].concat());
    assert_eq!(texts(&ask(json!([PROMPT, other]), 2).await), expected);
    assert_eq!(texts(&ask(json!(ids), 2).await), expected);
    assert_eq!(texts(&ask(ids[0].clone(), 2).await), expected[..2]);
    // Every choice comes again, alone, with the seed that it tells.
    for choice in first {
        let mut body = with(sampled.clone());
        body["seed"] = choice["seed"].clone();
        assert_eq!(
            server.complete(&body).await.json()["choices"][0]["text"],
            choice["text"]
        );
    }
}

#[tokio::test]
async fn vllm_27515_one_begin_token() {
    let server = Server::start(&[]);
    let body = with(json!({ "return_token_ids": true, "max_tokens": 1 }));
    let reply = server.complete(&body).await.json();
    let ids = reply["choices"][0]["prompt_token_ids"].as_array().expect("ids").clone();
    assert_eq!((ids.len(), ids.iter().filter(|id| **id == 2).count()), (16, 1));
    // Fed back as ids, nothing is put in front of them.
    let body = with(json!({ "prompt": ids, "return_token_ids": true }));
    let reply = server.complete(&body).await.json();
    assert_eq!(reply["choices"][0]["prompt_token_ids"], json!(ids));
    assert_eq!(reply["choices"][0]["text"], ANSWER);
}

/// The answer to a seed changed with what else ran.
#[tokio::test]
async fn vllm_51226_a_seed_gives_the_same_answer_in_any_company() {
    let server = Server::start(&[]);
    let body = with(json!({ "temperature": 1.3, "seed": 7, "presence_penalty": 0.3, "max_tokens": 40 }));
    let alone = server.answer(&body).await;
    let other = with(json!({ "temperature": 1.3, "n": 20, "max_tokens": 60 }));
    let company = async { server.complete(&other).await.status };
    let again = async {
        let mut answers: Vec<Answer> = Vec::new();
        for _ in 0..5 {
            answers.push(server.answer(&body).await);
        }
        answers
    };
    let (status, again) = tokio::join!(company, again);
    assert_eq!(status, 200);
    assert!(again.iter().all(|answer| *answer == alone));
}
