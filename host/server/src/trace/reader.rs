//! Reads a trace.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use super::format::{EndLine, FORMAT, GenerationLine, Header, Line, RequestLine, StepLine};

/// A whole trace, sorted by request.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The header.
    pub header: Header,
    /// The generations that routed requests.
    pub generations: Vec<GenerationLine>,
    /// The requests, in the order of their admission.
    pub requests: Vec<RecordedRequest>,
    /// Steps of requests whose own line is missing.
    pub orphans: u64,
    /// The end; `None` if the server was killed.
    pub end: Option<EndLine>,
}

/// A request and its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    /// The request.
    pub request: RequestLine,
    /// Its steps as they happened.
    pub steps: Vec<StepLine>,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the trace {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is none of a trace.
    #[error("{}:{line}: {reason}; a trace is what `serve --record` writes", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Written in another format.
    #[error("{}: trace format {found}, this host reads {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format it says it has.
        found: u32,
    },
    /// A plan asks for what was not recorded.
    #[error(
        "the trace has no {signal} at model \"{model}\": it has {known}; record while a policy is served that asks for it"
    )]
    Signal {
        /// The signal.
        signal: String,
        /// The model.
        model: String,
        /// What was recorded there.
        known: String,
    },
}

impl Trace {
    /// Reads a file. The last line may be cut off, as it is after a crash.
    ///
    /// # Errors
    /// [`TraceError`], with the line.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let unreadable = |source| TraceError::Read {
            path: path.to_owned(),
            source,
        };
        let mut lines = BufReader::new(File::open(path).map_err(unreadable)?)
            .lines()
            .enumerate()
            .peekable();
        let wrong = |index: usize, reason: String| TraceError::Line {
            path: path.to_owned(),
            line: index + 1,
            reason,
        };
        let mut trace: Option<Self> = None;
        let mut places = HashMap::new();
        while let Some((index, text)) = lines.next() {
            let line = match serde_json::from_str(&text.map_err(unreadable)?) {
                Ok(line) => line,
                Err(_) if trace.is_some() && lines.peek().is_none() => break,
                Err(error) => return Err(wrong(index, error.to_string())),
            };
            match (&mut trace, line) {
                (None, Line::Header(header)) if header.format == FORMAT => trace = Some(Self::new(header)),
                (None, Line::Header(header)) => {
                    return Err(TraceError::Format {
                        path: path.to_owned(),
                        found: header.format,
                    });
                }
                (None, _) => return Err(wrong(index, "the first line is no header".to_owned())),
                (Some(trace), line) => trace.add(line, &mut places).map_err(|reason| wrong(index, reason))?,
            }
        }
        trace.ok_or_else(|| wrong(0, "the file is empty".to_owned()))
    }

    fn new(header: Header) -> Self {
        Self {
            header,
            generations: Vec::new(),
            requests: Vec::new(),
            orphans: 0,
            end: None,
        }
    }

    fn add(&mut self, line: Line, places: &mut HashMap<u64, usize>) -> Result<(), String> {
        let models = self.header.models.len();
        let indices = match &line {
            Line::Request(request) => [Some(request.entry), None],
            Line::Step(step) => [Some(step.at), step.to],
            Line::Header(_) | Line::Generation(_) | Line::End(_) => [None, None],
        };
        if let Some(index) = indices.into_iter().flatten().find(|&index| index as usize >= models) {
            return Err(format!(
                "model {index}; the header has models 0 to {}",
                models.saturating_sub(1)
            ));
        }
        match line {
            // A server that is started anew begins a file anew, so there is one header.
            Line::Header(_) => {}
            Line::Generation(generation) => self.generations.push(generation),
            Line::Request(request) => {
                places.insert(request.id, self.requests.len());
                let steps = Vec::new();
                self.requests.push(RecordedRequest { request, steps });
            }
            Line::Step(step) => match places.get(&step.id) {
                Some(&place) => self.requests[place].steps.push(step),
                None => self.orphans += 1,
            },
            Line::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    /// The generation of this id.
    pub fn generation(&self, id: u32) -> Option<&GenerationLine> {
        self.generations.iter().find(|generation| generation.id == id)
    }
}
