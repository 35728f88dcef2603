//! A factor on the prior variances, found from data: by the marginal likelihood, or by samples that were held out.

use std::f64::consts::TAU;

use fedsi_nn::Targets;
use rand::Rng;

use super::select::Selection;
use super::{LaplaceError, Regression};
use crate::error::PosteriorError;
use crate::likelihood::Likelihood;
use crate::network::length;
use crate::predictive::Predictive;
use crate::problem::{Problem, check_targets};

/// Powers of ten that are tried first, each way; then finer around the best, which may lead 0.6 further.
const WIDEST: f64 = 6.0;

/// How far each way, in powers of ten, and how many steps each way.
const LEVELS: [(f64, i32); 3] = [(WIDEST, 12), (0.5, 5), (0.1, 5)];

/// Probabilities of a held-out label below this count as this: one wrong certainty must not decide by itself. The same as in
/// the scores of fedsi-metrics.
pub const PROBABILITY_FLOOR: f64 = 1e-12;

/// The factor on prior variances that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorScale {
    /// The factor, to within 2% of the best.
    pub scale: f64,
    /// What it was chosen for: the negative log marginal likelihood, or the mean negative log likelihood of the held-out
    /// samples.
    pub loss: f64,
    /// Whether it lies at an end of the factors that are tried first, [`Self::RANGE`], or just beyond: the data says little
    /// of it, or wants one further away.
    pub at_the_edge: bool,
}

impl PriorScale {
    /// The factors that are tried first: from the least to the largest.
    pub const RANGE: (f64, f64) = (1e-6, 1e6);

    /// The factor with the lowest loss: a grid of half powers of ten over [`Self::RANGE`], then two finer ones around its
    /// best. `losses` has a loss for each scale; one that is not a number loses.
    ///
    /// # Errors
    /// What `losses` reports; no loss that is finite.
    pub fn search(
        mut losses: impl FnMut(&[f64]) -> Result<Vec<f64>, LaplaceError>,
    ) -> Result<Self, LaplaceError> {
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
            return Err(LaplaceError::NoFiniteScore);
        }
        Ok(Self { scale: 10_f64.powf(centre), loss: best, at_the_edge: centre.abs() >= WIDEST })
    }
}

impl Problem<'_> {
    /// The factor on a selection's prior variances that maximises the log marginal likelihood.
    ///
    /// Cost: three times what [`Self::fit_scales`] shares between scales, and 47 factorisations.
    ///
    /// # Errors
    /// As for [`Self::fit`]; a problem without targets, or whose marginal likelihood is finite for no factor.
    pub fn scale_by_marginal_likelihood(
        &self,
        selection: &Selection,
        tolerance: f64,
    ) -> Result<PriorScale, LaplaceError> {
        PriorScale::search(|scales| {
            let fits = self.fit_scales(selection, tolerance, scales)?;
            fits.map(|fit| Ok(fit?.log_marginal_likelihood().map_or(f64::NAN, |value| -value))).collect()
        })
    }

    /// The factor on a selection's prior variances that minimises the mean negative log likelihood of samples that the
    /// problem does not have. For classes, `predictive`, `draws` and `rng` are those of
    /// [`Self::probabilities_at_scales`]; values are judged by their normal predictive distribution, noise included.
    ///
    /// Cost: three times [`Self::probabilities_at_scales`].
    ///
    /// # Errors
    /// As for [`Self::probabilities_at_scales`]; targets that do not fit the likelihood or the inputs; no sample; no
    /// factor whose score is finite.
    #[allow(clippy::too_many_arguments, reason = "what is fitted, and what it is judged by")]
    pub fn scale_by_held_out<R: Rng + Clone>(
        &self,
        selection: &Selection,
        tolerance: f64,
        inputs: &[f64],
        targets: Targets<'_, f64>,
        predictive: Predictive,
        draws: usize,
        rng: &R,
    ) -> Result<PriorScale, LaplaceError> {
        let (samples, outputs) = (inputs.len() / self.network().inputs(), self.network().outputs());
        check_targets(self.likelihood(), targets, samples, outputs)?;
        if samples == 0 {
            length("held-out samples", 1, 0)?;
        }
        PriorScale::search(|scales| match (self.likelihood(), targets) {
            (Likelihood::Categorical, Targets::Classes(labels)) => {
                let found = self.probabilities_at_scales(
                    selection,
                    tolerance,
                    scales,
                    inputs,
                    predictive,
                    draws,
                    // The same draws for every scale, also of the next grid.
                    &mut rng.clone(),
                )?;
                Ok(found.iter().map(|probabilities| nll_of_labels(probabilities, outputs, labels)).collect())
            }
            (Likelihood::Gaussian { .. }, Targets::Values(values)) => {
                let found = self.regression_at_scales(selection, tolerance, scales, inputs)?;
                Ok(found.iter().map(|moments| nll_of_values(moments, outputs, values)).collect())
            }
            // Refused above.
            (Likelihood::Categorical, Targets::Values(_))
            | (Likelihood::Gaussian { .. }, Targets::Classes(_)) => {
                Err(PosteriorError::TargetKind { expected: "other targets", found: "these" }.into())
            }
        })
    }
}

/// The mean over samples of `-log p[label]`.
fn nll_of_labels(probabilities: &[f64], classes: usize, labels: &[u32]) -> f64 {
    let rows = probabilities.chunks_exact(classes).zip(labels);
    let sum: f64 = rows.map(|(row, &label)| -row[label as usize].max(PROBABILITY_FLOOR).ln()).sum();
    sum / labels.len() as f64
}

/// The mean over samples of the negative log density, summed over outputs.
fn nll_of_values(moments: &Regression, outputs: usize, values: &[f64]) -> f64 {
    let entries = moments.mean.iter().zip(&moments.variance).zip(values);
    let sum: f64 = entries
        .map(|((mean, variance), value)| 0.5 * ((TAU * variance).ln() + (value - mean).powi(2) / variance))
        .sum();
    sum / (values.len() / outputs) as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fedsi_nn::{LayerSpec, Network};
    use fedsi_random::{Purpose, Streams};

    use super::*;
    use crate::laplace::Prior;

    #[test]
    fn a_search_finds_the_lowest_point_to_two_percent() {
        for goal in [1.0, 37.0, 2.5e-4, 9.1e4, 5e5, 2e-6] {
            let parabola =
                |scales: &[f64]| Ok(scales.iter().map(|scale| (scale / goal).ln().powi(2)).collect());
            let found = PriorScale::search(parabola).unwrap();
            assert!((found.scale / goal).ln().abs() < 0.024 && !found.at_the_edge, "{found:?} is not {goal}");
        }
        let found = PriorScale::search(|scales| Ok(scales.iter().map(|scale| -scale).collect())).unwrap();
        assert!(found.at_the_edge && (found.scale / 10_f64.powf(6.6)).ln().abs() < 1e-9, "{found:?}");
        let none = PriorScale::search(|scales| Ok(vec![f64::NAN; scales.len()]));
        assert_eq!(none, Err(LaplaceError::NoFiniteScore));
        assert_eq!(PriorScale::RANGE, (10_f64.powf(-WIDEST), 10_f64.powf(WIDEST)));
    }

    /// `y = w x` with one weight and a bias of no influence: the evidence is known in closed form,
    /// `y ~ N(0, noise^2 I + g (x x' + 1 1'))`, and its best scale by a fine grid.
    #[test]
    fn the_marginal_likelihood_of_a_linear_model_finds_its_best_variance() {
        let network = Network::new(&[1], &[LayerSpec::Linear(1)]).unwrap();
        let (x, noise) = ([1.0, -2.0, 0.5, 3.0], 0.3);
        let y = [2.1, -3.9, 1.2, 6.3];
        // Least squares with a prior of variance 1, as training under that prior would give.
        let likelihood = Likelihood::Gaussian { noise: vec![noise] };
        let problem = Problem::new(Arc::new(network), vec![2.05, 0.06], &x, likelihood).unwrap();
        let problem = problem.with_targets(Targets::Values(&y)).unwrap();
        let selection = problem.choose_all(&Prior::isotropic(0..2, 1.0)).unwrap();
        let found = problem.scale_by_marginal_likelihood(&selection, 0.0).unwrap();
        let evidence = |scale: f64| {
            let scales = [scale];
            let fit = problem.fit_scales(&selection, 0.0, &scales).unwrap().next().unwrap().unwrap();
            fit.log_marginal_likelihood().unwrap()
        };
        assert!((found.loss + evidence(found.scale)).abs() < 1e-9);
        for factor in [0.9, 0.97, 1.03, 1.1] {
            assert!(evidence(found.scale * factor) <= -found.loss + 1e-12, "{factor}");
        }
        assert!(found.scale > 1.0 && found.scale < 4.0 && !found.at_the_edge, "{found:?}");
    }

    #[test]
    fn held_out_samples_judge_by_their_own_likelihood() {
        let network = Network::new(&[2], &[LayerSpec::Linear(2)]).unwrap();
        let parameters = vec![3.0, -1.0, -2.0, 2.0, 0.1, 0.2];
        let train = [1.0, 0.0, 0.0, 1.0, -1.0, 0.5, 0.3, -0.7];
        let test = [2.0, 2.0, -1.0, -1.5, 0.4, 0.1];
        let network: Arc<Network> = Arc::new(network);
        let problem =
            Problem::new(network.clone(), parameters.clone(), &train, Likelihood::Categorical).unwrap();
        let selection = problem.choose_all(&Prior::isotropic(0..6, 1.0)).unwrap();
        let rng = Streams::new(1).stream(Purpose::Prediction, 0, 0);
        let judge = |labels: &[u32]| {
            let targets = Targets::Classes(labels);
            problem.scale_by_held_out(&selection, 0.0, &test, targets, Predictive::Probit, 1, &rng)
        };
        // The network says 0, 1, 0: where it is right certainty wins, where it is wrong the prior does.
        let (right, wrong) = (judge(&[0, 1, 0]).unwrap(), judge(&[1, 0, 1]).unwrap());
        assert!(right.scale < 1e-2 && wrong.scale > 1e2, "{right:?} {wrong:?}");
        assert!(right.loss < wrong.loss);
        for labels in [&[1_u32, 0][..], &[1, 0, 2]] {
            assert!(judge(labels).is_err(), "{labels:?}");
        }
        assert!(
            problem
                .scale_by_held_out(&selection, 0.0, &[], Targets::Classes(&[]), Predictive::Probit, 1, &rng)
                .is_err()
        );

        let likelihood = Likelihood::Gaussian { noise: vec![0.1, 0.1] };
        let problem = Problem::new(network, parameters, &train, likelihood).unwrap();
        let outputs = problem.network().forward(problem.parameters(), &test).unwrap();
        let judge = |away: f64| {
            let values: Vec<f64> = outputs.iter().map(|value| value + away).collect();
            let targets = Targets::Values(&values);
            problem.scale_by_held_out(&selection, 0.0, &test, targets, Predictive::Probit, 1, &rng)
        };
        let (near, far) = (judge(0.0).unwrap(), judge(2.0).unwrap());
        assert!(near.scale < 1e-3 && far.scale > 1.0, "{near:?} {far:?}");
        let wrong = Targets::Classes(&[0, 0, 0]);
        let refused = problem.scale_by_held_out(&selection, 0.0, &test, wrong, Predictive::Probit, 1, &rng);
        assert!(refused.unwrap_err().to_string().contains("values"));
    }
}
