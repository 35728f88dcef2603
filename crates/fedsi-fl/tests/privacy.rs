//! Runs with noise on what is shared, seen from outside.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_fl::Config;
use fedsi_fl::config::FinalPrior;
use fedsi_fl::methods::METHODS;
use fedsi_fl::server::Accountant;
use support::{clouds, config, global_values, personal_models, simulation};

fn private(method: &str, noise: f64) -> Config {
    let mut config = config(method, 4);
    (config.privacy.noise, config.privacy.clip) = (noise, 0.5);
    config.fedsi.prior_variance = FinalPrior::Fixed(1.0);
    config
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
            let shared = simulation.server().shared();
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

/// Noise is the server's: threads, and what else is drawn, do not change it.
#[test]
fn noise_follows_from_the_seed() {
    let of = |threads, seed| personal_models(Config { threads, seed, ..private("fedsi", 0.5) }, clouds(8), 3);
    let one = of(1, 1);
    assert_eq!(of(3, 1), one);
    assert_ne!(of(1, 2), one);
}

/// No round moves the server farther than the clip and the noise allow.
#[test]
fn a_round_moves_the_server_by_the_clip_at_most() {
    let mut config = private("fedavg", 0.01);
    config.privacy.clip = 0.05;
    let mut simulation = simulation(config, clouds(8));
    for _ in 0..3 {
        let before = global_values(&simulation);
        simulation.round().unwrap();
        let after = global_values(&simulation);
        let moved: f32 = before.iter().zip(&after).map(|(a, b)| (a - b).powi(2)).sum();
        assert!(moved.sqrt() < 0.06 && moved > 0.0, "moved by {}", moved.sqrt());
    }
}

/// What a client keeps has no noise: it is what its own training made of what it received.
#[test]
fn personal_parts_have_no_noise() {
    let heads = |noise| {
        let mut config = private("fedper", noise);
        (config.federation.participants, config.tuning.epochs) = (8, 0);
        let models = personal_models(config, clouds(8), 1);
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
