//! What a person can see of an answer and of the server: the steps behind every token, and the timeline of the models.

use serde_json::{Value, json};

use crate::common::{Server, wait_for_info};

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn numbers(value: &Value) -> Vec<u64> {
    let numbers = list(value).iter().map(Value::as_u64);
    numbers
        .collect::<Option<_>>()
        .unwrap_or_else(|| panic!("numbers: {value}"))
}

/// Every token's steps lead to it, and each decision is the one that the published rule makes of the signals told with it.
#[tokio::test]
async fn the_steps_of_an_answer_lead_from_token_to_token() {
    let threshold = 0.15;
    let server = Server::start(&[]);
    let body = json!({
        "prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0,
        "tokenrouter": { "steps": true, "options": { "threshold": threshold } },
    });
    let reply = server.complete(&body).await.json();
    let choice = &reply["choices"][0];
    let tokens = list(&choice["attribution"]);
    assert_eq!(reply["usage"]["completion_tokens"], tokens.len());
    let (mut at, mut moves) = (json!("small"), Vec::new());
    for (position, token) in tokens.iter().enumerate() {
        let steps = list(&token["steps"]);
        let (last, discarded) = steps.split_last().expect("a step wrote the token");
        assert_eq!(
            (&last["id"], &last["model"]),
            (&token["id"], &token["model"]),
            "{token}"
        );
        assert!(
            discarded.iter().all(|step| step["model"] != step["to"]),
            "a model that goes on keeps its candidate: {token}"
        );
        for (index, step) in steps.iter().enumerate() {
            assert_eq!(step["model"], at, "the step is where the request was: {token}");
            assert_eq!(step["committed"], index == discarded.len(), "{token}");
            let entropy = step["signals"]["entropy"]
                .as_f64()
                .expect("R-Stitch asks for the entropy");
            let next = if entropy > threshold { "large" } else { "small" };
            let ends = position + 1 == tokens.len() && index == discarded.len();
            assert!(ends || step["to"] == next, "entropy {entropy}: {step}");
            if step["to"] != at && !ends {
                let written = position as u64 + u64::from(index == discarded.len());
                moves.push(json!({ "position": written, "from": at, "to": step["to"] }));
            }
            at = step["to"].clone();
        }
    }
    assert_eq!(
        moves,
        list(&choice["handoffs"]),
        "the steps and the handoffs are one account"
    );
    assert!(!moves.is_empty(), "this answer needs both models");
    // Whoever does not ask is told nothing of it, and gets the same answer.
    let mut plain = body.clone();
    plain["tokenrouter"] = json!({ "attribution": true, "options": { "threshold": threshold } });
    let mut told = server.complete(&plain).await.json()["choices"][0]["attribution"].take();
    assert!(list(&told).iter().all(|token| token.get("steps").is_none()));
    for (token, with_steps) in told.as_array_mut().expect("a list").iter_mut().zip(tokens) {
        token["steps"] = with_steps["steps"].clone();
    }
    assert_eq!(list(&told), tokens);
}

/// The steps of a model follow each other, and they account for all that the model was fed.
#[tokio::test]
async fn the_timeline_has_every_step_once() {
    let server = Server::start(&[]);
    let body = json!({ "prompt": "12+34=", "max_tokens": 24, "n": 8, "temperature": 1, "seed": 5, "ignore_eos": true });
    assert_eq!(server.complete(&body).await.status, 200);
    wait_for_info(&server, "at rest", |info| info["stats"]["requests_running"] == 0).await;
    let stats = server.info().await["stats"]["models"].take();
    let timeline = server.get("/timeline?steps=2048").await.json();
    let now_us = timeline["now_us"].as_u64().expect("a time");
    let mut last = Vec::new();
    for (model, stats) in list(&timeline["models"]).iter().zip(list(&stats)) {
        let column = |name: &str| numbers(&model["steps"][name]);
        let (started, took) = (column("started_us"), column("took_us"));
        let count = stats["steps"].as_u64().expect("steps");
        assert_eq!(column("number"), (1..=count).collect::<Vec<_>>(), "{}", model["name"]);
        assert_eq!(Some(column("rows").iter().sum()), stats["rows"].as_u64());
        assert_eq!(Some(column("tokens").iter().sum()), stats["tokens_fed"].as_u64());
        for step in 0..started.len() {
            let end = started[step] + took[step];
            let next = started.get(step + 1).copied().unwrap_or(now_us);
            assert!(end <= next, "step {step} ends at {end}, the next begins at {next}");
        }
        assert!(
            column("rows").iter().any(|rows| *rows > 1),
            "eight answers at once share steps"
        );
        last.push(count);
    }
    // From the middle on, and from the end on.
    let ask = async |after: &[u64], steps: &str| {
        let after: Vec<String> = after.iter().map(u64::to_string).collect();
        let reply = server.get(&format!("/timeline?after={}{steps}", after.join(","))).await;
        reply.json()["models"].take()
    };
    let newer = ask(&[last[0] - 3, last[1]], "").await;
    assert_eq!(
        numbers(&newer[0]["steps"]["number"]),
        [last[0] - 2, last[0] - 1, last[0]]
    );
    assert_eq!(newer[1]["steps"]["number"], json!([]));
    let newest = ask(&[0, 0], "&steps=1").await;
    assert_eq!(numbers(&newest[0]["steps"]["number"]), [last[0]]);
    for (query, param) in [("after=1", "after"), ("after=1,x", "after"), ("steps=0", "steps")] {
        let reply = server.get(&format!("/timeline?{query}")).await;
        assert_eq!(
            (reply.status, reply.error()["param"].as_str()),
            (400, Some(param)),
            "{query}"
        );
    }
}
