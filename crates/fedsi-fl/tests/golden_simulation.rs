//! The whole FedSI round of `golden/fedsi_round.py` through the simulation: the server's new Gaussian for both rules, both
//! weightings and the three averages of variances.
#![allow(clippy::unwrap_used, clippy::panic)]

mod golden;

use std::sync::Arc;

use fedsi_data::{Federation, PartitionKind, Samples, Scaling, Size, Split, Targets, Task};
use fedsi_fl::client::LocalData;
use fedsi_fl::config::{FinalPrior, VarianceAverage, Weighting, WeightingName};
use fedsi_fl::coordinator::Snapshot;
use fedsi_fl::parameters::{Gaussian, SharedParameters};
use fedsi_fl::server::{Aggregation, Server, ServerState};
use fedsi_fl::wire::{Download, Upload, Variances};
use fedsi_fl::{Client, Config, Simulation};
use fedsi_nn::LayerSpec;
use golden::{Aggregate, Round, distance, doubles, load, relative_error, units_apart};

/// The two clients of the case.
struct GoldenClients {
    shape: [usize; 1],
    classes: usize,
    samples: Vec<Samples>,
}

impl GoldenClients {
    fn new(round: &Round) -> Self {
        let samples = |client: &golden::Client| Samples {
            count: client.labels.len(),
            inputs: client.flat_inputs(),
            targets: Targets::Classes(client.labels.clone()),
        };
        let samples = round.clients.iter().map(samples).collect();
        Self { shape: [round.network.inputs], classes: round.network.classes, samples }
    }
}

impl Federation for GoldenClients {
    fn clients(&self) -> usize {
        self.samples.len()
    }
    fn client_name(&self, _: usize) -> Option<&str> {
        None
    }
    fn input_shape(&self) -> &[usize] {
        &self.shape
    }
    fn task(&self) -> Task {
        Task::Classification { classes: self.classes }
    }
    fn class_names(&self) -> Option<&[String]> {
        None
    }
    fn count(&self, client: usize, _: Split) -> usize {
        self.samples[client].count
    }
    fn samples(&self, client: usize, _: Split) -> Samples {
        self.samples[client].clone()
    }
    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        vec![self.count(client, split) / self.classes; self.classes]
    }
    fn target_scaling(&self) -> Option<&Scaling> {
        None
    }
}

fn average(case: &Aggregate) -> VarianceAverage {
    match case.average.as_str() {
        "deviation" => VarianceAverage::Deviation,
        "variance" => VarianceAverage::Variance,
        "selected" => VarianceAverage::Selected,
        other => panic!("unknown average {other} in the golden case"),
    }
}

fn weighting(case: &Aggregate) -> Weighting {
    match case.weighting.as_str() {
        "uniform" => Weighting::Uniform,
        "samples" => Weighting::Samples,
        other => panic!("unknown weighting {other} in the golden case"),
    }
}

fn config(round: &Round, seed: u64, case: &Aggregate) -> Config {
    let settings = &round.settings;
    let mut config = Config::defaults("fedsi", "files", Size::Small).unwrap();
    config.seed = seed;
    config.threads = 1;
    config.partition.kind = PartitionKind::Natural;
    config.federation.participants = round.clients.len();
    config.federation.weighting = match weighting(case) {
        Weighting::Uniform => WeightingName::Uniform,
        Weighting::Samples => WeightingName::Samples,
    };
    config.model.body = vec![LayerSpec::Linear(round.network.hidden), LayerSpec::Relu];
    config.training.epochs = settings.epochs;
    config.training.batch_size = settings.batch;
    config.training.learning_rate = settings.rate;
    config.fedsi.posterior_interval = 1;
    config.training.weight_noise = 0.0;
    config.fedsi.round_tolerance = 0.0;
    config.fedsi.subnetwork = settings.share;
    config.fedsi.alpha = settings.alpha;
    config.fedsi.rule = case.rule.as_str().into();
    config.fedsi.variance_average = average(case);
    // Given, so that no samples are set aside to choose it by.
    config.fedsi.prior_variance = FinalPrior::Fixed(1.0);
    config
}

/// The server's Gaussian before the round.
fn given(round: &Round) -> SharedParameters {
    let (mean, variance) = (round.server.mean.clone(), round.server.variance.clone());
    SharedParameters::Gaussian(Gaussian { mean, variance })
}

/// Observed: means within 6e-8, the rounding of training in f32; variances equal.
#[test]
fn a_whole_round_agrees_with_pytorch() {
    let (round, draws) = load();
    let federation = Arc::new(GoldenClients::new(&round));
    assert_eq!(round.aggregates.len(), 12);
    for case in &round.aggregates {
        let label = format!("{}, {}, {}", case.rule, case.weighting, case.average);
        let config = config(&round, draws.seed, case).check().unwrap();
        let mut simulation = Simulation::new(&config, federation.clone()).unwrap();
        let Snapshot { server: state, clients } = simulation.snapshot().unwrap();
        let server = ServerState { modes: vec![Arc::new(given(&round))], ..state };
        simulation.restore(Snapshot { server, clients }).unwrap();
        simulation.round().unwrap();
        let SharedParameters::Gaussian(Gaussian { mean: values, variance }) =
            &*simulation.server().shared()[0]
        else {
            panic!("a Gaussian")
        };
        let error = distance(&doubles(values), &doubles(&case.mean));
        assert!(error < 1e-6, "{label}: mean {error:e}");
        let error_v = relative_error(&doubles(variance), &doubles(&case.variance));
        assert!(error_v < 1e-5, "{label}: variance {error_v:e}");
        let untouched = |values: &[f32]| {
            let is_alpha = |value: &&f32| f64::from(**value) == round.settings.alpha;
            values.iter().filter(is_alpha).count()
        };
        assert_eq!(untouched(variance), untouched(&case.variance), "{label}: nobody selected these");
    }
}

/// The same round through message bytes alone: each client has what it received and its own samples, the server what
/// clients sent. Uploads agree with PyTorch's, and the server's new Gaussian is the simulation's to the bit.
#[test]
fn a_whole_round_by_message_bytes_agrees_with_pytorch_and_with_the_simulation() {
    let (round, draws) = load();
    let federation = Arc::new(GoldenClients::new(&round));
    for case in &round.aggregates {
        let label = format!("{}, {}, {}", case.rule, case.weighting, case.average);
        let config = config(&round, draws.seed, case).check().unwrap();
        let client = Client::of_config(&config, &federation.shape, federation.task(), None).unwrap();
        let (layout, procedure) = (client.network().layout(), client.procedure());
        let mut server = Server::new(&config, procedure, layout, client.initial(), 2, 2).unwrap();
        let state = ServerState { modes: vec![Arc::new(given(&round))], ..server.state().clone() };
        server.restore(state.clone()).unwrap();
        let down = server.training_download().encode().unwrap();
        let mut uploads = Vec::new();
        for (id, golden) in round.clients.iter().enumerate() {
            let download = Download::decode(&down).unwrap();
            let data = LocalData::all(federation.samples(id, Split::Train));
            let up = client.train(id, &download, None, &data).unwrap().upload.encode().unwrap();
            let upload = Upload::decode(&up).unwrap();
            let error = distance(&doubles(&upload.shared), &doubles(&golden.trained[..upload.shared.len()]));
            assert!(error < 1e-6, "{label}, client {id}: trained parameters {error:e}");
            let Variances { selected, values } = upload.variances.clone().unwrap();
            let expected = &golden.rules[&case.rule];
            let selected: Vec<usize> = selected.unwrap().iter().map(|&index| index as usize).collect();
            assert_eq!(selected, expected.selected, "{label}, client {id}: selected parameters");
            // At parameters that training in f32 left within its rounding.
            let error = relative_error(&doubles(&values), &doubles(&expected.upload_variances));
            assert!(error < 1e-5, "{label}, client {id}: uploaded variances {error:e}");
            uploads.push(upload);
        }
        server.complete(&[0, 1], &uploads, vec![]).unwrap();

        let mut simulation = Simulation::new(&config, federation.clone()).unwrap();
        let clients = simulation.snapshot().unwrap().clients;
        simulation.restore(Snapshot { server: state, clients }).unwrap();
        simulation.round().unwrap();
        assert_eq!(server.shared()[0], simulation.server().shared()[0], "{label}");
    }
}

/// Of the very uploads that the script averages.
#[test]
fn averages_of_given_uploads_agree_to_one_unit_in_the_last_place() {
    let (round, _) = load();
    let before = given(&round);
    for case in &round.aggregates {
        let upload = |(client, one): (usize, &golden::Client)| {
            let posterior = &one.rules[&case.rule];
            let selected = Some(posterior.selected.iter().map(|&place| place as u32).collect());
            let variances = Variances { selected, values: posterior.upload_variances.clone() };
            let shared = one.trained[..before.values().len()].to_vec();
            let (samples, loss) = (one.labels.len(), Some(one.loss));
            Upload { round: 1, client, samples, loss, shared, variances: Some(variances) }
        };
        let uploads: Vec<Upload> = round.clients.iter().enumerate().map(upload).collect();
        let mean = Aggregation::mean(average(case), round.settings.alpha, 1);
        let aggregation = Aggregation { weighting: weighting(case), ..mean };
        let merged = aggregation.merge(true, &uploads.iter().collect::<Vec<_>>(), &before);
        let label = format!("{}, {}, {}", case.rule, case.weighting, case.average);
        assert!(units_apart(merged.values(), &case.mean) <= 1, "{label}: means");
        assert!(units_apart(merged.variance().unwrap(), &case.variance) <= 1, "{label}: variances");
    }
}
