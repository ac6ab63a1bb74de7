//! Where the requests of completed batches go: multinomial laws over the models.

use crate::binomial::BinomialTable;
use crate::system::System;

/// For each model, the law of where a batch of any size goes, factored into one binomial draw a destination: of the
/// requests that did not go to an earlier destination, each goes to this one with the conditional probability.
#[derive(Debug)]
pub(crate) struct Departures {
    /// `of[i]`: destinations of model i with positive probability, each with its conditional law.
    of: Vec<Vec<(usize, BinomialTable)>>,
}

impl Departures {
    /// The laws for batches of up to `n` requests.
    pub(crate) fn new(system: &System, n: usize) -> Self {
        let of = system.routing().p().iter().map(|row| {
            let destinations: Vec<usize> = (0..row.len()).filter(|&j| row[j] > 0.0).collect();
            let conditional = destinations.iter().enumerate().map(|(rank, &j)| {
                // Sums of what is left rather than 1 minus what is gone: no digits cancel, and the last one is 1.
                let left: f64 = destinations[rank..].iter().map(|&j| row[j]).sum();
                (j, BinomialTable::new(row[j] / left, n))
            });
            conditional.collect()
        });
        Self { of: of.collect() }
    }

    /// Calls `each` with every outcome of sending `batch` requests on from model `i` on top of `arrivals`, and with
    /// its probability times `probability`. `arrivals` is as before at the end.
    pub(crate) fn for_each(
        &self,
        i: usize,
        batch: u16,
        arrivals: &mut [u16],
        probability: f64,
        each: &mut dyn FnMut(&[u16], f64),
    ) {
        spread(&self.of[i], batch, arrivals, probability, each);
    }
}

fn spread(
    destinations: &[(usize, BinomialTable)],
    left: u16,
    arrivals: &mut [u16],
    probability: f64,
    each: &mut dyn FnMut(&[u16], f64),
) {
    let Some(((j, law), later)) = destinations.split_first() else {
        each(arrivals, probability);
        return;
    };
    let before = arrivals[*j];
    // The last destination takes all that is left.
    let fewest = if later.is_empty() { left } else { 0 };
    for going in fewest..=left {
        let p = probability * law.row(left.into())[usize::from(going)];
        if p > 0.0 {
            arrivals[*j] = before + going;
            spread(later, left - going, arrivals, p, each);
        }
    }
    arrivals[*j] = before;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantum::Latencies;
    use crate::routing::Routing;

    #[test]
    fn outcomes_are_multinomial() {
        let w = [0.5, 0.3, 0.2];
        let system = System::new(Latencies::new(&[1.0, 2.0, 7.0]).unwrap(), Routing::mixture(&w).unwrap()).unwrap();
        let departures = Departures::new(&system, 6);
        let factorial = |n: u16| (1..=n).map(f64::from).product::<f64>();
        let (mut outcomes, mut sum) = (0, 0.0);
        let mut arrivals = [1, 0, 0];
        departures.for_each(2, 6, &mut arrivals, 1.0, &mut |to, p| {
            let m = [to[0] - 1, to[1], to[2]];
            assert_eq!(m.iter().sum::<u16>(), 6);
            let exact = m
                .iter()
                .zip(w)
                .fold(factorial(6), |x, (&m, w)| x * w.powi(m.into()) / factorial(m));
            assert!((p / exact - 1.0).abs() < 1e-12, "{m:?}");
            outcomes += 1;
            sum += p;
        });
        assert_eq!((outcomes, arrivals), (28, [1, 0, 0]));
        assert!((sum - 1.0).abs() < 1e-14);
    }
}
