//! From a head's file to its operations. The networks are those of `crate::heads::network`.

use std::collections::HashMap;

use half::bf16;

use super::program::{Floats, Halves, Norm, Op, Place, Program};
use super::scratch::Widths;
use crate::cuda::CudaError;
use crate::cuda::matrix::{End, Matrix};
use crate::cuda::memory::Buffer;
use crate::cuda::stream::Stream;
use crate::error::ModelError;
use crate::heads::{Activation, HeadFile, HeadHeader, HeadInput, Network, Shaped, norm_name};

/// Rows of activations are whole pieces of so many columns: what a product takes.
const PIECE: usize = 32;

/// The operations of a head that fits its model, and how wide the buffers must be for them.
pub(super) fn program(stream: &Stream, file: HeadFile) -> Result<(Program, Widths), ModelError> {
    let name = file.file().to_owned();
    let (header, tensors) = file.into_parts();
    let mut build = Build {
        stream,
        file: name,
        tensors,
        ops: Vec::new(),
        widths: Widths::default(),
    };
    match &header.network {
        Network::Classifier {
            dims,
            normalize_input,
            classes,
            ..
        } => build.classifier(&header, dims, *normalize_input, *classes)?,
        Network::Mlp { dims, activation } => build.mlp(&header, dims.len(), *activation)?,
    }
    Ok((Program(build.ops), build.widths))
}

/// Of each column of the activations, the column of the weights that it meets; `None` for one that only fills up.
type Columns = Vec<Option<usize>>;

fn whole(columns: impl Iterator<Item = usize>) -> Columns {
    let mut columns: Columns = columns.map(Some).collect();
    columns.resize(columns.len().next_multiple_of(PIECE), None);
    columns
}

/// The columns of an input that the weights have from `first` on. Logits come in two parts, which the same weights meet.
fn columns_of(header: &HeadHeader, input: HeadInput, first: usize) -> impl Iterator<Item = usize> {
    let parts = if input == HeadInput::Logits { 2 } else { 1 };
    let width = header.width(input);
    (0..parts * width).map(move |column| first + column % width)
}

struct Build<'a> {
    stream: &'a Stream,
    file: String,
    tensors: HashMap<String, Shaped>,
    ops: Vec<Op>,
    widths: Widths,
}

impl Build<'_> {
    fn take(&mut self, name: &str) -> Result<Shaped, ModelError> {
        self.tensors.remove(name).ok_or_else(|| ModelError::TensorMissing {
            origin: self.file.clone(),
            name: name.to_owned(),
        })
    }

    /// A vector, filled up with zeros.
    fn vector(&mut self, name: &str) -> Result<Buffer, ModelError> {
        let (_, mut values) = self.take(name)?;
        values.resize(values.len().next_multiple_of(PIECE), 0.0);
        Ok(Buffer::from_slice(self.stream, &values, name)?)
    }

    fn norm(&mut self, name: &str) -> Result<Norm, ModelError> {
        Ok(Norm {
            weight: self.vector(&format!("{name}.weight"))?,
            bias: self.vector(&format!("{name}.bias"))?,
        })
    }

    /// Notes that a place must be there.
    fn place(&mut self, to: Place) -> Place {
        let width = match to.halves {
            Halves::Inputs => &mut self.widths.inputs,
            Halves::Layer => &mut self.widths.layer,
        };
        *width = (*width).max(to.stride);
        to
    }

    /// All columns of the next layer's input.
    fn layer(&mut self, width: usize) -> Place {
        let stride = width.next_multiple_of(PIECE);
        self.place(Place {
            halves: Halves::Layer,
            stride,
            at: 0,
            fill: stride,
        })
    }

    /// The product with a matrix; returns how many columns it leaves, those that fill up included.
    fn product(
        &mut self,
        name: &str,
        columns: &Columns,
        from: Halves,
        to: Floats,
        end: End,
    ) -> Result<usize, ModelError> {
        let name = format!("{name}.weight");
        let (shape, weights) = self.take(&name)?;
        let matrix = matrix(self.stream, &shape, &weights, columns, &name)?;
        let rows = matrix.rows;
        let width = match to {
            Floats::Product => &mut self.widths.product,
            Floats::Residual(_) => &mut self.widths.residual,
        };
        *width = (*width).max(rows);
        self.ops.push(Op::Product { matrix, from, to, end });
        Ok(rows)
    }

    /// Its bias, and what comes after that.
    fn bias(
        &mut self,
        name: &str,
        of: Floats,
        activation: Option<Activation>,
        to: Option<Place>,
    ) -> Result<(), ModelError> {
        let bias = self.vector(&format!("{name}.bias"))?;
        self.ops.push(Op::Bias {
            of,
            width: bias.bytes() / size_of::<f32>(),
            bias: Some(bias),
            activation,
            to,
        });
        Ok(())
    }

    /// A linear layer of which the next one reads the result.
    fn linear(
        &mut self,
        name: &str,
        columns: &Columns,
        from: Halves,
        activation: Option<Activation>,
    ) -> Result<(), ModelError> {
        let width = self.product(name, columns, from, Floats::Product, End::Store)?;
        let to = self.layer(width);
        self.bias(name, Floats::Product, activation, Some(to))
    }

    /// The last layer.
    fn scores(&mut self, name: &str, columns: &Columns, from: Halves, classes: usize) -> Result<(), ModelError> {
        let stride = self.product(name, columns, from, Floats::Product, End::Store)?;
        let bias = self.vector(&format!("{name}.bias"))?;
        self.ops.push(Op::Scores { bias, classes, stride });
        Ok(())
    }

    /// What reads an input into columns of the joined ones.
    fn input(&mut self, input: HeadInput, norm: Option<Norm>, to: Place) {
        let to = self.place(to);
        let token = input == HeadInput::Token;
        self.ops.push(Op::Input { token, norm, to });
    }

    fn mlp(&mut self, header: &HeadHeader, hidden: usize, activation: Option<Activation>) -> Result<(), ModelError> {
        let (mut columns, mut first, mut places) = (Vec::new(), 0, Vec::new());
        for input in &header.inputs {
            places.push(columns.len());
            columns.extend(columns_of(header, *input, first));
            first += header.width(*input);
        }
        let columns = whole(columns.into_iter());
        places.push(columns.len());
        for (input, ends) in header.inputs.iter().zip(places.windows(2)) {
            let to = Place {
                halves: Halves::Inputs,
                stride: columns.len(),
                at: ends[0],
                fill: ends[1] - ends[0],
            };
            match input {
                HeadInput::Logits => {
                    let to = self.place(to);
                    self.logits(header, false, to);
                }
                HeadInput::Hidden | HeadInput::Token => self.input(*input, None, to),
            }
        }
        let (mut columns, mut from) = (columns, Halves::Inputs);
        for index in 0..hidden {
            let name = format!("layers.{index}");
            let width = self
                .tensors
                .get(&format!("{name}.bias"))
                .map_or(0, |(shape, _)| shape[0]);
            self.linear(&name, &columns, from, activation)?;
            (columns, from) = (whole(0..width), Halves::Layer);
        }
        self.scores(&format!("layers.{hidden}"), &columns, from, 1)
    }

    fn logits(&mut self, header: &HeadHeader, probabilities: bool, to: Place) {
        self.ops.push(Op::Logits {
            top: header.width(HeadInput::Logits),
            probabilities,
            to,
        });
    }

    fn classifier(
        &mut self,
        header: &HeadHeader,
        dims: &[usize],
        normalize: bool,
        classes: usize,
    ) -> Result<(), ModelError> {
        self.classifier_inputs(header, normalize)?;
        let (first, last) = (dims[0], dims[dims.len() - 1]);
        let (mut stream, mut next) = (0, 1);
        let residual = Floats::Residual(stream);
        let name = "backbone.input_projection";
        self.product(name, &whole(0..first), Halves::Layer, residual, End::Store)?;
        self.bias(name, residual, None, None)?;
        for (index, width) in dims.iter().enumerate() {
            let after = *dims.get(index + 1).unwrap_or(width);
            let name = format!("backbone.blocks.{index}");
            let mut to = Floats::Residual(stream);
            if after != *width {
                // The part that passes the block by, in its new width. It takes the stream as it is, rounded.
                to = Floats::Residual(next);
                let (change, rounded) = (format!("{name}.dim_change"), self.layer(*width));
                self.ops.push(Op::Bias {
                    of: Floats::Residual(stream),
                    bias: None,
                    width: rounded.stride,
                    activation: None,
                    to: Some(rounded),
                });
                self.product(&change, &whole(0..*width), Halves::Layer, to, End::Store)?;
                self.bias(&change, to, None, None)?;
            }
            self.normed(&format!("{name}.layer_norm"), stream, *width)?;
            let (up, down) = (format!("{name}.mlp.0"), format!("{name}.mlp.3"));
            let inner = self.tensors.get(&format!("{up}.bias")).map_or(0, |(shape, _)| shape[0]);
            self.linear(&up, &whole(0..*width), Halves::Layer, Some(Activation::Gelu))?;
            self.product(&down, &whole(0..inner), Halves::Layer, to, End::Add)?;
            self.bias(&down, to, None, None)?;
            if after != *width {
                (stream, next) = (next, stream);
            }
        }
        self.normed("backbone.output_layer.0", stream, last)?;
        self.scores("backbone.output_layer.1", &whole(0..last), Halves::Layer, classes)
    }

    /// From what the classifier reads to what its backbone takes.
    fn classifier_inputs(&mut self, header: &HeadHeader, normalize: bool) -> Result<(), ModelError> {
        let alone = header.inputs == [HeadInput::Logits];
        let hidden = header.width(HeadInput::Hidden);
        let stride = header.inputs.len() * hidden;
        for (index, input) in header.inputs.iter().enumerate() {
            let to = Place {
                halves: Halves::Inputs,
                stride,
                at: index * hidden,
                fill: hidden,
            };
            if *input != HeadInput::Logits {
                let norm = normalize.then(|| self.norm(norm_name(&header.inputs, *input)));
                self.input(*input, norm.transpose()?, to);
                continue;
            }
            let columns = whole(columns_of(header, HeadInput::Logits, 0));
            let logits = self.layer(columns.len());
            self.logits(header, normalize, logits);
            let name = "logits_projection";
            if alone {
                self.linear(name, &columns, Halves::Layer, None)?;
            } else {
                self.product(name, &columns, Halves::Layer, Floats::Product, End::Store)?;
                let to = self.place(to);
                self.bias(name, Floats::Product, None, Some(to))?;
            }
        }
        let name = match header.inputs.as_slice() {
            [HeadInput::Logits] => return Ok(()),
            [HeadInput::Hidden] => "hidden_states_projection",
            _ => "combined_projection",
        };
        self.linear(name, &whole(0..stride), Halves::Inputs, None)
    }

    fn normed(&mut self, name: &str, residual: usize, width: usize) -> Result<(), ModelError> {
        let norm = self.norm(name)?;
        let stride = self.layer(width).stride;
        self.ops.push(Op::Norm {
            norm,
            of: Floats::Residual(residual),
            width,
            stride,
        });
        Ok(())
    }
}

/// A weight matrix [outputs, inputs] with the columns that the activations meet, and rows filled up with zeros: what they leave is
/// the next product's input.
fn matrix(
    stream: &Stream,
    shape: &[usize],
    weights: &[f32],
    columns: &Columns,
    name: &str,
) -> Result<Matrix, CudaError> {
    let (rows, k) = (shape[0], columns.len());
    let mut elements = vec![bf16::ZERO; rows.next_multiple_of(PIECE) * k];
    for (row, weights) in elements.chunks_exact_mut(k).zip(weights.chunks_exact(shape[1])) {
        for (element, column) in row.iter_mut().zip(columns) {
            *element = column.map_or(bf16::ZERO, |column| bf16::from_f32(weights[column]));
        }
    }
    Matrix::new(stream, &elements, k, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::{FORMAT, HeadKind, HeadModel};

    /// Of an input of 3 hidden numbers and 2 logits: columns 3 and 4 of the weights meet both parts of the logits, and nothing
    /// meets what fills a piece up.
    #[test]
    fn both_parts_of_a_logit_meet_its_weight() {
        let header = HeadHeader {
            format: FORMAT,
            kind: HeadKind::Linear,
            model: HeadModel {
                hidden_size: Some(3),
                ..HeadModel::default()
            },
            inputs: vec![HeadInput::Hidden, HeadInput::Logits],
            top_logits: Some(2),
            network: Network::Mlp {
                dims: vec![],
                activation: None,
            },
            threshold: None,
            trained: false,
            source: String::new(),
        };
        let hidden = columns_of(&header, HeadInput::Hidden, 0);
        let columns = whole(hidden.chain(columns_of(&header, HeadInput::Logits, 3)));
        let met: Vec<usize> = columns.iter().flatten().copied().collect();
        assert_eq!(met, [0, 1, 2, 3, 4, 3, 4]);
        assert_eq!((columns.len(), columns[7]), (32, None));
        assert_eq!(whole(0..64).len(), 64, "whole pieces stay as they are");
    }
}
