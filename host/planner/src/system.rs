//! What is planned: models with their latencies, and the policy that moves requests between them.

use crate::error::PlanError;
use crate::markov::Transitions;
use crate::quantum::Latencies;
use crate::routing::Routing;
use crate::stationary;

/// M models that N requests circulate among. A request that finishes is replaced at once, so N stays as it is.
#[derive(Clone, Debug)]
pub struct System {
    latencies: Latencies,
    routing: Routing,
    /// Share of a request's steps that run on each model in the long run; sums to 1.
    visits: Vec<f64>,
    /// Expected tokens per step, over all models.
    commits: f64,
}

impl System {
    /// A system with one latency for each model of the policy. Requests start at model 0.
    ///
    /// # Errors
    /// Sizes that differ, routing that settles in several separate sets of models, or commits no token.
    pub fn new(latencies: Latencies, routing: Routing) -> Result<Self, PlanError> {
        let models = routing.models();
        if latencies.models() != models {
            return Err(PlanError::Size {
                field: "latency_ms".into(),
                expected: models,
                got: latencies.models(),
            });
        }
        let visits = visits(&routing)?;
        let commits: f64 = (0..models).map(|i| visits[i] * routing.commits_per_step(i)).sum();
        if commits <= 0.0 {
            return Err(PlanError::CommitsNothing);
        }
        Ok(Self {
            latencies,
            routing,
            visits,
            commits,
        })
    }

    /// M, the number of models.
    pub fn models(&self) -> usize {
        self.routing.models()
    }

    /// Step latencies in quanta.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// The policy's matrices.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Share of a request's steps that run on each model in the long run (v = v P); sums to 1.
    pub fn visits(&self) -> &[f64] {
        &self.visits
    }

    /// Expected tokens that a step of one request commits, over all models: sum of v_i gamma_i.
    pub fn commits_per_step(&self) -> f64 {
        self.commits
    }

    /// Tokens per second of one request that never waits: sum of v_i gamma_i over sum of v_i L_i. It is the exact
    /// throughput at N = 1.
    pub fn rate_per_request(&self) -> f64 {
        let ms: f64 = self
            .visits
            .iter()
            .enumerate()
            .map(|(i, v)| v * self.latencies.latency_ms(i))
            .sum();
        1e3 * self.commits / ms
    }

    /// The bound on tokens per second that no thresholds can pass: n requests that never wait for one another, which
    /// is N times [`System::rate_per_request`].
    ///
    /// Little's law proves it: model i runs X_i L_i requests on average, where X_i is its rate of executed requests,
    /// all models together run at most N, and the X_i are in the ratio of the visits. The same step of the argument
    /// for one model alone (it runs at most N requests in L_i) bounds throughput by N commits / (v_i L_i), which is
    /// the model's capacity when every request is in every step of it; it is never the tighter of the two.
    pub fn bound(&self, n: usize) -> f64 {
        n as f64 * self.rate_per_request()
    }
}

/// The long-run law of the model that a request is at.
fn visits(routing: &Routing) -> Result<Vec<f64>, PlanError> {
    let models = routing.models();
    // Only models that requests reach from model 0 matter.
    let mut reached = vec![false; models];
    reached[0] = true;
    let mut order = vec![0];
    let mut next = 0;
    while let Some(&i) = order.get(next) {
        next += 1;
        for (j, reached) in reached.iter_mut().enumerate() {
            if routing.p()[i][j] > 0.0 && !*reached {
                *reached = true;
                order.push(j);
            }
        }
    }
    let mut chain = Transitions::default();
    for &i in &order {
        let row = order.iter().enumerate().map(|(to, &j)| (to as u32, routing.p()[i][j]));
        chain.push_row(row.filter(|&(_, p)| p > 0.0));
    }
    let mut visits = vec![0.0; models];
    for (law, &i) in stationary::law(&chain)?.into_iter().zip(&order) {
        visits[i] = law;
    }
    Ok(visits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(ms: &[f64], routing: Result<Routing, PlanError>) -> Result<System, PlanError> {
        System::new(Latencies::new(ms)?, routing?)
    }

    #[test]
    fn one_request_runs_at_the_closed_form() {
        let latencies = Latencies::with_quantum(&[6.0, 27.9], 0.1).unwrap();
        let handback = System::new(latencies, Routing::one_token_handback(0.35).unwrap()).unwrap();
        assert!((handback.rate_per_request() - 1e3 / (6.0 + 0.35 * 27.9)).abs() < 1e-9);
        let me = system(&[1.0, 2.0, 7.0], Routing::mixture(&[0.5, 0.3, 0.2])).unwrap();
        assert!((me.rate_per_request() - 1e3 / (0.5 + 0.6 + 1.4)).abs() < 1e-9);
        let small_only = system(&[6.0, 27.9], Routing::one_token_handback(0.0)).unwrap();
        assert!((small_only.rate_per_request() - 1e3 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_system_without_a_single_long_run_rate_is_refused() {
        let p = vec![vec![0.0, 0.5, 0.5], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]];
        let split = system(&[1.0; 3], Routing::new(p, vec![vec![1.0; 3]; 3]));
        assert_eq!(split.unwrap_err(), PlanError::SeveralClasses);
        let silent = system(&[1.0; 2], Routing::new(vec![vec![0.5; 2]; 2], vec![vec![0.0; 2]; 2]));
        assert_eq!(silent.unwrap_err(), PlanError::CommitsNothing);
        let sizes = system(&[1.0; 3], Routing::one_token_handback(0.5));
        assert!(sizes.unwrap_err().to_string().starts_with("latency_ms: expected 2"));
    }
}
