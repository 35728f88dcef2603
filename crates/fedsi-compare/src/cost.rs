//! What a run will cost, roughly: units of work to order runs and to tell the time left, and bytes to decide how
//! many fit side by side.

use std::fs;

use fedsi_data::{Federation, Split, Task};
use fedsi_fl::methods::{Objective, Phase, Reference, Uncertainty, Workers};
use fedsi_fl::{Checked, Part, RunError};

/// Work of a run, in units that mean the same for all methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// One round.
    pub(crate) round: u64,
    /// Personalising and predicting at the end.
    pub(crate) end: u64,
}

impl Work {
    /// Guessed from the method's declaration: epochs weigh by what they train, a posterior as a few epochs. Wrong
    /// guesses cost a less even end of the queue and a poorer forecast, nothing else.
    pub(crate) fn of(config: &Checked, clients: usize) -> Self {
        let procedure = (config.method().declare)(config);
        let weigh = |phases: &[Phase]| -> f64 {
            let weight = |phase: &Phase| match phase.objective {
                // Twice the products, and two or four values a parameter to train.
                Objective::Variational { reference: Reference::Start, .. } => 3.3,
                Objective::Variational { reference: Reference::Server, .. } => 4.7,
                _ if phase.part == Part::Head => 0.1,
                Objective::Point { .. } | Objective::Sample { .. } | Objective::OverSamples => 1.0,
            };
            phases.iter().map(|phase| phase.epochs as f64 * weight(phase)).sum()
        };
        let drawn = config.participants_of(clients).unwrap_or(clients).max(1) as f64;
        let workers = match procedure.workers {
            Workers::Drawn => drawn,
            Workers::Everyone => clients as f64,
        };
        let (often, last) = match &procedure.uncertainty {
            // Choosing a prior variance tries many posteriors.
            Uncertainty::Laplace(laplace) => {
                let choosing = if procedure.calibrates() { 300.0 } else { 0.0 };
                (10.0 / laplace.every.max(1) as f64, 40.0 + choosing)
            }
            Uncertainty::MeanField(mean_field) => (0.0, mean_field.draws as f64),
            Uncertainty::None | Uncertainty::Samples(_) => (0.0, 0.0),
        };
        let units = |work: f64| (work.ceil() as u64).max(1);
        Self {
            round: units(workers * (weigh(&procedure.local) + often)),
            end: units(clients as f64 * (2.0 + weigh(&procedure.personalise) + last)),
        }
    }

    /// The whole run.
    pub(crate) const fn total(self, rounds: usize) -> u64 {
        self.round.saturating_mul(rounds as u64).saturating_add(self.end)
    }
}

/// Bytes that a run may hold beside the data it shares: an estimate on the safe side.
///
/// # Errors
/// A network that does not fit the data.
pub(crate) fn bytes(config: &Checked, federation: &dyn Federation, threads: usize) -> Result<u64, RunError> {
    /// What the executor keeps of clients' samples at most.
    const MOST_CACHED: u64 = 512 << 20;
    let network = config.network(federation.input_shape(), federation.task())?;
    let procedure = (config.method().declare)(config);
    let (parameters, threads) = (network.layout().len() as u64, threads as u64);
    let width = federation.input_shape().iter().product::<usize>() as u64;
    let outputs = match federation.task() {
        Task::Classification { classes } => classes as u64,
        Task::Regression { outputs } => outputs as u64,
    };
    let clients = federation.clients();
    let (mut train, mut test, mut largest) = (0, 0, 0);
    for client in 0..clients {
        let counts = [Split::Train, Split::Test].map(|split| federation.count(client, split) as u64);
        (train, test) = (train + counts[0], test + counts[1]);
        largest = largest.max(counts[0]).max(counts[1]);
    }
    let at_work = match procedure.workers {
        Workers::Drawn => config.participants_of(clients)?,
        Workers::Everyone => clients,
    } as u64;
    let cached = (4 * width * train).min(MOST_CACHED);
    // Parameters of the cohort's work and of its uploads, server and personal parts included; a distribution is twice
    // as much.
    let twice = if matches!(procedure.uncertainty, Uncertainty::MeanField(_)) { 2 } else { 1 };
    let models = 4 * twice * parameters * (4 + 3 * at_work + clients as u64);
    // A posterior's factor: its parameters by what the data can say, twice while it is made.
    let posterior = procedure.laplace().map_or(0, |laplace| {
        let candidates = procedure.shared.range(network.layout()).len();
        let size = laplace.structure.size(candidates) as u64;
        let rank = if size == candidates as u64 { 1 } else { size.min(largest * outputs) };
        16 * size * rank
    });
    // Each thread: parameters with optimiser state, a client's samples in both precisions, a posterior.
    let workbench = 4 * parameters * (if twice == 2 { 20 } else { 6 }) + 12 * width * largest + posterior;
    let predictions = 16 * outputs * test;
    Ok(cached + models + threads * workbench + predictions + (16 << 20))
}

/// How many runs of this size fit into the memory that is free, with a fifth of it left alone; at least 1. Where the
/// system does not tell, as many as one likes.
pub(crate) fn runs_that_fit(bytes: u64) -> usize {
    let Some(free) = free_memory() else { return usize::MAX };
    usize::try_from((free / 5 * 4) / bytes.max(1)).unwrap_or(usize::MAX).max(1)
}

/// Memory that can be had: of the machine, and within the limit of a container.
fn free_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    Some(limit.map_or(machine, |(most, used)| machine.min(most.saturating_sub(used))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_data::{DatasetName, Size};
    use fedsi_fl::Config;
    use fedsi_fl::methods::METHODS;

    #[test]
    fn a_run_on_digits_is_small_and_a_posterior_costs_more_than_none() {
        let mut sizes = Vec::new();
        for method in METHODS {
            let config = Config::defaults(method.name, DatasetName::Digits, Size::Small).check().unwrap();
            let data = fedsi_data::open(&config.data, &config.partition, 1).unwrap();
            let size = bytes(&config, data.as_ref(), 2).unwrap();
            assert!((8 << 20..2 << 30).contains(&size), "{}: {size}", method.name);
            let work = Work::of(&config, data.clients());
            assert!(work.total(60) > work.round * 60);
            sizes.push((method.name, size, work));
        }
        let of = |name| sizes.iter().find(|found| found.0 == name).unwrap();
        assert!(of("fedsi").1 > of("fedavg").1 && of("fedsi").2.end > of("fedavg").2.end);
        assert_eq!(runs_that_fit(u64::MAX), 1);
    }
}
