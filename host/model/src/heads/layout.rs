//! Which tensors a head's file must hold, and their shapes: all of it follows from the header.

use super::header::{HeadHeader, HeadInput, Network};

/// One tensor of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorSpec {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
}

impl TensorSpec {
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The tensors of a head whose header has been checked. A classifier's have the names of R2R's state dict.
pub(super) fn tensors(header: &HeadHeader) -> Vec<TensorSpec> {
    let mut list = List(Vec::new());
    match &header.network {
        Network::Classifier {
            dims,
            expansion,
            classes,
            normalize_input,
        } => {
            if *normalize_input {
                for input in [HeadInput::Hidden, HeadInput::Token] {
                    if header.reads(input) {
                        list.norm(norm_name(&header.inputs, input), header.width(input));
                    }
                }
            }
            projections(&mut list, header, dims[0]);
            list.linear("backbone.input_projection", dims[0], dims[0]);
            for (index, width) in dims.iter().enumerate() {
                let (next, block) = (
                    *dims.get(index + 1).unwrap_or(width),
                    format!("backbone.blocks.{index}"),
                );
                list.norm(&format!("{block}.layer_norm"), *width);
                list.linear(&format!("{block}.mlp.0"), width * expansion, *width);
                list.linear(&format!("{block}.mlp.3"), next, width * expansion);
                if next != *width {
                    list.linear(&format!("{block}.dim_change"), next, *width);
                }
            }
            let last = dims[dims.len() - 1];
            list.norm("backbone.output_layer.0", last);
            list.linear("backbone.output_layer.1", *classes, last);
        }
        Network::Mlp { dims, .. } => {
            let mut width: usize = header.inputs.iter().map(|input| header.width(*input)).sum();
            for (index, next) in dims.iter().chain(&[1]).enumerate() {
                list.linear(&format!("layers.{index}"), *next, width);
                width = *next;
            }
        }
    }
    list.0
}

/// What joins the inputs of a classifier to the width of its first block.
fn projections(list: &mut List, header: &HeadHeader, dim: usize) {
    let (hidden, top) = (header.width(HeadInput::Hidden), header.width(HeadInput::Logits));
    match header.inputs.as_slice() {
        [HeadInput::Hidden] => list.linear("hidden_states_projection", dim, hidden),
        [HeadInput::Logits] => list.linear("logits_projection", dim, top),
        inputs => {
            if header.reads(HeadInput::Logits) {
                list.linear("logits_projection", hidden, top);
            }
            // Projected logits are as wide as the hidden state.
            list.linear("combined_projection", dim, inputs.len() * hidden);
        }
    }
}

/// The layer norm of an input. A classifier of the hidden state alone has one without a suffix.
pub(crate) fn norm_name(inputs: &[HeadInput], input: HeadInput) -> &'static str {
    match (inputs, input) {
        ([HeadInput::Hidden], _) => "layer_norm",
        (_, HeadInput::Token) => "layer_norm_token",
        _ => "layer_norm_hidden_states",
    }
}

struct List(Vec<TensorSpec>);

impl List {
    fn linear(&mut self, name: &str, outputs: usize, inputs: usize) {
        self.push(format!("{name}.weight"), vec![outputs, inputs]);
        self.push(format!("{name}.bias"), vec![outputs]);
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.push(format!("{name}.weight"), vec![width]);
        self.push(format!("{name}.bias"), vec![width]);
    }

    fn push(&mut self, name: String, shape: Vec<usize>) {
        self.0.push(TensorSpec { name, shape });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::header::{FORMAT, HeadKind, HeadModel};

    /// The published classifiers, embedding table excluded: 54.7 M parameters for hidden states of 1024 numbers, 56.3 M
    /// for 1536.
    #[test]
    fn the_published_classifiers_have_as_many_parameters_as_is_known_of_them() {
        for (hidden, millions) in [(1024, 54.7), (1536, 56.3)] {
            let header = HeadHeader {
                format: FORMAT,
                kind: HeadKind::R2r,
                model: HeadModel {
                    hidden_size: Some(hidden),
                    ..HeadModel::default()
                },
                inputs: vec![HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
                top_logits: Some(100),
                network: Network::Classifier {
                    dims: vec![1024; 6],
                    expansion: 4,
                    classes: 1,
                    normalize_input: false,
                },
                threshold: None,
                trained: true,
                source: String::new(),
            };
            header.check().unwrap();
            let parameters: usize = tensors(&header).iter().map(TensorSpec::elements).sum();
            assert_eq!((parameters as f64 / 1e5).round() / 10.0, millions);
        }
    }
}
