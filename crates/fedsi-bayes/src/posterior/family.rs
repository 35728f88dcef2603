//! From data to posterior, in whichever form is cheapest.

use fedsi_nn::Network;

use super::check::check;
use super::projection::Projection;
use super::{Covariance, Posterior};
use crate::dense::{cholesky, inverse_factor, multiply, rows, rows_mut};
use crate::jacobian::{Collector, ColumnSet, WeightedJacobian};
use crate::{Likelihood, PosteriorError};

/// Share of the tolerance that may go into leaving out rows before anything is factorised.
const ROWS_SHARE: f64 = 0.25;

/// On which side a posterior is computed. With B the weighted Jacobian, its rows scaled by the likelihood and its
/// columns by the prior's standard deviations, the precision is `I + B' B` up to that scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Factorises `I + B B'`, of the size of the data: the covariance is a reduction of the prior.
    Samples,
    /// Factorises `I + B' B`, of the size of the subnetwork.
    Parameters,
    /// Only the directions that matter at the tolerance, found by a pivoted factorisation of `B B'`.
    Projection,
}

/// All posteriors that differ by a common factor of the prior variances. What the data contributes is computed
/// once; each factor then costs one factorisation.
///
/// The form is the one that takes the fewest operations: with n samples in m rows, S parameters and U units,
/// about `n^2 S + 2 m^2 U + 2/3 m^3 + n m S` on the side of the samples and `n S^2 / 2 + 2/3 S^3` on the side of
/// the parameters. With a tolerance, the projection is tried first, and given up if it needs so many directions
/// that the exact form is cheaper.
#[derive(Clone, Debug)]
pub struct PosteriorFamily {
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
}

/// What the data contributes.
#[derive(Clone, Debug)]
enum Contribution {
    Samples { jacobian: WeightedJacobian, gram: Vec<f64> },
    Parameters { normal: Vec<f64> },
    Projection(Projection),
}

impl PosteriorFamily {
    /// See [`Posterior::fit`]. The tolerance holds up to scale 1; a scale of c stretches it by c.
    ///
    /// # Errors
    /// As for [`Posterior::fit`].
    pub fn new(
        network: &Network,
        parameters: &[f64],
        inputs: &[f64],
        likelihood: &Likelihood,
        selected: &[usize],
        prior_variance: &[f64],
        tolerance: f64,
    ) -> Result<Self, PosteriorError> {
        Self::with_form(network, parameters, inputs, likelihood, selected, prior_variance, tolerance, None)
    }

    /// With the form decided by the caller: for tests and measurements.
    ///
    /// # Errors
    /// As for [`Posterior::fit`].
    #[doc(hidden)]
    #[allow(clippy::too_many_arguments)]
    pub fn with_form(
        network: &Network,
        parameters: &[f64],
        inputs: &[f64],
        likelihood: &Likelihood,
        selected: &[usize],
        prior_variance: &[f64],
        tolerance: f64,
        form: Option<Form>,
    ) -> Result<Self, PosteriorError> {
        check(network, parameters, inputs, likelihood, selected, prior_variance)?;
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return Err(PosteriorError::Setting { what: "the tolerance", value: tolerance });
        }
        let subnetwork = ColumnSet::new(network, selected);
        let deviation: Vec<f64> =
            subnetwork.sorted(prior_variance).iter().map(|variance| variance.sqrt()).collect();
        let samples = inputs.len() / network.inputs();
        let problem = Problem { network, parameters, inputs, likelihood, deviation: &deviation };
        let rows = samples * likelihood.rows(network.outputs());
        let exact = form.unwrap_or_else(|| cheapest(samples, rows, &subnetwork));
        refuse_giants(exact, rows, &subnetwork)?;
        // With more samples than parameters a projection gathers more than the exact form ever holds, and the
        // data has so much to say that it finds little to leave out.
        let streams = tolerance == 0.0 || (form.is_none() && samples > subnetwork.columns());
        let (keep, live, contribution, residual) = if exact == Form::Parameters && streams {
            problem.by_parameters(&subnetwork)
        } else {
            problem.by_samples(&subnetwork, tolerance, form)?
        };
        let deviation = kept(&deviation, &keep);
        Ok(Self {
            selected: selected.to_vec(),
            prior_variance: prior_variance.to_vec(),
            subnetwork,
            live,
            keep,
            deviation,
            contribution,
            residual,
        })
    }

    /// The form it was computed in.
    #[must_use]
    pub const fn form(&self) -> Form {
        match self.contribution {
            Contribution::Samples { .. } => Form::Samples,
            Contribution::Parameters { .. } => Form::Parameters,
            Contribution::Projection(_) => Form::Projection,
        }
    }

    /// [`Posterior::log_determinant_ratio`] for prior variances times `scale`, at the cost of one Cholesky
    /// factorisation.
    ///
    /// # Errors
    /// If the scale is not positive and finite, or the precision not positive definite.
    pub fn log_determinant_ratio(&self, scale: f64) -> Result<f64, PosteriorError> {
        check_scale(scale)?;
        let (matrix, size) = self.core();
        cholesky(&mut shifted(matrix.to_vec(), size, scale), size)
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
    pub(super) fn into_posterior(self) -> Result<Posterior, PosteriorError> {
        self.scaled(1.0)
    }

    /// The matrix to be factorised, less the identity, and its size.
    fn core(&self) -> (&[f64], usize) {
        match &self.contribution {
            Contribution::Samples { jacobian, gram } => (gram, jacobian.rows()),
            Contribution::Parameters { normal } => (normal, self.live.columns()),
            Contribution::Projection(projection) => (&projection.core, projection.rank),
        }
    }

    fn scaled(self, scale: f64) -> Result<Posterior, PosteriorError> {
        let columns = self.live.columns();
        // `I - W W'`, or `W W'`, in units of the prior's standard deviations.
        let (log_determinant_ratio, rank, mut factor, whole) = match self.contribution {
            Contribution::Samples { jacobian, gram } => {
                let size = jacobian.rows();
                let mut factor = shifted(gram, size, scale);
                let logarithm = cholesky(&mut factor, size)?;
                let inverse = inverse_factor(&factor, size);
                drop(factor);
                let mut product = jacobian.transpose_times(&self.live, rows(&inverse, size, size), true);
                scale_all(&mut product, scale.sqrt());
                (logarithm, size, product, false)
            }
            Contribution::Parameters { normal } => {
                let mut factor = shifted(normal, columns, scale);
                let logarithm = cholesky(&mut factor, columns)?;
                (logarithm, columns, inverse_factor(&factor, columns), true)
            }
            Contribution::Projection(Projection { spread, core, rank }) => {
                let mut factor = shifted(core, rank, scale);
                let logarithm = cholesky(&mut factor, rank)?;
                let inverse = inverse_factor(&factor, rank);
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

/// Which columns have curvature, the subnetwork of these, what the data contributes, and the trace left out.
type Formed = (Vec<bool>, ColumnSet, Contribution, f64);

/// The data and the model a posterior is asked for.
struct Problem<'a> {
    network: &'a Network,
    parameters: &'a [f64],
    inputs: &'a [f64],
    likelihood: &'a Likelihood,
    /// The prior's standard deviation of each column.
    deviation: &'a [f64],
}

impl Problem<'_> {
    fn samples(&self) -> usize {
        self.inputs.len() / self.network.inputs()
    }

    /// Batch by batch, so that memory follows the subnetwork and not the data.
    fn by_parameters(&self, subnetwork: &ColumnSet) -> Formed {
        let mut squares = vec![0.0; subnetwork.columns()];
        let mut collector = Collector::new(self.network, self.parameters, subnetwork, self.samples());
        for batch in collector.batches(self.inputs) {
            let (_, jacobian) = collector.collect(batch, Some(self.likelihood), Some(self.deviation));
            for (sum, square) in squares.iter_mut().zip(jacobian.column_squares(subnetwork)) {
                *sum += square;
            }
        }
        let keep: Vec<bool> = squares.iter().map(|&square| square != 0.0).collect();
        let live = subnetwork.restrict(&keep);
        let deviation = kept(self.deviation, &keep);
        let mut normal = vec![0.0; live.columns() * live.columns()];
        let mut collector = Collector::new(self.network, self.parameters, &live, self.samples());
        for batch in collector.batches(self.inputs) {
            let (_, jacobian) = collector.collect(batch, Some(self.likelihood), Some(&deviation));
            jacobian.add_normal(&live, &mut normal);
        }
        (keep, live, Contribution::Parameters { normal }, 0.0)
    }

    /// With the Jacobian of all data in memory, in factors, less the rows that do not matter.
    fn by_samples(
        &self,
        subnetwork: &ColumnSet,
        tolerance: f64,
        form: Option<Form>,
    ) -> Result<Formed, PosteriorError> {
        let (jacobian, dropped) = self.gather(subnetwork, ROWS_SHARE * tolerance);
        let keep: Vec<bool> =
            jacobian.column_squares(subnetwork).iter().map(|&square| square != 0.0).collect();
        let (live, jacobian) = if keep.contains(&false) {
            (subnetwork.restrict(&keep), jacobian.restrict(subnetwork, &keep))
        } else {
            (subnetwork.clone(), jacobian)
        };
        let exact = match form {
            Some(form @ (Form::Samples | Form::Parameters)) => form,
            _ => cheapest(jacobian.samples(), jacobian.rows(), &live),
        };
        if tolerance > 0.0 && form.is_none_or(|form| form == Form::Projection) {
            let limit = if form.is_some() {
                f64::INFINITY
            } else {
                cost(exact, jacobian.samples(), jacobian.rows(), &live)
            };
            let found = Projection::new(&jacobian, &live, tolerance - dropped, limit)?;
            if let Some((projection, residual)) = found {
                return Ok((keep, live, Contribution::Projection(projection), residual + dropped));
            }
        }
        let contribution = if exact == Form::Parameters {
            let mut normal = vec![0.0; live.columns() * live.columns()];
            jacobian.add_normal(&live, &mut normal);
            Contribution::Parameters { normal }
        } else {
            let gram = jacobian.gram(&live);
            Contribution::Samples { jacobian, gram }
        };
        Ok((keep, live, contribution, dropped))
    }

    /// The weighted Jacobian of all samples, without the smallest rows as long as their squares sum to no more
    /// than `budget` (rows of zeros go in any case). Returns that sum: what leaving them out takes off the trace.
    fn gather(&self, subnetwork: &ColumnSet, budget: f64) -> (WeightedJacobian, f64) {
        let mut whole = WeightedJacobian::empty(subnetwork);
        let mut dropped = 0.0;
        let mut collector = Collector::new(self.network, self.parameters, subnetwork, self.samples());
        for batch in collector.batches(self.inputs) {
            let (_, jacobian) = collector.collect(batch, Some(self.likelihood), Some(self.deviation));
            let squares = jacobian.row_squares(subnetwork);
            let share = budget * batch.len() as f64 / self.inputs.len() as f64;
            let mut order: Vec<usize> = (0..squares.len()).collect();
            order.sort_by(|&a, &b| squares[a].total_cmp(&squares[b]).then(a.cmp(&b)));
            let mut keep = vec![true; squares.len()];
            let mut sum = 0.0;
            for row in order {
                if sum + squares[row] > share || squares[row].is_nan() {
                    break;
                }
                sum += squares[row];
                keep[row] = false;
            }
            dropped += sum;
            whole.absorb(subnetwork, &jacobian, &keep);
        }
        (whole, dropped)
    }
}

/// Most memory that the matrices of a posterior may take, in bytes.
const LARGEST: f64 = 16.0 * (1_u64 << 30) as f64;

/// Refuses what no machine should be asked for: a factor and its inverse, and the factor of the reduction.
fn refuse_giants(form: Form, rows: usize, subnetwork: &ColumnSet) -> Result<(), PosteriorError> {
    let (m, s) = (rows as f64, subnetwork.columns() as f64);
    let values = match form {
        Form::Parameters => 2.0 * s * s,
        Form::Samples | Form::Projection => 2.0 * m * m + m * s,
    };
    let bytes = values * size_of::<f64>() as f64;
    if bytes <= LARGEST {
        return Ok(());
    }
    let parameters = subnetwork.columns();
    Err(PosteriorError::TooLarge { parameters, rows, gigabytes: bytes / f64::from(1 << 30) })
}

/// The exact form that takes the fewest operations.
fn cheapest(samples: usize, rows: usize, subnetwork: &ColumnSet) -> Form {
    let by_samples = cost(Form::Samples, samples, rows, subnetwork);
    let by_parameters = cost(Form::Parameters, samples, rows, subnetwork);
    if by_samples <= by_parameters { Form::Samples } else { Form::Parameters }
}

/// Multiplications (and as many additions) of an exact form.
fn cost(form: Form, samples: usize, rows: usize, subnetwork: &ColumnSet) -> f64 {
    let (n, m) = (samples as f64, rows as f64);
    let (s, c) = (subnetwork.structured as f64, subnetwork.unstructured() as f64);
    let (u, all) = (subnetwork.units.len() as f64, subnetwork.columns() as f64);
    match form {
        Form::Samples | Form::Projection => {
            // Half a symmetric matrix of inner products, weighted; factor and inverse; factor of the reduction.
            0.5 * n * n * s + m * m * (u + c) + m * m * m / 3.0 + 0.5 * n * s * m
        }
        // Units are taken to be active at half of the samples.
        Form::Parameters => 0.25 * n * s * s + m * c * (u + 0.5 * c) + n * s * c + all * all * all / 3.0,
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

fn kept(values: &[f64], keep: &[bool]) -> Vec<f64> {
    values.iter().zip(keep).filter(|(_, keep)| **keep).map(|(&value, _)| value).collect()
}

fn check_scale(scale: f64) -> Result<(), PosteriorError> {
    if scale > 0.0 && scale.is_finite() {
        return Ok(());
    }
    Err(PosteriorError::Setting { what: "a scale of the prior variance", value: scale })
}
