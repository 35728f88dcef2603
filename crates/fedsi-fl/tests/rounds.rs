//! Rounds under trouble, held-out data, and work outside a simulation.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_data::{Federation as _, Split};
use fedsi_fl::client::{LocalData, Predictions};
use fedsi_fl::config::{AggregateName, WeightingName};
use fedsi_fl::methods::METHODS;
use fedsi_fl::server::ServerError;
use fedsi_fl::wire::Download;
use fedsi_fl::{Config, Simulation, SimulationError};
use support::{Clouds, clouds, config, evaluations, global_values, simulation};

fn with_broken_client() -> Arc<Clouds> {
    Arc::new(Clouds { clients: 5, samples: 10, broken: Some(2) })
}

/// Plain descent through a ReLU network: inputs of 1e30 overflow within a few steps.
fn explosive(method: &str) -> Config {
    let mut config = config(method, 5);
    config.training.optimizer = fedsi_fl::config::OptimizerName::Sgd;
    config.model.body[1] = fedsi_nn::LayerSpec::Relu;
    config
}

#[test]
fn a_client_whose_numbers_explode_is_left_out_and_named_for_every_method() {
    for method in METHODS {
        let mut simulation = simulation(explosive(method.name), with_broken_client());
        for _ in 0..3 {
            let record = simulation.round().unwrap();
            let named: Vec<usize> = record.left_out.iter().map(|out| out.client).collect();
            assert!(named.contains(&2), "{}: left out {:?}", method.name, record.left_out);
            assert!(global_values(&simulation).iter().all(|x| x.is_finite()), "{}", method.name);
        }
    }
}

#[test]
fn a_client_left_out_of_a_round_does_not_blank_its_validation() {
    let mut config = explosive("fedavg");
    config.validation.fraction = 0.3;
    let record = simulation(config, with_broken_client()).round().unwrap();
    let validation = record.validation.unwrap();
    assert_eq!(validation.samples, 13, "3 + 3 + 3 + 4 without client 2");
    assert!(validation.accuracy.is_some() && validation.nll.is_some(), "{validation:?}");
}

#[test]
fn a_client_that_diverges_at_the_end_has_no_scores_and_the_others_do() {
    let mut simulation = simulation(explosive("fedavg-ft"), with_broken_client());
    simulation.round().unwrap();
    let evaluated = evaluations(&simulation);
    assert_eq!(evaluated.len(), 5);
    for (client, evaluation) in evaluated.into_iter().enumerate() {
        let expected = if client == 2 { 0 } else { evaluation.samples };
        assert_eq!((evaluation.client, evaluation.predictions.len()), (client, expected));
    }
}

#[test]
fn below_the_quorum_a_run_stops_and_says_who_failed() {
    let mut config = explosive("fedavg");
    config.federation.quorum = 1.0;
    let mut simulation = simulation(config, with_broken_client());
    let before = global_values(&simulation);
    let error = simulation.round().unwrap_err();
    assert!(
        matches!(error, SimulationError::Server(ServerError::Quorum { round: 1, needed: 5, .. })),
        "{error}"
    );
    assert!(error.to_string().contains("client 2"), "{error}");
    assert_eq!(global_values(&simulation), before, "a failed round changes nothing");
    assert!(!error.is_bad_input(), "it happened while running");
}

#[test]
fn weighting_by_samples_counts_larger_clients_more() {
    let (uniform, samples) =
        (averaged("fedavg", WeightingName::Uniform), averaged("fedavg", WeightingName::Samples));
    assert_ne!(uniform, samples);
}

/// The network after a round of clients with different numbers of samples.
fn averaged(method: &str, weighting: WeightingName) -> Vec<f32> {
    averaged_by(method, weighting, AggregateName::Mean)
}

fn averaged_by(method: &str, weighting: WeightingName, aggregate: AggregateName) -> Vec<f32> {
    let mut config = config(method, 5);
    (config.federation.weighting, config.federation.aggregate) = (weighting, aggregate);
    let mut simulation = simulation(config, clouds(5));
    simulation.round().unwrap();
    global_values(&simulation)
}

/// Each method weighs as its publication does, unless the config says otherwise; a robust aggregate counts all alike.
#[test]
fn every_method_weighs_as_published() {
    for method in METHODS.iter().filter(|method| method.name != "local") {
        let by_samples = ["fedavg", "fedavg-ft", "fedper", "fedbabu", "lg-fedavg"].contains(&method.name);
        let expected = if by_samples { WeightingName::Samples } else { WeightingName::Uniform };
        let other = if by_samples { WeightingName::Uniform } else { WeightingName::Samples };
        let found = averaged(method.name, WeightingName::Method);
        assert_eq!(found, averaged(method.name, expected), "{}", method.name);
        assert_ne!(found, averaged(method.name, other), "{}", method.name);
        let median = |weighting| averaged_by(method.name, weighting, AggregateName::Median);
        assert_eq!(median(WeightingName::Method), median(WeightingName::Uniform), "{}", method.name);
    }
}

#[test]
fn held_out_data_is_scored_and_not_learned_from() {
    let mut config = config("fedavg", 5);
    config.validation.fraction = 0.3;
    let mut with = simulation(config.clone(), clouds(5));
    let record = with.round().unwrap();
    let validation = record.validation.unwrap();
    // 10, 11, 12, 13, 14 samples: 3, 3, 3, 3, 4 held out.
    assert_eq!(validation.samples, 16);
    assert!(validation.accuracy.is_some_and(|accuracy| (0.0..=1.0).contains(&accuracy)));
    config.validation.fraction = 0.0;
    let mut without = simulation(config, clouds(5));
    assert_eq!(without.round().unwrap().validation, None);
    assert_ne!(global_values(&with), global_values(&without));
}

#[test]
fn a_client_without_training_data_is_refused() {
    let empty = Arc::new(Clouds { clients: 3, samples: 0, broken: None }); // client 0 has none
    let refused = Simulation::new(&config("fedavg", 2).check().unwrap(), empty);
    let Err(error) = refused else { panic!("it was accepted") };
    assert!(error.is_bad_input() && error.to_string().contains("client 0"), "{error}");
}

#[test]
fn more_participants_than_clients_are_refused_when_the_data_says_how_many_there_are() {
    let refused = Simulation::new(&config("fedavg", 7).check().unwrap(), clouds(5));
    let Err(error) = refused else { panic!("it was accepted") };
    assert!(error.is_bad_input() && error.to_string().contains("there are 5 clients"), "{error}");
}

/// A client that works alone, as on a distant site, does what it would have done in the simulation.
#[test]
fn a_client_alone_does_what_it_does_in_a_simulation() {
    let mut config = config("fedsi", 1);
    config.fedsi.prior_variance = fedsi_fl::config::FinalPrior::Fixed(1.0); // nothing is set aside
    let mut simulation = simulation(config, clouds(5));
    let (initial, download) = (global_values(&simulation), simulation.server().training_download());
    let number = simulation.round().unwrap().participants[0];

    let client = simulation.client();
    let data = LocalData::all(clouds(5).samples(number, Split::Train));
    let trained = client.train(number, &download, None, &data).unwrap();
    assert_eq!(trained.upload.shared, simulation.server().shared()[0].values());
    assert_eq!(trained.kept.parameters().unwrap().values(), [0.0_f32; 0], "FedSI keeps nothing");
    let head = client.network().layout().head();
    assert_eq!(global_values(&simulation)[head.clone()], initial[head], "the head is frozen");

    // A thread whose trainers were used before gives the same result.
    let later = Download { round: 9, ..download.clone() };
    assert_ne!(client.train(number, &later, None, &data).unwrap().upload.shared, trained.upload.shared);
    let again = client.train(number, &download, None, &data).unwrap();
    assert_eq!(
        (again.upload, again.kept, again.posterior),
        (trained.upload, trained.kept, trained.posterior)
    );
}

/// Clients have different numbers of test samples, so that the mean over clients is not the mean over samples.
#[test]
fn a_whole_run_is_its_rounds_and_an_evaluation() {
    let mut config = Config { rounds: 3, ..config("fedper", 5) };
    config.training.learning_rate = 1e-4; // far from perfect
    let mut stepwise = simulation(config.clone(), clouds(5));
    for _ in 0..3 {
        stepwise.round().unwrap();
    }
    let mut whole = simulation(config, clouds(5));
    whole.round().unwrap();
    let evaluation = whole.run().unwrap();
    assert_eq!(whole.server().round(), 3, "the rounds that were left");
    assert_eq!(evaluation.clients, evaluations(&stepwise));

    let mut pooled = Predictions::none(evaluation.task);
    for client in &evaluation.clients {
        pooled.append(client.predictions.clone()).unwrap();
    }
    let scores = evaluation.scores().unwrap();
    assert_eq!(scores.nll(), pooled.scores().nll());
    let by_client = evaluation.clients.iter().map(|client| client.predictions.scores().accuracy().unwrap());
    let mean = by_client.sum::<f64>() / 5.0;
    assert!((scores.accuracy().unwrap() - mean).abs() < 1e-12);
    assert_ne!(scores.accuracy(), pooled.scores().accuracy(), "a case in which the two differ");
}
