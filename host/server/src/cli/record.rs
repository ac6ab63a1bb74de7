//! `serve --record`: a trace of what policies decide.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tokenrouter_engine::trace::{STANDARD, TraceSink};
use tokenrouter_host::deployment::{DeploymentFile, Loaded};
use tokenrouter_host::trace::format::{FORMAT, Header, ModelLine};
use tokenrouter_host::trace::{Recorder, RecorderSettings, signal_name};

use super::numbers::whole;
use super::{Failure, output};

/// Requests and steps that may wait to be written. A step of 64 rows takes some 16 KiB.
const EVENTS_MAX: usize = 4_096;

/// Options of recording.
#[derive(Clone, Debug, Args)]
pub(super) struct RecordArgs {
    /// Write a trace to this file, replacing it: prompts (as tokens), signals and decisions of every request, for `policy replay`.
    /// Lines are dropped, and counted, before serving is slowed down
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Largest size of the trace, in MB; recording ends there
    #[arg(long, value_name = "MB", default_value_t = 256, requires = "record", value_parser = whole(1..=1_000_000_u32))]
    record_max_mb: u32,
    /// Record the text of every candidate too, for policies that read it
    #[arg(long, requires = "record")]
    record_texts: bool,
}

impl RecordArgs {
    /// Whether the trace can be written, for who asks before models are loaded.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match &self.record {
            Some(path) => output::can_write(path).with_context(|| format!("--record {}", path.display())),
            None => Ok(()),
        }
    }

    /// Starts recording what the loaded deployment will do, if that was asked for.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn start(&self, file: &DeploymentFile, loaded: &mut Loaded) -> Result<Option<Recorder>, Failure> {
        let Some(path) = &self.record else {
            return Ok(None);
        };
        let header = Header {
            format: FORMAT,
            host: env!("CARGO_PKG_VERSION").to_owned(),
            deployment: file.name.clone(),
            models: loaded
                .models
                .iter()
                .map(|model| ModelLine {
                    name: model.name.clone(),
                    parameters: model.info.parameters,
                    vocabulary: model.info.vocabulary,
                })
                .collect(),
            standard: STANDARD.iter().map(signal_name).collect(),
        };
        let settings = RecorderSettings {
            path: path.clone(),
            bytes_max: u64::from(self.record_max_mb) * 1_000_000,
        };
        let (sink, source) = TraceSink::new(EVENTS_MAX, self.record_texts);
        let recorder = Recorder::start(&settings, header, source)
            .with_context(|| format!("--record {}", path.display()))
            .map_err(Failure::Asked)?;
        loaded.parts.trace = Some(sink);
        Ok(Some(recorder))
    }
}
