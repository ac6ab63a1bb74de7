//! The steps behind a token, with the signals by name: what `"tokenrouter": {"steps": true}` adds to the attribution.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use tokenrouter_core::TokenId;
use tokenrouter_core::signal::Signal;
use tokenrouter_engine::stream::StepNote;

use crate::http::App;
use crate::trace::signal_name;

/// A step of a model: its candidate, what the policy saw of it, and who was to go on.
#[derive(Serialize)]
pub(super) struct Step<'a> {
    model: &'a str,
    id: TokenId,
    token: String,
    signals: NamedSignals<'a>,
    to: &'a str,
    /// Whether the candidate became part of the answer; else the next step writes its position.
    committed: bool,
}

/// The steps of one token, the last of which wrote it. `signals` are the plan's, by model; none without a policy.
pub(super) fn steps<'a>(app: &'a App, signals: &'a [Vec<Signal>], notes: &'a [StepNote]) -> Vec<Step<'a>> {
    let last = notes.len().saturating_sub(1);
    let step = |(index, note): (usize, &'a StepNote)| Step {
        model: &app.models[note.model.index()].name,
        id: note.candidate,
        token: app.engine.tokenizer().token_text(note.candidate),
        signals: NamedSignals {
            names: signals.get(note.model.index()).map_or(&[], Vec::as_slice),
            values: &note.signals,
        },
        to: &app.models[note.to.index()].name,
        committed: index == last,
    };
    notes.iter().enumerate().map(step).collect()
}

/// An object of numbers, or of lists for signals of several columns. What is not a number is null.
struct NamedSignals<'a> {
    names: &'a [Signal],
    values: &'a [f32],
}

impl Serialize for NamedSignals<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.names.len()))?;
        let mut rest = self.values;
        for signal in self.names {
            let Some((values, others)) = rest.split_at_checked(signal.columns()) else {
                break;
            };
            rest = others;
            match (signal, values) {
                (Signal::TopKLogits(_) | Signal::TopKProbabilities(_), _) => {
                    map.serialize_entry(&signal_name(signal), values)?;
                }
                (_, [value]) => map.serialize_entry(&signal_name(signal), value)?,
                _ => {}
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_lists_stay_lists() {
        let names = [
            Signal::Entropy,
            Signal::TopKLogits(2),
            Signal::HeadScore("r2r".to_owned()),
        ];
        let json = |values: &[f32]| serde_json::to_value(NamedSignals { names: &names, values }).unwrap();
        assert_eq!(
            json(&[0.5, 2.0, 1.0, f32::NAN]),
            serde_json::json!({ "entropy": 0.5, "top-k-logits(2)": [2.0, 1.0], "head-score(r2r)": null })
        );
        assert_eq!(json(&[]), serde_json::json!({}), "a step without a policy");
    }
}
