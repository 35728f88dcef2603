//! From a personal model to predictions.

use fedsi_bayes::{LaplaceError, Predictive};
use fedsi_data::{Samples, Targets, Task};
use fedsi_metrics::Bins;
use fedsi_nn::MeanField;
use fedsi_random::{ChaCha8Rng, Purpose};

use super::temper::temper;
use super::{Client, ClientError, PersonalMode, PersonalModel, Predictions, Validation, other_data};
use crate::parameters::{Gaussian, HeadSamples, LaplaceParameters, Parameters, doubles};

/// Rows predicted at a time: their outputs under every draw are held at once.
const ROWS: usize = 2048;

impl Client {
    /// The model's predictions for these samples, beside what is true.
    ///
    /// # Errors
    /// Samples of another task; a posterior that does not fit.
    pub fn predict(&self, model: &PersonalModel, samples: &Samples) -> Result<Predictions, ClientError> {
        match (self.task, &samples.targets) {
            (Task::Classification { classes }, Targets::Classes(labels)) => {
                let probabilities = self.probabilities(model, &samples.inputs)?;
                let probabilities = probabilities.into_iter().map(|p| p as f32).collect();
                Ok(Predictions::Classes { classes, probabilities, labels: labels.clone() })
            }
            (Task::Regression { outputs }, Targets::Values(targets)) => {
                let (mean, variance) = self.values(model, &samples.inputs)?;
                let targets = self.own_units(&doubles(targets));
                Ok(Predictions::Values { outputs, mean, variance, targets })
            }
            (task, targets) => Err(other_data(task, targets)),
        }
    }

    /// Mean and variance of each target of each row, in the data's own units.
    ///
    /// # Errors
    /// A posterior that does not fit.
    pub fn values(&self, model: &PersonalModel, inputs: &[f32]) -> Result<(Vec<f64>, Vec<f64>), ClientError> {
        let outputs = self.network.output_size();
        let (mean, variance) = self.moments(model, inputs)?;
        let own_variance = |(index, value): (usize, f64)| {
            let scaling = self.target_scaling.as_ref();
            scaling.map_or(value, |scaling| scaling.restore_variance(index % outputs, value))
        };
        let variance = variance.into_iter().enumerate().map(own_variance).collect();
        Ok((self.own_units(&mean), variance))
    }

    /// The probability of each class for each row of inputs, averaged over what is known of the parameters and over modes;
    /// where the model is over its client's own classes, each mode is before the average.
    ///
    /// # Errors
    /// A posterior that does not fit.
    pub fn probabilities(&self, model: &PersonalModel, inputs: &[f32]) -> Result<Vec<f64>, ClientError> {
        let classes = self.network.output_size();
        let restrict = |probabilities: &mut [f64]| {
            if let Some(own) = &model.own_classes {
                own.restrict(probabilities, classes);
            }
        };
        let mut sum: Vec<f64> = Vec::new();
        for place in 0..model.modes.len() {
            let mut found = self.mode_probabilities(model, place, inputs)?;
            temper(&mut found, classes, model.temperature);
            restrict(&mut found);
            add_up(&mut sum, found);
        }
        let count = model.modes.len() as f64;
        if model.modes.len() > 1 {
            sum.iter_mut().for_each(|sum| *sum /= count);
        }
        temper(&mut sum, classes, model.mixture_temperature);
        restrict(&mut sum);
        Ok(sum)
    }

    /// What one mode says, without a temperature.
    fn mode_probabilities(
        &self,
        model: &PersonalModel,
        place: usize,
        inputs: &[f32],
    ) -> Result<Vec<f64>, ClientError> {
        let classes = self.network.output_size();
        let mut all = Vec::with_capacity(inputs.len() / self.network.input_size() * classes);
        if let Parameters::Laplace(laplace) = &model.modes[place].parameters {
            let LaplaceParameters { fit, predictive, .. } = &**laplace;
            for rows in inputs.chunks(ROWS * self.network.input_size()) {
                // The same draws for every block: what is predicted of a sample does not depend on its neighbours.
                let mut rng = self.prediction_stream(model, place);
                let found = fit.probabilities(&doubles(rows), *predictive, model.draws, &mut rng);
                all.extend(found.map_err(LaplaceError::from)?);
            }
            return Ok(all);
        }
        self.each_block_of_draws(model, place, inputs, |draws| {
            let mut mean = vec![0.0; draws[0].len()];
            for outputs in draws {
                let mut shares = doubles(outputs);
                fedsi_nn::softmax(&mut shares, classes);
                mean.iter_mut().zip(shares).for_each(|(mean, share)| *mean += share);
            }
            all.extend(mean.into_iter().map(|sum| sum / draws.len() as f64));
        })?;
        Ok(all)
    }

    /// How far the outputs of each row spread over what is known of the parameters and over modes: the trace of their
    /// covariance, for classes without what all logits have in common. Zeros for a single point.
    ///
    /// # Errors
    /// A posterior that does not fit.
    pub fn spread(&self, model: &PersonalModel, inputs: &[f32]) -> Result<Vec<f64>, ClientError> {
        let width = self.network.output_size();
        let classes = matches!(self.task, Task::Classification { .. });
        let mut all: Vec<f64> = Vec::new();
        let mut centres = Vec::with_capacity(model.modes.len());
        for place in 0..model.modes.len() {
            add_up(&mut all, self.mode_spread(model, place, inputs)?);
            if model.modes.len() > 1 {
                let values = model.modes[place].parameters.values();
                centres.push(centre(doubles(&self.network.outputs(values, inputs)?), width, classes));
            }
        }
        if model.modes.len() > 1 {
            let (_, between) = moments_over(&centres);
            let rows = between.chunks_exact(width).map(|row| row.iter().sum::<f64>());
            for (spread, between) in all.iter_mut().zip(rows) {
                *spread = *spread / model.modes.len() as f64 + between;
            }
        }
        Ok(all)
    }

    fn mode_spread(
        &self,
        model: &PersonalModel,
        place: usize,
        inputs: &[f32],
    ) -> Result<Vec<f64>, ClientError> {
        let mut all = Vec::with_capacity(inputs.len() / self.network.input_size());
        if let Parameters::Laplace(laplace) = &model.modes[place].parameters {
            for rows in inputs.chunks(ROWS * self.network.input_size()) {
                all.extend(laplace.fit.spread(&doubles(rows)).map_err(LaplaceError::from)?);
            }
            return Ok(all);
        }
        let width = self.network.output_size();
        let classes = matches!(self.task, Task::Classification { .. });
        self.each_block_of_draws(model, place, inputs, |draws| {
            let centred: Vec<Vec<f64>> =
                draws.iter().map(|outputs| centre(doubles(outputs), width, classes)).collect();
            let (_, variance) = moments_over(&centred);
            all.extend(variance.chunks_exact(width).map(|row| row.iter().sum::<f64>()));
        })?;
        Ok(all)
    }

    /// Mean and variance of each target of each row, in units of the standardised targets: of the mixture of modes.
    pub(super) fn moments(
        &self,
        model: &PersonalModel,
        inputs: &[f32],
    ) -> Result<(Vec<f64>, Vec<f64>), ClientError> {
        let (mut means, mut variance) = (Vec::with_capacity(model.modes.len()), Vec::new());
        for place in 0..model.modes.len() {
            let (mean, mut within) = self.mode_moments(model, place, inputs)?;
            if model.temperature.to_bits() != 1.0_f64.to_bits() {
                within.iter_mut().for_each(|variance| *variance *= model.temperature);
            }
            means.push(mean);
            add_up(&mut variance, within);
        }
        if means.len() == 1 {
            return Ok((means.swap_remove(0), variance));
        }
        let (mean, between) = moments_over(&means);
        let (count, temperature) = (means.len() as f64, model.mixture_temperature);
        let whole = |(sum, between): (&mut f64, f64)| *sum = temperature * (*sum / count + between);
        variance.iter_mut().zip(between).for_each(whole);
        Ok((mean, variance))
    }

    fn mode_moments(
        &self,
        model: &PersonalModel,
        place: usize,
        inputs: &[f32],
    ) -> Result<(Vec<f64>, Vec<f64>), ClientError> {
        let PersonalMode { parameters, observation_noise: noise } = &model.modes[place];
        let (mut mean, mut variance) = (Vec::new(), Vec::new());
        if let Parameters::Laplace(laplace) = parameters
            && laplace.predictive != Predictive::Map
        {
            for rows in inputs.chunks(ROWS * self.network.input_size()) {
                let found = laplace.fit.regression(&doubles(rows)).map_err(LaplaceError::from)?;
                mean.extend(found.mean);
                variance.extend(found.variance);
            }
            return Ok((mean, variance));
        }
        self.each_block_of_draws(model, place, inputs, |draws| {
            let draws: Vec<Vec<f64>> = draws.iter().map(|outputs| doubles(outputs)).collect();
            let (block_mean, block_variance) = moments_over(&draws);
            mean.extend(block_mean);
            let noisy = |(index, value): (usize, f64)| value + noise[index % noise.len()].powi(2);
            variance.extend(block_variance.into_iter().enumerate().map(noisy));
        })?;
        Ok((mean, variance))
    }

    /// Standardised values in the data's own units.
    fn own_units(&self, values: &[f64]) -> Vec<f64> {
        let width = self.network.output_size();
        let restore = |(index, &value): (usize, &f64)| {
            let scaling = self.target_scaling.as_ref();
            scaling.map_or(value, |scaling| scaling.restore(index % width, value))
        };
        values.iter().enumerate().map(restore).collect()
    }

    /// The outputs of some rows at a time under every draw of a mode's parameters; one draw of a point. The same draws for
    /// all rows.
    fn each_block_of_draws(
        &self,
        model: &PersonalModel,
        place: usize,
        inputs: &[f32],
        mut each: impl FnMut(&[Vec<f32>]),
    ) -> Result<(), ClientError> {
        let network = &self.network;
        if !inputs.len().is_multiple_of(network.input_size()) {
            return Err(ClientError::Inputs { found: inputs.len(), expected: network.input_size() });
        }
        for rows in inputs.chunks(ROWS * network.input_size()) {
            let draws: Vec<Vec<f32>> = match &model.modes[place].parameters {
                Parameters::Gaussian(gaussian) => self.gaussian_draws(gaussian, model, place, rows)?,
                Parameters::Samples(HeadSamples { values, samples }) => {
                    network.outputs_of_heads(values, samples, rows)?
                }
                Parameters::Point(values) => vec![network.outputs(values, rows)?],
                Parameters::Laplace(laplace) => vec![network.outputs(&laplace.values, rows)?],
            };
            if draws.is_empty() {
                return Err(ClientError::NoDraws);
            }
            each(&draws);
        }
        Ok(())
    }

    fn gaussian_draws(
        &self,
        gaussian: &Gaussian,
        model: &PersonalModel,
        place: usize,
        rows: &[f32],
    ) -> Result<Vec<Vec<f32>>, ClientError> {
        let distribution = MeanField { mean: gaussian.mean.clone(), deviation: gaussian.deviations() };
        let mut rng = self.prediction_stream(model, place);
        let mut parameters = Vec::with_capacity(distribution.mean.len());
        let draw = |_| {
            distribution.sample_into(&mut parameters, &mut rng);
            Ok(self.network.outputs(&parameters, rows)?)
        };
        (0..model.draws).map(draw).collect()
    }

    /// Draws of a mode's predictions.
    fn prediction_stream(&self, model: &PersonalModel, place: usize) -> ChaCha8Rng {
        self.streams.stream(Purpose::Prediction, model.client as u64, place as u64)
    }

    /// How a model does on data its client held out.
    pub(super) fn validate(
        &self,
        model: &PersonalModel,
        held_out: &Samples,
    ) -> Result<Validation, ClientError> {
        let empty = Validation { samples: held_out.count, ..Validation::default() };
        match (self.task, &held_out.targets) {
            (Task::Classification { classes }, Targets::Classes(labels)) => {
                let probabilities = self.probabilities(model, &held_out.inputs)?;
                let scores = fedsi_metrics::Predictions::new(&probabilities, labels, classes)
                    .ok()
                    .and_then(|found| found.scores(Bins::default()));
                Ok(Validation { accuracy: scores.map(|s| s.accuracy), nll: scores.map(|s| s.nll), ..empty })
            }
            (Task::Regression { .. }, Targets::Values(targets)) => {
                let (mean, _) = self.moments(model, &held_out.inputs)?;
                let square: f64 = mean.iter().zip(targets).map(|(a, &b)| (a - f64::from(b)).powi(2)).sum();
                Ok(Validation { rmse: Some((square / targets.len().max(1) as f64).sqrt()), ..empty })
            }
            (task, targets) => Err(other_data(task, targets)),
        }
    }
}

/// Rows less what their values have in common, where they are logits: softmax does not see it.
fn centre(mut outputs: Vec<f64>, width: usize, classes: bool) -> Vec<f64> {
    if classes {
        for row in outputs.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f64>() / width as f64;
            row.iter_mut().for_each(|value| *value -= mean);
        }
    }
    outputs
}

/// Adds values to sums of as many; the first values are the sums.
fn add_up(sums: &mut Vec<f64>, values: Vec<f64>) {
    if sums.is_empty() {
        *sums = values;
    } else {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
}

/// Mean and variance of every value over the draws.
fn moments_over(draws: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let (count, size) = (draws.len() as f64, draws[0].len());
    let (mut mean, mut variance) = (vec![0.0; size], vec![0.0; size]);
    for draw in draws {
        mean.iter_mut().zip(draw).for_each(|(sum, value)| *sum += value / count);
    }
    for draw in draws {
        for ((sum, value), mean) in variance.iter_mut().zip(draw).zip(&mean) {
            *sum += (value - mean).powi(2) / count;
        }
    }
    (mean, variance)
}
