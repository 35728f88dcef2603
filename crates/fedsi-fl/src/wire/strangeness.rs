//! What is usual among a client's training inputs, as tensors: the same in messages and model files.
//!
//! | tensor | what |
//! |---|---|
//! | `strangeness.usual` (F64) | mean and standard deviation of training inputs' scores: of their detail, of their distance in each mode, of the sum |
//! | `strangeness.evidence` (F64) | the same of their negated largest logit in each mode; only where outputs are logits |
//! | `strangeness.input.centre`, `.axes` (F32), `.variance` (F64) | the mean input, principal axes of inputs, the variance along each and the mean of the others |
//! | `strangeness.K.centre`, `.axes` (F32), `.variance` (F64) | the same of features in mode K |
//! | `strangeness.K.means`, `.within.axes` (F32), `.within.variance` (F64) | the mean of each class, and how features vary around it; only where there are several classes |

use fedsi_bayes::Strangeness;
use fedsi_bayes::strangeness::{ClassDistances, InputDetail, PrincipalAxes, Usual, UsualResponses};

use super::tensors::{NamedTensor, TensorFile, TensorFileError};

const USUAL: &str = "strangeness.usual";
const EVIDENCE: &str = "strangeness.evidence";

/// Its tensors; none where there is none.
#[must_use]
pub fn strangeness_tensors(strangeness: Option<&Strangeness>) -> Vec<NamedTensor> {
    let Some(Strangeness { detail: (detail, detail_usual), modes, sum }) = strangeness else {
        return Vec::new();
    };
    let pair = |usual: &Usual| [usual.mean, usual.deviation];
    let usual: Vec<f64> = [detail_usual]
        .into_iter()
        .chain(modes.iter().map(|mode| &mode.distance))
        .chain([sum])
        .flat_map(pair)
        .collect();
    let mut tensors = vec![
        NamedTensor::f64(USUAL, vec![usual.len() / 2, 2], &usual),
        singles("strangeness.input.centre", detail.centre.len(), &detail.centre),
    ];
    tensors.extend(axes_tensors("strangeness.input", &detail.axes));
    let evidence: Vec<f64> = modes.iter().filter_map(|mode| mode.evidence.as_ref()).flat_map(pair).collect();
    if !evidence.is_empty() {
        tensors.push(NamedTensor::f64(EVIDENCE, vec![evidence.len() / 2, 2], &evidence));
    }
    for (mode, UsualResponses { distances, .. }) in modes.iter().enumerate() {
        let prefix = format!("strangeness.{mode}");
        let width = distances.width();
        tensors.push(singles(&format!("{prefix}.centre"), width, &distances.centre));
        tensors.extend(axes_tensors(&prefix, &distances.overall));
        if let Some(within) = &distances.within {
            tensors.push(singles(&format!("{prefix}.means"), width, &distances.means));
            tensors.extend(axes_tensors(&format!("{prefix}.within"), within));
        }
    }
    tensors
}

/// Reads what [`strangeness_tensors`] wrote, of inputs of so many values.
///
/// # Errors
/// Tensors that are missing, or do not fit each other or the inputs.
pub fn read_strangeness(
    file: &TensorFile<'_>,
    inputs: usize,
) -> Result<Option<Strangeness>, TensorFileError> {
    if !file.has(USUAL) {
        return Ok(None);
    }
    let unfit = || TensorFileError::invalid(USUAL, "does not belong to the tensors beside it");
    let usual = pairs(file, USUAL)?;
    let [detail_usual, of_modes @ .., sum] = usual.as_slice() else { return Err(unfit()) };
    let centre = doubles(file, "strangeness.input.centre")?;
    let axes = read_axes(file, "strangeness.input", centre.len())?;
    let evidence = if file.has(EVIDENCE) { Some(pairs(file, EVIDENCE)?) } else { None };
    if evidence.as_ref().is_some_and(|evidence| evidence.len() != of_modes.len()) {
        return Err(unfit());
    }
    let mut modes = Vec::new();
    for (mode, &distance) in of_modes.iter().enumerate() {
        let prefix = format!("strangeness.{mode}");
        let centre = doubles(file, &format!("{prefix}.centre"))?;
        let overall = read_axes(file, &prefix, centre.len())?;
        let name = format!("{prefix}.means");
        let (means, within) = if file.has(&name) {
            (doubles(file, &name)?, Some(read_axes(file, &format!("{prefix}.within"), centre.len())?))
        } else {
            (Vec::new(), None)
        };
        let distances = ClassDistances { means, within, centre, overall };
        let evidence = evidence.as_ref().map(|evidence| evidence[mode]);
        modes.push(UsualResponses { distances, distance, evidence });
    }
    let found = Strangeness { detail: (InputDetail { centre, axes }, *detail_usual), modes, sum: *sum };
    if !found.is_sound() || found.detail.0.axes.width != inputs {
        return Err(unfit());
    }
    Ok(Some(found))
}

/// Means and standard deviations.
fn pairs(file: &TensorFile<'_>, name: &str) -> Result<Vec<Usual>, TensorFileError> {
    let numbers = file.f64(name)?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(TensorFileError::invalid(name, "is not pairs of numbers"));
    }
    Ok(pairs.iter().map(|&[mean, deviation]| Usual { mean, deviation }).collect())
}

fn axes_tensors(prefix: &str, axes: &PrincipalAxes) -> [NamedTensor; 2] {
    let variances: Vec<f64> = axes.variances.iter().copied().chain([axes.rest]).collect();
    [
        singles(&format!("{prefix}.axes"), axes.width, &axes.directions),
        NamedTensor::f64(&format!("{prefix}.variance"), vec![variances.len()], &variances),
    ]
}

fn read_axes(file: &TensorFile<'_>, prefix: &str, width: usize) -> Result<PrincipalAxes, TensorFileError> {
    let mut variances = file.f64(&format!("{prefix}.variance"))?;
    let empty = || TensorFileError::invalid(&format!("{prefix}.variance"), "is empty");
    let rest = variances.pop().ok_or_else(empty)?;
    Ok(PrincipalAxes { width, directions: doubles(file, &format!("{prefix}.axes"))?, variances, rest })
}

/// Numbers that are of single precision, rows of this width.
fn singles(name: &str, width: usize, values: &[f64]) -> NamedTensor {
    let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    NamedTensor::f32(name, vec![values.len() / width.max(1), width], &values)
}

fn doubles(file: &TensorFile<'_>, name: &str) -> Result<Vec<f64>, TensorFileError> {
    Ok(crate::parameters::doubles(&file.f32(name)?))
}

#[cfg(test)]
mod tests {
    use super::super::tensors::tensor_bytes;
    use super::*;
    use fedsi_bayes::strangeness::Responses;

    fn fitted(labels: Option<&[u32]>) -> Strangeness {
        let inputs: Vec<f64> = (0..40 * 6).map(|at| f64::from(at * at % 31) - 15.0).collect();
        let features: Vec<f64> = (0..40 * 3).map(|at| f64::from(at * at % 17)).collect();
        let logits = labels.map(|_| inputs.iter().map(|value| 0.1 * value).collect());
        let mode = Responses { features, logits };
        Strangeness::fit(40, &inputs, &[mode.clone(), mode], labels).unwrap()
    }

    fn bytes(strangeness: Option<&Strangeness>) -> Vec<u8> {
        tensor_bytes(&strangeness_tensors(strangeness), Some(&serde_json::json!({}))).unwrap()
    }

    #[test]
    fn what_was_written_is_read_to_the_bit() {
        let labels: Vec<u32> = (0..40).map(|row| row % 3).collect();
        for labels in [Some(labels.as_slice()), None] {
            let fitted = fitted(labels);
            let bytes = bytes(Some(&fitted));
            let found = read_strangeness(&TensorFile::parse(&bytes).unwrap(), 6).unwrap();
            assert_eq!(found, Some(fitted));
        }
        let none = bytes(None);
        assert_eq!(read_strangeness(&TensorFile::parse(&none).unwrap(), 6).unwrap(), None);
    }

    #[test]
    fn tensors_that_do_not_belong_together_are_refused() {
        let fitted = fitted(None);
        let whole = bytes(Some(&fitted));
        let file = TensorFile::parse(&whole).unwrap();
        let error = read_strangeness(&file, 7).unwrap_err();
        assert!(error.to_string().contains("does not belong"), "of other inputs: {error}");
        let mut damaged = fitted.clone();
        damaged.modes[1].distances.overall.rest = f64::NAN;
        let mut wide = fitted.clone();
        wide.modes[0].distances.centre.push(0.0);
        let mut flat = fitted;
        flat.sum.deviation = 0.0;
        for changed in [damaged, wide, flat] {
            let bytes = bytes(Some(&changed));
            assert!(read_strangeness(&TensorFile::parse(&bytes).unwrap(), 6).is_err());
        }
    }
}
