//! The load: N clients in a closed loop, or arrivals at a rate.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::bail;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokenrouter_core::draw::{Purpose, uniform_f32};
use tokenrouter_engine::Target;

use super::args::LoadArgs;
use crate::cli::measure::{Answered, Problem, Question, Service};

/// Most requests under way when they arrive at a rate: a service that is slower than its load would take more and more.
const UNDER_WAY_MAX: usize = 4096;

/// What answers a question: a service, or a dispatcher in front of several.
pub(super) trait Answers {
    /// One whole answer.
    fn answer(&self, question: &Question) -> impl Future<Output = anyhow::Result<Answered>>;
}

impl Answers for Service {
    async fn answer(&self, question: &Question) -> anyhow::Result<Answered> {
        self.ask(question).await
    }
}

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Arrivals {
    /// So many clients, each of which asks again when it has its answer.
    Closed(u32),
    /// So many a second, at random.
    Rate(f64),
}

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Answers that ended after the warm-up and before the end.
    pub(super) answers: Vec<Answered>,
    /// Answers that failed.
    pub(super) failures: usize,
    /// The first failure.
    pub(super) failure: Option<String>,
    /// Length of the measurement, in seconds.
    pub(super) seconds: f64,
}

/// Asks until the time is over, and waits for what is under way.
pub(super) async fn run(
    service: &impl Answers,
    problems: &[Problem],
    args: &LoadArgs,
    arrivals: Arrivals,
) -> anyhow::Result<Measured> {
    let started = Instant::now();
    let window = Window::new(started, args);
    let (asked, measured) = (Cell::new(0_usize), RefCell::new(Measured::default()));
    let one = || async {
        let index = asked.replace(asked.get() + 1);
        let question = Question {
            prompt: problems[index % problems.len()].prompt.clone(),
            max_tokens: args.max_tokens,
            full_length: args.full_length,
            temperature: args.temperature,
            seed: args.seed.wrapping_add(index as u64),
            target: Target::Default,
            options: Vec::new(),
        };
        let answer = service.answer(&question).await;
        let (ended, mut measured) = (Instant::now(), measured.borrow_mut());
        match answer {
            // Answers count by their end: what is cut off at one edge of the time comes in at the other.
            Ok(answer) if window.counts(ended) => measured.answers.push(answer),
            Ok(_) => {}
            Err(error) => {
                measured.failures += 1;
                measured.failure.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    };
    match arrivals {
        Arrivals::Closed(clients) => {
            let client = |_| async {
                while window.takes_another(asked.get()) {
                    let failures = measured.borrow().failures;
                    one().await;
                    if measured.borrow().failures > failures {
                        // A server that refuses at once must not be asked in a tight loop.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            };
            futures_util::future::join_all((0..clients).map(client)).await;
        }
        Arrivals::Rate(per_s) => {
            let mut under_way = FuturesUnordered::new();
            let mut next = started;
            for number in 0.. {
                next += gap(args.seed, number, per_s);
                if next >= window.end {
                    break;
                }
                let mut timer = std::pin::pin!(tokio::time::sleep_until(next.into()));
                loop {
                    tokio::select! {
                        () = &mut timer => break,
                        Some(()) = under_way.next() => {}
                    }
                }
                if under_way.len() >= UNDER_WAY_MAX {
                    bail!(
                        "{UNDER_WAY_MAX} requests are under way: the service is slower than {per_s} requests a second"
                    );
                }
                under_way.push(one());
            }
            while under_way.next().await.is_some() {}
        }
    }
    let mut measured = measured.into_inner();
    measured.seconds = match window.answers {
        Some(_) => started.elapsed().as_secs_f64(),
        None => args.seconds,
    };
    Ok(measured)
}

/// What is counted: answers that end within a time, or so many from the first on.
struct Window {
    answers: Option<usize>,
    counted: Instant,
    end: Instant,
}

impl Window {
    fn new(started: Instant, args: &LoadArgs) -> Self {
        let counted = started + Duration::from_secs_f64(args.warm_up.max(0.0));
        Self {
            answers: args.answers.map(|answers| answers as usize),
            counted,
            end: counted + Duration::from_secs_f64(args.seconds),
        }
    }

    fn counts(&self, ended: Instant) -> bool {
        self.answers.is_some() || (ended >= self.counted && ended <= self.end)
    }

    /// Whether another question is asked after so many.
    fn takes_another(&self, asked: usize) -> bool {
        match self.answers {
            Some(answers) => asked < answers,
            None => Instant::now() < self.end,
        }
    }
}

/// The time between two arrivals of a Poisson process.
fn gap(seed: u64, number: u64, per_s: f64) -> Duration {
    let draw = f64::from(uniform_f32(seed, number, Purpose::Policy(0)));
    Duration::from_secs_f64(-(1.0 - draw).ln() / per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_their_rate() {
        let (seed, count, per_s) = (7, 20_000, 50.0);
        let total: f64 = (0..count).map(|number| gap(seed, number, per_s).as_secs_f64()).sum();
        let mean = total / count as f64;
        // The mean of so many exponential gaps has a relative deviation of 0.7 %.
        assert!((mean * per_s - 1.0).abs() < 0.03, "seed {seed}: mean {mean} s");
        assert_eq!(gap(seed, 3, per_s), gap(seed, 3, per_s));
    }
}
