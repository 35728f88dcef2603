//! What a simulation will cost, roughly and before it is built: units of work, and bytes of memory.

use fedsi_data::{Federation, Split, Task};

use crate::Part;
use crate::config::ConfigError;
use crate::executor::CACHE_BYTES;
use crate::methods::{Objective, Participation, Phase, Reference, Uncertainty};
use crate::registry::Checked;

/// Work of a simulation, in units that mean the same for all methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// One round.
    pub round: u64,
    /// Personalising and predicting at the end.
    pub end: u64,
}

impl WorkEstimate {
    /// Guessed from the method's declaration: epochs weigh by what they train, a posterior as a few epochs. Wrong
    /// guesses cost a less even end of the queue and a poorer forecast, nothing else.
    #[must_use]
    pub fn of(config: &Checked, clients: usize) -> Self {
        let procedure = config.procedure();
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
        let workers = match procedure.participation {
            Participation::Sampled => drawn,
            Participation::Everyone => clients as f64,
        };
        let (often, last) = match &procedure.uncertainty {
            // Choosing a prior variance tries many posteriors.
            Uncertainty::Laplace(laplace) => {
                let choosing = if procedure.searches_prior_variance() { 300.0 } else { 0.0 };
                (10.0 / laplace.posterior_interval.max(1) as f64, 40.0 + choosing)
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

    /// The whole run of so many rounds.
    #[must_use]
    pub const fn total(self, rounds: usize) -> u64 {
        self.round.saturating_mul(rounds as u64).saturating_add(self.end)
    }
}

/// Bytes that a simulation may hold beside the data it is given: an estimate on the safe side, known before it is built.
///
/// # Errors
/// A network that does not fit the data.
pub fn memory_bytes(
    config: &Checked,
    federation: &dyn Federation,
    threads: usize,
) -> Result<u64, ConfigError> {
    let network = config.network(federation.input_shape(), federation.task())?;
    let procedure = config.procedure();
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
    let at_work = match procedure.participation {
        Participation::Sampled => config.participants_of(clients)?,
        Participation::Everyone => clients,
    } as u64;
    let cached = (4 * width * train).min(CACHE_BYTES as u64);
    // Parameters of the cohort's work and of its uploads, server and personal parts included; a distribution is twice
    // as much.
    let twice = if matches!(procedure.uncertainty, Uncertainty::MeanField(_)) { 2 } else { 1 };
    let on_disk = !config.checkpoint.state_dir.as_os_str().is_empty();
    let kept = if on_disk { 0 } else { procedure.kept.range(network.layout()).len() as u64 * clients as u64 };
    // The executor works on a few at a time; their uploads are all there when the server averages them.
    let shared = procedure.shared.range(network.layout()).len() as u64 * at_work;
    let models = 4 * twice * (parameters * (4 + 3 * threads) + shared + kept);
    // A posterior's factor: its parameters by what the data can say, twice while it is made.
    let posterior = procedure.laplace().map_or(0, |laplace| {
        let candidates = procedure.shared.range(network.layout()).len();
        let size = laplace.structure.size(candidates) as u64;
        let rank = if size == candidates as u64 { 1 } else { size.min(largest * outputs) };
        16 * size * rank
    });
    // Each thread: parameters with optimiser state, a client's samples in both precisions, a posterior.
    let per_thread = 4 * parameters * (if twice == 2 { 20 } else { 6 }) + 12 * width * largest + posterior;
    let predictions = 16 * outputs * test;
    Ok(cached + models + threads * per_thread + predictions + (16 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::methods::METHODS;
    use fedsi_data::Size;

    #[test]
    fn a_run_on_digits_is_small_and_a_posterior_costs_more_than_none() {
        let mut sizes = Vec::new();
        for method in METHODS {
            let config = Config::defaults(method.name, "digits", Size::Small).unwrap().check().unwrap();
            let data = fedsi_data::open(&config.data, &config.partition, 1).unwrap();
            let size = memory_bytes(&config, data.as_ref(), 2).unwrap();
            assert!((8 << 20..2 << 30).contains(&size), "{}: {size}", method.name);
            let work = WorkEstimate::of(&config, data.clients());
            assert!(work.total(60) > work.round * 60);
            sizes.push((method.name, size, work));
        }
        let of = |name| sizes.iter().find(|found| found.0 == name).unwrap();
        assert!(of("fedsi").1 > of("fedavg").1 && of("fedsi").2.end > of("fedavg").2.end);
    }
}
