//! The stationary law of a finite Markov chain.
//!
//! Chains of models that wait for one another are nearly periodic, which power iteration handles badly. Small chains
//! are eliminated directly. Large ones are swept in the order in which a search from the start reaches the states:
//! mass then flows along the sweep, so that one sweep carries it through a whole period. What sweeps shrink slowly (a
//! chain that seldom leaves one of several orbits) is removed by extrapolation, as far as rounding errors allow:
//! elimination, which does not suffer from them, takes over from there.

use std::collections::VecDeque;

use crate::error::PlanError;
use crate::extrapolation;
use crate::markov::Transitions;

/// Chains up to this many states are eliminated (cubic time), larger ones are swept.
const ELIMINATE_MAX: usize = 160;
/// Chains up to this many states are eliminated after all (some seconds) where sweeps do not settle.
const ELIMINATE_LATE_MAX: usize = 2500;
/// Sweeps before giving up; twenty to two hundred do for most chains.
const SWEEPS_MAX: usize = 2000;
/// L1 distance to the law itself that sweeping stops at.
const TOLERANCE: f64 = 1e-11;
/// A sweep that changes no more than this (L1) is at the end of what floating point resolves.
const ROUNDING: f64 = 1e-14;
/// Sweeps of a cycle at whose end the law is extrapolated.
const CYCLE: usize = 24;

/// The law pi with pi = pi T, over all states of `chain`; transient states get 0.
///
/// # Errors
/// [`PlanError::SeveralClasses`] where the law is not unique, [`PlanError::NotConverged`].
pub(crate) fn law(chain: &Transitions) -> Result<Vec<f64>, PlanError> {
    let class = chain
        .recurrent_class(&chain.transposed())
        .ok_or(PlanError::SeveralClasses)?;
    let recurrent = chain.restricted(&class);
    let on_class = if class.len() <= ELIMINATE_MAX {
        eliminate(&recurrent)
    } else {
        match sweep(&recurrent) {
            Err(_) if class.len() <= ELIMINATE_LATE_MAX => eliminate(&recurrent),
            swept => swept?,
        }
    };
    let mut law = vec![0.0; chain.states()];
    for (&s, pi) in class.iter().zip(on_class) {
        law[s] = pi;
    }
    Ok(law)
}

/// Grassmann, Taksar and Heyman's elimination: Gauss without subtractions, so no digits cancel (Oper. Res. 33, 1985).
fn eliminate(chain: &Transitions) -> Vec<f64> {
    let n = chain.states();
    let mut t = vec![0.0; n * n];
    for s in 0..n {
        for (to, p) in chain.row(s) {
            t[s * n + to] += p;
        }
    }
    for last in (1..n).rev() {
        let (kept, row) = t.split_at_mut(last * n);
        let row = &row[..last];
        let leave: f64 = row.iter().sum();
        for from in kept.chunks_exact_mut(n) {
            // What went from here to the removed state goes on to where that state leads.
            from[last] /= leave;
            let through = from[last];
            if through > 0.0 {
                from[..last].iter_mut().zip(row).for_each(|(p, q)| *p += through * q);
            }
        }
    }
    let mut law = vec![0.0; n];
    law[0] = 1.0;
    for s in 1..n {
        law[s] = (0..s).map(|from| law[from] * t[from * n + s]).sum();
    }
    normalise(&mut law);
    law
}

/// Gauss and Seidel's sweeps over the balance equations of an irreducible chain, extrapolated once a cycle.
fn sweep(chain: &Transitions) -> Result<Vec<f64>, PlanError> {
    let columns = chain.transposed();
    let mut law = vec![1.0 / chain.states() as f64; chain.states()];
    let mut recent = VecDeque::new();
    let mut residual = f64::INFINITY;
    for sweeps in 1..=SWEEPS_MAX {
        let last_residual = sweep_once(&columns, &mut law);
        // The change of a sweep understates the distance when sweeps shrink it slowly; a geometric tail does not.
        let shrink = (last_residual / residual).min(1.0);
        let distance = last_residual / (1.0 - shrink).max(1e-6);
        residual = last_residual;
        if (distance <= TOLERANCE || residual <= ROUNDING) && imbalance(&columns, &law) <= TOLERANCE {
            // Extrapolation may leave traces of the size of a rounding error below zero.
            law.iter_mut().for_each(|p| *p = p.max(0.0));
            normalise(&mut law);
            return Ok(law);
        }
        if recent.len() > extrapolation::WINDOW {
            recent.pop_front();
        }
        recent.push_back(law.clone());
        if sweeps % CYCLE == 0 {
            law = extrapolation::limit(recent.make_contiguous());
            normalise(&mut law);
            recent.clear();
            residual = f64::INFINITY;
        }
    }
    Err(PlanError::NotConverged {
        sweeps: SWEEPS_MAX,
        residual,
        tolerance: TOLERANCE,
    })
}

/// Balances each state in turn with what flows into it; gives the L1 norm of what was out of balance.
fn sweep_once(columns: &Transitions, law: &mut [f64]) -> f64 {
    let mut residual = 0.0;
    for s in 0..law.len() {
        let (mut inflow, mut stay) = (0.0, 0.0);
        for (from, p) in columns.row(s) {
            if from == s {
                stay += p;
            } else {
                inflow += law[from] * p;
            }
        }
        let balanced = inflow / (1.0 - stay);
        residual += (balanced - law[s]).abs() * (1.0 - stay);
        law[s] = balanced;
    }
    normalise(law);
    residual
}

/// L1 norm of pi T - pi.
fn imbalance(columns: &Transitions, law: &[f64]) -> f64 {
    (0..law.len())
        .map(|s| (columns.row(s).map(|(from, p)| law[from] * p).sum::<f64>() - law[s]).abs())
        .sum()
}

fn normalise(law: &mut [f64]) {
    let sum: f64 = law.iter().sum();
    law.iter_mut().for_each(|p| *p /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a few random successors each; a ring through all states makes the chain irreducible.
    fn random_chain(n: usize, mut seed: u64) -> Transitions {
        let mut draw = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as f64 / (1u64 << 31) as f64
        };
        let mut chain = Transitions::default();
        for s in 0..n {
            let mut row = vec![(((s + 1) % n) as u32, 1.0)];
            row.extend((0..3).map(|_| (((draw() * n as f64) as usize % n) as u32, draw())));
            let sum: f64 = row.iter().map(|x| x.1).sum();
            chain.push_row(row.into_iter().map(|(to, p)| (to, p / sum)));
        }
        chain
    }

    #[test]
    fn elimination_and_sweeps_agree_and_balance() {
        for seed in 0..20 {
            let chain = random_chain(60, seed);
            let (direct, swept) = (eliminate(&chain), sweep(&chain).unwrap());
            assert!(imbalance(&chain.transposed(), &direct) < 1e-13, "seed {seed}");
            let distance: f64 = direct.iter().zip(&swept).map(|(a, b)| (a - b).abs()).sum();
            assert!(distance < 1e-10, "seed {seed}: {distance}");
        }
    }

    #[test]
    fn a_periodic_chain_has_its_law() {
        let mut ring = Transitions::default();
        (0..1000u32).for_each(|s| ring.push_row(std::iter::once(((s + 1) % 1000, 1.0))));
        let law = law(&ring).unwrap();
        assert!(law.iter().all(|p| (p - 1e-3).abs() < 1e-12));
    }

    #[test]
    fn transient_states_have_no_mass() {
        let mut chain = Transitions::default();
        chain.push_row([(1, 0.5), (0, 0.5)].into_iter());
        chain.push_row([(2, 1.0)].into_iter());
        chain.push_row([(1, 0.25), (2, 0.75)].into_iter());
        let law = law(&chain).unwrap();
        assert_eq!(law[0], 0.0);
        assert!((law[1] - 0.2).abs() < 1e-15 && (law[2] - 0.8).abs() < 1e-15);
    }
}
