//! The lines of a trace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Numbers;

/// The version of this format.
pub const FORMAT: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Line {
    /// The first.
    Header(Header),
    /// A policy that requests are routed by from now on.
    Generation(GenerationLine),
    /// A request was admitted.
    Request(RequestLine),
    /// A candidate was decided about.
    Step(StepLine),
    /// The last, unless the server was killed.
    End(EndLine),
}

/// What the trace is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the host that wrote it.
    pub host: String,
    /// Name of the deployment.
    pub deployment: String,
    /// Its models, in its order.
    pub models: Vec<ModelLine>,
    /// Names of the signals in [`StepLine::standard`], in its order.
    pub standard: Vec<String>,
}

/// A model of the deployment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLine {
    /// Its name.
    pub name: String,
    /// Number of parameters.
    pub parameters: u64,
    /// Width of the logits.
    pub vocabulary: u32,
}

/// A generation of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerationLine {
    /// What requests and steps call it.
    pub id: u32,
    /// The policy's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its component.
    pub sha256: String,
    /// The options it was given.
    pub options: BTreeMap<String, serde_json::Value>,
    /// By model: names of the signals in [`StepLine::asked`], in its order.
    pub signals: Vec<Vec<String>>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestLine {
    /// What steps call it.
    pub id: u64,
    /// Key of its draws.
    pub seed: u64,
    /// The prompt, as tokens.
    pub prompt: Vec<u32>,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Sampling temperature.
    pub temperature: f32,
    /// Options that its client set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
    /// Who routes it; absent for a request that stays at one model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Index of the model it starts at.
    pub entry: u32,
}

/// A candidate, its signals, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// The request.
    pub id: u64,
    /// Index of the model that ran the step.
    pub at: u32,
    /// The position the candidate would take, counted in prompt and answer from 0.
    pub position: u32,
    /// The candidate.
    pub candidate: u32,
    /// Its text, if `--record-texts` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the request's policy asked for.
    pub asked: Numbers,
    /// The signals of [`Header::standard`].
    pub standard: Numbers,
    /// Index of the model that goes on; absent if the request failed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Whether the candidate is committed, as far as the policy has a say.
    pub keep: bool,
}

/// How a trace ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLine {
    /// Why.
    pub reason: EndReason,
    /// Requests written.
    pub requests: u64,
    /// Steps written.
    pub steps: u64,
    /// Requests and steps that are missing because the disk was too slow.
    pub dropped: u64,
}

/// Why a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The server ended.
    Stopped,
    /// The file reached its largest size.
    Full,
}
