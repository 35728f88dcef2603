//! Temperatures of class probabilities.

/// Below this a probability counts as this.
const SMALLEST: f64 = 1e-300;

/// The logarithm of a probability, finite also where it is 0.
pub(super) fn log_probability(probability: f64) -> f64 {
    probability.max(SMALLEST).ln()
}

/// Divides the logarithms of each row's probabilities by a temperature: above 1 the row is nearer to uniform. A
/// temperature of 1 changes no bit.
pub(super) fn temper(probabilities: &mut [f64], classes: usize, temperature: f64) {
    if temperature.to_bits() == 1.0_f64.to_bits() {
        return;
    }
    for value in probabilities.iter_mut() {
        // A NaN stays one, to be noticed.
        *value = if value.is_nan() { *value } else { log_probability(*value) / temperature };
    }
    fedsi_nn::softmax(probabilities, classes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_divided() {
        let softmax = |logits: &[f64]| {
            let mut row = logits.to_vec();
            fedsi_nn::softmax(&mut row, 3);
            row
        };
        let mut row = softmax(&[3.0, 1.0, -2.0]);
        temper(&mut row, 3, 2.0);
        for (found, expected) in row.iter().zip(softmax(&[1.5, 0.5, -1.0])) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        let mut same = vec![0.1, 0.2, 0.7];
        temper(&mut same, 3, 1.0);
        assert_eq!(same, [0.1, 0.2, 0.7]);
        let mut certain = vec![1.0, 0.0, 0.0];
        temper(&mut certain, 3, 3.0);
        assert!((certain[0] - 1.0).abs() < 1e-12 && certain.iter().all(|p| p.is_finite()));
        let mut unknown = vec![f64::NAN, 0.5, 0.5];
        temper(&mut unknown, 3, 2.0);
        assert!(unknown[0].is_nan());
    }
}
