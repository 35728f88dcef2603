//! A client's posterior after its training: which parameters have a distribution, and which.

use std::ops::Range;

use fedsi_bayes::{
    Candidates, Curvature, Explanation, Likelihood, Posterior, PosteriorFamily, Rule, Subnetwork,
};
use fedsi_data::{Samples, Targets};
use fedsi_nn::{Layout, Network};
use rand::Rng;
use serde::Serialize;
use thiserror::Error;

use crate::aggregate::Variances;
use crate::part::Part;
use crate::record::{LaplaceSummary, PosteriorKind, PosteriorSummary};

/// What is inferred after the phases of training, as data: part of a client's work.
#[derive(Clone, Debug, PartialEq)]
pub struct Inference {
    /// Where parameters may be chosen.
    pub part: Part,
    /// Which of them have a distribution, of which form.
    pub structure: Structure,
    /// Their variance before the client's data is seen.
    pub prior: PriorVariance,
    /// How exact the covariance is: 0 is exact, eps keeps every variance within a factor 1 + eps.
    pub tolerance: f64,
}

/// Which parameters have a distribution, of which form.
#[derive(Clone, Debug, PartialEq)]
pub enum Structure {
    /// The chosen few, with their full covariance.
    Subnetwork {
        /// How they are chosen.
        rule: Rule,
        /// How many: a share of the part.
        share: f64,
    },
    /// All of the part, independent of each other.
    Diagonal,
}

impl Structure {
    /// How many of `candidates` parameters have a distribution (rules by layer name have a size of their own).
    #[must_use]
    pub fn size(&self, candidates: usize) -> usize {
        match self {
            Self::Subnetwork { share, .. } => ((share * candidates as f64).round() as usize).max(1),
            Self::Diagonal => candidates,
        }
    }

    /// How many of the parameters in `range` are chosen this way, known before any of them is trained.
    ///
    /// # Errors
    /// No parameters, or layers that are not among them.
    pub fn check(&self, layout: &Layout, range: Range<usize>) -> Result<usize, fedsi_bayes::SelectionError> {
        let size = self.size(range.len());
        match self {
            Self::Subnetwork { rule, .. } => rule.check(layout, range, size),
            Self::Diagonal => Rule::Variance.check(layout, range, size),
        }
    }
}

/// The prior variance of a posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriorVariance {
    /// The server's variances, one a parameter.
    Server,
    /// The same for all.
    Fixed(f64),
}

/// A client's posterior, and what is worth telling of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// The Gaussian over the chosen parameters.
    pub posterior: Posterior,
    /// Which parameters were chosen.
    pub subnetwork: Explanation,
}

impl Inferred {
    /// The figures of this one posterior.
    #[must_use]
    pub fn summary(&self) -> PosteriorSummary {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        PosteriorSummary {
            kind: PosteriorKind::Laplace,
            parameters: self.subnetwork.size as f64,
            variance: mean(&self.posterior.marginal_variances()),
            laplace: Some(LaplaceSummary {
                zero_curvature: self.subnetwork.zero_curvature,
                rank: self.posterior.rank() as f64,
                certificate: self.posterior.certificate(),
                prior_variance: mean(self.posterior.prior_variance()),
            }),
        }
    }
}

/// What a posterior needs to know of a client.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The network.
    pub network: &'a Network,
    /// Where it is linearised: after training.
    pub parameters: &'a [f32],
    /// The server's variance of every parameter, where it has one.
    pub variance: Option<&'a [f32]>,
    /// The client's training samples.
    pub samples: &'a Samples,
    /// Standard deviation of the noise of each target (regression).
    pub noise: &'a [f64],
}

/// Why a client has no posterior.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum InferenceError {
    /// Training diverged.
    #[error("its parameters are not finite")]
    Diverged,
    /// What the client keeps cannot be read.
    #[error("{0}")]
    State(String),
    /// The subnetwork cannot be chosen.
    #[error("its subnetwork cannot be chosen: {0}")]
    Selection(#[from] fedsi_bayes::SelectionError),
    /// The covariance cannot be computed.
    #[error("its posterior cannot be computed: {0}")]
    Posterior(#[from] fedsi_bayes::PosteriorError),
}

impl Inference {
    /// Chooses the subnetwork and computes its posterior, in f64.
    ///
    /// Cost: a diagonal GGN over the part (a pass an output over the samples), and the factorisation.
    ///
    /// # Errors
    /// Parameters that are not finite; a rule or a covariance that fails.
    pub fn infer(&self, evidence: &Evidence<'_>, rng: &mut impl Rng) -> Result<Inferred, InferenceError> {
        let mut found = None;
        self.infer_scaled(evidence, &[1.0], rng, |inferred| found = Some(inferred))?;
        found.ok_or(InferenceError::Diverged)
    }

    /// [`Self::infer`] for several prior variances, each a scale of the one that is set; `each` has them in turn.
    /// What does not depend on them is computed once.
    ///
    /// # Errors
    /// As for [`Self::infer`].
    pub fn infer_scaled(
        &self,
        evidence: &Evidence<'_>,
        scales: &[f64],
        rng: &mut impl Rng,
        mut each: impl FnMut(Inferred),
    ) -> Result<(), InferenceError> {
        let Evidence { network, samples, .. } = *evidence;
        if !crate::server::is_finite(evidence.parameters) {
            return Err(InferenceError::Diverged);
        }
        let layout = network.layout();
        let (parameters, inputs) = (doubles(evidence.parameters), doubles(&samples.inputs));
        let likelihood = likelihood(samples, evidence.noise);
        let range = self.part.range(layout);
        let prior: Vec<f64> = match (self.prior, evidence.variance) {
            (PriorVariance::Fixed(variance), _) => vec![variance; range.len()],
            (PriorVariance::Server, Some(variance)) => doubles(&variance[range.clone()]),
            // A server of point values says nothing: every method that asks declares a Gaussian.
            (PriorVariance::Server, None) => vec![1.0; range.len()],
        };
        let curvature = Curvature::diagonal(network, &parameters, &inputs, &likelihood, range.clone());
        let candidates = Candidates::new(layout, range.clone(), &curvature, &prior, &parameters)?;
        let subnetwork = match &self.structure {
            Structure::Subnetwork { rule, .. } => {
                rule.select(&candidates, self.structure.size(range.len()), rng)?
            }
            Structure::Diagonal => Subnetwork::all(range.clone())?,
        };
        let explanation = subnetwork.explain(layout, &curvature, range.clone());
        let selected = subnetwork.indices();
        let prior: Vec<f64> = selected.iter().map(|&index| prior[index - range.start]).collect();
        let mut tell = |posterior| each(Inferred { posterior, subnetwork: explanation.clone() });
        match (&self.structure, scales) {
            (Structure::Diagonal, _) => {
                for scale in scales {
                    let prior: Vec<f64> = prior.iter().map(|variance| scale * variance).collect();
                    tell(Posterior::independent_of(network, selected, &prior, &curvature.ggn)?);
                }
            }
            (Structure::Subnetwork { .. }, &[scale]) => {
                let prior: Vec<f64> = prior.iter().map(|variance| scale * variance).collect();
                let tolerance = self.tolerance;
                tell(Posterior::fit(
                    network,
                    &parameters,
                    &inputs,
                    &likelihood,
                    selected,
                    &prior,
                    tolerance,
                )?);
            }
            (Structure::Subnetwork { .. }, _) => {
                // Tighter for the largest scale, which stretches what is left out.
                let tolerance = self.tolerance / scales.iter().copied().fold(1.0, f64::max);
                let family = PosteriorFamily::new(
                    network,
                    &parameters,
                    &inputs,
                    &likelihood,
                    selected,
                    &prior,
                    tolerance,
                )?;
                for &scale in scales {
                    tell(family.posterior(scale)?);
                }
            }
        }
        Ok(())
    }
}

/// How the samples' targets depend on the outputs.
fn likelihood(samples: &Samples, noise: &[f64]) -> Likelihood {
    match samples.targets {
        Targets::Classes(_) => Likelihood::Categorical,
        Targets::Values(_) => Likelihood::Gaussian { noise: noise.to_vec() },
    }
}

/// The same values in double precision.
pub(crate) fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// What a round's posteriors were like: where FedSI lives or dies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct SubnetworkRecord {
    /// Mean share of one participant's subnetwork that another has too; 0 with one participant.
    pub overlap: f64,
    /// Mean share of chosen parameters that the data says nothing about: their posterior is their prior.
    pub zero_curvature: f64,
    /// Mean posterior variance of the chosen parameters.
    pub mean_variance: f64,
    /// Mean rank of what the data added to the prior.
    pub rank: f64,
    /// The worst factor, less one, by which a variance may be too large.
    pub certificate: f64,
}

impl SubnetworkRecord {
    /// The figures of a round. `sent` are the participants' variances of some of `size` parameters.
    pub(crate) fn of(posteriors: &[PosteriorSummary], sent: &[&Variances], size: usize) -> Option<Self> {
        let PosteriorSummary { variance, laplace, .. } = PosteriorSummary::of(posteriors)?;
        let LaplaceSummary { zero_curvature, rank, certificate, .. } = laplace?;
        let overlap = overlap(sent, size);
        Some(Self { overlap, zero_curvature, mean_variance: variance, rank, certificate })
    }
}

/// Mean over ordered pairs of participants of the share of the first's choice that the second made too. Cost:
/// one pass over all choices, not over all pairs.
fn overlap(sent: &[&Variances], size: usize) -> f64 {
    let mut times = vec![0_u32; size];
    for (index, _) in sent.iter().flat_map(|one| one.pairs()) {
        times[index] += 1;
    }
    let others = sent.len().saturating_sub(1) as f64;
    let chosen: usize = sent.iter().map(|one| one.values.len()).sum();
    let shared: f64 = times.iter().map(|&t| f64::from(t) * (f64::from(t) - 1.0)).sum();
    if others == 0.0 || chosen == 0 { 0.0 } else { shared / (chosen as f64 * others) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_the_share_of_choices_in_common() {
        let of = |chosen: &[&[u32]]| {
            let variances = |one: &&[u32]| Variances {
                selected: (one.len() < 4).then(|| one.to_vec()),
                values: vec![1.0; one.len()],
            };
            let sent: Vec<Variances> = chosen.iter().map(variances).collect();
            overlap(&sent.iter().collect::<Vec<_>>(), 4)
        };
        assert_eq!(of(&[&[0, 1], &[0, 1], &[0, 1]]), 1.0);
        assert_eq!(of(&[&[0, 1], &[2, 3]]), 0.0);
        assert_eq!(of(&[&[0, 1], &[1, 2]]), 0.5);
        assert_eq!(of(&[&[0, 1, 2, 3], &[0, 1, 2, 3]]), 1.0, "everything, without indices");
        assert_eq!(of(&[&[0, 1]]), 0.0, "nobody to share with");
        assert_eq!(of(&[]), 0.0);
    }
}
