//! A personal model as a file: parameters under PyTorch's names, and the posterior around them.
//!
//! | tensor | what |
//! |---|---|
//! | `0.weight`, `0.bias`, ... (F32) | the parameters |
//! | `posterior.selected` (I64) | the parameters that have a distribution: indices into all, flattened in this order |
//! | `posterior.prior_variance` (F64) | their prior variances |
//! | `posterior.variance` (F64) | their posterior variances |
//! | `posterior.live` (I64) | places in `selected` of those the data has a bearing on |
//! | `posterior.factor` (F64) | W, a row for each of those: their covariance is `diag(prior) - W W'` or `W W'` |
//!
//! What a factor means, and how predictions are made, is in the metadata. A model that was saved and read predicts the
//! same bits.

use fedsi_bayes::{Covariance, Factors, Posterior};
use fedsi_nn::Network;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use crate::files::{Values, doubles, find, parameter_tensors};
use crate::predict::PersonalModel;

/// What the metadata says of a posterior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PosteriorNote {
    /// independent: variances alone; reduction: `diag(prior) - W W'`; whole: `W W'`.
    covariance: Form,
    rank: usize,
    certificate: f64,
    log_determinant_ratio: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    Independent,
    Reduction,
    Whole,
}

/// A model's tensors, and what the metadata says of its posterior.
pub(crate) fn tensors(network: &Network, model: &PersonalModel) -> (Vec<Values>, Option<PosteriorNote>) {
    let mut tensors = parameter_tensors(network.layout(), &model.parameters);
    let Some(inferred) = &model.inferred else { return (tensors, None) };
    let posterior = &inferred.posterior;
    let factors = posterior.factors();
    let indices = |name: &str, values: &[usize]| Values::i64(name, values.iter().map(|&index| index as i64));
    let selected = factors.selected.len();
    tensors.push(indices("posterior.selected", &factors.selected));
    tensors.push(Values::f64("posterior.prior_variance", vec![selected], &factors.prior_variance));
    tensors.push(Values::f64("posterior.variance", vec![selected], &posterior.marginal_variances()));
    let (form, rank, factor) = match factors.covariance {
        Covariance::Independent { .. } => (Form::Independent, 0, Vec::new()),
        Covariance::Reduction { rank, factor } => (Form::Reduction, rank, factor),
        Covariance::Whole { rank, factor } => (Form::Whole, rank, factor),
    };
    if form != Form::Independent {
        tensors.push(indices("posterior.live", &factors.live));
        tensors.push(Values::f64("posterior.factor", vec![factors.live.len(), rank], &factor));
    }
    let (certificate, log_determinant_ratio) = (factors.certificate, factors.log_determinant_ratio);
    (tensors, Some(PosteriorNote { covariance: form, rank, certificate, log_determinant_ratio }))
}

/// The posterior in a model's file; none where it holds none.
///
/// # Errors
/// Bytes that are no such file, or do not fit the network.
pub fn read_posterior(network: &Network, bytes: &[u8]) -> Result<Option<Posterior>, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let about =
        header.metadata().as_ref().and_then(|map| map.get("fedsi")).ok_or("it has no `fedsi` entry")?;
    let about: serde_json::Value = serde_json::from_str(about).map_err(|error| error.to_string())?;
    if about["posterior"].is_null() {
        return Ok(None);
    }
    let note: PosteriorNote = serde_json::from_value(about["posterior"].clone())
        .map_err(|error| format!("its posterior: {error}"))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let doubles = |name: &str| doubles(&tensors, name);
    let indices = |name: &str| -> Result<Vec<usize>, String> {
        let index =
            |&bytes| usize::try_from(i64::from_le_bytes(bytes)).map_err(|_| format!("`{name}` is below 0"));
        find(&tensors, name, Dtype::I64)?.data().as_chunks::<8>().0.iter().map(index).collect()
    };
    let rank = note.rank;
    let (live, covariance) = match note.covariance {
        Form::Independent => {
            let variance = doubles("posterior.variance")?;
            ((0..variance.len()).collect(), Covariance::Independent { variance })
        }
        Form::Reduction => {
            (indices("posterior.live")?, Covariance::Reduction { rank, factor: doubles("posterior.factor")? })
        }
        Form::Whole => {
            (indices("posterior.live")?, Covariance::Whole { rank, factor: doubles("posterior.factor")? })
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
    Posterior::from_factors(network, factors).map(Some).map_err(|error| error.to_string())
}
