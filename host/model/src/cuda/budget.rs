//! How much KV a device has room for. Models that share a device hold the same number of tokens: a request needs its
//! tokens at every model, so a pool that is longer than the shortest is never filled.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;

/// What a device has, once the weights of its models are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The device, as messages call it.
    pub device: String,
    /// All of its memory, bytes.
    pub total_bytes: u64,
    /// What is taken: weights, and whatever else runs there, bytes.
    pub taken_bytes: u64,
    /// How much of the whole may be taken in the end, per cent.
    pub percent: u32,
    /// Of each model that runs there: its name, and the bytes of its pool per token.
    pub models: Vec<(String, u64)>,
}

/// The pool's share of what is left; the rest is for activations, logits and graphs.
const POOL_SHARE: (u64, u64) = (9, 10);

/// A device without room for KV.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Not even one block fits.
    #[error(
        "{device}: no room for KV: of its {} MiB, {percent} % may be used and {} MiB are taken, weights included; one block of \
         {KV_BLOCK_TOKENS} tokens takes {needed_bytes} bytes at {models} together. Use a smaller model, another device, or a larger \
         cuda.memory_percent",
        total_bytes >> 20,
        taken_bytes >> 20
    )]
    Empty {
        /// The device.
        device: String,
        /// All of its memory, bytes.
        total_bytes: u64,
        /// What is taken, bytes.
        taken_bytes: u64,
        /// How much of the whole may be taken, per cent.
        percent: u32,
        /// What one block takes at all models, bytes.
        needed_bytes: u64,
        /// The models' names.
        models: String,
    },
    /// More tokens were asked for than fit.
    #[error(
        "{device}: limits.kv_tokens is {tokens}, which takes {} MiB at {models} together, but {} MiB are free; {fit} tokens would \
         fit into cuda.memory_percent, and without the key as many are taken",
        needed_bytes >> 20,
        free_bytes >> 20
    )]
    TooMany {
        /// The device.
        device: String,
        /// What was asked for.
        tokens: usize,
        /// What it takes at all models, bytes.
        needed_bytes: u64,
        /// What is free, bytes.
        free_bytes: u64,
        /// Tokens that would fit.
        fit: usize,
        /// The models' names.
        models: String,
    },
}

/// Tokens that the pools of all the device's models can hold, in whole blocks:
/// 0.9 · (percent of the memory - what is taken) / (bytes per token, of all models together).
///
/// # Errors
/// When not even one block fits.
pub fn kv_tokens(memory: &DeviceMemory) -> Result<usize, BudgetError> {
    let per_token = memory.bytes_per_token();
    let allowed = memory.total_bytes / 100 * u64::from(memory.percent);
    let left = allowed.saturating_sub(memory.taken_bytes) / POOL_SHARE.1 * POOL_SHARE.0;
    let blocks = left / (per_token * KV_BLOCK_TOKENS as u64).max(1);
    if blocks == 0 {
        return Err(BudgetError::Empty {
            device: memory.device.clone(),
            total_bytes: memory.total_bytes,
            taken_bytes: memory.taken_bytes,
            percent: memory.percent,
            needed_bytes: per_token * KV_BLOCK_TOKENS as u64,
            models: memory.names(),
        });
    }
    let blocks = usize::try_from(blocks).unwrap_or(usize::MAX / KV_BLOCK_TOKENS);
    Ok(blocks.saturating_mul(KV_BLOCK_TOKENS))
}

/// Whether pools of so many tokens fit into what is free, whatever share of the memory they take.
///
/// # Errors
/// When they do not.
pub fn check(memory: &DeviceMemory, tokens: usize) -> Result<(), BudgetError> {
    let needed_bytes = memory
        .bytes_per_token()
        .saturating_mul(tokens.next_multiple_of(KV_BLOCK_TOKENS) as u64);
    let free_bytes = memory.total_bytes.saturating_sub(memory.taken_bytes);
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    Err(BudgetError::TooMany {
        device: memory.device.clone(),
        tokens,
        needed_bytes,
        free_bytes,
        fit: kv_tokens(memory)?,
        models: memory.names(),
    })
}

impl DeviceMemory {
    fn bytes_per_token(&self) -> u64 {
        self.models.iter().map(|(_, bytes)| bytes).sum()
    }

    fn names(&self) -> String {
        self.models
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn memory(total: u64, taken: u64, cells: &[u64]) -> DeviceMemory {
        DeviceMemory {
            device: "cuda:0".to_owned(),
            total_bytes: total,
            taken_bytes: taken,
            percent: 85,
            models: cells
                .iter()
                .enumerate()
                .map(|(i, cell)| (format!("m{i}"), *cell))
                .collect(),
        }
    }

    /// Qwen3-0.6B (28 layers) and Qwen3-32B (64 layers), both with 8 key heads of 128, in bf16, on 80 GiB: worked out by hand.
    #[test]
    fn a_pair_shares_one_device_with_the_same_number_of_tokens() {
        let cells = [28u64, 64].map(|layers| layers * 2 * 8 * 128 * 2);
        assert_eq!(cells, [114_688, 262_144]);
        let tokens = kv_tokens(&memory(80 * GIB, 62 * GIB, &cells)).unwrap();
        // 0.9 · (0.85 · 80 - 62) GiB / 376,832 bytes = 15,386.6 tokens, in blocks of 16.
        assert_eq!(tokens, 15_376);
    }

    #[test]
    fn what_the_pools_take_never_exceeds_the_share() {
        for total in [1, 24, 80, 141] {
            for cells in [vec![1_000], vec![114_688, 262_144], vec![3, 5, 7]] {
                let memory = memory(total * GIB, total * GIB / 3, &cells);
                let tokens = kv_tokens(&memory).unwrap() as u64;
                let pools: u64 = cells.iter().map(|cell| cell * tokens).sum();
                assert!(
                    pools + memory.taken_bytes <= memory.total_bytes / 100 * 85,
                    "{memory:?}: {tokens}"
                );
                assert_eq!(tokens % KV_BLOCK_TOKENS as u64, 0);
            }
        }
    }

    #[test]
    fn a_device_without_room_says_so_with_its_numbers() {
        let error = kv_tokens(&memory(40 * GIB, 62 * GIB, &[114_688, 262_144]))
            .unwrap_err()
            .to_string();
        for part in [
            "cuda:0",
            "40960 MiB",
            "85 %",
            "63488 MiB",
            "6029312 bytes",
            "m0, m1",
            "cuda.memory_percent",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_number_of_tokens_from_the_file_is_held_against_what_is_free() {
        let memory = memory(80 * GIB, 62 * GIB, &[114_688, 262_144]);
        assert_eq!(check(&memory, 16_384), Ok(()));
        let error = check(&memory, 1_000_000).unwrap_err().to_string();
        for part in [
            "limits.kv_tokens is 1000000",
            "359375 MiB",
            "18432 MiB",
            "15376 tokens",
            "m0, m1",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
