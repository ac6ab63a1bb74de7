//! The header of a head's file: what the head is, what it reads and for which model.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::ops::Activation;

/// The version of the format that this crate reads and writes.
pub const FORMAT: u32 = 1;

/// Widest layer, and longest list of logits, of a head.
pub const WIDTH_MAX: usize = 1 << 16;

/// Most layers or blocks of a head.
pub const LAYERS_MAX: usize = 256;

/// Everything of a head but its weights. Stored as JSON in the metadata of a safetensors file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadHeader {
    /// [`FORMAT`].
    pub format: u32,
    /// Which method the head belongs to, and so what its score means.
    pub kind: HeadKind,
    /// The model whose steps it reads.
    pub model: HeadModel,
    /// What it reads, in the order in which it is joined to one vector.
    pub inputs: Vec<HeadInput>,
    /// How many of the largest logits it reads; only with [`HeadInput::Logits`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_logits: Option<usize>,
    /// How the score is computed.
    pub network: Network,
    /// The threshold that came with the weights. It is shown and never used: thresholds are the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Whether the weights were trained. Random ones are for trying policies out.
    pub trained: bool,
    /// Where the weights came from, in words.
    pub source: String,
}

/// The method a head belongs to. Every score is in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadKind {
    /// R2R (arXiv 2505.21600): the probability that the candidate leads the text another way than the large model's.
    R2r,
    /// CITER (arXiv 2502.01976): how good the small model is for the next token.
    Citer,
    /// Co-LLM (arXiv 2403.03870): the probability that the token is deferred to the large model.
    CoLlm,
    /// The logistic function of a linear form.
    Linear,
    /// The logistic function of a network of linear layers.
    Mlp,
}

/// One input of a head. All are of the row of the step for which the score is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadInput {
    /// The hidden state after the final norm, from which the logits are computed: `hidden_size` numbers.
    Hidden,
    /// The candidate's row of the model's input embedding table: `hidden_size` numbers.
    Token,
    /// The largest raw logits in descending order: `top_logits` numbers.
    Logits,
}

/// The model a head was made for, as far as is known. What is known must agree with the model that it is loaded for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadModel {
    /// Its name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Width of its hidden states; needed unless the head reads nothing but logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_size: Option<usize>,
    /// Width of its logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<usize>,
}

/// How a head computes its score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Network {
    /// R2R's classifier: projections, then pre-norm residual blocks; see `docs/heads.md`.
    Classifier {
        /// Width of each block's input; the last block keeps its width.
        dims: Vec<usize>,
        /// A block is this many times as wide inside.
        expansion: usize,
        /// 1: the score is the logistic function of the one output. 3: it is the third of three softmax probabilities.
        classes: usize,
        /// Hidden state and embedding pass a layer norm first, logits a softmax.
        normalize_input: bool,
    },
    /// Linear layers with `activation` between them, the last of width 1; the score is its logistic function.
    Mlp {
        /// Widths of the layers before the last; none for a linear form.
        dims: Vec<usize>,
        /// The function after each of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activation: Option<Activation>,
    },
}

impl HeadHeader {
    /// Whether the head reads `input`.
    pub fn reads(&self, input: HeadInput) -> bool {
        self.inputs.contains(&input)
    }

    /// Width of an input.
    pub fn width(&self, input: HeadInput) -> usize {
        match input {
            HeadInput::Hidden | HeadInput::Token => self.model.hidden_size.unwrap_or(0),
            HeadInput::Logits => self.top_logits.unwrap_or(0),
        }
    }

    /// Checks the fields against each other and against the bounds of this crate.
    ///
    /// # Errors
    /// The field that is wrong, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("format {} is not supported, expected {FORMAT}", self.format));
        }
        self.check_inputs()?;
        match &self.network {
            Network::Classifier {
                dims,
                expansion,
                classes,
                ..
            } => {
                widths("network.dims", dims)?;
                if dims.is_empty() {
                    return Err("network.dims is empty, expected at least one block".to_owned());
                }
                within("network.expansion", *expansion, 64)?;
                if ![1, 3].contains(classes) {
                    return Err(format!("network.classes is {classes}, expected 1 or 3"));
                }
                if !CLASSIFIER_INPUTS.contains(&self.inputs.as_slice()) {
                    return Err(format!(
                        "a classifier does not read {}; it reads hidden, hidden token, hidden logits, hidden token logits, \
                         or logits",
                        list(&self.inputs)
                    ));
                }
            }
            Network::Mlp { dims, activation } => {
                widths("network.dims", dims)?;
                if !dims.is_empty() && activation.is_none() {
                    return Err("network.activation is missing, expected \"relu\", \"gelu\" or \"silu\"".to_owned());
                }
            }
        }
        self.check_kind()
    }

    fn check_inputs(&self) -> Result<(), String> {
        if self.inputs.is_empty() {
            return Err("inputs is empty, expected some of hidden, token, logits".to_owned());
        }
        for (index, input) in self.inputs.iter().enumerate() {
            if self.inputs[..index].contains(input) {
                return Err(format!("inputs names {input} twice"));
            }
        }
        match (self.reads(HeadInput::Logits), self.top_logits) {
            (true, None) => return Err("top_logits is missing, expected how many logits the head reads".to_owned()),
            (false, Some(_)) => return Err("top_logits is given, but inputs does not name logits".to_owned()),
            (_, Some(top)) => within("top_logits", top, WIDTH_MAX)?,
            (false, None) => {}
        }
        match self.model.hidden_size {
            Some(hidden) => within("model.hidden_size", hidden, WIDTH_MAX),
            None if self.inputs == [HeadInput::Logits] => Ok(()),
            None => Err("model.hidden_size is missing, and the head reads more than logits".to_owned()),
        }
    }

    /// What a kind says of the network, so that a name cannot promise another method's score.
    fn check_kind(&self) -> Result<(), String> {
        let hidden_only = self.inputs == [HeadInput::Hidden];
        let (right, expected) = match (self.kind, &self.network) {
            (HeadKind::R2r, network) => (matches!(network, Network::Classifier { .. }), "a classifier"),
            (HeadKind::Citer, Network::Mlp { dims, activation }) => (
                hidden_only && dims.len() == 1 && *activation == Some(Activation::Relu),
                "an mlp that reads hidden, with one layer before the last and activation relu",
            ),
            (HeadKind::CoLlm, Network::Mlp { dims, .. }) => (
                hidden_only && dims.is_empty(),
                "an mlp that reads hidden and has no layer before the last",
            ),
            (HeadKind::Linear, Network::Mlp { dims, .. }) => {
                (dims.is_empty(), "an mlp without a layer before the last")
            }
            (HeadKind::Mlp, Network::Mlp { .. }) => (true, ""),
            (_, Network::Classifier { .. }) => (false, "an mlp"),
        };
        if right {
            Ok(())
        } else {
            Err(format!("a head of kind {} is {expected}", self.kind))
        }
    }
}

/// The combinations for which the classifier is defined, in its order of joining.
pub(super) const CLASSIFIER_INPUTS: [&[HeadInput]; 5] = [
    &[HeadInput::Hidden],
    &[HeadInput::Hidden, HeadInput::Token],
    &[HeadInput::Hidden, HeadInput::Logits],
    &[HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
    &[HeadInput::Logits],
];

fn widths(field: &str, dims: &[usize]) -> Result<(), String> {
    if dims.len() > LAYERS_MAX {
        return Err(format!(
            "{field} has {} entries, expected at most {LAYERS_MAX}",
            dims.len()
        ));
    }
    dims.iter().try_for_each(|width| within(field, *width, WIDTH_MAX))
}

fn within(field: &str, number: usize, max: usize) -> Result<(), String> {
    if (1..=max).contains(&number) {
        Ok(())
    } else {
        Err(format!("{field} is {number}, expected 1 to {max}"))
    }
}

/// Inputs as messages name them.
pub(super) fn list(inputs: &[HeadInput]) -> String {
    inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for HeadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadKind::R2r => "r2r",
            HeadKind::Citer => "citer",
            HeadKind::CoLlm => "co-llm",
            HeadKind::Linear => "linear",
            HeadKind::Mlp => "mlp",
        })
    }
}

impl fmt::Display for HeadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadInput::Hidden => "hidden",
            HeadInput::Token => "token",
            HeadInput::Logits => "logits",
        })
    }
}
