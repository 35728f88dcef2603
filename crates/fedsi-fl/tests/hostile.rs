//! A hundred thousand damaged messages and configs: read or refused on one line,
//! without a panic, and without memory that the bytes cannot back.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_fl::Config;
use fedsi_fl::calibration::{Calibration, CandidateScore, Candidates};
use fedsi_fl::config::{Overrides, commented};
use fedsi_fl::executor::{EvaluationData, Outcome, Task, Work, Worker};
use fedsi_fl::parameters::{Gaussian, HeadSamples, Parameters, SharedParameters};
use fedsi_fl::resolve;
use fedsi_fl::wire::{
    CalibrationScores, Download, SharedMode, Upload, Variances, decode_parameters, encode_parameters,
};
use support::damage::{CASES, hostile_cases};

/// Damaged bytes of messages that hold others: there are many kinds of them.
const FEWER_CASES: usize = 4_000;

fn hostile(name: &str, good: &[u8], read: impl Fn(&[u8]) -> Result<(), String>) {
    hostile_cases(CASES, name, good, read);
}

#[test]
fn uploads() {
    let variances = Some(Variances { selected: Some(vec![1, 5, 7]), values: vec![0.5; 3] });
    let upload =
        Upload { round: 3, client: 4, samples: 5, loss: Some(0.5), shared: vec![1.0; 30], variances };
    hostile("upload", &upload.encode().unwrap(), |bytes| {
        let upload = Upload::decode(bytes).map_err(|error| error.to_string())?;
        // What can be read must not harm whoever looks at it.
        if let Some(variances) = upload.variances.filter(|variances| variances.check(30).is_ok()) {
            let _ = variances.pairs().count();
        }
        Ok(())
    });
}

#[test]
fn downloads() {
    let shared = Arc::new(SharedParameters::Gaussian(Gaussian::uniform(vec![0.5; 30], 0.25)));
    let download = Download {
        variances_wanted: true,
        data_set_aside: true,
        calibration: Calibration { prior_variance: Some(0.75), ..Calibration::default() },
        ..Download::new(7, shared)
    };
    hostile("download", &download.encode().unwrap(), |bytes| {
        Download::decode(bytes).map(drop).map_err(|error| error.to_string())
    });
}

#[test]
fn calibration_scores() {
    let scores = CalibrationScores {
        round: 4,
        client: 1,
        samples: 20,
        candidates: vec![CandidateScore::default(); 3],
    };
    hostile("calibration scores", &scores.encode().unwrap(), |bytes| {
        CalibrationScores::decode(bytes).map(drop).map_err(|error| error.to_string())
    });
}

#[test]
fn kept_parameters() {
    for kept in [
        Parameters::Point(vec![0.5; 30]),
        Parameters::Gaussian(Gaussian::uniform(vec![0.5; 30], 0.25)),
        Parameters::Samples(HeadSamples { values: vec![0.5; 30], samples: vec![0.25; 60] }),
    ] {
        hostile(kept.kind(), &encode_parameters(&kept).unwrap(), |bytes| {
            decode_parameters(bytes).map(drop).map_err(|error| error.to_string())
        });
    }
}

/// Tasks of every kind, and outcomes of every kind and every kind of parameters: whoever can read a damaged one can also
/// work with it, and predict with a damaged model.
#[test]
fn tasks_and_outcomes() {
    for method in ["fedavg", "fedsi", "fedsi-fac", "pfedbayes", "fedpop"] {
        let mut config = support::config(method, 3);
        config.validation.fraction = 0.2;
        let simulation = support::simulation(config, support::clouds(3));
        let client = simulation.client();
        let worker = Worker::new(Arc::clone(client), support::clouds(3));
        let mut download = simulation.server().training_download();
        download.candidates = Some(Candidates::PriorVariances(vec![0.5, 1.0]));
        let download = Arc::new(download);
        let kept = client.initial()[0].part(client.procedure().kept.range(client.network().layout()));
        let evaluate = |on| Work::Evaluate { on, further_inputs: vec![0.5; 12], return_model: true };
        let mut works = vec![Work::Train, evaluate(EvaluationData::Test), evaluate(EvaluationData::HeldOut)];
        if download.data_set_aside {
            works.push(Work::ScoreCandidates);
        }
        for work in works {
            let name = format!("{method}, {work:?}");
            let task = Task {
                client: 1,
                work,
                download: Arc::clone(&download),
                kept: Some(kept.clone().into()),
                needed_since: None,
            };
            hostile_cases(FEWER_CASES, &name, &task.encode().unwrap(), |bytes| {
                Task::decode(bytes).map(drop).map_err(|error| error.to_string())
            });
            let outcome = worker.perform(task);
            assert!(outcome.result.is_ok(), "{name}: {outcome:?}");
            hostile_cases(FEWER_CASES, &name, &outcome.encode().unwrap(), |bytes| {
                Outcome::decode(bytes, client).map(drop).map_err(|error| error.to_string())
            });
        }
    }
}

/// A task whose parts were damaged one by one, so that the whole can be read: the worker refuses it in one line, or does
/// it.
#[test]
fn workers_refuse_what_does_not_fit() {
    for method in ["fedavg", "fedper", "fedsi", "pfedbayes", "bpfed", "fedpop"] {
        let simulation = support::simulation(support::config(method, 3), support::clouds(3));
        let worker = Worker::new(Arc::clone(simulation.client()), support::clouds(3));
        let download = simulation.server().training_download();
        let size = download.modes[0].shared.values().len();
        let gaussian = |size| Arc::new(SharedParameters::Gaussian(Gaussian::uniform(vec![0.1; size], 0.5)));
        let point = |size| Arc::new(SharedParameters::Point(vec![0.1; size]));
        let wrong_kind =
            if download.modes[0].shared.variance().is_some() { point(size) } else { gaussian(size) };
        let wrong_size =
            if download.modes[0].shared.variance().is_some() { gaussian(size + 1) } else { point(size + 1) };
        for shared in [wrong_kind, wrong_size] {
            let download =
                Arc::new(Download { modes: vec![SharedMode { mode: 0, shared }], ..download.clone() });
            for work in [
                Work::Train,
                Work::ScoreCandidates,
                Work::Evaluate { on: EvaluationData::Test, further_inputs: vec![], return_model: true },
            ] {
                let outcome = worker.perform(Task {
                    client: 1,
                    work,
                    download: Arc::clone(&download),
                    kept: None,
                    needed_since: None,
                });
                let error = outcome.result.unwrap_err().to_string();
                let named =
                    error.contains("the download does not fit") || error.contains("no candidates to score");
                assert!(named && !error.contains('\n'), "{method}: {error}");
            }
        }
        for kept in [
            Parameters::Point(vec![0.5; 9]),
            Parameters::Gaussian(Gaussian::uniform(vec![0.5; 9], 0.25)),
            Parameters::Samples(HeadSamples { values: vec![0.5; 9], samples: vec![0.25; 7] }),
        ] {
            let download = Arc::new(download.clone());
            let outcome = worker.perform(Task {
                client: 1,
                work: Work::Train,
                download,
                kept: Some(kept.into()),
                needed_since: None,
            });
            let error = outcome.result.unwrap_err().to_string();
            assert!(error.contains("its kept parameters do not fit: expected"), "{method}: {error}");
        }
        let task = |client, further_inputs| Task {
            client,
            work: Work::Evaluate { on: EvaluationData::Test, further_inputs, return_model: false },
            download: Arc::new(simulation.server().personal_download()),
            kept: None,
            needed_since: None,
        };
        for (task, expected) in
            [(task(7, vec![]), "there is no client 7: the data has 3 clients"), (task(1, vec![0.5; 7]), "7")]
        {
            let error = worker.perform(task).result.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{method}: {error}");
        }
    }
}

#[test]
fn configs() {
    let config = Config::defaults("fedsi", "digits", fedsi_data::Size::Small).unwrap();
    let text = commented(&config).unwrap();
    // Without its comments: damage should hit settings.
    let bare: String = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .flat_map(|line| [line, "\n"])
        .collect();
    hostile("config", bare.as_bytes(), |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
        let layer = Overrides::from_text("a file", text).map_err(|error| error.to_string())?;
        let config = resolve(&[layer]).map_err(|error| error.to_string())?;
        config.check().map(drop).map_err(|error| error.to_string())
    });
}
