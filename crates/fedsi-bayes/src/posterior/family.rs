//! From the data's contribution to a posterior, for any scale of the prior variances.

use std::sync::Arc;

use super::check::check_selected;
use super::contribution::{Contribution, Contributions, Form, Formed};
use super::projection::Projection;
use super::{Covariance, Posterior};
use crate::collect::columns_of;
use crate::dense::{multiply, rows, rows_mut};
use crate::error::PosteriorError;
use crate::jacobian::ColumnSet;
use crate::network::LinearisedNetwork;
use crate::problem::Problem;

/// All posteriors that differ by a common factor of the prior variances. What the data contributes is computed
/// once; each factor then costs one factorisation.
///
/// The form is the one that takes the fewest operations: with n samples in m rows, S parameters and U units,
/// about `n^2 S + 2 m^2 U + 2/3 m^3 + n m S` on the side of the samples and `n S^2 / 2 + 2/3 S^3` on the side of
/// the parameters. With a tolerance, the projection is tried first, and given up if it needs so many directions
/// that the exact form is cheaper.
#[derive(Clone, Debug)]
pub struct PosteriorFamily {
    /// For its linear algebra.
    network: Arc<dyn LinearisedNetwork>,
    selected: Vec<usize>,
    prior_variance: Vec<f64>,
    subnetwork: ColumnSet,
    live: ColumnSet,
    keep: Vec<bool>,
    /// The prior's standard deviation of each live column.
    deviation: Vec<f64>,
    contribution: Contribution,
    /// Trace of what was left out, at scale 1.
    residual: f64,
    without_curvature: usize,
}

impl PosteriorFamily {
    /// For the parameters `selected` (ascending flat indices, of any layers) with independent priors of variance
    /// `prior_variance`, one for each.
    ///
    /// With `tolerance` 0 it is exact. With a positive tolerance, only as many directions are kept as it takes for
    /// every marginal variance `v` to come out between `v` and `(1 + tolerance) v`; after training, when most
    /// samples are classified with confidence, that is a small part of the work. The tolerance holds up to scale 1;
    /// a scale of c stretches it by c. `form` is chosen by cost unless it is given (for tests and measurements).
    ///
    /// # Errors
    /// Indices, variances or a tolerance out of range; derivatives that are not finite; a covariance beyond 16 GiB.
    pub fn new(
        problem: &Problem<'_>,
        selected: &[usize],
        prior_variance: &[f64],
        tolerance: f64,
        form: Option<Form>,
    ) -> Result<Self, PosteriorError> {
        check_selected(&**problem.network(), selected, prior_variance)?;
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return Err(PosteriorError::Setting { what: "the tolerance", value: tolerance });
        }
        let subnetwork = columns_of(&**problem.network(), selected);
        let deviation: Vec<f64> =
            subnetwork.sorted(prior_variance).iter().map(|variance| variance.sqrt()).collect();
        let contributions = Contributions { problem, deviation: &deviation };
        let Formed { keep, live, contribution, residual, without_curvature } =
            contributions.of(&subnetwork, tolerance, form)?;
        let deviation = deviation.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(&d, _)| d).collect();
        Ok(Self {
            network: Arc::clone(problem.network()),
            selected: selected.to_vec(),
            prior_variance: prior_variance.to_vec(),
            subnetwork,
            live,
            keep,
            deviation,
            contribution,
            residual,
            without_curvature,
        })
    }

    /// How many of the parameters move no output of any sample: their posterior is their prior.
    #[must_use]
    pub const fn without_curvature(&self) -> usize {
        self.without_curvature
    }

    /// The form it was computed in.
    #[must_use]
    pub const fn form(&self) -> Form {
        match self.contribution {
            Contribution::Samples { .. } => Form::Samples,
            Contribution::Parameters { .. } | Contribution::OnDevice { .. } => Form::Parameters,
            Contribution::Projection(_) => Form::Projection,
        }
    }

    /// The posterior for prior variances times `scale`.
    ///
    /// # Errors
    /// If the scale is not positive and finite, or the precision not positive definite.
    pub fn posterior(&self, scale: f64) -> Result<Posterior, PosteriorError> {
        check_scale(scale)?;
        self.clone().scaled(scale)
    }

    /// The posterior for the prior variances given, without a copy of the data's contribution.
    ///
    /// # Errors
    /// A precision that is not positive definite.
    pub fn into_posterior(self) -> Result<Posterior, PosteriorError> {
        self.scaled(1.0)
    }

    fn scaled(self, scale: f64) -> Result<Posterior, PosteriorError> {
        let columns = self.live.columns();
        let algebra = self.network.algebra();
        // `I - W W'`, or `W W'`, in units of the prior's standard deviations.
        let (log_determinant_ratio, rank, mut factor, whole) = match self.contribution {
            Contribution::Samples { jacobian, gram } => {
                let size = jacobian.rows();
                let (logarithm, inverse) = algebra.inverse_factor(shifted(gram, size, scale), size)?;
                let mut product = jacobian.transpose_times(&self.live, rows(&inverse, size, size), true);
                scale_all(&mut product, scale.sqrt());
                (logarithm, size, product, false)
            }
            Contribution::Parameters { normal } => {
                let (logarithm, inverse) =
                    algebra.inverse_factor(shifted(normal, columns, scale), columns)?;
                (logarithm, columns, inverse, true)
            }
            Contribution::OnDevice { normal } => {
                let (logarithm, inverse) = normal.inverse_factor(scale)?;
                (logarithm, columns, inverse, true)
            }
            Contribution::Projection(Projection { spread, core, rank }) => {
                let (logarithm, inverse) = algebra.inverse_factor(shifted(core, rank, scale), rank)?;
                let mut product = vec![0.0; columns * rank];
                if rank > 0 {
                    let (spread, inverse) = (rows(&spread, columns, rank), rows(&inverse, rank, rank));
                    multiply(rows_mut(&mut product, columns, rank), spread, inverse);
                }
                scale_all(&mut product, scale.sqrt());
                (logarithm, rank, product, false)
            }
        };
        for (row, deviation) in factor.chunks_exact_mut(rank.max(1)).zip(&self.deviation) {
            scale_all(row, deviation * scale.sqrt());
        }
        let covariance =
            if whole { Covariance::Whole { rank, factor } } else { Covariance::Reduction { rank, factor } };
        let mut prior_variance = self.prior_variance;
        scale_all(&mut prior_variance, scale);
        Ok(Posterior {
            selected: self.selected,
            prior_variance,
            subnetwork: self.subnetwork,
            live: self.live,
            keep: self.keep,
            covariance,
            upper: whole,
            log_determinant_ratio,
            certificate: scale * self.residual,
        })
    }
}

/// `I + scale * matrix`, in a square matrix of which one triangle matters.
fn shifted(mut matrix: Vec<f64>, size: usize, scale: f64) -> Vec<f64> {
    if scale.to_bits() != 1.0_f64.to_bits() {
        scale_all(&mut matrix, scale);
    }
    for index in 0..size {
        matrix[index * size + index] += 1.0;
    }
    matrix
}

fn scale_all(values: &mut [f64], factor: f64) {
    for value in values {
        *value *= factor;
    }
}

fn check_scale(scale: f64) -> Result<(), PosteriorError> {
    if scale > 0.0 && scale.is_finite() {
        return Ok(());
    }
    Err(PosteriorError::Setting { what: "a scale of the prior variance", value: scale })
}
