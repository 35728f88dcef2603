//! The prior variance: as the data gives it, a number, or chosen by marginal likelihood or on held-out rows.

use fedsi_bayes::{LaplaceError, Likelihood, Predictive, Problem, Selection};
use fedsi_metrics::PROBABILITY_FLOOR;
use fedsi_random::{Purpose, Streams};
use rand::seq::SliceRandom as _;
use serde::Serialize;

use super::case::{Case, CaseTargets, Rows};
use crate::output::BadInput;

/// How the prior variance is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PriorChoice {
    /// As `data.safetensors` has it.
    Given,
    /// The same for every parameter.
    Number(f64),
    /// A factor on what is given that maximises the log marginal likelihood.
    MarginalLikelihood,
    /// A factor on what is given that minimises the NLL of held-out rows.
    HeldOut,
}

impl PriorChoice {
    pub(super) fn parse(text: Option<&str>) -> Result<Self, BadInput> {
        match text {
            None => Ok(Self::Given),
            Some("marginal-likelihood") => Ok(Self::MarginalLikelihood),
            Some("held-out") => Ok(Self::HeldOut),
            Some(text) => match text.parse::<f64>() {
                Ok(value) if value.is_finite() && value > 0.0 => Ok(Self::Number(value)),
                _ => Err(BadInput(format!(
                    "--prior-variance {text}: expected a number above 0, marginal-likelihood or held-out"
                ))),
            },
        }
    }

    /// The variances that are chosen from or scaled: where the data has none, 1 each.
    pub(super) fn base(self, case: &Case, range: &std::ops::Range<usize>) -> Result<Vec<f64>, BadInput> {
        let given = case.prior_variance(range)?;
        match self {
            Self::Number(value) => Ok(vec![value; range.len()]),
            Self::MarginalLikelihood | Self::HeldOut => Ok(given.unwrap_or_else(|| vec![1.0; range.len()])),
            Self::Given => given.ok_or_else(|| {
                BadInput(
                    "data.safetensors has no `prior_variance`; give one there, or --prior-variance with a number, \
                     marginal-likelihood or held-out"
                        .to_owned(),
                )
            }),
        }
    }
}

/// What was chosen.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChosenPrior {
    /// given, number, marginal-likelihood or held-out.
    pub(super) chosen_by: &'static str,
    /// The factor on the variances as they were given.
    pub(super) scale: f64,
    /// The variance, where all parameters have the same.
    pub(super) variance: Option<f64>,
    /// Whether it lies at an end of the scales that were tried first, a millionth and a million, or beyond.
    pub(super) at_the_edge: bool,
    /// Rows that decided, where they were held out, and their NLL at the choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_out: Option<HeldOutScore>,
}

/// How the choice does on the rows that decided.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct HeldOutScore {
    pub(super) rows: usize,
    nll: f64,
    /// Whether training never saw them: `held_out_x` of the data.
    pub(super) unseen: bool,
}

/// Powers of ten that are tried first, each way; then finer around the best, which may lead 0.6 further.
pub(super) const WIDEST: f64 = 6.0;
/// How far each way, and how many steps each way.
const LEVELS: [(f64, i32); 3] = [(WIDEST, 12), (0.5, 5), (0.1, 5)];

/// The scale with the lowest loss, to 2%: a grid of half powers of ten, then two finer ones around its best. Says whether
/// it is at the first grid's end or beyond. `losses` has a loss for each scale; one that is not a number loses.
fn search(
    mut losses: impl FnMut(&[f64]) -> Result<Vec<f64>, BadInput>,
) -> Result<(f64, f64, bool), BadInput> {
    let (mut centre, mut best) = (0.0_f64, f64::INFINITY);
    for (reach, steps) in LEVELS {
        let exponents: Vec<f64> =
            (-steps..=steps).map(|step| centre + reach * f64::from(step) / f64::from(steps)).collect();
        let scales: Vec<f64> = exponents.iter().map(|exponent| 10_f64.powf(*exponent)).collect();
        for (exponent, loss) in exponents.iter().zip(losses(&scales)?) {
            if loss < best {
                (centre, best) = (*exponent, loss);
            }
        }
    }
    if !best.is_finite() {
        return Err(BadInput(
            "no prior variance gives a finite score: the data or the network is at fault".to_owned(),
        ));
    }
    Ok((10_f64.powf(centre), best, centre.abs() >= WIDEST))
}

/// Chooses, for a selection of the problem's parameters.
pub(super) fn choose(
    choice: PriorChoice,
    case: &Case,
    problem: &Problem<'_>,
    selection: &Selection,
    tolerance: f64,
    (seed, share): (u64, f64),
) -> Result<ChosenPrior, BadInput> {
    let (chosen_by, scale, at_the_edge, held_out) = match choice {
        PriorChoice::Given => ("given", 1.0, false, None),
        PriorChoice::Number(_) => ("number", 1.0, false, None),
        PriorChoice::MarginalLikelihood => {
            let (scale, _, edge) = search(|scales| evidence(problem, selection, tolerance, scales))?;
            ("marginal-likelihood", scale, edge, None)
        }
        PriorChoice::HeldOut => {
            let (rest, judged, unseen) = hold_out(case, seed, share)?;
            let rows = judged.rows(case);
            let learned = problem_of(case, &rest)?;
            let (scale, nll, edge) =
                search(|scales| held_out_losses(&learned, selection, tolerance, scales, &judged, seed))?;
            ("held-out", scale, edge, Some(HeldOutScore { rows, nll, unseen }))
        }
    };
    let first = selection.prior_variance().first().copied();
    let variance = first.filter(|first| selection.prior_variance().iter().all(|own| own == first));
    Ok(ChosenPrior {
        chosen_by,
        scale,
        variance: variance.map(|variance| scale * variance),
        at_the_edge,
        held_out,
    })
}

fn bad(error: impl Into<LaplaceError>) -> BadInput {
    BadInput(error.into().to_string())
}

/// A case's network on some of its rows.
pub(super) fn problem_of<'a>(case: &Case, rows: &'a Rows) -> Result<Problem<'a>, BadInput> {
    let network = std::sync::Arc::new(case.network.clone());
    Problem::new(network, case.parameters.clone(), &rows.inputs, case.likelihood.clone())
        .and_then(|problem| problem.with_targets(rows.targets.borrow()))
        .map_err(bad)
}

/// The negative log marginal likelihood at each scale.
fn evidence(
    problem: &Problem<'_>,
    selection: &Selection,
    tolerance: f64,
    scales: &[f64],
) -> Result<Vec<f64>, BadInput> {
    let fits = problem.fit_scales(selection, tolerance, scales).map_err(bad)?;
    let loss = |fit: Result<fedsi_bayes::Laplace, fedsi_bayes::PosteriorError>| {
        Ok(fit.map_err(bad)?.log_marginal_likelihood().map_or(f64::NAN, |value| -value))
    };
    fits.map(loss).collect()
}

impl Rows {
    fn rows(&self, case: &Case) -> usize {
        self.inputs.len() / case.network.inputs()
    }

    /// Some of the rows.
    fn select(&self, case: &Case, rows: &[usize]) -> Self {
        let pick = |values: &[f64], width: usize| -> Vec<f64> {
            rows.iter().flat_map(|&row| values[row * width..(row + 1) * width].iter().copied()).collect()
        };
        let targets = match &self.targets {
            CaseTargets::Classes(labels) => {
                CaseTargets::Classes(rows.iter().map(|&row| labels[row]).collect())
            }
            CaseTargets::Values(values) => CaseTargets::Values(pick(values, case.network.outputs())),
        };
        Self { inputs: pick(&self.inputs, case.network.inputs()), targets }
    }
}

/// Rows to learn from, rows to judge by, and whether training never saw the latter: `held_out_x`, where the data has it, or a
/// share of the training rows, drawn.
fn hold_out(case: &Case, seed: u64, share: f64) -> Result<(Rows, Rows, bool), BadInput> {
    if let Some(judged) = &case.held_out {
        return Ok((case.train.clone(), judged.clone(), true));
    }
    if !(share > 0.0 && share < 1.0) {
        return Err(BadInput(format!(
            "--held-out {share}: expected a share of the training rows, above 0 and below 1"
        )));
    }
    let count = case.train.rows(case);
    let held = ((share * count as f64).round() as usize).clamp(1, count.max(1));
    if held >= count {
        return Err(BadInput(format!(
            "--prior-variance held-out: {count} training rows are too few to hold some out"
        )));
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut Streams::new(seed).stream(Purpose::Calibration, 0, 0));
    let (judged, rest) = order.split_at_mut(held);
    judged.sort_unstable();
    rest.sort_unstable();
    Ok((case.train.select(case, rest), case.train.select(case, judged), false))
}

/// The mean NLL of rows at each scale.
fn held_out_losses(
    problem: &Problem<'_>,
    selection: &Selection,
    tolerance: f64,
    scales: &[f64],
    judged: &Rows,
    seed: u64,
) -> Result<Vec<f64>, BadInput> {
    match (problem.likelihood(), &judged.targets) {
        (Likelihood::Categorical, CaseTargets::Classes(labels)) => {
            let classes = problem.network().outputs();
            let mut rng = Streams::new(seed).stream(Purpose::Prediction, 0, 0);
            let found = problem
                .probabilities_at_scales(
                    selection,
                    tolerance,
                    scales,
                    &judged.inputs,
                    Predictive::Probit,
                    1,
                    &mut rng,
                )
                .map_err(bad)?;
            let nll = |probabilities: &Vec<f64>| {
                let rows = probabilities.chunks_exact(classes).zip(labels);
                let sum: f64 =
                    rows.map(|(row, &label)| -row[label as usize].max(PROBABILITY_FLOOR).ln()).sum();
                sum / labels.len() as f64
            };
            Ok(found.iter().map(nll).collect())
        }
        (Likelihood::Gaussian { .. }, CaseTargets::Values(targets)) => {
            let outputs = problem.network().outputs();
            let found =
                problem.regression_at_scales(selection, tolerance, scales, &judged.inputs).map_err(bad)?;
            let nll = |found: &fedsi_bayes::Regression| {
                let entries = found.mean.iter().zip(&found.variance).zip(targets);
                let sum: f64 = entries
                    .map(|((mean, variance), target)| {
                        0.5 * ((std::f64::consts::TAU * variance).ln() + (target - mean).powi(2) / variance)
                    })
                    .sum();
                sum / (targets.len() / outputs) as f64
            };
            Ok(found.iter().map(nll).collect())
        }
        // Targets are read for the case's own task.
        (Likelihood::Categorical, CaseTargets::Values(_))
        | (Likelihood::Gaussian { .. }, CaseTargets::Classes(_)) => {
            Err(BadInput("the held-out targets are of another task".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_the_lowest_point_to_two_percent() {
        for goal in [1.0, 37.0, 2.5e-4, 9.1e4, 5e5, 2e-6] {
            let parabola =
                |scales: &[f64]| Ok(scales.iter().map(|scale| (scale / goal).ln().powi(2)).collect());
            let (found, _, edge) = search(parabola).unwrap();
            assert!((found / goal).ln().abs() < 0.024 && !edge, "{found} is not {goal}");
        }
        let (found, _, edge) = search(|scales| Ok(scales.iter().map(|scale| -scale).collect())).unwrap();
        assert!(edge && (found / 10_f64.powf(6.6)).ln().abs() < 1e-9, "{found}");
        assert!(search(|scales| Ok(vec![f64::NAN; scales.len()])).is_err());
    }
}
