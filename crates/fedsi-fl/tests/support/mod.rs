//! Small federations for tests.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::panic, clippy::unwrap_used)]

pub mod damage;

use std::sync::Arc;

use fedsi_data::{Federation, PartitionKind, Samples, Scaling, Size, Split, Targets, Task};
use fedsi_fl::client::PersonalModel;
use fedsi_fl::simulation::{ClientEvaluation, EvaluationRequest};
use fedsi_fl::{Config, Simulation, SimulationError};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

/// Clouds of points: class `c` lies around a corner of its own. Client `broken`, if any, has inputs so large
/// that training on them overflows.
pub struct Clouds {
    pub clients: usize,
    pub samples: usize,
    pub broken: Option<usize>,
}

pub const CLASSES: usize = 3;
const FEATURES: usize = 6;

impl Federation for Clouds {
    fn clients(&self) -> usize {
        self.clients
    }
    fn client_name(&self, _: usize) -> Option<&str> {
        None
    }
    fn input_shape(&self) -> &[usize] {
        &[FEATURES]
    }
    fn task(&self) -> Task {
        Task::Classification { classes: CLASSES }
    }
    fn class_names(&self) -> Option<&[String]> {
        None
    }
    fn count(&self, client: usize, _: Split) -> usize {
        self.samples + client
    }
    fn samples(&self, client: usize, split: Split) -> Samples {
        let mut rng = Streams::new(split as u64).stream(Purpose::Digits, client as u64, 0);
        let count = self.count(client, split);
        let labels: Vec<u32> = (0..count).map(|row| ((row + client) % CLASSES) as u32).collect();
        let scale = if self.broken == Some(client) { 1e30 } else { 1.0 };
        let mut inputs = Vec::with_capacity(count * FEATURES);
        for &label in &labels {
            for feature in 0..FEATURES {
                let corner = if feature % CLASSES == label as usize { 1.0 } else { -1.0 };
                inputs.push(scale * (corner + 1.6 * (rng.random::<f32>() - 0.5)));
            }
        }
        Samples { count, inputs, targets: Targets::Classes(labels) }
    }
    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        vec![self.count(client, split) / CLASSES; CLASSES]
    }
    fn target_scaling(&self) -> Option<&Scaling> {
        None
    }
}

/// Clouds of which client `c` has no samples of class `c`, in training or tests.
pub struct TwoClasses(pub Arc<Clouds>);

impl Federation for TwoClasses {
    fn clients(&self) -> usize {
        self.0.clients()
    }
    fn client_name(&self, _: usize) -> Option<&str> {
        None
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
        self.samples(client, split).count
    }
    fn samples(&self, client: usize, split: Split) -> Samples {
        let all = self.0.samples(client, split);
        let Targets::Classes(labels) = &all.targets else { panic!("clouds have classes") };
        let is_kept = |row: &usize| labels[*row] as usize != client;
        let rows: Vec<usize> = (0..all.count).filter(is_kept).collect();
        all.select(&rows)
    }
    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        let mut counts = vec![0; CLASSES];
        if let Targets::Classes(labels) = self.samples(client, split).targets {
            labels.iter().for_each(|&label| counts[label as usize] += 1);
        }
        counts
    }
    fn target_scaling(&self) -> Option<&Scaling> {
        None
    }
}

/// Clouds with numbers to predict.
pub struct CloudsOfValues {
    pub clouds: Clouds,
    /// Numbers of a sample.
    pub outputs: usize,
    /// The numbers of all samples, from their inputs and classes.
    pub values: fn(&Samples) -> Vec<f32>,
    pub scaling: Option<Scaling>,
}

impl Federation for CloudsOfValues {
    fn clients(&self) -> usize {
        self.clouds.clients()
    }
    fn client_name(&self, _: usize) -> Option<&str> {
        None
    }
    fn input_shape(&self) -> &[usize] {
        self.clouds.input_shape()
    }
    fn task(&self) -> Task {
        Task::Regression { outputs: self.outputs }
    }
    fn class_names(&self) -> Option<&[String]> {
        None
    }
    fn count(&self, client: usize, split: Split) -> usize {
        self.clouds.count(client, split)
    }
    fn samples(&self, client: usize, split: Split) -> Samples {
        let samples = self.clouds.samples(client, split);
        let targets = Targets::Values((self.values)(&samples));
        Samples { targets, ..samples }
    }
    fn label_counts(&self, _: usize, _: Split) -> Vec<usize> {
        Vec::new()
    }
    fn target_scaling(&self) -> Option<&Scaling> {
        self.scaling.as_ref()
    }
}

/// A small network on small data.
pub fn config(method: &str, participants: usize) -> Config {
    let mut config = Config::defaults(method, "files", Size::Small).unwrap();
    config.partition.kind = PartitionKind::Natural;
    config.federation.participants = participants;
    config.model.body = vec![fedsi_nn::LayerSpec::Linear(8), fedsi_nn::LayerSpec::Tanh];
    config.training.epochs = 3;
    config.training.batch_size = 4;
    config.training.learning_rate = 0.01;
    config.tuning.epochs = 2;
    config.fedsi.posterior_interval = 1;
    // A few samples say little against ten times a prior.
    (config.pfedbayes.zeta, config.bpfed.zeta) = (1.0, 0.1);
    // Tests of a first stage and of a last chain ask for them.
    (config.lg_fedavg.warm_start, config.fedpop.final_steps) = (0.0, 0);
    config
}

/// The same config for data of which nothing is computed over all clients: what privacy asks for.
pub fn private_data(mut config: Config) -> Config {
    config.data.files.standardize = false;
    config.data.files.classes = ["a", "b", "c"].map(str::to_owned).to_vec();
    config
}

pub fn clouds(clients: usize) -> Arc<Clouds> {
    Arc::new(Clouds { clients, samples: 10, broken: None })
}

pub fn simulation(config: Config, federation: Arc<dyn Federation>) -> Simulation {
    Simulation::new(&config.check().unwrap(), federation).unwrap()
}

/// All clients' personal models after some rounds.
pub fn personal_models(config: Config, federation: Arc<dyn Federation>, rounds: usize) -> Vec<Vec<f32>> {
    let mut simulation = simulation(config, federation);
    for _ in 0..rounds {
        simulation.round().unwrap();
    }
    models(&simulation).into_iter().map(|model| model.parameters().values().to_vec()).collect()
}

/// Every client's personal model.
pub fn models(simulation: &Simulation) -> Vec<PersonalModel> {
    evaluations(simulation).into_iter().map(|client| client.model.unwrap()).collect()
}

/// Every client at the end, with its model, in the order of clients.
pub fn evaluations(simulation: &Simulation) -> Vec<ClientEvaluation> {
    try_evaluate(simulation).unwrap()
}

/// The same, or why there is none.
pub fn try_evaluate(simulation: &Simulation) -> Result<Vec<ClientEvaluation>, SimulationError> {
    let mut clients = Vec::new();
    let request = EvaluationRequest { first: 0, models: true, further_inputs: &|_| Vec::new() };
    simulation.evaluate(&request, |client| {
        clients.push(client);
        Ok(())
    })?;
    clients.sort_by_key(|client| client.client);
    Ok(clients)
}

/// The values of the whole network as a client that never took part would start it.
pub fn global_values(simulation: &Simulation) -> Vec<f32> {
    simulation.global_parameters().unwrap()[0].values().to_vec()
}
