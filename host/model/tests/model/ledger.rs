//! The runner without weights: its draws, and that it refuses every way of feeding a request wrongly.

use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_core::{BlockId, ModelIndex, RequestId, TokenId, draw};
use tokenrouter_model::null::{self, NullRunner};
use tokenrouter_model::signals::SignalKey;
use tokenrouter_model::{ModelInfo, RowAsk, Runner, StepOutput};

use crate::build::{Random, blocks, push_row};

const ASK: RowAsk<'_> = RowAsk {
    seed: 5,
    ..RowAsk::GREEDY
};

fn runner(blocks: usize) -> NullRunner {
    let info = ModelInfo {
        parameters: 0,
        vocabulary: 1000,
        context_max: 1000,
        kv_bytes_per_token: 4,
        eos: vec![1],
        bos: Some(2),
    };
    let mut runner = NullRunner::new(info, ModelIndex(1));
    runner.allocate(blocks).unwrap();
    runner
}

/// A row: request, position, number of tokens, blocks.
type Row<'a> = (u64, usize, usize, &'a [u32]);

fn feed(runner: &mut NullRunner, rows: &[Row<'_>]) -> Result<StepOutput, String> {
    let mut batch = StepBatch::default();
    for (request, position, len, table) in rows {
        let tokens: Vec<TokenId> = (0..*len).map(|i| (position + i) as TokenId).collect();
        let table: Vec<BlockId> = table.iter().copied().map(BlockId).collect();
        push_row(&mut batch, *request, *position, &tokens, &table, 1);
    }
    let mut out = StepOutput::default();
    let asks = vec![ASK; rows.len()];
    runner
        .step(&batch, &asks, &[vec![]], &mut out)
        .map_err(|error| error.to_string())?;
    Ok(out)
}

fn refused(runner: &mut NullRunner, rows: &[Row<'_>], reason: &str) {
    let error = feed(runner, rows).expect_err(reason);
    assert!(error.contains(reason), "\"{error}\" does not contain \"{reason}\"");
}

/// The same for a row that shares its first `shared` blocks.
fn refused_sharing(runner: &mut NullRunner, shared: u32, (request, position, len, table): Row<'_>, reason: &str) {
    let mut batch = StepBatch::default();
    let table: Vec<BlockId> = table.iter().copied().map(BlockId).collect();
    push_row(&mut batch, request, position, &vec![9; len], &table, 1);
    batch.rows[0].shared = shared;
    let ran = runner.step(&batch, &[ASK], &[vec![]], &mut StepOutput::default());
    let error = ran.expect_err(reason).to_string();
    assert!(error.contains(reason), "\"{error}\" does not contain \"{reason}\"");
}

#[test]
fn candidates_and_signals_are_draws() {
    let mut runner = runner(4);
    let mut batch = StepBatch::default();
    push_row(&mut batch, 1, 0, &[2, 3, 4], &blocks(0..1), 1);
    let plan = vec![
        Signal::Entropy,
        Signal::Uniform(0),
        Signal::TopKLogits(4),
        Signal::Position,
    ];
    let mut out = StepOutput::default();
    runner
        .step(&batch, &[ASK], std::slice::from_ref(&plan), &mut out)
        .unwrap();
    assert_eq!(out.candidates, [draw::token(5, 3, ModelIndex(1), 1000)]);
    let key = SignalKey {
        seed: 5,
        position: 3,
        newlines: 0,
    };
    let mut expected = Vec::new();
    null::signals(&plan, key, ModelIndex(1), &mut expected);
    assert_eq!((&out.signals, &out.signal_starts[..]), (&expected, &[0, 7][..]));
    assert_eq!(
        (expected[1], expected[6]),
        (key.value(&Signal::Uniform(0)).unwrap(), 3.0)
    );
    assert_ne!(expected[0], expected[1]);
    assert!(
        expected[2..6].is_sorted_by(|a, b| a >= b) && expected[2..6].iter().all(|value| (0.0..1.0).contains(value))
    );
}

#[test]
fn a_hole_is_refused() {
    let mut runner = runner(4);
    refused(&mut runner, &[(1, 3, 1, &[0])], "was never written");
    feed(&mut runner, &[(1, 0, 3, &[0])]).unwrap();
    refused(&mut runner, &[(1, 4, 1, &[0])], "holds 3 tokens, expected 4");
    refused(&mut runner, &[(1, 16, 1, &[0, 1])], "holds 3 tokens, expected 16");
    feed(&mut runner, &[(1, 3, 1, &[0])]).unwrap();
}

#[test]
fn feeding_a_position_twice_is_refused() {
    let mut runner = runner(4);
    feed(&mut runner, &[(1, 0, 20, &[0, 1])]).unwrap();
    refused(&mut runner, &[(1, 19, 1, &[0, 1])], "holds 4 tokens, expected 3");
    refused(
        &mut runner,
        &[(1, 16, 4, &[0, 1])],
        "block 1 at place 1 was begun before",
    );
    refused(&mut runner, &[(1, 10, 4, &[0, 1])], "holds 16 tokens, expected 10");
}

#[test]
fn building_on_anothers_block_is_refused() {
    let mut runner = runner(4);
    feed(&mut runner, &[(1, 0, 20, &[0, 1]), (2, 0, 20, &[2, 3])]).unwrap();
    refused(
        &mut runner,
        &[(1, 20, 1, &[2, 3])],
        "its first block 2 was written by request 2",
    );
    refused(
        &mut runner,
        &[(1, 20, 1, &[0, 3])],
        "block 3 at place 1 was written by request 2",
    );
    refused(
        &mut runner,
        &[(1, 20, 1, &[1, 0])],
        "block 1 at place 0 was written by request 1 (sequence 1, place 1)",
    );
    // Request 3 is given a block that request 1 still needs: found when request 1 goes on.
    feed(&mut runner, &[(3, 0, 1, &[1])]).unwrap();
    refused(
        &mut runner,
        &[(1, 20, 1, &[0, 1])],
        "block 1 at place 1 was written by request 3",
    );
}

#[test]
fn sharing_within_a_step_is_refused() {
    let mut runner = runner(4);
    refused(
        &mut runner,
        &[(1, 0, 1, &[0]), (2, 0, 1, &[0])],
        "block 0 is in two places",
    );
    refused(&mut runner, &[(1, 0, 20, &[1, 1])], "block 1 is in two places");
    refused(
        &mut runner,
        &[(1, 0, 1, &[2]), (1, 0, 1, &[3])],
        "request 1 has two rows",
    );
}

/// tenstorrent/vllm#415: a row that goes on behind blocks of another request must read them as they are.
#[test]
fn shared_blocks_are_whole_in_order_and_only_read() {
    let mut runner = runner(8);
    feed(&mut runner, &[(1, 0, 36, &[0, 1, 2]), (2, 0, 36, &[3, 4, 5])]).unwrap();
    refused_sharing(&mut runner, 2, (3, 31, 1, &[0, 1]), "it writes into the 2 blocks");
    refused_sharing(&mut runner, 2, (3, 32, 1, &[1, 0, 6]), "shared block 1 at place 0");
    refused_sharing(&mut runner, 3, (3, 48, 1, &[0, 1, 2, 6]), "holds 4 tokens");
    refused_sharing(&mut runner, 2, (3, 40, 1, &[0, 1, 2]), "was written by request 1");
    let mut batch = StepBatch::default();
    for (request, last) in [(3, 6), (4, 7)] {
        push_row(&mut batch, request, 32, &[9], &[0, 1, last].map(BlockId), 1);
    }
    batch.rows.iter_mut().for_each(|row| row.shared = 2);
    let mut out = StepOutput::default();
    runner.step(&batch, &[ASK; 2], &[vec![]], &mut out).unwrap();
    // Request 2 took block 1 for something else: the prefix of 3 and 4 is broken.
    feed(&mut runner, &[(2, 0, 16, &[1])]).unwrap();
    refused_sharing(&mut runner, 2, (3, 33, 1, &[0, 1, 6]), "shared block 1 at place 1");
}

#[test]
fn beginning_anew_forgets_what_was_written_before() {
    let mut runner = runner(4);
    feed(&mut runner, &[(1, 0, 40, &[0, 1, 2])]).unwrap();
    // Preempted: it comes back with other blocks, and later gets an old one, in its old place.
    feed(&mut runner, &[(1, 0, 16, &[3])]).unwrap();
    refused(&mut runner, &[(1, 17, 1, &[3, 1])], "expected its own sequence 2");
    feed(&mut runner, &[(1, 16, 1, &[3, 1])]).unwrap();
    let ledger = runner.ledger();
    let held = ledger.lock().unwrap().tokens(RequestId(1));
    assert_eq!(held, (0..17).collect::<Vec<TokenId>>());
}

/// Random schedules that keep the rules are never refused, and the ledger holds what was fed.
#[test]
fn right_feeding_is_accepted_whatever_its_order() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut runner = runner(64);
        let mut free = blocks(0..64);
        random.shuffle(&mut free);
        let sequences: Vec<Vec<TokenId>> = (0..8).map(|_| random.tokens(100, 1000)).collect();
        let mut fed = [0; 8];
        let mut tables: [Vec<BlockId>; 8] = Default::default();
        for _ in 0..60 {
            let mut batch = StepBatch::default();
            for s in 0..8 {
                if random.below(10) == 0 {
                    free.append(&mut tables[s]);
                    random.shuffle(&mut free);
                    fed[s] = 0;
                }
                let len = (1 + random.below(9)).min(100 - fed[s]);
                if len == 0 || random.below(3) == 0 {
                    continue;
                }
                while tables[s].len() * 16 < fed[s] + len {
                    tables[s].push(free.pop().unwrap());
                }
                push_row(
                    &mut batch,
                    s as u64,
                    fed[s],
                    &sequences[s][fed[s]..fed[s] + len],
                    &tables[s],
                    0,
                );
                fed[s] += len;
            }
            let mut out = StepOutput::default();
            runner
                .step(&batch, &[], &[], &mut out)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let ledger = runner.ledger();
        let ledger = ledger.lock().unwrap();
        for (s, fed) in fed.iter().enumerate().filter(|(_, fed)| **fed > 0) {
            assert_eq!(
                ledger.tokens(RequestId(s as u64)),
                sequences[s][..*fed],
                "seed {seed}, request {s}"
            );
        }
    }
}

/// What was written ahead and then dropped is fed again, differently. Only a runner that is told so takes it.
#[test]
fn going_back_forgets_what_lies_behind_and_is_refused_without_leave() {
    let forward: [Row<'_>; 2] = [(1, 0, 20, &[0, 1]), (1, 20, 13, &[0, 1, 2])];
    let back: Row<'_> = (1, 15, 1, &[0, 1, 2]);
    let mut strict = runner(4);
    let mut lenient = runner(0).with_going_back(true);
    lenient.allocate(4).unwrap();
    for runner in [&mut strict, &mut lenient] {
        forward.iter().for_each(|row| drop(feed(runner, &[*row]).unwrap()));
    }
    refused(&mut strict, &[back], "holds 16 tokens, expected 15");
    feed(&mut lenient, &[back]).unwrap();
    assert_eq!(lenient.ledger().lock().unwrap().tokens(RequestId(1)).len(), 16);
    feed(&mut lenient, &[(1, 16, 2, &[0, 1])]).unwrap();
    refused(&mut lenient, &[(1, 20, 1, &[0, 1])], "holds 2 tokens, expected 4");
}
