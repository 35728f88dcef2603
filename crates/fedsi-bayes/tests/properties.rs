//! What must hold for any posterior: the certificate, the edges, saving and loading.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_bayes::{
    Covariance, Form, Laplace, LaplaceError, Likelihood, Posterior, PosteriorError, Prior, Problem,
    SelectionError,
};
use fedsi_nn::LayerSpec;
use proptest::prelude::*;
use support::{Case, numbers, relative_error, zoo};

fn fit(problem: &Case, selected: &[usize], prior: &[f64], tolerance: f64, form: Option<Form>) -> Posterior {
    problem.fit(selected, prior, tolerance, form).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_certificate_holds(
        seed in 0_u64..1000,
        which in 0_usize..11,
        exponent in -3.0_f64..1.0,
        strength in -2.0_f64..2.0,
        forced: bool,
    ) {
        let mut problem = zoo().swap_remove(which);
        problem.parameters = numbers(seed, problem.parameters.len());
        let selected = problem.every(1 + seed as usize % 3);
        let prior: Vec<f64> =
            numbers(seed + 1, selected.len()).iter().map(|value| (strength + value).exp()).collect();
        let tolerance = 10_f64.powf(exponent);
        let form = forced.then_some(Form::Projection);
        let found = fit(&problem, &selected, &prior, tolerance, form);
        let bound = found.certificate();
        prop_assert!(bound <= tolerance, "{} {bound:e} > {tolerance:e}", problem.name);
        let exact = fit(&problem, &selected, &prior, 0.0, None);
        for (loose, tight) in found.marginal_variances().iter().zip(exact.marginal_variances()) {
            prop_assert!(*loose >= tight * (1.0 - 1e-9), "{}: {loose} < {tight}", problem.name);
            prop_assert!(*loose <= tight * (1.0 + bound + 1e-9), "{}: {loose} > {tight}", problem.name);
        }
        // The same for the variances of outputs, which are variances of combinations of parameters.
        let test = numbers(seed + 2, 4 * problem.network.inputs());
        let loose = problem.outputs(&found, &test);
        let tight = problem.outputs(&exact, &test);
        let width = problem.network.outputs();
        for sample in 0..4 {
            for output in 0..width {
                let place = (sample * width + output) * width + output;
                let (loose, tight) = (loose.covariance[place], tight.covariance[place]);
                prop_assert!(loose >= tight - 1e-9 * (1.0 + tight));
                prop_assert!(loose <= tight * (1.0 + bound) + 1e-9 * (1.0 + tight));
            }
        }
    }
}

#[test]
fn a_loose_tolerance_keeps_fewer_directions() {
    let mut problem = zoo().swap_remove(3);
    problem.inputs = numbers(8, 200 * problem.network.inputs());
    let selected = problem.every(1);
    let prior = vec![0.05; selected.len()];
    let ranks: Vec<usize> = [1e-6, 1e-2, 1.0]
        .iter()
        .map(|&tolerance| fit(&problem, &selected, &prior, tolerance, Some(Form::Projection)).rank())
        .collect();
    assert!(ranks[0] >= ranks[1] && ranks[1] > ranks[2], "{ranks:?}");
}

#[test]
fn parameters_without_curvature_keep_their_prior_exactly() {
    for problem in zoo().iter().filter(|problem| problem.name.contains("dead")) {
        let selected = problem.every(1);
        let prior: Vec<f64> = numbers(7, selected.len()).iter().map(|value| 1.1 + value).collect();
        let (exact, _) = problem.posterior(&selected, &prior);
        let size = selected.len();
        let ggn = problem.ggn(&selected);
        for (tolerance, form) in
            [(0.0, Some(Form::Samples)), (0.0, Some(Form::Parameters)), (0.1, Some(Form::Projection))]
        {
            let posterior = fit(problem, &selected, &prior, tolerance, form);
            let variances = posterior.marginal_variances();
            let covariance = posterior.covariance();
            let mut dead = 0;
            for index in (0..size).filter(|index| ggn[index * size + index] == 0.0) {
                dead += 1;
                assert!(variances[index].to_bits() == prior[index].to_bits(), "{} {form:?}", problem.name);
                for other in (0..size).filter(|&other| other != index) {
                    assert!(covariance[index * size + other] == 0.0);
                }
            }
            assert!(dead > 5, "{}: {dead}", problem.name);
            // They still add to the outputs' variance where they come to life.
            let test = numbers(12, 5 * problem.network.inputs());
            let outputs = problem.outputs(&posterior, &test);
            if tolerance == 0.0 {
                let expected = problem.output_covariance(&test, &selected, &exact);
                assert!(relative_error(&outputs.covariance, &expected) < 1e-10);
            }
        }
    }
}

#[test]
fn no_data_gives_the_prior() {
    for mut problem in zoo() {
        problem.inputs.clear();
        let selected = problem.every(2);
        let prior: Vec<f64> = numbers(7, selected.len()).iter().map(|value| 1.1 + value).collect();
        for (tolerance, form) in
            [(0.0, None), (0.0, Some(Form::Samples)), (0.0, Some(Form::Parameters)), (0.01, None)]
        {
            let posterior = fit(&problem, &selected, &prior, tolerance, form);
            assert_eq!(posterior.marginal_variances(), prior);
            assert!(posterior.log_determinant_ratio() == 0.0 && posterior.rank() == 0);
            let test = numbers(12, 3 * problem.network.inputs());
            let mut diagonal = vec![0.0; selected.len() * selected.len()];
            for (index, variance) in prior.iter().enumerate() {
                diagonal[index * selected.len() + index] = *variance;
            }
            let expected = problem.output_covariance(&test, &selected, &diagonal);
            let found = problem.outputs(&posterior, &test);
            assert!(relative_error(&found.covariance, &expected) < 1e-12, "{}", problem.name);
        }
    }
}

#[test]
fn an_empty_subnetwork_has_no_variance() {
    for problem in zoo() {
        for tolerance in [0.0, 0.01] {
            let posterior = fit(&problem, &[], &[], tolerance, None);
            assert!(posterior.marginal_variances().is_empty() && posterior.covariance().is_empty());
            let test = numbers(12, 3 * problem.network.inputs());
            let found = problem.outputs(&posterior, &test);
            assert_eq!(found.len(), 3);
            assert!(found.covariance.iter().all(|&value| value == 0.0));
            assert!(problem.outputs(&posterior, &[]).is_empty());
        }
    }
}

#[test]
fn inputs_of_zero_leave_the_first_weights_alone() {
    let mut problem = zoo().swap_remove(2);
    problem.inputs.fill(0.0);
    let selected = problem.every(1);
    let prior = vec![0.5; selected.len()];
    for form in [Form::Samples, Form::Parameters] {
        let posterior = fit(&problem, &selected, &prior, 0.0, Some(form));
        assert!(posterior.marginal_variances()[..24].iter().all(|&variance| variance == 0.5));
        let (covariance, _) = problem.posterior(&selected, &prior);
        assert!(relative_error(&posterior.covariance(), &covariance) < 1e-10);
    }
}

#[test]
fn certain_predictions_leave_the_prior() {
    let mut problem = zoo().swap_remove(1);
    for parameter in &mut problem.parameters {
        *parameter *= 1000.0;
    }
    let selected = problem.every(1);
    let prior = vec![1.0; selected.len()];
    for form in [None, Some(Form::Samples), Some(Form::Parameters)] {
        let variances = fit(&problem, &selected, &prior, 0.0, form).marginal_variances();
        assert!(variances.iter().all(|variance| (0.0..=1.0).contains(variance)), "{form:?}");
    }
}

#[test]
fn factors_give_back_the_same_posterior() {
    for problem in zoo() {
        let selected = problem.every(2);
        let prior: Vec<f64> = numbers(7, selected.len()).iter().map(|value| 1.1 + value).collect();
        let network = Arc::new(problem.network.clone());
        let test = numbers(12, 3 * network.inputs());
        for posterior in [
            fit(&problem, &selected, &prior, 0.0, Some(Form::Samples)),
            fit(&problem, &selected, &prior, 0.0, Some(Form::Parameters)),
            fit(&problem, &selected, &prior, 0.1, Some(Form::Projection)),
            problem.independent(0.7).posterior().clone(),
        ] {
            let factors = posterior.factors();
            let again = Posterior::from_factors(&*network, factors.clone()).unwrap();
            assert_eq!(again.factors(), factors);
            assert_eq!(again.marginal_variances(), posterior.marginal_variances());
            assert_eq!(problem.outputs(&again, &test), problem.outputs(&posterior, &test));
        }
        let fitted = problem.independent(0.7);
        let again = Laplace::from_parts(network, problem.parameters.clone(), fitted.parts()).unwrap();
        assert_eq!(again.outputs(&test).unwrap(), fitted.outputs(&test).unwrap());
        assert_eq!(again.explanation(), fitted.explanation());
    }
}

#[test]
fn an_independent_posterior_has_independent_marginals() {
    for problem in zoo() {
        let selected = problem.every(1);
        let fitted = problem.independent(0.7);
        let (size, ggn) = (selected.len(), problem.ggn(&selected));
        let mut expected = vec![0.0; size * size];
        for index in 0..size {
            expected[index * size + index] = 1.0 / (ggn[index * size + index] + 1.0 / 0.7);
        }
        assert!(relative_error(&fitted.posterior().covariance(), &expected) < 1e-12, "{}", problem.name);
        let test = numbers(12, 3 * problem.network.inputs());
        let found = fitted.outputs(&test).unwrap();
        let expected = problem.output_covariance(&test, &selected, &expected);
        assert!(relative_error(&found.covariance, &expected) < 1e-12, "{}", problem.name);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let problem = zoo().swap_remove(1);
    let fit = |selected: &[usize], prior: &[f64], tolerance: f64| {
        problem.fit(selected, prior, tolerance, None).unwrap_err()
    };
    assert!(matches!(fit(&[3, 3], &[1.0, 1.0], 0.0), PosteriorError::Selection { position: 1, .. }));
    assert!(matches!(fit(&[3, 9999], &[1.0, 1.0], 0.0), PosteriorError::Selection { position: 1, .. }));
    assert!(matches!(fit(&[3, 4], &[1.0], 0.0), PosteriorError::Length { .. }));
    assert!(matches!(fit(&[3, 4], &[1.0, 0.0], 0.0), PosteriorError::Prior { position: 1, .. }));
    assert!(matches!(fit(&[3], &[1.0], -1.0), PosteriorError::Setting { .. }));
    let mut nan = zoo().swap_remove(1);
    // In the head: a rectifier below it would take NaN for an inactive unit.
    let head = nan.network.layout().head().start;
    nan.parameters[head] = f64::NAN;
    for tolerance in [0.0, 0.1] {
        let found = nan.fit(&[1, 3], &[1.0, 1.0], tolerance, None);
        assert_eq!(found.unwrap_err(), PosteriorError::NotPositive);
    }
    let network = Arc::new(problem.network.clone());
    let new = |parameters: &[f64], inputs: &'static [f64], likelihood: Likelihood| {
        Problem::new(network.clone(), parameters, inputs, likelihood).unwrap_err()
    };
    let noise = Likelihood::Gaussian { noise: vec![1.0] };
    let found = new(&problem.parameters, &[], noise);
    assert!(matches!(found, PosteriorError::Length { what: "noise", .. }));
    let found = new(&problem.parameters[1..], &[], Likelihood::Categorical);
    assert!(matches!(found, PosteriorError::Length { what: "parameters", .. }));
    let found = new(&problem.parameters, &[0.0; 7], Likelihood::Categorical);
    assert!(matches!(found, PosteriorError::Length { expected: 6, found: 7, .. }));
    let mut factors = problem_posterior(&problem).factors();
    factors.covariance = Covariance::Reduction { rank: 3, factor: vec![0.0; 4] };
    assert!(Posterior::from_factors(&*network, factors).is_err());
    let found = problem.problem().choose_indices(&Prior::isotropic(0..9, 1.0), Vec::new());
    assert_eq!(found.unwrap_err(), LaplaceError::Selection(SelectionError::Empty { candidates: 9 }));
}

fn problem_posterior(problem: &Case) -> Posterior {
    fit(problem, &problem.every(3), &vec![1.0; problem.every(3).len()], 0.0, None)
}

#[test]
fn many_samples_in_batches_agree_with_one_batch_after_another() {
    let network = [LayerSpec::Linear(7), LayerSpec::Relu, LayerSpec::Linear(3)];
    let problem = Case::new("batches", &[5], &network, Likelihood::Categorical, 900);
    let selected = problem.every(1);
    let prior = vec![0.7; selected.len()];
    let posterior = fit(&problem, &selected, &prior, 0.0, None);
    let (covariance, _) = problem.posterior(&selected, &prior);
    assert!(relative_error(&posterior.covariance(), &covariance) < 1e-10);
    let outputs = problem.outputs(&posterior, &problem.inputs);
    let expected = problem.output_covariance(&problem.inputs, &selected, &covariance);
    assert!(relative_error(&outputs.covariance, &expected) < 1e-10);
}
