//! What a simulation will cost, roughly and before it is built: units of work, and bytes of memory.

mod memory;

pub use memory::{MemoryError, MemoryEstimate, MemoryPart, memory_bytes};

use crate::Part;
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
                Objective::Variational { reference: Reference::Server { inner_steps }, .. } => {
                    3.3 + 1.4 / inner_steps.max(1) as f64
                }
                // A step is one pass over the features.
                Objective::Sample { .. } => 0.02,
                _ if phase.part == Part::Head => 0.1,
                Objective::Point { .. } | Objective::OverSamples => 1.0,
            };
            phases.iter().map(|phase| phase.epochs as f64 * weight(phase)).sum()
        };
        let drawn = config.participants_of(clients).unwrap_or(clients).max(1) as f64;
        let workers = match procedure.participation {
            Participation::Sampled => drawn,
            Participation::Everyone => (clients - config.novel_clients(clients).len().min(clients)) as f64,
        };
        let (often, last) = match &procedure.uncertainty {
            // Choosing a prior variance tries many posteriors.
            Uncertainty::Laplace(laplace) => {
                let choosing = if procedure.searches_prior_variance() { 60.0 } else { 0.0 };
                (10.0 / laplace.posterior_interval.max(1) as f64, 40.0 + choosing)
            }
            Uncertainty::MeanField(mean_field) => (0.0, mean_field.draws as f64),
            Uncertainty::None | Uncertainty::Samples(_) => (0.0, 0.0),
        };
        let modes = procedure.modes.count as f64;
        let units = |work: f64| (work.ceil() as u64).max(1);
        Self {
            round: units(workers * (weigh(&procedure.local) + often)),
            end: units(clients as f64 * modes * (2.0 + weigh(&procedure.personalise) + last)),
        }
    }

    /// The whole run of so many rounds.
    #[must_use]
    pub const fn total(self, rounds: usize) -> u64 {
        self.round.saturating_mul(rounds as u64).saturating_add(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::methods::METHODS;
    use fedsi_data::Size;

    #[test]
    fn a_posterior_costs_more_than_none() {
        let mut sizes = Vec::new();
        for method in METHODS {
            let config = Config::defaults(method.name, "digits", Size::Small).unwrap().check().unwrap();
            let data = fedsi_data::open(&config.data, &config.partition, 1).unwrap();
            let work = WorkEstimate::of(&config, data.clients());
            assert!(work.total(60) > work.round * 60);
            sizes.push((method.name, work));
        }
        let of = |name| sizes.iter().find(|found| found.0 == name).unwrap();
        assert!(of("fedsi").1.end > of("fedavg").1.end);
    }
}
