//! Files as memory.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use crate::error::ModelError;

/// Maps a file for reading.
///
/// # Errors
/// When it cannot be opened or mapped.
pub(crate) fn map(path: &Path) -> Result<Mmap, ModelError> {
    let failed = |source| ModelError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    // SAFETY: the map is only read. A file that is cut short while a model loads ends the process, as it would end one
    // that runs from it.
    unsafe { Mmap::map(&file) }.map_err(failed)
}
