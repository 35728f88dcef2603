//! A network with its data, a selection of its parameters, and the search for a prior.

use std::sync::Arc;

use fedsi_bayes::{
    LaplaceError, Likelihood, LinearisedNetwork, PosteriorError, Predictive, Prior, PriorScale, Problem,
    RuleName, Rules, Selection,
};
use fedsi_random::{Purpose, Streams};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::convert::{OwnTargets, network_of, refused, samples_of};
use super::fitted::LaplaceFit;
use crate::errors::Kind;
use crate::interrupt::interruptible;

/// A trained network, the data it was trained on, and what its outputs mean.
#[pyclass(frozen, module = "fedsi._native")]
pub(crate) struct LaplaceProblem {
    data: Arc<Data>,
}

#[derive(Debug)]
struct Data {
    network: Arc<dyn LinearisedNetwork>,
    parameters: Arc<[f64]>,
    likelihood: Likelihood,
    inputs: Arc<Vec<f64>>,
    targets: Arc<OwnTargets>,
}

impl Data {
    fn problem(&self) -> Result<Problem<'_>, PosteriorError> {
        let (network, parameters) = (Arc::clone(&self.network), Arc::clone(&self.parameters));
        Problem::new(network, parameters, &self.inputs, self.likelihood.clone())?
            .with_targets(self.targets.borrow())
    }
}

/// How parameters are selected.
enum How {
    All,
    Indices(Vec<usize>),
    Rule { name: String, size: usize, seed: u64 },
}

#[pymethods]
impl LaplaceProblem {
    /// `noise`: the standard deviation of each output's noise for a regression; none for classes.
    #[new]
    #[pyo3(signature = (network, parameters, inputs, *, labels=None, values=None, noise=None))]
    fn new(
        network: &Bound<'_, PyAny>,
        parameters: PyReadonlyArray1<'_, f64>,
        inputs: PyReadonlyArrayDyn<'_, f64>,
        labels: Option<PyReadonlyArray1<'_, i64>>,
        values: Option<PyReadonlyArray2<'_, f64>>,
        noise: Option<Vec<f64>>,
    ) -> PyResult<Self> {
        let network = network_of(network)?;
        let inputs = samples_of("inputs", &inputs, network.inputs())?;
        let likelihood = noise.map_or(Likelihood::Categorical, |noise| Likelihood::Gaussian { noise });
        let targets = OwnTargets::of(labels, values)?;
        let parameters: Arc<[f64]> = parameters.as_array().iter().copied().collect();
        if inputs.is_empty() {
            return Err(Kind::Input.error("inputs: found no sample, expected at least one"));
        }
        Problem::new(Arc::clone(&network), Arc::clone(&parameters), &inputs, likelihood.clone())
            .map_err(refused)?;
        let (inputs, targets) = (Arc::new(inputs), Arc::new(targets));
        Ok(Self { data: Arc::new(Data { network, parameters, likelihood, inputs, targets }) })
    }

    /// The same with other noise: standard deviations, one for each output.
    fn with_noise(&self, noise: Vec<f64>) -> PyResult<Self> {
        let Data { network, parameters, inputs, targets, .. } = &*self.data;
        let likelihood = Likelihood::Gaussian { noise };
        Problem::new(Arc::clone(network), Arc::clone(parameters), inputs, likelihood.clone())
            .map_err(refused)?;
        let data = Data {
            network: Arc::clone(network),
            parameters: Arc::clone(parameters),
            likelihood,
            inputs: Arc::clone(inputs),
            targets: Arc::clone(targets),
        };
        Ok(Self { data: Arc::new(data) })
    }

    /// Samples of the data.
    #[getter]
    fn samples(&self) -> usize {
        self.data.inputs.len() / self.data.network.inputs()
    }

    /// Outputs of the network.
    #[getter]
    fn outputs(&self) -> usize {
        self.data.network.outputs()
    }

    /// Chooses from the parameters `start..stop`, whose prior variances (and means) are given: those of `indices`, `size` of
    /// them by a `rule`, or all.
    #[pyo3(signature = (start, stop, prior_variance, prior_mean=None, *, indices=None, rule=None, size=None, seed=0, independent=false))]
    #[allow(clippy::too_many_arguments, reason = "keywords of one call")]
    fn select(
        &self,
        py: Python<'_>,
        start: usize,
        stop: usize,
        prior_variance: PyReadonlyArray1<'_, f64>,
        prior_mean: Option<PyReadonlyArray1<'_, f64>>,
        indices: Option<PyReadonlyArray1<'_, i64>>,
        rule: Option<String>,
        size: Option<usize>,
        seed: u64,
        independent: bool,
    ) -> PyResult<LaplaceSelection> {
        let mut prior = Prior::diagonal(start..stop, prior_variance.as_array().to_vec());
        if let Some(mean) = prior_mean {
            prior = prior.with_mean(mean.as_array().to_vec());
        }
        let how = match (indices, rule) {
            (Some(indices), None) => How::Indices(indices_of(&indices)?),
            (None, Some(name)) => How::Rule { name, size: size.unwrap_or(stop.saturating_sub(start)), seed },
            (None, None) => How::All,
            (Some(_), Some(_)) => {
                return Err(Kind::Input.error("indices and a rule: expected one of them, not both"));
            }
        };
        let data = Arc::clone(&self.data);
        let selection = interruptible(py, move || select(&data, &prior, how, independent))?;
        Ok(LaplaceSelection { selection: Arc::new(selection.map_err(SelectFailed::into_python)?) })
    }

    /// The posterior over a selection, with its prior variances times `scale`.
    #[pyo3(signature = (selection, tolerance=0.0, scale=1.0))]
    fn fit(
        &self,
        py: Python<'_>,
        selection: &LaplaceSelection,
        tolerance: f64,
        scale: f64,
    ) -> PyResult<LaplaceFit> {
        let (data, selection) = (Arc::clone(&self.data), Arc::clone(&selection.selection));
        let fit = interruptible(py, move || {
            let problem = data.problem()?;
            let scales = [scale];
            let mut fits = problem.fit_scales(&selection, tolerance, &scales)?;
            // One scale has one posterior.
            let fit = fits.next().unwrap_or_else(|| problem.fit(&selection, tolerance))?;
            Ok(LaplaceFit::new(fit, problem.log_likelihood()))
        })?;
        fit.map_err(|error: PosteriorError| refused(error))
    }

    /// The factor on the prior variances that maximises the marginal likelihood: factor, negative log marginal likelihood,
    /// whether it lies at an edge of the search.
    #[pyo3(signature = (selection, tolerance=0.0))]
    fn scale_by_marginal_likelihood(
        &self,
        py: Python<'_>,
        selection: &LaplaceSelection,
        tolerance: f64,
    ) -> PyResult<(f64, f64, bool)> {
        let (data, selection) = (Arc::clone(&self.data), Arc::clone(&selection.selection));
        let found = interruptible(py, move || {
            data.problem()
                .map_err(LaplaceError::from)
                .and_then(|problem| problem.scale_by_marginal_likelihood(&selection, tolerance))
        })?;
        found.map(parts).map_err(refused)
    }

    /// The same by the mean negative log likelihood of samples that were held out.
    #[pyo3(signature = (selection, tolerance, inputs, *, labels=None, values=None, predictive="probit", draws=100, seed=0))]
    #[allow(clippy::too_many_arguments, reason = "keywords of one call")]
    fn scale_by_held_out(
        &self,
        py: Python<'_>,
        selection: &LaplaceSelection,
        tolerance: f64,
        inputs: PyReadonlyArrayDyn<'_, f64>,
        labels: Option<PyReadonlyArray1<'_, i64>>,
        values: Option<PyReadonlyArray2<'_, f64>>,
        predictive: &str,
        draws: usize,
        seed: u64,
    ) -> PyResult<(f64, f64, bool)> {
        let inputs = samples_of("held-out inputs", &inputs, self.data.network.inputs())?;
        let targets = OwnTargets::of(labels, values)?;
        let predictive: Predictive = predictive.parse().map_err(|error| Kind::Input.error(error))?;
        let (data, selection) = (Arc::clone(&self.data), Arc::clone(&selection.selection));
        let found = interruptible(py, move || {
            let rng = Streams::new(seed).stream(Purpose::Prediction, 0, 0);
            data.problem().map_err(LaplaceError::from).and_then(|problem| {
                let targets = targets.borrow();
                problem.scale_by_held_out(&selection, tolerance, &inputs, targets, predictive, draws, &rng)
            })
        })?;
        found.map(parts).map_err(refused)
    }
}

fn parts(found: PriorScale) -> (f64, f64, bool) {
    (found.scale, found.loss, found.at_the_edge)
}

/// Why nothing was selected.
enum SelectFailed {
    Rule(fedsi_bayes::RuleNameError),
    Laplace(LaplaceError),
}

impl SelectFailed {
    fn into_python(self) -> PyErr {
        match self {
            Self::Rule(error) => Kind::Input.error(error),
            Self::Laplace(error) => refused(error),
        }
    }
}

fn select(data: &Data, prior: &Prior, how: How, independent: bool) -> Result<Selection, SelectFailed> {
    let problem = data.problem().map_err(|error| SelectFailed::Laplace(error.into()))?;
    let selection = match how {
        How::All => problem.choose_all(prior),
        How::Indices(indices) => problem.choose_indices(prior, indices),
        How::Rule { name, size, seed } => {
            let rule = Rules::builtin().find(&RuleName::from(name)).map_err(SelectFailed::Rule)?;
            let mut rng = Streams::new(seed).stream(Purpose::Selection, 0, 0);
            problem.choose(prior, &*rule, size, &mut rng)
        }
    };
    let selection =
        if independent { selection.and_then(|found| problem.independent(found)) } else { selection };
    selection.map_err(SelectFailed::Laplace)
}

fn indices_of(indices: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<usize>> {
    let index = |&index: &i64| {
        usize::try_from(index).map_err(|_| Kind::Input.error(format!("index {index}: expected 0 or above")))
    };
    indices.as_array().iter().map(index).collect()
}

/// Parameters that are to have a distribution, with their prior.
#[pyclass(frozen, module = "fedsi._native")]
pub(crate) struct LaplaceSelection {
    selection: Arc<Selection>,
}

#[pymethods]
impl LaplaceSelection {
    /// Flat indices, ascending.
    #[getter]
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.selection.subnetwork().indices().iter().map(|&index| index as i64))
    }
}
