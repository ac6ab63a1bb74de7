//! Text in columns.

use std::fmt;

/// Rows of cells; every column as wide as its widest cell, cells to the right.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    /// A table with these headings.
    pub(super) fn new(headings: Vec<String>) -> Self {
        Self(vec![headings])
    }

    /// Adds a row. It may be shorter than the headings.
    pub(super) fn push(&mut self, row: Vec<String>) {
        self.0.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.0 {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:>width$}"))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_to_the_right() {
        let mut table = Table::new(vec!["N".to_owned(), "tokens/s".to_owned()]);
        table.push(vec!["16".to_owned(), "9.5".to_owned()]);
        table.push(vec!["1".to_owned()]);
        assert_eq!(table.to_string(), " N  tokens/s\n16       9.5\n 1\n");
    }
}
