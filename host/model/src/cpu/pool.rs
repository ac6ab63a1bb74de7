//! A model's own threads: one call hands out the parts of a piece of work to them and to the calling thread.
//!
//! Parts are claimed one at a time from a counter, so a thread that the system does not run in time delays nothing but the
//! part it holds; if no other thread comes, the caller does everything. Between two calls of a step the threads look for
//! work a few microseconds long, because waking one takes longer than a small matrix; then they park, so that an idle
//! model costs nothing and models that share cores do not take them from each other.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle, Thread};

use super::columns::Columns;

/// How often a thread looks for new work before it parks: some ten microseconds.
const LOOKS: usize = 2_000;

/// Parts of a product per thread: more would split finer what a late thread delays, and cost more claims.
const PARTS_PER_THREAD: usize = 4;

type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// The threads of one model. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// The work of the call that runs. Written by the caller while the gate is closed and nobody is inside.
    work: UnsafeCell<Option<*const Work<'static>>>,
    caller: UnsafeCell<Option<Thread>>,
    parts: AtomicUsize,
    /// The next part that nobody has claimed.
    next: AtomicUsize,
    /// Whether helpers may enter.
    open: AtomicBool,
    /// Helpers that may be looking at `work`.
    inside: AtomicUsize,
    /// Counts calls, so that a helper sees that a new one began.
    calls: AtomicUsize,
    panicked: AtomicBool,
    end: AtomicBool,
}

// SAFETY: `work` and `caller` are written only by the thread that holds the pool by `&mut`, while the gate is closed and
// `inside` is 0; helpers read them only inside, after they saw the gate open. The pointee is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool of `threads` threads, the calling one among them.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            work: UnsafeCell::new(None),
            caller: UnsafeCell::new(None),
            parts: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            open: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            end: AtomicBool::new(false),
        });
        let mut pool = Self {
            shared,
            helpers: Vec::new(),
        };
        for index in 1..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let name = format!("model-helper-{index}");
            pool.helpers
                .push(thread::Builder::new().name(name).spawn(move || shared.help(index))?);
        }
        Ok(pool)
    }

    /// How many threads work, the caller among them.
    pub(crate) fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `f(part, thread)` once for every part below `parts`; `thread` is below [`Pool::threads`] and never the same in
    /// two calls at one time.
    ///
    /// # Panics
    /// When `f` panics, after all threads have left it.
    fn run(&mut self, parts: usize, f: &Work<'_>) {
        if self.helpers.is_empty() || parts <= 1 {
            (0..parts).for_each(|part| f(part, 0));
            return;
        }
        let shared = &*self.shared;
        // SAFETY: the lifetime is only erased: this function does not return before every helper has left the work.
        let work = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(f) };
        // SAFETY: the gate is closed and nobody is inside, so nothing reads these.
        unsafe {
            *shared.work.get() = Some(work);
            *shared.caller.get() = Some(thread::current());
        }
        shared.parts.store(parts, SeqCst);
        shared.next.store(0, SeqCst);
        shared.open.store(true, SeqCst);
        shared.calls.fetch_add(1, SeqCst);
        for helper in &self.helpers {
            helper.thread().unpark();
        }
        let own = catch_unwind(AssertUnwindSafe(|| shared.claim(f, 0)));
        if own.is_err() {
            shared.next.store(parts, SeqCst);
        }
        shared.open.store(false, SeqCst);
        let mut looks = 0;
        while shared.inside.load(SeqCst) > 0 {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                thread::park();
            }
        }
        let helped = !shared.panicked.swap(false, SeqCst);
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        assert!(helped, "a helper thread of the model panicked; its message is above");
    }

    /// Gives each chunk of `chunk` elements of `out` to `f(chunk index, thread's scratch, chunk)`. `scratch` has one entry a
    /// thread. `cost` is the work of a chunk in multiplications, roughly: too little of it stays on the calling thread.
    pub(crate) fn chunks<T: Send, S: Send>(
        &mut self,
        out: &mut [T],
        chunk: usize,
        cost: usize,
        scratch: &mut [S],
        f: impl Fn(usize, &mut S, &mut [T]) + Sync,
    ) {
        /// Multiplications that are worth a hand-over to another thread.
        const COST_MIN: usize = 20_000;
        assert!(scratch.len() >= self.threads(), "scratch for {} threads", scratch.len());
        let chunks = out.len().div_ceil(chunk.max(1));
        let most = (chunks * cost / COST_MIN).max(1);
        let parts = chunks.min(most).min(self.threads() * PARTS_PER_THREAD);
        let (out, len) = (Pointer(out.as_mut_ptr()), out.len());
        let scratch = Pointer(scratch.as_mut_ptr());
        self.run(parts, &|part, thread| {
            // SAFETY: within `scratch` as asserted, and no other thread has this number now.
            let scratch = unsafe { &mut *scratch.at(thread) };
            for index in part * chunks / parts..(part + 1) * chunks / parts {
                let start = index * chunk;
                // SAFETY: chunks are disjoint and within `out`, and each is in one part.
                let chunk = unsafe { std::slice::from_raw_parts_mut(out.at(start), chunk.min(len - start)) };
                f(index, scratch, chunk);
            }
        });
    }

    /// Splits the `width` columns of `out` into ranges of whole `unit`s (the last may be cut) and gives each to `f`.
    pub(crate) fn columns(&mut self, out: &mut [f32], width: usize, unit: usize, f: impl Fn(Columns<'_>) + Sync) {
        let rows = out.len() / width;
        assert_eq!(rows * width, out.len(), "rows of {width} columns");
        let units = width.div_ceil(unit);
        let parts = match self.threads() {
            1 => 1,
            threads => units.min(threads * PARTS_PER_THREAD),
        };
        let start = Pointer(out.as_mut_ptr());
        self.run(parts, &|part, _| {
            let edge = |part: usize| (part * units / parts * unit).min(width);
            // SAFETY: the ranges of different parts are disjoint and within a row.
            f(unsafe { Columns::new(start.at(0), rows, width, edge(part)..edge(part + 1)) });
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.end.store(true, SeqCst);
        self.shared.calls.fetch_add(1, SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper catches panics of the work, so that there is nothing to learn from its end.
            let _ = helper.join();
        }
    }
}

impl Shared {
    /// Does parts until none is left.
    fn claim(&self, work: &Work<'_>, thread: usize) {
        let parts = self.parts.load(SeqCst);
        loop {
            let part = self.next.fetch_add(1, SeqCst);
            if part >= parts {
                return;
            }
            work(part, thread);
        }
    }

    /// A helper's life.
    fn help(&self, thread: usize) {
        let mut seen = 0;
        loop {
            let mut looks = 0;
            while self.calls.load(SeqCst) == seen {
                looks += 1;
                if looks < LOOKS {
                    std::hint::spin_loop();
                } else {
                    thread::park();
                }
            }
            seen = self.calls.load(SeqCst);
            if self.end.load(SeqCst) {
                return;
            }
            self.inside.fetch_add(1, SeqCst);
            let mut caller = None;
            if self.open.load(SeqCst) {
                // SAFETY: the gate was open while this thread was counted as inside, so the caller waits for it and what
                // it wrote before opening stands.
                let (work, from) = unsafe { (*self.work.get(), &*self.caller.get()) };
                caller.clone_from(from);
                if let Some(work) = work {
                    // SAFETY: as above: the pointee outlives the caller's wait.
                    let done = catch_unwind(AssertUnwindSafe(|| self.claim(unsafe { &*work }, thread)));
                    if done.is_err() {
                        self.next.store(usize::MAX / 2, SeqCst);
                        self.panicked.store(true, SeqCst);
                    }
                }
            }
            if self.inside.fetch_sub(1, SeqCst) == 1
                && let Some(caller) = caller
            {
                caller.unpark();
            }
        }
    }
}

/// A pointer that may cross threads: who uses it answers for what it points to.
struct Pointer<T>(*mut T);

// SAFETY: only the pointer crosses; each use states why its target belongs to one thread.
unsafe impl<T: Send> Sync for Pointer<T> {}

impl<T> Pointer<T> {
    /// # Safety
    /// `index` is within what the pointer was made from.
    unsafe fn at(&self, index: usize) -> *mut T {
        // SAFETY: by the promise above.
        unsafe { self.0.add(index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many small calls one after the other, the pattern of a step: every chunk and column is visited once in each.
    #[test]
    fn every_part_is_done_once_whatever_the_threads() {
        for threads in [1, 2, 3, 5] {
            let mut pool = Pool::new(threads).unwrap();
            let mut scratch = vec![0usize; threads];
            for round in 0..400 {
                let mut out = vec![0u32; 1 + round % 37];
                pool.chunks(&mut out, 3, 1 << 20, &mut scratch, |index, visits, chunk| {
                    *visits += 1;
                    chunk.iter_mut().for_each(|value| *value += index as u32 + 1);
                });
                let expected: Vec<u32> = (0..out.len()).map(|i| i as u32 / 3 + 1).collect();
                assert_eq!(out, expected, "{threads} threads");
                let width = 1 + round % 29;
                let mut out = vec![0.0; 3 * width];
                pool.columns(&mut out, width, 4, |mut columns| {
                    for row in 0..3 {
                        let first = columns.range().start;
                        let slice = columns.row(row);
                        slice
                            .iter_mut()
                            .zip(first..)
                            .for_each(|(value, c)| *value += (row * 100 + c) as f32);
                    }
                });
                let expected: Vec<f32> = (0..3 * width).map(|i| (i / width * 100 + i % width) as f32).collect();
                assert_eq!(out, expected, "{threads} threads");
            }
            let chunks: usize = (0..400).map(|round| (1 + round % 37usize).div_ceil(3)).sum();
            assert_eq!(scratch.iter().sum::<usize>(), chunks);
        }
    }

    #[test]
    fn a_panic_in_a_part_comes_out_and_the_pool_goes_on() {
        let mut pool = Pool::new(3).unwrap();
        let mut scratch = [(); 3];
        for bad in 0..30 {
            let mut out = vec![0u8; 30];
            let found = catch_unwind(AssertUnwindSafe(|| {
                pool.chunks(&mut out, 1, 1 << 20, &mut scratch, |index, (), _| {
                    assert_ne!(index, bad);
                });
            }));
            assert!(found.is_err());
            pool.chunks(&mut out, 1, 1 << 20, &mut scratch, |_, (), chunk| chunk[0] = 1);
            assert_eq!(out, [1; 30]);
        }
    }
}
