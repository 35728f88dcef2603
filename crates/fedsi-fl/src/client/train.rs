//! A round on a client: local training, its posterior, the upload.

use std::ops::Range;
use std::time::Instant;

use fedsi_bayes::Laplace;
use fedsi_random::Purpose;
use serde::{Deserialize, Serialize};

use super::phases::PhasesResult;
use super::summary::are_figures;
use super::test_scores::MAX_SAMPLES;
use super::{Client, ClientError, LocalData, PosteriorSummary, Start};
use crate::parameters::{Gaussian, Kept, Parameters};
use crate::wire::{Download, Upload, Variances};

/// What a round on a client led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// What it sends.
    pub upload: Upload,
    /// What it keeps.
    pub kept: Kept,
    /// What its posterior was like, where it inferred one.
    pub posterior: Option<PosteriorSummary>,
    /// How its model does on the data it holds out, where it holds any out.
    pub validation: Option<Validation>,
    /// How long it took.
    pub seconds: WorkSeconds,
}

/// How long a client's work took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkSeconds {
    /// The phases.
    pub train: f64,
    /// The posterior.
    pub posterior: f64,
}

/// Scores of the round's participants, after their local training, on training data they held out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Held-out samples.
    pub samples: usize,
    /// Share of right classes (classification).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean negative log likelihood of the right classes (classification).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nll: Option<f64>,
    /// Root of the mean squared error, in units of the standardised targets (regression).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
}

impl WorkSeconds {
    /// Whether they are times that work can take: those of a client elsewhere may be any numbers.
    pub(crate) fn are_sound(&self) -> bool {
        // Thirty years.
        [self.train, self.posterior].iter().all(|seconds| (0.0..1e9).contains(seconds))
    }
}

impl Validation {
    /// Whether the figures are numbers that can be summed, of no more samples than a client can have.
    pub(crate) fn is_sound(&self) -> bool {
        let Self { samples, accuracy, nll, rmse } = *self;
        samples <= MAX_SAMPLES && are_figures([accuracy, nll, rmse].into_iter().flatten())
    }
}

impl Client {
    /// A round on a client: what it received and kept and its data become an upload and what it keeps next.
    ///
    /// Cost: the method's local epochs and, where the server asks for variances, a posterior.
    ///
    /// # Errors
    /// Messages or state that do not fit; training that diverged; a posterior that cannot be computed.
    pub fn train(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
    ) -> Result<Trained, ClientError> {
        let started = Instant::now();
        self.check_data(data)?;
        let [shared] = &download.modes[..] else {
            return Err(ClientError::OtherModes { found: download.modes.len(), expected: 1 });
        };
        let Start { parameters, server } = self.start(shared, kept)?;
        let mut rng = self.streams.stream(Purpose::Batches, client as u64, download.round);
        let result = self.run_phases(parameters, server.as_ref(), &self.procedure.local, data, &mut rng)?;
        if result.loss.is_some_and(|loss| !loss.is_finite()) {
            return Err(ClientError::LossDiverged);
        }
        let trained = started.elapsed().as_secs_f64();
        let spec = self.procedure.round_posterior().filter(|_| download.variances_wanted);
        let fit = match spec {
            None => None,
            Some(spec) => {
                let mut rng = self.streams.stream(Purpose::Selection, client as u64, download.round);
                let values = result.parameters.values();
                Some(self.fit_posterior(&spec, values, server.as_ref(), data, &mut rng, false)?)
            }
        };
        let inferred = if fit.is_some() { started.elapsed().as_secs_f64() - trained } else { 0.0 };
        let layout = self.network.layout();
        let kept = result.parameters.part(self.procedure.kept_in(download.round).range(layout));
        if !kept.is_finite() {
            return Err(ClientError::PersonalPartDiverged);
        }
        let validation = if self.scores_rounds && data.held_out.count > 0 {
            let model = self.single_model(client, result.parameters.clone(), data)?;
            Some(self.validate(&model, &data.held_out)?)
        } else {
            None
        };
        Ok(Trained {
            posterior: fit.as_ref().map(PosteriorSummary::of_laplace),
            upload: self.upload(client, download, result, fit.as_ref(), data.train.count),
            kept: kept.into(),
            validation,
            seconds: WorkSeconds { train: trained, posterior: inferred },
        })
    }

    fn upload(
        &self,
        client: usize,
        download: &Download,
        result: PhasesResult,
        fit: Option<&Laplace>,
        samples: usize,
    ) -> Upload {
        let shared = self.procedure.shared_in(download.round).range(self.network.layout());
        let PhasesResult { parameters, reference, loss } = result;
        let (values, trained) = match (reference, parameters) {
            (Some(gaussian), _) | (None, Parameters::Gaussian(gaussian)) => {
                let Gaussian { mean, variance } = gaussian;
                (mean, Some(Variances { selected: None, values: variance[shared.clone()].to_vec() }))
            }
            (None, mut points) => (std::mem::take(points.values_mut()), None),
        };
        let inferred = fit.map(|fit| inferred_variances(fit, &shared));
        Upload {
            round: download.round,
            client,
            samples,
            loss,
            shared: if shared.len() == values.len() { values } else { values[shared].to_vec() },
            variances: inferred.or(trained).filter(|_| download.variances_wanted),
        }
    }
}

/// What a participant sends to the server of a posterior. Indices count within the shared part.
fn inferred_variances(fit: &Laplace, shared: &Range<usize>) -> Variances {
    let posterior = fit.posterior();
    let selected = posterior.selected();
    // All of it, in order: indices would be redundant.
    let selected = (selected.len() < shared.len())
        .then(|| selected.iter().map(|&index| (index - shared.start) as u32).collect());
    let single = |variance: f64| {
        // A NaN stays one, to be refused by the server.
        if variance < f64::from(f32::MIN_POSITIVE) { f32::MIN_POSITIVE } else { variance as f32 }
    };
    Variances { selected, values: posterior.marginal_variances().into_iter().map(single).collect() }
}
