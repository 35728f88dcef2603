//! From a problem to predictions: what a fitted posterior remembers, shares and refuses.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_bayes::selection::rules::{Magnitude, Random, Variance};
use fedsi_bayes::{
    Candidates, Curvature, Laplace, LaplaceError, Likelihood, PosteriorError, Predictive, Prior, Problem,
    SelectionError, SelectionRule, Subnetwork, log_marginal_likelihood, probabilities, regression_variance,
    spread,
};
use fedsi_nn::{LayerSpec, Network, Targets};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use support::{Case, numbers, relative_error, zoo};

fn rng() -> ChaCha8Rng {
    Streams::new(1).stream(Purpose::Selection, 0, 0)
}

fn body(case: &Case) -> Prior {
    Prior::isotropic(case.network.layout().body(), 0.5)
}

#[test]
fn a_posterior_is_sent_between_threads_and_cloned() {
    fn sendable<T: Send + Sync + Clone>(_: &T) {}
    let case = zoo().swap_remove(1);
    let problem = case.problem();
    let fitted = problem.fit(&problem.choose(&body(&case), &Variance, 9, &mut rng()).unwrap(), 0.0).unwrap();
    sendable(&fitted);
    let clone = fitted.clone();
    let test = numbers(9, 6);
    let elsewhere = std::thread::spawn(move || clone.outputs(&numbers(9, 6)).unwrap());
    assert_eq!(elsewhere.join().unwrap(), fitted.outputs(&test).unwrap());
}

/// Blocks of rows, and the whole at once: the same bits, the same draws.
#[test]
fn predictions_do_not_depend_on_blocks() {
    let case = zoo().swap_remove(1);
    let problem = case.problem();
    let fitted = problem.fit(&problem.choose(&body(&case), &Random, 9, &mut rng()).unwrap(), 0.1).unwrap();
    let test = numbers(9, 6 * 2500);
    let outputs = fitted.outputs(&test).unwrap();
    for how in Predictive::ALL {
        let found = fitted.probabilities(&test, how, 21, &mut rng()).unwrap();
        assert_eq!(found, probabilities(how, &outputs, 21, &mut rng()), "{how}");
    }
    assert_eq!(fitted.spread(&test).unwrap(), spread(&outputs));
    let refused = fitted.regression(&test).unwrap_err().to_string();
    assert_eq!(refused, "regression moments are not defined for a categorical likelihood");
    assert!(matches!(fitted.outputs(&test[1..]), Err(PosteriorError::Length { .. })));
}

#[test]
fn regression_has_moments() {
    let case = zoo().swap_remove(6);
    let problem = case.problem();
    let fitted = problem.fit(&problem.choose_independent(&body(&case)).unwrap(), 0.0).unwrap();
    let test = numbers(9, 4 * 5);
    let (found, outputs) = (fitted.regression(&test).unwrap(), fitted.outputs(&test).unwrap());
    assert_eq!(found.mean, outputs.mean);
    assert_eq!(found.variance, regression_variance(&outputs, &[0.3, 1.0, 2.5]));
    let traces: Vec<f64> = outputs.samples().map(|(_, c)| 0.0 + c[0] + c[4] + c[8]).collect();
    assert_eq!(fitted.spread(&test).unwrap(), traces);
    assert!(fitted.probabilities(&test, Predictive::Map, 1, &mut rng()).is_err());
}

/// Several scales share the work: equal to one by one where exact, within the tolerance where not.
#[test]
fn scales_are_fits_of_scaled_priors() {
    for case in zoo().iter().filter(|case| !case.network.layout().body().is_empty()) {
        let problem = case.problem();
        let scales = [0.1, 1.0, 7.0];
        let size = case.network.layout().body().len() / 2;
        for selection in [
            problem.choose(&body(case), &Variance, size, &mut rng()).unwrap(),
            problem.choose_independent(&body(case)).unwrap(),
        ] {
            for tolerance in [0.0, 0.2] {
                let fits: Result<Vec<Laplace>, _> =
                    problem.fit_scales(&selection, tolerance, &scales).unwrap().collect();
                for (fitted, scale) in fits.unwrap().iter().zip(scales) {
                    let one = problem.fit_scales(&selection, tolerance, &[scale]).unwrap().next().unwrap();
                    let one = one.unwrap();
                    assert!(fitted.posterior().certificate() <= tolerance * (1.0 + 1e-12), "{}", case.name);
                    let pairs = one.posterior().marginal_variances();
                    for (a, b) in fitted.posterior().marginal_variances().iter().zip(pairs) {
                        assert!((a - b).abs() <= (tolerance + 1e-9) * b, "{}: {a} {b}", case.name);
                    }
                }
            }
        }
    }
}

/// A fit tells how many parameters the data says nothing about, whether or not the rule looked at their curvature, and also where
/// rows were left out.
#[test]
fn a_fit_counts_parameters_without_curvature() {
    let mut seen = 0;
    for case in zoo().iter().filter(|case| !case.network.layout().body().is_empty()) {
        let (problem, prior) = (case.problem(), body(case));
        let curvature = Curvature::diagonal(&problem, prior.range()).unwrap().ggn;
        for rule in [&Random as &dyn SelectionRule, &Magnitude, &Variance] {
            let chosen = problem.choose(&prior, rule, prior.range().len().div_ceil(2), &mut rng()).unwrap();
            assert_eq!(chosen.curvature().is_some(), rule.uses_curvature(), "{}: {rule:?}", case.name);
            let indices = chosen.subnetwork().indices().iter();
            let expected = indices.filter(|&&index| curvature[index - prior.range().start] == 0.0).count();
            seen += expected;
            let independent = problem.independent(chosen.clone()).unwrap();
            for (selection, tolerance) in [(&chosen, 0.0), (&chosen, 0.5), (&independent, 0.0)] {
                let fitted = problem.fit(selection, tolerance).unwrap();
                let found = fitted.explanation().without_curvature;
                assert_eq!(found, expected, "{}: {rule:?} at tolerance {tolerance}", case.name);
            }
        }
    }
    assert!(seen > 0, "no case has a parameter without curvature");
}

/// The whole is the subnetwork of all parameters.
#[test]
fn everything_is_a_selection_too() {
    for case in zoo().iter().filter(|case| !case.network.layout().body().is_empty()) {
        let problem = case.problem();
        let prior = body(case);
        let size = prior.range().len();
        let whole = problem.choose_all(&prior).unwrap();
        assert_eq!(whole, problem.choose(&prior, &Random, size, &mut rng()).unwrap());
        let test = numbers(9, 4 * case.network.inputs());
        let fitted = problem.fit(&whole, 0.0).unwrap();
        let selected: Vec<usize> = prior.range().collect();
        let (covariance, _) = case.posterior(&selected, &vec![0.5; size]);
        let expected = case.output_covariance(&test, &selected, &covariance);
        let found = fitted.outputs(&test).unwrap().covariance;
        assert!(relative_error(&found, &expected) < 1e-9, "{}", case.name);
        let near = problem.fit(&whole, 1e-3).unwrap();
        assert!(near.posterior().certificate() <= 1e-3);
        assert!(relative_error(&near.outputs(&test).unwrap().covariance, &expected) < 1e-3, "{}", case.name);
        let parts = near.parts();
        let again =
            Laplace::from_parts(Arc::new(case.network.clone()), case.parameters.clone(), parts).unwrap();
        assert_eq!(again.outputs(&test).unwrap(), near.outputs(&test).unwrap());
    }
    let case = zoo().swap_remove(0);
    assert!(matches!(case.problem().choose_all(&body(&case)), Err(LaplaceError::Selection(_))));
}

#[test]
fn targets_give_a_marginal_likelihood() {
    let case = zoo().swap_remove(1);
    let labels: Vec<u32> = (0..20).map(|row| row % 3).collect();
    let problem = case.problem().with_targets(Targets::Classes(&labels)).unwrap();
    let size = case.network.layout().body().len();
    let mean = numbers(6, size);
    let prior = body(&case).with_mean(mean.clone());
    let selection = problem.choose(&prior, &Variance, 9, &mut rng()).unwrap();
    let fitted = problem.fit(&selection, 0.0).unwrap();
    let chosen = selection.subnetwork().indices().iter();
    let quadratic = chosen.map(|&index| (case.parameters[index] - mean[index]).powi(2) / 0.5).sum();
    let ratio = fitted.posterior().log_determinant_ratio();
    let expected = log_marginal_likelihood(problem.log_likelihood().unwrap(), ratio, quadratic);
    assert_eq!(fitted.log_marginal_likelihood(), Some(expected));
    assert_eq!(case.problem().fit(&selection, 0.0).unwrap().log_marginal_likelihood(), None);

    let refused = |targets: Targets<'_, f64>| case.problem().with_targets(targets).unwrap_err();
    assert!(matches!(refused(Targets::Classes(&labels[1..])), PosteriorError::Length { .. }));
    assert!(matches!(refused(Targets::Values(&[0.0; 60])), PosteriorError::TargetKind { .. }));
    let mut wrong = labels;
    wrong[4] = 3;
    assert_eq!(
        refused(Targets::Classes(&wrong)).to_string(),
        "label 3 of sample 4 is not a class: the network has 3 outputs"
    );
}

#[test]
fn a_posterior_does_not_go_with_another_network() {
    let case = zoo().swap_remove(1);
    let problem = case.problem();
    let fitted = problem.fit(&problem.choose(&body(&case), &Variance, 9, &mut rng()).unwrap(), 0.0).unwrap();
    let other = Network::new(&[4], &[LayerSpec::Linear(8), LayerSpec::Tanh, LayerSpec::Linear(3)]).unwrap();
    let parameters = vec![0.0; other.layout().len()];
    let (posterior, explanation) = fitted.clone().into_posterior();
    let found =
        Laplace::from_posterior(Arc::new(other), parameters, Likelihood::Categorical, posterior, explanation);
    assert_eq!(found.unwrap_err(), PosteriorError::OtherNetwork);
    let network = Arc::new(case.network.clone());
    let found = Laplace::from_parts(network, &case.parameters[1..], fitted.parts());
    assert!(matches!(found.unwrap_err(), PosteriorError::Length { what: "parameters", .. }));
}

#[test]
fn a_prior_that_does_not_fit_is_refused() {
    let case = zoo().swap_remove(1);
    let problem: Problem<'_> = case.problem();
    let refused = |prior: Prior| match problem.choose(&prior, &Variance, 1, &mut rng()) {
        Err(LaplaceError::Selection(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(Prior::isotropic(0..9999, 1.0)), SelectionError::Range { .. }));
    assert!(matches!(refused(Prior::diagonal(0..3, vec![1.0; 2])), SelectionError::Length { .. }));
    let prior = Prior::isotropic(0..3, 1.0).with_mean(vec![0.0]);
    assert!(matches!(refused(prior), SelectionError::Length { array: "prior mean", .. }));
    assert!(matches!(refused(Prior::isotropic(0..3, 0.0)), SelectionError::PriorVariance { .. }));
    assert!(problem.choose_independent(&Prior::isotropic(0..3, f64::NAN)).is_err());
    assert!(problem.choose_independent(&Prior::isotropic(3..3, 1.0)).is_err());
    assert!(problem.choose_indices(&Prior::isotropic(2..6, 1.0), vec![1, 3]).is_err());
}

/// A rule whose indices lie outside the candidates is caught.
#[derive(Debug)]
struct Elsewhere;

impl SelectionRule for Elsewhere {
    fn name(&self) -> &str {
        "elsewhere"
    }

    fn summary(&self) -> &str {
        "The last parameter of the network."
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        _: usize,
        _: &mut dyn rand::Rng,
    ) -> Result<Subnetwork, SelectionError> {
        let all = candidates.layout().len();
        Subnetwork::new(vec![all - 1], 0..all)
    }
}

#[test]
fn a_rule_cannot_choose_beyond_its_candidates() {
    let case = zoo().swap_remove(1);
    let problem = case.problem();
    let found = problem.choose(&body(&case), &Elsewhere, 1, &mut rng());
    assert!(matches!(found, Err(LaplaceError::Selection(SelectionError::OutOfRange { .. }))), "{found:?}");
    let everything = Prior::isotropic(0..case.parameters.len(), 1.0);
    let found = problem.choose(&everything, &Elsewhere, 1, &mut rng()).unwrap();
    assert_eq!(found.subnetwork().indices(), [case.parameters.len() - 1]);
}
