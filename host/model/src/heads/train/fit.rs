//! Epochs over the examples: cross entropy, AdamW, the weights of the best held-out loss.

use candle_core::{Device, Result, Tensor};
use serde::{Deserialize, Serialize};
use tokenrouter_core::draw::{Purpose, bits};

use super::adam::Adam;
use super::examples::Examples;
use super::network::Weights;
use super::score::Scored;
use crate::error::ModelError;
use crate::heads::error::HeadError;
use crate::heads::{HeadFile, HeadHeader, Network, layout, random};

/// Draws of this number decide the order of the examples.
const ORDER: Purpose = Purpose::Policy(1);

/// How a head is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitOptions {
    /// Times that all examples are seen.
    pub epochs: usize,
    /// Examples a step.
    pub batch: usize,
    /// Learning rate; falls to zero as a cosine.
    pub rate: f64,
    /// Weight decay of the matrices.
    pub decay: f64,
    /// Decides first weights and order.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            epochs: 20,
            batch: 256,
            rate: 2e-3,
            decay: 0.01,
            seed: 0,
        }
    }
}

/// What an epoch brought, in nats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 1.
    pub number: usize,
    /// Mean loss of its steps.
    pub loss: f64,
    /// Mean loss of the held-out examples after it.
    pub held_out: f64,
}

/// All that is needed to go on after an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The epochs that are done.
    pub epochs: Vec<Epoch>,
    weights: Vec<Vec<f32>>,
    first: Vec<Vec<f32>>,
    second: Vec<Vec<f32>>,
    steps: i32,
    /// Those of the best held-out loss so far.
    best: Vec<Vec<f32>>,
}

/// A head that was trained.
#[derive(Debug)]
pub struct Fitted {
    /// The head, with the weights of the best epoch.
    pub head: HeadFile,
    /// All epochs.
    pub epochs: Vec<Epoch>,
    /// The held-out examples under it.
    pub held_out: Scored,
}

/// Trains a head of the header's form. `after` is told of every epoch and may keep the checkpoint, from which the same call
/// with `resume` goes on as if it had not stopped.
///
/// # Errors
/// A header that contradicts itself or has several classes, a checkpoint of another head, no examples of one kind, or an
/// error of `after`.
pub fn fit<E: From<HeadError>>(
    header: &HeadHeader,
    (training, held_out): (&Examples, &Examples),
    options: &FitOptions,
    resume: Option<Checkpoint>,
    mut after: impl FnMut(&Checkpoint) -> std::result::Result<(), E>,
) -> std::result::Result<Fitted, E> {
    let wrong = |what: String| HeadError::Header {
        file: "the head to train".to_owned(),
        what,
    };
    for (name, examples) in [("training", training), ("held-out", held_out)] {
        let (positives, all) = (examples.positives(), examples.len());
        if positives == 0 || positives == all {
            let what = format!("{positives} of {all} {name} examples are positive; some of both kinds are needed");
            return Err(wrong(what).into());
        }
    }
    if matches!(header.network, Network::Classifier { classes, .. } if classes != 1) {
        return Err(wrong("network.classes is not 1; heads of one output are trained".to_owned()).into());
    }
    let first = random(header.clone(), options.seed)?;
    let mut checkpoint = match resume {
        Some(checkpoint) if fits(header, &checkpoint) => checkpoint,
        Some(_) => return Err(wrong("the checkpoint is of a head of another form".to_owned()).into()),
        None => Checkpoint {
            epochs: Vec::new(),
            weights: begun(first, training),
            first: Vec::new(),
            second: Vec::new(),
            steps: 0,
            best: Vec::new(),
        },
    };
    let tensors = |work: Result<()>| work.map_err(|error| E::from(HeadError::from(ModelError::from(error))));
    while checkpoint.epochs.len() < options.epochs {
        tensors(epoch(header, training, held_out, options, &mut checkpoint))?;
        after(&checkpoint)?;
    }
    let best = if checkpoint.best.is_empty() {
        &checkpoint.weights
    } else {
        &checkpoint.best
    };
    let mut values = best.iter();
    let head = HeadFile::build("trained head", header.clone(), |_| {
        Ok(values.next().cloned().unwrap_or_default())
    })?;
    let mut scores = Vec::new();
    tensors((|| {
        let weights = Weights::new(header, best)?;
        scores = probabilities(&weights, header, held_out)?;
        Ok(())
    })())?;
    Ok(Fitted {
        head,
        epochs: checkpoint.epochs,
        held_out: Scored::new(&scores, &held_out.labels),
    })
}

/// First weights: random ones, but for the last layer, which says of every example what is true of all. From a random last
/// layer, half of the training of a head for rare positions would go into learning that they are rare.
fn begun(random: HeadFile, training: &Examples) -> Vec<Vec<f32>> {
    let mut values = random.into_values();
    let share = training.positives() as f32 / training.len() as f32;
    if let [.., weight, bias] = values.as_mut_slice() {
        weight.fill(0.0);
        bias.fill((share / (1.0 - share)).ln());
    }
    values
}

/// Whether a checkpoint has the tensors of the header.
fn fits(header: &HeadHeader, checkpoint: &Checkpoint) -> bool {
    let specs = layout::tensors(header);
    let same = |values: &[Vec<f32>]| {
        values.len() == specs.len()
            && specs
                .iter()
                .zip(values)
                .all(|(spec, values)| spec.elements() == values.len())
    };
    [
        &checkpoint.weights,
        &checkpoint.first,
        &checkpoint.second,
        &checkpoint.best,
    ]
    .into_iter()
    .all(|it| same(it))
}

/// One epoch from a checkpoint to the next.
fn epoch(
    header: &HeadHeader,
    training: &Examples,
    held_out: &Examples,
    options: &FitOptions,
    checkpoint: &mut Checkpoint,
) -> Result<()> {
    let weights = Weights::new(header, &checkpoint.weights)?;
    let mut adam = Adam::new(&weights.list)?;
    if !checkpoint.first.is_empty() {
        adam.restore(&checkpoint.first, &checkpoint.second, checkpoint.steps)?;
    }
    let number = checkpoint.epochs.len() + 1;
    let order = order(training.len(), options.seed, number);
    let all = order.len().div_ceil(options.batch) * options.epochs;
    let mut sum = 0.0;
    for batch in order.chunks(options.batch) {
        let rows = Tensor::from_slice(batch, batch.len(), &Device::Cpu)?;
        let inputs = training.inputs.iter().map(|input| input.index_select(&rows, 0));
        let labels: Vec<f32> = batch.iter().map(|row| training.labels[*row as usize]).collect();
        let labels = Tensor::from_vec(labels, batch.len(), &Device::Cpu)?;
        let outputs = weights.forward(header, &inputs.collect::<Result<Vec<_>>>()?)?;
        let loss = cross_entropy(&outputs, &labels)?;
        sum += f64::from(loss.to_scalar::<f32>()?) * batch.len() as f64;
        let done = f64::from(adam.steps()) / all as f64;
        let rate = options.rate * 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        adam.step(&weights.list, &loss.backward()?, rate, options.decay)?;
    }
    let scores = probabilities(&weights, header, held_out)?;
    let done = Epoch {
        number,
        loss: sum / training.len() as f64,
        held_out: Scored::new(&scores, &held_out.labels).loss(),
    };
    checkpoint.weights = weights.values()?;
    (checkpoint.first, checkpoint.second, checkpoint.steps) = adam.state()?;
    if checkpoint.epochs.iter().all(|earlier| done.held_out < earlier.held_out) {
        checkpoint.best.clone_from(&checkpoint.weights);
    }
    checkpoint.epochs.push(done);
    Ok(())
}

/// Of outputs before the logistic function: max(z, 0) - z y + ln(1 + exp(-|z|)), the mean.
fn cross_entropy(outputs: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let softened = (outputs.abs()?.neg()?.exp()? + 1.0)?.log()?;
    ((outputs.relu()? - (outputs * labels)?)? + softened)?.mean_all()
}

fn probabilities(weights: &Weights, header: &HeadHeader, examples: &Examples) -> Result<Vec<f32>> {
    let outputs = weights.forward(header, &examples.inputs)?.to_vec1::<f32>()?;
    Ok(outputs.into_iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect())
}

/// All examples in an order of the epoch's own (Fisher and Yates).
fn order(count: usize, seed: u64, epoch: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        let position = (epoch as u64) << 32 | last as u64;
        order.swap(last, (bits(seed, position, ORDER) % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests;
