//! Predictions over the classes that a client has training samples of, alone.
#![allow(missing_docs, clippy::panic, clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use fedsi_data::{Federation as _, Split};
use fedsi_fl::client::PersonalModel;
use fedsi_fl::config::{ModesSetting, Temperature};
use fedsi_fl::methods::METHODS;
use fedsi_fl::{Config, Simulation};
use support::{CLASSES, Clouds, CloudsOfValues, TwoClasses, clouds, config, models, simulation};

fn trained(method: &str, own_classes: bool, temperature: Temperature) -> Simulation {
    let mut config = Config { rounds: 5, ..config(method, 3) };
    if method == "fedsi" {
        config.fedsi.modes = ModesSetting::Fixed(2);
    }
    (config.calibration.own_classes, config.calibration.temperature) = (own_classes, temperature);
    let mut simulation = simulation(config, Arc::new(TwoClasses(clouds(3))));
    (0..5).for_each(|_| drop(simulation.round().unwrap()));
    simulation
}

#[test]
fn every_method_predicts_own_classes_alone() {
    for method in METHODS {
        let fixed = Temperature::Fixed(1.0);
        let (all, own) = (trained(method.name, false, fixed), trained(method.name, true, fixed));
        for (client, (open, restricted)) in models(&all).iter().zip(models(&own)).enumerate() {
            assert_eq!(open.own_classes, None);
            // Training is the same; what the federation chose by predictions may not be.
            assert_eq!(open.parameters().values(), restricted.parameters().values(), "{}", method.name);
            let mut expected = vec![0_u32, 1, 2];
            expected.remove(client);
            assert_eq!(restricted.own_classes.as_ref().unwrap().classes(), expected);
            // All classes, to see where the others go.
            let inputs = clouds(3).samples(client, Split::Test).inputs;
            let found = own.client().probabilities(&restricted, &inputs).unwrap();
            for row in found.chunks(CLASSES) {
                assert_eq!(row[client], 0.0, "{}", method.name);
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{}", method.name);
            }
            // Of one network: divided by the probability of all own classes. Nothing but the temperature of a mixture is chosen.
            if restricted.modes.len() == 1 {
                let open = PersonalModel { own_classes: None, ..restricted.clone() };
                let open = own.client().probabilities(&open, &inputs).unwrap();
                for (row, found) in open.chunks(CLASSES).zip(found.chunks(CLASSES)) {
                    for class in (0..CLASSES).filter(|class| *class != client) {
                        let share = row[class] / (1.0 - row[client]);
                        assert!((found[class] - share).abs() < 1e-9, "{}: {row:?} {found:?}", method.name);
                    }
                }
            }
        }
    }
}

/// Each network is restricted before predictions are averaged: one that is sure of another class has a full vote.
#[test]
fn a_mixture_averages_restricted_networks() {
    let own = trained("fedsi", true, Temperature::Fixed(1.0));
    let inputs = clouds(3).samples(0, Split::Test).inputs;
    let model = PersonalModel { mixture_temperature: 1.0, ..models(&own).remove(0) };
    let whole = own.client().probabilities(&model, &inputs).unwrap();
    let alone = |mode: usize| {
        let one = PersonalModel { modes: vec![model.modes[mode].clone()], ..model.clone() };
        own.client().probabilities(&one, &inputs).unwrap()
    };
    // Draws of a mode depend on its place alone, and the default predictive has none.
    let (first, second) = (alone(0), alone(1));
    for ((found, a), b) in whole.iter().zip(first).zip(second) {
        assert!((found - (a + b) / 2.0).abs() < 1e-9, "{found} {a} {b}");
    }
}

/// Temperatures and prior variances are chosen by predictions over the classes that a client trains on: other ones than of all
/// classes.
#[test]
fn what_is_chosen_is_chosen_over_own_classes() {
    let temperature = |own_classes| {
        let simulation = trained("fedavg", own_classes, Temperature::AUTO);
        simulation.server().calibration().temperature.unwrap()
    };
    assert_ne!(temperature(true), temperature(false));
    let prior_variance = |own_classes| {
        let simulation = trained("fedsi-fac", own_classes, Temperature::Fixed(1.0));
        simulation.server().calibration().prior_variance.unwrap()
    };
    assert_ne!(prior_variance(true), prior_variance(false));
}

#[test]
fn a_regression_has_no_classes() {
    let mut config = config("fedavg", 3);
    config.calibration.own_classes = true;
    let values = CloudsOfValues {
        clouds: Clouds { clients: 3, samples: 10, broken: None },
        outputs: 1,
        values: |samples| samples.inputs.chunks(6).map(|row| row[0]).collect(),
        scaling: None,
    };
    let refused = Simulation::new(&config.check().unwrap(), Arc::new(values));
    let error = refused.err().unwrap().to_string();
    assert!(
        error.contains("calibration.own_classes") && error.contains("a regression has no classes"),
        "{error}"
    );
}
