//! Every predictive against brute force, and in the limits.

use std::f64::consts::{PI, TAU};

use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use proptest::prelude::*;
use rand_distr::StandardNormal;

use super::*;

fn rng(seed: u64) -> ChaCha8Rng {
    Streams::new(seed).stream(Purpose::Initialisation, 0, 0)
}

fn one(mean: &[f64], covariance: &[f64]) -> OutputDistribution {
    OutputDistribution { outputs: mean.len(), mean: mean.to_vec(), covariance: covariance.to_vec() }
}

fn predict(kind: Predictive, mean: &[f64], covariance: &[f64]) -> Vec<f64> {
    probabilities(kind, &one(mean, covariance), 20_000, &mut rng(1))
}

fn softmax_of(mean: &[f64]) -> Vec<f64> {
    let mut row = mean.to_vec();
    softmax(&mut row, mean.len());
    row
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: impl std::fmt::Display) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "{what}: {found:?}, expected {expected:?}");
    }
}

/// `E sigmoid(d)`, `d ~ N(mean, variance)`, by the trapezoidal rule: exact to rounding for such an integrand.
fn logistic_mean(mean: f64, variance: f64) -> f64 {
    let (half, step) = (4000, 0.0025);
    let density = |z: f64| (-0.5 * z * z).exp() / TAU.sqrt();
    (-half..=half)
        .map(|k| f64::from(k) * step)
        .map(|z| step * density(z) * sigmoid(mean + variance.sqrt() * z))
        .sum()
}

/// `(mean, covariance, variance of the difference)` of two logits.
const PAIRS: [([f64; 2], [f64; 4], f64); 4] = [
    ([1.0, 0.0], [1.0, 0.0, 0.0, 1.0], 2.0),
    ([0.0, 2.5], [4.0, 1.5, 1.5, 2.0], 3.0),
    ([-1.0, -1.2], [0.1, -0.2, -0.2, 0.7], 1.2),
    ([3.0, 0.0], [9.0, 0.0, 0.0, 0.0], 9.0),
];

#[test]
fn two_classes_agree_with_quadrature() {
    for (mean, covariance, variance) in PAIRS {
        let exact = logistic_mean(mean[0] - mean[1], variance);
        let monte_carlo = predict(Predictive::MonteCarlo, &mean, &covariance);
        assert_near(&monte_carlo, &[exact, 1.0 - exact], 5e-3, "Monte Carlo");
        let differences = predict(Predictive::Differences, &mean, &covariance);
        assert_near(&differences, &[exact, 1.0 - exact], 0.02, "differences");
    }
}

#[test]
fn differences_of_two_classes_are_the_probit_approximation() {
    for (mean, covariance, variance) in PAIRS {
        let p = sigmoid((mean[0] - mean[1]) / (1.0 + PI / 8.0 * variance).sqrt());
        assert_near(
            &predict(Predictive::Differences, &mean, &covariance),
            &[p, 1.0 - p],
            1e-15,
            "two classes",
        );
    }
}

#[test]
fn probit_divides_each_logit_by_its_own_deviation() {
    let mean = [2.0, -1.0, 0.5];
    let covariance = [8.0 / PI * 3.0, 1.0, 2.0, 1.0, 8.0 / PI * 8.0, 0.0, 2.0, 0.0, 0.0];
    let expected = softmax_of(&[1.0, -1.0 / 3.0, 0.5]);
    assert_near(&predict(Predictive::Probit, &mean, &covariance), &expected, 1e-15, "probit");
    assert_eq!(predict(Predictive::Map, &mean, &covariance), softmax_of(&mean));
}

/// Plain draws with another factor and other numbers.
fn brute_force(mean: &[f64; 3], root: &[f64; 9], draws: usize) -> Vec<f64> {
    let mut rng = rng(99);
    let mut sums = [0.0; 3];
    for _ in 0..draws {
        let z: [f64; 3] = std::array::from_fn(|_| rng.sample(StandardNormal));
        let logits: [f64; 3] =
            std::array::from_fn(|i| mean[i] + (0..3).map(|k| root[3 * i + k] * z[k]).sum::<f64>());
        for (sum, p) in sums.iter_mut().zip(softmax_of(&logits)) {
            *sum += p / draws as f64;
        }
    }
    sums.to_vec()
}

#[test]
fn three_classes_agree_with_plain_draws() {
    // Full rank, rank one, and a common mode a hundred times the rest.
    for (root, near) in [
        ([1.0, 0.0, 0.0, 0.5, 0.8, 0.0, -0.3, 0.2, 1.2], 0.04),
        ([1.5, 0.0, 0.0, -0.5, 0.0, 0.0, 0.2, 0.0, 0.0], 0.1),
        ([10.0, 0.5, 0.0, 10.0, 0.0, 0.7, 10.0, 0.0, 0.0], 0.04),
    ] {
        let mean = [1.0, 0.2, -0.7];
        let covariance: Vec<f64> = (0..9)
            .map(|entry| (0..3).map(|k| root[entry / 3 * 3 + k] * root[entry % 3 * 3 + k]).sum())
            .collect();
        let exact = brute_force(&mean, &root, 200_000);
        let monte_carlo = predict(Predictive::MonteCarlo, &mean, &covariance);
        assert_near(&monte_carlo, &exact, 6e-3, "Monte Carlo");
        assert_near(&predict(Predictive::Differences, &mean, &covariance), &exact, near, "differences");
    }
}

#[test]
fn without_variance_all_are_the_softmax() {
    for mean in [&[0.3, -2.0, 1.0, 0.0][..], &[800.0, -800.0, 0.0], &[0.0, 0.0], &[7.0]] {
        let zero = vec![0.0; mean.len() * mean.len()];
        for kind in Predictive::ALL {
            assert_eq!(predict(kind, mean, &zero), softmax_of(mean), "{kind}");
        }
    }
}

#[test]
fn the_common_mode_changes_nothing_but_the_probit() {
    let mean = [1.0, 0.5, -2.0];
    for common in [1e-6, 1.0, 1e6, 1e300] {
        for kind in [Predictive::Differences, Predictive::MonteCarlo, Predictive::Bridge] {
            assert_near(&predict(kind, &mean, &[common; 9]), &softmax_of(&mean), 1e-15, kind);
        }
    }
    // On top of another covariance.
    let base = [1.0, 0.2, 0.0, 0.2, 0.5, 0.1, 0.0, 0.1, 2.0];
    let lifted = base.map(|value| value + 64.0);
    for kind in [Predictive::Differences, Predictive::MonteCarlo] {
        assert_near(&predict(kind, &mean, &lifted), &predict(kind, &mean, &base), 1e-12, kind);
    }
}

#[test]
fn a_single_class_is_certain_and_no_sample_gives_no_row() {
    for kind in Predictive::ALL {
        assert_eq!(predict(kind, &[-3.0], &[5.0]), [1.0], "{kind}");
        let none = OutputDistribution { outputs: 4, ..Default::default() };
        assert!(probabilities(kind, &none, 10, &mut rng(1)).is_empty());
        assert!(probabilities(kind, &OutputDistribution::default(), 10, &mut rng(1)).is_empty());
    }
}

#[test]
fn what_is_not_finite_has_no_answer() {
    let outputs = OutputDistribution {
        outputs: 2,
        mean: vec![1.0, 0.0, f64::NAN, 0.0, 1.0, 0.0],
        covariance: vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, f64::NAN, 0.0, 0.0, 1.0],
    };
    for kind in Predictive::ALL {
        let rows = probabilities(kind, &outputs, 10, &mut rng(1));
        assert!(rows[..2].iter().all(|p| p.is_finite()), "{kind}");
        assert!(rows[2..4].iter().all(|p| p.is_nan()), "{kind}");
        assert!(kind == Predictive::Map || rows[4..].iter().all(|p| p.is_nan()), "{kind}");
    }
}

#[test]
fn monte_carlo_does_not_depend_on_the_batch() {
    let mut rng_ = rng(5);
    let (n, classes) = (7, 4);
    let mean: Vec<f64> = (0..n * classes).map(|_| rng_.sample(StandardNormal)).collect();
    let mut covariance = vec![0.0; n * classes * classes];
    for matrix in covariance.chunks_exact_mut(classes * classes) {
        let b: Vec<f64> = (0..classes).map(|_| rng_.sample(StandardNormal)).collect();
        for (entry, value) in matrix.iter_mut().enumerate() {
            *value = b[entry / classes] * b[entry % classes];
        }
    }
    for samples in [0, 1, 2, 7] {
        let draw = |outputs: &OutputDistribution| {
            probabilities(Predictive::MonteCarlo, outputs, samples, &mut rng(3))
        };
        let together = draw(&OutputDistribution {
            outputs: classes,
            mean: mean.clone(),
            covariance: covariance.clone(),
        });
        let apart: Vec<f64> = mean
            .chunks_exact(classes)
            .zip(covariance.chunks_exact(classes * classes))
            .flat_map(|(mean, covariance)| draw(&one(mean, covariance)))
            .collect();
        assert_eq!(together, apart, "{samples} samples");
    }
}

/// Means, and a covariance of any rank and scale, slightly disturbed.
fn any_outputs() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    (1_usize..6, 0_usize..6).prop_flat_map(|(k, rank)| {
        let root = prop::collection::vec(-1.0..1.0_f64, k * rank);
        let scale = prop_oneof![Just(1e-20), Just(1e-3), Just(1.0), Just(1e4), Just(1e300)];
        (prop::collection::vec(-30.0..30.0_f64, k), root, scale, prop_oneof![Just(0.0), Just(-1e-13)])
            .prop_map(move |(mean, root, scale, noise)| {
                let product = |i: usize, j: usize| -> f64 {
                    (0..rank).map(|r| root[i * rank + r] * root[j * rank + r]).sum()
                };
                let entry = |e: usize| {
                    let diagonal = if e / k == e % k { noise } else { 0.0 };
                    scale * (product(e / k, e % k) + diagonal)
                };
                (mean, (0..k * k).map(entry).collect())
            })
    })
}

proptest! {
    #[test]
    fn rows_are_distributions((mean, covariance) in any_outputs()) {
        for kind in Predictive::ALL {
            let row = probabilities(kind, &one(&mean, &covariance), 20, &mut rng(1));
            prop_assert!(row.iter().all(|p| (0.0..=1.0).contains(p)), "{} {:?}", kind, row);
            prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{} {:?}", kind, row);
        }
        prop_assert!(spread(&one(&mean, &covariance)).iter().all(|s| *s >= 0.0));
    }

    #[test]
    fn differences_never_reorder_classes((mean, covariance) in any_outputs()) {
        let row = predict(Predictive::Differences, &mean, &covariance);
        for (i, a) in mean.iter().enumerate() {
            for (j, b) in mean.iter().enumerate() {
                prop_assert!(a < b || row[i] >= row[j], "{:?} {:?}", mean, row);
            }
        }
    }

    /// Every predictive draws towards the uniform, never away from it, when it scales all logits alike.
    #[test]
    fn differences_are_never_surer_than_the_mean((mean, covariance) in any_outputs()) {
        let top = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
        let row = predict(Predictive::Differences, &mean, &covariance);
        prop_assert!(top(&row) <= top(&softmax_of(&mean)) + 1e-15);
    }
}
