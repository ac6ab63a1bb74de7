//! What can go wrong with a policy. Each text says what was found and what would be right.

use crate::Call;
use crate::verify::{CONTRACT_PACKAGE, CONTRACT_VERSION, EXPORTS};

/// Any failure of loading, configuring or calling a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// [`crate::PolicyLimits`] with which nothing could run.
    #[error("policy limits: {reason}")]
    Limits {
        /// The field and its range.
        reason: String,
    },
    /// The WebAssembly engine did not start: out of address space or threads.
    #[error("the WebAssembly engine cannot start: {reason}")]
    Host {
        /// The engine's own words.
        reason: String,
    },

    /// The upload is larger than is accepted.
    #[error("the policy has {bytes} bytes; at most {bytes_max} are accepted")]
    TooLarge {
        /// Found.
        bytes: usize,
        /// Accepted.
        bytes_max: usize,
    },
    /// Not WebAssembly.
    #[error("not a WebAssembly binary: it starts with {start}; a component starts with 00 61 73 6d 0d 00 01 00")]
    NotWasm {
        /// The first bytes, in hexadecimal, or `nothing`.
        start: String,
    },
    /// A core module, which has not been made a component.
    #[error(
        "this is a core WebAssembly module, not a component; make it one with `wasm-tools component new` (the module \
         must carry the contract's types, as those of wit-bindgen do)"
    )]
    CoreModule,
    /// WebAssembly that cannot be read, or that is beyond the limits on memories, tables and instances.
    #[error("the component is not valid: {reason}")]
    Invalid {
        /// What and where.
        reason: String,
    },
    /// A component for something else.
    #[error(
        "not a routing policy: the component has nothing of {CONTRACT_PACKAGE}, expected {CONTRACT_PACKAGE}@{CONTRACT_VERSION}"
    )]
    NotAPolicy,
    /// A policy for another version of the contract.
    #[error(
        "expected {CONTRACT_PACKAGE}@{CONTRACT_VERSION}, found {found}; build the policy against this host's contract"
    )]
    ContractVersion {
        /// The package and version the component names.
        found: String,
    },
    /// The component wants something from outside that a policy does not get.
    #[error(
        "the component imports {}; a policy gets nothing but `log`{}",
        .names.join(", "),
        if names.iter().any(|name| name.starts_with("wasi:")) { " (no WASI: build it for wasm32-unknown-unknown)" } else { "" }
    )]
    ForeignImports {
        /// The imports that are refused.
        names: Vec<String>,
    },
    /// Functions of the contract that the component lacks.
    #[error("the component does not export {}; a policy exports {}", .names.join(", "), EXPORTS.join(", "))]
    MissingExports {
        /// Their names.
        names: Vec<String>,
    },
    /// A function whose type is not the contract's.
    #[error("the component does not fit {CONTRACT_PACKAGE}@{CONTRACT_VERSION}: {reason}")]
    WrongType {
        /// Which function, and how it differs.
        reason: String,
    },
    /// Compilation took too long.
    #[error("compiling the policy took more than {ms_max} ms and was given up")]
    CompileTime {
        /// The limit.
        ms_max: u64,
    },
    /// Another compilation is running, for longer than it is worth to wait for.
    #[error("another policy has been compiling for more than {ms_max} ms; try again later")]
    CompilerBusy {
        /// How long this one waited.
        ms_max: u64,
    },
    /// What a policy says of itself cannot be used.
    #[error("the policy's description: {reason}")]
    Description {
        /// Which field, and its range.
        reason: String,
    },

    /// A deployment no policy can serve.
    #[error("deployment: {reason}")]
    Deployment {
        /// What is wrong with it.
        reason: String,
    },
    /// An option the policy does not have.
    #[error("unknown option `{name}`; the policy has {}", list(.allowed))]
    OptionUnknown {
        /// The option.
        name: String,
        /// The ones that may be set here.
        allowed: Vec<String>,
    },
    /// An option that a request may not set.
    #[error("option `{name}` is set by the deployment, not by a request; a request may set {}", list(.allowed))]
    OptionNotPerRequest {
        /// The option.
        name: String,
        /// The ones a request may set.
        allowed: Vec<String>,
    },
    /// One option given more than once.
    #[error("option `{name}` is given twice")]
    OptionTwice {
        /// The option.
        name: String,
    },
    /// `init` refuses its configuration.
    #[error("the policy refuses its configuration: {text}")]
    ConfigRefused {
        /// The policy's words.
        text: String,
    },
    /// The plan asks for what the host or the deployment does not have.
    #[error("the policy's plan: {reason}")]
    Plan {
        /// What it asks for, and the range.
        reason: String,
    },

    /// `admit` refuses a request. The client's mistake, not the policy's.
    #[error("{text}")]
    Refused {
        /// The policy's words, for the client.
        text: String,
    },
    /// The caller's columns do not fit the plan.
    #[error("the host called `{call}` with {reason}")]
    Arguments {
        /// The function.
        call: Call,
        /// Found and expected.
        reason: String,
    },

    /// All instances that may exist at a time do exist.
    #[error("all {instances_max} policy instances are in use")]
    InstancesExhausted {
        /// The limit.
        instances_max: u32,
    },
    /// A call ran out of time.
    #[error("the policy's `{call}` took more than {ms_max} ms{}", logged(.said))]
    Deadline {
        /// The function.
        call: Call,
        /// Its limit.
        ms_max: u64,
        /// The call's last log line at level error.
        said: Option<String>,
    },
    /// A call wanted too much memory.
    #[error("the policy's `{call}` wanted {bytes} bytes of memory, the memory limit is {bytes_max}{}", logged(.said))]
    Memory {
        /// The function.
        call: Call,
        /// Wanted in total.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
        /// The call's last log line at level error.
        said: Option<String>,
    },
    /// A call needed too much stack.
    #[error("the policy's `{call}` used more than {bytes_max} bytes of stack{}", logged(.said))]
    Stack {
        /// The function.
        call: Call,
        /// The limit.
        bytes_max: usize,
        /// The call's last log line at level error.
        said: Option<String>,
    },
    /// A call ended in any other trap.
    #[error("the policy's `{call}` trapped: {reason}{}", logged(.said))]
    Trap {
        /// The function.
        call: Call,
        /// The trap.
        reason: String,
        /// The call's last log line at level error: the message of a panic, where the policy logs it.
        said: Option<String>,
    },
    /// A call returned something that the contract forbids.
    #[error("the policy's `{call}` returned {reason}")]
    Answer {
        /// The function.
        call: Call,
        /// Found and expected.
        reason: String,
    },
    /// The call was not tried: the calls before it failed, one after the other.
    #[error("the policy is left alone for a while after {faults} faults in a row; the last: {last}")]
    Suspended {
        /// Faults in a row.
        faults: u32,
        /// The last of them.
        last: String,
    },
    /// `init` answered differently from the first time, although its arguments were the same.
    #[error("the policy is not pure: {reason}")]
    Impure {
        /// How it differs.
        reason: String,
    },
}

impl PolicyError {
    /// Whether the policy itself failed in a call: the deployment's failure mode applies, and the instance has been
    /// thrown away.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            PolicyError::Deadline { .. }
                | PolicyError::Memory { .. }
                | PolicyError::Stack { .. }
                | PolicyError::Trap { .. }
                | PolicyError::Answer { .. }
                | PolicyError::Impure { .. }
        )
    }

    /// Whether a request is to blame, so that its client should read the text.
    pub fn is_request_error(&self) -> bool {
        matches!(
            self,
            PolicyError::Refused { .. }
                | PolicyError::OptionUnknown { .. }
                | PolicyError::OptionNotPerRequest { .. }
                | PolicyError::OptionTwice { .. }
        )
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn logged(said: &Option<String>) -> String {
    said.as_ref()
        .map(|line| format!("; it logged: {line}"))
        .unwrap_or_default()
}
