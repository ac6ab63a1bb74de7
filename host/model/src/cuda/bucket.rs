//! The sizes of a step as a graph knows them. A graph's launches never change, so a step runs in the graph of the next larger
//! sizes, and what it has too few of is padding: tokens without a position, which kernels pass over.

use tokenrouter_core::limits::KV_BLOCK_TOKENS;
use tokenrouter_core::step::StepBatch;

use super::sizes::PARTITION_TOKENS;

/// Which steps run as graphs, and how many graphs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLimits {
    /// Steps with more new tokens are launched kernel by kernel. 0: all are.
    pub tokens_max: usize,
    /// Graphs that are kept; of more, the one that was not used for longest goes.
    pub graphs_max: usize,
}

impl Default for GraphLimits {
    fn default() -> Self {
        Self {
            tokens_max: 64,
            graphs_max: 96,
        }
    }
}

/// The sizes that launches depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bucket {
    /// New tokens.
    pub(super) tokens: usize,
    /// Rows of logits.
    pub(super) logits: usize,
    /// Partitions of the longest sequence.
    pub(super) partitions: usize,
    /// Whether the largest logits are sorted out.
    pub(super) top: bool,
}

impl Bucket {
    /// The sizes of a step as they are.
    pub(super) fn exact(batch: &StepBatch, top: bool) -> Self {
        let span = batch
            .rows
            .iter()
            .map(|row| (row.position + row.len) as usize)
            .max()
            .unwrap_or(1);
        let logits = batch.logits_rows();
        Self {
            tokens: batch.tokens.len(),
            logits,
            partitions: span.div_ceil(PARTITION_TOKENS),
            top: top && logits > 0,
        }
    }

    /// The sizes of the graph that runs it; `None` beyond the limits.
    pub(super) fn padded(self, limits: GraphLimits) -> Option<Self> {
        Some(Self {
            tokens: padded(self.tokens, limits)?,
            logits: pad(self.logits),
            partitions: self.partitions.next_power_of_two(),
            top: self.top,
        })
    }
}

/// So many tokens, or rows of logits, in the graph that takes them; `None` beyond the limits.
pub(super) fn padded(count: usize, limits: GraphLimits) -> Option<usize> {
    (count <= limits.tokens_max && limits.graphs_max > 0).then(|| pad(count))
}

/// 0, 1, 2, 4, then multiples of 8: what the matrix products compute anyway.
fn pad(count: usize) -> usize {
    match count {
        0..=2 => count,
        3 | 4 => 4,
        _ => count.next_multiple_of(8),
    }
}

const _: () = assert!(PARTITION_TOKENS.is_multiple_of(KV_BLOCK_TOKENS));

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(tokens: usize, logits: usize, partitions: usize) -> Bucket {
        Bucket {
            tokens,
            logits,
            partitions,
            top: false,
        }
    }

    #[test]
    fn a_graph_is_never_smaller_than_the_step_and_wastes_less_than_a_tile() {
        let limits = GraphLimits {
            tokens_max: 64,
            graphs_max: 4,
        };
        for tokens in 1..=64 {
            for logits in 0..=tokens {
                let graph = bucket(tokens, logits, 1).padded(limits).unwrap();
                assert!(
                    graph.tokens >= tokens && graph.tokens < tokens + 8,
                    "{tokens}: {graph:?}"
                );
                assert!(
                    graph.logits >= logits && graph.logits < logits + 8,
                    "{logits}: {graph:?}"
                );
                assert_eq!(graph.logits == 0, logits == 0, "a step without logits skips the head");
            }
        }
    }

    #[test]
    fn lengths_double_so_that_a_growing_sequence_needs_few_graphs() {
        let graphs: std::collections::HashSet<_> = (1..=160)
            .map(|partitions| bucket(1, 1, partitions).padded(GraphLimits::default()))
            .collect();
        assert_eq!(graphs.len(), 9, "40,960 positions in 1, 2, 4, … 256 partitions");
    }

    #[test]
    fn beyond_the_limits_there_is_no_graph() {
        let limits = GraphLimits {
            tokens_max: 8,
            graphs_max: 4,
        };
        assert!(bucket(8, 8, 1).padded(limits).is_some());
        assert!(bucket(9, 9, 1).padded(limits).is_none());
        assert!(
            bucket(1, 1, 1)
                .padded(GraphLimits {
                    tokens_max: 0,
                    graphs_max: 4
                })
                .is_none()
        );
        assert!(
            bucket(1, 1, 1)
                .padded(GraphLimits {
                    tokens_max: 8,
                    graphs_max: 0
                })
                .is_none()
        );
    }
}
