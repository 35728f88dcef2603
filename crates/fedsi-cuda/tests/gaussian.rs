//! Mean-field training by the kernel of `src/gaussian`, run on a CPU, beside plain loops in f64 with the same draws; and these
//! beside fedsi-nn's trainer with its own.
#![allow(clippy::unwrap_used, clippy::panic)]

mod emulator;
#[path = "emulator/gaussian_reference.rs"]
mod gaussian_reference;

use emulator::networks::{assert_close, networks, numbers, singles};
use emulator::{Buffer, Emulated, Order, philox};
use fedsi_cuda::gaussian::{self, GaussianJob, GaussianRequest};
use fedsi_cuda::kernel::DeviceLimits;
use fedsi_cuda::training::{Correction, LossKind, OptimizerKind, Settings};
use fedsi_fl::parameters::Part;
use fedsi_nn::{
    LayerSet, LayerSpec, Loss, MeanField, Network, OptimizerSpec, Tape, Targets, VariationalTrainer,
};
use gaussian_reference::Reference;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

/// Distributions draw with this purpose (`GAUSSIAN_DRAWS`).
const PURPOSE: u32 = 2;
const ADAM: OptimizerSpec = OptimizerSpec::adam(0.01);

#[derive(Clone)]
struct Training {
    network: Network,
    part: Part,
    loss: Loss,
    optimizer: OptimizerSpec,
    weight: f64,
    follows: Option<usize>,
}

/// One client: where it starts, its data and batches.
struct Client {
    start: MeanField<f64>,
    reference: MeanField<f64>,
    inputs: Vec<f64>,
    classes: Vec<u32>,
    targets: Vec<f64>,
    batches: Vec<Vec<u32>>,
    key: u64,
}

impl Client {
    fn new(network: &Network, seed: u32, samples: usize, batch_sizes: &[usize]) -> Self {
        let count = network.layout().len();
        let field = |seed: u32| MeanField {
            mean: numbers(seed, count).iter().map(|x| f64::from((0.4 * x) as f32)).collect(),
            deviation: numbers(seed + 7, count).iter().map(|x| f64::from((0.08 + 0.05 * x) as f32)).collect(),
        };
        let batches = batch_sizes
            .iter()
            .enumerate()
            .map(|(step, &size)| {
                (0..size).map(|i| ((i * 5 + step * 3 + seed as usize) % samples) as u32).collect()
            })
            .collect();
        Self {
            start: field(seed),
            reference: field(seed + 20),
            inputs: numbers(seed + 50, samples * network.inputs()),
            classes: (0..samples as u32).map(|row| (row * 7 + seed) % network.outputs() as u32).collect(),
            targets: numbers(seed + 90, samples * network.outputs()),
            batches,
            key: 0x0fed_cba9_8765_0000 + u64::from(seed),
        }
    }

    fn targets(&self, loss: Loss) -> Targets<'_, f64> {
        match loss {
            Loss::CrossEntropy => Targets::Classes(&self.classes),
            Loss::Gaussian { .. } => Targets::Values(&self.targets),
        }
    }
}

fn layers_of(part: Part, network: &Network) -> LayerSet {
    match part {
        Part::All => network.all_layers(),
        Part::Body => network.body_layers(),
        _ => network.head_layer(),
    }
}

fn reference_of(training: &Training, client: &Client) -> Reference {
    let Training { network, part, loss, optimizer, weight, follows } = training;
    let layers = layers_of(*part, network);
    Reference::new(network, &layers, *loss, *optimizer, &client.start).held_to(
        &client.reference,
        *weight,
        *follows,
    )
}

/// What a forward pass of fedsi-nn draws in each layer with parameters, whatever its generator is: the outputs of layers with as
/// many outputs as there are draws, all parameters 0 and only the biases varying, by 1.
fn trainers_draws(network: &Network, batch: usize, rng: &Xoshiro256PlusPlus) -> Vec<Vec<f64>> {
    let mut probes = Vec::new();
    let mut found = Vec::new();
    for (index, spec) in network.specs().iter().enumerate() {
        let count = match spec {
            LayerSpec::Linear(outputs) => batch * outputs,
            LayerSpec::Conv(_) => network.layout().of_layer(index).len(),
            _ => continue,
        };
        probes.push(LayerSpec::Linear(count));
        let probe = Network::new(&[1], &probes).unwrap();
        let mut variance = vec![0.0; probe.layout().len()];
        for tensor in probe.layout().tensors().iter().filter(|tensor| tensor.shape.len() == 1) {
            variance[tensor.range.clone()].fill(1.0);
        }
        let mut tape = Tape::<f64>::new(&probe, 1);
        tape.inputs_mut(&probe, 1).fill(0.0);
        found.push(
            tape.forward_sampled(&probe, &vec![0.0; variance.len()], &variance, &mut rng.clone()).to_vec(),
        );
    }
    found
}

/// The plain loops with the trainer's draws give what the trainer gives: the formulas are fedsi-nn's.
#[test]
fn the_plain_loops_are_fedsi_nns_trainer() {
    for (name, network) in networks() {
        for part in [Part::All, Part::Body, Part::Head] {
            if part == Part::Body && network.layout().body().is_empty() {
                continue;
            }
            let training = Training {
                network: network.clone(),
                part,
                loss: Loss::CrossEntropy,
                optimizer: ADAM,
                weight: 0.02,
                follows: Some(2),
            };
            let client = Client::new(&network, 3, 11, &[4, 5, 3, 5]);
            let mut reference = reference_of(&training, &client);
            let mut trainer =
                VariationalTrainer::<f64>::new(&network, layers_of(part, &network), training.loss, ADAM, 5);
            trainer.begin(&client.start, &client.reference, training.weight, training.follows);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
            for (step, rows) in client.batches.iter().enumerate() {
                let mut draws = trainers_draws(&network, rows.len(), &rng).into_iter();
                let targets = client.targets(training.loss);
                let expected = trainer.step(&network, &client.inputs, targets, rows, &mut rng);
                let found = reference.step(&client.inputs, targets, rows, |_, _| draws.next().unwrap());
                assert!(
                    (found - expected).abs() < 1e-8,
                    "{name}, {part:?}, step {step}: loss {found} instead of {expected}"
                );
            }
            let pairs = [
                (reference.distribution(), trainer.distribution()),
                (reference.reference(), trainer.reference()),
            ];
            for (found, expected) in &pairs {
                let gap = |a: &[f64], b: &[f64]| {
                    a.iter().zip(b).fold(0.0_f64, |gap, (a, b)| gap.max((a - b).abs()))
                };
                let gap = gap(&found.mean, &expected.mean).max(gap(&found.deviation, &expected.deviation));
                assert!(gap < 1e-6, "{name}, {part:?}: distributions differ by {gap}");
            }
        }
    }
}

fn compare(what: &str, training: &Training, sizes: &[(usize, &[usize])], orders: &[Order]) {
    let Training { network, part, loss, optimizer, weight, follows } = training;
    let clients: Vec<Client> = sizes
        .iter()
        .enumerate()
        .map(|(number, (samples, batches))| Client::new(network, number as u32 + 1, *samples, batches))
        .collect();
    let batch = sizes.iter().flat_map(|(_, batches)| batches.iter().copied()).max().unwrap();
    let request = GaussianRequest {
        network,
        part: *part,
        loss: LossKind::from(*loss),
        optimizer: OptimizerKind::from(*optimizer),
        follows: follows.is_some(),
        batch,
    };
    // Few multiprocessors, so that there are few threads to emulate: three blocks a client.
    let limits = DeviceLimits { multiprocessors: 30, ..DeviceLimits::H200 };
    let kernel = gaussian::kernel(&request, &limits).unwrap();
    let Some(mut emulated) = Emulated::compile_or_skip(&kernel) else { return };
    let settings = Settings::new(*optimizer, *loss, 0.0, 0.0);
    let corrections =
        Correction::of_steps(*optimizer, sizes.iter().map(|(_, batches)| batches.len()).max().unwrap());
    let stride = (batch + 1).next_multiple_of(4);
    let mut before = None;
    for &order in orders {
        emulated.order = order;
        let mut jobs = Vec::new();
        let mut buffers = Vec::new();
        for client in &clients {
            let steps = client.batches.len();
            let mut batches = vec![0_i32; steps * stride];
            for (entries, rows) in batches.chunks_mut(stride).zip(&client.batches) {
                entries.iter_mut().zip(rows).for_each(|(entry, &row)| *entry = row as i32);
                entries[stride - 1] = rows.len() as i32;
            }
            let classes: Vec<f32> = client.classes.iter().map(|&class| f32::from_bits(class)).collect();
            let targets = if *loss == Loss::CrossEntropy { classes } else { singles(&client.targets) };
            let integers = [Buffer::of("batches", &batches), Buffer::of("counter", &[0_i32; 32])];
            let constant = [Buffer::of("inputs", &singles(&client.inputs)), Buffer::of("targets", &targets)];
            let changed = [
                Buffer::of("mean", &singles(&client.start.mean)),
                Buffer::of("deviation", &singles(&client.start.deviation)),
                Buffer::of("reference_mean", &singles(&client.reference.mean)),
                Buffer::of("reference_deviation", &singles(&client.reference.deviation)),
                Buffer::uninitialised("losses", steps),
                Buffer::uninitialised("workspace", kernel.workspace),
            ];
            jobs.push(GaussianJob {
                mean: changed[0].address(),
                deviation: changed[1].address(),
                reference_mean: changed[2].address(),
                reference_deviation: changed[3].address(),
                inputs: constant[0].address(),
                targets: constant[1].address(),
                batches: integers[0].address(),
                workspace: changed[5].address(),
                counter: integers[1].address(),
                losses: changed[4].address(),
                noise_key: client.key,
                steps: steps as i32,
                batch_stride: stride as i32,
                weight: *weight as f32,
                inner_steps: follows.unwrap_or(1) as i32,
            });
            buffers.push((integers, constant, changed));
        }
        emulated
            .launch(&jobs, &corrections, settings)
            .unwrap_or_else(|error| panic!("{what}, {order:?}: {error}"));
        let mut bits: Vec<u32> = Vec::new();
        for (number, (client, (integers, _, changed))) in clients.iter().zip(&buffers).enumerate() {
            integers[1].check();
            changed[5].check();
            let mut reference = reference_of(training, client);
            let losses: Vec<f64> = client
                .batches
                .iter()
                .enumerate()
                .map(|(step, rows)| {
                    let draw = |layer: usize, index: usize| {
                        philox::one_normal(client.key, step as u32, layer as u32, index as u32, PURPOSE)
                    };
                    let draws =
                        |layer: usize, count: usize| (0..count).map(|index| draw(layer, index)).collect();
                    reference.step(&client.inputs, client.targets(*loss), rows, draws)
                })
                .collect();
            let found: Vec<Vec<f32>> = changed[..5].iter().map(Buffer::values).collect();
            bits.extend(found.iter().flatten().map(|value| value.to_bits()));
            let what = format!("{what}, client {number}");
            let (own, other) = (reference.distribution(), reference.reference());
            assert_close(&format!("{what}: losses"), &found[4], &losses, 1e-5);
            assert_close(&format!("{what}: means"), &found[0], &own.mean, 1e-4);
            assert_close(&format!("{what}: deviations"), &found[1], &own.deviation, 1e-4);
            assert_close(&format!("{what}: means of the reference"), &found[2], &other.mean, 1e-4);
            assert_close(&format!("{what}: deviations of the reference"), &found[3], &other.deviation, 1e-4);
        }
        let first = before.get_or_insert_with(|| bits.clone());
        assert_eq!(*first, bits, "{what}: the result depends on the order of threads");
    }
}

/// Several batches, one of them shorter than there are blocks, and clients of different sizes.
const SIZES: [(usize, &[usize]); 2] = [(23, &[9, 13, 2]), (5, &[1, 5])];
const SGD: OptimizerSpec = OptimizerSpec::Sgd { rate: 0.05, momentum: 0.0 };

#[test]
fn every_kind_of_network_by_gradient_descent() {
    // Plain descent: a wrong gradient shows in proportion, where Adam would show its sign.
    for (name, network) in networks() {
        let training = Training {
            network,
            part: Part::All,
            loss: Loss::CrossEntropy,
            optimizer: SGD,
            weight: 0.01,
            follows: None,
        };
        compare(name, &training, &SIZES, &[Order::Reverse]);
    }
}

#[test]
fn a_part_moves_and_the_rest_is_drawn() {
    let networks = networks();
    for (name, network) in [&networks[1], &networks[3]] {
        for part in [Part::Body, Part::Head] {
            let training = Training {
                network: network.clone(),
                part,
                loss: Loss::CrossEntropy,
                optimizer: SGD,
                weight: 0.1,
                follows: None,
            };
            compare(&format!("{name}, {part:?}"), &training, &SIZES, &[Order::Forward]);
        }
    }
}

#[test]
fn adam_with_a_reference_that_follows_in_any_order_of_threads() {
    let network = networks().swap_remove(3).1;
    let loss = Loss::Gaussian { noise: 0.8 };
    let training =
        Training { network, part: Part::All, loss, optimizer: ADAM, weight: 0.05, follows: Some(2) };
    compare("Adam", &training, &[(23, &[9, 13, 2, 11, 7]), (5, &[1, 5])], &Order::SEVERAL);
}

#[test]
fn momentum_with_a_reference_that_follows_every_step() {
    let network = networks().swap_remove(2).1;
    let optimizer = OptimizerSpec::Sgd { rate: 0.02, momentum: 0.9 };
    let training = Training {
        network,
        part: Part::All,
        loss: Loss::CrossEntropy,
        optimizer,
        weight: 0.05,
        follows: Some(1),
    };
    compare("momentum", &training, &SIZES, &[Order::Shuffled(11)]);
}

#[test]
fn more_inputs_than_threads_and_more_rows_than_a_tile() {
    let network =
        Network::new(&[601], &[LayerSpec::Linear(131), LayerSpec::Relu, LayerSpec::Linear(10)]).unwrap();
    let training = Training {
        network,
        part: Part::All,
        loss: Loss::CrossEntropy,
        optimizer: SGD,
        weight: 0.01,
        follows: None,
    };
    compare("a wide MLP", &training, &[(80, &[70])], &[Order::Forward]);
}

#[test]
fn nothing_that_moves_is_refused() {
    let network = networks().swap_remove(1).1;
    let request = GaussianRequest {
        network: &network,
        part: Part::Nothing,
        loss: LossKind::CrossEntropy,
        optimizer: OptimizerKind::Adam,
        follows: false,
        batch: 5,
    };
    let error = gaussian::kernel(&request, &DeviceLimits::H200).unwrap_err();
    assert!(error.to_string().contains("something has to move"), "{error}");
}
