//! Tasks on the cores of this machine: clients side by side, one thread each.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use super::{Executor, ExecutorError, Outcome, Task, Worker};

/// Carries out tasks on the cores of this machine.
pub struct CpuExecutor {
    worker: Worker,
    threads: rayon::ThreadPool,
}

impl CpuExecutor {
    /// `threads` 0 means one for each core.
    ///
    /// # Errors
    /// Threads that the system does not grant.
    pub fn new(worker: Worker, threads: usize) -> Result<Self, ExecutorError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("client-worker-{index}"))
            .build()
            .map_err(|error| ExecutorError::Threads { threads, reason: error.to_string() })?;
        Ok(Self { worker, threads: pool })
    }

    /// How many tasks are worked on at a time.
    #[must_use]
    pub fn parallelism(&self) -> usize {
        self.threads.current_num_threads()
    }
}

impl Executor for CpuExecutor {
    fn run(
        &self,
        tasks: &mut (dyn Iterator<Item = Task> + Send),
        each: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), ExecutorError> {
        let tasks = Mutex::new(tasks);
        let stop = AtomicBool::new(false);
        // As many finished outcomes may wait as there are threads at work.
        let (sender, receiver) = mpsc::sync_channel(self.parallelism());
        self.threads.in_place_scope(|scope| {
            for _ in 0..self.parallelism() {
                let sender = sender.clone();
                let (tasks, stop) = (&tasks, &stop);
                scope.spawn(move |_| {
                    while !stop.load(Ordering::Relaxed) {
                        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(task) = task else { return };
                        if sender.send(self.worker.perform(task)).is_err() {
                            return; // the receiver is gone
                        }
                    }
                });
            }
            drop(sender);
            for outcome in receiver {
                if each(outcome).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    break;
                }
            }
        });
        Ok(())
    }
}
