//! What is known of parameters, as tensors: the same in messages, checkpoints and model files.
//!
//! | tensor | what |
//! |---|---|
//! | `values` (F32) | all values, where they are not under PyTorch's names |
//! | `posterior.variance` | of a Gaussian (F32): one a parameter; of a Laplace posterior (F64): one a selected parameter |
//! | `posterior.samples` (F32) | samples x parameters of the head |
//! | `posterior.selected` (I64), `.prior_variance` (F64) | a Laplace posterior's parameters, and their prior |
//! | `posterior.live` (I64), `.factor` (F64) | the selected parameters with curvature, and W, a row for each of those: their covariance is `diag(prior) - W W'` or `W W'` |
//!
//! Which of them there are, and how predictions are made, is in the [`PosteriorHeader`].

use std::sync::Arc;

use fedsi_bayes::{
    Covariance, Explanation, Factors, Laplace, LaplaceParts, Likelihood, LinearisedNetwork, Predictive,
};
use serde::{Deserialize, Serialize};

use super::header::{self, WireError};
use super::tensors::{NamedTensor, TensorFile, TensorFileError};
use crate::network::ClientNetwork;
use crate::parameters::{Gaussian, HeadSamples, LaplaceParameters, Parameters, SharedParameters, doubles};

const KIND: &str = "parameters";

/// What a header says of parameters; nothing for points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PosteriorHeader {
    /// The posterior's form.
    #[serde(default)]
    posterior: Option<PosteriorForm>,
    /// Laplace: which parameters were selected.
    #[serde(default)]
    subnetwork: Option<Explanation>,
    /// Laplace: how a distribution of outputs becomes class probabilities.
    #[serde(default)]
    predictive: Option<PredictiveHeader>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PosteriorForm {
    covariance: CovarianceForm,
    /// Laplace: columns of the factor.
    #[serde(default)]
    rank: usize,
    /// Laplace: the worst factor, less one, by which a variance may be too large.
    #[serde(default)]
    certificate: f64,
    /// Laplace: the data's part of the marginal likelihood.
    #[serde(default)]
    log_determinant_ratio: f64,
}

/// How a posterior is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CovarianceForm {
    /// Laplace, variances alone.
    Independent,
    /// Laplace, `diag(prior) - W W'`.
    Reduction,
    /// Laplace, `W W'`.
    Whole,
    /// An independent normal for each parameter.
    MeanField,
    /// Samples of the head.
    Samples,
}

/// How a posterior becomes a prediction, by name: a [`Predictive`], `draws` or `samples`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PredictiveHeader {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    draws: Option<usize>,
}

impl PosteriorHeader {
    fn of(covariance: CovarianceForm, predictive: &str) -> Self {
        let form = PosteriorForm { covariance, rank: 0, certificate: 0.0, log_determinant_ratio: 0.0 };
        let predictive = PredictiveHeader { kind: predictive.to_owned(), draws: None };
        Self { posterior: Some(form), subnetwork: None, predictive: Some(predictive) }
    }

    /// Whether it is of points: there is no posterior.
    #[must_use]
    pub const fn is_point(&self) -> bool {
        self.posterior.is_none()
    }

    /// The same, with the draws that a prediction averages.
    #[must_use]
    pub fn with_draws(mut self, draws: usize) -> Self {
        if let Some(predictive) = &mut self.predictive {
            predictive.draws = Some(draws);
        }
        self
    }

    /// Whether a prediction averages draws, whose number it must then know.
    #[must_use]
    pub fn needs_draws(&self) -> bool {
        self.posterior.as_ref().is_some_and(|form| form.covariance == CovarianceForm::MeanField)
    }

    /// The draws that a prediction averages, where it says so.
    #[must_use]
    pub fn draws(&self) -> Option<usize> {
        self.predictive.as_ref()?.draws
    }
}

/// The shared part of these values: a Gaussian where the file has variances of this name.
///
/// # Errors
/// Variances that are not one finite number above 0 for each value.
pub fn read_shared(
    file: &TensorFile<'_>,
    mean: Vec<f32>,
    variance: &str,
) -> Result<SharedParameters, TensorFileError> {
    if !file.has(variance) {
        return Ok(SharedParameters::Point(mean));
    }
    let variance = read_variance(file, variance, mean.len())?;
    Ok(SharedParameters::Gaussian(Gaussian { mean, variance }))
}

/// Variances, or standard deviations: one finite number above 0 for each of `count` parameters.
fn read_variance(file: &TensorFile<'_>, name: &str, count: usize) -> Result<Vec<f32>, TensorFileError> {
    let found = file.f32(name)?;
    if found.len() != count || !found.iter().all(|&one| one.is_finite() && one > 0.0) {
        return Err(TensorFileError::invalid(name, "is not one finite number above 0 for each parameter"));
    }
    Ok(found)
}

/// What is known of parameters beyond their values, as tensors and what a header says of them.
#[must_use]
pub fn posterior_tensors(parameters: &Parameters) -> (Vec<NamedTensor>, PosteriorHeader) {
    match parameters {
        Parameters::Point(_) => (Vec::new(), PosteriorHeader::default()),
        Parameters::Gaussian(Gaussian { variance, .. }) => {
            let tensor = NamedTensor::f32("posterior.variance", vec![variance.len()], variance);
            (vec![tensor], PosteriorHeader::of(CovarianceForm::MeanField, "draws"))
        }
        Parameters::Samples(HeadSamples { samples, .. }) => {
            let tensor = NamedTensor::f32("posterior.samples", vec![samples.len()], samples);
            (vec![tensor], PosteriorHeader::of(CovarianceForm::Samples, "samples"))
        }
        Parameters::Laplace(laplace) => laplace_tensors(&laplace.fit, laplace.predictive),
    }
}

/// A Laplace posterior as tensors and what a header says of them; its network and parameters are not among them.
#[must_use]
pub fn laplace_tensors(fit: &Laplace, predictive: Predictive) -> (Vec<NamedTensor>, PosteriorHeader) {
    let (posterior, factors) = (fit.posterior(), fit.posterior().factors());
    let indices =
        |name: &str, values: &[usize]| NamedTensor::i64(name, values.iter().map(|&index| index as i64));
    let selected = factors.selected.len();
    let mut tensors = vec![
        indices("posterior.selected", &factors.selected),
        NamedTensor::f64("posterior.prior_variance", vec![selected], &factors.prior_variance),
        NamedTensor::f64("posterior.variance", vec![selected], &posterior.marginal_variances()),
    ];
    let (covariance, rank, factor) = match factors.covariance {
        Covariance::Independent { .. } => (CovarianceForm::Independent, 0, Vec::new()),
        Covariance::Reduction { rank, factor } => (CovarianceForm::Reduction, rank, factor),
        Covariance::Whole { rank, factor } => (CovarianceForm::Whole, rank, factor),
    };
    if covariance != CovarianceForm::Independent {
        tensors.push(indices("posterior.live", &factors.live));
        tensors.push(NamedTensor::f64("posterior.factor", vec![factors.live.len(), rank], &factor));
    }
    let (certificate, log_determinant_ratio) = (factors.certificate, factors.log_determinant_ratio);
    let header = PosteriorHeader {
        posterior: Some(PosteriorForm { covariance, rank, certificate, log_determinant_ratio }),
        subnetwork: Some(fit.explanation().clone()),
        predictive: Some(PredictiveHeader { kind: predictive.to_string(), draws: None }),
    };
    (tensors, header)
}

/// What is known of parameters of these values, from its tensors. A Laplace posterior linearises `network`, whose outputs
/// mean what `likelihood` says.
///
/// # Errors
/// Tensors that are missing, or do not fit the values, the network or each other.
pub fn read_posterior(
    values: Vec<f32>,
    file: &TensorFile<'_>,
    header: PosteriorHeader,
    network: &dyn ClientNetwork,
    likelihood: Likelihood,
) -> Result<Parameters, WireError> {
    let PosteriorHeader { posterior, subnetwork, predictive } = header;
    let Some(form) = posterior else { return read_points(values, file, "") };
    match form.covariance {
        CovarianceForm::MeanField => read_gaussian(values, file, ""),
        CovarianceForm::Samples => {
            let samples = file.f32("posterior.samples")?;
            if samples.is_empty() || samples.len() % network.layout().head().len() != 0 {
                let reason = "is not a whole number of heads";
                return Err(TensorFileError::invalid("posterior.samples", reason).into());
            }
            Ok(Parameters::Samples(HeadSamples { values, samples }))
        }
        CovarianceForm::Independent | CovarianceForm::Reduction | CovarianceForm::Whole => {
            let header = PosteriorHeader { posterior: Some(form), subnetwork, predictive };
            let (network, parameters) = (network.linearised(), doubles(&values));
            let (fit, predictive) = read_laplace(file, header, network, parameters, likelihood)?;
            Ok(Parameters::Laplace(Box::new(LaplaceParameters { values, fit, predictive })))
        }
    }
}

/// The Laplace posterior that [`laplace_tensors`] wrote, over the network and parameters it was fitted to, and how it
/// predicts.
///
/// # Errors
/// Tensors that are missing, or do not fit the parameters, the network or each other; a posterior of another kind.
pub fn read_laplace(
    file: &TensorFile<'_>,
    header: PosteriorHeader,
    network: Arc<dyn LinearisedNetwork>,
    parameters: Vec<f64>,
    likelihood: Likelihood,
) -> Result<(Laplace, Predictive), WireError> {
    let PosteriorHeader { posterior, subnetwork, predictive } = header;
    let kinds = [CovarianceForm::Independent, CovarianceForm::Reduction, CovarianceForm::Whole];
    let form = posterior.filter(|form| kinds.contains(&form.covariance));
    let form = form.ok_or(WireError::Incomplete("the header describes no Laplace posterior"))?;
    let explanation = subnetwork.ok_or(WireError::Incomplete("no subnetwork belongs to the posterior"))?;
    let predictive: Option<Predictive> = predictive.and_then(|found| found.kind.parse().ok());
    let predictive = predictive.ok_or(WireError::Incomplete("the posterior has no known predictive"))?;
    let factors = read_factors(file, &form)?;
    let parts = LaplaceParts { likelihood, factors, explanation };
    Ok((Laplace::from_parts(network, parameters, parts)?, predictive))
}

/// Point values: there must be no posterior that nothing in the header speaks of.
fn read_points(values: Vec<f32>, file: &TensorFile<'_>, prefix: &str) -> Result<Parameters, WireError> {
    // What is usual among inputs is known of points too.
    let names = file.after(&format!("{prefix}posterior."));
    if names.iter().any(|name| !name.starts_with("strangeness.")) {
        return Err(WireError::Incomplete("the header does not describe the posterior that is there"));
    }
    Ok(Parameters::Point(values))
}

/// Files of fedsi 0.1 have standard deviations.
fn read_gaussian(mean: Vec<f32>, file: &TensorFile<'_>, prefix: &str) -> Result<Parameters, WireError> {
    let (deviation, variance) =
        (format!("{prefix}posterior.deviation"), format!("{prefix}posterior.variance"));
    let is_old = file.has(&deviation);
    let name = if is_old { deviation } else { variance };
    let found = read_variance(file, &name, mean.len())?;
    Ok(Parameters::Gaussian(if is_old {
        Gaussian::from_deviations(mean, &found)
    } else {
        Gaussian { mean, variance: found }
    }))
}

fn read_factors(file: &TensorFile<'_>, form: &PosteriorForm) -> Result<Factors, WireError> {
    let rank = form.rank;
    let (live, covariance) = match form.covariance {
        CovarianceForm::Reduction => {
            let factor = file.f64("posterior.factor")?;
            (file.indices("posterior.live")?, Covariance::Reduction { rank, factor })
        }
        CovarianceForm::Whole => {
            let factor = file.f64("posterior.factor")?;
            (file.indices("posterior.live")?, Covariance::Whole { rank, factor })
        }
        CovarianceForm::Independent | CovarianceForm::MeanField | CovarianceForm::Samples => {
            let variance = file.f64("posterior.variance")?;
            ((0..variance.len()).collect(), Covariance::Independent { variance })
        }
    };
    Ok(Factors {
        selected: file.indices("posterior.selected")?,
        prior_variance: file.f64("posterior.prior_variance")?,
        live,
        covariance,
        log_determinant_ratio: form.log_determinant_ratio,
        certificate: form.certificate,
    })
}

/// What a client keeps, as the bytes of a message of its own: points, a Gaussian or samples.
///
/// # Errors
/// The format's own limits.
pub fn encode_parameters(parameters: &Parameters) -> Result<Vec<u8>, WireError> {
    let (mut tensors, header) = posterior_tensors(parameters);
    let values = parameters.values();
    tensors.push(NamedTensor::f32("values", vec![values.len()], values));
    header::encode(KIND, &header, &tensors)
}

/// Reads what [`encode_parameters`] wrote.
///
/// # Errors
/// Bytes that are not such a message; a Laplace posterior, which no client keeps.
pub fn decode_parameters(bytes: &[u8]) -> Result<Parameters, WireError> {
    let (header, file) = header::decode::<PosteriorHeader>(KIND, bytes)?;
    let values = file.f32("values")?;
    read_kept(values, &file, "", &header)
}

/// What a client keeps, from tensors whose names begin with `prefix`.
///
/// # Errors
/// Tensors that are missing or do not fit each other; a Laplace posterior, which no client keeps.
pub fn read_kept(
    values: Vec<f32>,
    file: &TensorFile<'_>,
    prefix: &str,
    header: &PosteriorHeader,
) -> Result<Parameters, WireError> {
    match header.posterior.as_ref().map(|form| form.covariance) {
        None => read_points(values, file, prefix),
        Some(CovarianceForm::MeanField) => read_gaussian(values, file, prefix),
        Some(CovarianceForm::Samples) => {
            let samples = file.f32(&format!("{prefix}posterior.samples"))?;
            Ok(Parameters::Samples(HeadSamples { values, samples }))
        }
        Some(CovarianceForm::Independent | CovarianceForm::Reduction | CovarianceForm::Whole) => {
            Err(WireError::Incomplete("a client keeps a Laplace posterior, which none does"))
        }
    }
}
