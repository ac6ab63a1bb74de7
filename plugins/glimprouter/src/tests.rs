use tokenrouter_sdk::testing::{admit, init, number};

use super::*;

const SMALL: ModelIndex = 0;
const LARGE: ModelIndex = 1;
const SURE: f32 = 0.999;
const UNSURE: f32 = 1.0;

fn glimprouter(settings: Vec<Setting>) -> GlimpRouter {
    init(&["small", "large"], settings).unwrap()
}

/// A request on its way: who writes, and the state.
struct Journey<'a> {
    policy: &'a GlimpRouter,
    at: ModelIndex,
    state: Vec<StateWord>,
}

impl<'a> Journey<'a> {
    fn begin(policy: &'a GlimpRouter, request: Vec<Setting>) -> Self {
        let admission = admit(policy, request).unwrap();
        Self {
            policy,
            at: admission.model,
            state: admission.state,
        }
    }

    /// One step with a candidate of this text and this entropy at the small model. Returns who goes on and whether the
    /// candidate is committed.
    fn step(&mut self, text: &str, entropy: f32) -> (ModelIndex, bool) {
        let batch = Batch {
            candidates: vec![7],
            signals: if self.at == SMALL { vec![entropy] } else { vec![] },
            state: self.state.clone(),
            texts: text.into(),
            text_ends: vec![text.len() as u32],
        };
        let decisions = self.policy.route_batch(self.at, batch);
        let (to, mut committed) = (decisions.destinations[0], true);
        self.state = decisions.state;
        if to != self.at {
            let step = Step {
                candidate: 7,
                signals: vec![],
                state: self.state.clone(),
                text: text.into(),
            };
            let parcel = self.policy.send(self.at, to, step);
            committed = parcel.keep_candidate;
            self.state = self.policy.receive(to, self.at, parcel);
            self.at = to;
        }
        (to, committed)
    }

    fn steps(&mut self, pieces: &[&str], entropy: f32) -> Vec<(ModelIndex, bool)> {
        pieces.iter().map(|piece| self.step(piece, entropy)).collect()
    }
}

#[test]
fn the_plan_asks_for_the_glimpse_and_for_texts() {
    let policy = glimprouter(vec![]);
    assert_eq!(policy.plan().signals, [vec![Signal::TopKEntropy(20)], vec![]]);
    assert!(policy.plan().texts);
}

#[test]
fn a_sure_small_model_keeps_the_step_whatever_comes_later_in_it() {
    let policy = glimprouter(vec![]);
    let mut journey = Journey::begin(&policy, vec![]);
    assert_eq!(journey.step("So", SURE), (SMALL, true));
    assert_eq!(journey.steps(&[" x", " = 3", ".\n\n"], 2.9), [(SMALL, true); 3]);
}

#[test]
fn an_unsure_one_gives_the_whole_step_away_without_its_candidate() {
    let policy = glimprouter(vec![]);
    let mut journey = Journey::begin(&policy, vec![]);
    assert_eq!(journey.step("Wait", UNSURE), (LARGE, false));
    assert_eq!(journey.steps(&["Hmm", ", no", ".\n"], SURE), [(LARGE, true); 3]);
    // The blank line ends the step: the large model's token is committed, and the small model is glimpsed at again.
    assert_eq!(journey.step("\n", SURE), (SMALL, true));
    assert_eq!(journey.step("So", SURE), (SMALL, true));
    assert_eq!(journey.step(".\n\n", UNSURE), (SMALL, true));
    assert_eq!(journey.step("Wait", UNSURE), (LARGE, false));
}

/// The empty beginning of an answer is a boundary whatever the prompt ends with, and each of these ends a step.
#[test]
fn every_kind_of_blank_line_is_a_boundary() {
    let policy = glimprouter(vec![]);
    for blank in [&["\n\n"][..], &[".\n\n"], &["\n", "\n"], &["\n\n\n"]] {
        let mut journey = Journey::begin(&policy, vec![]);
        assert_eq!(journey.step("a", SURE), (SMALL, true));
        let committed = journey.steps(blank, UNSURE);
        assert!(
            committed.iter().all(|step| *step == (SMALL, true)),
            "{blank:?}: {committed:?}"
        );
        assert_eq!(journey.step("b", UNSURE), (LARGE, false), "after {blank:?}");
    }
}

#[test]
fn an_entropy_that_is_not_a_number_counts_as_unsure_and_only_at_a_boundary() {
    let policy = glimprouter(vec![]);
    let mut journey = Journey::begin(&policy, vec![]);
    assert_eq!(journey.step("a", SURE), (SMALL, true));
    assert_eq!(journey.step("\n\n", f32::NAN), (SMALL, true));
    assert_eq!(journey.step("b", f32::NAN), (LARGE, false));
}

#[test]
fn a_step_ends_after_its_limit_of_tokens_at_either_model() {
    let policy = glimprouter(vec![number("step-tokens-max", 3.0)]);
    let mut journey = Journey::begin(&policy, vec![]);
    assert_eq!(journey.step("a", SURE), (SMALL, true));
    assert_eq!(journey.steps(&["b", "c"], UNSURE), [(SMALL, true); 2]);
    assert_eq!(journey.step("d", UNSURE), (LARGE, false));
    assert_eq!(journey.steps(&["e", "f"], SURE), [(LARGE, true); 2]);
    assert_eq!(journey.step("g", SURE), (SMALL, true));
}

#[test]
fn the_large_model_writes_the_answer_once_thinking_has_ended() {
    for writer in [SMALL, LARGE] {
        let policy = glimprouter(vec![]);
        let mut journey = Journey::begin(&policy, vec![]);
        if writer == LARGE {
            assert_eq!(journey.step("a", UNSURE), (LARGE, false));
        }
        assert_eq!(journey.step("a", SURE), (writer, true));
        // The tag is kept, whoever writes it.
        assert_eq!(journey.step("</think>", SURE), (LARGE, true));
        assert_eq!(journey.steps(&["\n\n", "The", ".\n\n", "x"], SURE), [(LARGE, true); 4]);
    }
}

#[test]
fn a_step_like_the_one_before_ends_thinking_from_the_third_step_on() {
    let policy = glimprouter(vec![]);
    let mut journey = Journey::begin(&policy, vec![]);
    assert_eq!(journey.steps(&["a\n\n", "a\n\n"], SURE), [(SMALL, true); 2]);
    assert_eq!(journey.step("a\n\n", SURE), (LARGE, true));
    assert_eq!(journey.step("b\n\n", SURE), (LARGE, true), "it answers");
}

#[test]
fn a_spent_budget_ends_thinking_with_the_step() {
    let policy = glimprouter(vec![number("thinking-tokens-max", 2.0)]);
    let mut journey = Journey::begin(&policy, vec![]);
    assert_eq!(journey.steps(&["a", "b", "c"], SURE), [(SMALL, true); 3]);
    assert_eq!(journey.step("\n\n", SURE), (LARGE, true));
    assert_eq!(journey.steps(&["d\n\n", "e"], SURE), [(LARGE, true); 2]);
    let none = Journey::begin(&policy, vec![number("thinking-tokens-max", 0.0)]);
    assert_eq!(none.at, LARGE, "without a budget the large model writes all");
}

#[test]
fn the_first_steps_may_be_promised_to_the_large_model() {
    let policy = glimprouter(vec![number("large-steps", 2.0)]);
    let mut journey = Journey::begin(&policy, vec![]);
    assert_eq!(journey.at, LARGE);
    assert_eq!(journey.steps(&["a", "\n\n", "b"], SURE), [(LARGE, true); 3]);
    assert_eq!(journey.step("\n\n", SURE), (SMALL, true));
    assert_eq!(journey.step("c", SURE), (SMALL, true));
}

#[test]
fn a_request_has_its_own_threshold() {
    let policy = glimprouter(vec![]);
    let mut journey = Journey::begin(&policy, vec![number("threshold", 0.0)]);
    assert_eq!(
        journey.step("a", 0.0),
        (LARGE, false),
        "0 sends every step to the large model"
    );
    let mut journey = Journey::begin(&policy, vec![number("threshold", 3.0)]);
    assert_eq!(journey.step("a", 2.995), (SMALL, true), "and 3 none");
}

#[test]
fn counts_that_are_not_whole_are_refused() {
    for name in ["step-tokens-max", "thinking-tokens-max", "large-steps"] {
        let refusal = init::<GlimpRouter>(&["a", "b"], vec![number(name, 1.5)]).err().unwrap();
        assert_eq!(refusal, format!("option \"{name}\" is 1.5; it must be a whole number"));
    }
    let refusal = init::<GlimpRouter>(&["a", "b"], vec![number("step-tokens-max", 0.0)])
        .err()
        .unwrap();
    assert_eq!(
        refusal,
        "option \"step-tokens-max\" is 0; it must be between 1 and 1000000"
    );
}
