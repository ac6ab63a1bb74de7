//! The WebAssembly engine all policies of a process share.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::bindings::{Policy, PolicyPre};
use crate::code::Code;
use crate::compile::Compiler;
use crate::guest::Guest;
use crate::limits::PolicyLimits;
use crate::ticker::Ticker;
use crate::verify::verify;
use crate::{Digest, PolicyCode, PolicyError};

/// Core modules in one component: the policy itself and the glue that tools put around it.
const CORE_INSTANCES_MAX: u32 = 8;

/// Tables in one component: the policy's own and the glue's.
const TABLES_MAX: u32 = 4;

/// Guard behind each linear memory, in bytes: accesses with a smaller offset need no bounds check of their own.
const GUARD_BYTES: u64 = 64 * 1024;

/// Memory that a slot keeps when its instance goes, in bytes, so that the next one starts without page faults.
const KEEP_RESIDENT_BYTES: usize = 256 * 1024;

/// Slots of gone instances that stay as they were for the next instance of the same code. A slot holds up to twice the memory
/// above, and policies that were replaced do not come back, so a few of those that serve are enough.
const WARM_SLOTS_MAX: u32 = 8;

/// Loads policies. One for a process is enough; code and instances live on after it.
pub struct PolicyHost {
    engine: Engine,
    linker: Linker<Guest>,
    limits: PolicyLimits,
    compiler: Compiler,
    ticker: Arc<Ticker>,
}

impl PolicyHost {
    /// Starts an engine that holds every policy to `limits`.
    ///
    /// # Errors
    /// Limits with which nothing can run, or an operating system that gives no address space or no thread.
    pub fn new(limits: PolicyLimits) -> Result<Self, PolicyError> {
        limits.check()?;
        let refused = |error: wasmtime::Error| PolicyError::Host {
            reason: format!("{error:#}"),
        };
        let engine = Engine::new(&config(&limits)).map_err(|error| PolicyError::Host {
            reason: format!(
                "{error:#} (memory_bytes_max × instances_max reserve {} MiB of address space)",
                (limits.memory_bytes_max as u64 * u64::from(limits.instances_max)) >> 20
            ),
        })?;
        let mut linker = Linker::new(&engine);
        Policy::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest).map_err(refused)?;
        let ticker = Ticker::start(engine.clone()).map_err(|error| PolicyError::Host {
            reason: error.to_string(),
        })?;
        Ok(Self {
            engine,
            linker,
            limits,
            compiler: Compiler::default(),
            ticker: Arc::new(ticker),
        })
    }

    /// The limits it was started with.
    pub fn limits(&self) -> &PolicyLimits {
        &self.limits
    }

    /// Checks a component, compiles it and asks it to describe itself. Takes up to seconds: not for a thread that
    /// serves requests.
    ///
    /// # Errors
    /// The first thing that is wrong with it, in the order: size, kind, contract version, imports, exports, validity,
    /// types, `describe`.
    pub fn load(&self, bytes: &[u8]) -> Result<PolicyCode, PolicyError> {
        verify(bytes, self.limits.component_bytes_max)?;
        let component = self.compiler.compile(&self.engine, bytes, self.limits.compile_ms_max)?;
        let pre = self.linker.instantiate_pre(&component).and_then(PolicyPre::new);
        let pre = pre.map_err(|error| PolicyError::WrongType {
            reason: format!("{error:#}"),
        })?;
        let digest = Digest::of(bytes);
        let log_name = Arc::from(digest.to_string());
        let code = Code {
            pre,
            limits: self.limits,
            log_name,
            _ticker: Arc::clone(&self.ticker),
        };
        PolicyCode::describe(code, digest)
    }
}

fn config(limits: &PolicyLimits) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(limits.instances_max)
        .total_core_instances(limits.instances_max.saturating_mul(CORE_INSTANCES_MAX))
        .total_memories(limits.instances_max)
        .total_tables(limits.instances_max.saturating_mul(TABLES_MAX))
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(1)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .max_memories_per_module(1)
        .max_memory_size(limits.memory_bytes_max)
        .table_elements(limits.table_elements_max)
        .max_unused_warm_slots(WARM_SLOTS_MAX)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        // The default of 4 GiB a memory saves bounds checks, but a host with limited address space could not start.
        .memory_reservation(limits.memory_bytes_max as u64)
        .memory_guard_size(GUARD_BYTES)
        .max_wasm_stack(limits.stack_bytes_max)
        .epoch_interruption(true)
        .concurrency_support(false)
        .cranelift_opt_level(OptLevel::Speed)
        // The same answer on every machine, down to the bits of a NaN.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        // Nothing a policy needs, and each is more to trust.
        .wasm_multi_memory(false)
        .wasm_memory64(false);
    config
}
