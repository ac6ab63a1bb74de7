//! Compilation with a time limit. A component can be small and still take very long to compile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use thread_priority::ThreadPriority;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::PolicyError;

/// Stack of the compiling thread, in bytes: deeply nested code makes the compiler recurse.
const STACK_BYTES: usize = 8 << 20;

/// Priority of the compiling thread, of 0 to 99: niceness 10, with which it gets a tenth of a core that others keep busy. With
/// less, a busy host could not compile within the limit.
const PRIORITY: u8 = 25;

type Work = Box<dyn FnOnce() + Send>;

/// Compiles one component at a time. A compilation cannot be stopped from outside, so one that takes too long keeps
/// its turn until it ends: uploads can slow each other down, but never take more than one core.
///
/// All is compiled on one thread, which stays. An allocator keeps some memory for every thread that has needed much, so with a
/// thread for each compilation a host whose policies are often replaced would grow for a long time.
#[derive(Default)]
pub(crate) struct Compiler {
    turn: Arc<Turn>,
    /// Where the thread takes its work from, once there is one.
    work: Mutex<Option<SyncSender<Work>>>,
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
        self.hand_over(Box::new(move || {
            let compiled = Component::from_binary(&engine, &bytes);
            drop(turn);
            // Nobody listens any more if it took too long.
            let _ = done.send(compiled);
        }))
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

    /// Gives the thread its work. The caller has the turn, so the thread waits for some; the first caller starts it.
    fn hand_over(&self, work: Work) -> std::io::Result<()> {
        let mut place = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match place.take() {
            Some(sender) => sender,
            None => start()?,
        };
        // It listens as long as there is a sender.
        let _ = sender.send(work);
        *place = Some(sender);
        Ok(())
    }
}

/// Starts the thread that compiles.
fn start() -> std::io::Result<SyncSender<Work>> {
    let (sender, receiver) = sync_channel::<Work>(1);
    let works = move || {
        lower_priority();
        for work in receiver {
            // Whoever waits for it finds its channel closed.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    };
    let thread = Builder::new()
        .name("policy-compiler".to_owned())
        .stack_size(STACK_BYTES);
    thread.spawn(works)?;
    Ok(sender)
}

/// Whoever uploads can wait a little; requests that run cannot. Where it is refused, steps are slower while it compiles.
fn lower_priority() {
    if let Ok(priority) = PRIORITY.try_into() {
        let _ = ThreadPriority::Crossplatform(priority).set_for_current();
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
