//! Every bound on a policy in one place.

use crate::PolicyError;

/// Longest log line taken from a policy, in bytes; the rest of it is cut. Also bounds the texts of refusals.
pub const LOG_LINE_BYTES_MAX: usize = 512;

/// How often the epoch that ends overlong calls advances, in milliseconds: the resolution of every deadline.
pub(crate) const TICK_MS: u64 = 2;

/// Longest name or version a policy may give itself, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// Size of a page of linear memory, in bytes.
const WASM_PAGE_BYTES: usize = 64 * 1024;

/// What a policy may use. The defaults are far above what a policy needs and far below what hurts a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyLimits {
    /// Largest component that is accepted, in bytes. Default 4 MiB.
    pub component_bytes_max: usize,
    /// Longest compilation, in milliseconds. Compilation runs on a thread of its own, one at a time; it cannot be
    /// stopped, so one that runs past this is abandoned and nothing else is compiled until it ends. Default 10,000.
    pub compile_ms_max: u64,
    /// Linear memory of one instance, in bytes, a multiple of 64 KiB. Default 16 MiB.
    pub memory_bytes_max: usize,
    /// Elements of one table of functions. Default 10,000.
    pub table_elements_max: usize,
    /// Stack of one call, in bytes. It is taken from the calling thread's own stack. Default 256 KiB.
    pub stack_bytes_max: usize,
    /// Instances that exist at the same time, over all policies of a host. Address space of
    /// `instances_max` × `memory_bytes_max` is reserved at the start; memory is used only by instances that exist.
    /// Default 128: 16 generations at 8 models.
    pub instances_max: u32,
    /// Deadline of `route`, `send`, `receive` and `admit`, in milliseconds of the clock on the wall. A call ends within
    /// a few milliseconds after it. Calls take microseconds; the default of 100 leaves room for a thread that waits
    /// for a core.
    pub call_ms_max: u64,
    /// Deadline of making an instance, of `describe` and of `init`, each, in milliseconds. Default 500.
    pub init_ms_max: u64,
    /// Bytes a policy may hand over in one answer or one log line. Default 1 MiB.
    pub answer_bytes_max: usize,
    /// Log lines taken from one call; the others are dropped. Default 16.
    pub log_lines_per_call_max: u32,
}

impl Default for PolicyLimits {
    fn default() -> Self {
        Self {
            component_bytes_max: 4 << 20,
            compile_ms_max: 10_000,
            memory_bytes_max: 16 << 20,
            table_elements_max: 10_000,
            stack_bytes_max: 256 << 10,
            instances_max: 128,
            call_ms_max: 100,
            init_ms_max: 500,
            answer_bytes_max: 1 << 20,
            log_lines_per_call_max: 16,
        }
    }
}

impl PolicyLimits {
    /// Refuses values with which no policy could run.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let refuse = |reason: &str| {
            Err(PolicyError::Limits {
                reason: reason.to_owned(),
            })
        };
        if self.memory_bytes_max == 0 || !self.memory_bytes_max.is_multiple_of(WASM_PAGE_BYTES) {
            return refuse("memory_bytes_max must be a positive multiple of 65536");
        }
        if self.memory_bytes_max > u32::MAX as usize {
            return refuse("memory_bytes_max must be below 4 GiB");
        }
        if self.stack_bytes_max < 16 << 10 {
            return refuse("stack_bytes_max must be at least 16384");
        }
        if self.instances_max == 0 {
            return refuse("instances_max must be at least 1");
        }
        if self.call_ms_max == 0 || self.init_ms_max == 0 || self.compile_ms_max == 0 {
            return refuse("call_ms_max, init_ms_max and compile_ms_max must be at least 1");
        }
        Ok(())
    }
}
