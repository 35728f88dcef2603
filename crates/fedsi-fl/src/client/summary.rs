//! Summary figures of a posterior.

use fedsi_bayes::Laplace;
use serde::{Deserialize, Serialize};

use super::{ChainSummary, PersonalModel};
use crate::parameters::{Gaussian, HeadSamples, Parameters};

/// The posteriors of all personal models, averaged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PosteriorSummary {
    /// What they are.
    #[serde(default)]
    pub kind: PosteriorKind,
    /// Parameters that have a distribution, mean over clients.
    pub parameters: f64,
    /// Mean posterior variance.
    pub variance: f64,
    /// What is known of a Gaussian that was inferred from the curvature.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub laplace: Option<LaplaceSummary>,
    /// Whether chains of samples mix; of several posteriors the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainSummary>,
}

/// What a posterior is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PosteriorKind {
    /// A Gaussian over some parameters, inferred from the curvature.
    #[default]
    Laplace,
    /// An independent normal for each parameter, trained.
    MeanField,
    /// Samples of the head.
    Samples,
}

/// What is known of Gaussians that were inferred from the curvature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaplaceSummary {
    /// The mean share of parameters without curvature.
    pub zero_curvature: f64,
    /// Mean rank of what the data adds to the prior.
    pub rank: f64,
    /// The worst factor, less one, by which a variance may be too large.
    pub certificate: f64,
    /// Mean prior variance.
    pub prior_variance: f64,
}

/// The largest magnitude of a figure that is taken from elsewhere: sums over clients and samples stay finite.
const LARGEST_FIGURE: f64 = 1e100;

/// Whether figures from elsewhere are numbers that can be summed.
pub(super) fn are_figures(mut figures: impl Iterator<Item = f64>) -> bool {
    // False for what is not a number as well.
    figures.all(|figure| figure.abs() <= LARGEST_FIGURE)
}

impl PosteriorSummary {
    /// Whether the figures are numbers that can be summed: those of a client elsewhere may be any.
    pub(crate) fn is_sound(&self) -> bool {
        let Self { kind: _, parameters, variance, laplace, chain } = *self;
        let laplace = laplace.map(|LaplaceSummary { zero_curvature, rank, certificate, prior_variance }| {
            [zero_curvature, rank, certificate, prior_variance]
        });
        let chain = chain.map(|ChainSummary { r_hat, correlation }| [r_hat, correlation]);
        let own = [parameters, variance].into_iter();
        are_figures(own.chain(laplace.into_iter().flatten()).chain(chain.into_iter().flatten()))
    }

    /// Of a personal model, the mean over its modes; none for points. The network's head has `head` parameters.
    #[must_use]
    pub fn of_model(model: &PersonalModel, head: usize) -> Option<Self> {
        let modes = model.modes.iter();
        let known: Vec<Self> = modes.filter_map(|mode| Self::of_parameters(&mode.parameters, head)).collect();
        Self::of(&known)
    }

    /// Of what is known of a network's parameters, whose head has `head` of them; none for points.
    #[must_use]
    pub fn of_parameters(parameters: &Parameters, head: usize) -> Option<Self> {
        match parameters {
            Parameters::Point(_) => None,
            Parameters::Laplace(laplace) => Some(Self::of_laplace(&laplace.fit)),
            Parameters::Gaussian(Gaussian { variance, .. }) => {
                let sum: f64 = variance.iter().map(|&one| f64::from(one)).sum();
                let mean = sum / variance.len().max(1) as f64;
                Some(Self::plain(PosteriorKind::MeanField, variance.len(), mean))
            }
            Parameters::Samples(HeadSamples { samples, .. }) => {
                let count = samples.len() / head.max(1);
                let variance = |index: usize| {
                    let column = || samples.iter().skip(index).step_by(head).map(|&value| f64::from(value));
                    let mean = column().sum::<f64>() / count as f64;
                    column().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64
                };
                let mean = (0..head).map(variance).sum::<f64>() / head.max(1) as f64;
                let chain = ChainSummary::of(samples, head);
                Some(Self { chain, ..Self::plain(PosteriorKind::Samples, head, mean) })
            }
        }
    }

    /// Of a Laplace posterior.
    #[must_use]
    pub fn of_laplace(fit: &Laplace) -> Self {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let (posterior, subnetwork) = (fit.posterior(), fit.explanation());
        Self {
            kind: PosteriorKind::Laplace,
            parameters: subnetwork.size as f64,
            variance: mean(&posterior.marginal_variances()),
            laplace: Some(LaplaceSummary {
                zero_curvature: subnetwork.zero_curvature,
                rank: posterior.rank() as f64,
                certificate: posterior.certificate(),
                prior_variance: mean(posterior.prior_variance()),
            }),
            chain: None,
        }
    }

    /// Of one posterior that was not inferred from the curvature.
    const fn plain(kind: PosteriorKind, parameters: usize, variance: f64) -> Self {
        Self { kind, parameters: parameters as f64, variance, laplace: None, chain: None }
    }

    /// Of these posteriors; none where there are none.
    #[must_use]
    pub fn of(all: &[Self]) -> Option<Self> {
        let first = all.first()?;
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        let chains: Vec<ChainSummary> = all.iter().filter_map(|one| one.chain).collect();
        let chain = |of: fn(&ChainSummary) -> f64| chains.iter().map(of).sum::<f64>() / chains.len() as f64;
        let known: Vec<LaplaceSummary> = all.iter().filter_map(|one| one.laplace).collect();
        let laplace = |of: fn(&LaplaceSummary) -> f64| known.iter().map(of).sum::<f64>() / known.len() as f64;
        Some(Self {
            kind: first.kind,
            parameters: mean(|one| one.parameters),
            variance: mean(|one| one.variance),
            laplace: (!known.is_empty()).then(|| LaplaceSummary {
                zero_curvature: laplace(|one| one.zero_curvature),
                rank: laplace(|one| one.rank),
                certificate: known.iter().map(|one| one.certificate).fold(0.0, f64::max),
                prior_variance: laplace(|one| one.prior_variance),
            }),
            chain: (!chains.is_empty()).then(|| ChainSummary {
                r_hat: chain(|one| one.r_hat),
                correlation: chain(|one| one.correlation),
            }),
        })
    }
}
