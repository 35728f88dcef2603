//! Runs side by side: a queue, as many workers as cores and memory allow, and data that runs share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fedsi_data::{DataSpec, InputFile, PartitionSpec, input_files};
use fedsi_fl::Checked;
use fedsi_run::{OpenData, RunError};

/// Receives a comparison's progress: a progress bar, a log, a test. Called from many threads.
pub trait CompareObserver: Sync {
    /// So many jobs, of so many units of work together, are about to begin; `reused` more were done before.
    fn stage(&self, _what: &str, _jobs: usize, _reused: usize, _units: u64) {}
    /// A job begins.
    fn started(&self, _name: &str) {}
    /// Units of work are done.
    fn advanced(&self, _units: u64) {}
    /// Whether to stop: no job begins after that, and those at work save what they have.
    fn wants_to_stop(&self) -> bool {
        false
    }
    /// A job has ended, well or with a reason.
    fn finished(&self, _name: &str, _outcome: Result<(), &str>) {}
}

/// Ignores everything.
impl CompareObserver for () {}

/// Threads on this machine: as many as asked for, or one a core.
pub(crate) fn threads(wanted: usize) -> usize {
    if wanted > 0 { wanted } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

/// Carries out the jobs in their order, `workers` at a time, and hands each the number of threads that it may use:
/// the `threads` divided among those at work, so that the last job has them all. A job that fails, even by
/// panicking, stops no other. No job begins once `stop` says so. Results come in the order of the jobs.
pub(crate) fn run_jobs<J: Sync, R: Send>(
    jobs: &[J],
    workers: usize,
    threads: usize,
    stop: impl Fn() -> bool + Sync,
    each: impl Fn(&J, usize) -> Result<R, String> + Sync,
) -> Vec<Result<R, String>> {
    let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(jobs.len()));
    let results: Vec<Mutex<Option<Result<R, String>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some(job) = jobs.get(index).filter(|_| !stop()) else { return };
                    let beside = left.load(Ordering::SeqCst).clamp(1, workers.max(1));
                    let own = (threads / beside).max(1);
                    let outcome = catch_unwind(AssertUnwindSafe(|| each(job, own))).unwrap_or_else(|_| {
                        Err("it panicked, which is a fault of fedsi (see above)".to_owned())
                    });
                    *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                    left.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let taken = |slot: Mutex<Option<_>>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|slot| taken(slot).unwrap_or_else(|| Err("it never ran".to_owned()))).collect()
}

/// The data that was opened last. Runs come seed by seed: one federation is in memory, two where a seed ends.
#[derive(Default)]
pub(crate) struct DataCache {
    latest: Mutex<Option<Opened>>,
}

struct Opened {
    data: DataSpec,
    partition: PartitionSpec,
    seed: u64,
    opened: OpenData,
}

impl DataCache {
    /// The data of a config: opened once for all configs that want the same.
    pub(crate) fn open(&self, config: &Checked) -> Result<OpenData, RunError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |opened: &&Opened| {
            opened.seed == config.seed && opened.data == config.data && opened.partition == config.partition
        };
        if let Some(found) = latest.as_ref().filter(same) {
            return Ok(found.opened.clone());
        }
        // The old one goes first, if no run needs it.
        *latest = None;
        let opened = OpenData::open(config)?;
        let (data, partition) = (config.data.clone(), config.partition.clone());
        *latest = Some(Opened { data, partition, seed: config.seed, opened: opened.clone() });
        Ok(opened)
    }
}

/// Digests of the files that configs read, as they are now: each set is read once.
#[derive(Default)]
pub(crate) struct FileDigests {
    known: Mutex<Vec<KnownFiles>>,
}

/// The files of some settings, or why they cannot be read.
struct KnownFiles {
    data: DataSpec,
    partition: PathBuf,
    files: Result<Vec<InputFile>, String>,
}

impl FileDigests {
    /// The digests of a config's files, or why there are none.
    pub(crate) fn of(&self, config: &Checked) -> Result<Vec<InputFile>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            |known: &&KnownFiles| known.data == config.data && known.partition == config.partition.path;
        if let Some(known) = known.iter().find(same) {
            return known.files.clone();
        }
        let found = input_files(config.dataset().as_ref(), &config.data, &config.partition);
        let found = found.map_err(|error| error.to_string());
        let (data, partition) = (config.data.clone(), config.partition.path.clone());
        known.push(KnownFiles { data, partition, files: found.clone() });
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use fedsi_data::{DataError, DataForm, Dataset, DatasetDefaults, Datasets, Federation, Size};
    use fedsi_fl::Registry;

    /// A dataset that only the registry of a config knows: the digits under another name.
    #[derive(Debug)]
    struct OwnDigits;

    impl Dataset for OwnDigits {
        fn name(&self) -> &'static str {
            "own-digits"
        }
        fn description(&self) -> &'static str {
            "digits of a test"
        }
        fn form(&self) -> Option<DataForm<'_>> {
            None
        }
        fn defaults(&self, _size: Size) -> DatasetDefaults {
            DatasetDefaults::new(PartitionSpec::labels(3, 2, 2))
        }
        fn open(
            &self,
            data: &DataSpec,
            partition: &PartitionSpec,
            seed: u64,
        ) -> Result<Box<dyn Federation>, DataError> {
            Datasets::builtin().find("digits")?.open(data, partition, seed)
        }
    }

    #[test]
    fn data_is_opened_through_the_registry_of_the_config_and_once() {
        let registry = Registry::builtin().with_dataset(Arc::new(OwnDigits));
        let config = registry.defaults("fedavg", "own-digits", Size::Small).unwrap();
        let config = config.check_with(&registry).unwrap();
        let cache = DataCache::default();
        let opened = cache.open(&config).unwrap().federation;
        assert_eq!(opened.clients(), 3);
        assert!(
            Arc::ptr_eq(&opened, &cache.open(&config).unwrap().federation),
            "the same settings share one federation"
        );
    }

    #[test]
    fn a_job_that_fails_stops_no_other() {
        let outcome = run_jobs(
            &[1, 2, 3, 4, 5],
            3,
            6,
            || false,
            |&job, threads| {
                assert!((2..=6).contains(&threads));
                match job {
                    2 => Err("two".to_owned()),
                    4 => panic!("four"),
                    other => Ok(10 * other),
                }
            },
        );
        assert_eq!((&outcome[0], &outcome[2], &outcome[4]), (&Ok(10), &Ok(30), &Ok(50)));
        assert_eq!(outcome[1], Err("two".to_owned()));
        assert!(outcome[3].as_ref().unwrap_err().contains("panicked"));
    }

    #[test]
    fn threads_are_divided_among_those_at_work() {
        let alone = run_jobs(&[()], 4, 8, || false, |(), threads| Ok(threads));
        assert_eq!(alone, [Ok(8)]);
        let crowded = run_jobs(&[(), ()], 2, 1, || false, |(), threads| Ok(threads));
        assert_eq!(crowded, [Ok(1), Ok(1)]);
        let stopped = run_jobs(&[(), ()], 2, 1, || true, |(), threads| Ok(threads));
        assert!(stopped.iter().all(Result::is_err), "nothing begins: {stopped:?}");
        assert!(run_jobs(&[] as &[()], 2, 2, || false, |(), threads| Ok(threads)).is_empty());
    }
}
