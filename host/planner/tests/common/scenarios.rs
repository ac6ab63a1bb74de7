//! Settings in which decoding ahead is measured: how long steps take, how requests are routed, how often models agree, how
//! many requests there are. Shared by the tests and the example that prints them all.

use tokenrouter_core::ahead::Optimistic;
use tokenrouter_core::launch::LaunchRule;
use tokenrouter_planner::Routing;
use tokenrouter_planner::sim::{Agreement, ClosedLoop, Latency, LatencyCurve, SimRouting};

/// One setting.
#[derive(Clone, Debug)]
pub struct Setting {
    pub latencies: Vec<Latency>,
    pub routing: SimRouting,
    pub agreement: Agreement,
    /// N.
    pub requests: usize,
    pub seed: u64,
    /// Tokens measured.
    pub tokens: u64,
}

impl Setting {
    pub fn tokens_per_s(&self, rule: LaunchRule, optimistic: Optimistic) -> f64 {
        let closed_loop = ClosedLoop {
            latencies: self.latencies.clone(),
            routing: self.routing.clone(),
            rule,
            requests: self.requests,
            seed: self.seed,
            optimistic,
            agreement: self.agreement.clone(),
        };
        closed_loop.measure(self.tokens).tokens_per_s
    }

    /// Throughput under look-ahead with this setting over that without decoding ahead.
    pub fn ratio_to_off(&self, optimistic: Optimistic) -> f64 {
        let rate = |optimistic| self.tokens_per_s(LaunchRule::Lookahead, optimistic);
        rate(optimistic) / rate(Optimistic::Off)
    }

    /// Throughput of the best threshold without decoding ahead, of `thresholds` for the large model.
    pub fn best_fixed(&self, thresholds: impl IntoIterator<Item = usize>) -> f64 {
        let rate = |b| self.tokens_per_s(LaunchRule::Threshold(vec![1, b as u32]), Optimistic::Off);
        thresholds.into_iter().map(rate).fold(0.0, f64::max)
    }
}

/// The paper's: small steps of 6.0 ms and large ones of 27.9, whatever is in them.
pub fn constant() -> Vec<Latency> {
    vec![Latency::Constant(6.0e3), Latency::Constant(27.9e3)]
}

/// A step of one row takes `us`; each further row adds `row_us`, each token beyond one a row `token_us`.
fn curve(us: f64, row_us: f64, token_us: f64, busy_factor: f64) -> Latency {
    Latency::Curve(LatencyCurve {
        points: vec![(1, us), (2, us + row_us)],
        token_us,
        busy_factor,
    })
}

/// Two models on one device: the small one's step takes 4.8 ms alone and 9.6 beside the large one, which takes 25.1 and 32.1.
pub fn one_device() -> Vec<Latency> {
    vec![curve(4.8e3, 0.0, 0.0, 2.0), curve(25.1e3, 0.0, 0.0, 32.1 / 25.1)]
}

/// Step latencies by name: from steps that cost the same whatever is in them to steps that cost as much as their tokens, on two
/// devices and on one.
pub fn latencies() -> Vec<(&'static str, Vec<Latency>)> {
    let both = |small: (f64, f64), large: (f64, f64), busy: (f64, f64)| {
        vec![
            curve(small.0, small.1, small.1, busy.0),
            curve(large.0, large.1, large.1, busy.1),
        ]
    };
    let alone = (1.0, 1.0);
    vec![
        ("constant", constant()),
        ("one device", one_device()),
        ("memory-bound", both((6.0e3, 30.0), (27.9e3, 150.0), alone)),
        ("mixed", both((6.0e3, 200.0), (28.0e3, 1.5e3), alone)),
        ("mixed, one device", both((4.8e3, 200.0), (25.0e3, 1.5e3), (1.6, 1.3))),
        ("compute-bound large", both((6.0e3, 30.0), (8.0e3, 7.0e3), alone)),
        ("compute-bound", both((1.0e3, 0.8e3), (8.0e3, 7.0e3), alone)),
        (
            "compute-bound, one device",
            both((1.0e3, 0.8e3), (8.0e3, 7.0e3), (1.8, 1.8)),
        ),
    ]
}

/// Two models, one token from the large one, with probability `p`.
fn handback(p: f64) -> SimRouting {
    SimRouting::of(&Routing::one_token_handback(p).expect("a probability"))
}

/// Routing rules by name.
pub fn routings() -> Vec<(&'static str, SimRouting)> {
    let bursty = SimRouting::Bursty {
        calm_p: 0.10,
        storm_p: 0.85,
        flip: 0.05,
    };
    let stretches = SimRouting::Stretches {
        large_p: 0.2,
        small_tokens: 40,
        large_tokens: 60,
    };
    let of = |routing: Result<Routing, _>| SimRouting::of(&routing.expect("probabilities"));
    vec![
        ("p = 0.05", handback(0.05)),
        ("p = 0.1", handback(0.1)),
        ("p = 0.35", handback(0.35)),
        ("p = 0.6", handback(0.6)),
        ("bursts", bursty),
        ("stretches", stretches),
        ("r-stitch", of(Routing::r_stitch(0.2, 0.4))),
        ("mixture", of(Routing::mixture(&[0.6, 0.4]))),
    ]
}

/// Rates of agreement by name; the last ones change in mid-run, and come in runs.
pub fn agreements() -> Vec<(String, Agreement)> {
    let constant = [0.1, 0.3, 0.5, 0.7, 0.85, 0.95];
    let mut all: Vec<(String, Agreement)> = constant
        .map(|agreement| (agreement.to_string(), Agreement::Constant(agreement)))
        .to_vec();
    let changing = Agreement::Alternating {
        first: 0.9,
        second: 0.1,
        tokens: 500,
    };
    all.push(("0.9 then 0.1".to_owned(), changing));
    // Runs of 30 positions that agree and 20 that do not.
    let runs = (0..50).map(|position| position < 30).collect();
    all.push(("runs".to_owned(), Agreement::Recorded(runs)));
    all
}
