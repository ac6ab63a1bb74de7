//! What is written ahead, as a stream shows it before it is settled: it comes true or is replaced, and changes nothing else.

use serde_json::{Value, json};

use crate::common::Server;

const PROMPTS: [&str; 6] = [
    "23*03-98-37*05=",
    "12+34=",
    "99-01*07=",
    "45+55-10*03=",
    "08*09+77=",
    "61-16+40*02=",
];

/// A policy whose large model writes one token and hands back, so that a draft is wrong only where that model disagrees.
fn start(optimistic: &str) -> Server {
    let policy = ["--plugin", "random", "--plugin-config", "share=0.35"];
    Server::start(&[&policy[..], &["--optimistic", optimistic]].concat())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The chunks of a stream that has been read to its end.
fn chunks(body: &str) -> Vec<Value> {
    let events = body.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let chunks = events.take_while(|data| *data != "[DONE]");
    chunks
        .map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error} in {data:?}")))
        .collect()
}

fn body(prompt: &str, seed: usize) -> Value {
    json!({ "prompt": prompt, "max_tokens": 48, "temperature": 0.7, "seed": seed, "stream": true })
}

/// What has been assumed behind so many tokens.
struct Snapshot {
    position: usize,
    tokens: Vec<Value>,
}

/// What came of all snapshots: tokens that came true, and snapshots of which something was wrong.
#[derive(Debug, Default)]
struct Outcome {
    confirmed: usize,
    refuted: usize,
}

impl Snapshot {
    /// Every token is the answer's, and by the model that was foreseen, up to one in whose place the model that was asked wrote another.
    fn settle(&self, answer: &[Value], outcome: &mut Outcome) {
        for (nth, assumed) in self.tokens.iter().enumerate() {
            let position = self.position + nth;
            let token = answer.get(position).unwrap_or_else(|| {
                panic!("token {position} is assumed behind the end: {assumed}");
            });
            let asked = !assumed["asked"].is_null();
            if token["id"] != assumed["id"] {
                assert!(
                    asked,
                    "token {position}: nobody was asked about {assumed}, but {token} came"
                );
                assert_eq!(token["model"], assumed["asked"], "token {position}");
                outcome.refuted += 1;
                return;
            }
            let foreseen = if asked { &assumed["asked"] } else { &assumed["model"] };
            assert_eq!(token["model"], *foreseen, "token {position}");
            outcome.confirmed += 1;
        }
    }
}

#[tokio::test]
async fn assumed_tokens_come_true_or_the_large_model_writes_another() {
    let (server, waiting) = (start("window:4"), start("off"));
    let mut outcome = Outcome::default();
    for (seed, prompt) in PROMPTS.iter().cycle().take(24).enumerate() {
        let mut asked = body(prompt, seed);
        asked["tokenrouter"] = json!({ "attribution": true, "assumed": true });
        let (mut text, mut answer, mut snapshots) = (String::new(), Vec::new(), Vec::new());
        for chunk in chunks(&server.complete(&asked).await.body) {
            let choice = &chunk["choices"][0];
            text += choice["text"].as_str().expect("text");
            answer.extend(list(&choice["attribution"]).iter().cloned());
            let Some(assumed) = choice.get("assumed") else { continue };
            assert!(
                choice["finish_reason"].is_null(),
                "nothing is assumed at the end: {chunk}"
            );
            let tokens = list(&assumed["tokens"]).to_vec();
            // Every token of these models is a character, and no stop string holds any back.
            let texts: String = tokens.iter().filter_map(|token| token["token"].as_str()).collect();
            assert_eq!(assumed["text"], texts);
            assert!(
                (1..=5).contains(&tokens.len()),
                "the candidate and a window of four: {assumed}"
            );
            assert!(tokens.iter().all(|token| token["model"] == "small"), "{assumed}");
            snapshots.push(Snapshot {
                position: answer.len(),
                tokens,
            });
        }
        snapshots
            .iter()
            .for_each(|snapshot| snapshot.settle(&answer, &mut outcome));
        let mut plain = body(prompt, seed);
        plain["tokenrouter"] = json!({ "attribution": true });
        for server in [&server, &waiting] {
            let chunks = chunks(&server.complete(&plain).await.body);
            let choices = chunks.iter().map(|chunk| &chunk["choices"][0]);
            assert!(
                choices.clone().all(|choice| choice.get("assumed").is_none()),
                "nobody asked"
            );
            assert_eq!(
                choices
                    .clone()
                    .filter_map(|choice| choice["text"].as_str())
                    .collect::<String>(),
                text
            );
            let tokens: Vec<Value> = choices
                .flat_map(|choice| list(&choice["attribution"]).to_vec())
                .collect();
            assert_eq!(tokens, answer, "{prompt}, seed {seed}");
        }
    }
    assert!(
        outcome.confirmed > 50 && outcome.refuted > 10,
        "{outcome:?} of 24 answers shows nothing"
    );
}

/// Two answers of a conversation, each with what is assumed of it; none of that is in their text.
#[tokio::test]
async fn what_is_assumed_is_no_part_of_a_message() {
    let server = start("window:4");
    let mut asked = json!({
        "messages": [{ "role": "user", "content": PROMPTS[0] }],
        "max_tokens": 32, "temperature": 1, "seed": 3, "n": 2, "ignore_eos": true,
    });
    let whole = server
        .send("POST", "/v1/chat/completions", asked.to_string())
        .await
        .json();
    asked["stream"] = true.into();
    asked["tokenrouter"] = json!({ "assumed": true });
    let reply = server.send("POST", "/v1/chat/completions", asked.to_string()).await;
    let (mut texts, mut snapshots) = ([const { String::new() }; 2], [0; 2]);
    for chunk in chunks(&reply.body) {
        let choice = &chunk["choices"][0];
        let index = choice["index"].as_u64().expect("an index") as usize;
        texts[index] += choice["delta"]["content"].as_str().unwrap_or_default();
        snapshots[index] += usize::from(choice.get("assumed").is_some());
        assert!(choice["delta"].get("assumed").is_none() && choice.get("attribution").is_none());
    }
    for (index, text) in texts.iter().enumerate() {
        assert_eq!(whole["choices"][index]["message"]["content"], *text);
    }
    assert!(
        snapshots.iter().all(|count| *count > 3),
        "{snapshots:?} snapshots show nothing"
    );
}

#[tokio::test]
async fn assumed_is_for_streams_and_harmless_where_nothing_is_written_ahead() {
    let server = start("off");
    let mut asked = body(PROMPTS[0], 1);
    let plain = server.complete(&asked).await.body;
    let texts = |body: &str| -> String {
        let chunks = chunks(body);
        assert!(chunks.iter().all(|chunk| chunk["choices"][0].get("assumed").is_none()));
        chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["text"].as_str())
            .collect()
    };
    asked["tokenrouter"] = json!({ "assumed": true });
    assert_eq!(texts(&server.complete(&asked).await.body), texts(&plain));
    asked["stream"] = false.into();
    let reply = server.complete(&asked).await;
    let error = reply.error();
    assert_eq!((reply.status, &error["param"]), (400, &json!("tokenrouter.assumed")));
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("set stream to true"), "{message}");
}
