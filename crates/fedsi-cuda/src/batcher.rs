//! Collects the work of several threads into batches.
//!
//! Who comes with work waits until every thread that is counted has come with some or has ended, or for some time; then one
//! of them does all that is there.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::CudaError;
use crate::device::lock;

thread_local! {
    /// Whether this thread is counted among those that a batch waits for.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// How long work waits for that of other threads: one of them may be busy with something else for seconds.
const PATIENCE: Duration = Duration::from_millis(20);

/// How often who waits for a batch looks again, besides being woken.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Collects work of the kind `W`.
pub(crate) struct Batcher<W> {
    state: Mutex<State<W>>,
    changed: Condvar,
}

struct State<W> {
    /// Threads that may still come with work, those that wait included.
    counted: usize,
    waiting: Vec<(u64, W)>,
    /// Whether a batch is being done.
    at_work: bool,
    finished: HashMap<u64, Result<(), CudaError>>,
    tickets: u64,
    /// When the last batch ended.
    last_batch: Option<Instant>,
    /// The first thing that went wrong.
    failure: Option<CudaError>,
}

impl<W> Batcher<W> {
    pub(crate) fn new() -> Self {
        let state = State {
            counted: 0,
            waiting: Vec::new(),
            at_work: false,
            finished: HashMap::new(),
            tickets: 0,
            last_batch: None,
            failure: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// From now on batches wait for so many more threads, each of which must work within its [`Counted`].
    pub(crate) fn expect(&self, threads: usize) -> Vec<Counted<'_, W>> {
        self.state().counted += threads;
        (0..threads).map(|_| Counted(self)).collect()
    }

    /// Has this work done, together with that of other threads: `all` does a batch, on one of their threads. Returns when it
    /// is done.
    pub(crate) fn perform(
        &self,
        work: W,
        all: impl Fn(&[W]) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        // A thread that nobody counted counts itself, for this work.
        let counted = if IS_COUNTED.get() { Vec::new() } else { self.expect(1) };
        let result = self.wait_for(work, all);
        drop(counted);
        result
    }

    /// Remembers that something failed that is not the fault of whose work it was.
    pub(crate) fn note_failure(&self, error: &CudaError) {
        self.state().failure.get_or_insert_with(|| error.clone());
    }

    /// Whether something failed since [`Self::take_failure`].
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// The first failure since the last call.
    pub(crate) fn take_failure(&self) -> Option<CudaError> {
        self.state().failure.take()
    }

    fn wait_for(&self, work: W, all: impl Fn(&[W]) -> Result<(), CudaError>) -> Result<(), CudaError> {
        let mut state = self.state();
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiting.push((ticket, work));
        // Nobody is woken: who comes last does the batch.
        let arrived = Instant::now();
        loop {
            if let Some(result) = state.finished.remove(&ticket) {
                return result;
            }
            // Who came during a batch waits for those that it served.
            let since = state.last_batch.map_or(arrived, |ended| ended.max(arrived));
            let left = (since + PATIENCE).saturating_duration_since(Instant::now());
            let all_came = state.waiting.len() >= state.counted;
            if state.at_work || state.waiting.is_empty() || !(all_came || left.is_zero()) {
                let waited = self.changed.wait_timeout(state, left.max(SHORTEST_WAIT));
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.at_work = true;
            let (tickets, batch): (Vec<u64>, Vec<W>) = std::mem::take(&mut state.waiting).into_iter().unzip();
            drop(state);
            let mut at_work = AtWork { batcher: self, tickets, result: Err(interrupted()) };
            at_work.result = all(&batch);
            drop(at_work);
            state = self.state();
        }
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        lock(&self.state)
    }
}

/// A thread that batches wait for, until this is dropped; also where its work panics.
pub(crate) struct Counted<'a, W>(&'a Batcher<W>);

impl<W> Counted<'_, W> {
    /// Does work of this thread.
    pub(crate) fn work<R>(self, work: impl FnOnce() -> R) -> R {
        /// Also where `work` panics.
        struct Mark;
        impl Drop for Mark {
            fn drop(&mut self) {
                IS_COUNTED.set(false);
            }
        }
        IS_COUNTED.set(true);
        let _mark = Mark;
        work()
    }
}

impl<W> Drop for Counted<'_, W> {
    fn drop(&mut self) {
        self.0.state().counted -= 1;
        self.0.changed.notify_all();
    }
}

/// A batch under way: when it is dropped, whoever is in it learns its result; also where it panicked.
struct AtWork<'a, W> {
    batcher: &'a Batcher<W>,
    tickets: Vec<u64>,
    result: Result<(), CudaError>,
}

impl<W> Drop for AtWork<'_, W> {
    fn drop(&mut self) {
        if let Err(error) = &self.result {
            self.batcher.note_failure(error);
        }
        let mut state = self.batcher.state();
        let tickets = std::mem::take(&mut self.tickets);
        state.finished.extend(tickets.into_iter().map(|ticket| (ticket, self.result.clone())));
        state.last_batch = Some(Instant::now());
        state.at_work = false;
        self.batcher.changed.notify_all();
    }
}

/// What a batch is that never said how it ended.
fn interrupted() -> CudaError {
    let reason = "the thread that made it panicked, which is a fault of fedsi".to_owned();
    CudaError::Call { call: "a launch", reason }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Threads that each come with work several times, or end; how large the batches were.
    fn batches(threads: usize, each: impl Fn(usize, &dyn Fn(usize)) + Sync) -> Vec<usize> {
        let (batcher, sizes) = (Batcher::new(), Mutex::new(Vec::new()));
        let perform = |work: usize| {
            let all = |batch: &[usize]| {
                lock(&sizes).push(batch.len());
                Ok(())
            };
            batcher.perform(work, all).unwrap();
        };
        std::thread::scope(|scope| {
            for (thread, counted) in batcher.expect(threads).into_iter().enumerate() {
                let (each, perform) = (&each, &perform);
                scope.spawn(move || counted.work(|| each(thread, perform)));
            }
        });
        assert_eq!(lock(&batcher.state).counted, 0);
        sizes.into_inner().unwrap()
    }

    #[test]
    fn all_that_are_counted_are_in_a_batch() {
        let found = batches(7, |thread, perform| {
            for _ in 0..3 {
                std::thread::sleep(Duration::from_micros(300 * thread as u64));
                perform(thread);
            }
        });
        assert_eq!(found, [7, 7, 7]);
    }

    #[test]
    fn who_ends_is_not_waited_for() {
        let begun = Instant::now();
        let found = batches(4, |thread, perform| {
            if thread > 0 {
                perform(thread);
            }
        });
        assert_eq!(found, [3]);
        assert!(begun.elapsed() < PATIENCE, "it waited for a thread that had ended");
    }

    #[test]
    fn who_is_busy_for_long_is_not_waited_for() {
        let found = batches(3, |thread, perform| {
            if thread == 0 {
                std::thread::sleep(5 * PATIENCE);
            }
            perform(thread);
        });
        assert_eq!(found, [2, 1]);
    }

    #[test]
    fn a_thread_that_nobody_counted_is_served() {
        let batcher = Batcher::new();
        assert_eq!(
            batcher.perform(1, |batch| if batch == [1] { Ok(()) } else { Err(interrupted()) }),
            Ok(())
        );
        assert!(!batcher.has_failed());
    }

    #[test]
    fn a_failure_and_a_panic_reach_everybody_in_the_batch() {
        for panics in [false, true] {
            let (batcher, failed) = (Batcher::new(), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for counted in batcher.expect(4) {
                    let (batcher, failed) = (&batcher, &failed);
                    scope.spawn(move || {
                        let perform = || {
                            counted.work(|| {
                                let all = |_: &[()]| -> Result<(), CudaError> {
                                    if panics {
                                        panic!("on purpose")
                                    }
                                    Err(CudaError::Compile("on purpose".to_owned()))
                                };
                                batcher.perform((), all)
                            })
                        };
                        // The one that did the batch panics itself.
                        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(perform));
                        if result.is_err() || result.is_ok_and(|result| result.is_err()) {
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(failed.into_inner(), 4, "panics: {panics}");
            assert!(batcher.take_failure().is_some() && !batcher.has_failed());
        }
    }
}
