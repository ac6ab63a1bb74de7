//! What commands say on standard output.

use std::io::Write as _;

use super::Failure;

/// Prints a text as it is. A reader that stops reading, as `head` does, is not an error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::other(error)),
        _ => Ok(()),
    }
}

/// Prints an array in JSON, one element a line.
pub(super) fn print_json<T: serde::Serialize>(records: &[T]) -> Result<(), Failure> {
    let lines: Result<Vec<String>, _> = records.iter().map(serde_json::to_string).collect();
    let lines = lines.map_err(Failure::other)?;
    print(&format!("[\n  {}\n]\n", lines.join(",\n  ")))
}
