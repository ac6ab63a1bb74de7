//! The examination finds each way of breaking the contract, by name, and lets policies pass that keep it.

use tokenrouter_policy::conformance::{Effort, Outcome, Report, examine, smoke};
use tokenrouter_policy::{Deployment, Generation};

use crate::component::{Policy, deployment, host};

/// The hand-written policy goes to the model that the candidate names, so there are as many tokens as models.
fn two_tokens() -> Deployment {
    let mut deployment = deployment();
    for model in &mut deployment.models {
        model.vocabulary = 2;
    }
    deployment
}

fn generation(policy: &Policy) -> Generation {
    let code = host().load(&policy.bytes()).expect("it loads");
    code.configure(&two_tokens(), &[]).expect("it takes its defaults")
}

fn outcome<'a>(report: &'a Report, check: &str) -> &'a Outcome {
    let found = report.checks.iter().find(|found| found.name == check);
    &found.unwrap_or_else(|| panic!("no check {check}")).outcome
}

/// That the policy fails this check first, for a reason with these words, in both examinations.
fn fails(policy: &Policy, check: &str, words: &str) {
    let generation = generation(policy);
    let error = smoke(&generation).expect_err("it breaks the contract");
    assert_eq!(error.check, check, "{error}");
    assert!(error.reason.contains(words), "{error}");
    let report = examine(&generation, Effort { seed: 5, rounds: 1 });
    assert!(matches!(outcome(&report, check), Outcome::Failed(_)), "{report:?}");
    assert!(!report.passed());
}

#[test]
fn a_policy_that_keeps_the_contract_passes() {
    let generation = generation(&Policy::new());
    let report = smoke(&generation).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.passed(), "{report:?}");
    assert!(matches!(outcome(&report, "rows"), Outcome::Passed(_)), "{report:?}");
    // The same seed makes the same calls, so it finds the same.
    let effort = Effort { seed: 9, rounds: 2 };
    assert_eq!(examine(&generation, effort), examine(&generation, effort));
}

#[test]
fn memory_of_earlier_calls_is_found() {
    let counts = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (if (i32.and (i32.gt_u (global.get $calls) (i32.const 1)) (i32.gt_u (local.get $rows) (i32.const 0)))
          (then (i32.store (local.get $candidates) (i32.const 1))))";
    let policy = Policy::new()
        .with("declarations", "(global $calls (mut i32) (i32.const 0))")
        .with("route", counts);
    fails(&policy, "purity", "a fresh instance decides differently");
}

#[test]
fn a_trap_on_a_number_that_no_model_gives_is_found() {
    let traps = "(if (i32.and (i32.eqz (local.get $at)) (i32.gt_u (local.get $rows) (i32.const 0)))
        (then (if (f32.ne (f32.load (local.get 3)) (f32.load (local.get 3))) (then unreachable))))";
    fails(&Policy::new().with("route", traps), "route", "trapped");
}

#[test]
fn a_destination_that_does_not_exist_is_found() {
    let astray = "(if (i32.eq (local.get $rows) (i32.const 64))
        (then (i32.store offset=252 (local.get $candidates) (i32.const 2))))";
    fails(&Policy::new().with("route", astray), "route", "64 rows");
}

#[test]
fn options_that_end_in_a_trap_are_found() {
    // `init` with one option: of the calls of an examination, those that set one.
    let traps = "(if (i32.eq (local.get 7) (i32.const 1)) (then unreachable))";
    fails(&Policy::new().with("init", traps), "defaults", "trapped");
    // With one that is no number, as its default is.
    let traps = "(if (i32.eq (local.get 7) (i32.const 1))
        (then (if (i32.ne (i32.load8_u offset=8 (local.get 6)) (i32.const 1)) (then unreachable))))";
    fails(&Policy::new().with("init", traps), "refusals", "refuse it with a text");
}

#[test]
fn a_request_that_never_gets_a_token_is_found() {
    let swaps = "(if (local.get $rows)
        (then (i32.store (local.get $candidates) (i32.sub (i32.const 1) (local.get $at)))))";
    let discards = "(i32.store8 (i32.const 4300) (i32.const 0))
        (i32.store (i32.const 4304) (local.get $state)) (i32.store (i32.const 4308) (local.get $words))
        (return (i32.const 4300))";
    let policy = Policy::new().with("route", swaps).with("send", discards);
    fails(&policy, "progress", "candidates in a row are discarded");
}

#[test]
fn a_departure_that_traps_is_found() {
    fails(&Policy::new().with("send", "unreachable"), "route", "`send` trapped");
    fails(
        &Policy::new().with("receive", "unreachable"),
        "route",
        "`receive` trapped",
    );
}

/// The contract lets a policy compare rows; its author should know what that costs.
#[test]
fn decisions_that_hang_on_the_company_are_noted() {
    let compares = "(if (i32.gt_u (local.get $rows) (i32.const 1))
        (then (i32.store (local.get $candidates) (i32.const 0))))";
    let report = smoke(&generation(&Policy::new().with("route", compares))).expect("it passes");
    assert!(
        matches!(outcome(&report, "rows"), Outcome::Noted(text) if text.contains("depend on the load")),
        "{report:?}"
    );
}
