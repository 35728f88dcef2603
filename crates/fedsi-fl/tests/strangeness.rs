//! Models know what inputs are usual: those of their clients are, others are not, whatever the method.
#![allow(clippy::panic, clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use fedsi_data::{Corruption, DataSpec, Federation, PartitionSpec, Size, Split, Strength, Targets};
use fedsi_fl::client::PersonalModel;
use fedsi_fl::{Config, Simulation};
use fedsi_metrics::auroc;
use support::{Clouds, CloudsOfValues, clouds, config, models, simulation};

/// Three clients of the built-in digits, each with five classes.
fn digits() -> Arc<dyn Federation> {
    let data = DataSpec::defaults("digits", Size::Small);
    let partition = PartitionSpec { clients: 3, ..PartitionSpec::labels(10, 20, 40) };
    Arc::from(fedsi_data::open(&data, &partition, 1).unwrap())
}

fn trained(method: &str) -> (Simulation, Arc<dyn Federation>, Vec<PersonalModel>) {
    let mut config = Config::defaults(method, "digits", Size::Small).unwrap();
    (config.partition.clients, config.federation.participants) = (3, 3);
    (config.rounds, config.training.epochs, config.tuning.epochs) = (3, 5, 5);
    let federation = digits();
    let mut simulation = simulation(config, Arc::clone(&federation));
    (0..3).for_each(|_| drop(simulation.round().unwrap()));
    let models = models(&simulation);
    (simulation, federation, models)
}

fn area(simulation: &Simulation, model: &PersonalModel, usual: &[f32], strange: &[f32]) -> f64 {
    let score = |inputs: &[f32]| simulation.client().strangeness(model, inputs).unwrap().unwrap();
    auroc(&score(usual), &score(strange)).unwrap().unwrap()
}

#[test]
fn strange_inputs_score_higher_whatever_is_known_of_parameters() {
    // Points, a mean field, samples, a Laplace posterior of a subnetwork and of all parameters.
    for method in ["fedbabu", "pfedbayes", "fedpop", "fedsi", "fedsi-fac"] {
        let (simulation, federation, models) = trained(method);
        for model in &models {
            let test = federation.samples(model.client, Split::Test);
            let changed = |kind: Corruption, strength: usize| {
                let mut inputs = test.inputs.clone();
                kind.apply(Strength::ALL[strength], &mut inputs, [1, 28, 28], 1, model.client);
                area(&simulation, model, &test.inputs, &inputs)
            };
            let inverted: Vec<f32> = test.inputs.iter().map(|pixel| -pixel).collect();
            let found = [
                area(&simulation, model, &test.inputs, &inverted),
                changed(Corruption::Noise, 3),
                changed(Corruption::Blur, 4),
                changed(Corruption::Occlusion, 4),
            ];
            assert!(found.iter().all(|&area| area > 0.8), "{method}, client {}: {found:?}", model.client);
            let scores = simulation.client().strangeness(model, &test.inputs).unwrap().unwrap();
            let mean = scores.iter().sum::<f64>() / scores.len() as f64;
            assert!(mean.abs() < 1.0, "{method}: own test samples are usual, {mean}");
        }
    }
}

#[test]
fn classes_that_a_client_never_saw_are_strange() {
    let (simulation, federation, models) = trained("fedsi");
    // Clients 0 and 1 have no class in common.
    let (own, unseen) = (federation.samples(0, Split::Test), federation.samples(1, Split::Test));
    let found = area(&simulation, &models[0], &own.inputs, &unseen.inputs);
    assert!(found > 0.6, "{found}");
}

#[test]
fn a_row_scores_the_same_alone_and_beside_others() {
    let (simulation, federation, models) = trained("fedbabu");
    let test = federation.samples(0, Split::Test);
    let score = |inputs: &[f32]| simulation.client().strangeness(&models[0], inputs).unwrap().unwrap();
    let (all, one) = (score(&test.inputs), score(&test.inputs[784..2 * 784]));
    assert!((all[1] - one[0]).abs() < 1e-3, "{} {}", all[1], one[0]);
    assert_eq!(all, score(&test.inputs), "asked again");
    let error = simulation.client().strangeness(&models[0], &test.inputs[..700]).unwrap_err();
    assert!(error.to_string().contains("700 values"), "{error}");
}

#[test]
fn regressions_know_what_is_usual_too() {
    let mut config = config("fedsi", 2);
    config.data.files.task = fedsi_data::TaskKind::Regression;
    let federation = Arc::new(CloudsOfValues {
        clouds: Clouds { clients: 2, samples: 40, broken: None },
        outputs: 1,
        values: |samples| match &samples.targets {
            Targets::Classes(labels) => labels.iter().map(|&label| label as f32 - 1.0).collect(),
            Targets::Values(_) => panic!("clouds have classes"),
        },
        scaling: None,
    });
    let simulation = simulation(config, Arc::clone(&federation) as Arc<dyn Federation>);
    let models = models(&simulation);
    let test = federation.samples(0, Split::Test);
    let far: Vec<f32> = test.inputs.iter().map(|value| 4.0 * value).collect();
    let found = area(&simulation, &models[0], &test.inputs, &far);
    assert!(found > 0.95, "{found}");
}

#[test]
fn few_samples_say_nothing_of_what_is_usual() {
    let few = Arc::new(Clouds { clients: 2, samples: 8, broken: None });
    let simulation = simulation(config("fedbabu", 2), few);
    let models = models(&simulation);
    assert_eq!(models[0].strangeness, None, "8 samples");
    assert_eq!(simulation.client().strangeness(&models[0], &[0.0; 6]).unwrap(), None);
    let enough = support::simulation(config("fedbabu", 2), clouds(2));
    assert!(support::models(&enough)[0].strangeness.is_some(), "10 samples");
}
