//! A step's input: tokens, positions, rows and block tables, packed so that one copy brings them to the device.
//!
//! Where each list begins depends on capacities alone, so graphs find them at the same addresses. Block tables come
//! last, and only as far as they are used is copied.

use tokenrouter_core::step::StepBatch;

use super::bucket::Bucket;

/// Position of a token that only fills a bucket up (`PADDING` in `device.cuh`).
const PADDING: u32 = u32::MAX;

/// Where the lists begin, in words of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Tokens that it has room for; rows are at most as many.
    tokens_max: usize,
    /// Room for block tables.
    table_max: usize,
}

impl Layout {
    pub(super) fn new(tokens_max: usize, table_max: usize) -> Self {
        Self { tokens_max, table_max }
    }

    /// Words altogether.
    pub(super) fn words(self) -> usize {
        self.table() + self.table_max
    }

    /// Of each token, its id.
    pub(super) fn tokens(self) -> usize {
        0
    }

    /// Of each token, its position, or that it is padding.
    pub(super) fn positions(self) -> usize {
        self.tokens_max
    }

    /// Of each token, its row.
    pub(super) fn rows(self) -> usize {
        2 * self.tokens_max
    }

    /// Of each row of logits, the token it comes from.
    pub(super) fn places(self) -> usize {
        3 * self.tokens_max
    }

    /// Of each row, where its block table begins in the tables.
    pub(super) fn table_starts(self) -> usize {
        4 * self.tokens_max
    }

    /// All rows' block tables.
    pub(super) fn table(self) -> usize {
        5 * self.tokens_max
    }

    /// Whether a step fits.
    pub(super) fn holds(self, bucket: &Bucket, batch: &StepBatch) -> bool {
        bucket.tokens.max(bucket.logits) <= self.tokens_max && batch.blocks.len() <= self.table_max
    }

    /// Writes a step that was checked and fits; returns how many words are to be copied.
    pub(super) fn pack(self, batch: &StepBatch, bucket: &Bucket, words: &mut [u32]) -> usize {
        let tokens = batch.tokens.len();
        words[self.tokens()..][..tokens].copy_from_slice(&batch.tokens);
        words[self.tokens() + tokens..self.tokens() + bucket.tokens].fill(0);
        words[self.positions() + tokens..self.positions() + bucket.tokens].fill(PADDING);
        let mut logits = 0;
        for (index, row) in batch.rows.iter().enumerate() {
            let (first, len) = (row.first as usize, row.len as usize);
            for i in 0..len {
                words[self.positions() + first + i] = row.position + i as u32;
                words[self.rows() + first + i] = index as u32;
            }
            for place in first + len - row.logits as usize..first + len {
                words[self.places() + logits] = place as u32;
                logits += 1;
            }
            words[self.table_starts() + index] = row.blocks.start;
        }
        // Rows of logits that only fill a bucket up repeat the first token's; nobody reads them.
        words[self.places() + logits..self.places() + bucket.logits].fill(0);
        for (word, block) in words[self.table()..].iter_mut().zip(&batch.blocks) {
            *word = block.0;
        }
        self.table() + batch.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use tokenrouter_core::step::StepRow;
    use tokenrouter_core::{BlockId, RequestId};

    use super::*;
    use crate::cuda::bucket::GraphLimits;

    /// An extend of three tokens whose last two give logits, and a decode, in a bucket of eight.
    #[test]
    fn a_step_is_laid_out_as_the_kernels_read_it() {
        let row = |request, first, len, position, logits, blocks| StepRow {
            request: RequestId(request),
            first,
            len,
            position,
            logits,
            blocks,
            shared: 0,
        };
        let batch = StepBatch {
            tokens: vec![5, 6, 7, 9, 4],
            rows: vec![
                row(1, 0, 3, 14, 2, 0..2),
                row(2, 3, 1, 0, 0, 2..3),
                row(3, 4, 1, 31, 1, 3..5),
            ],
            blocks: [8, 3, 0, 2, 1].map(BlockId).to_vec(),
        };
        let bucket = Bucket::exact(&batch, false).padded(GraphLimits::default()).unwrap();
        assert_eq!((bucket.tokens, bucket.logits), (8, 4));
        let layout = Layout::new(8, 6);
        assert!(layout.holds(&bucket, &batch));
        let mut words = vec![77; layout.words()];
        let used = layout.pack(&batch, &bucket, &mut words);
        assert_eq!(used, layout.words() - 1);
        assert_eq!(words[layout.tokens()..][..8], [5, 6, 7, 9, 4, 0, 0, 0]);
        let none = PADDING;
        assert_eq!(words[layout.positions()..][..8], [14, 15, 16, 0, 31, none, none, none]);
        assert_eq!(words[layout.rows()..][..5], [0, 0, 0, 1, 2]);
        assert_eq!(words[layout.places()..][..4], [1, 2, 4, 0]);
        assert_eq!(words[layout.table_starts()..][..3], [0, 2, 3]);
        assert_eq!(words[layout.table()..][..6], [8, 3, 0, 2, 1, 77]);
        assert_eq!(PADDING as i32, -1, "what the kernels compare with");
    }

    #[test]
    fn what_does_not_fit_is_seen() {
        let batch = StepBatch {
            tokens: vec![0; 9],
            rows: Vec::new(),
            blocks: vec![BlockId(0); 3],
        };
        let bucket = Bucket::exact(&batch, false);
        assert!(!Layout::new(8, 3).holds(&bucket, &batch));
        assert!(!Layout::new(9, 2).holds(&bucket, &batch));
        assert!(Layout::new(9, 3).holds(&bucket, &batch));
    }
}
