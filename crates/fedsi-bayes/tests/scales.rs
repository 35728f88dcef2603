//! Predictions under many scales of the prior variances at once: equal to one fit after the other.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_bayes::selection::rules::Variance;
use fedsi_bayes::{Likelihood, PosteriorError, Predictive, Prior, Problem, Selection};
use fedsi_nn::{LayerSpec, softmax};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use support::{Case, numbers, relative_error, zoo};

/// Not in order, one twice, none that every form would find easy.
const SCALES: [f64; 7] = [1.0, 1e-3, 0.2, 7.0, 1e3, 0.0, 1.0];

const DRAWS: usize = 2000;

fn rng() -> ChaCha8Rng {
    Streams::new(1).stream(Purpose::Selection, 0, 0)
}

/// Some of all parameters, all of them, and all of them without correlations.
fn selections(problem: &Problem<'_>, case: &Case) -> Vec<Selection> {
    let size = case.parameters.len();
    let variance = numbers(7, size).iter().map(|value| (1.5 * value).exp()).collect();
    let prior = Prior::diagonal(0..size, variance);
    vec![
        problem.choose(&prior, &Variance, size / 2, &mut rng()).unwrap(),
        problem.choose_indices(&prior, case.every(1)).unwrap(),
        problem.choose_independent(&prior).unwrap(),
    ]
}

/// Data of which more or fewer rows than parameters remain, so that both sides are taken.
fn cases() -> Vec<Case> {
    let layers = [LayerSpec::Linear(3), LayerSpec::Tanh, LayerSpec::Linear(3)];
    let mut cases = zoo();
    cases.push(Case::new("much data, classes", &[2], &layers, Likelihood::Categorical, 150));
    let noise = vec![0.3, 1.0, 2.5];
    cases.push(Case::new("much data, values", &[2], &layers, Likelihood::Gaussian { noise }, 150));
    cases
}

#[test]
fn exact_predictions_are_those_of_one_fit_after_the_other() {
    let positive: Vec<f64> = SCALES.iter().copied().filter(|&scale| scale > 0.0).collect();
    for case in cases() {
        let problem = case.problem();
        let test = numbers(11, 7 * case.network.inputs());
        for (which, selection) in selections(&problem, &case).iter().enumerate() {
            let fits: Vec<_> = problem.fit_scales(selection, 0.0, &positive).unwrap().collect();
            let label = format!("{}, selection {which}", case.name);
            if let Likelihood::Gaussian { .. } = case.likelihood {
                let found = problem.regression_at_scales(selection, 0.0, &positive, &test).unwrap();
                for (found, fit) in found.iter().zip(fits) {
                    let expected = fit.unwrap().regression(&test).unwrap();
                    assert_eq!(found.mean, expected.mean, "{label}");
                    let error = relative_error(&found.variance, &expected.variance);
                    assert!(error < 1e-9, "{label}: {error:e}");
                }
                continue;
            }
            let fits: Vec<_> = fits.into_iter().map(Result::unwrap).collect();
            for how in Predictive::ALL {
                let found = problem
                    .probabilities_at_scales(selection, 0.0, &positive, &test, how, DRAWS, &mut rng())
                    .unwrap();
                assert_eq!(found.len(), positive.len());
                assert_eq!(found.first(), found.last(), "the same scale, the same draws");
                for ((found, fit), scale) in found.iter().zip(&fits).zip(&positive) {
                    let expected = fit.probabilities(&test, how, DRAWS, &mut rng()).unwrap();
                    let error = relative_error(found, &expected);
                    // Of two equal variances either may be the first pivot of Monte Carlo's factor: other draws.
                    let allowed = if how == Predictive::MonteCarlo { 0.1 } else { 1e-7 };
                    assert!(error < allowed, "{label}, {how}, scale {scale}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn variances_agree_with_the_dense_posterior() {
    for case in cases().iter().filter(|case| matches!(case.likelihood, Likelihood::Gaussian { .. })) {
        let Likelihood::Gaussian { noise } = &case.likelihood else { continue };
        let problem = case.problem();
        let (selected, test) = (case.every(2), numbers(11, 5 * case.network.inputs()));
        let prior = Prior::isotropic(0..case.parameters.len(), 0.5);
        let selection = problem.choose_indices(&prior, selected.clone()).unwrap();
        for tolerance in [0.0, 0.3] {
            let found = problem.regression_at_scales(&selection, tolerance, &SCALES, &test).unwrap();
            for (found, scale) in found.iter().zip(SCALES) {
                let width = case.network.outputs();
                let dense = if scale > 0.0 {
                    let (covariance, _) = case.posterior(&selected, &vec![0.5 * scale; selected.len()]);
                    case.output_covariance(&test, &selected, &covariance)
                } else {
                    vec![0.0; 5 * width * width]
                };
                let exact =
                    dense.chunks_exact(width * width).flat_map(|block| block.iter().step_by(width + 1));
                let label = format!("{}, tolerance {tolerance}, scale {scale}", case.name);
                let mut excess = 0.0;
                for ((&exact, &variance), noise) in exact.zip(&found.variance).zip(noise.iter().cycle()) {
                    let variance = variance - noise * noise;
                    assert!(variance >= exact - 1e-8 * (1.0 + exact), "{label}: {variance} < {exact}");
                    excess += (variance - exact) / (1e-9 + exact) / found.variance.len() as f64;
                }
                // Few outputs: every one of them is looked at.
                if scale <= 10.0 {
                    assert!(excess <= tolerance + 1e-7, "{label}: {excess}");
                }
            }
        }
    }
}

#[test]
fn a_tolerance_changes_little() {
    let scales = [0.01, 0.1, 1.0, 5.0];
    for case in cases().iter().filter(|case| case.likelihood == Likelihood::Categorical) {
        let problem = case.problem();
        let test = numbers(11, 9 * case.network.inputs());
        for selection in selections(&problem, case) {
            let at = |tolerance| {
                let how = Predictive::Differences;
                problem
                    .probabilities_at_scales(&selection, tolerance, &scales, &test, how, 0, &mut rng())
                    .unwrap()
            };
            let (exact, near, loose) = (at(0.0), at(1e-6), at(0.1));
            for ((exact, near), loose) in exact.iter().zip(&near).zip(&loose) {
                for ((exact, near), loose) in exact.iter().zip(near).zip(loose) {
                    assert!((exact - near).abs() < 1e-6, "{}: {exact} {near}", case.name);
                    assert!((exact - loose).abs() < 0.02, "{}: {exact} {loose}", case.name);
                }
            }
        }
    }
}

#[test]
fn a_scale_of_zero_is_the_point_model() {
    let case = zoo().swap_remove(3);
    let problem = case.problem();
    let test = numbers(11, 4 * 7);
    let (_, mut expected) = case.jacobian(&test, &[]);
    softmax(&mut expected, 10);
    for selection in selections(&problem, &case) {
        for how in Predictive::ALL {
            let found =
                problem.probabilities_at_scales(&selection, 0.1, &[0.0], &test, how, 9, &mut rng()).unwrap();
            assert!(relative_error(&found[0], &expected) < 1e-12, "{how}");
        }
    }
}

#[test]
fn variances_grow_with_the_scale() {
    let scales: Vec<f64> = (0..25).map(|step| 10_f64.powf(-3.0 + 0.25 * f64::from(step))).collect();
    for case in cases().iter().filter(|case| matches!(case.likelihood, Likelihood::Gaussian { .. })) {
        let problem = case.problem();
        let test = numbers(11, 5 * case.network.inputs());
        for selection in selections(&problem, case) {
            for tolerance in [0.0, 0.2] {
                let found = problem.regression_at_scales(&selection, tolerance, &scales, &test).unwrap();
                for pair in found.windows(2) {
                    for (less, more) in pair[0].variance.iter().zip(&pair[1].variance) {
                        assert!(*more >= less * (1.0 - 1e-9), "{}: {less} {more}", case.name);
                    }
                }
            }
        }
    }
}

#[test]
fn no_scales_no_samples_and_no_data_are_fine() {
    for mut case in zoo().into_iter().filter(|case| case.likelihood == Likelihood::Categorical) {
        case.inputs.clear();
        let problem = case.problem();
        let test = numbers(11, 3 * case.network.inputs());
        for selection in selections(&problem, &case) {
            for tolerance in [0.0, 0.1] {
                let at = |scales: &[f64], test: &[f64]| {
                    let how = Predictive::Bridge;
                    problem
                        .probabilities_at_scales(&selection, tolerance, scales, test, how, 0, &mut rng())
                        .unwrap()
                };
                assert!(at(&[], &test).is_empty());
                assert_eq!(at(&[1.0, 2.0], &[]), vec![Vec::<f64>::new(); 2]);
                let prior = problem.fit(&selection, 0.0).unwrap();
                let expected = prior.probabilities(&test, Predictive::Bridge, 0, &mut rng()).unwrap();
                assert!(relative_error(&at(&[1.0], &test)[0], &expected) < 1e-12, "{}", case.name);
            }
        }
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let case = zoo().swap_remove(1);
    let problem = case.problem();
    let test = numbers(11, 12);
    for selection in selections(&problem, &case) {
        let refused = |tolerance: f64, scales: &[f64], inputs: &[f64]| {
            let how = Predictive::Map;
            problem
                .probabilities_at_scales(&selection, tolerance, scales, inputs, how, 0, &mut rng())
                .unwrap_err()
        };
        for scale in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(refused(0.1, &[1.0, scale], &test), PosteriorError::Setting { .. }));
        }
        assert!(matches!(refused(-0.1, &[1.0], &test), PosteriorError::Setting { .. }));
        assert!(matches!(refused(0.1, &[1.0], &test[1..]), PosteriorError::Length { .. }));
        let found = problem.regression_at_scales(&selection, 0.1, &[1.0], &test);
        assert!(matches!(found, Err(PosteriorError::Likelihood { .. })));
    }
    let mut nan = zoo().swap_remove(1);
    let head = nan.network.layout().head().start;
    nan.parameters[head] = f64::NAN;
    let problem = nan.problem();
    let prior = Prior::isotropic(0..nan.parameters.len(), 1.0);
    for tolerance in [0.0, 0.1] {
        let selection = problem.choose_indices(&prior, vec![1, 3]).unwrap();
        let found = problem.probabilities_at_scales(
            &selection,
            tolerance,
            &[1.0],
            &test,
            Predictive::Map,
            0,
            &mut rng(),
        );
        assert_eq!(found.unwrap_err(), PosteriorError::NotPositive);
    }
}
