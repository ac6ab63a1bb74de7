//! Heads on the device of their model: scores come back with the rest of a step, hidden states do not.
//!
//! A head is evaluated for all rows of logits once any of them asks for it: its weights are read once either way. Weights and the
//! inputs of products are bf16 as the model's, sums and what lies between products f32.
//!
//! | file | what it knows |
//! |---|---|
//! | `program` | the operations of a head, and their launches |
//! | `build` | from a head's file to its operations |
//! | `scratch` | the buffers they work in |

mod build;
mod program;
mod scratch;

use tokenrouter_core::TokenId;
use tokenrouter_core::signal::Signal;

use super::CudaError;
use super::forward::Network;
use super::scratch::Scratch as StepScratch;
use super::stream::Stream;
use crate::error::ModelError;
use crate::heads::{HeadError, HeadFile, HeadInput, HeadTarget};
use crate::runner::RowAsk;
use program::{Named, Program, Rows};
use scratch::{Scratch, Widths};

/// Most heads of a model: a step's are a set of bits.
const HEADS_MAX: usize = u64::BITS as usize;

struct Loaded {
    name: String,
    program: Program,
    reads_token: bool,
    reads_logits: bool,
}

/// The sizes that launches of heads depend on, as [`super::bucket::Bucket`] is for those of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadBucket {
    /// Rows of logits.
    pub(super) rows: usize,
    /// Which heads: bit `i` is the one that was added as number `i`.
    pub(super) heads: u64,
    /// Whether candidates are those that the host has given, not the greedy ones.
    pub(super) drawn: bool,
}

/// What a step asks of the heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Which heads, as in [`HeadBucket::heads`].
    pub(super) heads: u64,
    /// Whether one of them reads the largest logits.
    pub(super) logits: bool,
    /// Whether a score depends on a candidate that the host draws.
    pub(super) drawn: bool,
}

/// The heads of one model, and their scores of the last step.
pub(super) struct Heads {
    loaded: Vec<Loaded>,
    named: Named,
    widths: Widths,
    /// From the first head on.
    scratch: Option<Scratch>,
    /// Of each plan of the step, the heads that it names.
    plans: Vec<u64>,
    /// The heads whose scores came back last, in the order of the columns.
    scored: u64,
}

impl Heads {
    pub(super) fn new(stream: &Stream) -> Self {
        Self {
            loaded: Vec::new(),
            named: Named::new(&stream.device().kernels),
            widths: Widths::default(),
            scratch: None,
            plans: Vec::new(),
            scored: 0,
        }
    }

    /// Lays a head out for the device, and makes room for `rows` rows of logits. Buffers get other addresses.
    ///
    /// # Errors
    /// When the head does not fit the model, the device's list of the largest logits, or its memory.
    pub(super) fn add(
        &mut self,
        stream: &Stream,
        name: &str,
        file: HeadFile,
        target: HeadTarget,
        rows: usize,
    ) -> Result<(), HeadError> {
        file.fits(target)?;
        let refuse = |what: String| HeadError::Model {
            file: file.file().to_owned(),
            what,
        };
        if self.loaded.len() == HEADS_MAX {
            return Err(refuse(format!(
                "the model has {HEADS_MAX} heads, which is the most on a GPU"
            )));
        }
        let top = file.header().width(HeadInput::Logits);
        if top > super::scratch::TOP_KEPT {
            return Err(refuse(format!(
                "the head reads the {top} largest logits; on a GPU it can be {} at most; device = \"cpu\" serves it",
                super::scratch::TOP_KEPT
            )));
        }
        let reads = |input| file.header().reads(input);
        let (reads_token, reads_logits) = (reads(HeadInput::Token), reads(HeadInput::Logits));
        let (program, widths) = build::program(stream, file)?;
        self.widths = self.widths.max(widths);
        self.loaded.push(Loaded {
            name: name.to_owned(),
            program,
            reads_token,
            reads_logits,
        });
        self.scratch = None;
        Ok(self.reserve(stream, rows).map_err(ModelError::from)?)
    }

    /// Makes room for `rows` rows of logits. Where there was less, buffers get other addresses.
    pub(super) fn reserve(&mut self, stream: &Stream, rows: usize) -> Result<(), CudaError> {
        let holds = self.scratch.as_ref().is_some_and(|scratch| scratch.rows_max >= rows);
        if !self.loaded.is_empty() && !holds {
            self.scratch = Some(Scratch::new(stream, self.widths, rows, self.loaded.len())?);
        }
        Ok(())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.loaded.iter().any(|loaded| loaded.name == name)
    }

    /// What a step asks for. `drawn` says of a row whether the host draws its candidate.
    pub(super) fn ask(
        &mut self,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        drawn: impl Fn(&RowAsk<'_>) -> bool,
    ) -> Asked {
        let Self {
            loaded, plans: by_plan, ..
        } = self;
        by_plan.clear();
        by_plan.extend(plans.iter().map(|plan| named_by(loaded, plan)));
        let mut asked = Asked::default();
        for ask in asks {
            let heads = by_plan[ask.plan as usize];
            asked.heads |= heads;
            asked.drawn |= heads != 0 && drawn(ask) && any(loaded, heads, |head| head.reads_token);
        }
        asked.logits = any(loaded, asked.heads, |head| head.reads_logits);
        asked
    }

    /// Puts candidates where programs find those that were drawn.
    pub(super) fn give_candidates(&mut self, stream: &Stream, candidates: &[TokenId]) -> Result<(), CudaError> {
        let Some(scratch) = &mut self.scratch else {
            return Ok(());
        };
        scratch.drawn_host.as_mut_slice()[..candidates.len()].copy_from_slice(candidates);
        stream.upload(&scratch.drawn_host, &scratch.drawn, candidates.len())
    }

    /// Puts the evaluation of a step's heads on the stream, behind the step's own launches, and their scores' way back.
    pub(super) fn enqueue(
        &mut self,
        stream: &Stream,
        network: &Network,
        step: &StepScratch,
        bucket: HeadBucket,
    ) -> Result<(), CudaError> {
        let Some(scratch) = &mut self.scratch else {
            return Ok(());
        };
        let slots = bucket.heads.count_ones() as usize;
        for (slot, loaded) in chosen(&self.loaded, bucket.heads).enumerate() {
            let rows = Rows {
                stream,
                network,
                step,
                scratch,
                named: &self.named,
                bucket,
                slot,
                slots,
            };
            loaded.program.enqueue(&rows)?;
        }
        stream.download(&scratch.scores, 0, &mut scratch.scores_host, 0, bucket.rows * slots)
    }

    /// Tells which heads the scores are of that come back from the step.
    pub(super) fn expect(&mut self, heads: u64) {
        self.scored = heads;
    }

    /// Whether every score that a row's plan, the `plan`-th of the step, asks for is a number.
    pub(super) fn finite(&self, plan: u32, row: usize) -> bool {
        let heads = self.plans[plan as usize];
        bits(heads).all(|head| self.value(head, row).is_finite())
    }

    /// The score of a row of the last step; 0 where it was not evaluated.
    pub(super) fn score(&self, name: &str, row: usize) -> f32 {
        let place = self.loaded.iter().position(|loaded| loaded.name == name);
        place.map_or(0.0, |head| self.value(head, row))
    }

    fn value(&self, head: usize, row: usize) -> f32 {
        let (Some(scratch), Some(slot)) = (&self.scratch, slot(self.scored, head)) else {
            return 0.0;
        };
        scratch.scores_host.as_slice()[row * self.scored.count_ones() as usize + slot]
    }
}

/// The heads that a plan names.
fn named_by(loaded: &[Loaded], plan: &[Signal]) -> u64 {
    let named = |name: &str| loaded.iter().position(|loaded| loaded.name == name);
    plan.iter().fold(0, |heads, signal| match signal {
        Signal::HeadScore(name) => heads | named(name).map_or(0, |place| 1 << place),
        _ => heads,
    })
}

fn chosen(loaded: &[Loaded], heads: u64) -> impl Iterator<Item = &Loaded> {
    bits(heads).filter_map(|place| loaded.get(place))
}

fn any(loaded: &[Loaded], heads: u64, holds: impl Fn(&Loaded) -> bool) -> bool {
    chosen(loaded, heads).any(holds)
}

/// The places of the set bits, ascending.
fn bits(set: u64) -> impl Iterator<Item = usize> {
    (0..HEADS_MAX).filter(move |place| set >> place & 1 == 1)
}

/// The column of a head among those of a set.
fn slot(heads: u64, head: usize) -> Option<usize> {
    let below = heads & ((1 << head) - 1);
    (heads >> head & 1 == 1).then_some(below.count_ones() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_stand_in_the_order_in_which_heads_were_added() {
        let heads = 1 << 63 | 0b1010_0001;
        assert_eq!(bits(heads).collect::<Vec<_>>(), [0, 5, 7, 63]);
        for (column, head) in bits(heads).enumerate() {
            assert_eq!(slot(heads, head), Some(column));
        }
        for absent in [1, 6, 62] {
            assert_eq!(slot(heads, absent), None);
        }
    }
}
