//! Who may start: a bounded queue in front of the deployment, and a budget of KV tokens that counts for every model alike,
//! since a request may come to hold its whole sequence at each of them.

use std::collections::VecDeque;

use crate::kv::blocks_for;
use crate::limits::KV_BLOCK_TOKENS;

/// Bounds of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Most requests that run at once.
    pub running_max: usize,
    /// Most requests that wait to start; one more is refused.
    pub waiting_max: usize,
    /// Tokens of the smallest KV pool of the deployment.
    pub kv_tokens: usize,
    /// Tokens that may be promised to the requests that run, each its prompt and its longest answer. More than
    /// `kv_tokens`: many end earlier than they may, and where they do not, younger ones lose KV to older ones for a while.
    pub kv_tokens_promised: usize,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many wait as may.
    QueueFull,
    /// Prompt and answer together are longer than the KV pool, so it could never finish.
    NeverFits,
}

#[derive(Debug)]
struct Ticket<T> {
    job: T,
    tokens: usize,
}

/// Requests that wait to start, first come first served, and the budget that holds them back.
#[derive(Debug)]
pub struct Admissions<T> {
    limits: AdmissionLimits,
    running: usize,
    tokens: usize,
    waiting: VecDeque<Ticket<T>>,
}

impl<T> Admissions<T> {
    /// Nothing runs, nothing waits.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            running: 0,
            tokens: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Requests that run.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Requests that wait to start.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a job that may grow to `length_max` tokens. It waits until [`Admissions::start_next`] gives it out.
    pub fn enqueue(&mut self, job: T, length_max: usize) -> Result<(), (T, Refused)> {
        // A request holds whole blocks.
        let tokens = blocks_for(length_max) * KV_BLOCK_TOKENS;
        if tokens > self.limits.kv_tokens {
            return Err((job, Refused::NeverFits));
        }
        let starts_at_once = self.waiting.is_empty() && self.fits(tokens);
        if !starts_at_once && self.waiting.len() >= self.limits.waiting_max {
            return Err((job, Refused::QueueFull));
        }
        self.waiting.push_back(Ticket { job, tokens });
        Ok(())
    }

    /// The next job that may start now, if any, and the tokens it takes from the budget.
    pub fn start_next(&mut self) -> Option<(T, usize)> {
        if !self.fits(self.waiting.front()?.tokens) {
            return None;
        }
        let ticket = self.waiting.pop_front()?;
        self.running += 1;
        self.tokens += ticket.tokens;
        Some((ticket.job, ticket.tokens))
    }

    /// A job that was started has ended.
    pub fn ended(&mut self, tokens: usize) {
        debug_assert!(self.running > 0 && self.tokens >= tokens);
        self.running -= 1;
        self.tokens -= tokens;
    }

    /// Takes out the waiting jobs that `gone` says are not wanted any more.
    pub fn remove(&mut self, mut gone: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for index in (0..self.waiting.len()).rev() {
            if gone(&self.waiting[index].job) {
                removed.extend(self.waiting.remove(index).map(|ticket| ticket.job));
            }
        }
        removed
    }

    fn fits(&self, tokens: usize) -> bool {
        self.running < self.limits.running_max && self.tokens + tokens <= self.limits.kv_tokens_promised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AdmissionLimits = AdmissionLimits {
        running_max: 2,
        waiting_max: 1,
        kv_tokens: 112,
        kv_tokens_promised: 112,
    };

    #[test]
    fn first_come_first_served_within_the_budget() {
        let mut admissions = Admissions::new(LIMITS);
        admissions.enqueue("a", 60).unwrap();
        assert_eq!(admissions.start_next(), Some(("a", 64)));
        admissions.enqueue("b", 50).unwrap();
        assert_eq!(admissions.start_next(), None, "64 + 64 is over 112");
        assert_eq!(admissions.enqueue("d", 113), Err(("d", Refused::NeverFits)));
        assert_eq!(admissions.enqueue("e", 50), Err(("e", Refused::QueueFull)));
        admissions.ended(64);
        assert_eq!(admissions.start_next(), Some(("b", 64)));
        assert_eq!((admissions.running(), admissions.waiting()), (1, 0));
    }

    #[test]
    fn more_may_be_promised_than_there_is_but_to_no_single_request() {
        let promised = AdmissionLimits {
            kv_tokens_promised: 224,
            ..LIMITS
        };
        let mut admissions = Admissions::new(promised);
        for job in [1, 2] {
            admissions.enqueue(job, 112).unwrap();
            assert_eq!(admissions.start_next(), Some((job, 112)));
        }
        assert_eq!(admissions.enqueue(3, 113), Err((3, Refused::NeverFits)));
    }

    #[test]
    fn waiting_jobs_can_be_taken_out() {
        let mut admissions = Admissions::new(LIMITS);
        admissions.enqueue(1, 100).unwrap();
        admissions.start_next();
        admissions.enqueue(2, 10).unwrap();
        assert_eq!(admissions.remove(|&job| job == 2), vec![2]);
        assert_eq!(admissions.waiting(), 0);
    }
}
