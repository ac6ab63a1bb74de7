//! The corpus of the fuzzing targets, tried as it is and with a few thousand mutations. `cargo run --release --example fuzz`
//! goes on for as long as it is told.

#[path = "fuzz/mod.rs"]
mod targets;

use std::path::Path;

use futures_util::StreamExt as _;
use serde_json::json;
use targets::mutate::{Random, mutate};
use targets::{TARGETS, request};

use crate::common::{Server, not_hanging};

const MUTATIONS: u64 = 20_000;

/// Requests that a real server gets, and how many of them at once.
const REQUESTS: usize = 600;
const AT_ONCE: usize = 8;
/// Answers that must have been written beside them; they are sent again until it is so.
const BESIDE: usize = 10;

#[test]
fn what_is_fuzzed_holds_for_the_corpus_and_near_it() {
    let seed = 20_261_130;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    for target in &TARGETS {
        let corpus = target.corpus(&tests);
        assert!(corpus.len() >= 8, "{}: a corpus of {}", target.name, corpus.len());
        for input in &corpus {
            (target.try_input)(input);
        }
        let (tried, further) = target.fuzz(&corpus, seed, None, |tried| tried < MUTATIONS);
        assert!(
            further * 20 > tried,
            "{}, seed {seed}: {further} of {tried} inputs got further than being refused at once",
            target.name
        );
    }
}

/// Invariant 5: whatever else is asked, and however wrongly, the tokens of an answer stay what they are.
#[tokio::test]
async fn a_stream_stays_exact_while_the_corpus_is_replayed_beside_it() {
    let seed = 20_261_201;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let corpus = TARGETS[0].corpus(&tests);
    let mut random = Random::new(seed);
    let bodies = (0..REQUESTS).map(|number| {
        let mut body = corpus[number % corpus.len()].clone();
        // The corpus as it is first, then changed more and more.
        for _ in 0..number / corpus.len() / 8 {
            mutate(&mut body, &corpus, &request::WORDS, &mut random);
        }
        let path = ["/v1/completions", "/v1/chat/completions", "/tokenize"][number / 2 % 3 * (number % 2)];
        (path, body)
    });
    let bodies: Vec<(&str, Vec<u8>)> = bodies.collect();

    let server = Server::start(&[]);
    let control = json!({
        "model": "tiny", "prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0.9, "seed": 5, "stream": true,
    });
    let alone = not_hanging("an answer alone", server.answer(&control)).await.text;
    let server = &server;
    let send = |(path, body): (&'static str, Vec<u8>)| async move {
        let shown = String::from_utf8_lossy(&body).into_owned();
        let reply = not_hanging("a request of the corpus", server.send("POST", path, body)).await;
        let refused = (400..500).contains(&reply.status) && reply.body.contains("\"error\"");
        assert!(
            reply.status == 200 || refused,
            "seed {seed}, {path}: {shown}: {} {}",
            reply.status,
            reply.body
        );
    };
    let mut beside = 0;
    while beside < BESIDE {
        let replay = futures_util::stream::iter(bodies.clone()).for_each_concurrent(AT_ONCE, send);
        let control = async {
            loop {
                let answer = server.answer(&control).await;
                beside += 1;
                assert_eq!(answer.text, alone, "seed {seed}, answer {beside}");
            }
        };
        tokio::select! {
            () = replay => {}
            () = control => {}
        }
    }
    assert_eq!(server.answer(&control).await.text, alone);
}
