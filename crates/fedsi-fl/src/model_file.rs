//! A personal model as a file: parameters under PyTorch's names, and what is believed around them.
//!
//! | tensor | what |
//! |---|---|
//! | `0.weight`, `0.bias`, ... (F32) | the parameters: values, or means |
//! | `posterior.deviation` (F32) | mean-field: a standard deviation for each, flattened in this order |
//! | `posterior.samples` (F32) | samples: a row for each sample of the head (weight, then bias) |
//! | `posterior.selected` (I64) | Laplace: the parameters that have a distribution, as indices into all |
//! | `posterior.prior_variance` (F64) | their prior variances |
//! | `posterior.variance` (F64) | their posterior variances |
//! | `posterior.live` (I64) | places in `selected` of those the data has a bearing on |
//! | `posterior.factor` (F64) | W, a row for each of those: their covariance is `diag(prior) - W W'` or `W W'` |
//!
//! Which of them there are, what a factor means, and how predictions are made, is in the metadata. A model that was saved
//! and read predicts the same bits.

use fedsi_bayes::{Covariance, Explanation, Factors, Posterior};
use fedsi_nn::Network;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use crate::belief::{Belief, PersonalModel};
use crate::files::{Values, doubles, find, floats, parameter_tensors, tensor_bytes};
use crate::infer::Inferred;

/// What the metadata says of a posterior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PosteriorNote {
    covariance: Form,
    /// Laplace: columns of the factor.
    #[serde(default)]
    rank: usize,
    /// Laplace: the worst factor, less one, by which a variance may be too large.
    #[serde(default)]
    certificate: f64,
    /// Laplace: what the data added, as the evidence counts it.
    #[serde(default)]
    log_determinant_ratio: f64,
}

/// How a posterior is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
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

impl PosteriorNote {
    const fn plain(covariance: Form) -> Self {
        Self { covariance, rank: 0, certificate: 0.0, log_determinant_ratio: 0.0 }
    }
}

/// A model's tensors, and what the metadata says of its posterior.
pub(crate) fn tensors(network: &Network, model: &PersonalModel) -> (Vec<Values>, Option<PosteriorNote>) {
    let mut tensors = parameter_tensors(network.layout(), &model.parameters);
    let note = match &model.belief {
        Belief::Point => None,
        Belief::Laplace(inferred) => Some(factors(&inferred.posterior, &mut tensors)),
        Belief::MeanField { deviation } => {
            tensors.push(Values::f32("posterior.deviation", vec![deviation.len()], deviation));
            Some(PosteriorNote::plain(Form::MeanField))
        }
        Belief::Samples { heads } => {
            let head = network.layout().head().len();
            tensors.push(Values::f32("posterior.samples", vec![heads.len() / head, head], heads));
            Some(PosteriorNote::plain(Form::Samples))
        }
    };
    (tensors, note)
}

/// A Laplace posterior's tensors.
fn factors(posterior: &Posterior, tensors: &mut Vec<Values>) -> PosteriorNote {
    let factors = posterior.factors();
    let indices = |name: &str, values: &[usize]| Values::i64(name, values.iter().map(|&index| index as i64));
    let selected = factors.selected.len();
    tensors.push(indices("posterior.selected", &factors.selected));
    tensors.push(Values::f64("posterior.prior_variance", vec![selected], &factors.prior_variance));
    tensors.push(Values::f64("posterior.variance", vec![selected], &posterior.marginal_variances()));
    let (covariance, rank, factor) = match factors.covariance {
        Covariance::Independent { .. } => (Form::Independent, 0, Vec::new()),
        Covariance::Reduction { rank, factor } => (Form::Reduction, rank, factor),
        Covariance::Whole { rank, factor } => (Form::Whole, rank, factor),
    };
    if covariance != Form::Independent {
        tensors.push(indices("posterior.live", &factors.live));
        tensors.push(Values::f64("posterior.factor", vec![factors.live.len(), rank], &factor));
    }
    let (certificate, log_determinant_ratio) = (factors.certificate, factors.log_determinant_ratio);
    PosteriorNote { covariance, rank, certificate, log_determinant_ratio }
}

/// A personal model as the bytes of a file, with what [`read_model`] needs and no more.
///
/// # Errors
/// The format's own limits.
pub fn model_bytes(network: &Network, model: &PersonalModel) -> Result<Vec<u8>, String> {
    let (tensors, posterior) = tensors(network, model);
    let about = serde_json::json!({
        "client": model.client,
        "posterior": posterior,
        "subnetwork": model.belief.laplace().map(|inferred| &inferred.subnetwork),
    });
    tensor_bytes(&tensors, Some(&about)).map_err(|error| error.to_string())
}

/// What a model's metadata says, as far as reading it back needs.
#[derive(Deserialize)]
struct About {
    client: usize,
    #[serde(default)]
    posterior: Option<PosteriorNote>,
    #[serde(default)]
    subnetwork: Option<Explanation>,
}

/// Reads a personal model of this network from its file's bytes.
///
/// # Errors
/// Bytes that are no such file, or do not fit the network.
pub fn read_model(network: &Network, bytes: &[u8]) -> Result<PersonalModel, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let about =
        header.metadata().as_ref().and_then(|map| map.get("fedsi")).ok_or("it has no `fedsi` entry")?;
    let about: About = serde_json::from_str(about).map_err(|error| format!("its `fedsi` entry: {error}"))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let layout = network.layout();
    let mut parameters = Vec::with_capacity(layout.len());
    for tensor in layout.tensors() {
        let name = &tensor.name;
        if find(&tensors, name, Dtype::F32)?.shape() != tensor.shape {
            return Err(format!("its `{name}` is not of shape {:?}", tensor.shape));
        }
        parameters.extend(floats(&tensors, name)?);
    }
    let belief = match (about.posterior, about.subnetwork) {
        (None, _) => Belief::Point,
        (Some(note), _) if note.covariance == Form::MeanField => {
            let deviation = floats(&tensors, "posterior.deviation")?;
            if deviation.len() != layout.len() || !deviation.iter().all(|&one| one.is_finite() && one > 0.0) {
                return Err("its `posterior.deviation` is not one number above 0 a parameter".to_owned());
            }
            Belief::MeanField { deviation }
        }
        (Some(note), _) if note.covariance == Form::Samples => {
            let heads = floats(&tensors, "posterior.samples")?;
            if heads.is_empty() || heads.len() % layout.head().len() != 0 {
                return Err("its `posterior.samples` are not of the head".to_owned());
            }
            Belief::Samples { heads }
        }
        (Some(note), Some(subnetwork)) => {
            let posterior = posterior(network, &tensors, &note)?;
            Belief::Laplace(Box::new(Inferred { posterior, subnetwork }))
        }
        (Some(_), None) => return Err("it does not say which subnetwork its posterior is of".to_owned()),
    };
    Ok(PersonalModel { client: about.client, parameters, belief })
}

/// The Laplace posterior in a model's file.
fn posterior(
    network: &Network,
    tensors: &SafeTensors<'_>,
    note: &PosteriorNote,
) -> Result<Posterior, String> {
    let doubles = |name: &str| doubles(tensors, name);
    let indices = |name: &str| -> Result<Vec<usize>, String> {
        let index =
            |&bytes| usize::try_from(i64::from_le_bytes(bytes)).map_err(|_| format!("`{name}` is below 0"));
        find(tensors, name, Dtype::I64)?.data().as_chunks::<8>().0.iter().map(index).collect()
    };
    let rank = note.rank;
    let (live, covariance) = match note.covariance {
        Form::Reduction => {
            (indices("posterior.live")?, Covariance::Reduction { rank, factor: doubles("posterior.factor")? })
        }
        Form::Whole => {
            (indices("posterior.live")?, Covariance::Whole { rank, factor: doubles("posterior.factor")? })
        }
        Form::Independent | Form::MeanField | Form::Samples => {
            let variance = doubles("posterior.variance")?;
            ((0..variance.len()).collect(), Covariance::Independent { variance })
        }
    };
    let factors = Factors {
        selected: indices("posterior.selected")?,
        prior_variance: doubles("posterior.prior_variance")?,
        live,
        covariance,
        log_determinant_ratio: note.log_determinant_ratio,
        certificate: note.certificate,
    };
    Posterior::from_factors(network, factors).map_err(|error| error.to_string())
}
