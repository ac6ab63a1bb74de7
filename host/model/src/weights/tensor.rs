//! One matrix of a file, read row by row.

use std::ops::Range;
use std::sync::Arc;

use super::bytes::Bytes;
use super::element::Element;
use crate::error::ModelError;

/// A matrix [rows, k] that still lies in its file. Reading a few rows at a time keeps the memory of loading small.
#[derive(Clone, Debug)]
pub(crate) struct FileMatrix {
    pub(super) bytes: Arc<Bytes>,
    pub(super) range: Range<usize>,
    pub(super) element: Element,
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) row_bytes: usize,
    /// Width of a head, where the file has the two halves of every head's rows in turn.
    pub(super) interleaved: Option<usize>,
}

impl FileMatrix {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn k(&self) -> usize {
        self.k
    }

    pub(crate) fn element(&self) -> Element {
        self.element
    }

    /// The bytes of a row as the file has them.
    pub(crate) fn row_bytes(&self, row: usize) -> &[u8] {
        let row = match self.interleaved {
            None => row,
            // Element i of a head turns with element i + head_dim / 2 here and with its neighbour there.
            Some(head_dim) => {
                let (head, i) = (row / head_dim, row % head_dim);
                let half = head_dim / 2;
                head * head_dim + 2 * (i % half) + i / half
            }
        };
        let start = self.range.start + row * self.row_bytes;
        &self.bytes.as_slice()[start..start + self.row_bytes]
    }

    /// Replaces `out` by the elements of a row.
    ///
    /// # Errors
    /// When the tensor library cannot take quantised blocks apart.
    pub(crate) fn read_row(&self, row: usize, out: &mut Vec<f32>) -> Result<(), ModelError> {
        out.clear();
        Ok(self.element.read(self.row_bytes(row), out)?)
    }
}
