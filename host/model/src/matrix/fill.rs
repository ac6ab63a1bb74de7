//! Filling a matrix from its file on all processors: laying weights out takes most of the time in which a server starts.

use std::thread;

use crate::cpu::PANEL;
use crate::error::ModelError;

/// Which part and which of its rows a row of the whole is; `None` for what fills a panel.
pub(super) type Line = Option<(usize, usize)>;

/// Below so many elements another thread costs more than it does.
const ELEMENTS_PER_THREAD: usize = 1 << 18;

/// Has `part` fill the panels of some lines at a time; `panel_len` elements belong to each [`PANEL`] lines.
///
/// # Errors
/// One of those that `part` gives.
pub(super) fn fill<T: Send>(
    lines: &[Line],
    all: &mut [T],
    panel_len: usize,
    part: impl Fn(&[Line], &mut [T]) -> Result<(), ModelError> + Sync,
) -> Result<(), ModelError> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(all.len() / ELEMENTS_PER_THREAD).max(1);
    let panels = lines.len().div_ceil(PANEL).div_ceil(threads);
    if threads == 1 || panel_len == 0 {
        return part(lines, all);
    }
    let parts = lines.chunks(panels * PANEL).zip(all.chunks_mut(panels * panel_len));
    thread::scope(|scope| {
        let running: Vec<_> = parts.map(|(lines, all)| scope.spawn(|| part(lines, all))).collect();
        // A panic of a part goes on as the loader's own.
        let ended = running
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect()
    })
}
