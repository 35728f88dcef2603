//! One round: sample, train, admit, average, remember; and, once, choose the prior variance of personal models.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::faults::RoundFaults;
use super::record::{RoundRecord, RoundSeconds, SubnetworkRecord};
use super::{Coordinator, Downloads};
use crate::calibration::Candidates;
use crate::client::{ClientError, PosteriorSummary, Validation, WorkSeconds};
use crate::error::SimulationError;
use crate::executor::{Outcome, TaskResult, Work};
use crate::parameters::{Kept, Part};
use crate::server::{CalibrationChoice, Exclusion, LeftOut, RoundOutcome};
use crate::wire::{Traffic, Upload, Variances};

/// What a participant reports of a round besides its upload and what it keeps.
#[derive(Clone, Copy)]
struct Report {
    posterior: Option<PosteriorSummary>,
    validation: Option<Validation>,
    seconds: WorkSeconds,
}

/// What participants sent and reported, by client.
type Returns = BTreeMap<usize, Result<(Upload, Report), ClientError>>;

impl Coordinator {
    /// One round: sample, train, admit, average, remember.
    ///
    /// # Errors
    /// Too few usable updates; the state is then that of the round before.
    pub fn round(&mut self) -> Result<RoundRecord, SimulationError> {
        let started = Instant::now();
        let round = self.server.round() + 1;
        let participants = self.server.participants();
        let sends = self.client.procedure().held() != Part::Nothing;
        let faults = RoundFaults::draw(&self.config.faults, &self.streams, round, &participants, sends);
        let at_work = faults.at_work(&participants);
        let downloads = Downloads {
            usual: Arc::new(self.server.training_download()),
            first: self.server.first_download().map(Arc::new),
        };
        let down = self.downloaded_bytes(&participants, &downloads)?;
        let mut returns = self.train_participants(&at_work, &downloads)?;
        let worked = started.elapsed().as_secs_f64();
        let mut posterior = worked * posterior_share(&returns);
        let train = worked - posterior;

        let lost = |(client, returned): (&usize, &Result<_, ClientError>)| {
            matches!(returned, Err(ClientError::LostState { .. })).then_some(*client)
        };
        let lost: Vec<usize> = returns.iter().filter_map(lost).collect();
        self.forget(lost);
        let mut missing: Vec<LeftOut> = faults.dropped().collect();
        let (mut uploads, mut reports, mut up) = (Vec::new(), Vec::new(), 0);
        for client in at_work {
            match returns.remove(&client) {
                Some(Ok((upload, report))) => {
                    reports.push((client, report));
                    let arrival = faults.deliver(upload);
                    up += arrival.bytes;
                    uploads.extend(arrival.messages);
                    missing.extend(arrival.left_out);
                }
                Some(Err(error)) => {
                    missing.push(LeftOut::new(client, exclusion(&error), error.to_string()));
                }
                None => {
                    missing.push(LeftOut::new(client, Exclusion::Dropped, ClientError::NoAnswer.to_string()));
                }
            }
        }
        let outcome = self.complete(round, &participants, &uploads, missing, &reports, &faults)?;
        self.log_left_out(round, &outcome);
        let RoundOutcome { used, left_out, skipped } = outcome;
        let used: BTreeSet<usize> = used.into_iter().collect();
        // One message a client, although a client may have sent two: both are the same.
        let messages: BTreeMap<usize, &Upload> =
            uploads.iter().rev().map(|upload| (upload.client, upload)).collect();
        let usable =
            || messages.iter().filter(|(client, _)| used.contains(client)).map(|(_, upload)| *upload);
        let losses: Vec<f64> = usable().filter_map(|upload| upload.loss).collect();
        let sent: Vec<&Variances> = usable().filter_map(|upload| upload.variances.as_ref()).collect();
        let counted = || reports.iter().filter(|(client, _)| used.contains(client)).map(|(_, report)| report);
        let validations: Vec<Validation> = counted().filter_map(|report| report.validation).collect();
        let posteriors: Vec<PosteriorSummary> = counted().filter_map(|report| report.posterior).collect();
        let aggregate = started.elapsed().as_secs_f64() - worked;

        let searching = Instant::now();
        let mut bytes = if sends { Traffic { up, down } } else { Traffic::default() };
        let calibration = self.calibrate(&faults.in_time(&participants), &mut bytes)?;
        if !calibration.is_empty() {
            posterior += searching.elapsed().as_secs_f64();
        }
        Ok(RoundRecord {
            round,
            mode: (self.client.procedure().modes.count > 1)
                .then(|| self.client.procedure().modes.of_round(round)),
            train_loss: (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64),
            validation: pool_validations(&validations),
            subnetwork: SubnetworkRecord::of(&posteriors, &sent, self.server.shared()[0].values().len()),
            calibration,
            seconds: RoundSeconds { train, posterior, aggregate },
            participants,
            left_out,
            skipped,
            epsilon: self.server.epsilon(),
            bytes,
        })
    }

    /// What participants receive in all.
    fn downloaded_bytes(
        &self,
        participants: &[usize],
        downloads: &Downloads,
    ) -> Result<u64, SimulationError> {
        let usual = downloads.usual.encoded_len() as u64;
        let Some(first) = &downloads.first else { return Ok(usual * participants.len() as u64) };
        let mut bytes = 0;
        for &client in participants {
            bytes += if self.store.get(client)?.is_some() { usual } else { first.encoded_len() as u64 };
        }
        Ok(bytes)
    }

    /// The local training of these clients. What each would keep is staged as it comes.
    fn train_participants(
        &self,
        clients: &[usize],
        downloads: &Downloads,
    ) -> Result<Returns, SimulationError> {
        let round = downloads.usual.round;
        let kept = self.client.procedure().kept_in(round).range(self.client.network().layout());
        let keeps = !kept.is_empty();
        let mut returns = Returns::new();
        self.run_tasks(
            clients,
            downloads.clone(),
            |_| Work::Train,
            |Outcome { client, result }| {
                let returned = match result {
                    Ok(TaskResult::Trained(trained))
                        if trained.upload.client != client || trained.upload.round != round =>
                    {
                        Err(ClientError::OtherResult)
                    }
                    Ok(TaskResult::Trained(trained)) if !self.can_keep(&trained.kept, &kept, round) => {
                        Err(ClientError::OtherResult)
                    }
                    Ok(TaskResult::Trained(trained)) => {
                        if keeps {
                            self.store.stage(client, trained.kept, round)?;
                        }
                        let (posterior, validation) = (trained.posterior, trained.validation);
                        let report = Report { posterior, validation, seconds: trained.seconds };
                        Ok((trained.upload, report))
                    }
                    Ok(
                        TaskResult::CalibrationScores(_) | TaskResult::Evaluated(_) | TaskResult::Scored(_),
                    ) => Err(ClientError::OtherResult),
                    Err(error) => Err(error),
                };
                returns.insert(client, returned);
                Ok(())
            },
        )?;
        Ok(returns)
    }

    /// Whether this is what a client keeps after this round, and where it is to keep it: a part of these parameters, or at
    /// its own site.
    fn can_keep(&self, kept: &Kept, range: &Range<usize>, round: u64) -> bool {
        match kept {
            Kept::Parameters(part) => {
                !self.store.is_at_sites() && self.client.initial()[0].expect_part(range, part).is_ok()
            }
            Kept::AtSite { round: stored } => self.store.is_at_sites() && *stored == round,
        }
    }

    /// Lets the server complete the round, and decides what clients keep.
    fn complete(
        &mut self,
        round: u64,
        participants: &[usize],
        uploads: &[Upload],
        missing: Vec<LeftOut>,
        reports: &[(usize, Report)],
        faults: &RoundFaults,
    ) -> Result<RoundOutcome, SimulationError> {
        let completed = self.server.complete(participants, uploads, missing);
        let (used, refused, skipped): (BTreeSet<usize>, BTreeSet<usize>, bool) = match &completed {
            Ok(outcome) => (
                outcome.used.iter().copied().collect(),
                outcome.left_out.iter().map(|out| out.client).collect(),
                outcome.skipped,
            ),
            Err(_) => (BTreeSet::new(), BTreeSet::new(), false),
        };
        let keeps = self.client.procedure().kept_in(round) != Part::Nothing;
        for (client, _) in reports.iter().filter(|_| keeps) {
            // What a client learned is its own, also where its message was lost or the round came to nothing: it does
            // not know. What the server refuses of a client that works as it should is not to be trusted.
            let lost = faults.of(*client).is_some() || (skipped && !refused.contains(client));
            if completed.is_ok() && (lost || used.contains(client)) {
                self.store.commit(*client, round)?;
            } else {
                self.store.discard(*client, round);
            }
        }
        Ok(completed?)
    }

    /// Logs who was left out: a warning, but where faults are what was asked for.
    fn log_left_out(&self, round: u64, outcome: &RoundOutcome) {
        let expected = self.config.faults.is_any();
        for LeftOut { client, reason, .. } in &outcome.left_out {
            if expected {
                tracing::info!(round, client, "left out of the round: {reason}");
            } else {
                tracing::warn!(round, client, "left out of the round: {reason}");
            }
        }
        if outcome.skipped && expected {
            tracing::info!(round, "skipped: too few usable updates");
        } else if outcome.skipped {
            tracing::warn!(round, "skipped: too few usable updates");
        }
    }

    /// In the rounds where that is due, chooses what the federation chooses on what clients set aside: `participants`, or at
    /// the end those who were asked before. From the next round on they train on that data as well.
    fn calibrate(
        &mut self,
        participants: &[usize],
        bytes: &mut Traffic,
    ) -> Result<Vec<CalibrationChoice>, SimulationError> {
        let mut choices = Vec::new();
        let asked = self.server.calibration_participants();
        let participants = asked.as_deref().unwrap_or(participants);
        while let Some(download) = self.server.calibration_download() {
            let round = download.round;
            let what = download.candidates.as_ref().map_or("", Candidates::name);
            bytes.down += download.encoded_len() as u64 * participants.len() as u64;
            let (mut found, mut lost) = (BTreeMap::new(), Vec::new());
            let work = |_| Work::ScoreCandidates;
            self.run_tasks(participants, &Arc::new(download.clone()), work, |Outcome { client, result }| {
                let problem = match result {
                    Ok(TaskResult::CalibrationScores(scores)) => {
                        found.insert(client, scores);
                        return Ok(());
                    }
                    Ok(TaskResult::Trained(_) | TaskResult::Evaluated(_) | TaskResult::Scored(_)) => {
                        ClientError::OtherResult
                    }
                    Err(error) => error,
                };
                match problem {
                    ClientError::LostState { .. } => lost.push(client),
                    // Small clients have none to set aside.
                    ClientError::NothingSetAside => tracing::info!(round, client, "{problem}"),
                    _ => tracing::warn!(round, client, "not used to choose the {what}: {problem}"),
                }
                Ok(())
            })?;
            self.forget(lost);
            let scores: Vec<_> = found.into_values().collect();
            bytes.up += scores.iter().map(|scores| scores.encoded_len() as u64).sum::<u64>();
            let (choice, left_out) = self.server.choose(participants, &scores);
            for LeftOut { client, reason, .. } in left_out {
                tracing::warn!(round, client, "not used to choose the {what}: {reason}");
            }
            match &choice {
                Some(choice) => tracing::info!(round, "{what} of personal models: {:.3}", choice.chosen),
                None if self
                    .server
                    .calibration_download()
                    .is_some_and(|next| next.candidates.as_ref().map(Candidates::name) == Some(what)) =>
                {
                    tracing::info!(round, "no {what} that was tried is best: more are tried");
                }
                None if matches!(download.candidates, Some(Candidates::AverageTemperatures(_))) => {
                    tracing::warn!(
                        round,
                        "too few samples in common to measure the {what}: it stays as it is"
                    );
                }
                None => {
                    tracing::warn!(
                        round,
                        "no client had data to choose a {what} by; the typical one is used"
                    );
                }
            }
            choices.extend(choice);
        }
        Ok(choices)
    }
}

/// Why a client that could not train is left out.
const fn exclusion(error: &ClientError) -> Exclusion {
    match error {
        ClientError::NoAnswer => Exclusion::Dropped,
        ClientError::LostState { .. } => Exclusion::LostState,
        ClientError::Unreadable(_) => Exclusion::Unreadable,
        error if error.is_divergence() => Exclusion::Diverged,
        _ => Exclusion::Failed,
    }
}

/// The share of all clients' work that went into posteriors.
fn posterior_share(returns: &Returns) -> f64 {
    let seconds = returns.values().flatten().map(|(_, report)| report.seconds);
    let (train, posterior) = seconds.fold((0.0, 0.0), |(train, posterior), seconds| {
        (train + seconds.train, posterior + seconds.posterior)
    });
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
