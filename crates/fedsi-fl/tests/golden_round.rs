//! One FedSI round against PyTorch (`golden/fedsi_round.py`), piece by piece: local training with given batches, then
//! curvature, selection and posterior at given parameters. `golden_simulation.rs` runs the round as a whole.
#![allow(clippy::unwrap_used)]

mod golden;

use std::sync::Arc;

use fedsi_bayes::{Candidates, Curvature, Likelihood, Prior, Problem, RuleName, Rules};
use fedsi_nn::{LayerSpec, Loss, Network, OptimizerSpec, Scalar, Targets, Trainer};
use fedsi_random::{Purpose, SERVER, Streams};
use golden::{Client, Draws, Round, distance, doubles, load, relative_error};
use rand::seq::SliceRandom as _;

const SEED: u64 = 1;
const SAMPLES: [u32; 2] = [20, 24];
const EPOCHS: usize = 3;

/// The head and the order of samples that a run with this seed has in its first round.
fn engine_draws() -> Draws {
    let streams = Streams::new(SEED);
    let layers = [LayerSpec::Linear(8), LayerSpec::Relu, LayerSpec::Linear(3)];
    let network = Network::new(&[6], &layers).unwrap();
    let initial: Vec<f32> = network.initialise(&mut streams.stream(Purpose::Initialisation, SERVER, 0));
    let head = initial[network.layout().head()].to_vec();
    let orders = |(client, &count): (usize, &u32)| {
        let mut rng = streams.stream(Purpose::Batches, client as u64, 1);
        let mut order: Vec<u32> = (0..count).collect();
        let epoch = |_| {
            order.shuffle(&mut rng);
            order.clone()
        };
        (0..EPOCHS).map(epoch).collect()
    };
    Draws { seed: SEED, head, batches: SAMPLES.iter().enumerate().map(orders).collect() }
}

/// If this fails, random streams have changed: every saved run is then another one.
#[test]
fn the_draws_are_those_of_the_engine() {
    if std::env::var_os("FEDSI_UPDATE_SNAPSHOTS").is_some() {
        let text = serde_json::to_string(&engine_draws()).unwrap() + "\n";
        std::fs::write(golden::path(golden::DRAWS), text).unwrap();
    }
    assert_eq!(golden::draws(), engine_draws());
}

/// Local training of the body under the server's Gaussian, as the engine sets it up. Returns all parameters and the last
/// epoch's mean loss.
fn train<T: Scalar>(round: &Round, draws: &Draws, client: usize) -> (Vec<T>, f64) {
    let network = round.network();
    let settings = &round.settings;
    let of = |values: &[f32]| values.iter().map(|&value| T::of(f64::from(value))).collect::<Vec<T>>();
    let samples = &round.clients[client];
    let count = samples.labels.len();
    let mut parameters = of(&[&*round.server.mean, &*draws.head].concat());
    let optimizer = OptimizerSpec::adam(settings.rate);
    let mut trainer =
        Trainer::new(&network, network.body_layers(), Loss::CrossEntropy, optimizer, settings.batch);
    let body = of(&round.server.variance).into_iter();
    let head = draws.head.iter().map(|_| T::infinity());
    let weights: Vec<T> =
        body.chain(head).map(|variance| T::one() / (T::of(count as f64) * variance)).collect();
    trainer.set_prior(&parameters.clone(), weights.into_iter());
    let inputs = of(&samples.flat_inputs());
    let mut mean = f64::NAN;
    for order in &draws.batches[client] {
        let mut sum = 0.0;
        for rows in order.chunks(settings.batch) {
            let targets = Targets::Classes(&samples.labels);
            sum += trainer.step(&network, &mut parameters, &inputs, targets, rows) * rows.len() as f64;
        }
        mean = sum / count as f64;
    }
    (parameters, mean)
}

/// Observed: 3e-8 in f32, one unit in the last place (PyTorch in f32 is 3e-7 away from itself in f64); 4e-16 in f64.
#[test]
fn local_training_agrees_with_pytorch() {
    let (round, draws) = load();
    for (index, client) in round.clients.iter().enumerate() {
        let (parameters, loss) = train::<f32>(&round, &draws, index);
        let error = distance(&doubles(&parameters), &doubles(&client.trained));
        assert!(error < 1e-6, "client {index}, f32: {error:e}");
        assert!((loss - client.loss).abs() < 1e-6, "client {index}: loss {loss}, expected {}", client.loss);
        let head = round.server.mean.len()..;
        assert_eq!(parameters[head], draws.head, "client {index}: the head moved");

        let (parameters, _) = train::<f64>(&round, &draws, index);
        let error = distance(&parameters, &client.trained_f64);
        assert!(error < 1e-14, "client {index}, f64: {error:e}");
    }
}

/// What the client's posterior is inferred from.
fn problem<'a>(round: &Round, client: &Client, inputs: &'a [f64]) -> Problem<'a> {
    let network = Arc::new(round.network());
    Problem::new(network, doubles(&client.trained), inputs, Likelihood::Categorical).unwrap()
}

fn curvature(round: &Round, client: &Client) -> Curvature {
    let inputs = doubles(&client.flat_inputs());
    Curvature::diagonal(&problem(round, client, &inputs), round.network().layout().body()).unwrap()
}

#[test]
fn curvature_agrees_with_autograd_and_dead_units_have_none() {
    let (round, _) = load();
    let network = round.network();
    for (index, client) in round.clients.iter().enumerate() {
        let curvature = curvature(&round, client);
        let error = relative_error(&curvature.ggn, &client.diag_ggn);
        assert!(error < 1e-12, "client {index}: {error:e}");
        for (place, (found, expected)) in curvature.ggn.iter().zip(&client.diag_ggn).enumerate() {
            assert_eq!(*found == 0.0, *expected == 0.0, "client {index}, parameter {place}: {found}");
        }
        let zeros = curvature.ggn.iter().filter(|&&value| value == 0.0).count();
        assert_eq!(zeros, client.dead_units.len() * (network.inputs() + 1), "client {index}");
    }
}

#[test]
fn selection_and_posterior_agree_with_dense_inverses() {
    let (round, _) = load();
    let network = round.network();
    let body = network.layout().body();
    let prior = doubles(&round.server.variance);
    let size = (round.settings.share * body.len() as f64).round() as usize;
    for (index, client) in round.clients.iter().enumerate() {
        let (parameters, inputs) = (doubles(&client.trained), doubles(&client.flat_inputs()));
        let curvature = curvature(&round, client);
        let candidates =
            Candidates::new(network.layout(), body.clone(), &curvature, &prior, &parameters).unwrap();
        let marginal: Vec<f64> = candidates.marginal_variances().collect();
        let error = relative_error(&marginal, &client.marginal_variances);
        assert!(error < 1e-12, "client {index}: marginal variances {error:e}");
        assert_eq!(client.rules.len(), 2);
        for (name, expected) in &client.rules {
            let label = format!("client {index}, rule {name}");
            let rule = Rules::builtin().find(&RuleName::from(name.as_str())).unwrap();
            // Neither rule draws.
            let mut rng = Streams::new(0).stream(Purpose::Selection, 0, 0);
            let subnetwork = rule.select(&candidates, size, &mut rng).unwrap();
            assert_eq!(subnetwork.indices(), expected.selected, "{label}");
            let own: Vec<f64> = expected.selected.iter().map(|&place| prior[place]).collect();
            let problem = problem(&round, client, &inputs);
            let mut precision = fedsi_bayes::ggn(&problem, &expected.selected).unwrap();
            for (place, variance) in own.iter().enumerate() {
                precision[place * (size + 1)] += 1.0 / variance;
            }
            let error = relative_error(&precision, &expected.precision);
            assert!(error < 1e-12, "{label}: precision {error:e}");
            let given = Prior::diagonal(body.clone(), prior.clone());
            let selection = problem.choose_indices(&given, expected.selected.clone()).unwrap();
            let fit = problem.fit(&selection, 0.0).unwrap();
            let posterior = fit.posterior();
            let error = relative_error(&posterior.covariance(), &expected.covariance);
            assert!(error < 1e-9, "{label}: covariance {error:e}");
            let variances: Vec<f32> =
                posterior.marginal_variances().into_iter().map(|variance| variance as f32).collect();
            let apart = golden::units_apart(&variances, &expected.upload_variances);
            assert!(apart <= 1, "{label}: uploaded variances {apart} units apart");
        }
    }
}
