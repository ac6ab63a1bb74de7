//! Wrong input for every command and every path: the message says what was wrong, where, and what would be right. The tables are
//! `commands.txt` and `endpoints.txt`. Mistakes in fields of a completion, deployment files and components have tests of their own
//! (`fields`, `start`, `hostile`); this is about the rest.

mod commands;
mod endpoints;

/// The rows of a table: cells between ` |`; lines that begin with `#` are comments.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(" |").map(str::trim).collect())
}
