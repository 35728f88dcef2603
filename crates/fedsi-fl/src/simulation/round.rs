//! One round: draw, work, judge, average, remember; and, once, choose the prior variance of personal models.

use std::ops::Range;
use std::time::Instant;

use fedsi_random::Purpose;

use super::Simulation;
use crate::aggregate::Variances;
use crate::belief::{Belief, PersonalModel};
use crate::calibrate::{self, Calibration};
use crate::exclusion::Exclusion;
use crate::faults::RoundFaults;
use crate::infer::{Inferred, SubnetworkRecord};
use crate::message::Upload;
use crate::methods::Workers;
use crate::record::{LeftOut, PosteriorSummary, RoundRecord, RoundSeconds, Traffic, Validation};
use crate::server::{Completed, draw_participants};
use crate::state::State;
use crate::work::{Busy, Trained};
use crate::{Part, RunError};

/// What a client hands back after its local work, made on the client's own thread.
struct ClientReturn {
    /// What it sends, or why it sends nothing.
    upload: Result<Upload, LeftOut>,
    kept: State,
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
        let Trained { client, state, moved, loss, samples, posterior } = trained;
        let kept = state.part(kept);
        let left_out = |reason: &str| LeftOut::new(client, Exclusion::Diverged, reason);
        let mut figures = None;
        let sent = match (kept.is_finite(), posterior.transpose()) {
            (false, _) => Err(left_out("its personal part is not finite")),
            (true, Err(error)) => Err(left_out(&error.to_string())),
            (true, Ok(inferred)) => {
                figures = inferred.as_ref().map(Inferred::summary);
                Ok(inferred.map(|inferred| inferred_spread(&inferred, shared)))
            }
        };
        let upload = sent.map(|inferred| {
            let (values, deviation) = match moved {
                Some(moved) => (moved.mean, moved.deviation),
                None => (state.values, state.deviation),
            };
            let trained_spread = deviation.get(shared.clone()).map(trained_spread);
            let spread = inferred.or_else(|| trained_spread.filter(|spread| !spread.values.is_empty()));
            let shared = if shared.len() == values.len() { values } else { values[shared.clone()].to_vec() };
            Upload { round, client, samples, loss, shared, spread }
        });
        Self { upload, kept, figures, validation, busy }
    }
}

/// What a participant tells the server of a posterior. Indices count within the shared part.
fn inferred_spread(inferred: &Inferred, shared: &Range<usize>) -> Variances {
    let posterior = &inferred.posterior;
    let selected = posterior.selected();
    // All of it, in order: the indices say nothing.
    let selected = (selected.len() < shared.len())
        .then(|| selected.iter().map(|&index| (index - shared.start) as u32).collect());
    Variances { selected, values: posterior.marginal_variances().into_iter().map(single).collect() }
}

/// What it tells of a distribution that was trained.
fn trained_spread(deviation: &[f32]) -> Variances {
    let values = deviation.iter().map(|&deviation| single(f64::from(deviation).powi(2))).collect();
    Variances { selected: None, values }
}

/// A variance in single precision. Too small for it is still a variance; what is no number stays none, for the server to
/// refuse.
fn single(variance: f64) -> f32 {
    if variance < f64::from(f32::MIN_POSITIVE) { f32::MIN_POSITIVE } else { variance as f32 }
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
        let sends = self.procedure.shared != Part::Nothing;
        let faults = RoundFaults::draw(&self.config.faults, &self.streams, round, &participants, sends);
        let at_work = faults.at_work(&participants);
        let cohort = self.cohort(&at_work, Purpose::Batches, &self.procedure.local, inference.as_ref())?;
        let predictor = self.predictor();
        let layout = self.network().layout();
        let (shared, kept) = (self.procedure.shared.range(layout), self.procedure.kept.range(layout));
        let returns = self.executor.each(cohort, |trained, data, busy| {
            let validation = (data.held_out.count > 0)
                .then(|| self.model(trained.client, trained.state.clone(), None))
                .and_then(|model| predictor.validate(&model, &data.held_out));
            ClientReturn::new(trained, round, &shared, kept.clone(), validation, busy)
        });
        let worked = started.elapsed().as_secs_f64();
        let posterior = worked * posterior_share(returns.iter().map(|client| client.busy));
        let train = worked - posterior;

        let mut missing: Vec<LeftOut> = faults.silent().collect();
        let (mut uploads, mut own, mut sent_bytes) = (Vec::new(), Vec::new(), 0);
        for ClientReturn { upload, kept, figures, validation, .. } in returns {
            match upload {
                Ok(upload) => {
                    own.push((upload.client, kept, figures, validation));
                    let arrival = faults.deliver(upload);
                    sent_bytes += arrival.bytes;
                    uploads.extend(arrival.messages);
                    missing.extend(arrival.left_out);
                }
                Err(left_out) => missing.push(left_out),
            }
        }
        let bytes = self.traffic(participants.len(), sent_bytes);
        let Completed { used, left_out, skipped } = self.server.complete(&participants, &uploads, missing)?;
        self.tell(round, &left_out, skipped);
        let (mut losses, mut validations, mut subnetworks) = (Vec::new(), Vec::new(), Vec::new());
        // One message a client, although a client may have sent two: both are the same.
        let message = |client: usize| uploads.iter().find(|upload| upload.client == client);
        let sent: Vec<&Variances> =
            used.iter().filter_map(|&client| message(client)?.spread.as_ref()).collect();
        for (client, part, figures, validation) in own {
            if used.contains(&client) {
                losses.extend(message(client).and_then(|upload| upload.loss));
                validations.extend(validation);
                subnetworks.extend(figures);
            }
            // What a client learned is its own, also where its message was lost or the round came to nothing: it does
            // not know. What the server refuses of a client that works as it should is not to be trusted.
            let refused = || left_out.iter().any(|out| out.client == client);
            let lost = faults.of(client).is_some() || (skipped && !refused());
            if self.procedure.kept != Part::Nothing && (lost || used.contains(&client)) {
                self.personal.put(client, part, round)?;
            }
        }
        let aggregate = started.elapsed().as_secs_f64() - worked;
        let choosing = Instant::now();
        let in_time = faults.in_time(&participants);
        let calibration = self.calibrate(round, &in_time)?;
        let (mut posterior, mut bytes) = (posterior, bytes);
        if let Some(calibration) = &calibration {
            posterior += choosing.elapsed().as_secs_f64();
            bytes += self.calibration_traffic(calibration, in_time.len());
        }
        Ok(RoundRecord {
            round,
            train_loss: (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64),
            validation: pool_validations(&validations),
            subnetwork: SubnetworkRecord::of(&subnetworks, &sent, shared.len()),
            calibration,
            seconds: RoundSeconds { train, posterior, aggregate },
            participants,
            left_out,
            skipped,
            epsilon: self.epsilon(),
            bytes,
        })
    }

    /// Logs who was left out: a warning, but where faults are what was asked for.
    fn tell(&self, round: u64, left_out: &[LeftOut], skipped: bool) {
        let expected = self.config.faults.is_any();
        for LeftOut { client, reason, .. } in left_out {
            if expected {
                tracing::info!(round, client, "left out of the round: {reason}");
            } else {
                tracing::warn!(round, client, "left out of the round: {reason}");
            }
        }
        if skipped && expected {
            tracing::info!(round, "skipped: too few usable updates");
        } else if skipped {
            tracing::warn!(round, "skipped: too few usable updates");
        }
    }

    /// In the round where that is due, chooses the prior variance of personal models on what `participants` set
    /// aside, and gives them that data back to learn from.
    ///
    /// # Errors
    /// Clients' state that is lost.
    fn calibrate(&mut self, round: u64, participants: &[usize]) -> Result<Option<Calibration>, RunError> {
        let due = calibrate::last_round_with_data_aside(self.config.rounds);
        let (true, Some(laplace)) = (round == due && self.procedure.calibrates(), self.procedure.laplace())
        else {
            return Ok(None);
        };
        let start = calibrate::start(&laplace.structure);
        let candidates = calibrate::candidates(&laplace.structure);
        let scales: Vec<f64> = candidates.iter().map(|variance| variance / start).collect();
        let Some(inference) = self.procedure.last_inference(Some(start)) else { return Ok(None) };
        let (trade, predictor) = (self.executor.trade(), self.predictor());
        let cohort = self.cohort(participants, Purpose::Tuning, &self.procedure.personalise, None)?;
        let reports = self.executor.each(cohort, |trained, data, _| {
            let Trained { client, state: State { values: parameters, .. }, .. } = trained;
            let noise = trade.noise(&parameters, data);
            let mut rng = trade.streams().stream(Purpose::PersonalSelection, client as u64, round);
            // The prior is fixed: the server's variances are not asked.
            let evidence = trade.evidence(&parameters, None, &data.train, &noise);
            let mut model = PersonalModel { client, parameters: parameters.clone(), belief: Belief::Point };
            let mut losses = Vec::with_capacity(scales.len());
            let tried = inference.infer_scaled(&evidence, &scales, &mut rng, |inferred| {
                model.belief = Belief::Laplace(Box::new(inferred));
                let loss = predictor.predict(&model, &noise, &data.aside).scores().nll();
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
        Ok(calibration)
    }

    /// What choosing a prior variance takes: participants receive the new shared part, and report a count and a loss
    /// for each candidate.
    fn calibration_traffic(&self, calibration: &Calibration, participants: usize) -> Traffic {
        let report = size_of::<f64>() * (1 + calibration.nll.len());
        let down = self.server.download().encoded_len();
        Traffic { up: (participants * report) as u64, down: (participants * down) as u64 }
    }

    /// The bytes a round's messages take, of which `up` bytes came back; none where nothing is shared.
    fn traffic(&self, participants: usize, up: u64) -> Traffic {
        if self.procedure.shared == Part::Nothing {
            return Traffic::default();
        }
        Traffic { up, down: participants as u64 * self.server.download().encoded_len() as u64 }
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
