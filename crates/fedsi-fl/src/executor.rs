//! Who carries out the work of a cohort of clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use fedsi_data::{Federation, Samples, Split};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use rand::seq::SliceRandom as _;
use rayon::prelude::*;

use crate::RunError;
use crate::work::{Busy, LocalData, LocalWork, Trade, Trained, Workbench};

/// Memory for clients' samples that are kept from round to round.
const CACHE_BYTES: usize = 512 << 20;

/// A cohort's work on the cores of this machine: clients side by side, one thread each.
pub struct CpuExecutor {
    trade: Trade,
    federation: Arc<dyn Federation>,
    held_out: f64,
    aside: f64,
    streams: Streams,
    threads: rayon::ThreadPool,
    benches: Mutex<Vec<Workbench>>,
    cache: Mutex<Cache>,
}

impl CpuExecutor {
    /// `threads` 0 means one for each core; `held_out` is the share of training data kept for validation.
    ///
    /// # Errors
    /// Threads that the system does not grant.
    pub fn new(
        trade: Trade,
        federation: Arc<dyn Federation>,
        held_out: f64,
        streams: Streams,
        threads: usize,
    ) -> Result<Self, RunError> {
        // Layers run on one thread each: clients are what is parallel.
        faer::disable_global_parallelism();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("client-worker-{index}"))
            .build()
            .map_err(|error| RunError::Threads { threads, reason: error.to_string() })?;
        let (benches, cache) = (Mutex::default(), Mutex::default());
        Ok(Self { trade, federation, held_out, aside: 0.0, streams, threads: pool, benches, cache })
    }

    /// From now on clients set this share of their training data aside.
    pub fn set_aside(&mut self, share: f64) {
        self.aside = share;
        *lock(&self.cache) = Cache::default();
    }

    /// The network and how it is trained.
    #[must_use]
    pub const fn trade(&self) -> &Trade {
        &self.trade
    }

    /// How many clients are at work side by side.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Carries out each client's work and hands what came of it, with the client's data, to `then`, still on
    /// the client's thread. Results are in the order of the work, and do not depend on the number of threads.
    pub fn each<R: Send>(
        &self,
        cohort: Vec<LocalWork>,
        then: impl Fn(Trained, &LocalData, Busy) -> R + Sync,
    ) -> Vec<R> {
        self.threads.install(|| {
            // Clients are few and long: hand them out one by one.
            let clients = cohort.into_par_iter().with_max_len(1);
            clients
                .map(|work| {
                    let data = self.data(work.client);
                    let mut bench = lock(&self.benches).pop().unwrap_or_default();
                    let trained = self.trade.carry_out(work, &data, &mut bench);
                    let busy = bench.busy;
                    lock(&self.benches).push(bench);
                    then(trained, &data, busy)
                })
                .collect()
        })
    }

    /// A client's training data: from the cache, or made anew.
    fn data(&self, client: usize) -> Arc<LocalData> {
        if let Some(data) = lock(&self.cache).get(client) {
            return data;
        }
        let samples = self.federation.samples(client, Split::Train);
        let mut data = LocalData::all(samples);
        let cut = |samples: &mut Samples, share, purpose| {
            let mut rng = self.streams.stream(purpose, client as u64, 0);
            cut_off(samples, share, &mut rng)
        };
        data.held_out = cut(&mut data.train, self.held_out, Purpose::Validation);
        data.aside = cut(&mut data.train, self.aside, Purpose::Calibration);
        let data = Arc::new(data);
        lock(&self.cache).put(client, Arc::clone(&data));
        data
    }
}

/// Cuts a random share of samples off, and returns it.
fn cut_off(samples: &mut Samples, share: f64, rng: &mut ChaCha8Rng) -> Samples {
    let mut order: Vec<usize> = (0..samples.count).collect();
    order.shuffle(rng);
    order.truncate((samples.count as f64 * share).floor() as usize);
    if order.is_empty() {
        return samples.select(&[]);
    }
    order.sort_unstable();
    let (cut, rest) = samples.split(&order);
    *samples = rest;
    cut
}

/// A lock held only for moments, by code that does not panic: a poisoned one still guards sound data.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data of the clients seen last, up to [`CACHE_BYTES`]. Memory follows participants: with many clients the
/// oldest make room.
#[derive(Debug, Default)]
struct Cache {
    entries: VecDeque<(usize, Arc<LocalData>)>,
    bytes: usize,
}

impl Cache {
    fn get(&mut self, client: usize) -> Option<Arc<LocalData>> {
        let index = self.entries.iter().position(|&(owner, _)| owner == client)?;
        let entry = self.entries.remove(index)?;
        let data = Arc::clone(&entry.1);
        self.entries.push_back(entry);
        Some(data)
    }

    fn put(&mut self, client: usize, data: Arc<LocalData>) {
        let size = bytes(&data);
        while self.bytes + size > CACHE_BYTES {
            let Some((_, oldest)) = self.entries.pop_front() else { return };
            self.bytes -= bytes(&oldest);
        }
        self.bytes += size;
        self.entries.push_back((client, data));
    }
}

fn bytes(data: &LocalData) -> usize {
    // Inputs dominate; a target is one value beside hundreds.
    (data.train.inputs.len() + data.held_out.inputs.len() + data.aside.inputs.len()) * size_of::<f32>()
}
