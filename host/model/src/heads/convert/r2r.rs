//! R2R's classifiers: a dictionary with `model_type`, `init_args`, `common_args` and `state_dict`.
//!
//! Sizes are read off the tensors, since `init_args` has only what its author wrote down; where it says something, both
//! must agree. The embedding table is not part of the checkpoint: a frozen copy of the small model's own, it is taken from
//! that model when the head is loaded.

use super::super::checkpoint::Checkpoint;
use super::super::checkpoint::pickle::{Id, Pickle, Value};
use super::super::error::HeadError;
use super::super::file::HeadFile;
use super::super::header::{FORMAT, HeadHeader, HeadInput, HeadKind, LAYERS_MAX, Network, list};
use super::super::layout;
use super::{ConvertOptions, matrix, model, wrong};

/// Present only in the variant of a checkpoint that keeps its copy of the model's table.
const EMBEDDINGS: &str = "token_embeddings.weight";

/// The classes of classifiers that read one step, and what they read.
const CLASSES: [(&str, &[HeadInput]); 7] = [
    ("LogitsClassifier", &[HeadInput::Logits]),
    ("HiddenStatesClassifier", &[HeadInput::Hidden]),
    (
        "HiddenStatesTokenLMHeadClassifier",
        &[HeadInput::Hidden, HeadInput::Token],
    ),
    ("HiddenStatesLogitsClassifier", &[HeadInput::Hidden, HeadInput::Logits]),
    (
        "HiddenStatesTokenLMHeadLogitsClassifier",
        &[HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
    ),
    ("MultiClassLogitsClassifier", &[HeadInput::Logits]),
    ("MultiClassHiddenStatesClassifier", &[HeadInput::Hidden]),
];

pub(super) fn convert(checkpoint: &mut Checkpoint, options: &ConvertOptions) -> Result<HeadFile, HeadError> {
    let facts = Facts::read(checkpoint)?;
    let header = facts.header(checkpoint, options)?;
    header.check().map_err(|what| wrong(checkpoint, what))?;
    let specs = layout::tensors(&header);
    let known = |name: &str| name == EMBEDDINGS || specs.iter().any(|spec| spec.name == name);
    if let Some(name) = checkpoint.names().find(|name| !known(name)) {
        let what = format!(
            "tensor \"{name}\" is not one of a {} that reads {}",
            facts.class,
            list(&header.inputs)
        );
        return Err(wrong(checkpoint, what));
    }
    let file = checkpoint.file().to_owned();
    HeadFile::build(&file, header, |spec| checkpoint.tensor(&spec.name, &spec.shape))
}

/// The plain values of a checkpoint.
struct Facts {
    class: &'static str,
    inputs: &'static [HeadInput],
    threshold: Option<f64>,
    normalize_input: bool,
    expansion: Option<usize>,
    hidden_size: Option<usize>,
    logits_size: Option<usize>,
    dims: Option<Vec<usize>>,
    model: Option<String>,
}

impl Facts {
    fn read(checkpoint: &Checkpoint) -> Result<Self, HeadError> {
        let Some((pickle, root)) = checkpoint.values() else {
            return Err(wrong(
                checkpoint,
                "an R2R checkpoint is the .pt file that its training saves: a safetensors file lacks `init_args`",
            ));
        };
        let fields = Fields { checkpoint, pickle };
        let class = fields.text(root, "model_type")?.ok_or_else(|| {
            wrong(
                checkpoint,
                "it has no `model_type`: not a checkpoint of R2R (for a plain state dict use another kind)",
            )
        })?;
        let known = CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&class));
        let (class, inputs) = *known.ok_or_else(|| {
            let names: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
            wrong(
                checkpoint,
                format!(
                    "model_type \"{class}\" is not supported; supported: {}",
                    names.join(", ")
                ),
            )
        })?;
        let (init, common) = (fields.dict(root, "init_args")?, fields.dict(root, "common_args")?);
        // The classifier adds encodings of positions that its own caller never passes: what it computes is not defined.
        let position = fields.bool(init, "use_position_embedding")?.unwrap_or(false);
        if position || checkpoint.shape("backbone.position_embedding").is_some() {
            return Err(wrong(
                checkpoint,
                "init_args.use_position_embedding is true, which is not supported; expected false",
            ));
        }
        fields.check_input_type(common, inputs)?;
        Ok(Self {
            class,
            inputs,
            threshold: fields.number(common, "threshold")?,
            normalize_input: fields.bool(init, "normalize_input")?.unwrap_or(false),
            expansion: fields.size(init, "expansion_factor")?,
            hidden_size: fields.size(init, "hidden_states_size")?,
            logits_size: fields.size(init, "logits_size")?,
            dims: fields.sizes(init, "hidden_dims")?,
            model: fields.text(init, "pretrained_model_name")?,
        })
    }

    /// The header, from the shapes of the tensors.
    fn header(&self, checkpoint: &Checkpoint, options: &ConvertOptions) -> Result<HeadHeader, HeadError> {
        let agree = |field: &str, said: Option<usize>, found: usize| match said {
            Some(said) if said != found => Err(wrong(
                checkpoint,
                format!("init_args.{field} is {said}, but the tensors show {found}"),
            )),
            _ => Ok(()),
        };
        let norm = |index: usize| checkpoint.shape(&format!("backbone.blocks.{index}.layer_norm.weight"));
        let dims: Vec<usize> = (0..LAYERS_MAX)
            .map_while(norm)
            .map(|shape| shape.first().copied().unwrap_or(0))
            .collect();
        if self.dims.as_ref().is_some_and(|said| *said != dims) {
            return Err(wrong(
                checkpoint,
                format!(
                    "init_args.hidden_dims is {:?}, but the tensors show {dims:?}",
                    self.dims
                ),
            ));
        }
        let (inner, width) = matrix(checkpoint, "backbone.blocks.0.mlp.0.weight")?;
        let expansion = inner / width.max(1);
        agree("expansion_factor", self.expansion, expansion)?;
        let hidden = match self.inputs {
            [HeadInput::Logits] => None,
            [HeadInput::Hidden] => Some(matrix(checkpoint, "hidden_states_projection.weight")?.1),
            inputs => Some(matrix(checkpoint, "combined_projection.weight")?.1 / inputs.len()),
        };
        if let Some(hidden) = hidden {
            agree("hidden_states_size", self.hidden_size, hidden)?;
        }
        let top_logits = match self.inputs.contains(&HeadInput::Logits) {
            true => Some(matrix(checkpoint, "logits_projection.weight")?.1),
            false => None,
        };
        if let Some(top_logits) = top_logits {
            agree("logits_size", self.logits_size, top_logits)?;
        }
        let (classes, _) = matrix(checkpoint, "backbone.output_layer.1.weight")?;
        let mut model = model(checkpoint, hidden, options)?;
        model.name = model.name.or_else(|| self.model.clone());
        let embeddings = match self.inputs.contains(&HeadInput::Token) {
            true => "; embeddings of candidates are those of the model it is loaded for",
            false => "",
        };
        Ok(HeadHeader {
            format: FORMAT,
            kind: HeadKind::R2r,
            model,
            inputs: self.inputs.to_vec(),
            top_logits,
            network: Network::Classifier {
                dims,
                expansion,
                classes,
                normalize_input: self.normalize_input,
            },
            threshold: self.threshold,
            trained: true,
            source: format!("R2R checkpoint, {}{embeddings}", self.class),
        })
    }
}

/// Reads plain values by name. What is absent or None is `None`; what is of another type is an error.
struct Fields<'a> {
    checkpoint: &'a Checkpoint,
    pickle: &'a Pickle,
}

impl Fields<'_> {
    fn get(&self, dict: Id, key: &str) -> Option<&Value> {
        let value = self.pickle.get(dict, key).map(|id| self.pickle.value(id));
        value.filter(|value| **value != Value::None)
    }

    fn is<T>(&self, key: &str, expected: &str, found: &Value) -> Result<T, HeadError> {
        let what = format!("`{key}` is {}, expected {expected}", found.what());
        Err(wrong(self.checkpoint, what))
    }

    fn dict(&self, root: Id, key: &str) -> Result<Id, HeadError> {
        match self.pickle.get(root, key) {
            Some(id) if matches!(self.pickle.value(id), Value::Dict(_)) => Ok(id),
            Some(id) => self.is(key, "a dict", self.pickle.value(id)),
            None => Err(wrong(
                self.checkpoint,
                format!("it has no `{key}`: not a checkpoint of R2R"),
            )),
        }
    }

    fn text(&self, dict: Id, key: &str) -> Result<Option<String>, HeadError> {
        match self.get(dict, key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(other) => self.is(key, "a string", other),
        }
    }

    fn bool(&self, dict: Id, key: &str) -> Result<Option<bool>, HeadError> {
        match self.get(dict, key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(other) => self.is(key, "a bool", other),
        }
    }

    fn number(&self, dict: Id, key: &str) -> Result<Option<f64>, HeadError> {
        match self.get(dict, key) {
            None => Ok(None),
            Some(Value::Float(number)) if number.is_finite() => Ok(Some(*number)),
            Some(Value::Int(number)) => Ok(Some(*number as f64)),
            Some(other) => self.is(key, "a finite number", other),
        }
    }

    fn size(&self, dict: Id, key: &str) -> Result<Option<usize>, HeadError> {
        self.get(dict, key).map(|value| self.whole(key, value)).transpose()
    }

    fn sizes(&self, dict: Id, key: &str) -> Result<Option<Vec<usize>>, HeadError> {
        let items = match self.get(dict, key) {
            None => return Ok(None),
            Some(Value::List(items) | Value::Tuple(items)) => items,
            Some(other) => return self.is(key, "a list of sizes", other),
        };
        let items = items.iter().map(|id| self.whole(key, self.pickle.value(*id)));
        items.collect::<Result<_, _>>().map(Some)
    }

    fn whole(&self, key: &str, value: &Value) -> Result<usize, HeadError> {
        match value {
            Value::Int(number) if *number >= 0 => Ok(*number as usize),
            other => self.is(key, "a size", other),
        }
    }

    /// `input_type` repeats what the class reads; where they differ, one of them is wrong.
    fn check_input_type(&self, common: Id, inputs: &[HeadInput]) -> Result<(), HeadError> {
        let items = match self.get(common, "input_type") {
            None => return Ok(()),
            Some(Value::List(items) | Value::Tuple(items)) => items,
            Some(other) => return self.is("input_type", "a list of strings", other),
        };
        let mut named = Vec::new();
        for id in items {
            named.push(match self.pickle.value(*id) {
                Value::Text(text) if text == "hidden_states" => HeadInput::Hidden,
                Value::Text(text) if text == "token" => HeadInput::Token,
                Value::Text(text) if text == "logits" => HeadInput::Logits,
                Value::Text(text) => {
                    return Err(wrong(
                        self.checkpoint,
                        format!("common_args.input_type names \"{text}\"; supported: hidden_states, token, logits"),
                    ));
                }
                other => return self.is("input_type", "a list of strings", other),
            });
        }
        if named.len() == inputs.len() && inputs.iter().all(|input| named.contains(input)) {
            return Ok(());
        }
        let what = format!(
            "common_args.input_type is {}, but its class reads {}",
            list(&named),
            list(inputs)
        );
        Err(wrong(self.checkpoint, what))
    }
}
