//! Clients that take no part in training and are personalised and scored at the end.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_data::{Federation, Split};
use fedsi_fl::client::LocalData;
use fedsi_fl::config::Temperature;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::methods::METHODS;
use fedsi_fl::server::{Accountant, ServerState};
use fedsi_fl::{Config, Simulation};
use support::{Clouds, clouds, config, evaluations, private_data, simulation};

const ROUNDS: usize = 5;

fn with_novel(method: &str, participants: usize, novel: &[usize]) -> Config {
    let mut config = Config { rounds: ROUNDS, ..config(method, participants) };
    config.federation.novel_clients = novel.to_vec();
    config
}

fn rounds(config: Config, federation: Arc<dyn Federation>) -> (Vec<RoundRecord>, Simulation) {
    let mut simulation = simulation(config, federation);
    let records = (0..ROUNDS).map(|_| simulation.round().unwrap()).collect();
    (records, simulation)
}

fn trained(config: Config, federation: Arc<dyn Federation>) -> ServerState {
    rounds(config, federation).1.server().state().clone()
}

#[test]
fn they_never_train_and_are_personalised_from_the_newest_shared_part() {
    for method in METHODS {
        let federation = clouds(6);
        let mut config = with_novel(method.name, 3, &[4, 1]);
        config.calibration.temperature = Temperature::AUTO;
        let (records, simulation) = rounds(config, Arc::clone(&federation) as Arc<dyn Federation>);
        let asked: Vec<usize> = records.iter().flat_map(|record| record.participants.clone()).collect();
        assert!(!asked.is_empty() && asked.iter().all(|client| ![1, 4].contains(client)), "{asked:?}");
        let everyone = method.name == "local";
        assert!(records.iter().all(|record| record.participants.len() == if everyone { 4 } else { 3 }));
        assert_eq!(simulation.coordinator().kept(1).unwrap(), None, "{}", method.name);
        let clients = evaluations(&simulation);
        assert_eq!(clients.len(), 6, "{}", method.name);
        for novel in [1, 4] {
            let data = LocalData::all(federation.samples(novel, Split::Train));
            let download = simulation.server().personal_download();
            let expected = simulation.client().personalise(novel, &download, None, &data).unwrap();
            assert!(clients[novel].model.as_ref() == Some(&expected), "{} client {novel}", method.name);
            assert_eq!(clients[novel].predictions.len(), federation.count(novel, Split::Test));
        }
    }
}

/// Their data decides nothing: neither what is shared nor what the federation chooses.
#[test]
fn what_the_others_learn_does_not_depend_on_them() {
    for method in METHODS {
        let mut config = with_novel(method.name, 3, &[1]);
        config.calibration.temperature = Temperature::AUTO;
        let broken = Clouds { clients: 5, samples: 10, broken: Some(1) };
        assert_eq!(trained(config.clone(), Arc::new(broken)), trained(config, clouds(5)), "{}", method.name);
    }
}

/// The last client novel: the federation of those before it, to the bit.
#[test]
fn the_others_are_a_federation_of_their_own() {
    for method in METHODS {
        let (records, with) = rounds(with_novel(method.name, 2, &[4]), clouds(5));
        let (expected, without) = rounds(with_novel(method.name, 2, &[]), clouds(4));
        let drawn = |records: &[RoundRecord]| -> Vec<Vec<usize>> {
            records.iter().map(|record| record.participants.clone()).collect()
        };
        assert_eq!(drawn(&records), drawn(&expected), "{}", method.name);
        assert_eq!(with.server().state(), without.server().state(), "{}", method.name);
        let (with, without) = (evaluations(&with), evaluations(&without));
        assert_eq!(with[..4], without[..], "{}", method.name);
    }
}

#[test]
fn participants_are_counted_among_the_others() {
    let message = |change: &dyn Fn(&mut Config)| {
        let mut config = with_novel("fedavg", 0, &[]);
        change(&mut config);
        match config.check() {
            Err(error) => error.to_string(),
            Ok(config) => match Simulation::new(&config, clouds(12)) {
                Err(error) => error.to_string(),
                Ok(_) => String::new(),
            },
        }
    };
    let novel = |ids: &[usize]| {
        let ids = ids.to_vec();
        message(&move |config: &mut Config| config.federation.novel_clients = ids.clone())
    };
    assert_eq!(novel(&[0, 11]), "");
    assert!(novel(&[3, 12]).contains("there is no client 12"), "{}", novel(&[3, 12]));
    assert!(novel(&[3, 2, 3]).contains("3 is there twice"), "{}", novel(&[3, 2, 3]));
    let all: Vec<usize> = (0..12).collect();
    assert!(novel(&all).contains("all are novel"), "{}", novel(&all));
    let too_many = message(&|config| {
        (config.federation.participants, config.federation.novel_clients) = (11, vec![1, 2]);
    });
    assert!(too_many.contains("10 clients that are not novel, of 12"), "{too_many}");
    // As many as there are where nothing is said: ten, or all that are not novel.
    let drawn = |ids: Vec<usize>| {
        let mut config = with_novel("fedavg", 0, &ids);
        config.rounds = 1;
        simulation(config, clouds(12)).round().unwrap().participants
    };
    assert_eq!(drawn(vec![0, 5, 11]), [1, 2, 3, 4, 6, 7, 8, 9, 10]);
    assert_eq!(drawn(vec![]).len(), 10);
}

/// Epsilon is that of the clients that can be drawn.
#[test]
fn privacy_counts_those_that_can_be_drawn() {
    let mut config = private_data(with_novel("fedavg", 2, &[0, 7]));
    (config.privacy.noise, config.privacy.clip) = (1.0, 1.0);
    let (records, simulation) = rounds(config, clouds(10));
    let expected = Accountant::new(2.0 / 8.0, 1.0, 1e-5);
    let rounds = ROUNDS as u64;
    assert_eq!(simulation.server().epsilon(), Some(expected.epsilon(rounds)));
    let asked: Vec<usize> = records.iter().flat_map(|record| record.participants.clone()).collect();
    assert!(asked.iter().all(|client| ![0, 7].contains(client)), "{asked:?}");
}

/// Settings are chosen without them: scores on held-out data are of the others alone.
#[test]
fn held_out_scores_are_of_the_others() {
    let held_out = |novel: &[usize], broken| {
        let mut config = with_novel("fedavg", 2, novel);
        config.validation.fraction = 0.3;
        let federation = Clouds { clients: 4, samples: 10, broken };
        rounds(config, Arc::new(federation)).1.validate().unwrap()
    };
    assert!(
        held_out(&[3], Some(3)).nll().is_some_and(f64::is_finite),
        "a novel client's model is not asked for"
    );
    assert_eq!(held_out(&[3], Some(3)), held_out(&[3], None));
}

/// A run that goes on from its state draws whom it would have drawn.
#[test]
fn a_resumed_run_gives_the_same_bits() {
    let config = with_novel("fedrep", 2, &[2]);
    let (_, whole) = rounds(config.clone(), clouds(5));
    let mut first = simulation(config.clone(), clouds(5));
    (0..2).for_each(|_| drop(first.round().unwrap()));
    let snapshot = first.snapshot().unwrap();
    let mut second = simulation(config, clouds(5));
    second.restore(snapshot).unwrap();
    (2..ROUNDS).for_each(|_| drop(second.round().unwrap()));
    assert_eq!(second.server().state(), whole.server().state());
    assert_eq!(evaluations(&second), evaluations(&whole));
}
