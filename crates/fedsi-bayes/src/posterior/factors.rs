//! The factors of a posterior, for saving and loading.

use super::Posterior;
use super::check::check_selected;
use crate::collect::columns_of;
use crate::error::PosteriorError;
use crate::network::{LinearisedNetwork, length};

/// The covariance of the parameters that have curvature, in factors.
#[derive(Clone, Debug, PartialEq)]
pub enum Covariance {
    /// No correlations.
    Independent {
        /// The variance of each selected parameter.
        variance: Vec<f64>,
    },
    /// `diag(g) - W W'`.
    Reduction {
        /// Columns of W.
        rank: usize,
        /// W, a row for each live parameter.
        factor: Vec<f64>,
    },
    /// `W W'`.
    Whole {
        /// Columns of W.
        rank: usize,
        /// W, a row for each live parameter.
        factor: Vec<f64>,
    },
}

/// Everything a [`Posterior`] consists of, in the order of the selected parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    /// Ascending indices into the flat parameters.
    pub selected: Vec<usize>,
    /// The prior's variance of each.
    pub prior_variance: Vec<f64>,
    /// Positions in `selected` of the parameters that the factor covers, ascending; the others keep their
    /// prior.
    pub live: Vec<usize>,
    /// The covariance of these.
    pub covariance: Covariance,
    /// See [`Posterior::log_determinant_ratio`].
    pub log_determinant_ratio: f64,
    /// See [`Posterior::certificate`].
    pub certificate: f64,
}

impl Posterior {
    /// What defines it. [`Self::from_factors`] gives back the same posterior, to the bit.
    #[must_use]
    pub fn factors(&self) -> Factors {
        let mut live: Vec<usize> = self.live.order.clone();
        live.sort_unstable();
        let covariance = match &self.covariance {
            Covariance::Independent { variance } => Covariance::Independent { variance: variance.clone() },
            Covariance::Reduction { rank, factor } => {
                Covariance::Reduction { rank: *rank, factor: self.to_selected_order(&live, factor, *rank) }
            }
            Covariance::Whole { rank, factor } => {
                Covariance::Whole { rank: *rank, factor: self.to_selected_order(&live, factor, *rank) }
            }
        };
        Factors {
            selected: self.selected.clone(),
            prior_variance: self.prior_variance.clone(),
            live,
            covariance,
            log_determinant_ratio: self.log_determinant_ratio,
            certificate: self.certificate,
        }
    }

    fn to_selected_order(&self, live: &[usize], factor: &[f64], rank: usize) -> Vec<f64> {
        let mut sorted = vec![0.0; factor.len()];
        for (position, row) in self.live.order.iter().zip(factor.chunks_exact(rank.max(1))) {
            let place = live.partition_point(|other| other < position);
            sorted[place * rank..][..rank].copy_from_slice(row);
        }
        sorted
    }

    /// The posterior that these factors define, over parameters of `network`.
    ///
    /// # Errors
    /// If indices or lengths do not fit each other or the network.
    pub fn from_factors(network: &dyn LinearisedNetwork, factors: Factors) -> Result<Self, PosteriorError> {
        let Factors { selected, prior_variance, live, covariance, log_determinant_ratio, certificate } =
            factors;
        check_selected(network, &selected, &prior_variance)?;
        let wrong = live.windows(2).position(|pair| pair[0] >= pair[1]).map(|position| position + 1);
        let wrong = wrong.or_else(|| live.iter().position(|&position| position >= selected.len()));
        if let Some(position) = wrong {
            let (index, parameters) = (live[position], selected.len());
            return Err(PosteriorError::Selection { position, index, parameters });
        }
        let subnetwork = columns_of(network, &selected);
        let keep: Vec<bool> =
            subnetwork.order.iter().map(|position| live.binary_search(position).is_ok()).collect();
        let narrow = subnetwork.restrict(&keep);
        let sorted = |factor: &[f64], rank: usize| {
            let rows = narrow.order.iter().map(|position| live.partition_point(|other| other < position));
            rows.flat_map(|row| &factor[row * rank..][..rank]).copied().collect::<Vec<f64>>()
        };
        if let Covariance::Reduction { rank, .. } | Covariance::Whole { rank, .. } = &covariance
            && live.is_empty()
        {
            // A factor without rows has no columns either: predictions make room for them.
            length("columns of a factor without rows", 0, *rank)?;
        }
        let (covariance, upper) = match covariance {
            Covariance::Independent { variance } => {
                length("variances", selected.len(), variance.len())?;
                (Covariance::Independent { variance }, false)
            }
            Covariance::Reduction { rank, factor } => {
                length("factor", live.len().saturating_mul(rank), factor.len())?;
                (Covariance::Reduction { rank, factor: sorted(&factor, rank) }, false)
            }
            Covariance::Whole { rank, factor } => {
                length("factor", live.len().saturating_mul(rank), factor.len())?;
                let factor = sorted(&factor, rank);
                let mut rows = factor.chunks_exact(rank.max(1)).enumerate();
                let upper = rows.all(|(row, values)| values.iter().take(row).all(|&value| value == 0.0));
                (Covariance::Whole { rank, factor }, upper)
            }
        };
        Ok(Self {
            selected,
            prior_variance,
            subnetwork,
            live: narrow,
            keep,
            covariance,
            upper,
            log_determinant_ratio,
            certificate,
        })
    }
}
