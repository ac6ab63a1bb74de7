//! The decoder behind the trait: what is asked of a row comes back in its place, and a bad row harms no other.

use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{BlockId, ModelIndex};
use tokenrouter_model::{DecoderRunner, Embedded, ModelError, RowAsk, Runner, Sampling, Source, StepOutput};

use crate::build::{EVEN, Random, RandomModel, blocks, one_row, push_row};

const SAMPLED: Sampling = Sampling {
    temperature: 1.0,
    top_p: 0.95,
    top_k: 20,
    min_p: 0.0,
};

fn ask(seed: u64, plan: u32) -> RowAsk<'static> {
    RowAsk {
        sampling: SAMPLED,
        seed,
        plan,
        newlines: 1,
        ..RowAsk::GREEDY
    }
}

fn runner(model: &RandomModel) -> DecoderRunner {
    let mut runner = DecoderRunner::new(model.config(), &mut model.weights(), ModelIndex(2)).unwrap();
    runner.allocate(32).unwrap();
    runner
}

#[test]
fn rows_of_different_plans_share_a_step() {
    let model = RandomModel::new(EVEN, true, &mut Random::new(3));
    let mut runner = runner(&model);
    let plans = [
        vec![],
        vec![
            Signal::Position,
            Signal::TopKLogits(3),
            Signal::Uniform(4),
            Signal::Newlines,
        ],
    ];
    let mut batch = StepBatch::default();
    push_row(&mut batch, 1, 0, &[5, 6, 7], &blocks(0..1), 0); // The middle of a prompt: asks for nothing.
    push_row(&mut batch, 2, 0, &[8, 9, 10, 11], &blocks(1..2), 2);
    push_row(&mut batch, 3, 0, &[12], &blocks(2..3), 1);
    let mut out = StepOutput::default();
    runner
        .step(&batch, &[ask(70, 1), ask(70, 0), ask(71, 1)], &plans, &mut out)
        .unwrap();
    assert_eq!((out.candidates.len(), &out.signal_starts[..]), (3, &[0, 6, 6, 12][..]));
    assert_eq!(out.finite, [true; 3]);
    // Row 2's last two positions are 2 and 3, so their candidates would be tokens 3 and 4; row 3's would be token 1.
    for (row, seed, position) in [(0, 70, 3), (2, 71, 1)] {
        let signals = out.row_signals(row);
        assert_eq!(signals[0], position as f32);
        assert!(signals[1] >= signals[2] && signals[2] >= signals[3]);
        assert_eq!(signals[4..], [uniform_f32(seed, position, Purpose::Policy(4)), 1.0]);
    }
}

/// Several positions in one extend give the candidates and signals that one token at a time gives.
#[test]
fn candidates_do_not_depend_on_how_tokens_are_fed() {
    let model = RandomModel::new(EVEN, false, &mut Random::new(4));
    let mut runner = runner(&model);
    let plans = [vec![
        Signal::Entropy,
        Signal::MaxProbability,
        Signal::TopKEntropy(5),
        Signal::Uniform(0),
    ]];
    let tokens = Random::new(5).tokens(40, 96);
    let (mut whole, mut single) = (StepOutput::default(), StepOutput::default());
    runner
        .step(
            &one_row(0, &tokens, &blocks(3..6), 40),
            &[ask(9, 0); 40],
            &plans,
            &mut whole,
        )
        .unwrap();
    for at in 0..40 {
        let batch = one_row(at, &tokens[at..=at], &blocks(10..13), 1);
        runner.step(&batch, &[ask(9, 0)], &plans, &mut single).unwrap();
        assert_eq!(single.candidates[0], whole.candidates[at], "position {at}");
        assert_eq!(single.row_signals(0), whole.row_signals(at), "position {at}");
    }
}

/// A token whose embedding is not a number: its row ends, its neighbour's candidate stays.
#[test]
fn a_row_that_is_no_distribution_is_marked_and_harms_no_other() {
    let model = RandomModel::new(EVEN, false, &mut Random::new(6));
    let mut weights = model.weights();
    let mut table = weights.take("model.embed_tokens.weight", &[96, 64]).unwrap();
    table[7 * 64] = f32::NAN;
    let bytes: Vec<u8> = table.iter().flat_map(|value| value.to_le_bytes()).collect();
    let name = "model.embed_tokens.weight".to_owned();
    weights
        .add(
            &crate::build::file([(&name, &(vec![96, 64], bytes))].into_iter()),
            "nan.safetensors",
        )
        .unwrap();
    let mut runner = DecoderRunner::new(model.config(), &mut weights, ModelIndex(0)).unwrap();
    runner.allocate(4).unwrap();
    let plans = [vec![Signal::Entropy, Signal::Position]];
    let (mut alone, mut out) = (StepOutput::default(), StepOutput::default());
    runner
        .step(&one_row(0, &[1, 2], &blocks(2..3), 1), &[ask(1, 0)], &plans, &mut alone)
        .unwrap();
    let mut batch = StepBatch::default();
    push_row(&mut batch, 1, 0, &[1, 7], &blocks(0..1), 1);
    push_row(&mut batch, 2, 0, &[1, 2], &blocks(1..2), 1);
    runner.step(&batch, &[ask(1, 0); 2], &plans, &mut out).unwrap();
    assert_eq!(out.finite, [false, true]);
    assert_eq!((out.candidates[0], out.row_signals(0)), (0, &[0.0, 2.0][..]));
    assert_eq!(
        (out.candidates[1], out.row_signals(1)),
        (alone.candidates[0], alone.row_signals(0))
    );
    // Another request takes over the block that holds what is not a number, and does not see it.
    runner
        .step(&one_row(0, &[1, 2], &blocks(0..1), 1), &[ask(1, 0)], &plans, &mut out)
        .unwrap();
    assert_eq!(out, alone);
}

#[test]
fn a_step_that_contradicts_itself_is_refused_with_the_reason() {
    let mut runner = DecoderRunner::load(&Source::Embedded(Embedded::Small), ModelIndex(0)).unwrap();
    runner.allocate(3).unwrap();
    let good = || one_row(0, &[2, 3, 4], &blocks(0..2), 1);
    let changed = |change: &dyn Fn(&mut StepBatch)| {
        let mut batch = good();
        change(&mut batch);
        batch
    };
    let cases: [(StepBatch, &str); 11] = [
        (
            changed(&|b| b.tokens[1] = 64),
            "token 64 is not below the vocabulary 64",
        ),
        (changed(&|b| b.blocks[0] = BlockId(3)), "block 3 of a pool of 3 blocks"),
        (changed(&|b| b.rows[0].len = 0), "it has no tokens"),
        (changed(&|b| b.rows[0].len = 4), "its tokens end beyond the batch's 3"),
        (changed(&|b| b.rows[0].len = 2), "rows have 2 tokens, the batch has 3"),
        (changed(&|b| b.rows[0].first = 1), "its tokens begin at 1, expected 0"),
        (
            changed(&|b| b.rows[0].position = 30),
            "33 positions, its blocks hold 32",
        ),
        (
            changed(&|b| b.rows[0].position = 510),
            "513 positions, the model has 512",
        ),
        (changed(&|b| b.rows[0].logits = 4), "4 rows of logits from 3 tokens"),
        (changed(&|b| b.rows[0].blocks = 0..3), "outside the batch's 2"),
        (changed(&|b| b.rows[0].logits = 0), "1 asks for 0 rows of logits"),
    ];
    let mut out = StepOutput::default();
    for (batch, reason) in cases {
        let error = runner.step(&batch, &[ask(1, 0)], &[vec![]], &mut out).unwrap_err();
        assert!(
            matches!(error, ModelError::Step(_)) && error.to_string().contains(reason),
            "{error}, not {reason}"
        );
    }
    let error = runner
        .step(&good(), &[ask(1, 1)], &[vec![]], &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("plan 1 of 1 plans"), "{error}");
    let heads = [vec![Signal::HeadScore("r2r".to_owned())]];
    let error = runner
        .step(&good(), &[ask(1, 0)], &heads, &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("head \"r2r\" is not loaded"), "{error}");
    runner.step(&good(), &[ask(1, 0)], &[vec![]], &mut out).unwrap();
    runner.step(&StepBatch::default(), &[], &[], &mut out).unwrap();
    assert!(out.candidates.is_empty() && out.signal_starts == [0]);
}
