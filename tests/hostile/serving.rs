//! Faults that begin while a policy serves, or watches.

use super::{FOREVER, answer, body, served};
use crate::common::admin::failing_for_the_seed;
use crate::common::{Answer, not_hanging, problems};

/// Ways to misbehave that no check finds, because they begin with the first request.
#[tokio::test]
async fn what_misbehaves_while_it_serves_harms_nobody_else() {
    let (server, expected) = served("").await;
    let small = &problems()[0].greedy_small;
    let recursion = "(func $deeper (param i32) (result i32)
                       (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))";
    let policies = [
        ("trap", "(unreachable)", "`route` trapped"),
        ("loop", FOREVER, "`route` took more than 100 ms"),
        (
            "memory",
            "(loop $more (drop (memory.grow (i32.const 16))) (br $more))",
            "bytes of memory",
        ),
        ("stack", "(drop (call $deeper (i32.const 0)))", "bytes of stack"),
        (
            "length",
            "(local.set $rows (i32.sub (local.get $rows) (i32.const 1)))",
            "`route` returned 0 destinations, expected 1",
        ),
        // The hand-written policy names the candidate as the model.
        ("model", "", "`route` returned model"),
    ];
    for (name, code, says) in policies {
        let component = failing_for_the_seed(code).with("declarations", recursion);
        server.put(name, "activate=true&default=false", component.bytes()).await;
        let model = format!("tiny@{name}");
        let (hostile, other) = tokio::join!(answer(&server, &model), answer(&server, "tiny"));
        assert_eq!(&hostile, small, "{name}: the failure mode is `stay`");
        assert_eq!(other, expected, "{name}");
        let live = server.admin_ok("GET", "/admin/generations", "").await;
        let of_name = live["generations"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["policy"] == name).cloned());
        let of_name = of_name.unwrap_or_else(|| panic!("{name} is not loaded: {live}"));
        assert!(of_name["faults"].as_u64() > Some(0), "{of_name}");
        assert!(
            of_name["last_fault"].as_str().is_some_and(|text| text.contains(says)),
            "{name}: {of_name}"
        );
        server.admin_ok("DELETE", &format!("/admin/policies/{name}"), "").await;
    }
    assert_eq!(answer(&server, "tiny").await, expected);
}

/// A hostile shadow is asked at every step of others' requests.
#[tokio::test]
async fn a_shadow_that_fails_harms_no_request_and_is_taken_out() {
    let (server, expected) = served("").await;
    server
        .put("failing", "", failing_for_the_seed("(unreachable)").bytes())
        .await;
    server
        .admin_ok("POST", "/admin/policies/failing/shadow", r#"{"share": 1}"#)
        .await;
    let mut rounds = 0;
    while !server.admin_ok("GET", "/admin/policies", "").await["shadow"].is_null() {
        let mut streamed = body("tiny");
        streamed["stream"] = true.into();
        let answer = Answer::of_stream(server.events(&streamed).await);
        assert_eq!(not_hanging("a request", answer).await.text, expected);
        rounds += 1;
        assert!(rounds < 10_000, "it is never taken out");
    }
    let info = server.info().await;
    let faults = info["stats"]["models"]
        .as_array()
        .map(|all| all.iter().filter_map(|one| one["policy_faults"].as_u64()).sum::<u64>());
    assert_eq!(
        faults,
        Some(0),
        "a shadow's faults are not those of the policy in force"
    );
}
