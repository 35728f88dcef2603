//! How well candidates predict what a client set aside: what the federation chooses a prior variance or a temperature by.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedsi_data::{Targets, Task};
use fedsi_random::Purpose;

use super::temper::{log_probability, temper};
use super::{Client, ClientError, LocalData, PersonalModel};
use crate::calibration::{CandidateScore, Candidates};
use crate::config::Temperature;
use crate::parameters::{Parameters, doubles};
use crate::wire::{CalibrationScores, Download, SharedMode};

/// Class probabilities, or in a regression means and variances of the standardised targets, of the samples set aside.
#[derive(Clone)]
pub(super) enum Predicted {
    Classes(Vec<f64>),
    Values {
        mean: Vec<f64>,
        variance: Vec<f64>,
        /// Squares of the means, which a mixture's variance needs.
        square: Vec<f64>,
    },
}

impl Client {
    /// Scores the download's candidates on the data that the client set aside. `data` has a division for each mode of the
    /// download, in their order. Modes that set the same samples aside are scored by the average of their predictions,
    /// others one by one; temperatures of averages by what two neighbouring modes set aside ([`Candidates`]).
    ///
    /// Cost: the method's epochs of tuning for each mode, and a posterior that all prior variances share most of.
    ///
    /// # Errors
    /// As [`Self::personalise`]; no candidates, no data that was set aside, predictions that are not finite.
    pub fn score_candidates(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &[Arc<LocalData>],
    ) -> Result<CalibrationScores, ClientError> {
        let candidates = download.candidates.as_ref().ok_or(ClientError::NoCandidates)?;
        if data.len() != download.modes.len() {
            return Err(ClientError::OtherModes { found: download.modes.len(), expected: data.len() });
        }
        if let Candidates::AverageTemperatures(temperatures) = candidates {
            return self.score_averages(client, download, kept, data, temperatures);
        }
        let mut scores = vec![CandidateScore::default(); candidates.values().len()];
        let mut samples = 0;
        let mut groups: BTreeMap<usize, Vec<(&SharedMode, &LocalData)>> = BTreeMap::new();
        for (shared, data) in download.modes.iter().zip(data) {
            let part = self.procedure.modes.part_set_aside(shared.mode);
            groups.entry(part).or_default().push((shared, data));
        }
        for modes in groups.values() {
            let data = modes[0].1;
            if data.set_aside.count == 0 {
                continue;
            }
            samples += data.set_aside.count;
            let mut average: Vec<Predicted> = Vec::new();
            for (shared, data) in modes {
                let found = self.predict_candidates(client, download, shared, kept, data, candidates)?;
                if average.is_empty() {
                    average = found;
                } else {
                    average.iter_mut().zip(&found).for_each(|(sum, one)| sum.add(one));
                }
            }
            for (score, predicted) in scores.iter_mut().zip(&mut average) {
                predicted.divide(modes.len());
                self.add_score(score, predicted, &data.set_aside.targets)?;
            }
        }
        if samples == 0 {
            return Err(ClientError::NothingSetAside);
        }
        Ok(CalibrationScores { round: download.round, client, samples, candidates: scores })
    }

    /// What one mode predicts of the samples set aside, under each candidate.
    fn predict_candidates(
        &self,
        client: usize,
        download: &Download,
        shared: &SharedMode,
        kept: Option<&Parameters>,
        data: &LocalData,
        candidates: &Candidates,
    ) -> Result<Vec<Predicted>, ClientError> {
        let round = download.round;
        let (tuned, start) = self.tune(client, round, shared, kept, data, &self.procedure.personalise)?;
        let mut all: Vec<Predicted> = match candidates {
            Candidates::PriorVariances(variances) => {
                let fixed = match self.temperature {
                    Temperature::Fixed(temperature) => temperature,
                    Temperature::Named(_) => 1.0,
                };
                let mut rng = self.personal_stream(Purpose::PersonalSelection, client, round, shared.mode);
                let found =
                    self.predict_prior_variances((client, shared.mode), variances, &tuned, data, &mut rng)?;
                found.into_iter().map(|one| one.tempered(fixed, self.network.output_size())).collect()
            }
            Candidates::Temperatures(temperatures) | Candidates::AverageTemperatures(temperatures) => {
                let parameters = self.with_posterior(client, download, shared.mode, tuned, &start, data)?;
                let model = self.single_model(client, parameters, data)?;
                let untempered = self.predicted(&model, data)?;
                let classes = self.network.output_size();
                temperatures.iter().map(|&one| untempered.tempered(one, classes)).collect()
            }
        };
        all.iter_mut().for_each(|predicted| self.restrict_to_trained(predicted, data));
        Ok(all)
    }

    /// Where predictions are over a client's own classes: to those it trains on. What is set aside is scored, so its
    /// classes count where they are trained on as well.
    fn restrict_to_trained(&self, predicted: &mut Predicted, data: &LocalData) {
        if let (Some(own), Predicted::Classes(probabilities)) = (self.own_classes(data, false), predicted) {
            own.restrict(probabilities, self.network.output_size());
        }
    }

    /// Scores temperatures of averages: of the average of two neighbouring modes on what both set aside, then the mean of
    /// both modes' own scores on the same samples under the same temperatures. The modes are as personal models have them,
    /// with the prior variance and the temperature that were chosen.
    ///
    /// Cost: a personal model, its predictions of what is set aside, and a softmax of these for each temperature.
    fn score_averages(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &[Arc<LocalData>],
        temperatures: &[f64],
    ) -> Result<CalibrationScores, ClientError> {
        let common: Vec<_> = data.windows(2).map(|pair| pair[0].set_aside_by_both(&pair[1])).collect();
        let samples = common.iter().map(|(rows, _)| rows.len()).sum();
        if samples == 0 {
            return Err(ClientError::NothingSetAside);
        }
        let classes = self.network.output_size();
        let chosen = Candidates::Temperatures(vec![self.chosen_temperature(download)]);
        let mut modes: Vec<(&LocalData, Predicted)> = Vec::with_capacity(data.len());
        for (shared, data) in download.modes.iter().zip(data) {
            let mut found = self.predict_candidates(client, download, shared, kept, data, &chosen)?;
            modes.extend(found.pop().map(|predicted| (&**data, predicted)));
        }
        let mut averages = vec![CandidateScore::default(); temperatures.len()];
        let mut alone = averages.clone();
        for (pair, (rows, next_rows)) in modes.windows(2).zip(&common) {
            let [(data, first), (_, second)] = pair else { continue };
            let targets = data.set_aside.select(rows).targets;
            let (first, second) = (first.select(rows, classes), second.select(next_rows, classes));
            let mut average = first.clone();
            average.add(&second);
            average.divide(2);
            for (place, &temperature) in temperatures.iter().enumerate() {
                let add = |score: &mut CandidateScore, predicted: &Predicted| {
                    let mut tempered = predicted.tempered(temperature, classes);
                    if self.is_over_own_classes {
                        tempered.keep_zeros_of(predicted);
                    }
                    self.add_score(score, &tempered, &targets)
                };
                add(&mut averages[place], &average)?;
                add(&mut alone[place], &first)?;
                add(&mut alone[place], &second)?;
            }
        }
        // Of each sample once, as of averages.
        let halved = alone
            .into_iter()
            .map(|CandidateScore { loss, excess }| CandidateScore { loss: 0.5 * loss, excess: 0.5 * excess });
        averages.extend(halved);
        Ok(CalibrationScores { round: download.round, client, samples, candidates: averages })
    }

    fn predicted(&self, model: &PersonalModel, data: &LocalData) -> Result<Predicted, ClientError> {
        Ok(match self.task {
            Task::Classification { .. } => {
                Predicted::Classes(self.probabilities(model, &data.set_aside.inputs)?)
            }
            Task::Regression { .. } => {
                let (mean, variance) = self.moments(model, &data.set_aside.inputs)?;
                Predicted::values(mean, variance)
            }
        })
    }

    /// Adds the scores of predictions.
    fn add_score(
        &self,
        score: &mut CandidateScore,
        predicted: &Predicted,
        targets: &Targets,
    ) -> Result<(), ClientError> {
        match (predicted, targets) {
            (Predicted::Classes(probabilities), Targets::Classes(labels)) => {
                for (row, &label) in probabilities.chunks_exact(self.network.output_size()).zip(labels) {
                    let top = top_class(row);
                    score.loss -= log_probability(row[label as usize]);
                    score.excess += row[top] - f64::from(u8::from(top == label as usize));
                }
            }
            (Predicted::Values { mean, variance, .. }, Targets::Values(targets)) => {
                for ((mean, variance), target) in mean.iter().zip(variance).zip(doubles(targets)) {
                    let square = (target - mean).powi(2) / variance;
                    score.loss += 0.5 * (square + (std::f64::consts::TAU * variance).ln());
                }
            }
            (_, targets) => return Err(super::other_data(self.task, targets)),
        }
        if score.loss.is_finite() && score.excess.is_finite() {
            return Ok(());
        }
        Err(ClientError::PredictionsDiverged)
    }
}

impl Predicted {
    /// Adds what another mode predicts: probabilities; of means and variances the first two moments.
    fn add(&mut self, other: &Self) {
        let add =
            |sums: &mut [f64], more: &[f64]| sums.iter_mut().zip(more).for_each(|(sum, one)| *sum += one);
        match (self, other) {
            (Self::Classes(sums), Self::Classes(more)) => add(sums, more),
            (
                Self::Values { mean, variance, square },
                Self::Values { mean: means, variance: variances, square: squares },
            ) => {
                add(mean, means);
                add(variance, variances);
                add(square, squares);
            }
            // One task has one kind of predictions.
            (Self::Classes(_), Self::Values { .. }) | (Self::Values { .. }, Self::Classes(_)) => {}
        }
    }

    /// The average of so many modes whose predictions were added.
    fn divide(&mut self, modes: usize) {
        if modes == 1 {
            return;
        }
        let count = modes as f64;
        match self {
            Self::Classes(sums) => sums.iter_mut().for_each(|sum| *sum /= count),
            Self::Values { mean, variance, square } => {
                for ((mean, variance), square) in mean.iter_mut().zip(variance).zip(square) {
                    *mean /= count;
                    *variance = *variance / count + (*square / count - mean.powi(2)).max(0.0);
                }
            }
        }
    }

    /// Makes the probabilities 0 that are 0 in these predictions, whose temperature was changed: a logarithm has a smallest
    /// value.
    fn keep_zeros_of(&mut self, before: &Self) {
        if let (Self::Classes(probabilities), Self::Classes(before)) = (self, before) {
            for (probability, before) in probabilities.iter_mut().zip(before) {
                if *before <= 0.0 {
                    *probability = 0.0;
                }
            }
        }
    }

    /// The predictions of these rows, each of so many outputs.
    fn select(&self, rows: &[usize], width: usize) -> Self {
        let select = |values: &[f64]| -> Vec<f64> {
            rows.iter().flat_map(|&row| &values[row * width..(row + 1) * width]).copied().collect()
        };
        match self {
            Self::Classes(probabilities) => Self::Classes(select(probabilities)),
            Self::Values { mean, variance, square } => {
                Self::Values { mean: select(mean), variance: select(variance), square: select(square) }
            }
        }
    }

    pub(super) fn values(mean: Vec<f64>, variance: Vec<f64>) -> Self {
        let square = mean.iter().map(|mean| mean * mean).collect();
        Self::Values { mean, variance, square }
    }

    /// The same at a temperature.
    fn tempered(&self, temperature: f64, classes: usize) -> Self {
        match self {
            Self::Classes(probabilities) => {
                let mut probabilities = probabilities.clone();
                temper(&mut probabilities, classes, temperature);
                Self::Classes(probabilities)
            }
            Self::Values { mean, variance, .. } => {
                Self::values(mean.clone(), variance.iter().map(|variance| temperature * variance).collect())
            }
        }
    }
}

/// The first class of the largest probability.
fn top_class(row: &[f64]) -> usize {
    (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_those_of_a_mixture() {
        let mut classes = Predicted::Classes(vec![0.2, 0.8]);
        classes.add(&Predicted::Classes(vec![0.6, 0.4]));
        classes.divide(2);
        let Predicted::Classes(found) = classes else { panic!("classes stay classes") };
        assert!((found[0] - 0.4).abs() < 1e-12 && (found[1] - 0.6).abs() < 1e-12);
        let mut values = Predicted::values(vec![1.0], vec![0.5]);
        values.add(&Predicted::values(vec![3.0], vec![1.5]));
        values.divide(2);
        let Predicted::Values { mean, variance, .. } = values else { panic!("values stay values") };
        assert!((mean[0] - 2.0).abs() < 1e-12 && (variance[0] - 2.0).abs() < 1e-12, "1 within, 1 between");
        assert_eq!(top_class(&[0.2, 0.4, 0.4]), 1, "ties: the first");
        let own = Predicted::Classes(vec![0.9, 0.1, 0.0]);
        let mut hot = own.tempered(4.0, 3);
        hot.keep_zeros_of(&own);
        let Predicted::Classes(found) = hot else { panic!("classes stay classes") };
        assert!(found[2] <= 0.0 && found[1] > 0.3, "{found:?}");
        let Predicted::Classes(last) = own.select(&[0], 3) else { panic!("classes stay classes") };
        assert_eq!(last, [0.9, 0.1, 0.0]);
    }
}
