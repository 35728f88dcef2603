//! Which declarations make sense: checked once, so that nothing that trains or predicts meets one that does not.

use thiserror::Error;

use super::{Objective, Phase, Prior, Procedure, Reference, Uncertainty};
use crate::parameters::Part;

/// Why a method's declaration makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProcedureError {
    /// A phase trains a distribution, and the method has point values.
    #[error("a variational phase needs `Uncertainty::MeanField`")]
    VariationalWithoutDistribution,
    /// A phase trains point values, and the method has distributions.
    #[error("with `Uncertainty::MeanField` every phase must be variational")]
    PointOfDistribution,
    /// A phase draws or uses samples, and the method keeps none.
    #[error("a phase that draws or averages over samples needs `Uncertainty::Samples`")]
    SamplesWithoutStore,
    /// Samples are of something else than the kept head.
    #[error(
        "samples are of the head, which the client must keep: `kept: Part::Head` and sampling phases of `Part::Head`"
    )]
    SamplesOfOtherParts,
    /// Nothing draws the samples that predictions average.
    #[error("`Uncertainty::Samples` needs a local phase that draws them")]
    NoSampling,
    /// A phase averages over samples before any are drawn.
    #[error("a phase that averages over samples must come after one that draws them")]
    SamplesTooLate,
    /// A phase has the server's Gaussian as its prior, and the server holds points.
    #[error("a prior from the server needs `Uncertainty::Laplace`: the server holds no Gaussian otherwise")]
    PriorWithoutGaussian,
    /// A phase is held to the server's distribution, which covers only a part.
    #[error("a phase held to the server's distribution needs `shared: Part::All`")]
    ReferenceOfPart,
    /// A Laplace posterior of nothing.
    #[error("`Uncertainty::Laplace` needs a shared part")]
    PosteriorOfNothing,
    /// What a client keeps would replace what it receives.
    #[error("what is shared is also kept, so that no client would ever use what it receives")]
    KeptOverShared,
    /// Numbers of draws, samples or rounds that must be at least 1.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// A sampling phase keeps none of its samples.
    #[error("a sampling phase must have more steps than it discards")]
    AllDiscarded,
    /// A phase averages over samples of the head and trains something else than the body.
    #[error("a phase that averages over samples trains the body: `part: Part::Body`")]
    OverSamplesOfOtherParts,
    /// A first stage of something else than points.
    #[error("a warm start needs point values: `Uncertainty::None`")]
    WarmStartOfOtherKinds,
    /// A first stage that is the whole run.
    #[error("a warm start must leave rounds to the method: fewer than the run has")]
    WarmStartOnly,
    /// More than the head of a network whose head is samples is tuned.
    #[error("its head is a set of samples, which tuning goes on drawing; no phase tunes the body with it")]
    TuningOfSamples,
    /// A client trains nothing in a round.
    #[error("a round has no local phase")]
    NoLocalPhase,
    /// A mixture of networks of which clients keep a part.
    #[error("more than one mode needs `kept: Part::Nothing`: what clients keep is of one network")]
    ModesOfKept,
}

impl Procedure {
    /// Whether what it declares fits together.
    ///
    /// # Errors
    /// The first thing that does not.
    pub fn check(&self) -> Result<(), ProcedureError> {
        use ProcedureError as Problem;
        if self.local.is_empty() {
            return Err(Problem::NoLocalPhase);
        }
        self.check_phases(&self.local)?;
        self.check_phases(&self.personalise)?;
        let held_to_server = self.phases().any(|phase| {
            matches!(phase.objective, Objective::Variational { reference: Reference::Server { .. }, .. })
        });
        if overlap(self.shared, self.kept) && !held_to_server {
            return Err(Problem::KeptOverShared);
        }
        if held_to_server && self.shared != Part::All {
            return Err(Problem::ReferenceOfPart);
        }
        if self.modes.count > 1 && self.kept != Part::Nothing {
            return Err(Problem::ModesOfKept);
        }
        self.check_numbers()?;
        self.check_warm_start()?;
        match self.uncertainty {
            Uncertainty::Laplace(_) if self.shared == Part::Nothing => Err(Problem::PosteriorOfNothing),
            Uncertainty::Samples(_) if self.kept != Part::Head => Err(Problem::SamplesOfOtherParts),
            Uncertainty::Samples(_) if !self.local.iter().any(draws_samples) => Err(Problem::NoSampling),
            Uncertainty::None
            | Uncertainty::Laplace(_)
            | Uncertainty::MeanField(_)
            | Uncertainty::Samples(_) => Ok(()),
        }
    }

    const fn check_numbers(&self) -> Result<(), ProcedureError> {
        if self.modes.count == 0 {
            return Err(ProcedureError::Zero("modes"));
        }
        match &self.uncertainty {
            Uncertainty::Laplace(laplace) if laplace.posterior_interval == 0 => {
                Err(ProcedureError::Zero("posterior_interval"))
            }
            Uncertainty::Laplace(laplace) if laplace.draws == 0 => Err(ProcedureError::Zero("draws")),
            Uncertainty::MeanField(mean_field) if mean_field.draws == 0 => Err(ProcedureError::Zero("draws")),
            Uncertainty::Samples(samples) if samples.count == 0 => Err(ProcedureError::Zero("count")),
            Uncertainty::None
            | Uncertainty::Laplace(_)
            | Uncertainty::MeanField(_)
            | Uncertainty::Samples(_) => Ok(()),
        }
    }

    const fn check_warm_start(&self) -> Result<(), ProcedureError> {
        match self.warm_start {
            None => Ok(()),
            Some(stage) if stage.rounds >= stage.of => Err(ProcedureError::WarmStartOnly),
            Some(_) if !matches!(self.uncertainty, Uncertainty::None) => {
                Err(ProcedureError::WarmStartOfOtherKinds)
            }
            Some(_) => Ok(()),
        }
    }

    fn phases(&self) -> impl Iterator<Item = &Phase> {
        self.local.iter().chain(&self.personalise)
    }

    fn check_phases(&self, phases: &[Phase]) -> Result<(), ProcedureError> {
        use ProcedureError as Problem;
        let mean_field = matches!(self.uncertainty, Uncertainty::MeanField(_));
        let samples = matches!(self.uncertainty, Uncertainty::Samples(_));
        let mut drawn = false;
        for phase in phases {
            match phase.objective {
                Objective::Variational { .. } if !mean_field => {
                    return Err(Problem::VariationalWithoutDistribution);
                }
                Objective::Variational { reference: Reference::Server { inner_steps: 0 }, .. } => {
                    return Err(Problem::Zero("inner_steps"));
                }
                Objective::Variational { .. } => {}
                _ if mean_field => return Err(Problem::PointOfDistribution),
                Objective::Sample { .. } | Objective::OverSamples if !samples => {
                    return Err(Problem::SamplesWithoutStore);
                }
                Objective::Sample { .. } if phase.part != Part::Head => {
                    return Err(Problem::SamplesOfOtherParts);
                }
                Objective::Sample { thin: 0, .. } => return Err(Problem::Zero("thin")),
                Objective::Sample { discard, thin, .. } if discard.saturating_add(thin) > phase.epochs => {
                    return Err(Problem::AllDiscarded);
                }
                Objective::Sample { .. } => drawn = true,
                Objective::OverSamples if phase.part != Part::Body => {
                    return Err(Problem::OverSamplesOfOtherParts);
                }
                Objective::OverSamples if !drawn => return Err(Problem::SamplesTooLate),
                Objective::OverSamples => {}
                Objective::Point { prior: Prior::Server(_), .. } if self.laplace().is_none() => {
                    return Err(Problem::PriorWithoutGaussian);
                }
                Objective::Point { .. } => {}
            }
        }
        Ok(())
    }
}

const fn draws_samples(phase: &Phase) -> bool {
    matches!(phase.objective, Objective::Sample { .. })
}

/// Whether two parts have parameters in common.
const fn overlap(a: Part, b: Part) -> bool {
    !matches!(
        (a, b),
        (Part::Nothing, _) | (_, Part::Nothing) | (Part::Body, Part::Head) | (Part::Head, Part::Body)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::methods::{METHODS, MeanField, Samples};
    use fedsi_data::Size;

    fn procedure(name: &str) -> Procedure {
        let method = METHODS.iter().find(|method| method.name == name).unwrap();
        (method.declare)(&Config::defaults(name, "digits", Size::Small).unwrap())
    }

    #[test]
    fn every_built_in_method_fits_together() {
        for method in METHODS {
            assert_eq!(procedure(method.name).check(), Ok(()), "{}", method.name);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        use ProcedureError as Problem;
        let refused = |name: &str, change: &dyn Fn(&mut Procedure)| {
            let mut procedure = procedure(name);
            change(&mut procedure);
            procedure.check().unwrap_err()
        };
        let config = Config::defaults("fedavg", "digits", Size::Small).unwrap();
        let samples = Uncertainty::Samples(Samples { count: 3, prior_variance: 1.0 });
        assert_eq!(refused("fedavg", &|p| p.local.clear()), Problem::NoLocalPhase);
        assert_eq!(refused("fedper", &|p| p.kept = Part::All), Problem::KeptOverShared);
        assert_eq!(refused("fedavg", &|p| p.kept = Part::Head), Problem::KeptOverShared);
        assert_eq!(
            refused("bpfed", &|p| p.uncertainty = Uncertainty::None),
            Problem::VariationalWithoutDistribution
        );
        let distribution = Uncertainty::MeanField(MeanField::of(&config));
        assert_eq!(
            refused("fedavg", &|p| p.uncertainty = distribution.clone()),
            Problem::PointOfDistribution
        );
        assert_eq!(refused("fedpop", &|p| p.uncertainty = Uncertainty::None), Problem::SamplesWithoutStore);
        assert_eq!(refused("fedper", &|p| p.uncertainty = samples.clone()), Problem::NoSampling);
        assert_eq!(refused("fedpop", &|p| p.local.reverse()), Problem::SamplesTooLate);
        assert_eq!(refused("fedpop", &|p| p.kept = Part::Nothing), Problem::SamplesOfOtherParts);
        assert_eq!(refused("fedsi", &|p| p.uncertainty = Uncertainty::None), Problem::PriorWithoutGaussian);
        assert_eq!(refused("fedsi", &|p| p.shared = Part::Nothing), Problem::PosteriorOfNothing);
        assert_eq!(refused("pfedbayes", &|p| p.shared = Part::Body), Problem::ReferenceOfPart);
        let no_draws = Uncertainty::MeanField(MeanField { draws: 0, ..MeanField::of(&config) });
        assert_eq!(refused("bpfed", &|p| p.uncertainty = no_draws.clone()), Problem::Zero("draws"));
        let no_samples = Uncertainty::Samples(Samples { count: 0, prior_variance: 1.0 });
        assert_eq!(refused("fedpop", &|p| p.uncertainty = no_samples.clone()), Problem::Zero("count"));
        let never = |p: &mut Procedure| {
            if let Uncertainty::Laplace(laplace) = &mut p.uncertainty {
                laplace.posterior_interval = 0;
            }
        };
        assert_eq!(refused("fedsi", &never), Problem::Zero("posterior_interval"));
        assert_eq!(refused("fedpop", &|p| p.local[0].epochs = 1), Problem::AllDiscarded);
        assert_eq!(refused("fedsi", &|p| p.modes.count = 0), Problem::Zero("modes"));
        assert_eq!(refused("fedper", &|p| p.modes.count = 2), Problem::ModesOfKept);
        assert_eq!(refused("fedpop", &|p| p.local[1].part = Part::All), Problem::OverSamplesOfOtherParts);
    }
}
