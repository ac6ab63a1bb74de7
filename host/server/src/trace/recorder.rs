//! Writes a trace on a thread of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tokenrouter_engine::trace::{AdmittedTrace, Decided, RowTrace, StepTrace, TraceEvent, TraceSource, Waited};
use tokenrouter_policy::{Generation, Setting};

use super::format::{EndLine, EndReason, GenerationLine, Header, Line, RequestLine, StepLine};
use super::{Numbers, signal_name};
use crate::deployment::OptionValue;

/// How long nothing may happen before what was written is pushed to the file.
const FLUSH: Duration = Duration::from_millis(200);

/// Shortest time between two warnings of dropped lines.
const WARN: Duration = Duration::from_secs(10);

/// Where to, and how much.
#[derive(Clone, Debug)]
pub struct RecorderSettings {
    /// The file; one that is there is replaced.
    pub path: PathBuf,
    /// Largest size of the file, bytes.
    pub bytes_max: u64,
}

/// A trace that is being written.
pub struct Recorder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Makes the file, writes the header and goes on with what comes from `source`.
    ///
    /// # Errors
    /// A file that cannot be written, or no thread.
    pub fn start(settings: &RecorderSettings, header: Header, source: TraceSource) -> io::Result<Self> {
        let mut trace = TraceFile::create(&settings.path, settings.bytes_max)?;
        trace.write(&Line::Header(header))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let path = settings.path.clone();
        let thread = Builder::new().name("trace".to_owned()).spawn(move || {
            if let Err(error) = trace.record(&source, &stopped) {
                tracing::error!(path = %path.display(), %error, "the trace cannot be written: recording ends");
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Writes what has happened, and the end.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Release);
        // It only fails if the thread panicked, and then there is nothing left to write.
        drop(self.thread.join());
    }
}

/// The file, and what it has.
struct TraceFile {
    file: BufWriter<File>,
    path: PathBuf,
    bytes: u64,
    bytes_max: u64,
    generations: BTreeSet<u32>,
    requests: u64,
    steps: u64,
    line: Vec<u8>,
}

impl TraceFile {
    fn create(path: &Path, bytes_max: u64) -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(File::create(path)?),
            path: path.to_owned(),
            bytes: 0,
            bytes_max,
            generations: BTreeSet::new(),
            requests: 0,
            steps: 0,
            line: Vec::new(),
        })
    }

    fn record(&mut self, source: &TraceSource, stopped: &AtomicBool) -> io::Result<()> {
        let (mut dropped, mut warned) = (0, Instant::now().checked_sub(WARN));
        let reason = loop {
            match source.wait(FLUSH) {
                Waited::Event(event) => self.event(event)?,
                Waited::Nothing => self.file.flush()?,
                Waited::Ended => break EndReason::Stopped,
            }
            if self.bytes >= self.bytes_max {
                tracing::warn!(path = %self.path.display(), bytes = self.bytes, "the trace is full: recording ends");
                break EndReason::Full;
            }
            if source.dropped() > dropped && warned.is_none_or(|warned| warned.elapsed() >= WARN) {
                dropped = source.dropped();
                warned = Some(Instant::now());
                tracing::warn!(dropped, "the trace is written too slowly: lines are missing");
            }
            if stopped.load(Ordering::Acquire) && source.is_empty() {
                break EndReason::Stopped;
            }
        };
        let end = EndLine {
            reason,
            requests: self.requests,
            steps: self.steps,
            dropped: source.dropped(),
        };
        self.write(&Line::End(end))?;
        self.file.flush()
    }

    fn event(&mut self, event: TraceEvent) -> io::Result<()> {
        match event {
            TraceEvent::Admitted(admitted) => self.request(*admitted),
            TraceEvent::Step(StepTrace { at, rows }) => rows.into_iter().try_for_each(|row| self.step(at.0, row)),
        }
    }

    fn request(&mut self, admitted: AdmittedTrace) -> io::Result<()> {
        if let Some((id, generation)) = &admitted.generation
            && self.generations.insert(id.0)
        {
            self.write(&Line::Generation(generation_line(id.0, generation)))?;
        }
        self.requests += 1;
        self.write(&Line::Request(RequestLine {
            id: admitted.id.0,
            seed: admitted.seed,
            prompt: admitted.prompt,
            max_tokens: admitted.max_tokens,
            temperature: admitted.temperature,
            options: admitted.options.iter().map(option).collect(),
            generation: admitted.generation.map(|(id, _)| id.0),
            entry: admitted.entry.0,
        }))
    }

    fn step(&mut self, at: u32, row: RowTrace) -> io::Result<()> {
        self.steps += 1;
        let (to, keep) = match row.decided {
            Decided::Go { to, keep } => (Some(to.0), keep),
            Decided::Failed => (None, false),
        };
        self.write(&Line::Step(StepLine {
            id: row.id.0,
            at,
            position: row.position,
            candidate: row.candidate,
            text: row.text,
            asked: Numbers(row.asked),
            standard: Numbers(row.standard),
            to,
            keep,
        }))
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.bytes += self.line.len() as u64;
        self.file.write_all(&self.line)
    }
}

fn generation_line(id: u32, generation: &Generation) -> GenerationLine {
    let description = generation.description();
    let names = |signals: &Vec<_>| signals.iter().map(signal_name).collect();
    GenerationLine {
        id,
        name: description.name.clone(),
        version: description.version.clone(),
        sha256: generation.digest().to_string(),
        options: generation.config().iter().map(option).collect(),
        signals: generation.plan().signals.iter().map(names).collect(),
    }
}

fn option(setting: &Setting) -> (String, serde_json::Value) {
    (setting.name.clone(), OptionValue::from(&setting.value).to_json())
}
