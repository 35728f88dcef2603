//! Mixtures of several networks, and temperatures of every method.
#![allow(missing_docs, clippy::panic, clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use fedsi_data::{Federation as _, Split};
use fedsi_fl::client::{LocalData, PersonalModel};
use fedsi_fl::config::{ModesSetting, PosteriorName, Temperature};
use fedsi_fl::methods::METHODS;
use fedsi_fl::parameters::Parameters;
use fedsi_fl::{Config, Simulation};
use support::{CLASSES, Clouds, clouds, config, evaluations, models, simulation};

/// FedSI with so many modes, for so many rounds.
fn mixture(modes: usize, rounds: usize) -> Config {
    let mut config = config("fedsi", 3);
    (config.fedsi.modes, config.rounds) = (ModesSetting::Fixed(modes), rounds);
    config
}

fn trained(config: Config) -> Simulation {
    let rounds = config.rounds;
    let mut simulation = simulation(config, clouds(5));
    for _ in 0..rounds {
        simulation.round().unwrap();
    }
    simulation
}

fn head(simulation: &Simulation, mode: usize) -> Vec<f32> {
    let head = simulation.client().network().layout().head();
    simulation.global_parameters().unwrap()[mode].values()[head].to_vec()
}

#[test]
fn modes_take_turns_and_only_the_trained_one_moves() {
    let mut simulation = simulation(mixture(3, 6), clouds(5));
    for round in 1..=6_usize {
        let before = simulation.server().shared().to_vec();
        let record = simulation.round().unwrap();
        let turn = (round - 1) % 3;
        assert_eq!(record.mode, Some(turn), "round {round}");
        for (mode, before) in before.iter().enumerate() {
            let moved = before.values() != simulation.server().shared()[mode].values();
            assert_eq!(moved, mode == turn, "round {round}, mode {mode}");
        }
    }
    assert_ne!(head(&simulation, 0), head(&simulation, 1), "each has a head of its own");
}

#[test]
fn one_mode_costs_and_sends_what_several_do_in_training() {
    let bytes = |modes| {
        let mut config = mixture(modes, 4);
        config.fedsi.prior_variance = fedsi_fl::config::FinalPrior::Fixed(1.0);
        config.fedsi.posterior_interval = 1;
        let mut simulation = simulation(config, clouds(5));
        (0..4).map(|_| simulation.round().unwrap().bytes.up).sum::<u64>()
    };
    assert_eq!(bytes(1), bytes(2));
}

#[test]
fn modes_part_from_a_common_body_under_heads_of_their_own() {
    let mut config = mixture(2, 8);
    config.fedsi.common_share = 0.5;
    let mut simulation = simulation(config, clouds(5));
    for round in 1..=8 {
        simulation.round().unwrap();
        let same = simulation.server().shared()[0].values() == simulation.server().shared()[1].values();
        assert_eq!(same, round <= 4, "round {round}");
    }
    assert_ne!(head(&simulation, 0), head(&simulation, 1));
}

#[test]
fn a_mixture_predicts_the_mean_of_its_modes() {
    let mut config = mixture(3, 6);
    // Nothing is chosen: no temperature of the average.
    config.fedsi.prior_variance = fedsi_fl::config::FinalPrior::Fixed(0.5);
    let simulation = trained(config);
    let (client, inputs) = (simulation.client(), clouds(5).samples(1, Split::Test).inputs);
    for model in models(&simulation) {
        assert_eq!((model.modes.len(), model.temperature, model.mixture_temperature), (3, 1.0, 1.0));
        let whole = client.probabilities(&model, &inputs).unwrap();
        let mut mean = vec![0.0; whole.len()];
        for mode in &model.modes {
            assert!(matches!(mode.parameters, Parameters::Laplace(_)));
            let alone = PersonalModel { modes: vec![mode.clone()], ..model.clone() };
            let found = client.probabilities(&alone, &inputs).unwrap();
            mean.iter_mut().zip(found).for_each(|(sum, probability)| *sum += probability / 3.0);
        }
        for (found, expected) in whole.iter().zip(&mean) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        let sharper = PersonalModel { mixture_temperature: 0.5, ..model.clone() };
        for (row, sharper) in
            whole.chunks(CLASSES).zip(client.probabilities(&sharper, &inputs).unwrap().chunks(CLASSES))
        {
            let squares: f64 = row.iter().map(|p| p * p).sum();
            for (p, q) in row.iter().zip(sharper) {
                assert!((p * p / squares - q).abs() < 1e-12, "a temperature of a half squares");
            }
        }
    }
}

#[test]
fn what_modes_set_aside_is_scored_and_the_average_is_sharpened() {
    // Larger clients, so that a few samples are common to all modes.
    let federation = Arc::new(Clouds { clients: 5, samples: 60, broken: None });
    let mut simulation = simulation(mixture(2, 5), federation);
    for round in 1..=5 {
        let record = simulation.round().unwrap();
        assert_eq!(record.calibration.len(), usize::from(round == 4), "round {round}");
        let Some(choice) = record.calibration.first() else { continue };
        let aside: usize = record.participants.iter().map(|client| 2 * ((60 + client) / 5)).sum();
        assert_eq!(choice.samples, aside, "a fifth of each participant's data, in each mode");
        let temperature = choice.mixture_temperature.unwrap();
        assert!(temperature > 0.2 && temperature < 1.0, "{temperature}");
        let [low, high] = choice.interval.unwrap();
        assert!(low <= choice.chosen && choice.chosen <= high, "{choice:?}");
    }
    let chosen = simulation.server().calibration();
    for model in models(&simulation) {
        assert_eq!(Some(model.mixture_temperature), chosen.mixture_temperature);
    }
}

/// Clients of a thousand samples: what two modes have in common is enough to measure what averaging them does.
#[test]
fn the_effect_of_averages_is_measured_where_clients_are_large() {
    let federation: Arc<dyn fedsi_data::Federation> =
        Arc::new(Clouds { clients: 4, samples: 1000, broken: None });
    let run = |posterior| {
        let mut config = mixture(3, 6);
        (config.fedsi.posterior, config.training.epochs) = (posterior, 1);
        config.calibration.temperature = Temperature::AUTO;
        let mut simulation = simulation(config, Arc::clone(&federation));
        let records: Vec<_> = (0..6).map(|_| simulation.round().unwrap()).collect();
        (simulation, records)
    };
    for (posterior, searches) in [
        (PosteriorName::Subnetwork, &["prior variance", "temperature"][..]),
        (PosteriorName::None, &["temperature"]),
    ] {
        let (simulation, records) = run(posterior);
        let whats = |record: &fedsi_fl::coordinator::RoundRecord| -> Vec<String> {
            record.calibration.iter().map(|choice| choice.what.clone()).collect()
        };
        let averages = "temperature of averages".to_owned();
        for (round, record) in (1..).zip(&records) {
            let expected = match round {
                4 => {
                    [searches.iter().map(|&what| what.to_owned()).collect(), vec![averages.clone()]].concat()
                }
                6 => vec![averages.clone()],
                _ => Vec::new(),
            };
            assert_eq!(whats(record), expected, "round {round}");
        }
        let (first, last) = (records[3].calibration.last().unwrap(), &records[5].calibration[0]);
        // A quarter of a fifth of each client, for two pairs of modes; the same clients at the end.
        let common: usize = records[3].participants.iter().map(|client| 2 * ((1000 + client) / 5 / 4)).sum();
        assert_eq!((first.samples, last.samples), (common, common));
        for choice in [first, last] {
            let (alone, count) = (choice.alone.as_ref().unwrap(), choice.candidates.len());
            assert_eq!(
                (choice.nll.len(), alone.nll.len(), alone.excess_confidence.len()),
                (count, count, count)
            );
            let plain = choice.candidates.iter().position(|value| (value - 1.0).abs() < 1e-9).unwrap();
            assert!(choice.nll[plain] < alone.nll[plain], "an average loses less than its modes: {choice:?}");
        }
        let calibration = simulation.server().calibration();
        assert_eq!(calibration.mixture_temperature, Some(last.chosen));
        assert_eq!(calibration.temperature_alone, Some(first.alone.as_ref().unwrap().temperature));
        for model in models(&simulation) {
            assert_eq!(model.mixture_temperature, last.chosen);
        }
    }
}

#[test]
fn every_method_has_a_temperature_that_the_federation_chooses() {
    for method in METHODS {
        let mut config = Config { rounds: 5, ..config(method.name, 5) };
        config.calibration.temperature = Temperature::AUTO;
        let mut simulation = simulation(config.clone(), clouds(5));
        let choices: Vec<_> = (0..5).flat_map(|_| simulation.round().unwrap().calibration).collect();
        let whats: Vec<&str> = choices.iter().map(|choice| choice.what.as_str()).collect();
        let expected: &[&str] = if ["fedsi", "fedsi-fac"].contains(&method.name) {
            &["prior variance", "temperature"]
        } else {
            &["temperature"]
        };
        assert_eq!(whats, expected, "{}", method.name);
        let chosen = choices.last().unwrap().chosen;
        let model = models(&simulation).remove(0);
        assert_eq!(model.temperature, chosen, "{}", method.name);
        // Given as a number it does the same to the same models.
        config.calibration.temperature = Temperature::Fixed(2.0);
        let hot = trained(config);
        let model = models(&hot).remove(0);
        let cold = PersonalModel { temperature: 1.0, ..model.clone() };
        let inputs = clouds(5).samples(0, Split::Test).inputs;
        let entropy = |model: &PersonalModel| -> f64 {
            let found = hot.client().probabilities(model, &inputs).unwrap();
            found.iter().map(|p| -p * p.ln()).sum()
        };
        assert!(entropy(&model) > entropy(&cold), "{}", method.name);
    }
}

#[test]
fn fedsi_without_a_posterior_is_a_point_method_under_its_prior() {
    let mut config = mixture(1, 3);
    config.fedsi.posterior = PosteriorName::None;
    let points = trained(config.clone());
    assert!(points.server().shared()[0].variance().is_none());
    assert!(models(&points).iter().all(|model| matches!(model.parameters(), Parameters::Point(_))));
    let moved = |alpha: f64| {
        let mut config = config.clone();
        config.fedsi.alpha = alpha;
        let start = simulation(config.clone(), clouds(5)).server().shared()[0].values().to_vec();
        let end = trained(config).server().shared()[0].values().to_vec();
        start.iter().zip(end).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>()
    };
    assert!(moved(1e-4) < 0.3 * moved(1.0), "the prior holds the body back");
}

#[test]
fn a_mixture_is_restored_and_joined_as_any_other() {
    let config = mixture(2, 6);
    let mut whole = simulation(config.clone(), clouds(5));
    for _ in 0..3 {
        whole.round().unwrap();
    }
    let snapshot = whole.snapshot().unwrap();
    let mut resumed = simulation(config, clouds(5));
    resumed.restore(snapshot.clone()).unwrap();
    for _ in 3..6 {
        whole.round().unwrap();
        resumed.round().unwrap();
    }
    assert_eq!(whole.server().state(), resumed.server().state());
    let of = |simulation: &Simulation| -> Vec<_> {
        evaluations(simulation).into_iter().map(|client| (client.model, client.predictions)).collect()
    };
    assert_eq!(of(&whole), of(&resumed));
    let data = LocalData::all(clouds(6).samples(5, Split::Train));
    let joined = whole.join(5, &data).unwrap();
    assert_eq!(joined.modes.len(), 2);
    assert_ne!(joined.modes[0], joined.modes[1]);
    let mut single = simulation(mixture(1, 6), clouds(5));
    let error = single.restore(snapshot).unwrap_err().to_string();
    assert!(error.contains("it has 2 modes, and the run has 1"), "{error}");
}
