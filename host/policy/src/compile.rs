//! Compilation with a time limit. A component can be small and still take very long to compile.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::PolicyError;

/// Stack of the compiling thread, in bytes: deeply nested code makes the compiler recurse.
const STACK_BYTES: usize = 8 << 20;

/// Compiles one component at a time. A compilation cannot be stopped from outside, so one that takes too long keeps
/// its turn until it ends: uploads can slow each other down, but never take more than one core.
#[derive(Default)]
pub(crate) struct Compiler {
    turn: Arc<Turn>,
}

#[derive(Default)]
struct Turn {
    taken: Mutex<bool>,
    given_back: Condvar,
}

impl Compiler {
    /// Compiles `bytes`, waiting at most `ms_max` for its turn and as long again for the result.
    pub(crate) fn compile(&self, engine: &Engine, bytes: &[u8], ms_max: u64) -> Result<Component, PolicyError> {
        let time = Duration::from_millis(ms_max);
        let turn = Turn::take(&self.turn, time).ok_or(PolicyError::CompilerBusy { ms_max })?;
        let (engine, bytes) = (engine.clone(), bytes.to_vec());
        let (done, result) = sync_channel(1);
        Builder::new()
            .name("policy-compiler".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let compiled = Component::from_binary(&engine, &bytes);
                drop(turn);
                // Nobody listens any more if it took too long.
                let _ = done.send(compiled);
            })
            .map_err(|error| PolicyError::Host {
                reason: error.to_string(),
            })?;
        match result.recv_timeout(time) {
            Ok(compiled) => compiled.map_err(|error| PolicyError::Invalid {
                reason: format!("{error:#}"),
            }),
            Err(RecvTimeoutError::Timeout) => Err(PolicyError::CompileTime { ms_max }),
            Err(RecvTimeoutError::Disconnected) => Err(PolicyError::Invalid {
                reason: "the compiler failed on it".to_owned(),
            }),
        }
    }
}

impl Turn {
    fn take(this: &Arc<Self>, time: Duration) -> Option<TakenTurn> {
        let (mut taken, _) = this
            .given_back
            .wait_timeout_while(this.lock(), time, |taken| *taken)
            .unwrap_or_else(PoisonError::into_inner);
        if *taken {
            return None;
        }
        *taken = true;
        Some(TakenTurn(Arc::clone(this)))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the turn back when dropped, also if the compiler panics.
struct TakenTurn(Arc<Turn>);

impl Drop for TakenTurn {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.given_back.notify_one();
    }
}
