//! What the host keeps beside a policy's instance: its memory limits and its log.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::bindings::{Level, PolicyImports, types};
use crate::limits::{LOG_LINE_BYTES_MAX, PolicyLimits};

/// The data of a store.
pub(crate) struct Guest {
    policy: Arc<str>,
    limits: PolicyLimits,
    /// Lines logged by the present call.
    log_lines: u32,
    /// The present call's last line at level error. A policy that panics logs the message before it traps.
    said: Option<String>,
}

impl Guest {
    pub(crate) fn new(policy: Arc<str>, limits: PolicyLimits) -> Self {
        Self {
            policy,
            limits,
            log_lines: 0,
            said: None,
        }
    }

    /// Forgets the previous call.
    pub(crate) fn begin_call(&mut self) {
        self.log_lines = 0;
        self.said = None;
    }

    pub(crate) fn take_said(&mut self) -> Option<String> {
        self.said.take()
    }
}

impl types::Host for Guest {}

impl PolicyImports for Guest {
    fn log(&mut self, level: Level, message: String) {
        let line = cut(&message);
        if level == Level::Error {
            self.said = Some(line.to_owned());
        }
        self.log_lines = self.log_lines.saturating_add(1);
        if self.log_lines > self.limits.log_lines_per_call_max {
            return;
        }
        let policy = &*self.policy;
        match level {
            Level::Debug => tracing::debug!(target: "policy", policy, "{line}"),
            Level::Info => tracing::info!(target: "policy", policy, "{line}"),
            Level::Warn => tracing::warn!(target: "policy", policy, "{line}"),
            Level::Error => tracing::error!(target: "policy", policy, "{line}"),
        }
    }
}

/// Why memory was not given.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes of memory wanted")]
pub(crate) struct MemoryDenied {
    /// Wanted in total.
    pub(crate) bytes: usize,
}

/// Growing beyond a limit ends the call: a policy has no use for learning that memory is short, and the error names
/// the cause.
impl ResourceLimiter for Guest {
    fn memory_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.limits.memory_bytes_max {
            return Err(MemoryDenied { bytes: desired }.into());
        }
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let elements_max = self.limits.table_elements_max;
        if desired > elements_max {
            return Err(wasmtime::format_err!(
                "a table of {desired} elements wanted, the limit is {elements_max}"
            ));
        }
        Ok(true)
    }
}

/// At most [`LOG_LINE_BYTES_MAX`] bytes of a text, ending between characters.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOG_LINE_BYTES_MAX)]
}
