//! What a policy implements.

use crate::{
    Admission, Batch, Decisions, Declared, Deployment, ModelIndex, Options, Parcel, Plan, Request, Signal, StateWord,
    Step, Token,
};

/// What a policy says of itself, without being configured.
pub struct About {
    /// Short name, as in `deployment@name`.
    pub name: &'static str,
    /// Version of the policy.
    pub version: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The options. They are documented, given defaults and checked from this one list.
    pub options: &'static [&'static dyn Declared],
}

/// One request of a step.
#[derive(Debug)]
pub struct Row<'a> {
    /// The token the step sampled for this position.
    pub candidate: Token,
    /// The signals that the plan asked for at this model, in its order.
    pub signals: &'a [f32],
    /// The policy's words about the request, `plan.state_words` of them. Written in place.
    pub state: &'a mut [StateWord],
    /// Text of the candidate; empty unless the plan has `texts`.
    pub text: &'a str,
}

/// A routing policy. It holds what `init` computed from the configuration and nothing else: all that is remembered
/// about a request stands in the request's words of state.
pub trait Policy: Sized + Send + Sync + 'static {
    /// Name, version, summary and options.
    const ABOUT: About;

    /// Made once for every instance. `options` has been checked against [`About::options`].
    ///
    /// # Errors
    /// A sentence that says which option or part of the deployment is wrong and what would be right.
    fn init(deployment: &Deployment, options: &Options) -> Result<Self, String>;

    /// What the policy wants from the host; the same at every call.
    fn plan(&self) -> &Plan;

    /// Where a request starts. By default at the plan's entry model, with all words of state 0.
    ///
    /// `options` has the options the client set for this request, checked; only those declared `per_request`
    /// are let through. A policy that has one reads it with [`Options::given`], falls back to its own setting and
    /// keeps the result in the state.
    ///
    /// # Errors
    /// A sentence for the client: which option is wrong and what would be right.
    fn admit(&self, request: &Request, options: &Options) -> Result<Admission, String> {
        let _ = (request, options);
        let plan = self.plan();
        Ok(Admission {
            model: plan.entry,
            state: vec![0; plan.state_words as usize],
        })
    }

    /// Who goes on after a step of model `at`, for one row. `at` itself: stay, and commit the candidate.
    fn route(&self, at: ModelIndex, row: Row<'_>) -> ModelIndex;

    /// The whole step at once. By default [`Policy::route`] row by row, with no allocation but the list of
    /// destinations. A policy that compares rows or works in columns replaces it.
    fn route_batch(&self, at: ModelIndex, batch: Batch) -> Decisions {
        let rows = batch.candidates.len();
        let width = batch.signals.len().checked_div(rows).unwrap_or(0);
        let words = batch.state.len().checked_div(rows).unwrap_or(0);
        let mut state = batch.state;
        let mut destinations = Vec::with_capacity(rows);
        let mut text_start = 0;
        for (i, &candidate) in batch.candidates.iter().enumerate() {
            let text_end = batch.text_ends.get(i).map_or(text_start, |&end| end as usize);
            destinations.push(self.route(
                at,
                Row {
                    candidate,
                    signals: &batch.signals[i * width..][..width],
                    state: &mut state[i * words..][..words],
                    // A slice that may panic would bring code for the message into every policy.
                    text: batch.texts.get(text_start..text_end).unwrap_or_default(),
                },
            ));
            text_start = text_end;
        }
        Decisions { destinations, state }
    }

    /// A request leaves `at` for `to`. By default the state travels as it is; the candidate is discarded when the
    /// request leaves the plan's entry model and kept when it leaves any other.
    ///
    /// This suits every policy whose entry model asks others for help: the doubtful token is written afresh, and the
    /// helper's token is never lost. It cannot livelock, because every way back to the entry model commits a token.
    /// A policy that moves for other reasons than doubt (a mixture of equals, say) keeps every candidate.
    fn send(&self, at: ModelIndex, to: ModelIndex, step: Step) -> Parcel {
        let _ = to;
        Parcel {
            keep_candidate: at != self.plan().entry,
            state: step.state,
        }
    }

    /// A request arrives at `at` from `from`; returns its state there. By default the parcel's.
    fn receive(&self, at: ModelIndex, from: ModelIndex, parcel: Parcel) -> Vec<StateWord> {
        let _ = (at, from);
        parcel.state
    }
}

/// A plan that enters at `entry`, keeps `state_words` words a request, reads no texts and gets these signals: one list
/// for every model of the deployment.
pub fn plan(entry: ModelIndex, state_words: u32, signals: Vec<Vec<Signal>>) -> Plan {
    Plan {
        entry,
        state_words,
        signals,
        texts: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{admit, init, route};

    /// Sends a row to the model its first signal names, and counts in its state how often it was asked.
    struct Follows {
        plan: Plan,
    }

    impl Policy for Follows {
        const ABOUT: About = About {
            name: "follows",
            version: "1",
            summary: "A test",
            options: &[],
        };

        fn init(deployment: &Deployment, _options: &Options) -> Result<Self, String> {
            let signals = vec![vec![Signal::Uniform(0), Signal::Position]; deployment.models.len()];
            Ok(Self {
                plan: plan(1, 2, signals),
            })
        }

        fn plan(&self) -> &Plan {
            &self.plan
        }

        fn route(&self, _at: ModelIndex, row: Row<'_>) -> ModelIndex {
            row.state[0] += 1;
            row.state[1] += u64::from(row.candidate) * 1000 + row.signals[1] as u64 * 10 + row.text.len() as u64;
            row.signals[0] as ModelIndex
        }
    }

    fn follows() -> Follows {
        init(&["a", "b", "c"], vec![]).unwrap()
    }

    #[test]
    fn a_request_starts_at_the_entry_model_with_state_zero() {
        assert_eq!(
            admit(&follows(), vec![]),
            Ok(Admission {
                model: 1,
                state: vec![0, 0]
            })
        );
    }

    #[test]
    fn every_row_sees_its_own_columns_and_writes_its_own_state() {
        let batch = Batch {
            candidates: vec![1, 2],
            signals: vec![2.0, 3.0, 0.0, 4.0],
            state: vec![10, 0, 20, 0],
            texts: "xyz".into(),
            text_ends: vec![1, 3],
        };
        let decisions = follows().route_batch(0, batch);
        assert_eq!(
            decisions,
            Decisions {
                destinations: vec![2, 0],
                state: vec![11, 1031, 21, 2042]
            }
        );
    }

    #[test]
    fn a_step_without_rows_has_no_decisions() {
        assert_eq!(
            route(&follows(), 0, &[], &[]),
            Decisions {
                destinations: vec![],
                state: vec![]
            }
        );
    }

    /// Every round trip leaves a model that is not the entry model, so it commits a token.
    #[test]
    fn only_the_entry_models_candidate_is_discarded() {
        for (at, keep_candidate) in [(0, true), (1, false), (2, true)] {
            let step = Step {
                candidate: 7,
                signals: vec![],
                state: vec![1, 2],
                text: String::new(),
            };
            assert_eq!(
                follows().send(at, 0, step),
                Parcel {
                    keep_candidate,
                    state: vec![1, 2]
                }
            );
        }
    }

    #[test]
    fn a_request_arrives_with_the_parcels_state() {
        assert_eq!(
            follows().receive(
                0,
                1,
                Parcel {
                    keep_candidate: true,
                    state: vec![3, 4]
                }
            ),
            [3, 4]
        );
    }
}
