//! The invariants of the scheduler, over random deployments, loads, launch rules, KV sizes and cancellations, in virtual
//! time. A failure prints the seed of its case; `INVARIANTS_SEED=<seed>` runs that case alone.

mod common;

use common::{Random, reference};
use tokenrouter_core::ModelIndex;
use tokenrouter_core::ahead::{AheadCounts, Optimistic};
use tokenrouter_core::kv::PrefixCounts;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_core::limits::StepLimits;
use tokenrouter_core::policy::Admission;
use tokenrouter_core::prefix::PrefixSalt;
use tokenrouter_core::request::Finish;
use tokenrouter_planner::sim::{
    Agreement, Latency, LatencyCurve, SimPolicy, SimRequest, SimRouting, Simulation, SimulationParts,
};

const CASES: u64 = 10_000;
/// With the longest answer, as much as the smallest pool holds.
const PROMPT_TOKENS_MAX: usize = 70;

/// One random case.
struct Case {
    parts: SimulationParts,
    requests: Vec<SimRequest>,
}

fn routing(random: &mut Random, models: usize) -> SimRouting {
    let law = |random: &mut Random| {
        let weights: Vec<f64> = (0..models)
            .map(|_| if random.happens(0.3) { 0.0 } else { random.share() })
            .collect();
        let sum: f64 = weights.iter().sum();
        if sum > 0.0 {
            weights.iter().map(|weight| weight / sum).collect()
        } else {
            vec![1.0 / models as f64; models]
        }
    };
    match random.whole(0, 4) {
        0 if models == 2 => common::handback(random.share()),
        1 if models == 2 => SimRouting::Bursty {
            calm_p: random.share() * 0.2,
            storm_p: random.share(),
            flip: random.share() * 0.2,
        },
        2 if models == 2 => SimRouting::Stretches {
            large_p: random.share(),
            small_tokens: random.whole(1, 20) as u32,
            large_tokens: random.whole(1, 20) as u32,
        },
        3 if models == 2 => SimRouting::Trace {
            hands_over: (0..16).map(|_| random.happens(0.3)).collect(),
        },
        // Anything, also policies that discard everything they can.
        _ => SimRouting::Matrix {
            p: (0..models).map(|_| law(random)).collect(),
            keep: (0..models)
                .map(|_| (0..models).map(|_| random.happens(0.5)).collect())
                .collect(),
        },
    }
}

fn latency(random: &mut Random) -> Latency {
    if random.happens(0.5) {
        return Latency::Constant(random.whole(1, 30) as f64 * 1e3);
    }
    Latency::Curve(LatencyCurve {
        points: vec![
            (1, random.whole(1, 10) as f64 * 1e3),
            (16, random.whole(10, 40) as f64 * 1e3),
        ],
        token_us: random.whole(0, 500) as f64,
        busy_factor: 1.0 + random.share(),
    })
}

fn rule(random: &mut Random, models: usize) -> LaunchRule {
    match random.whole(0, 4) {
        0 => LaunchRule::Eager,
        1 => LaunchRule::Threshold((0..models).map(|_| random.whole(1, 8) as u32).collect()),
        2 => LaunchRule::Lookahead,
        3 => LaunchRule::StepSync,
        _ => LaunchRule::ModelSync,
    }
}

fn optimistic(random: &mut Random) -> Optimistic {
    match random.whole(0, 3) {
        0 => Optimistic::Off,
        1 => Optimistic::Window(1),
        2 => Optimistic::Window(4),
        _ => Optimistic::Auto,
    }
}

fn agreement(random: &mut Random) -> Agreement {
    match random.whole(0, 3) {
        0 => Agreement::Alternating {
            first: random.share(),
            second: random.share(),
            tokens: random.whole(1, 20) as u32,
        },
        1 => Agreement::Recorded((0..16).map(|_| random.happens(0.7)).collect()),
        _ => Agreement::Constant(random.share()),
    }
}

fn case(seed: u64) -> Case {
    let random = &mut Random::new(seed);
    let models = random.whole(1, 4) as usize;
    let requests: Vec<SimRequest> = (0..random.whole(1, 10))
        .map(|_| SimRequest {
            seed: random.whole(0, u64::MAX - 1),
            prompt: (0..random.whole(1, PROMPT_TOKENS_MAX as u64))
                .map(|_| random.whole(0, 1_023) as u32)
                .collect(),
            tokens_max: random.whole(1, 40) as u32,
            stop_token: random.happens(0.5).then(|| random.whole(0, 60) as u32),
            admission: Admission {
                model: ModelIndex(random.whole(0, models as u64 - 1) as u32),
                state: SimPolicy::first_state(),
            },
            prefix_salt: None,
            arrives_us: random.whole(0, 100_000),
            leaves_us: random.happens(0.2).then(|| random.whole(0, 400_000)),
        })
        .collect();
    let mut requests = requests;
    requests.sort_by_key(|request| request.arrives_us);
    // From room for hardly more than the longest request to room for all.
    let kv_tokens = random.whole(112, 700) as usize;
    let parts = SimulationParts {
        latencies: (0..models).map(|_| latency(random)).collect(),
        routing: routing(random, models),
        rule: rule(random, models),
        limits: StepLimits {
            rows_max: random.whole(1, 8) as usize,
            long_tokens_max: random.whole(1, 64) as usize,
            long_tokens_min: random.whole(1, 64) as usize,
            wait_us_max: random.whole(1, 300_000),
        },
        concurrency: random.whole(1, 10) as usize,
        kv_tokens,
        // Promises of up to four times the pool, so that requests must preempt each other.
        kv_tokens_promised: kv_tokens * random.whole(1, 4) as usize,
        optimistic: optimistic(random),
        agreement: agreement(random),
    };
    share_prefixes(random, &parts, &mut requests);
    Case { parts, requests }
}

/// Lets requests begin alike: with a part of one document, as a system prompt, or with another request and its answer, as the next
/// turn of a conversation. Some share what they have in common, some do not, and some only with half of the others.
fn share_prefixes(random: &mut Random, parts: &SimulationParts, requests: &mut [SimRequest]) {
    let document: Vec<_> = (0..PROMPT_TOKENS_MAX).map(|_| random.whole(0, 1_023) as u32).collect();
    for index in 0..requests.len() {
        let begins_with = match random.whole(0, 2) {
            0 => document.clone(),
            1 if index > 0 => {
                let before = &requests[random.whole(0, index as u64 - 1) as usize];
                let answer = reference(&parts.routing, parts.latencies.len(), &parts.agreement, before);
                let answer = answer.iter().map(|commit| commit.0);
                before.prompt.iter().copied().chain(answer).collect()
            }
            _ => Vec::new(),
        };
        let length = random.whole(0, PROMPT_TOKENS_MAX as u64) as usize;
        let request = &mut requests[index];
        let begins_with = &begins_with[..begins_with.len().min(length)];
        request.prompt.splice(
            ..begins_with.len().min(request.prompt.len()),
            begins_with.iter().copied(),
        );
        request.prefix_salt =
            [None, Some(PrefixSalt(1)), Some(PrefixSalt(1)), Some(PrefixSalt(2))][random.whole(0, 3) as usize];
    }
}

/// What the runs of all cases have to reach, or they would show nothing.
#[derive(Default)]
struct Reached {
    evictions: u64,
    cancelled: usize,
    handoffs: u64,
    ahead: AheadCounts,
    prefixes: PrefixCounts,
}

fn check(case: &Case, reached: &mut Reached) {
    let models = case.parts.latencies.len();
    let (outcomes, after) = Simulation::new(&case.parts, &case.requests).run();
    for (request, outcome) in case.requests.iter().zip(&outcomes) {
        let expected = reference(&case.parts.routing, models, &case.parts.agreement, request);
        match &outcome.finish {
            // A cancelled answer is a beginning of the answer.
            Finish::Cancelled => {
                assert!(request.leaves_us.is_some(), "cancelled although its client stayed");
                assert!(expected.starts_with(&outcome.commits));
            }
            finish => {
                assert_eq!(outcome.commits, expected, "not the sequential answer");
                let stopped = outcome.commits.last().map(|commit| commit.0) == request.stop_token;
                assert_eq!(*finish, if stopped { Finish::Stop } else { Finish::Length });
            }
        }
    }
    assert_eq!(after.still_taken(), (0, 0, 0), "blocks, seats and budget come back");
    reached.evictions += after.evictions();
    reached.ahead = reached.ahead + after.ahead();
    reached.prefixes = reached.prefixes + after.prefix_counts();
    let cancelled = outcomes.iter().filter(|outcome| outcome.finish == Finish::Cancelled);
    reached.cancelled += cancelled.count();
    reached.handoffs += outcomes.iter().map(|outcome| u64::from(outcome.handoffs)).sum::<u64>();
}

/// Invariants 1 (schedule independence), 2 (KV), 3 (progress) and 4 (conservation), all at once: every request ends, with
/// the sequential reference's tokens and models, and everything taken is given back. The simulated models' output depends
/// on every token they were fed, so a wrong suffix or a foreign block shows. Requests share prefixes while all this goes on.
#[test]
fn schedule_independence_kv_progress_and_conservation() {
    let only = std::env::var("INVARIANTS_SEED")
        .ok()
        .map(|seed| seed.parse().expect("INVARIANTS_SEED is a number"));
    let seeds = only.map_or(0..CASES, |seed| seed..seed + 1);
    let mut reached = Reached::default();
    for seed in seeds {
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&case(seed), &mut reached)));
        checked.unwrap_or_else(|_| panic!("case failed: INVARIANTS_SEED={seed}"));
    }
    if only.is_none() {
        let Reached {
            evictions,
            cancelled,
            handoffs,
            ahead,
            prefixes,
        } = reached;
        assert!(
            evictions > 1_000 && cancelled > 1_000 && handoffs > 100_000,
            "{evictions} {cancelled} {handoffs}"
        );
        assert!(
            ahead.written > 50_000 && ahead.confirmed > 10_000 && ahead.dropped > 10_000,
            "{ahead:?}"
        );
        assert!(
            prefixes.hits > 10_000 && prefixes.tokens > 100_000 && prefixes.given_up > 10_000,
            "{prefixes:?}"
        );
    }
}
