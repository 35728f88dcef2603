//! `fedsi laplace`: the subnetwork posterior alone.

mod case;
mod layers;
mod prior;
mod range;
mod tensors;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use fedsi_bayes::{
    Curvature, Explanation, LaplaceError, Likelihood, OutputDistribution, Predictive, Prior, PriorScale,
    probabilities, regression_variance,
};
use fedsi_compare::{ExternalPredictions, ExternalValues};
use fedsi_metrics::Bins;
use fedsi_random::{Purpose, Streams};
use fedsi_run::{NamedTensor, write_tensors};
use serde::Serialize;

use super::calibrate::{CalibrationFolder, Scored};
use crate::args::LaplaceArguments;
use crate::output::{BadInput, print, print_json};
use crate::output_file::inspect;
use case::{Case, CaseTargets};
use prior::{ChosenPrior, PriorChoice};
use range::Wanted;

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
    prior_variance: ChosenPrior,
    /// Of the test rows, where the data has `test_y`.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<serde_json::Value>,
}

/// What is computed.
struct Computed {
    summary: LaplaceSummary,
    arrays: Vec<NamedTensor>,
    /// The test rows' predictions, where their targets are known.
    predicted: Option<ExternalPredictions>,
}

pub(crate) fn laplace(arguments: &LaplaceArguments, quiet: bool, json: bool) -> anyhow::Result<()> {
    if arguments.schema {
        return print_json(&schemars::schema_for!(case::Description));
    }
    // Both are required without --schema.
    let (Some(folder), Some(out)) = (&arguments.case, &arguments.out) else {
        return Err(BadInput("give --case DIR and --out FILE".to_owned()).into());
    };
    let case = Case::read(folder)?;
    let parent = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(missing) = parent.filter(|folder| !folder.is_dir()) {
        let path = out.display();
        return Err(BadInput(format!("--out {path}: there is no folder {}", missing.display())).into());
    }
    let inputs = ["case.json", "model.safetensors", "data.safetensors"].map(|name| folder.join(name));
    inspect(out, &inputs.each_ref().map(PathBuf::as_path))?;
    let page =
        arguments.report.as_deref().map(|path| CalibrationFolder::inspect(path, "--report")).transpose()?;
    if page.is_some() && case.test_targets.is_none() {
        let words = "--report: data.safetensors has no `test_y`, so that there is nothing to score";
        return Err(BadInput(words.to_owned()).into());
    }
    let tolerance = if arguments.exact { 0.0 } else { arguments.tolerance };
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        return Err(BadInput(format!("--tolerance {tolerance}: expected a finite number, 0 or above")).into());
    }
    let choice = PriorChoice::parse(arguments.prior_variance.as_deref())?;
    let wanted = Wanted::of(arguments, &case)?;
    refuse_too_large(wanted.size(), fedsi_fl::memory::available())?;
    let Computed { mut summary, arrays, predicted } =
        posterior(&case, &wanted, choice, tolerance, arguments)?;
    write_tensors(out, &arrays, None)
        .with_context(|| format!("the posterior is computed, but not saved in {}", out.display()))?;
    let mut report = None;
    if let Some(predicted) = &predicted {
        let scored = Scored::of(predicted, Bins::default())?;
        summary.scores = Some(scored.json());
        report = page.map(|page| page.write(&scored, &super::calibrate::title(folder))).transpose()?;
    }
    if json {
        return print_json(&summary);
    }
    if quiet {
        return Ok(());
    }
    print(&closing(&summary, out, report.as_deref())?)
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

fn posterior(
    case: &Case,
    wanted: &Wanted,
    choice: PriorChoice,
    tolerance: f64,
    arguments: &LaplaceArguments,
) -> anyhow::Result<Computed> {
    let bad = |error: LaplaceError| BadInput(error.to_string());
    let posterior_failed = |error: fedsi_bayes::PosteriorError| bad(error.into());
    let (outputs, range) = (case.network.outputs(), wanted.range());
    let candidates = range.len();
    let prior =
        Prior::diagonal(range.clone(), choice.base(case, &range)?).with_mean(case.prior_mean(&range)?);
    let problem = prior::problem_of(case, &case.train)?;
    let seed = arguments.seed;
    let mut rng = Streams::new(seed).stream(Purpose::Selection, 0, 0);
    let started = Instant::now();
    let selection = match wanted {
        Wanted::ByRule { rule, size, .. } => problem.choose(&prior, &**rule, *size, &mut rng),
        Wanted::All { .. } => problem.choose_all(&prior),
    };
    let selection = selection.map_err(bad)?;
    let chosen_prior =
        prior::choose(choice, case, &problem, &selection, tolerance, (seed, arguments.held_out))?;
    if chosen_prior.at_the_edge {
        let (least, widest) = PriorScale::RANGE;
        tracing::warn!(
            "the best prior variance, {:.1e} times what was given, lies at an end of what was tried, {:.0e} to {widest:.0e} \
             times, or just beyond: the data says little of it, or wants one further away",
            chosen_prior.scale,
            least
        );
    }
    let scales = [chosen_prior.scale];
    let mut fits = problem.fit_scales(&selection, tolerance, &scales).map_err(posterior_failed)?;
    let laplace = fits.next().context("one scale has one posterior")?.map_err(posterior_failed)?;
    let seconds = started.elapsed().as_secs_f64();
    let test = laplace.outputs(&case.test_inputs)?;
    let rows = test.len();
    let selected = selection.subnetwork().indices();
    let chosen = selected.len();
    let ggn = fedsi_bayes::ggn(&problem, selected)?;
    let (predicted, values) = predictions(case, laplace.likelihood(), &test, &mut rng);
    let name = match laplace.likelihood() {
        Likelihood::Categorical => "probit",
        Likelihood::Gaussian { .. } => "predictive_variance",
    };
    let curvature = match selection.curvature() {
        Some(known) => known.clone(),
        None => Curvature::diagonal(&problem, range).map_err(posterior_failed)?,
    };
    let arrays = vec![
        NamedTensor::i64("subnetwork", selected.iter().map(|&index| index as i64)),
        NamedTensor::f64("diag_ggn", vec![candidates], &curvature.ggn),
        NamedTensor::f64("ggn", vec![chosen, chosen], &ggn),
        NamedTensor::f64("covariance", vec![chosen, chosen], &laplace.posterior().covariance()),
        NamedTensor::f64("logits", vec![rows, outputs], &test.mean),
        NamedTensor::f64("functional_variance", vec![rows, outputs, outputs], &test.covariance),
        NamedTensor::f64(name, vec![rows, outputs], &values),
    ];
    let summary = LaplaceSummary {
        rule: wanted.name().to_owned(),
        subnetwork: laplace.explanation().clone(),
        rank: laplace.posterior().rank(),
        certificate: laplace.posterior().certificate(),
        log_likelihood: problem.log_likelihood().context("the case has targets")?,
        log_marginal_likelihood: laplace.log_marginal_likelihood().context("the case has targets")?,
        seconds,
        prior_variance: chosen_prior,
        scores: None,
    };
    Ok(Computed { summary, arrays, predicted })
}

/// The test rows' predictions beside their targets, where those are known; and the probabilities or variances.
fn predictions(
    case: &Case,
    likelihood: &Likelihood,
    test: &OutputDistribution,
    rng: &mut dyn rand::Rng,
) -> (Option<ExternalPredictions>, Vec<f64>) {
    let values = match likelihood {
        Likelihood::Categorical => probabilities(Predictive::Probit, test, 1, rng),
        Likelihood::Gaussian { noise } => regression_variance(test, noise),
    };
    let outputs = case.network.outputs();
    let predicted = case.test_targets.as_ref().map(|targets| match targets {
        CaseTargets::Classes(labels) => ExternalValues::Classes {
            classes: outputs,
            probabilities: values.clone(),
            labels: Some(labels.clone()),
        },
        CaseTargets::Values(targets) => ExternalValues::Values {
            outputs,
            mean: test.mean.clone(),
            variance: values.clone(),
            targets: Some(targets.clone()),
        },
    });
    let path = PathBuf::from("test_x");
    let predicted = predicted.map(|values| ExternalPredictions {
        path,
        values,
        clients: None,
        rows: None,
        ids: None,
        class_names: None,
    });
    (predicted, values)
}

fn closing(
    summary: &LaplaceSummary,
    out: &std::path::Path,
    report: Option<&std::path::Path>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "subnetwork by {}: {}", summary.rule, summary.subnetwork)?;
    let exactness = if summary.certificate == 0.0 {
        "exact".to_owned()
    } else {
        format!("every variance at most {:.2e} of itself too large", summary.certificate)
    };
    writeln!(text, "posterior: rank {}, {exactness}, {:.2} s", summary.rank, summary.seconds)?;
    let prior = &summary.prior_variance;
    let written = |value: f64| {
        if (1e-3..1e4).contains(&value) { format!("{value:.4}") } else { format!("{value:.3e}") }
    };
    let value =
        prior.variance.map_or_else(|| format!("{} times what was given", written(prior.scale)), written);
    if prior.chosen_by != "given" {
        writeln!(text, "prior variance: {value}, by {}", prior.chosen_by)?;
    }
    if let Some(held) = &prior.held_out {
        let rows = if held.rows == 1 { "1 row".to_owned() } else { format!("{} rows", held.rows) };
        let which = if held.unseen {
            "of `held_out_x`, taken as never trained on"
        } else {
            "of `train_x`, which the network was trained on unless they were left out then: `held_out_x` and `held_out_y` in \
             data.safetensors are for rows that it never saw"
        };
        writeln!(text, "held out: {rows} {which}")?;
    }
    writeln!(
        text,
        "log likelihood {:.4}, log marginal likelihood {:.4}",
        summary.log_likelihood, summary.log_marginal_likelihood
    )?;
    if let Some(scores) = &summary.scores {
        let figure = |key: &str| scores[key].as_f64().map(|value| format!("{key} {value:.4}"));
        let keys = ["accuracy", "ece", "ece_floor", "rmse", "coverage_90", "nll"];
        let figures: Vec<String> = keys.iter().filter_map(|key| figure(key)).collect();
        writeln!(text, "test rows: {} ({})", figures.join(", "), scores["samples"])?;
    }
    writeln!(text, "\nfile: {}", out.display())?;
    if let Some(report) = report {
        writeln!(text, "report: {}", report.display())?;
    }
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
