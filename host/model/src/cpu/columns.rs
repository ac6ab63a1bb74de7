//! Ranges of columns of one row-major buffer, each written by one thread.

use std::marker::PhantomData;
use std::ops::Range;

/// Some columns of all rows of a buffer.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    start: *mut f32,
    rows: usize,
    stride: usize,
    range: Range<usize>,
    buffer: PhantomData<&'a mut [f32]>,
}

impl<'a> Columns<'a> {
    /// # Safety
    /// `start` points to `rows` rows of `stride` elements that live for `'a`, `range` lies within a row, and nothing else
    /// reads or writes these columns meanwhile.
    pub(super) unsafe fn new(start: *mut f32, rows: usize, stride: usize, range: Range<usize>) -> Self {
        debug_assert!(range.start <= range.end && range.end <= stride);
        Self {
            start,
            rows,
            stride,
            range,
            buffer: PhantomData,
        }
    }

    /// Which columns these are.
    pub(crate) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The columns of a row.
    ///
    /// # Panics
    /// When there is no such row.
    pub(crate) fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: within the buffer by the promise at `new`; the borrow of `self` keeps a second slice from being made.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.add(row * self.stride + self.range.start), self.range.len())
        }
    }
}
