//! Tasks and outcomes as bytes: every kind of work and result, with every kind of parameters, equal after a round trip.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use fedsi_data::{Federation, Scaling, Split, Task as Prediction};
use fedsi_fl::calibration::Candidates;
use fedsi_fl::client::{ClientError, Predictions};
use fedsi_fl::config::FinalPrior;
use fedsi_fl::executor::{Evaluated, EvaluationData, Outcome, Task, TaskResult, Work, Worker};
use fedsi_fl::methods::METHODS;
use fedsi_fl::parameters::{Kept, Parameters};
use fedsi_fl::wire::Download;
use fedsi_fl::{Client, Config, Simulation};
use support::{Clouds, CloudsOfValues, TwoClasses, clouds, config, models};

/// Every kind of work.
fn works() -> [Work; 6] {
    let evaluate = |on, further_inputs, return_model| Work::Evaluate { on, further_inputs, return_model };
    [
        Work::Train,
        Work::ScoreCandidates,
        evaluate(EvaluationData::Test, vec![0.5; 12], true),
        evaluate(EvaluationData::HeldOut, vec![], true),
        evaluate(EvaluationData::HeldOut, vec![0.1; 6], false),
        Work::ScoreTest,
    ]
}

fn travelled(outcome: &Outcome, client: &Client) -> Outcome {
    Outcome::decode(&outcome.encode().unwrap(), client).unwrap()
}

/// Tasks of a federation after a round, and what comes of them.
fn round_trips(config: Config, federation: Arc<dyn Federation>) -> Vec<Outcome> {
    let method = config.method.clone();
    let mut simulation = support::simulation(config, Arc::clone(&federation));
    simulation.round().unwrap();
    let client = simulation.client();
    let worker = Worker::new(Arc::clone(client), federation);
    let whole = &client.initial()[0];
    let kept = whole.part(client.procedure().kept.range(client.network().layout()));
    let mut outcomes = Vec::new();
    for download in [simulation.server().training_download(), simulation.server().personal_download()] {
        let candidates = Some(Candidates::PriorVariances(vec![0.25, 0.1 + 0.2, 1e-3]));
        let download = Arc::new(Download { candidates, ..download });
        for work in works() {
            for kept in [None, Some(kept.clone().into()), Some(Kept::AtSite { round: 3 })] {
                let (work, download) = (work.clone(), Arc::clone(&download));
                let needed_since = kept.is_some().then_some(2);
                let task = Task { client: 1, work: work.clone(), download, kept, needed_since };
                let read = Task::decode(&task.encode().unwrap()).unwrap();
                assert_eq!(read, task, "{method}");
                let outcome = worker.perform(read);
                let back = travelled(&outcome, client);
                assert_eq!(back.client, 1);
                match (&outcome.result, &back.result) {
                    (Ok(sent), Ok(found)) => assert_eq!(found, sent, "{method}, {work:?}"),
                    (Err(sent), Err(found)) => {
                        assert_eq!(found.to_string(), sent.to_string(), "{method}, {work:?}");
                    }
                    (sent, found) => panic!("{method}, {work:?}: {sent:?} became {found:?}"),
                }
                outcomes.push(outcome);
            }
        }
    }
    outcomes
}

/// The kinds of results, and of the parameters in them.
fn kinds(outcomes: &[Outcome]) -> BTreeSet<&'static str> {
    let kind = |outcome: &Outcome| match &outcome.result {
        Ok(TaskResult::Trained(_)) => "trained",
        Ok(TaskResult::CalibrationScores(_)) => "calibration scores",
        Ok(TaskResult::Scored(_)) => "test scores",
        Ok(TaskResult::Evaluated(evaluated)) => {
            evaluated.model.as_ref().map_or("no model", |m| m.parameters().kind())
        }
        Err(_) => "failed",
    };
    outcomes.iter().map(kind).collect()
}

#[test]
fn every_task_and_outcome_survives_the_journey() {
    let mut all = BTreeSet::new();
    for method in METHODS {
        let mut config = config(method.name, 3);
        (config.validation.fraction, config.rounds) = (0.2, 10);
        all.extend(kinds(&round_trips(config.clone(), clouds(3))));
        // Models with a list of classes.
        config.calibration.own_classes = true;
        let outcomes = round_trips(config, Arc::new(TwoClasses(clouds(3))));
        let own = |outcome: &Outcome| match &outcome.result {
            Ok(TaskResult::Evaluated(evaluated)) => {
                evaluated.model.as_ref().and_then(|m| m.own_classes.clone())
            }
            _ => None,
        };
        let own: Vec<_> = outcomes.iter().filter_map(own).collect();
        assert!(!own.is_empty() && own.iter().all(|own| own.classes() == [0, 2]), "{}: {own:?}", method.name);
    }
    let expected = [
        "trained",
        "calibration scores",
        "test scores",
        "failed",
        "no model",
        "point values",
        "a Gaussian",
        "samples of the head",
        "a Laplace posterior",
    ];
    assert_eq!(all, BTreeSet::from(expected));
}

#[test]
fn so_do_those_of_regression() {
    for method in METHODS {
        let mut config = config(method.name, 3);
        (config.validation.fraction, config.rounds) = (0.2, 10);
        let values = CloudsOfValues {
            clouds: Clouds { clients: 3, samples: 10, broken: None },
            outputs: 2,
            values: |samples| samples.inputs.chunks(6).flat_map(|row| [row[0], row[1] - row[2]]).collect(),
            scaling: Some(Scaling { mean: vec![0.5, -1.0], std: vec![2.0, 3.0] }),
        };
        let outcomes = round_trips(config, Arc::new(values));
        let predicted = |outcome: &Outcome| match &outcome.result {
            Ok(TaskResult::Evaluated(evaluated)) => evaluated.predictions.as_ref().map(Predictions::task),
            Ok(TaskResult::Trained(_) | TaskResult::CalibrationScores(_) | TaskResult::Scored(_))
            | Err(_) => None,
        };
        let tasks: Vec<Prediction> = outcomes.iter().filter_map(predicted).collect();
        assert!(!tasks.is_empty(), "{}", method.name);
        assert!(tasks.iter().all(|task| *task == Prediction::Regression { outputs: 2 }), "{}", method.name);
    }
}

/// Posteriors of every form, at the end of a small simulation: models that travelled predict the same.
#[test]
fn laplace_models_that_travelled_predict_the_same() {
    for (method, share, tolerance) in
        [("fedsi", 0.3, 0.0), ("fedsi", 1.0, 0.0), ("fedsi", 1.0, 0.1), ("fedsi-fac", 1.0, 0.0)]
    {
        let mut config = config(method, 3);
        (config.fedsi.subnetwork, config.fedsi.tolerance) = (share, tolerance);
        config.fedsi.prior_variance = FinalPrior::Fixed(1.0);
        let mut simulation: Simulation = support::simulation(config, clouds(4));
        for _ in 0..3 {
            simulation.round().unwrap();
        }
        let client = simulation.client();
        for model in models(&simulation) {
            assert!(matches!(model.parameters(), Parameters::Laplace(_)), "{method}");
            let test = clouds(4).samples(model.client, Split::Test);
            let predictions = client.predict(&model, &test).unwrap();
            let evaluated = Evaluated {
                model: Some(model.clone()),
                posterior: None,
                predictions: Some(predictions.clone()),
                strangeness: client.strangeness(&model, &test.inputs).unwrap(),
                further_probabilities: vec![0.1 + 0.2],
            };
            let result = Ok(TaskResult::Evaluated(Box::new(evaluated.clone())));
            let back = travelled(&Outcome { client: model.client, result }, client);
            let Ok(TaskResult::Evaluated(found)) = back.result else { panic!("{:?}", back.result) };
            assert_eq!(*found, evaluated, "{method}");
            let model = found.model.unwrap();
            assert_eq!(client.predict(&model, &test).unwrap(), predictions, "{method}");
            assert_eq!(
                client.spread(&model, &test.inputs).unwrap(),
                client.spread(evaluated.model.as_ref().unwrap(), &test.inputs).unwrap(),
                "{method}"
            );
        }
    }
}

#[test]
fn a_failure_travels_in_its_own_words() {
    let simulation = support::simulation(config("fedavg", 3), clouds(3));
    let remote = ClientError::Remote { reason: "a \"reason\"".into(), diverged: true };
    let lost = |found| ClientError::LostState { expected: 7, found };
    for error in [ClientError::Diverged, ClientError::NothingSetAside, remote, lost(None), lost(Some(5))] {
        let (words, diverged) = (error.to_string(), error.is_divergence());
        let back = travelled(&Outcome { client: 2, result: Err(error) }, simulation.client());
        let error = back.result.unwrap_err();
        assert_eq!(
            matches!(error, ClientError::LostState { expected: 7, .. }),
            words.contains("lost"),
            "{error}"
        );
        assert_eq!((back.client, error.to_string(), error.is_divergence()), (2, words, diverged));
    }
}

/// A model that does not fit the network is refused when it is read, before anybody predicts with it.
#[test]
fn models_of_other_networks_are_refused() {
    let (small, mut large) = (config("fedavg", 3), config("fedavg", 3));
    large.model.body[0] = fedsi_nn::LayerSpec::Linear(9);
    let (small, large) = (support::simulation(small, clouds(3)), support::simulation(large, clouds(3)));
    let outcome = |change: fn(&mut fedsi_fl::client::PersonalModel)| {
        let mut model = models(&small).remove(0);
        change(&mut model);
        let model = Some(model);
        let (posterior, predictions, strangeness) = (None, None, None);
        let evaluated =
            Evaluated { model, posterior, predictions, strangeness, further_probabilities: vec![] };
        let result = Ok(TaskResult::Evaluated(Box::new(evaluated)));
        Outcome { client: 0, result }.encode().unwrap()
    };
    let good = outcome(|_| ());
    assert!(Outcome::decode(&good, small.client()).is_ok());
    let refused = |bytes: &[u8], client: &Client| Outcome::decode(bytes, client).unwrap_err().to_string();
    assert!(refused(&good, large.client()).contains("not as many values as the network has parameters"));
    let noisy = outcome(|model| model.modes[0].observation_noise.push(1.0));
    assert!(refused(&noisy, small.client()).contains("not one observation noise for each target"));
    let drawless = outcome(|model| model.draws = 0);
    assert!(refused(&drawless, small.client()).contains("average no draws"));
    let frozen = outcome(|model| model.temperature = 0.0);
    assert!(refused(&frozen, small.client()).contains("temperature is not a finite number above 0"));
    let empty = outcome(|model| model.modes.clear());
    assert!(refused(&empty, small.client()).contains("has no network"));
}
