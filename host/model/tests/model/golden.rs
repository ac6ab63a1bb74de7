//! The embedded models write, greedily, the texts that are recorded with them: made with another implementation of the
//! same architecture.

use serde::Deserialize;
use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{DecoderRunner, Embedded, RowAsk, Runner, Source, StepOutput};

use crate::build::{blocks, push_row};

#[derive(Deserialize)]
struct Problem {
    prompt: String,
    greedy_small: String,
    greedy_large: String,
}

fn problems() -> Vec<Problem> {
    let lines = include_str!("../../../../models/tiny/problems.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

const BATCH: usize = 32;
const BLOCKS_EACH: usize = 6;
const LEN_MAX: usize = BLOCKS_EACH * KV_BLOCK_TOKENS;

/// Greedy answers to prompts, all in one batch whose rows leave as they end.
fn answers(runner: &mut DecoderRunner, prompts: &[Vec<TokenId>]) -> Vec<Vec<TokenId>> {
    let ask = RowAsk::GREEDY;
    let mut sequences = prompts.to_vec();
    let mut held = vec![0; prompts.len()];
    let mut running: Vec<usize> = (0..prompts.len()).collect();
    let (mut batch, mut out) = (StepBatch::default(), StepOutput::default());
    while !running.is_empty() {
        batch.clear();
        for s in &running {
            let table = blocks((s * BLOCKS_EACH) as u32..((s + 1) * BLOCKS_EACH) as u32);
            push_row(&mut batch, *s as u64, held[*s], &sequences[*s][held[*s]..], &table, 1);
            held[*s] = sequences[*s].len();
        }
        runner
            .step(&batch, &vec![ask; running.len()], &[vec![]], &mut out)
            .unwrap();
        let eos = &runner.info().eos;
        let mut candidates = out.candidates.iter();
        running.retain(|s| {
            let candidate = *candidates.next().unwrap();
            sequences[*s].push(candidate);
            !eos.contains(&candidate) && sequences[*s].len() < LEN_MAX
        });
    }
    sequences
        .iter()
        .zip(prompts)
        .map(|(sequence, prompt)| sequence[prompt.len()..].to_vec())
        .collect()
}

fn check(model: Embedded, expected: impl Fn(&Problem) -> &str) {
    let source = Source::Embedded(model);
    let mut runner = DecoderRunner::load(&source, ModelIndex(0)).unwrap();
    runner.allocate(BATCH * BLOCKS_EACH).unwrap();
    let (bos, eos) = (runner.info().bos, runner.info().eos.clone());
    let tokenizer = Tokenizer::from_bytes(&source.tokenizer().unwrap(), bos, &eos).unwrap();
    let problems = problems();
    assert_eq!(problems.len(), 300);
    for problems in problems.chunks(BATCH) {
        let prompts: Vec<_> = problems
            .iter()
            .map(|p| tokenizer.encode_prompt(&p.prompt).unwrap())
            .collect();
        assert!(prompts.iter().all(|prompt| prompt[0] == 2));
        for (problem, answer) in problems.iter().zip(answers(&mut runner, &prompts)) {
            let (end, text) = answer.split_last().unwrap();
            assert!(eos.contains(end), "{}: no end within {LEN_MAX} tokens", problem.prompt);
            assert_eq!(tokenizer.decode(text), expected(problem), "{}", problem.prompt);
        }
    }
}

#[test]
fn the_small_model_writes_the_recorded_answers() {
    check(Embedded::Small, |problem| &problem.greedy_small);
}

#[test]
fn the_large_model_writes_the_recorded_answers() {
    check(Embedded::Large, |problem| &problem.greedy_large);
}
