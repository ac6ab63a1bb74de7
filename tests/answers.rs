//! What the built-in models write, served over HTTP: reference values for each model alone, and what routing must keep.

use crate::common::{Answer, Problem, Server, not_hanging, problems};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

/// Requests at once: enough for full batches, below the built-in deployment's bound.
const CONCURRENCY: usize = 60;

fn greedy(model: &str, problem: &Problem) -> Value {
    json!({
        "model": model, "prompt": problem.prompt, "max_tokens": 64, "temperature": 0,
        "tokenrouter": { "attribution": true },
    })
}

/// The answers in the problems' order, many at a time.
async fn answers(server: &Server, model: &str, problems: &[Problem]) -> Vec<Answer> {
    let requests = problems
        .iter()
        .map(|problem| async move { server.answer(&greedy(model, problem)).await });
    not_hanging(
        "a round of problems",
        futures_util::stream::iter(requests).buffered(CONCURRENCY).collect(),
    )
    .await
}

/// Usage, attribution and text are three accounts of one answer. Every character is a token of these models.
fn assert_accounts_agree(problem: &Problem, answer: &Answer) {
    let characters = answer.text.chars().count() as u64;
    let (prompt, ended_by_eos) = (
        problem.prompt.chars().count() as u64,
        u64::from(answer.finish == "stop"),
    );
    assert_eq!(
        answer.usage["prompt_tokens"],
        prompt + 1,
        "a prompt is its characters and a begin token"
    );
    assert_eq!(answer.completion_tokens(), characters + ended_by_eos);
    assert_eq!(answer.completion_tokens(), answer.tokens.len() as u64);
    let by_model = answer.usage["tokenrouter"]["tokens_by_model"]
        .as_object()
        .expect("an object");
    let mut names: Vec<_> = by_model.keys().collect();
    names.sort();
    assert_eq!(names, ["large", "small"], "every model is named");
    for model in by_model.keys() {
        let attributed = answer.tokens.iter().filter(|(_, writer)| writer == model).count() as u64;
        assert_eq!(answer.tokens_of(model), attributed, "{model}: {:?}", answer.tokens);
    }
    assert_eq!(
        answer.tokens_of("small") + answer.tokens_of("large"),
        answer.completion_tokens()
    );
}

#[tokio::test]
async fn each_model_alone_writes_its_reference_answers() {
    let (server, problems) = (Server::start(&[]), problems());
    for (model, other) in [("small", "large"), ("large", "small")] {
        let answers = answers(&server, &format!("tiny/{model}"), &problems).await;
        for (problem, answer) in problems.iter().zip(&answers) {
            let expected = if model == "small" {
                &problem.greedy_small
            } else {
                &problem.greedy_large
            };
            assert_eq!(
                (&answer.text, answer.finish.as_str()),
                (expected, "stop"),
                "{model}: {}",
                problem.prompt
            );
            assert_accounts_agree(problem, answer);
            assert_eq!((answer.tokens_of(other), answer.handoffs()), (0, 0));
        }
    }
}

/// At 0.2 nats the two are as right as the large model alone, for a fifth of its tokens.
#[tokio::test]
async fn r_stitch_is_nearly_as_right_as_the_large_model_for_a_few_of_its_tokens() {
    let (server, problems) = (Server::start(&[]), problems());
    let answers = answers(&server, "tiny", &problems).await;
    let (mut right, mut large, mut all) = (0, 0, 0);
    for (problem, answer) in problems.iter().zip(&answers) {
        assert_accounts_agree(problem, answer);
        let changes = answer.tokens.windows(2).filter(|pair| pair[0].1 != pair[1].1).count() as u64;
        let first_by_large = u64::from(answer.tokens.first().is_some_and(|(_, model)| model == "large"));
        assert!(
            answer.handoffs() >= changes + first_by_large,
            "{}: a change of hands is a handoff",
            problem.prompt
        );
        right += usize::from(answer.text == problem.worked);
        large += answer.tokens_of("large");
        all += answer.completion_tokens();
    }
    let large_alone = problems
        .iter()
        .filter(|problem| problem.greedy_large == problem.worked)
        .count();
    assert!(
        right + 10 >= large_alone,
        "routed {right} right, the large model alone {large_alone}"
    );
    let share = large as f64 / all as f64;
    assert!(
        (0.15..0.30).contains(&share),
        "{share:.3} of the tokens are from the large model"
    );
}

/// Handing every single position over and back is the hardest exercise for KV caches and must change nothing; handing
/// none over is the small model alone.
#[tokio::test]
async fn handing_over_always_or_never_is_one_model_alone() {
    let problems = &problems()[..120];
    let server = Server::start(&["--plugin", "random", "--plugin-config", "share=1"]);
    for (problem, answer) in problems.iter().zip(answers(&server, "tiny@random", problems).await) {
        assert_eq!(answer.text, problem.greedy_large, "{}", problem.prompt);
        assert_accounts_agree(problem, &answer);
        assert_eq!(answer.tokens_of("small"), 0);
        assert_eq!(
            answer.handoffs(),
            2 * answer.completion_tokens() - 1,
            "over for every token, back for all but the last"
        );
    }
    let server = Server::start(&["--plugin", "random", "--plugin-config", "share=0"]);
    for (problem, answer) in problems.iter().zip(answers(&server, "tiny", problems).await) {
        assert_eq!(answer.text, problem.greedy_small, "{}", problem.prompt);
        assert_accounts_agree(problem, &answer);
        assert_eq!(answer.handoffs(), 0);
    }
}

/// Without a policy the name of the deployment means its first model.
#[tokio::test]
async fn without_a_policy_the_first_model_answers() {
    let (server, problems) = (Server::start(&["--plugin", "none"]), &problems()[..20]);
    for (problem, answer) in problems.iter().zip(answers(&server, "tiny", problems).await) {
        assert_eq!(answer.text, problem.greedy_small);
    }
}
