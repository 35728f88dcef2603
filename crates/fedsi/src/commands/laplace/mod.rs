//! `fedsi laplace`: the subnetwork posterior alone.

mod case;

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use fedsi_bayes::{
    Candidates, Curvature, Explanation, Likelihood, Posterior, Predictive, Rule, log_likelihood,
    log_marginal_likelihood, probabilities, regression_variance,
};
use fedsi_fl::{Values, write_tensors};
use fedsi_nn::Tape;
use fedsi_random::{Purpose, Streams};
use serde::Serialize;

use crate::args::LaplaceArguments;
use crate::output::{BadInput, print, print_json};
use case::Case;

/// Rows of a forward pass.
const FORWARD_BATCH: usize = 128;

/// What is told of a posterior besides the arrays; `seconds` are those of curvature, choice and posterior.
#[derive(Debug, Serialize)]
struct Told {
    rule: String,
    subnetwork: Explanation,
    rank: usize,
    certificate: f64,
    log_likelihood: f64,
    log_marginal_likelihood: f64,
    seconds: f64,
}

pub(crate) fn laplace(arguments: &LaplaceArguments, quiet: bool, json: bool) -> anyhow::Result<()> {
    let case = Case::read(&arguments.case)?;
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(missing) = folder.filter(|folder| !folder.is_dir()) {
        let path = arguments.out.display();
        return Err(BadInput(format!("--out {path}: there is no folder {}", missing.display())).into());
    }
    let tolerance = if arguments.exact { 0.0 } else { arguments.tolerance };
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        return Err(BadInput(format!("--tolerance {tolerance}: expected a finite number, 0 or above")).into());
    }
    let rule: Rule = arguments.rule.parse().map_err(|error| BadInput(format!("--rule: {error}")))?;
    let size = size(arguments.subnetwork.as_deref(), &rule, &case)?;
    let (told, arrays) = posterior(&case, &rule, size, tolerance, arguments.seed)?;
    let path = &arguments.out;
    write_tensors(path, &arrays, None)
        .with_context(|| format!("the posterior is computed, but not saved in {}", path.display()))?;
    if json {
        return print_json(&told);
    }
    if quiet {
        return Ok(());
    }
    print(&closing(&told, arguments)?)
}

/// How many parameters: a number, a percentage, or what the case says.
fn size(wanted: Option<&str>, rule: &Rule, case: &Case) -> Result<usize, BadInput> {
    let body = case.network.layout().body().len();
    if matches!(rule, Rule::Layers(_)) {
        return Ok(body); // the layers say
    }
    let bad = |text: &str| {
        BadInput(format!(
            "--subnetwork {text}: expected a number from 1 to {body}, or a percentage such as 5%"
        ))
    };
    let Some(text) = wanted else {
        let missing = || BadInput("case.json has no `subnetwork_size`; say --subnetwork N or P%".to_owned());
        return case.subnetwork_size.ok_or_else(missing);
    };
    match text.strip_suffix('%') {
        None => text.parse().map_err(|_| bad(text)),
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => {
                Ok(((percent / 100.0 * body as f64).round() as usize).max(1))
            }
            _ => Err(bad(text)),
        },
    }
}

fn posterior(
    case: &Case,
    rule: &Rule,
    size: usize,
    tolerance: f64,
    seed: u64,
) -> anyhow::Result<(Told, Vec<Values>)> {
    let Case { network, parameters, likelihood, prior_variance, train_inputs, test_inputs, .. } = case;
    let (layout, outputs) = (network.layout(), network.outputs());
    let body = layout.body();
    let started = Instant::now();
    let curvature = Curvature::diagonal(network, parameters, train_inputs, likelihood, body.clone());
    let bad = |error: fedsi_bayes::SelectionError| BadInput(error.to_string());
    let candidates =
        Candidates::new(layout, body.clone(), &curvature, prior_variance, parameters).map_err(bad)?;
    let mut rng = Streams::new(seed).stream(Purpose::Selection, 0, 0);
    let subnetwork = rule.select(&candidates, size, &mut rng).map_err(bad)?;
    let selected = subnetwork.indices();
    let prior: Vec<f64> = selected.iter().map(|&index| prior_variance[index]).collect();
    let posterior =
        Posterior::fit(network, parameters, train_inputs, likelihood, selected, &prior, tolerance)
            .map_err(|error| BadInput(error.to_string()))?;
    let seconds = started.elapsed().as_secs_f64();
    let test = posterior.outputs(network, parameters, test_inputs);
    let rows = test.mean.len() / outputs;

    let chosen = selected.len();
    let ggn = fedsi_bayes::ggn(network, parameters, train_inputs, likelihood, selected)?;
    let predicted = match likelihood {
        Likelihood::Categorical => {
            let values = probabilities(Predictive::Probit, &test, 1, &mut rng);
            Values::f64("probit", vec![rows, outputs], &values)
        }
        Likelihood::Gaussian { noise } => {
            let values = regression_variance(&test, noise);
            Values::f64("predictive_variance", vec![rows, outputs], &values)
        }
    };
    let arrays = vec![
        Values::i64("subnetwork", selected.iter().map(|&index| index as i64)),
        Values::f64("diag_ggn", vec![body.len()], &curvature.ggn),
        Values::f64("ggn", vec![chosen, chosen], &ggn),
        Values::f64("covariance", vec![chosen, chosen], &posterior.covariance()),
        Values::f64("logits", vec![rows, outputs], &test.mean),
        Values::f64("functional_variance", vec![rows, outputs, outputs], &test.covariance),
        predicted,
    ];
    let fit = log_likelihood(likelihood, &forward(case), outputs, case.train_targets.borrow());
    let moved = selected.iter().map(|&index| (parameters[index] - case.prior_mean[index]).powi(2));
    let quadratic: f64 = moved.zip(&prior).map(|(square, variance)| square / variance).sum();
    let told = Told {
        rule: rule.to_string(),
        subnetwork: subnetwork.explain(layout, &curvature, body.clone()),
        rank: posterior.rank(),
        certificate: posterior.certificate(),
        log_likelihood: fit,
        log_marginal_likelihood: log_marginal_likelihood(fit, posterior.log_determinant_ratio(), quadratic),
        seconds,
    };
    Ok((told, arrays))
}

/// The network's outputs on the training samples.
fn forward(case: &Case) -> Vec<f64> {
    let width = case.network.inputs();
    let mut tape = Tape::new(&case.network, FORWARD_BATCH);
    let mut outputs = Vec::new();
    for rows in case.train_inputs.chunks(FORWARD_BATCH * width) {
        tape.inputs_mut(&case.network, rows.len() / width).copy_from_slice(rows);
        outputs.extend_from_slice(tape.forward(&case.network, &case.parameters));
    }
    outputs
}

fn closing(told: &Told, arguments: &LaplaceArguments) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "subnetwork by {}: {}", told.rule, told.subnetwork)?;
    let exactness = if told.certificate == 0.0 {
        "exact".to_owned()
    } else {
        format!("every variance at most {:.2e} of itself too large", told.certificate)
    };
    writeln!(text, "posterior: rank {}, {exactness}, {:.2} s", told.rank, told.seconds)?;
    writeln!(
        text,
        "log likelihood {:.4}, log marginal likelihood {:.4}",
        told.log_likelihood, told.log_marginal_likelihood
    )?;
    writeln!(text, "\nfile: {}", arguments.out.display())?;
    Ok(text)
}
