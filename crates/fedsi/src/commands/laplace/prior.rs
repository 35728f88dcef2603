//! The prior variance: as the data gives it, a number, or chosen by marginal likelihood or on held-out rows.

use fedsi_bayes::{LaplaceError, Predictive, Problem, Selection};
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
            let found = problem.scale_by_marginal_likelihood(selection, tolerance).map_err(bad)?;
            ("marginal-likelihood", found.scale, found.at_the_edge, None)
        }
        PriorChoice::HeldOut => {
            let (rest, judged, unseen) = hold_out(case, seed, share)?;
            let rows = judged.rows(case);
            let learned = problem_of(case, &rest)?;
            let rng = Streams::new(seed).stream(Purpose::Prediction, 0, 0);
            let targets = judged.targets.borrow();
            let found = learned
                .scale_by_held_out(selection, tolerance, &judged.inputs, targets, Predictive::Probit, 1, &rng)
                .map_err(bad)?;
            ("held-out", found.scale, found.at_the_edge, Some(HeldOutScore { rows, nll: found.loss, unseen }))
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

#[cfg(test)]
mod tests {
    /// The NLL that decides is the one that is reported afterwards.
    #[test]
    fn held_out_rows_are_scored_with_the_floor_of_all_scores() {
        assert_eq!(fedsi_bayes::PROBABILITY_FLOOR, fedsi_metrics::PROBABILITY_FLOOR);
    }
}
