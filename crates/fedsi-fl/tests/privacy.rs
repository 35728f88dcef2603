//! Runs with noise on what is shared, seen from outside.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_data::{Federation, Samples, Scaling, Split, Task};
use fedsi_fl::config::FinalPrior;
use fedsi_fl::coordinator::Snapshot;
use fedsi_fl::methods::{METHODS, Method, Participation, Unprotected};
use fedsi_fl::server::{Accountant, Server, ServerError, ServerState};
use fedsi_fl::{Config, Registry, Simulation, SimulationError};
use fedsi_random::SecretKey;
use support::{Clouds, clouds, config, global_values, models, private_data, simulation};

fn private(method: &str, noise: f64) -> Config {
    let mut config = private_data(config(method, 4));
    (config.privacy.noise, config.privacy.clip) = (noise, 0.5);
    config.fedsi.prior_variance = FinalPrior::Fixed(1.0);
    config
}

/// The simulation with a key that is known.
fn keyed(config: Config, federation: Arc<dyn Federation>, key: u8) -> Simulation {
    let mut simulation = simulation(config, federation);
    let Snapshot { server, clients } = simulation.snapshot().unwrap();
    let privacy_key = server.privacy_key.as_ref().map(|_| SecretKey::from_bytes([key; 32]));
    simulation.restore(Snapshot { server: ServerState { privacy_key, ..server }, clients }).unwrap();
    simulation
}

/// All clients' personal models after some rounds.
fn personal_models(config: Config, key: u8, rounds: usize) -> Vec<Vec<f32>> {
    let mut simulation = keyed(config, clouds(8), key);
    (0..rounds).for_each(|_| drop(simulation.round().unwrap()));
    models(&simulation).into_iter().map(|model| model.parameters().values().to_vec()).collect()
}

#[test]
fn every_method_runs_with_noise_and_counts_it() {
    for method in METHODS {
        let mut simulation = simulation(private(method.name, 1.0), clouds(8));
        let accountant = Accountant::new(0.5, 1.0, 1e-5);
        for round in 1..=4 {
            let record = simulation.round().unwrap();
            let expected = (method.name != "local").then(|| accountant.epsilon(round));
            assert_eq!(
                record.epsilon, expected,
                "{}, round {round}: nothing shared, nothing told",
                method.name
            );
            let shared = &simulation.server().shared()[0];
            assert!(shared.values().iter().all(|value| value.is_finite()), "{}", method.name);
            assert!(
                shared.variance().iter().copied().flatten().all(|v| v.is_finite() && *v > 0.0),
                "{}",
                method.name
            );
        }
        assert_eq!(simulation.server().epsilon().is_some(), method.name != "local");
    }
}

#[test]
fn without_noise_there_is_no_epsilon() {
    assert_eq!(simulation(config("fedavg", 4), clouds(8)).round().unwrap().epsilon, None);
}

/// Noise is the server's: threads do not change it, and whoever has the config does not have it.
#[test]
fn noise_follows_from_the_key_and_not_from_the_seed() {
    let of = |threads, key| personal_models(Config { threads, ..private("fedsi", 0.5) }, key, 3);
    let one = of(1, 1);
    assert_eq!(of(3, 1), one);
    assert_ne!(of(1, 2), one);
    // A new simulation takes a new key; what it draws tells nothing of the seed.
    let after = || {
        let mut simulation = simulation(private("fedsi", 0.5), clouds(8));
        let drawn: Vec<_> = (0..8).map(|_| simulation.round().unwrap().participants).collect();
        (drawn, global_values(&simulation))
    };
    let (one, other) = (after(), after());
    assert!(one.0 != other.0 && one.1 != other.1);
}

/// The key is a secret: nothing prints it, and without it a run with privacy does not go on.
#[test]
fn the_key_is_kept_and_not_shown() {
    let mut simulation = keyed(private("fedavg", 1.0), clouds(8), 0xab);
    assert!(!format!("{:?}", simulation.snapshot().unwrap()).contains("171"));
    let Snapshot { server, clients } = simulation.snapshot().unwrap();
    let without =
        Snapshot { server: ServerState { privacy_key: None, ..server.clone() }, clients: clients.clone() };
    let error = simulation.restore(without).unwrap_err().to_string();
    assert!(error.contains("no privacy key"), "{error}");
    let mut open = support::simulation(config("fedavg", 4), clouds(8));
    assert_eq!(open.snapshot().unwrap().server.privacy_key, None);
    let error = open.restore(Snapshot { server, clients }).unwrap_err().to_string();
    assert!(error.contains("the run has no privacy"), "{error}");
}

/// A resumed run goes on with the same draws and noise.
#[test]
fn a_resumed_run_gives_the_same_bits() {
    let mut whole = simulation(private("fedsi", 0.7), clouds(8));
    whole.round().unwrap();
    let saved = whole.snapshot().unwrap();
    let mut resumed = simulation(private("fedsi", 0.7), clouds(8));
    resumed.restore(saved).unwrap();
    for _ in 0..4 {
        assert_eq!(whole.round().unwrap().participants, resumed.round().unwrap().participants);
    }
    assert_eq!(whole.snapshot().unwrap(), resumed.snapshot().unwrap());
}

/// Nobody drawn, everybody silent or everybody's training diverged: noise is added, the round counts, nothing is skipped.
#[test]
fn rounds_without_a_usable_update_add_noise_and_count() {
    let mut silent = private("fedavg", 1.0);
    silent.faults.drop = 1.0;
    let mut rare = private("fedavg", 1.0);
    rare.federation.participants = 1;
    let broken: Arc<dyn Federation> = Arc::new(Clouds { clients: 1, samples: 10, broken: Some(0) });
    let mut alone = private("fedavg", 1.0);
    alone.federation.participants = 1;
    alone.model.body = vec![fedsi_nn::LayerSpec::Linear(8), fedsi_nn::LayerSpec::Relu];
    alone.training.optimizer = fedsi_fl::config::OptimizerName::Sgd;
    for (config, federation, q) in
        [(silent, clouds(8) as Arc<dyn Federation>, 0.5), (rare, clouds(8), 0.125), (alone, broken, 1.0)]
    {
        let mut simulation = keyed(config, federation, 4);
        let (accountant, mut empty) = (Accountant::new(q, 1.0, 1e-5), 0);
        for round in 1..=15 {
            let before = global_values(&simulation);
            let record = simulation.round().unwrap();
            assert!(!record.skipped && record.round == round);
            assert_eq!(record.epsilon, Some(accountant.epsilon(round)));
            assert_ne!(before, global_values(&simulation));
            empty += usize::from(record.left_out.len() == record.participants.len());
        }
        assert!(empty > 0, "q {q}");
    }
}

/// A server refuses it too: a client may have been made for another declaration than the config was checked with.
#[test]
fn a_server_with_privacy_takes_no_unprotected_procedure() {
    let open = simulation(config("fedsi", 4), clouds(8)); // which chooses a prior variance
    let client = open.client();
    let layout = client.network().layout();
    let server = |config: &Config| Server::new(config, client.procedure(), layout, client.initial(), 8, 4);
    let refused = server(&private("fedsi", 1.0)).unwrap_err();
    assert_eq!(refused, ServerError::Unprotected(Unprotected::PriorSearch));
    assert!(server(&private("fedsi", 0.0)).is_ok());
}

/// A method that wants everyone in every round gets no benefit of sampling.
#[test]
fn a_method_with_everyone_is_accounted_for_as_such() {
    let everyone = Method {
        name: "everyone",
        declare: |config| {
            let fedavg = fedsi_fl::methods::find("fedavg").unwrap();
            fedsi_fl::methods::Procedure {
                participation: Participation::Everyone,
                ..(fedavg.declare)(config)
            }
        },
        ..Method::EMPTY
    };
    let registry = Registry::builtin().with_method(everyone);
    let config = Config { method: "everyone".to_owned(), ..private("fedavg", 1.0) };
    let mut simulation = Simulation::new(&config.check_with(&registry).unwrap(), clouds(8)).unwrap();
    let record = simulation.round().unwrap();
    assert_eq!(record.participants.len(), 8);
    assert_eq!(record.epsilon, Some(Accountant::new(1.0, 1.0, 1e-5).epsilon(1)));
}

/// Data that was scaled by the rows of all clients is refused by what it does, whatever it is called.
#[test]
fn data_that_was_standardised_together_is_refused() {
    struct Scaled(Arc<Clouds>, Scaling);
    impl Federation for Scaled {
        fn clients(&self) -> usize {
            self.0.clients()
        }
        fn client_name(&self, client: usize) -> Option<&str> {
            self.0.client_name(client)
        }
        fn input_shape(&self) -> &[usize] {
            self.0.input_shape()
        }
        fn task(&self) -> Task {
            self.0.task()
        }
        fn class_names(&self) -> Option<&[String]> {
            None
        }
        fn count(&self, client: usize, split: Split) -> usize {
            self.0.count(client, split)
        }
        fn samples(&self, client: usize, split: Split) -> Samples {
            self.0.samples(client, split)
        }
        fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
            self.0.label_counts(client, split)
        }
        fn target_scaling(&self) -> Option<&Scaling> {
            None
        }
        fn input_scaling(&self) -> Option<&Scaling> {
            Some(&self.1)
        }
    }
    let data = Arc::new(Scaled(clouds(8), Scaling { mean: vec![0.0; 6], std: vec![1.0; 6] }));
    let config = |noise| private("fedavg", noise).check().unwrap();
    let refused = Simulation::new(&config(1.0), Arc::clone(&data) as Arc<dyn Federation>).err().unwrap();
    assert!(refused.is_bad_input() && matches!(refused, SimulationError::Config(_)), "{refused}");
    assert!(refused.to_string().contains("rows of all clients"), "{refused}");
    assert!(Simulation::new(&config(0.0), data).is_ok());
}

/// No round moves the server farther than the clip and the noise allow.
#[test]
fn a_round_moves_the_server_by_the_clip_at_most() {
    let mut config = private("fedavg", 0.01);
    config.privacy.clip = 0.05;
    let mut simulation = simulation(config, clouds(8));
    for _ in 0..5 {
        let before = global_values(&simulation);
        let came = simulation.round().unwrap().participants.len();
        let after = global_values(&simulation);
        let moved: f32 = before.iter().zip(&after).map(|(a, b)| (a - b).powi(2)).sum();
        // Each by the clip over the four that are expected, however many came.
        let most = 0.05 * came as f32 / 4.0 + 0.004;
        assert!(moved.sqrt() < most && moved > 0.0, "{came} moved it by {}", moved.sqrt());
    }
}

/// What a client keeps has no noise: it is what its own training made of what it received.
#[test]
fn personal_parts_have_no_noise() {
    let heads = |noise| {
        let mut config = private("fedper", noise);
        (config.federation.participants, config.tuning.epochs) = (8, 0);
        let models = personal_models(config, 1, 1);
        models.into_iter().map(|model| model[56..].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(heads(0.0), heads(50.0));
}

/// Updates are judged one by one: a comparison would let one client decide what becomes of another.
#[test]
fn with_privacy_updates_are_not_compared() {
    let mut config = private("fedavg", 1.0);
    config.federation.outlier_factor = 1.0; // without privacy the upper half would be refused
    let record = simulation(config.clone(), clouds(8)).round().unwrap();
    assert!(record.left_out.is_empty(), "{:?}", record.left_out);
    config.privacy.noise = 0.0;
    let record = simulation(config, clouds(8)).round().unwrap();
    assert_eq!(record.left_out.len(), 2);
}
