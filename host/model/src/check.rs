//! Whether a step can be run at all: checked before the first number is computed, so that kernels may rely on it.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::{StepBatch, StepRow};

use crate::error::ModelError;
use crate::runner::{ModelInfo, RowAsk};

/// Checks ranges, token ids, block ids, lengths, the number of asks and the names of heads.
pub(crate) fn step(
    batch: &StepBatch,
    asks: &[RowAsk<'_>],
    plans: &[Vec<Signal>],
    info: &ModelInfo,
    blocks: usize,
    has_head: impl Fn(&str) -> bool,
) -> Result<(), ModelError> {
    self::batch(batch, info, blocks)?;
    if asks.len() != batch.logits_rows() {
        let rows = batch.logits_rows();
        return Err(ModelError::Step(format!(
            "{} asks for {rows} rows of logits",
            asks.len()
        )));
    }
    if let Some(ask) = asks.iter().find(|ask| ask.plan as usize >= plans.len()) {
        return Err(ModelError::Step(format!("plan {} of {} plans", ask.plan, plans.len())));
    }
    match plans.iter().flatten().find_map(|signal| match signal {
        Signal::HeadScore(name) if !has_head(name) => Some(name),
        _ => None,
    }) {
        Some(name) => Err(ModelError::Head(name.clone())),
        None => Ok(()),
    }
}

/// Checks the batch alone.
pub(crate) fn batch(batch: &StepBatch, info: &ModelInfo, blocks: usize) -> Result<(), ModelError> {
    let mut next = 0u64;
    for (index, row) in batch.rows.iter().enumerate() {
        let refuse = |what: String| {
            Err(ModelError::Step(format!(
                "row {index} (request {}): {what}",
                row.request.0
            )))
        };
        if u64::from(row.first) != next {
            return refuse(format!("its tokens begin at {}, expected {next}", row.first));
        }
        next += u64::from(row.len);
        if let Err(what) = shape(batch, row, info) {
            return refuse(what);
        }
        if let Some(token) = batch.row_tokens(row).iter().find(|token| **token >= info.vocabulary) {
            return refuse(format!("token {token} is not below the vocabulary {}", info.vocabulary));
        }
        if let Some(block) = batch.row_blocks(row).iter().find(|block| block.0 as usize >= blocks) {
            return refuse(format!("block {} of a pool of {blocks} blocks", block.0));
        }
    }
    if next != batch.tokens.len() as u64 {
        return Err(ModelError::Step(format!(
            "rows have {next} tokens, the batch has {}",
            batch.tokens.len()
        )));
    }
    Ok(())
}

fn shape(batch: &StepBatch, row: &StepRow, info: &ModelInfo) -> Result<(), String> {
    let end = u64::from(row.position) + u64::from(row.len);
    if row.len == 0 {
        return Err("it has no tokens".to_owned());
    }
    if u64::from(row.first) + u64::from(row.len) > batch.tokens.len() as u64 {
        return Err(format!("its tokens end beyond the batch's {}", batch.tokens.len()));
    }
    if row.logits > row.len {
        return Err(format!("{} rows of logits from {} tokens", row.logits, row.len));
    }
    if end > u64::from(info.context_max) {
        return Err(format!("{end} positions, the model has {}", info.context_max));
    }
    if row.blocks.start > row.blocks.end || row.blocks.end as usize > batch.blocks.len() {
        return Err(format!(
            "its blocks {:?} lie outside the batch's {}",
            row.blocks,
            batch.blocks.len()
        ));
    }
    let room = batch.row_blocks(row).len() * KV_BLOCK_TOKENS;
    if end > room as u64 {
        return Err(format!("{end} positions, its blocks hold {room}"));
    }
    Ok(())
}
