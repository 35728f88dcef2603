//! Langevin chains by the kernel of `src/langevin`, run on a CPU, beside fedsi-nn in f64 with the same draws.
#![allow(clippy::unwrap_used, clippy::panic)]

mod emulator;

use emulator::networks::{assert_close, numbers, singles};
use emulator::{Buffer, Emulated, Order, philox};
use fedsi_cuda::kernel::DeviceLimits;
use fedsi_cuda::langevin::{self, LangevinJob, LangevinSettings};
use fedsi_cuda::training::LossKind;
use fedsi_nn::{Langevin, LangevinSpec, LayerSpec, Loss, Network, Targets};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution as _, StandardNormal};

/// Chains draw with this purpose (`LANGEVIN_DRAWS`).
const PURPOSE: u32 = 1;

struct Chain {
    network: Network,
    loss: Loss,
    spec: LangevinSpec,
    steps: usize,
    discard: usize,
    thin: usize,
}

/// One client's data.
struct Client {
    start: Vec<f64>,
    features: Vec<f64>,
    classes: Vec<u32>,
    targets: Vec<f64>,
    key: u64,
}

impl Client {
    fn new(network: &Network, seed: u32, rows: usize) -> Self {
        let narrow = |values: Vec<f64>, by: f64| values.iter().map(|x| f64::from((by * x) as f32)).collect();
        Self {
            start: narrow(numbers(seed, network.layout().len()), 0.3),
            features: numbers(seed + 50, rows * network.inputs()),
            classes: (0..rows as u32).map(|row| (row * 7 + seed) % network.outputs() as u32).collect(),
            targets: numbers(seed + 90, rows * network.outputs()),
            key: 0x1234_5678_9abc_0000 + u64::from(seed),
        }
    }
}

/// The chain by fedsi-nn: its own noise is taken off and the kernel's put in its place. Newest state, samples, last loss.
fn expected(chain: &Chain, client: &Client) -> (Vec<f64>, Vec<f64>, f64) {
    let mut sampler = Langevin::<f64>::new(&chain.network, chain.loss, 16);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let (mut values, mut samples, mut loss) = (client.start.clone(), Vec::new(), f64::NAN);
    let targets = match chain.loss {
        Loss::CrossEntropy => Targets::Classes(&client.classes),
        Loss::Gaussian { .. } => Targets::Values(&client.targets),
    };
    let spread = chain.spec.step.sqrt();
    for step in 0..chain.steps {
        let mut same = rng.clone();
        loss = sampler.step(&chain.network, &mut values, &client.features, targets, chain.spec, &mut rng);
        for (index, value) in values.iter_mut().enumerate() {
            let drawn: f64 = StandardNormal.sample(&mut same);
            *value +=
                spread * (philox::one_normal(client.key, step as u32, 0, index as u32, PURPOSE) - drawn);
        }
        if step >= chain.discard && (step - chain.discard + 1).is_multiple_of(chain.thin) {
            samples.extend_from_slice(&values);
        }
    }
    (values, samples, loss)
}

fn compare(what: &str, chain: &Chain, limits: &DeviceLimits, rows: &[usize]) {
    let kernel = langevin::kernel(&chain.network, limits, LossKind::from(chain.loss)).unwrap();
    let settings = LangevinSettings::new(chain.spec, chain.loss, chain.steps, chain.discard, chain.thin);
    let Some(mut emulated) = Emulated::compile_or_skip(&kernel) else { return };
    let parameters = chain.network.layout().len();
    let clients: Vec<Client> = rows
        .iter()
        .enumerate()
        .map(|(seed, &rows)| Client::new(&chain.network, seed as u32 + 1, rows))
        .collect();
    let mut before = None;
    for order in Order::SEVERAL {
        emulated.order = order;
        let mut jobs = Vec::new();
        let mut buffers = Vec::new();
        for client in &clients {
            let classes: Vec<f32> = client.classes.iter().map(|&class| f32::from_bits(class)).collect();
            let targets = if chain.loss == Loss::CrossEntropy { classes } else { singles(&client.targets) };
            let constant =
                [Buffer::of("features", &singles(&client.features)), Buffer::of("targets", &targets)];
            let counter = Buffer::of("counter", &[0_i32; 32]);
            let changed = [
                Buffer::of("values", &singles(&client.start)),
                Buffer::uninitialised("samples", settings.kept() * parameters),
                Buffer::uninitialised("loss", 1),
                Buffer::<f32>::uninitialised("workspace", kernel.workspace),
            ];
            jobs.push(LangevinJob {
                values: changed[0].address(),
                features: constant[0].address(),
                targets: constant[1].address(),
                samples: changed[1].address(),
                workspace: changed[3].address(),
                counter: counter.address(),
                loss: changed[2].address(),
                noise_key: client.key,
                rows: client.classes.len() as i32,
                unused: 0,
            });
            buffers.push((constant, counter, changed));
        }
        emulated.launch_jobs(&jobs, settings).unwrap_or_else(|error| panic!("{what}, {order:?}: {error}"));
        let mut bits: Vec<u32> = Vec::new();
        for (number, (client, (_, counter, changed))) in clients.iter().zip(&buffers).enumerate() {
            let (values, samples, loss) = expected(chain, client);
            counter.check();
            changed[3].check();
            let found = [changed[0].values(), changed[1].values(), changed[2].values()];
            bits.extend(found.iter().flatten().map(|value| value.to_bits()));
            let what = format!("{what}, client {number}");
            assert_close(&format!("{what}: newest state"), &found[0], &values, 2e-5);
            assert_close(&format!("{what}: samples"), &found[1], &samples, 2e-5);
            assert_close(&format!("{what}: loss"), &found[2], &[loss], 2e-5);
        }
        let first = before.get_or_insert_with(|| bits.clone());
        assert_eq!(*first, bits, "{what}: the result depends on the order of threads");
    }
}

fn head(features: usize, outputs: usize) -> Network {
    Network::new(&[features], &[LayerSpec::Linear(outputs)]).unwrap()
}

/// A GPU with few multiprocessors, so that there are few threads to emulate.
fn limits(shared_bytes: u32) -> DeviceLimits {
    DeviceLimits { multiprocessors: 30, shared_bytes, ..DeviceLimits::H200 }
}

#[test]
fn classes_with_all_rows_in_shared_memory() {
    let spec = LangevinSpec { step: 2e-3, prior_variance: 0.5, weight: 1.0 };
    let chain =
        Chain { network: head(13, 10), loss: Loss::CrossEntropy, spec, steps: 9, discard: 3, thin: 2 };
    compare("cross-entropy", &chain, &limits(232_448), &[50, 1, 4]);
}

#[test]
fn targets_with_rows_that_are_streamed() {
    let spec = LangevinSpec { step: 1e-3, prior_variance: 2.0, weight: 0.5 };
    let chain = Chain {
        network: head(9, 3),
        loss: Loss::Gaussian { noise: 0.7 },
        spec,
        steps: 5,
        discard: 0,
        thin: 1,
    };
    // Room for the weights and 16 rows; a block's share is larger.
    compare("streamed rows", &chain, &limits(4 * (9 * 4 + 16 * 14)), &[100, 53]);
}

#[test]
fn weights_that_shared_memory_does_not_hold() {
    let spec = LangevinSpec { step: 1e-3, prior_variance: 1.0, weight: 1.0 };
    let chain = Chain { network: head(70, 5), loss: Loss::CrossEntropy, spec, steps: 4, discard: 1, thin: 3 };
    compare("nothing in shared memory", &chain, &limits(4 * 64 * 9), &[200]);
    compare("weights in shared memory", &chain, &limits(4 * (64 * 9 + 70 * 8)), &[90]);
}

#[test]
fn a_head_that_does_not_fit_is_refused() {
    let error = langevin::kernel(&head(10, 5000), &limits(1000), LossKind::CrossEntropy).unwrap_err();
    assert!(error.to_string().contains("5000 outputs"), "{error}");
}
