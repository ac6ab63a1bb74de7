//! How requests move between the models, and what each move commits.

use crate::error::PlanError;

/// How far a row of probabilities may be from 1 before it is refused. Within it the row is rescaled.
const ROW_SUM_TOLERANCE: f64 = 1e-6;

/// The routing matrix P and the commit matrix C of a policy over M models.
///
/// After a step on model i, each request of the batch goes to j with probability `p[i][j]`, independently of all
/// else, and commits `c[i][j]` tokens by that move. `p[i][i]` is the probability to stay.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    p: Vec<Vec<f64>>,
    c: Vec<Vec<f64>>,
}

impl Routing {
    /// Any policy, from its M x M matrices.
    ///
    /// # Errors
    /// A matrix that is not M x M, a probability outside of 0..=1, a row that does not sum to 1, a negative or
    /// infinite number of tokens.
    pub fn new(mut p: Vec<Vec<f64>>, c: Vec<Vec<f64>>) -> Result<Self, PlanError> {
        let models = p.len();
        if models == 0 {
            return Err(PlanError::NoModels);
        }
        check_size("commit", models, c.len())?;
        for (i, row) in p.iter_mut().enumerate() {
            check_law(&format!("routing[{i}]"), models, row)?;
        }
        for (from, row) in c.iter().enumerate() {
            check_size(&format!("commit[{from}]"), models, row.len())?;
            for (to, &value) in row.iter().enumerate() {
                if !(value.is_finite() && value >= 0.0) {
                    return Err(PlanError::Commit { from, to, value });
                }
            }
        }
        Ok(Self { p, c })
    }

    /// Policies whose large model writes one token and hands back: R2R, CITER, Co-LLM and random routing.
    ///
    /// `p`: probability that a step of the small model hands over, its candidate discarded.
    ///
    /// # Errors
    /// `p` outside of 0..=1.
    pub fn one_token_handback(p: f64) -> Result<Self, PlanError> {
        check_probability("p", p)?;
        Self::new(
            vec![vec![1.0 - p, p], vec![1.0, 0.0]],
            vec![vec![1.0, 0.0], vec![1.0, 0.0]],
        )
    }

    /// R-Stitch: the small model hands over with probability `p`, its candidate discarded; the large model hands back
    /// with probability `q`, its candidate committed in both cases.
    ///
    /// # Errors
    /// `p` or `q` outside of 0..=1.
    pub fn r_stitch(p: f64, q: f64) -> Result<Self, PlanError> {
        check_probability("p", p)?;
        check_probability("q", q)?;
        Self::new(
            vec![vec![1.0 - p, p], vec![q, 1.0 - q]],
            vec![vec![1.0, 0.0], vec![1.0, 1.0]],
        )
    }

    /// Mixture-like ensembles: after every token the next writer is drawn from `weights`, and every candidate is
    /// committed.
    ///
    /// # Errors
    /// Weights that are no law over the models.
    pub fn mixture(weights: &[f64]) -> Result<Self, PlanError> {
        let mut weights = weights.to_vec();
        let models = weights.len();
        if models == 0 {
            return Err(PlanError::NoModels);
        }
        check_law("weights", models, &mut weights)?;
        Self::new(vec![weights; models], vec![vec![1.0; models]; models])
    }

    /// M, the number of models.
    pub fn models(&self) -> usize {
        self.p.len()
    }

    /// P: rows sum to 1.
    pub fn p(&self) -> &[Vec<f64>] {
        &self.p
    }

    /// C, in tokens.
    pub fn c(&self) -> &[Vec<f64>] {
        &self.c
    }

    /// Expected tokens that one request commits by one step of model i: gamma_i = sum over j of p_ij c_ij.
    pub fn commits_per_step(&self, i: usize) -> f64 {
        self.p[i].iter().zip(&self.c[i]).map(|(p, c)| p * c).sum()
    }

    /// The hand-over probability, where the policy is a one-token hand-back over two models.
    pub(crate) fn handover_of_one_token_handback(&self) -> Option<f64> {
        match self.p.as_slice() {
            [small, large] if large[0] == 1.0 => Some(small[1]),
            _ => None,
        }
    }
}

fn check_size(field: &str, expected: usize, got: usize) -> Result<(), PlanError> {
    if expected == got {
        Ok(())
    } else {
        Err(PlanError::Size {
            field: field.to_owned(),
            expected,
            got,
        })
    }
}

fn check_probability(field: &str, value: f64) -> Result<(), PlanError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(PlanError::Probability {
            field: field.to_owned(),
            value,
        })
    }
}

/// Checks a law over the models and rescales it to sum to 1 to the last digit.
fn check_law(field: &str, models: usize, law: &mut [f64]) -> Result<(), PlanError> {
    check_size(field, models, law.len())?;
    for (j, &value) in law.iter().enumerate() {
        check_probability(&format!("{field}[{j}]"), value)?;
    }
    let sum: f64 = law.iter().sum();
    if (sum - 1.0).abs() > ROW_SUM_TOLERANCE {
        return Err(PlanError::RowSum {
            field: field.to_owned(),
            sum,
        });
    }
    law.iter_mut().for_each(|x| *x /= sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_entry_is_named() {
        let square = |x: f64| vec![vec![x; 2]; 2];
        let says = |result: Result<Routing, PlanError>| result.unwrap_err().to_string();
        assert!(says(Routing::one_token_handback(1.1)).starts_with("p: "));
        assert!(says(Routing::one_token_handback(f64::NAN)).starts_with("p: "));
        assert!(says(Routing::r_stitch(0.1, -0.1)).starts_with("q: "));
        assert_eq!(
            says(Routing::mixture(&[0.5, 0.3])),
            "weights: probabilities sum to 1, got 0.8"
        );
        assert!(says(Routing::mixture(&[])).contains("at least one model"));
        assert!(says(Routing::new(vec![vec![0.5, 0.5], vec![0.9, 0.0]], square(1.0))).starts_with("routing[1]: "));
        assert!(says(Routing::new(vec![vec![0.5, 0.5], vec![1.0]], square(1.0))).starts_with("routing[1]: expected 2"));
        assert!(says(Routing::new(square(0.5), square(-1.0))).starts_with("commit[0][0]: "));
        assert!(says(Routing::new(square(0.5), vec![vec![1.0; 2]])).starts_with("commit: expected 2"));
    }

    #[test]
    fn commits_follow_the_policies() {
        let handback = Routing::one_token_handback(0.35).unwrap();
        assert!((handback.commits_per_step(0) - 0.65).abs() < 1e-15);
        assert_eq!(handback.commits_per_step(1), 1.0);
        let stitch = Routing::r_stitch(0.2, 0.4).unwrap();
        assert!((stitch.commits_per_step(0) - 0.8).abs() < 1e-15);
        assert_eq!(stitch.commits_per_step(1), 1.0);
        let mixture = Routing::mixture(&[0.5, 0.3, 0.2]).unwrap();
        assert!((0..3).all(|i| (mixture.commits_per_step(i) - 1.0).abs() < 1e-15));
    }
}
