//! `fedsi laplace`: the subnetwork posterior alone.

mod case;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use fedsi_bayes::{
    Explanation, LaplaceError, Likelihood, Predictive, Prior, Problem, RuleName, Rules, SelectionRule,
    probabilities, regression_variance,
};
use fedsi_random::{Purpose, Streams};
use fedsi_run::{NamedTensor, write_tensors};
use serde::Serialize;

use crate::args::LaplaceArguments;
use crate::output::{BadInput, print, print_json};
use crate::output_file::inspect;
use case::Case;

/// The figures of a posterior besides the arrays; `seconds` are those of curvature, selection and posterior.
#[derive(Debug, Serialize)]
struct LaplaceSummary {
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
    let inputs = ["case.json", "model.safetensors", "data.safetensors"].map(|name| arguments.case.join(name));
    inspect(&arguments.out, &inputs.each_ref().map(PathBuf::as_path))?;
    let tolerance = if arguments.exact { 0.0 } else { arguments.tolerance };
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        return Err(BadInput(format!("--tolerance {tolerance}: expected a finite number, 0 or above")).into());
    }
    let rule = Rules::builtin()
        .find(&RuleName::from(&*arguments.rule))
        .map_err(|error| BadInput(format!("--rule: {error}")))?;
    let size = size(arguments.subnetwork.as_deref(), &*rule, &case)?;
    // A rule with a size of its own takes as many as it finds.
    if !rule.has_own_size() {
        refuse_too_large(size, fedsi_fl::memory::available())?;
    }
    let (summary, arrays) = posterior(case, &*rule, size, tolerance, arguments.seed)?;
    let path = &arguments.out;
    write_tensors(path, &arrays, None)
        .with_context(|| format!("the posterior is computed, but not saved in {}", path.display()))?;
    if json {
        return print_json(&summary);
    }
    if quiet {
        return Ok(());
    }
    print(&closing(&summary, arguments)?)
}

/// The GGN and the covariance are written whole, and are there as numbers and as bytes: refused before any of it is made
/// where that cannot fit.
fn refuse_too_large(size: usize, available: Option<u64>) -> Result<(), BadInput> {
    let needed = 4.0 * 8.0 * (size as f64).powi(2);
    match available {
        Some(available) if needed > available as f64 => Err(BadInput(format!(
            "a subnetwork of {size} parameters needs at least {:.1} GB of memory and {:.1} GB can be had: choose fewer \
             with --subnetwork",
            needed / 1e9,
            available as f64 / 1e9
        ))),
        _ => Ok(()),
    }
}

/// How many parameters: a number, a percentage, or what the case says.
fn size(wanted: Option<&str>, rule: &dyn SelectionRule, case: &Case) -> Result<usize, BadInput> {
    let body = case.network.layout().body().len();
    if rule.has_own_size() {
        return Ok(body);
    }
    let bad = |text: &str| {
        BadInput(format!(
            "--subnetwork {text}: expected a number from 1 to {body}, or a percentage such as 5%"
        ))
    };
    let Some(text) = wanted else {
        let missing = || BadInput("case.json has no `subnetwork_size`; give --subnetwork N or P%".to_owned());
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
    case: Case,
    rule: &dyn SelectionRule,
    size: usize,
    tolerance: f64,
    seed: u64,
) -> anyhow::Result<(LaplaceSummary, Vec<NamedTensor>)> {
    let bad = |error: LaplaceError| BadInput(error.to_string());
    let posterior_failed = |error: fedsi_bayes::PosteriorError| bad(error.into());
    let (outputs, body) = (case.network.outputs(), case.network.layout().body());
    let candidates = body.len();
    let prior = Prior::diagonal(body, case.prior_variance).with_mean(case.prior_mean);
    let problem = Problem::new(Arc::new(case.network), case.parameters, &case.train_inputs, case.likelihood)
        .and_then(|problem| problem.with_targets(case.train_targets.borrow()))
        .map_err(posterior_failed)?;
    let mut rng = Streams::new(seed).stream(Purpose::Selection, 0, 0);
    let started = Instant::now();
    let selection = problem.choose(&prior, rule, size, &mut rng).map_err(bad)?;
    let laplace = problem.fit(&selection, tolerance).map_err(posterior_failed)?;
    let seconds = started.elapsed().as_secs_f64();
    let test = laplace.outputs(&case.test_inputs)?;
    let rows = test.len();
    let selected = selection.subnetwork().indices();
    let chosen = selected.len();
    let ggn = fedsi_bayes::ggn(&problem, selected)?;
    let predicted = match laplace.likelihood() {
        Likelihood::Categorical => {
            let values = probabilities(Predictive::Probit, &test, 1, &mut rng);
            NamedTensor::f64("probit", vec![rows, outputs], &values)
        }
        Likelihood::Gaussian { noise } => {
            let values = regression_variance(&test, noise);
            NamedTensor::f64("predictive_variance", vec![rows, outputs], &values)
        }
    };
    let curvature = selection.curvature().context("a selection by a rule has a curvature")?;
    let arrays = vec![
        NamedTensor::i64("subnetwork", selected.iter().map(|&index| index as i64)),
        NamedTensor::f64("diag_ggn", vec![candidates], &curvature.ggn),
        NamedTensor::f64("ggn", vec![chosen, chosen], &ggn),
        NamedTensor::f64("covariance", vec![chosen, chosen], &laplace.posterior().covariance()),
        NamedTensor::f64("logits", vec![rows, outputs], &test.mean),
        NamedTensor::f64("functional_variance", vec![rows, outputs, outputs], &test.covariance),
        predicted,
    ];
    let summary = LaplaceSummary {
        rule: rule.name().to_owned(),
        subnetwork: selection.explanation().clone(),
        rank: laplace.posterior().rank(),
        certificate: laplace.posterior().certificate(),
        log_likelihood: problem.log_likelihood().context("the case has targets")?,
        log_marginal_likelihood: laplace.log_marginal_likelihood().context("the case has targets")?,
        seconds,
    };
    Ok((summary, arrays))
}

fn closing(summary: &LaplaceSummary, arguments: &LaplaceArguments) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "subnetwork by {}: {}", summary.rule, summary.subnetwork)?;
    let exactness = if summary.certificate == 0.0 {
        "exact".to_owned()
    } else {
        format!("every variance at most {:.2e} of itself too large", summary.certificate)
    };
    writeln!(text, "posterior: rank {}, {exactness}, {:.2} s", summary.rank, summary.seconds)?;
    writeln!(
        text,
        "log likelihood {:.4}, log marginal likelihood {:.4}",
        summary.log_likelihood, summary.log_marginal_likelihood
    )?;
    writeln!(text, "\nfile: {}", arguments.out.display())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_covariance_that_cannot_fit_is_refused() {
        assert!(refuse_too_large(1_000, Some(1 << 30)).is_ok() && refuse_too_large(usize::MAX, None).is_ok());
        let error = refuse_too_large(10_000, Some(1 << 30)).unwrap_err().to_string();
        assert!(
            error.contains("10000 parameters needs at least 3.2 GB") && error.contains("1.1 GB can be had"),
            "{error}"
        );
        assert!(refuse_too_large(usize::MAX, Some(u64::MAX)).is_err());
    }
}
