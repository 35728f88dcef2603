//! One round: draw, work, judge, average, remember; and, once, choose the prior variance of personal models.

use std::ops::Range;
use std::time::Instant;

use fedsi_random::Purpose;

use super::Simulation;
use crate::aggregate::SparseVariances;
use crate::calibrate::{self, Calibration};
use crate::infer::{Inferred, SubnetworkRecord};
use crate::message::Upload;
use crate::methods::Workers;
use crate::predict::{PersonalModel, validate};
use crate::record::{LeftOut, PosteriorSummary, RoundRecord, RoundSeconds, Traffic, Validation};
use crate::server::{draw_participants, is_finite};
use crate::work::{Busy, Trained};
use crate::{Part, RunError};

/// What a client hands back after its local work, made on the client's own thread.
struct ClientReturn {
    /// What it sends, or why it sends nothing.
    upload: Result<Upload, LeftOut>,
    kept: Vec<f32>,
    figures: Option<PosteriorSummary>,
    validation: Option<Validation>,
    busy: Busy,
}

impl ClientReturn {
    fn new(
        trained: Trained,
        round: u64,
        shared: &Range<usize>,
        kept: Range<usize>,
        validation: Option<Validation>,
        busy: Busy,
    ) -> Self {
        let Trained { client, parameters, loss, samples, posterior } = trained;
        let kept = parameters[kept].to_vec();
        let left_out = |reason: String| LeftOut { client, reason };
        if !is_finite(&kept) {
            let upload = Err(left_out("its personal part is not finite".to_owned()));
            return Self { upload, kept, figures: None, validation, busy };
        }
        let (spread, figures) = match posterior.transpose() {
            Ok(None) => (None, None),
            Ok(Some(inferred)) => (Some(spread(&inferred, shared.start)), Some(inferred.summary())),
            Err(error) => {
                let upload = Err(left_out(error.to_string()));
                return Self { upload, kept, figures: None, validation, busy };
            }
        };
        let shared =
            if shared.len() == parameters.len() { parameters } else { parameters[shared.clone()].to_vec() };
        let upload = Ok(Upload { round, client, samples, loss, shared, spread });
        Self { upload, kept, figures, validation, busy }
    }
}

/// What a participant tells the server of its posterior. Indices count within the shared part, from `start`.
fn spread(inferred: &Inferred, start: usize) -> SparseVariances {
    let posterior = &inferred.posterior;
    let selected = posterior.selected().iter().map(|&index| (index - start) as u32).collect();
    let variances = posterior.marginal_variances();
    // Too small for f32 is still a variance; what is no number stays none, for the server to refuse.
    let single = |variance: f64| {
        if variance < f64::from(f32::MIN_POSITIVE) { f32::MIN_POSITIVE } else { variance as f32 }
    };
    SparseVariances { selected, values: variances.into_iter().map(single).collect() }
}

impl Simulation {
    /// One round: draw, work, judge, average, remember.
    ///
    /// # Errors
    /// Too few usable updates; the state is then that of the round before.
    pub fn round(&mut self) -> Result<RoundRecord, RunError> {
        let started = Instant::now();
        let round = self.server.round() + 1;
        let clients = self.federation.clients();
        let participants = match self.procedure.workers {
            Workers::Drawn => draw_participants(&self.streams, round, clients, self.participants),
            Workers::Everyone => (0..clients).collect(),
        };
        let inference = self.procedure.round_inference().filter(|_| self.server.wants_spread());
        let cohort = self.cohort(&participants, Purpose::Batches, &self.procedure.local, inference.as_ref());
        let (trade, task) = (self.executor.trade(), self.federation.task());
        let layout = trade.network.layout();
        let (shared, kept) = (self.procedure.shared.range(layout), self.procedure.kept.range(layout));
        let returns = self.executor.each(cohort, |trained, data, busy| {
            let validation = validate(trade, task, &trained.parameters, &data.held_out);
            ClientReturn::new(trained, round, &shared, kept.clone(), validation, busy)
        });
        let worked = started.elapsed().as_secs_f64();
        let posterior = worked * posterior_share(returns.iter().map(|client| client.busy));
        let train = worked - posterior;

        let mut missing = Vec::new();
        let (mut uploads, mut own) = (Vec::new(), Vec::new());
        for ClientReturn { upload, kept, figures, validation, .. } in returns {
            match upload {
                Ok(upload) => {
                    uploads.push(upload);
                    own.push((kept, figures, validation));
                }
                Err(left_out) => missing.push(left_out),
            }
        }
        let bytes = self.traffic(&participants, &uploads);
        let left_out = self.server.complete(&uploads, missing)?;
        for out in &left_out {
            tracing::warn!(round, client = out.client, "left out of the round: {}", out.reason);
        }
        let used = |upload: &Upload| !left_out.iter().any(|out| out.client == upload.client);
        let (mut losses, mut validations) = (Vec::new(), Vec::new());
        let (mut subnetworks, mut selected) = (Vec::new(), Vec::new());
        for (upload, (part, figures, validation)) in uploads.iter().zip(own).filter(|(one, _)| used(one)) {
            losses.extend(upload.loss);
            validations.extend(validation);
            subnetworks.extend(figures);
            selected.extend(upload.spread.as_ref().map(|spread| spread.selected.as_slice()));
            if self.procedure.kept != Part::Nothing {
                self.personal.put(upload.client, part);
            }
        }
        let aggregate = started.elapsed().as_secs_f64() - worked;
        let choosing = Instant::now();
        let calibration = self.calibrate(round, &participants);
        let (mut posterior, mut bytes) = (posterior, bytes);
        if let Some(calibration) = &calibration {
            posterior += choosing.elapsed().as_secs_f64();
            bytes += self.calibration_traffic(calibration, participants.len());
        }
        Ok(RoundRecord {
            round,
            train_loss: (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64),
            validation: pool_validations(&validations),
            subnetwork: SubnetworkRecord::of(&subnetworks, &selected, shared.len()),
            calibration,
            seconds: RoundSeconds { train, posterior, aggregate },
            participants,
            left_out,
            bytes,
        })
    }

    /// In the round where that is due, chooses the prior variance of personal models on what `participants` set
    /// aside, and gives them that data back to learn from.
    fn calibrate(&mut self, round: u64, participants: &[usize]) -> Option<Calibration> {
        let due = calibrate::last_round_with_data_aside(self.config.rounds);
        if round != due || !self.procedure.calibrates() {
            return None;
        }
        let gaussian = self.procedure.gaussian.as_ref()?;
        let start = calibrate::start(&gaussian.structure);
        let candidates = calibrate::candidates(&gaussian.structure);
        let scales: Vec<f64> = candidates.iter().map(|variance| variance / start).collect();
        let inference = self.procedure.last_inference(Some(start))?;
        let (trade, predictor) = (self.executor.trade(), self.predictor());
        let cohort = self.cohort(participants, Purpose::Tuning, &self.procedure.personalise, None);
        let reports = self.executor.each(cohort, |trained, data, _| {
            let Trained { client, parameters, .. } = trained;
            let noise = trade.noise(&parameters, data);
            let mut rng = trade.streams().stream(Purpose::PersonalSelection, client as u64, round);
            // The prior is fixed: the server's variances are not asked.
            let evidence = trade.evidence(&parameters, None, &data.train, &noise);
            let mut model = PersonalModel { client, parameters: parameters.clone(), inferred: None };
            let mut losses = Vec::with_capacity(scales.len());
            let tried = inference.infer_scaled(&evidence, &scales, &mut rng, |inferred| {
                model.inferred = Some(inferred);
                let loss = predictor.predict(&model, data, &data.aside).scores().nll();
                losses.extend(loss.map(|loss| loss * data.aside.count as f64));
            });
            let problem = match tried {
                Ok(()) if losses.len() == scales.len() => return Some((data.aside.count, losses)),
                Ok(()) if data.aside.count == 0 => "it has no data to set aside".to_owned(),
                Ok(()) => "its predictions are not finite".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(round, client, "it has no part in choosing the prior variance: {problem}");
            None
        });
        let reports: Vec<_> = reports.into_iter().flatten().collect();
        let calibration = Calibration::of(candidates, &reports);
        self.chosen = calibration.as_ref().map(|calibration| calibration.chosen);
        match self.chosen {
            Some(variance) => tracing::info!(round, "prior variance of personal models: {variance:.3}"),
            None => tracing::warn!(round, "nobody had data to choose a prior variance by; it is {start}"),
        }
        self.executor.set_aside(0.0);
        calibration
    }

    /// What choosing a prior variance takes: participants receive the new shared part, and report a count and a loss
    /// for each candidate.
    fn calibration_traffic(&self, calibration: &Calibration, participants: usize) -> Traffic {
        let report = size_of::<f64>() * (1 + calibration.nll.len());
        let down = self.server.download().encoded_len();
        Traffic { up: (participants * report) as u64, down: (participants * down) as u64 }
    }

    /// The bytes a round's messages take; none where nothing is shared.
    fn traffic(&self, participants: &[usize], uploads: &[Upload]) -> Traffic {
        if self.procedure.shared == Part::Nothing {
            return Traffic::default();
        }
        Traffic {
            up: uploads.iter().map(|upload| upload.encoded_len() as u64).sum(),
            down: participants.len() as u64 * self.server.download().encoded_len() as u64,
        }
    }
}

/// The share of all clients' work that went into posteriors.
fn posterior_share(work: impl Iterator<Item = Busy>) -> f64 {
    let (train, posterior) =
        work.fold((0.0, 0.0), |(train, posterior), busy| (train + busy.train, posterior + busy.posterior));
    if posterior > 0.0 { posterior / (train + posterior) } else { 0.0 }
}

/// The participants' validations as one, each counting by its samples.
fn pool_validations(known: &[Validation]) -> Option<Validation> {
    let samples: usize = known.iter().map(|validation| validation.samples).sum();
    let mean = |of: fn(&Validation) -> Option<f64>| -> Option<f64> {
        let sum: Option<f64> = known.iter().map(|one| Some(of(one)? * one.samples as f64)).sum();
        sum.map(|sum| sum / samples as f64)
    };
    let rmse = mean(|one| one.rmse.map(|rmse| rmse * rmse)).map(f64::sqrt);
    (samples > 0).then(|| Validation {
        samples,
        accuracy: mean(|one| one.accuracy),
        nll: mean(|one| one.nll),
        rmse,
    })
}
