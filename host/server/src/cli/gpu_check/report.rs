//! What the check found: lines as it goes, records for a file, and failures that decide how the command ends.

use std::path::Path;

use serde_json::{Value, json};
use tokenrouter_model::cuda::Device;

use crate::cli::Failure;
use crate::cli::output::print;
use crate::cli::table::Table;

/// Everything found so far.
pub(super) struct Report {
    records: Vec<Value>,
    failures: Vec<String>,
    /// Bytes per second of the device's memory, if it tells.
    pub(super) bandwidth: Option<f64>,
}

impl Report {
    /// Begins with the device.
    pub(super) fn new(device: &Device) -> Result<Self, Failure> {
        let (_, memory_bytes) = device.memory_bytes().map_err(Failure::other)?;
        let bandwidth = device.bandwidth();
        let shown = bandwidth.map_or("unknown".to_owned(), |bytes| format!("{:.2} TB/s", bytes / 1e12));
        print(&format!(
            "{device:?}: {} MiB of memory, bandwidth {shown}\n",
            memory_bytes >> 20
        ))?;
        let record = json!({
            "part": "device", "name": device.name(), "memory_bytes": memory_bytes, "bandwidth_bytes_per_s": bandwidth,
        });
        Ok(Self {
            records: vec![record],
            failures: Vec::new(),
            bandwidth,
        })
    }

    /// A heading.
    pub(super) fn heading(&self, text: &str) -> Result<(), Failure> {
        print(&format!("\n{text}\n"))
    }

    /// Something that must hold, and what was found.
    pub(super) fn claim(&mut self, part: &str, what: &str, found: &str, holds: bool) -> Result<(), Failure> {
        print(&format!(
            "{}  {what}: {found}\n",
            if holds { "ok    " } else { "FAILED" }
        ))?;
        self.records
            .push(json!({ "part": part, "what": what, "found": found, "holds": holds }));
        if !holds {
            self.failures.push(format!("{part}: {what}: {found}"));
        }
        Ok(())
    }

    /// A part that could not go on.
    pub(super) fn failed(&mut self, part: &str, why: &str) -> Result<(), Failure> {
        self.claim(part, "runs to its end", why, false)
    }

    /// A measurement.
    pub(super) fn measured(&mut self, record: Value) {
        self.records.push(record);
    }

    /// A table of measurements.
    pub(super) fn table(&self, table: &Table) -> Result<(), Failure> {
        print(&table.to_string())
    }

    /// Writes the file, if there is one, and sums up.
    pub(super) fn end(self, file: Option<&Path>) -> Result<(), Failure> {
        if let Some(path) = file {
            let text = serde_json::to_string_pretty(&self.records).map_err(Failure::other)?;
            std::fs::write(path, text).map_err(|error| {
                Failure::other(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
            })?;
        }
        if self.failures.is_empty() {
            return print("\nall that must hold holds\n");
        }
        let what = format!(
            "{} claims do not hold:\n  {}",
            self.failures.len(),
            self.failures.join("\n  ")
        );
        Err(Failure::other(anyhow::anyhow!(what)))
    }
}

impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Asked(error) | Failure::Other(error) => error,
        }
    }
}
