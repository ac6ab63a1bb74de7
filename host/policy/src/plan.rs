//! Whether the host and the deployment can give what a plan asks for.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::limits::{SIGNAL_COLUMNS_MAX, STATE_WORDS_MAX};
use tokenrouter_core::signal::{Plan, Signal};

use crate::bindings::types as wit;
use crate::guest::cut;
use crate::{Deployment, ModelFacts, PolicyError};

/// The plan in the host's types, if it stays within the bounds of `deployment`.
pub(crate) fn check(plan: wit::Plan, deployment: &Deployment) -> Result<Plan, PolicyError> {
    let refuse = |reason: String| Err(PolicyError::Plan { reason });
    let models = deployment.models.len();
    if plan.entry as usize >= models {
        return refuse(format!(
            "the entry is model {}, the deployment has models 0 to {}",
            plan.entry,
            models - 1
        ));
    }
    if plan.state_words as usize > STATE_WORDS_MAX {
        return refuse(format!(
            "{} words of state; at most {STATE_WORDS_MAX} are possible",
            plan.state_words
        ));
    }
    if plan.signals.len() != models {
        return refuse(format!("{} lists of signals for {models} models", plan.signals.len()));
    }
    let mut signals = Vec::with_capacity(models);
    for ((list, model), index) in plan.signals.into_iter().zip(&deployment.models).zip(0..) {
        let list = list
            .into_iter()
            .map(|asked| signal(asked, ModelIndex(index), model, deployment))
            .collect::<Result<Vec<_>, _>>()?;
        let columns: usize = list.iter().map(Signal::columns).sum();
        if columns > SIGNAL_COLUMNS_MAX {
            return refuse(format!(
                "{columns} columns of signals at model `{}`; at most {SIGNAL_COLUMNS_MAX} are possible",
                model.name
            ));
        }
        signals.push(list);
    }
    Ok(Plan {
        entry: ModelIndex(plan.entry),
        state_words: plan.state_words as usize,
        signals,
        texts: plan.texts,
    })
}

fn signal(
    asked: wit::Signal,
    at: ModelIndex,
    model: &ModelFacts,
    deployment: &Deployment,
) -> Result<Signal, PolicyError> {
    let in_vocabulary = |k: u32| {
        if (1..=model.vocabulary).contains(&k) {
            return Ok(k);
        }
        let reason = format!(
            "the top {k} of model `{}`; 1 to {} are possible",
            model.name, model.vocabulary
        );
        Err(PolicyError::Plan { reason })
    };
    Ok(match asked {
        wit::Signal::Entropy => Signal::Entropy,
        wit::Signal::EntropyNormalised => Signal::EntropyNormalised,
        wit::Signal::TopKEntropy(k) => Signal::TopKEntropy(in_vocabulary(k)?),
        wit::Signal::MaxProbability => Signal::MaxProbability,
        wit::Signal::TopKLogits(k) => Signal::TopKLogits(in_vocabulary(k)?),
        wit::Signal::TopKProbabilities(k) => Signal::TopKProbabilities(in_vocabulary(k)?),
        wit::Signal::HeadScore(name) => {
            head(&name, at, model, deployment)?;
            Signal::HeadScore(name)
        }
        wit::Signal::Uniform(number) => Signal::Uniform(number),
        wit::Signal::Position => Signal::Position,
        wit::Signal::Newlines => Signal::Newlines,
    })
}

/// Whether the deployment evaluates a head at a model.
fn head(name: &str, at: ModelIndex, model: &ModelFacts, deployment: &Deployment) -> Result<(), PolicyError> {
    let reason = match deployment.heads.iter().find(|head| head.name == name) {
        Some(head) if head.model == at => return Ok(()),
        Some(head) => format!(
            "the score of head `{name}` at model `{}`; it is evaluated at model `{}` only",
            model.name,
            deployment.models[head.model.index()].name
        ),
        None if deployment.heads.is_empty() => format!("the score of head `{}`; the deployment has none", cut(name)),
        None => {
            let names: Vec<&str> = deployment.heads.iter().map(|head| head.name.as_str()).collect();
            format!(
                "the score of head `{}`; the deployment has {}",
                cut(name),
                names.join(", ")
            )
        }
    };
    Err(PolicyError::Plan { reason })
}
