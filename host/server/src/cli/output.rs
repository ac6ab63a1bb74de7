//! What commands say on standard output.

use std::io::Write as _;
use std::path::Path;

use super::Failure;

/// Prints a text as it is. A reader that stops reading, as `head` does, is not an error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::other(error)),
        _ => Ok(()),
    }
}

/// Whether a file can be written. One that was not there is taken away again.
pub(super) fn can_write(path: &Path) -> std::io::Result<()> {
    let was_there = path.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    if was_there { Ok(()) } else { std::fs::remove_file(path) }
}

/// Prints an array in JSON, one element a line.
pub(super) fn print_json<T: serde::Serialize>(records: &[T]) -> Result<(), Failure> {
    let lines: Result<Vec<String>, _> = records.iter().map(serde_json::to_string).collect();
    let lines = lines.map_err(Failure::other)?;
    print(&format!("[\n  {}\n]\n", lines.join(",\n  ")))
}
