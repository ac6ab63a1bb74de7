//! Invariant 6, swap: requests that began before a policy was replaced finish as if it had not been, none is lost, doubled or
//! failed, and what was replaced is freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::admin::{SEED, escaped, failing_for_the_seed, generation, shipped, start, wait_for};
use crate::common::component::Policy;
use crate::common::{Answer, Reply, Server, deployment_file, file, not_hanging, problems};
use futures_util::future::join_all;
use serde_json::{Value, json};

const SWAPS: usize = 200;
const CONCURRENCY: usize = 16;

/// What is swapped: name, options.
const CONFIGURATIONS: [(&str, &str); 4] = [
    ("r-stitch", r#"{"threshold": 0.2, "unit": "nats"}"#),
    ("random", r#"{"share": 0.3}"#),
    ("r-stitch", r#"{"threshold": 0.02, "unit": "nats"}"#),
    ("random", r#"{"share": 0.7}"#),
];

/// A request of some kind: greedy or sampled, short or long.
fn request(index: usize) -> Value {
    let prompt = &problems()[index % 24].prompt;
    let (max_tokens, temperature) = [(64, 0.0), (12, 0.8), (40, 1.3)][index % 3];
    json!({
        "model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "temperature": temperature, "seed": 7_919 * (index % 24),
        "tokenrouter": { "attribution": true },
    })
}

/// Text and tokens with who wrote each: everything of an answer that its policy has a say in.
fn content(reply: &Reply) -> (String, Vec<(u64, String)>, String) {
    assert_eq!(reply.status, 200, "{}", reply.body);
    let answer = Answer::of_whole(&reply.json());
    (answer.text, answer.tokens, answer.finish)
}

#[tokio::test]
async fn swap_under_load_loses_nothing_and_every_answer_is_its_own_generations() {
    let server = Arc::new(start(&["--plugin", "r-stitch", "--plugin-config", "threshold=0.5"]));
    let (over, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let client = || {
        let (server, over, next) = (server.clone(), over.clone(), next.clone());
        async move {
            let mut seen = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let reply = server.complete(&request(index)).await;
                seen.push((index % 24, generation(&reply), content(&reply)));
            }
            seen
        }
    };
    let clients: Vec<_> = (0..CONCURRENCY).map(|_| tokio::spawn(client())).collect();
    let mut configurations = vec![(1, usize::MAX)];
    for swap in 0..SWAPS {
        let which = swap % CONFIGURATIONS.len();
        let (name, options) = CONFIGURATIONS[which];
        let query = format!("activate=true&options={}", escaped(options));
        let made = not_hanging("a swap", server.put(name, &query, shipped(name))).await;
        configurations.push((made, which));
        // Some requests begin under every generation.
        let begun = next.load(Ordering::Relaxed);
        while next.load(Ordering::Relaxed) < begun + 2 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut seen = Vec::new();
    for client in not_hanging("requests under swaps", join_all(clients)).await {
        seen.extend(client.expect("no client fails"));
    }
    let mut numbers: Vec<u64> = configurations.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), SWAPS + 1, "every swap is a generation of its own");

    // Nothing of the replaced ones is left: the default, the one before it, and the last of the other name.
    let live = wait_for(&server, "/admin/generations", "freed", |value| {
        value["generations"].as_array().is_some_and(|live| live.len() <= 2)
    });
    let live = not_hanging("freeing", live).await;
    assert!(
        live["generations"]
            .as_array()
            .is_some_and(|live| live.iter().all(|one| one["running"] == 0)),
        "{live}"
    );
    let instances = wait_for(&server, "/admin/subservers", "let go of instances", |value| {
        value["subservers"]
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one["policy_instances"].as_u64() <= Some(2)))
    });
    not_hanging("letting go", instances).await;

    let alone: Vec<Server> = CONFIGURATIONS
        .iter()
        .map(|(name, options)| {
            let options: serde_json::Map<String, Value> = serde_json::from_str(options).expect("JSON");
            let options = options
                .iter()
                .map(|(name, value)| format!("{name}={}", value.to_string().replace('"', "")));
            let mut args = vec!["--plugin".to_owned(), (*name).to_owned()];
            options.for_each(|option| args.extend(["--plugin-config".to_owned(), option]));
            Server::start(&args.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect();
    let mut expected = std::collections::HashMap::new();
    let mut routed_by = std::collections::BTreeSet::new();
    for (index, number, found) in &seen {
        let (_, which) = configurations
            .iter()
            .find(|(made, _)| made == number)
            .expect("a generation that was made");
        routed_by.insert(*number);
        // The first generation is one more configuration, which only requests of the first moments see.
        if *which == usize::MAX {
            continue;
        }
        if let std::collections::hash_map::Entry::Vacant(unknown) = expected.entry((*which, *index)) {
            let reply = not_hanging("a request alone", alone[*which].complete(&request(*index))).await;
            unknown.insert(content(&reply));
        }
        assert_eq!(
            found,
            &expected[&(*which, *index)],
            "request {index} of generation {number}"
        );
    }
    assert!(
        routed_by.len() > SWAPS / 4,
        "only {} generations routed requests: this would show nothing",
        routed_by.len()
    );
}

#[tokio::test]
async fn a_canary_takes_its_share_and_the_same_requests_every_time() {
    let server = start(&["--plugin", "r-stitch"]);
    let canary = server.put("random", "", shipped("random")).await;
    assert_eq!(server.default_generation().await, 1, "an upload serves nothing yet");
    server
        .admin_ok("POST", "/admin/policies/random/canary", r#"{"share": 0.3}"#)
        .await;
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let server = &server;
        let replies = (0..60).map(|index| async move {
            let mut body = request(index);
            body["seed"] = index.into();
            generation(&server.complete(&body).await)
        });
        rounds.push(not_hanging("a canary", join_all(replies)).await);
    }
    assert_eq!(rounds[0], rounds[1], "which requests is a function of their seeds");
    let taken = rounds[0].iter().filter(|number| **number == canary).count();
    // 18 are expected, with a standard deviation of 3.5.
    assert!((5..=31).contains(&taken), "{taken} of 60");
    server
        .admin_ok("POST", "/admin/policies/random/canary", r#"{"share": 0}"#)
        .await;
    assert_eq!(generation(&server.complete(&request(0)).await), 1);
}

/// The shadow's decisions over these requests, as the admin API reports them.
async fn shadowed(server: &Server, name: &str) -> Value {
    server
        .admin_ok("POST", &format!("/admin/policies/{name}/shadow"), r#"{"share": 1}"#)
        .await;
    let replies = join_all((0..48).map(|index| async move { content(&server.complete(&request(index)).await) }));
    not_hanging("requests with a shadow", replies).await;
    let status = server.admin_ok("GET", "/admin/policies", "").await;
    status["shadow"]["comparison"].clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[tokio::test]
async fn r_stitch_as_the_shadow_of_random_disagrees_as_their_definitions_say() {
    let server = start(&["--plugin", "random", "--plugin-config", "share=0.3"]);
    let before = content(&server.complete(&request(1)).await);
    let options = escaped(CONFIGURATIONS[0].1);
    server
        .put("r-stitch", &format!("options={options}"), shipped("r-stitch"))
        .await;
    let comparison = shadowed(&server, "r-stitch").await;
    assert_eq!(
        content(&server.complete(&request(1)).await),
        before,
        "a shadow changes nothing"
    );

    let moves = |of: &str, from: usize, to: usize| number(&comparison[of][from][to]);
    let steps = |model: usize| number(&comparison["steps_by_model"][model]);
    let disagreements = |model: usize| number(&comparison["disagreements_by_model"][model]);
    assert!(steps(0) > 500.0 && steps(1) > 100.0, "{comparison:#}");
    // At the small model random's draw knows nothing of the entropy that R-Stitch goes by: independent events.
    let (random, r_stitch) = (
        moves("moves", 0, 1) / steps(0),
        moves("moves_of_shadow", 0, 1) / steps(0),
    );
    let expected = random * (1.0 - r_stitch) + (1.0 - random) * r_stitch;
    let deviation = (expected * (1.0 - expected) / steps(0)).sqrt();
    let found = disagreements(0) / steps(0);
    assert!(
        (found - expected).abs() < 4.0 * deviation,
        "{found} instead of {expected} ± {deviation}: {comparison:#}"
    );
    // The large model is always left by random, and by R-Stitch where its entropy is small.
    assert_eq!(moves("moves", 1, 1), 0.0);
    assert_eq!(disagreements(1), moves("moves_of_shadow", 1, 1));
    let shares = &comparison["predicted_share_by_model"];
    assert!((number(&shares[0]) + number(&shares[1]) - 1.0).abs() < 1e-6, "{shares}");
}

#[tokio::test]
async fn a_shadow_that_is_the_policys_twin_never_disagrees_and_predicts_what_happens() {
    for (name, options) in CONFIGURATIONS {
        let server = start(&["--plugin", "none"]);
        let query = format!("options={}", escaped(options));
        server.put(name, &format!("activate=true&{query}"), shipped(name)).await;
        server.put("twin", &query, shipped(name)).await;
        let comparison = shadowed(&server, "twin").await;
        assert_eq!(comparison["disagreements"], 0, "{name} {options}: {comparison:#}");
        assert!(number(&comparison["steps"]) > 500.0);
        let info = server.info().await;
        let written = |model: usize| number(&info["stats"]["models"][model]["tokens_written"]);
        let large = written(1) / (written(0) + written(1));
        let predicted = number(&comparison["predicted_share_by_model"][1]);
        // The beginnings and ends of answers are not the long run.
        assert!(
            (large - predicted).abs() < 0.05,
            "{name} {options}: {large} written, {predicted} predicted"
        );
    }
}

#[tokio::test]
async fn a_policy_is_reached_by_its_name_and_left_by_rolling_back() {
    let server = start(&["--plugin", "r-stitch"]);
    let by = |model: &str| {
        let mut body = request(0);
        body["model"] = model.into();
        let server = &server;
        async move { server.complete(&body).await }
    };
    assert_eq!(by("tiny@random").await.status, 404);
    let random = server
        .put("random", "activate=true&default=false", shipped("random"))
        .await;
    assert_eq!(generation(&by("tiny").await), 1);
    assert_eq!(generation(&by("tiny@random").await), random);
    let models = server.get("/v1/models").await.json();
    assert!(
        models["data"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["id"] == "tiny@random")),
        "{models}"
    );

    // Other options alone are a generation, too.
    let changed = server
        .admin_ok(
            "POST",
            "/admin/policies/r-stitch/activate",
            r#"{"options": {"threshold": 0.4}}"#,
        )
        .await;
    let changed = changed["generation"].as_u64().expect("a generation");
    assert_eq!(generation(&by("tiny").await), changed);
    let same = server
        .admin_ok(
            "POST",
            "/admin/policies/r-stitch/activate",
            r#"{"options": {"threshold": 0.4}}"#,
        )
        .await;
    assert_eq!(
        (same["generation"].as_u64(), &same["unchanged"]),
        (Some(changed), &json!(true))
    );
    server.admin_ok("POST", "/admin/policies/random/activate", "").await;
    assert_eq!(generation(&by("tiny").await), random);
    let back = server.admin_ok("POST", "/admin/policies/random/rollback", "").await;
    assert_eq!(back["generation"].as_u64(), Some(changed));
    assert_eq!(generation(&by("tiny").await), changed);
    let further = server
        .admin_ok("POST", "/admin/policies/r-stitch/rollback", r#"{"generation": 1}"#)
        .await;
    assert_eq!(further["generation"], 1);
    assert_eq!(generation(&by("tiny@r-stitch").await), 1);
    server.admin_ok("DELETE", "/admin/policies/random", "").await;
    assert_eq!(by("tiny@random").await.status, 404);
}

#[tokio::test]
async fn a_policy_that_keeps_failing_is_taken_out_and_the_one_before_serves_again() {
    let plugin = file("policy.wasm", shipped("r-stitch"));
    let path = deployment_file(&format!("plugin = {plugin:?}\non_failure = \"stay\""), "");
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let failing = server
        .put(
            "failing",
            "activate=true",
            failing_for_the_seed("(unreachable)").bytes(),
        )
        .await;
    let problem = &problems()[0];
    let body = json!({ "model": "tiny", "prompt": problem.prompt, "max_tokens": 64, "temperature": 0, "seed": SEED });
    let mut rounds = 0;
    while server.default_generation().await == failing {
        let answer = not_hanging("a request of a failing policy", server.answer(&body)).await;
        // The failure mode is `stay`: nobody loses an answer.
        assert!(!answer.text.is_empty() && answer.finish == "stop", "{answer:?}");
        rounds += 1;
        assert!(rounds < 10_000, "it is never taken out");
    }
    assert_eq!(server.default_generation().await, 1);
    let policy = server.admin_ok("GET", "/admin/policies/failing", "").await;
    let why = policy["generations"][0]["withdrawn"].as_str().unwrap_or_default();
    assert!(
        why.starts_with("5 faults within 10 s") && why.contains("`route` trapped"),
        "{policy}"
    );
    assert_eq!(generation(&server.complete(&body).await), 1);
}

#[tokio::test]
async fn requests_over_the_drain_limit_meet_the_failure_mode() {
    let path = deployment_file(
        "plugin = \"random\"\noptions = { share = 1 }\non_failure = \"stay\"",
        "[admin]\nswap_drain_s_max = 0",
    );
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let body = json!({ "model": "tiny", "prompt": problems()[0].prompt, "max_tokens": 400, "temperature": 2, "seed": 1,
                       "tokenrouter": { "attribution": true } });
    let mut events = server.events(&body).await;
    assert!(events.next().await.is_some());
    server.put("r-stitch", "activate=true", shipped("r-stitch")).await;
    wait_for(&server, "/admin/generations", "let go of the first", |value| {
        value["generations"].as_array().is_some_and(|live| {
            live.iter()
                .all(|one| one["generation"] != 1 || one["running"] == 0 || one["expelled"] == true)
        })
    })
    .await;
    let answer = not_hanging("a request over its limit", Answer::of_stream(events)).await;
    assert!(!answer.finish.is_empty());
}

#[tokio::test]
async fn a_watched_file_is_loaded_anew_when_it_changes() {
    let plugin = file("policy.wasm", Policy::new().bytes());
    let server = start(&["--plugin", plugin.to_str().expect("UTF-8"), "--watch"]);
    assert_eq!(server.default_generation().await, 1);
    std::fs::write(&plugin, b"not a policy").expect("writes");
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    assert_eq!(server.default_generation().await, 1, "a broken file is refused");
    std::fs::write(&plugin, shipped("random")).expect("writes");
    let reloaded = wait_for(&server, "/admin/policies", "reloaded", |value| {
        value["default"]["generation"] == 2
    });
    not_hanging("a reload", reloaded).await;
    assert_eq!(generation(&server.complete(&request(0)).await), 2);
}
