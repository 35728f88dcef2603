//! Tasks of clients whose networks are on a GPU.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use fedsi_bayes::{LaplaceError, PosteriorError};
use fedsi_data::Federation;
use fedsi_fl::client::{Client, ClientError};
use fedsi_fl::executor::{Executor, ExecutorError, Outcome, Task, Work, Worker};

use crate::CudaError;
use crate::device::lock;
use crate::dispatcher::Dispatcher;
use crate::network::CudaNetwork;

/// Clients that train side by side: three launches of ten, or two of fifteen, whichever the kernels take on an H200.
const CLIENTS_AT_ONCE: usize = 30;

/// Bytes of clients' inputs that are kept on the host where nothing is known of its memory.
const SMALLEST_CACHE: u64 = 192 << 20;

/// Carries out tasks with a thread for each client at work; what their networks compute on the GPU is joined into launches.
///
/// The results are those of any other executor for the same network: which clients are at work together shows in none.
pub struct CudaExecutor {
    worker: Worker,
    network: Arc<CudaNetwork>,
    threads: rayon::ThreadPool,
    /// Clients at once in work that the processor has a part in: posteriors, predictions.
    cores: usize,
}

impl CudaExecutor {
    /// `client` is one whose network is `network`. `threads` 0 means one for each core, for what the processor does.
    ///
    /// # Errors
    /// Threads that the system does not grant.
    pub fn new(
        client: Arc<Client>,
        network: Arc<CudaNetwork>,
        federation: Arc<dyn Federation>,
        threads: usize,
    ) -> Result<Self, ExecutorError> {
        let cores = cores(threads);
        let count = cores.max(CLIENTS_AT_ONCE);
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("client-worker-{index}"))
            .build()
            .map_err(|error| ExecutorError::Threads { threads: count, reason: error.to_string() })?;
        // Data that is made anew each round would cost more than a round.
        let keep = fedsi_fl::memory::available().map_or(SMALLEST_CACHE, |bytes| bytes / 8);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        Ok(Self { worker: Worker::new(client, federation).with_cache(keep), network, threads, cores })
    }

    /// How many clients' posteriors are at work at a time, at most, with this setting of `threads`.
    #[must_use]
    pub fn posteriors_at_once(threads: usize) -> usize {
        cores(threads)
    }

    /// How many clients are worked on at a time, at most.
    #[must_use]
    pub fn parallelism(&self) -> usize {
        self.threads.current_num_threads()
    }
}

/// Remembers a failure of the GPU in a client's posterior, whose errors the engine passes on as the client's.
fn note_posterior_failure(dispatcher: &Dispatcher, error: &ClientError) {
    if let ClientError::Posterior(LaplaceError::Posterior(PosteriorError::Device { reason })) = error {
        dispatcher.note_failure(&CudaError::Call { call: "a posterior", reason: reason.clone() });
    }
}

/// Threads for what the processor does: 0 means one for each core.
fn cores(threads: usize) -> usize {
    if threads > 0 { threads } else { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) }
}

impl Executor for CudaExecutor {
    fn run(
        &self,
        tasks: &mut (dyn Iterator<Item = Task> + Send),
        each: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), ExecutorError> {
        let Some(first) = tasks.next() else { return Ok(()) };
        let most = match first.work {
            Work::Train if !first.download.variances_wanted => self.parallelism(),
            // Memory follows how many posteriors are at work, and the processor has its part in them.
            Work::Train | Work::ScoreCandidates | Work::Evaluate { .. } | Work::ScoreTest => self.cores,
        };
        let workers = tasks.size_hint().1.map_or(most, |others| most.min(others + 1));
        let tasks = Mutex::new(std::iter::once(first).chain(tasks));
        let stop = AtomicBool::new(false);
        let dispatcher = self.network.dispatcher();
        let (sender, receiver) = mpsc::sync_channel(workers);
        // Before any of them starts: the first must not be launched alone.
        let counted = dispatcher.expect(workers);
        self.threads.in_place_scope(|scope| {
            for counted in counted {
                let sender = sender.clone();
                let (tasks, stop) = (&tasks, &stop);
                scope.spawn(move |_| {
                    counted.work(|| {
                        while !stop.load(Ordering::Relaxed) {
                            let Some(task) = lock(tasks).next() else { return };
                            let outcome = self.worker.perform(task);
                            if let Err(error) = &outcome.result {
                                note_posterior_failure(dispatcher, error);
                            }
                            // What a client could not do because the GPU failed is no result of the client's.
                            if dispatcher.has_failed() {
                                stop.store(true, Ordering::Relaxed);
                                return;
                            }
                            if sender.send(outcome).is_err() {
                                return; // the receiver is gone
                            }
                        }
                    });
                });
            }
            drop(sender);
            for outcome in receiver {
                if stop.load(Ordering::Relaxed) {
                    continue;
                }
                if each(outcome).is_break() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
        match dispatcher.take_failure() {
            None => Ok(()),
            Some(error) => Err(ExecutorError::Worker(Box::new(error))),
        }
    }
}
