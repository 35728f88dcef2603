//! A dataset of one's own: two moons, rotated by another angle for every client.
//!
//! A dataset says its name, shape and defaults, and opens a federation: clients, each with training and test samples.
//! Configs then name it like a built-in one. Here no single classifier can be right for everybody, which is what personal
//! models are for: `fedavg` has one for all, `fedsi` one a client.
//!
//! `cargo run --release -p fedsi-fl --example own_dataset`

use std::error::Error;
use std::f32::consts::PI;
use std::io::Write as _;
use std::sync::Arc;

use fedsi_data::{
    DataError, DataForm, DataSpec, Dataset, DatasetDefaults, Federation, PartitionKind, PartitionSpec,
    Samples, Scaling, Size, Split, Targets, Task, TaskKind,
};
use fedsi_fl::config::Overrides;
use fedsi_fl::scores::Scores;
use fedsi_fl::simulation::Evaluation;
use fedsi_fl::{Registry, Simulation};
use fedsi_nn::LayerSpec;
use fedsi_random::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};

const SHAPE: [usize; 1] = [2];
const CLASSES: usize = 2;
const TASK: Task = Task::Classification { classes: CLASSES };
/// Standard deviation of the points around their moon, whose radius is 1.
const NOISE: f32 = 0.2;

/// What is known before the data is opened.
#[derive(Debug)]
struct Moons;

impl Dataset for Moons {
    fn name(&self) -> &str {
        "moons"
    }

    fn description(&self) -> &str {
        "two moons in the plane, rotated by another angle for every client"
    }

    fn form(&self) -> Option<DataForm<'_>> {
        Some(DataForm { input_shape: &SHAPE, task: TASK })
    }

    fn task_kind(&self, _data: &DataSpec) -> TaskKind {
        TaskKind::Classification
    }

    /// Every client has both classes: 10 training samples of each, or 100.
    fn defaults(&self, size: Size) -> DatasetDefaults {
        let train = if size == Size::Small { 10 } else { 100 };
        DatasetDefaults {
            rounds: 40,
            body: vec![LayerSpec::Linear(32), LayerSpec::Tanh, LayerSpec::Linear(32), LayerSpec::Tanh],
            subnetwork: 0.2,
            ..DatasetDefaults::new(PartitionSpec {
                labels_per_client: 2,
                ..PartitionSpec::labels(8, train, 200)
            })
        }
    }

    fn open(
        &self,
        _data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        let refuse =
            |key, found, expected: &str| DataError::Setting { key, found, expected: expected.to_owned() };
        if partition.kind != PartitionKind::Labels {
            return Err(refuse(
                "partition.kind",
                partition.kind.to_string(),
                "labels, the only one for moons",
            ));
        }
        if partition.labels_per_client != CLASSES {
            let found = partition.labels_per_client.to_string();
            return Err(refuse("partition.labels_per_client", found, "2: every client has both moons"));
        }
        let PartitionSpec { clients, train, test, .. } = *partition;
        Ok(Box::new(RotatedMoons { clients, train, test, seed }))
    }

    fn reads_dir(&self) -> bool {
        false
    }
}

/// The clients. Samples are drawn when they are asked for, the same at every call.
struct RotatedMoons {
    clients: usize,
    /// Samples of each class.
    train: usize,
    test: usize,
    seed: u64,
}

impl RotatedMoons {
    /// From 0 up to half a turn.
    fn angle(&self, client: usize) -> f32 {
        PI * client as f32 / self.clients as f32
    }
}

impl Federation for RotatedMoons {
    fn clients(&self) -> usize {
        self.clients
    }

    fn client_name(&self, _client: usize) -> Option<&str> {
        None
    }

    fn input_shape(&self) -> &[usize] {
        &SHAPE
    }

    fn task(&self) -> Task {
        TASK
    }

    fn class_names(&self) -> Option<&[String]> {
        None
    }

    fn count(&self, client: usize, split: Split) -> usize {
        self.label_counts(client, split).iter().sum()
    }

    fn samples(&self, client: usize, split: Split) -> Samples {
        let count = self.count(client, split);
        // A stream for each client and split, so that none depends on who was asked before.
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(2 * client as u64 + u64::from(split == Split::Test));
        let (sin, cos) = self.angle(client).sin_cos();
        let (mut inputs, mut labels) = (Vec::with_capacity(2 * count), Vec::with_capacity(count));
        for row in 0..count {
            let angle = rng.random_range(0.0..PI);
            let upper = row % CLASSES == 0;
            let (x, y) = if upper {
                (angle.cos() - 0.5, angle.sin() - 0.25)
            } else {
                (0.5 - angle.cos(), 0.25 - angle.sin())
            };
            let [dx, dy]: [f32; 2] = [StandardNormal.sample(&mut rng), StandardNormal.sample(&mut rng)];
            let (x, y) = (x + NOISE * dx, y + NOISE * dy);
            inputs.extend([cos * x - sin * y, sin * x + cos * y]);
            labels.push((row % CLASSES) as u32);
        }
        Samples { count, inputs, targets: Targets::Classes(labels) }
    }

    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        let each = if split == Split::Train { self.train } else { self.test };
        vec![if client < self.clients { each } else { 0 }; CLASSES]
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        None
    }
}

/// Few samples make few steps an epoch, and at the end the body has to turn with the moons.
const SETTINGS: &str = "
data.dataset = 'moons'
training.batch_size = 10
tuning = { epochs = 50, learning_rate = 0.01 }
fedsi.tune = 'all'";

fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::builtin().with_dataset(Arc::new(Moons));
    let (fedavg, fedsi) = (run(&registry, "fedavg")?, run(&registry, "fedsi")?);
    let mut out = std::io::stdout().lock();
    writeln!(out, "                     fedavg                        fedsi")?;
    writeln!(out, "rotated by  accuracy       ECE       NLL  accuracy       ECE       NLL")?;
    let wanted = |scores: Scores| -> String {
        let figures =
            scores.figures().into_iter().filter(|figure| ["accuracy", "ECE", "NLL"].contains(&figure.name));
        figures.map(|figure| format!("{figure:>10}")).collect()
    };
    for (one, own) in fedavg.clients.iter().zip(&fedsi.clients) {
        let degrees = 180 * one.client / fedavg.clients.len();
        let (one, own) = (wanted(one.predictions.scores()), wanted(own.predictions.scores()));
        writeln!(out, "{degrees:>6} deg{one}{own}")?;
    }
    writeln!(out, "all       {}{}", wanted(fedavg.scores()?), wanted(fedsi.scores()?))?;
    Ok(())
}

fn run(registry: &Registry, method: &str) -> Result<Evaluation, Box<dyn Error>> {
    let settings = format!("method = '{method}'\n{SETTINGS}");
    let config = registry.resolve(&[Overrides::from_text("own_dataset.rs", &settings)?])?;
    let config = registry.check(config)?;
    Ok(Simulation::new(&config, Arc::from(config.open_data()?))?.run()?)
}
