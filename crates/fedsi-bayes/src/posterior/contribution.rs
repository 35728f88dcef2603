//! What the data contributes to a posterior, in whichever form is cheapest.

use std::sync::Arc;

use super::probes::Probes;
use super::projection::{GRAM_ROWS, Projection};
use crate::algebra::{JacobianFactors, NormalMatrix};
use crate::collect::{Collector, columns_of};
use crate::error::PosteriorError;
use crate::jacobian::{ColumnSet, WeightedJacobian};
use crate::problem::Problem;

/// Share of the tolerance that may go into leaving out rows before anything is factorised.
const ROWS_SHARE: f64 = 0.25;

/// Most values of a Jacobian that [`Contributions::for_scale`] gathers: 512 MiB.
const GATHERED_VALUES: usize = 1 << 26;

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

/// What the data contributes.
#[derive(Clone, Debug)]
pub(super) enum Contribution {
    Samples {
        jacobian: WeightedJacobian,
        gram: Vec<f64>,
    },
    Parameters {
        normal: Vec<f64>,
    },
    /// As `Parameters`, in a device's memory.
    OnDevice {
        normal: Arc<dyn NormalMatrix>,
    },
    Projection(Projection),
}

/// What the data contributes to which columns.
pub(super) struct Formed {
    /// Which columns it contributes to.
    pub(super) keep: Vec<bool>,
    /// The subnetwork of these.
    pub(super) live: ColumnSet,
    pub(super) contribution: Contribution,
    /// The trace left out.
    pub(super) residual: f64,
    /// Columns of which every derivative is 0: all that are not kept, where nothing was left out.
    pub(super) without_curvature: usize,
}

/// The Jacobian of the rows and columns that matter.
struct Gathered {
    keep: Vec<bool>,
    live: ColumnSet,
    jacobian: WeightedJacobian,
    /// What leaving rows out takes off the trace.
    dropped: f64,
    without_curvature: usize,
}

/// Computes what the data contributes to a posterior.
pub(super) struct Contributions<'a> {
    pub(super) problem: &'a Problem<'a>,
    /// The prior's standard deviation of each column.
    pub(super) deviation: &'a [f64],
}

impl Contributions<'_> {
    /// In the form given, or the cheapest one.
    pub(super) fn of(
        &self,
        subnetwork: &ColumnSet,
        tolerance: f64,
        form: Option<Form>,
    ) -> Result<Formed, PosteriorError> {
        let samples = self.problem.samples();
        let rows = samples * self.problem.likelihood().rows(self.problem.network().outputs());
        let exact = form.unwrap_or_else(|| cheapest(samples, rows, subnetwork));
        if tolerance == 0.0 {
            check_memory(exact, rows, subnetwork)?;
        }
        // With more samples than parameters a projection gathers more than the exact form ever holds, and finds
        // little to leave out.
        let streams = tolerance == 0.0 || (form.is_none() && samples > subnetwork.columns());
        if exact == Form::Parameters && streams {
            check_memory(exact, rows, subnetwork)?;
            self.by_parameters(subnetwork, true)
        } else {
            self.by_samples(subnetwork, tolerance, form)
        }
    }

    /// In a form whose size follows the directions that matter at the tolerance, at `scale` times the prior variances;
    /// exact with a tolerance of 0. Where `B B'` is the smaller one, the tolerance holds for any combination of
    /// parameters; where `B' B` is formed, on average over probes among `inputs`; where neither fits into memory, for
    /// any combination at scale 1.
    pub(super) fn for_scale(
        &self,
        subnetwork: &ColumnSet,
        tolerance: f64,
        scale: f64,
        inputs: &[f64],
    ) -> Result<(Vec<bool>, ColumnSet, Contribution), PosteriorError> {
        if tolerance == 0.0 {
            let Formed { keep, live, contribution, .. } = self.of(subnetwork, 0.0, None)?;
            return Ok((keep, live, contribution));
        }
        let (samples, network) = (self.problem.samples(), self.problem.network());
        let rows = samples * self.problem.likelihood().rows(network.outputs());
        let (units, dense) = (subnetwork.units.len(), subnetwork.unstructured());
        let gathered = samples * subnetwork.structured + rows * (units + dense);
        let (keep, live, normal, excess) = if gathered > GATHERED_VALUES
            && check_memory(Form::Parameters, rows, subnetwork).is_ok()
        {
            let Formed { keep, live, contribution, .. } = self.by_parameters(subnetwork, false)?;
            match contribution {
                Contribution::Parameters { normal } => (keep, live, normal, 0.0),
                other => return Ok((keep, live, other)),
            }
        } else {
            let too_large = check_memory(Form::Parameters, rows, subnetwork).is_err();
            // Of much data only the trace left out is known, a bound far above what outputs show of it.
            let bound = if too_large && rows > GRAM_ROWS { tolerance } else { tolerance / scale };
            let Gathered { keep, live, jacobian, dropped, .. } = self.gather_live(subnetwork, bound)?;
            let (n, m) = (jacobian.samples(), jacobian.rows());
            let fewer = forming(Form::Samples, n, m, &live) <= forming(Form::Parameters, n, m, &live);
            if too_large || (fewer && m <= GRAM_ROWS) {
                let contribution = match Projection::new(&jacobian, &live, bound - dropped, f64::INFINITY)? {
                    Some((projection, _)) => Contribution::Projection(projection),
                    None => Contribution::Samples { gram: jacobian.gram(&live), jacobian },
                };
                return Ok((keep, live, contribution));
            }
            let normal = self.normal_of(&jacobian, &live)?;
            (keep, live, normal, scale * dropped)
        };
        let deviation = kept(self.deviation, &keep);
        let probes = Probes::new(self.problem, &live, &deviation, inputs, scale)?;
        // What was dropped and what is left out now multiply.
        let tolerance = (tolerance - excess) / (1.0 + excess);
        let projection = Projection::of_normal(&normal, &live, &probes, tolerance)?;
        Ok((keep, live, Contribution::Projection(projection)))
    }

    fn collector<'b>(&'b self, subnetwork: &'b ColumnSet) -> Collector<'b> {
        let problem = self.problem;
        Collector::new(&**problem.network(), problem.parameters(), subnetwork, problem.samples())
    }

    /// Batch by batch, so that memory follows the subnetwork and not the data.
    /// Where `may_stay`, a matrix on a device stays there.
    fn by_parameters(&self, subnetwork: &ColumnSet, may_stay: bool) -> Result<Formed, PosteriorError> {
        let mut keep = self.active_columns(subnetwork)?;
        let live = subnetwork.restrict(&keep);
        let deviation = kept(self.deviation, &keep);
        let (network, samples) = (self.problem.network(), self.problem.samples());
        let rows = samples * self.problem.likelihood().rows(network.outputs());
        let mut normal = network.algebra().normal_matrix(live.columns(), samples, rows)?;
        let mut collector = self.collector(&live);
        for batch in collector.batches(self.problem.inputs()) {
            let (_, jacobian) =
                collector.collect(batch, Some(self.problem.likelihood()), Some(&deviation))?;
            normal.add(&JacobianFactors::new(&jacobian, &live))?;
        }
        // Sums of squares: exactly 0 for a parameter without influence, as one whose input is always 0.
        let influential: Vec<bool> = normal.diagonal()?.iter().map(|&square| square != 0.0).collect();
        let mut own = influential.iter();
        for keep in keep.iter_mut().filter(|keep| **keep) {
            *keep = own.next().is_some_and(|&influential| influential);
        }
        let without_curvature = keep.iter().filter(|keep| !**keep).count();
        let (live, contribution) = if may_stay && normal.on_device() && !influential.contains(&false) {
            (live, Contribution::OnDevice { normal: Arc::from(normal) })
        } else {
            let normal = restricted(normal.into_lower()?, &influential);
            (live.restrict(&influential), Contribution::Parameters { normal })
        };
        Ok(Formed { keep, live, contribution, residual: 0.0, without_curvature })
    }

    /// All columns but those of units of linear layers that no sample activates: what a pass over the data with one column of
    /// each unit tells, which costs a small part of one with all.
    fn active_columns(&self, subnetwork: &ColumnSet) -> Result<Vec<bool>, PosteriorError> {
        let mut one_of_each = vec![false; subnetwork.columns()];
        for unit in &subnetwork.units {
            one_of_each[unit.columns.start] = true;
        }
        let probe = subnetwork.restrict(&one_of_each);
        let mut keep = vec![true; subnetwork.columns()];
        if probe.units.is_empty() {
            return Ok(keep);
        }
        let mut active = vec![false; probe.units.len()];
        let mut collector = self.collector(&probe);
        for batch in collector.batches(self.problem.inputs()) {
            let (_, jacobian) = collector.collect(batch, Some(self.problem.likelihood()), None)?;
            for row in jacobian.gains().chunks_exact(active.len()) {
                for (active, &gain) in active.iter_mut().zip(row) {
                    *active |= gain != 0.0;
                }
            }
        }
        for (unit, active) in subnetwork.units.iter().zip(active) {
            keep[unit.columns.clone()].fill(active);
        }
        Ok(keep)
    }

    /// `B' B` of a Jacobian in memory: its lower triangle, column after column.
    fn normal_of(&self, jacobian: &WeightedJacobian, live: &ColumnSet) -> Result<Vec<f64>, PosteriorError> {
        let algebra = self.problem.network().algebra();
        let mut normal = algebra.normal_matrix(live.columns(), jacobian.samples(), jacobian.rows())?;
        normal.add(&JacobianFactors::new(jacobian, live))?;
        normal.into_lower()
    }

    /// With the Jacobian of all data in memory, in factors, less the rows that do not matter.
    fn by_samples(
        &self,
        subnetwork: &ColumnSet,
        tolerance: f64,
        form: Option<Form>,
    ) -> Result<Formed, PosteriorError> {
        let Gathered { keep, live, jacobian, dropped, without_curvature } =
            self.gather_live(subnetwork, tolerance)?;
        let formed = |keep, live, contribution, residual| Formed {
            keep,
            live,
            contribution,
            residual,
            without_curvature,
        };
        let exact = match form {
            Some(form @ (Form::Samples | Form::Parameters)) => form,
            _ => cheapest(jacobian.samples(), jacobian.rows(), &live),
        };
        let too_large = check_memory(exact, jacobian.rows(), &live);
        if tolerance > 0.0 && form.is_none_or(|form| form == Form::Projection) {
            let limit = if form.is_some() || too_large.is_err() {
                f64::INFINITY
            } else {
                cost(exact, jacobian.samples(), jacobian.rows(), &live)
            };
            let found = Projection::new(&jacobian, &live, tolerance - dropped, limit)?;
            if let Some((projection, residual)) = found {
                return Ok(formed(keep, live, Contribution::Projection(projection), residual + dropped));
            }
        }
        too_large?;
        let contribution = if exact == Form::Parameters {
            Contribution::Parameters { normal: self.normal_of(&jacobian, &live)? }
        } else {
            let gram = jacobian.gram(&live);
            Contribution::Samples { jacobian, gram }
        };
        Ok(formed(keep, live, contribution, dropped))
    }

    /// The Jacobian of the rows and columns that matter.
    fn gather_live(&self, subnetwork: &ColumnSet, tolerance: f64) -> Result<Gathered, PosteriorError> {
        let (jacobian, dropped, squares) = self.gather(subnetwork, ROWS_SHARE * tolerance)?;
        let without_curvature = squares.iter().filter(|&&square| square == 0.0).count();
        let keep: Vec<bool> =
            jacobian.column_squares(subnetwork).iter().map(|&square| square != 0.0).collect();
        let (live, jacobian) = if keep.contains(&false) {
            (subnetwork.restrict(&keep), jacobian.restrict(subnetwork, &keep))
        } else {
            (subnetwork.clone(), jacobian)
        };
        Ok(Gathered { keep, live, jacobian, dropped, without_curvature })
    }

    /// The weighted Jacobian of all samples, without the smallest rows as long as their squares sum to no more
    /// than `budget` (rows of zeros go in any case). Returns that sum too: what leaving them out takes off the trace; and the
    /// squared length of every column of all rows.
    fn gather(
        &self,
        subnetwork: &ColumnSet,
        budget: f64,
    ) -> Result<(WeightedJacobian, f64, Vec<f64>), PosteriorError> {
        let mut whole = WeightedJacobian::empty(subnetwork);
        let mut dropped = 0.0;
        let mut columns = vec![0.0; subnetwork.columns()];
        let mut collector = self.collector(subnetwork);
        for batch in collector.batches(self.problem.inputs()) {
            let (_, jacobian) =
                collector.collect(batch, Some(self.problem.likelihood()), Some(self.deviation))?;
            for (sum, square) in columns.iter_mut().zip(jacobian.column_squares(subnetwork)) {
                *sum += square;
            }
            let squares = jacobian.row_squares(subnetwork);
            let share = budget * batch.len() as f64 / self.problem.inputs().len() as f64;
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
        Ok((whole, dropped, columns))
    }
}

/// Most memory that the matrices of a posterior may take, in bytes.
const LARGEST: f64 = 16.0 * (1_u64 << 30) as f64;

/// Whether a factor and its inverse, and the factor of the reduction, stay below [`LARGEST`].
fn check_memory(form: Form, rows: usize, subnetwork: &ColumnSet) -> Result<(), PosteriorError> {
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

/// Whether the exact posterior of these parameters takes less time than one within a tolerance: see
/// [`Problem::is_exact_faster`]. Never where it would not fit into memory.
pub(crate) fn is_exact_faster(problem: &Problem<'_>, selected: &[usize]) -> bool {
    let network = &**problem.network();
    let subnetwork = columns_of(network, selected);
    let (samples, columns) = (problem.samples(), subnetwork.columns());
    let rows = samples * problem.likelihood().rows(network.outputs());
    rows > GRAM_ROWS.max(columns)
        && network.algebra().is_on_device(columns, samples)
        && cheapest(samples, rows, &subnetwork) == Form::Parameters
        && check_memory(Form::Parameters, rows, &subnetwork).is_ok()
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
    let (s, all) = (subnetwork.structured as f64, subnetwork.columns() as f64);
    forming(form, samples, rows, subnetwork)
        + match form {
            // Factor and inverse; factor of the reduction.
            Form::Samples | Form::Projection => m * m * m / 3.0 + 0.5 * n * s * m,
            Form::Parameters => all * all * all / 3.0,
        }
}

/// Multiplications that forming `B B'` or `B' B` takes.
fn forming(form: Form, samples: usize, rows: usize, subnetwork: &ColumnSet) -> f64 {
    let (n, m) = (samples as f64, rows as f64);
    let (s, c) = (subnetwork.structured as f64, subnetwork.unstructured() as f64);
    let u = subnetwork.units.len() as f64;
    match form {
        // Half a symmetric matrix of inner products, weighted.
        Form::Samples | Form::Projection => 0.5 * n * n * s + m * m * (u + c),
        // Units are taken to be active at half of the samples.
        Form::Parameters => 0.25 * n * s * s + m * c * (u + 0.5 * c) + n * s * c,
    }
}

/// Those rows and columns of a symmetric matrix, its lower triangle column after column, that are kept.
fn restricted(mut normal: Vec<f64>, keep: &[bool]) -> Vec<f64> {
    if !keep.contains(&false) {
        return normal;
    }
    let places: Vec<usize> = (0..keep.len()).filter(|&place| keep[place]).collect();
    let mut end = 0;
    for &column in &places {
        for &row in &places {
            // In its place: what is read lies never before what is written.
            normal[end] = normal[column * keep.len() + row];
            end += 1;
        }
    }
    normal.truncate(end);
    normal
}

fn kept(values: &[f64], keep: &[bool]) -> Vec<f64> {
    values.iter().zip(keep).filter(|(_, keep)| **keep).map(|(&value, _)| value).collect()
}
