//! Independent computations on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does all `jobs` and returns their results in order. Every thread works with a state of its own. The last jobs are begun
/// first: by custom they are the longest.
pub(super) fn map<J: Sync, S, R: Send>(
    jobs: &[J],
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &J) -> R + Sync,
) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let begun = AtomicUsize::new(0);
    let run = || {
        let mut state = state();
        let mut done = Vec::new();
        loop {
            let rank = begun.fetch_add(1, Ordering::Relaxed);
            let Some(index) = jobs.len().checked_sub(rank + 1) else {
                return done;
            };
            done.push((index, work(&mut state, &jobs[index])));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(jobs.len())).map(|_| scope.spawn(run)).collect();
        let results = threads.into_iter().map(|thread| match thread.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.flatten().collect()
    });
    done.sort_unstable_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_and_results_are_in_order() {
        let jobs: Vec<usize> = (0..1_000).collect();
        let squares = map(
            &jobs,
            || 0,
            |done, job| {
                *done += 1;
                job * job
            },
        );
        assert_eq!(squares, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        assert!(map(&[] as &[usize], || (), |(), job| *job).is_empty());
    }
}
