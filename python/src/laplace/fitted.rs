//! A fitted posterior and its predictions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fedsi_bayes::{Laplace, OutputDistribution, PosteriorError, Predictive};
use fedsi_random::{Purpose, Streams};
use numpy::ndarray::{Array1, Array2, Array3, ShapeError};
use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::convert::{network_of, refused, samples_of};
use super::file::{self, Stored};
use crate::errors::Kind;
use crate::interrupt::interruptible;

/// Means `[samples, outputs]` and covariances `[samples, outputs, outputs]`.
type Moments<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray3<f64>>);

/// A Laplace posterior with its network, at the parameters it was fitted to.
#[pyclass(frozen, module = "fedsi._native")]
pub(crate) struct LaplaceFit {
    fit: Arc<Laplace>,
    log_likelihood: Option<f64>,
    log_marginal_likelihood: Option<f64>,
}

impl LaplaceFit {
    pub(super) fn new(fit: Laplace, log_likelihood: Option<f64>) -> Self {
        let log_marginal_likelihood = fit.log_marginal_likelihood();
        Self { fit: Arc::new(fit), log_likelihood, log_marginal_likelihood }
    }

    /// Work on the posterior without the interpreter lock.
    fn compute<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Laplace) -> T + Send + 'static,
    ) -> PyResult<T> {
        let fit = Arc::clone(&self.fit);
        interruptible(py, move || work(&fit))
    }

    fn samples(&self, inputs: &PyReadonlyArrayDyn<'_, f64>) -> PyResult<Vec<f64>> {
        samples_of("inputs", inputs, self.fit.network().inputs())
    }
}

#[pymethods]
impl LaplaceFit {
    /// The distribution of the linearised network's outputs: means and covariances.
    fn outputs<'py>(&self, py: Python<'py>, inputs: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Moments<'py>> {
        let inputs = self.samples(&inputs)?;
        let found = self.compute(py, move |fit| {
            in_blocks(fit, &inputs, |block| fit.outputs(block)).map(|blocks| {
                let mut all = OutputDistribution { outputs: fit.network().outputs(), ..Default::default() };
                for block in blocks {
                    all.mean.extend(block.mean);
                    all.covariance.extend(block.covariance);
                }
                all
            })
        })?;
        let found = found.map_err(refused)?;
        let (rows, width) = (found.len(), found.outputs);
        let mean = Array2::from_shape_vec((rows, width), found.mean).map_err(shape)?;
        let covariance = Array3::from_shape_vec((rows, width, width), found.covariance).map_err(shape)?;
        Ok((mean.into_pyarray(py), covariance.into_pyarray(py)))
    }

    /// The probability of each class.
    #[pyo3(signature = (inputs, predictive="probit", draws=100, seed=0))]
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        inputs: PyReadonlyArrayDyn<'py, f64>,
        predictive: &str,
        draws: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let inputs = self.samples(&inputs)?;
        let predictive: Predictive = predictive.parse().map_err(|error| Kind::Input.error(error))?;
        let found = self.compute(py, move |fit| {
            // A stream of its own for each block: all have the same draws, as within a block.
            let rng = || Streams::new(seed).stream(Purpose::Prediction, 0, 0);
            in_blocks(fit, &inputs, |block| fit.probabilities(block, predictive, draws, &mut rng()))
                .map(|blocks| blocks.concat())
        })?;
        self.matrix(py, found.map_err(refused)?, self.fit.network().outputs())
    }

    /// One number a sample for how uncertain the model is of it.
    fn spread<'py>(
        &self,
        py: Python<'py>,
        inputs: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let inputs = self.samples(&inputs)?;
        let found = self.compute(py, move |fit| {
            in_blocks(fit, &inputs, |block| fit.spread(block)).map(|blocks| blocks.concat())
        })?;
        let found = found.map_err(refused)?;
        Ok(Array1::from_vec(found).into_pyarray(py))
    }

    /// The posterior variance of each selected parameter.
    fn variances<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let found = self.compute(py, |fit| fit.posterior().marginal_variances())?;
        Ok(Array1::from_vec(found).into_pyarray(py))
    }

    /// The covariance of the selected parameters, multiplied out.
    fn covariance<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let size = self.fit.posterior().selected().len();
        // The result, and the block of the factor's product.
        let needed = 2.0 * 8.0 * (size as f64).powi(2);
        if let Some(available) = fedsi_fl::memory::available().filter(|&available| needed > available as f64)
        {
            return Err(Kind::Posterior.error(format!(
                "the covariance of {size} parameters takes {:.1} GB to multiply out and {:.1} GB can be had: predictions do \
                 not need it; use `posterior_variance`, or a smaller subnetwork",
                needed / 1e9,
                available as f64 / 1e9
            )));
        }
        let found = self.compute(py, |fit| fit.posterior().covariance())?;
        self.matrix(py, found, size)
    }

    /// Draws of the selected parameters, as distances from where they were trained to.
    #[pyo3(signature = (count, seed=0))]
    fn draws<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let found = self.compute(py, move |fit| {
            let mut rng = Streams::new(seed).stream(Purpose::PriorDraws, 0, 0);
            fit.posterior().draws(count, &mut rng)
        })?;
        self.matrix(py, found.map_err(refused)?, self.fit.posterior().selected().len())
    }

    /// The selected parameters: flat indices, ascending.
    #[getter]
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.fit.posterior().selected().iter().map(|&index| index as i64))
    }

    /// The prior variance of each of them.
    #[getter]
    fn prior_variance<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.fit.posterior().prior_variance())
    }

    /// The log likelihood of the training data at the trained parameters.
    #[getter]
    const fn log_likelihood(&self) -> Option<f64> {
        self.log_likelihood
    }

    /// Laplace's approximation of the log probability of the training data.
    #[getter]
    const fn log_marginal_likelihood(&self) -> Option<f64> {
        self.log_marginal_likelihood
    }

    /// Directions that the data determines, as far as they were kept.
    #[getter]
    fn rank(&self) -> usize {
        self.fit.posterior().rank()
    }

    /// How far too large a variance can be, as a share of itself; 0 if exact.
    #[getter]
    fn certificate(&self) -> f64 {
        self.fit.posterior().certificate()
    }

    /// Where the selected parameters lie, and how many have curvature: a small table.
    #[getter]
    fn explanation(&self) -> String {
        self.fit.explanation().to_string()
    }

    /// Writes the posterior, the parameters it was fitted to, and `settings` (a JSON object), whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf, settings: &str, names: Vec<String>) -> PyResult<()> {
        let settings: serde_json::Value = serde_json::from_str(settings)
            .map_err(|error| Kind::Input.error(format!("settings: {error}")))?;
        let numbers = [self.log_likelihood, self.log_marginal_likelihood];
        self.compute(py, move |fit| file::write(&path, fit, numbers, settings, &names))?
    }

    /// Reads what `save` wrote: settings as JSON.
    #[staticmethod]
    fn settings(path: PathBuf) -> PyResult<String> {
        Ok(Stored::read(&path)?.settings()?.to_string())
    }

    /// Reads what `save` wrote, over the network and the parameters it was fitted to.
    #[staticmethod]
    fn load(
        network: &Bound<'_, PyAny>,
        parameters: PyReadonlyArray1<'_, f64>,
        path: PathBuf,
        names: Vec<String>,
    ) -> PyResult<Self> {
        let parameters = parameters.as_array().to_vec();
        let (fit, [log_likelihood, log_marginal_likelihood]) =
            Stored::read(&path)?.posterior(network_of(network)?, parameters, &names)?;
        Ok(Self { fit: Arc::new(fit), log_likelihood, log_marginal_likelihood })
    }
}

impl LaplaceFit {
    fn matrix<'py>(
        &self,
        py: Python<'py>,
        values: Vec<f64>,
        width: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        Ok(Array2::from_shape_vec((rows, width), values).map_err(shape)?.into_pyarray(py))
    }
}

/// Samples of a block.
const BLOCK: usize = 128;

/// Predicts blocks of samples, on as many threads as there are cores where the network is the engine's own. Blocks are the
/// same whatever the threads, and so are the results.
fn in_blocks<T: Send>(
    fit: &Laplace,
    inputs: &[f64],
    predict: impl Fn(&[f64]) -> Result<T, PosteriorError> + Sync,
) -> Result<Vec<T>, PosteriorError> {
    let blocks: Vec<&[f64]> = inputs.chunks(BLOCK * fit.network().inputs()).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // A network of Python holds the interpreter lock, and has threads of its own.
    let threads = if fit.network().as_layered().is_some() { cores.min(blocks.len()) } else { 1 };
    if threads <= 1 {
        return blocks.into_iter().map(predict).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = blocks.get(place) else { return done };
            done.push((place, predict(block)));
        }
    };
    let mut found: Vec<(usize, Result<T, PosteriorError>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for other in others {
            // A panic goes on where it would have without threads.
            found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        found
    });
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Lengths are checked where results are made.
fn shape(error: ShapeError) -> PyErr {
    Kind::Posterior.error(format!("a result of an unexpected size: {error}"))
}
