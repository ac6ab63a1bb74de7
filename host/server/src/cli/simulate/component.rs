//! `--plugin`: a real policy component that routes simulated requests.

use std::path::Path;

use anyhow::Context as _;
use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Admission, Admitting, Policy};
use tokenrouter_host::deployment::{NO_PLUGIN, Plugin, configure};
use tokenrouter_planner::sim::{ANSWER_TOKENS, ClosedLoop, PROMPT, Report};
use tokenrouter_policy::{Deployment, Generation, HeadFacts, ModelFacts, Setting};

use super::recorded::{RecordedRows, WithRecordedSignals};

/// Width of the simulated models' logits, for policies that ask.
const VOCABULARY: u32 = 151_936;

/// The names by which policies ask for heads. In a simulation their scores are draws, as other signals of logits are.
const HEADS: [&str; 4] = ["r2r", "citer", "co-llm", "request-level"];

/// A component, configured for `models` simulated models. They are named model-0, model-1, …
///
/// # Errors
/// No such policy, or one that refuses its options or so many models.
pub(super) fn load(plugin: &str, config: &[Setting], models: usize) -> anyhow::Result<Generation> {
    let Plugin::Component { given, bytes } = Plugin::find(plugin, Path::new(""))? else {
        anyhow::bail!("--plugin {NO_PLUGIN}: a simulation needs a policy; name one, or write --p or --routing");
    };
    let facts = |index| ModelFacts {
        name: format!("model-{index}"),
        parameters: 0,
        vocabulary: VOCABULARY,
    };
    let deployment = Deployment {
        name: "simulation".to_owned(),
        models: (0..models).map(facts).collect(),
        heads: HEADS
            .map(|name| HeadFacts {
                name: name.to_owned(),
                model: ModelIndex(0),
            })
            .to_vec(),
    };
    let options = config
        .iter()
        .map(|setting| (setting.name.clone(), (&setting.value).into()))
        .collect();
    Ok(configure(given, &bytes, &deployment, &options)?)
}

/// Simulates `closed_loop` with the component in place of its routing, and with `recorded` signals if they are given.
///
/// # Errors
/// The component refuses a request, or fails.
pub(in crate::cli) fn measure(
    closed_loop: &ClosedLoop,
    tokens: u64,
    generation: &Generation,
    recorded: Option<&RecordedRows>,
) -> anyhow::Result<Report> {
    let mut admitting = generation.instance();
    let mut refused = None;
    let mut admit = |seed| {
        let request = Admitting {
            seed,
            prompt: &PROMPT,
            max_tokens: ANSWER_TOKENS,
            temperature: 0.0,
        };
        admitting.admit(&request, &[]).unwrap_or_else(|error| {
            refused.get_or_insert(error);
            Admission {
                model: generation.plan().entry,
                state: tokenrouter_core::policy::PolicyState::new(&vec![0; generation.plan().state_words]),
            }
        })
    };
    let policy: Box<dyn Policy> = match recorded {
        Some(rows) => Box::new(WithRecordedSignals::new(generation.instance(), rows.clone())),
        None => Box::new(generation.instance()),
    };
    let measured = closed_loop.measure_policy(tokens, policy, &mut admit);
    if let Some(error) = refused {
        return Err(error).context("--plugin: the policy refuses a request");
    }
    measured.map_err(|fault| anyhow::anyhow!("--plugin: {}", fault.0))
}
