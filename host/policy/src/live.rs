//! One WebAssembly instance in a store of its own, and how calls into it end.

use wasmtime::{PoolConcurrencyLimitError, Store, Trap};

use crate::bindings::Policy;
use crate::code::Code;
use crate::guest::{Guest, MemoryDenied};
use crate::limits::PolicyLimits;
use crate::ticker::Ticker;
use crate::{Call, PolicyError};

/// An instance that has not failed. After any error it must be dropped: WebAssembly says nothing of the state in
/// which a trap leaves it.
pub(crate) struct Live {
    store: Store<Guest>,
    exports: Policy,
    limits: PolicyLimits,
}

impl Live {
    /// Instantiates `code`. The component's start functions run here, under the deadline of `init`.
    pub(crate) fn new(code: &Code) -> Result<Self, PolicyError> {
        let limits = code.limits;
        let mut store = Store::new(code.pre.engine(), Guest::new(code.log_name.clone(), limits));
        store.limiter(|guest| guest);
        store.set_hostcall_fuel(limits.answer_bytes_max);
        store.set_epoch_deadline(Ticker::ticks(Call::Instantiate.ms_max(&limits)));
        match code.pre.instantiate(&mut store) {
            Ok(exports) => Ok(Self { store, exports, limits }),
            Err(error) => Err(explain(&error, Call::Instantiate, store.data_mut(), &limits)),
        }
    }

    /// Runs one call under its deadline.
    pub(crate) fn call<R>(
        &mut self,
        call: Call,
        function: impl FnOnce(&Policy, &mut Store<Guest>) -> wasmtime::Result<R>,
    ) -> Result<R, PolicyError> {
        self.store.data_mut().begin_call();
        self.store.set_epoch_deadline(Ticker::ticks(call.ms_max(&self.limits)));
        function(&self.exports, &mut self.store)
            .map_err(|error| explain(&error, call, self.store.data_mut(), &self.limits))
    }
}

#[cold]
fn explain(error: &wasmtime::Error, call: Call, guest: &mut Guest, limits: &PolicyLimits) -> PolicyError {
    let said = guest.take_said();
    if error.is::<PoolConcurrencyLimitError>() {
        return PolicyError::InstancesExhausted {
            instances_max: limits.instances_max,
        };
    }
    if let Some(denied) = error.downcast_ref::<MemoryDenied>() {
        return PolicyError::Memory {
            call,
            bytes: denied.bytes,
            bytes_max: limits.memory_bytes_max,
            said,
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => PolicyError::Deadline {
            call,
            ms_max: call.ms_max(limits),
            said,
        },
        Some(Trap::StackOverflow) => PolicyError::Stack {
            call,
            bytes_max: limits.stack_bytes_max,
            said,
        },
        Some(trap) => PolicyError::Trap {
            call,
            reason: trap.to_string(),
            said,
        },
        None => PolicyError::Trap {
            call,
            reason: error.root_cause().to_string(),
            said,
        },
    }
}
