//! All forms against the posterior multiplied out.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_bayes::{Form, Posterior, PosteriorFamily, ggn};
use support::{Case, numbers, relative_error, zoo};

const FORMS: [Option<Form>; 3] = [None, Some(Form::Samples), Some(Form::Parameters)];

fn priors(count: usize) -> Vec<f64> {
    numbers(7, count).iter().map(|value| (1.5 * value).exp()).collect()
}

fn exact(problem: &Case, selected: &[usize], prior: &[f64], form: Option<Form>) -> PosteriorFamily {
    PosteriorFamily::new(&problem.problem(), selected, prior, 0.0, form).unwrap()
}

fn check(problem: &Case, selected: &[usize], prior: &[f64], posterior: &Posterior, label: &str) {
    let size = selected.len();
    let (covariance, logarithm) = problem.posterior(selected, prior);
    let found = posterior.covariance();
    let error = relative_error(&found, &covariance);
    assert!(error < 1e-10, "{label}: covariance {error:e}");
    for a in 0..size {
        for b in 0..size {
            assert!(found[a * size + b].to_bits() == found[b * size + a].to_bits(), "{label}: asymmetric");
        }
    }
    let marginal: Vec<f64> = (0..size).map(|index| covariance[index * size + index]).collect();
    let error = relative_error(&posterior.marginal_variances(), &marginal);
    assert!(error < 1e-10, "{label}: marginal {error:e}");
    let gap = (posterior.log_determinant_ratio() - logarithm).abs();
    assert!(gap < 1e-10 * (1.0 + logarithm.abs()), "{label}: log determinant {gap:e}");

    let test = numbers(11, 7 * problem.network.inputs());
    let outputs = problem.outputs(posterior, &test);
    let (_, mean) = problem.jacobian(&test, selected);
    assert!(relative_error(&outputs.mean, &mean) < 1e-14, "{label}: mean");
    let expected = problem.output_covariance(&test, selected, &covariance);
    let error = relative_error(&outputs.covariance, &expected);
    assert!(error < 1e-10, "{label}: output covariance {error:e}");
}

#[test]
fn every_exact_form_agrees_with_the_dense_posterior() {
    for problem in zoo() {
        for step in [1, 2, 5] {
            let selected = problem.every(step);
            let prior = priors(selected.len());
            for form in FORMS {
                let family = exact(&problem, &selected, &prior, form);
                let label = format!("{}, every {step}, {form:?}", problem.name);
                let posterior = family.posterior(1.0).unwrap();
                assert!(posterior.certificate() == 0.0, "{label}");
                check(&problem, &selected, &prior, &posterior, &label);
            }
        }
    }
}

#[test]
fn a_tolerance_near_rounding_is_as_good_as_exact() {
    for problem in zoo() {
        let selected = problem.every(2);
        let prior = priors(selected.len());
        for form in [None, Some(Form::Projection)] {
            let posterior = problem.fit(&selected, &prior, 1e-11, form).unwrap();
            assert!(posterior.certificate() <= 1e-11, "{}", problem.name);
            check(&problem, &selected, &prior, &posterior, &format!("{}, {form:?}", problem.name));
        }
    }
}

#[test]
fn scaled_priors_share_the_data() {
    for problem in zoo() {
        let selected = problem.every(3);
        let prior = priors(selected.len());
        for form in FORMS {
            let family = exact(&problem, &selected, &prior, form);
            for scale in [0.01, 1.0, 30.0] {
                let scaled: Vec<f64> = prior.iter().map(|variance| scale * variance).collect();
                let label = format!("{}, {form:?}, scale {scale}", problem.name);
                let posterior = family.posterior(scale).unwrap();
                check(&problem, &selected, &scaled, &posterior, &label);
            }
        }
    }
}

#[test]
fn the_ggn_agrees_with_its_definition() {
    for problem in zoo() {
        for step in [1, 3] {
            let selected = problem.every(step);
            let found = ggn(&problem.problem(), &selected).unwrap();
            let error = relative_error(&found, &problem.ggn(&selected));
            assert!(error < 1e-12, "{}: {error:e}", problem.name);
        }
    }
}
