//! Rounds under trouble, held-out data, and work outside a simulation.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_data::{Federation as _, Split};
use fedsi_fl::State;
use fedsi_fl::config::Weighting;
use fedsi_fl::methods::METHODS;
use fedsi_fl::work::{LocalData, LocalWork, ServerGaussian, Trade, Workbench};
use fedsi_fl::{Config, RunError, Simulation};
use fedsi_nn::Loss;
use fedsi_random::{Purpose, Streams};
use support::{Clouds, clouds, config, simulation};

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
            assert!(simulation.global_parameters().iter().all(|x| x.is_finite()), "{}", method.name);
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
    let mut predicted = Vec::new();
    simulation
        .evaluate(
            |_| Ok(()),
            |client| {
                predicted.push((client.samples, client.predictions.len()));
                Ok(())
            },
        )
        .unwrap();
    for (client, (samples, predictions)) in predicted.into_iter().enumerate() {
        assert_eq!(predictions, if client == 2 { 0 } else { samples }, "client {client}");
    }
}

#[test]
fn below_the_quorum_a_run_stops_and_says_who_failed() {
    let mut config = explosive("fedavg");
    config.federation.quorum = 1.0;
    let mut simulation = simulation(config, with_broken_client());
    let before = simulation.global_parameters();
    let error = simulation.round().unwrap_err();
    assert!(matches!(error, RunError::Quorum { round: 1, needed: 5, .. }), "{error}");
    assert!(error.to_string().contains("client 2"), "{error}");
    assert_eq!(simulation.global_parameters(), before, "a failed round changes nothing");
    assert!(!error.is_bad_input(), "it happened while running");
}

#[test]
fn weighting_by_samples_counts_larger_clients_more() {
    let of = |weighting| {
        let mut config = config("fedavg", 5);
        config.federation.weighting = weighting;
        let mut simulation = simulation(config, clouds(5));
        simulation.round().unwrap();
        simulation.global_parameters()
    };
    assert_ne!(of(Weighting::Uniform), of(Weighting::Samples));
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
    assert_ne!(with.global_parameters(), without.global_parameters());
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
fn a_client_alone_does_what_it_does_in_a_cohort() {
    let mut config = config("fedsi", 1);
    config.fedsi.prior_variance = fedsi_fl::config::FinalPrior::Fixed(1.0); // nothing is set aside
    let mut simulation = simulation(config.clone(), clouds(5));
    let start = simulation.global_parameters();
    let client = simulation.round().unwrap().participants[0];

    let streams = Streams::new(config.seed);
    let network = simulation.network().clone();
    let trade = Trade::new(network.clone(), Loss::CrossEntropy, config.training.clone(), 0.0, streams);
    let procedure = (fedsi_fl::methods::find("fedsi").unwrap().declare)(&config);
    let body = network.layout().body();
    let prior = |index| if body.contains(&index) { config.fedsi.alpha as f32 } else { f32::INFINITY };
    let work = LocalWork {
        client,
        round: 1,
        purpose: Purpose::Batches,
        server: Some(Arc::new(ServerGaussian {
            mean: start.clone(),
            variance: (0..start.len()).map(prior).collect(),
        })),
        start: State::point(start),
        inference: procedure.round_inference(),
        phases: procedure.local,
    };
    let data = LocalData::all(clouds(5).samples(client, Split::Train));
    let trained = trade.carry_out(work.clone(), &data, &mut Workbench::default());
    assert_eq!(trained.state.values, simulation.global_parameters());

    // A bench that was used before gives the same result.
    let mut bench = Workbench::default();
    let _ = trade.carry_out(LocalWork { round: 9, ..work.clone() }, &data, &mut bench);
    assert_eq!(trade.carry_out(work, &data, &mut bench), trained);
}
