//! The last steps of a subserver, for whoever looks: a ring that its thread writes and that others read without a lock.
//!
//! A step costs its thread eight plain stores, about as much as a counter, whether anybody looks or not, and no reader can hold
//! it up. A reader that is overtaken while it reads a slot sees so and leaves the step out.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use tokenrouter_core::step::StepBatch;

/// Steps that are kept of each model.
pub const STEPS_KEPT: usize = 2_048;

/// A step that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepRecord {
    /// Counts the model's steps, from 1.
    pub number: u64,
    /// When it was launched, in microseconds since the engine was started.
    pub started_us: u64,
    /// How long it took, policy included, microseconds.
    pub took_us: u64,
    /// Requests in it.
    pub rows: u64,
    /// Tokens fed, prompts included.
    pub tokens: u64,
    /// How long the request that waited longest had waited at this model when it was launched, microseconds.
    pub wait_us_max: u64,
    /// Requests that were left behind, for want of room or because they came too late.
    pub left_waiting: u64,
}

/// A step that runs: what is known of it at its launch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Launched(StepRecord);

impl Launched {
    /// A step launched at `at_us`, one of whose requests had waited for `wait_us_max`, while `left_waiting` others stay behind.
    pub(crate) fn new(at_us: u64, wait_us_max: u64, left_waiting: usize) -> Self {
        Self(StepRecord {
            started_us: at_us,
            wait_us_max,
            left_waiting: left_waiting as u64,
            ..StepRecord::default()
        })
    }

    /// The step has ended.
    pub(crate) fn ended(self, took_us: u64, batch: &StepBatch) -> StepRecord {
        StepRecord {
            took_us,
            rows: batch.rows.len() as u64,
            tokens: batch.tokens.len() as u64,
            ..self.0
        }
    }
}

const VALUES: usize = 6;

/// One place. `number` is 0 while it is written.
#[derive(Debug, Default)]
struct Slot {
    number: AtomicU64,
    values: [AtomicU64; VALUES],
}

/// One model's ring.
#[derive(Debug)]
pub(crate) struct Timeline {
    slots: Box<[Slot]>,
    /// Steps so far.
    written: AtomicU64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            slots: (0..STEPS_KEPT).map(|_| Slot::default()).collect(),
            written: AtomicU64::new(0),
        }
    }
}

impl Timeline {
    /// Adds a step and gives it the next number. Only the model's own thread may do so.
    pub(crate) fn push(&self, step: StepRecord) {
        let number = self.written.load(Ordering::Relaxed) + 1;
        let slot = &self.slots[number as usize % STEPS_KEPT];
        let values = [
            step.started_us,
            step.took_us,
            step.rows,
            step.tokens,
            step.wait_us_max,
            step.left_waiting,
        ];
        // A sequence lock: whoever sees one of the new values also sees that the slot is being written.
        slot.number.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (place, value) in slot.values.iter().zip(values) {
            place.store(value, Ordering::Relaxed);
        }
        slot.number.store(number, Ordering::Release);
        self.written.store(number, Ordering::Release);
    }

    /// The newest `steps_max` of the steps after number `after` that are still there, oldest first.
    pub(crate) fn read(&self, after: u64, steps_max: usize) -> Vec<StepRecord> {
        let last = self.written.load(Ordering::Acquire);
        let kept = last.saturating_sub(steps_max.min(STEPS_KEPT) as u64);
        (after.max(kept) + 1..=last)
            .filter_map(|number| self.one(number))
            .collect()
    }

    fn one(&self, number: u64) -> Option<StepRecord> {
        let slot = &self.slots[number as usize % STEPS_KEPT];
        let before = slot.number.load(Ordering::Acquire);
        let [started_us, took_us, rows, tokens, wait_us_max, left_waiting] =
            std::array::from_fn(|index| slot.values[index].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let after = slot.number.load(Ordering::Relaxed);
        (before == number && after == number).then_some(StepRecord {
            number,
            started_us,
            took_us,
            rows,
            tokens,
            wait_us_max,
            left_waiting,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step whose values all tell its number.
    fn step(number: u64) -> StepRecord {
        StepRecord {
            number,
            started_us: number * 10,
            took_us: number * 10 + 1,
            rows: number * 10 + 2,
            tokens: number * 10 + 3,
            wait_us_max: number * 10 + 4,
            left_waiting: number * 10 + 5,
        }
    }

    #[test]
    fn the_newest_steps_after_a_number_come_in_order() {
        let timeline = Timeline::default();
        assert_eq!(timeline.read(0, 10), []);
        let all = STEPS_KEPT as u64 + 100;
        (1..=all).for_each(|number| timeline.push(step(number)));
        let numbers =
            |after, steps_max| -> Vec<u64> { timeline.read(after, steps_max).iter().map(|step| step.number).collect() };
        assert_eq!(numbers(all - 3, 10), [all - 2, all - 1, all]);
        assert_eq!(numbers(0, 2), [all - 1, all]);
        assert_eq!(numbers(all, 10), [] as [u64; 0]);
        assert_eq!(numbers(u64::MAX - 1, 10), [] as [u64; 0], "a number of another run");
        assert_eq!(numbers(0, usize::MAX).len(), STEPS_KEPT, "what was overwritten is gone");
        assert_eq!(timeline.read(all - 1, 1), [step(all)]);
    }

    #[test]
    fn a_reader_never_sees_parts_of_two_steps() {
        let timeline = Timeline::default();
        let last = 200_000;
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=last).for_each(|number| timeline.push(step(number))));
            let mut seen = 0;
            while seen < last {
                for found in timeline.read(seen, usize::MAX) {
                    assert_eq!(found, step(found.number));
                    assert!(found.number > seen, "{} after {seen}", found.number);
                    seen = found.number;
                }
            }
        });
    }
}
