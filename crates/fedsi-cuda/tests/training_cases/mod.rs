//! Cases of training: made, run by the emulator and by `fedsi_nn`, compared.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod noisy;

use fedsi_cuda::kernel::DeviceLimits;
use fedsi_cuda::training::{Correction, Job, Settings, TrainingRequest, general};
use fedsi_fl::parameters::Part;
use fedsi_nn::{LayerSpec, Loss, Network, OptimizerSpec, Targets, Trainer};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use crate::emulator::{Buffer, Emulated, Order};

/// Three blocks a client, with an H200's shared memory.
pub const LIMITS: DeviceLimits = DeviceLimits { multiprocessors: 30, ..DeviceLimits::H200 };

/// Error of a tensor's change, relative to the change, that f32 is allowed.
const TOLERANCE: f64 = 1e-5;

/// What is trained how.
#[derive(Clone)]
pub struct Case {
    pub input: Vec<usize>,
    pub layers: Vec<LayerSpec>,
    pub part: Part,
    pub loss: Loss,
    pub optimizer: OptimizerSpec,
    pub prior: bool,
    /// Of linear layers and of convolutions.
    pub noise: Option<(f64, f64)>,
    pub heads: usize,
    pub batch: usize,
    pub steps: usize,
    /// The last batch has half the samples.
    pub short_last: bool,
    /// Inputs are 0, 1 or 2.
    pub whole_inputs: bool,
    /// Of the last layer's weights.
    pub scale: f32,
    pub limits: DeviceLimits,
}

impl Case {
    /// One step of SGD at rate 1, batches of 11.
    pub fn new(input: &[usize], layers: &[LayerSpec]) -> Self {
        Self {
            input: input.to_vec(),
            layers: layers.to_vec(),
            part: Part::All,
            loss: Loss::CrossEntropy,
            optimizer: OptimizerSpec::Sgd { rate: 1.0, momentum: 0.0 },
            prior: false,
            noise: None,
            heads: 1,
            batch: 11,
            steps: 1,
            short_last: false,
            whole_inputs: false,
            scale: 1.0,
            limits: LIMITS,
        }
    }
}

/// A client's data, in f32.
pub struct Data {
    pub start: Vec<f32>,
    pub inputs: Vec<f32>,
    pub classes: Vec<u32>,
    pub values: Vec<f32>,
    pub prior_mean: Vec<f32>,
    pub prior_weight: Vec<f32>,
    pub batches: Vec<Vec<u32>>,
    pub key: u64,
}

impl Data {
    fn new(case: &Case, network: &Network, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform =
            |size: usize| -> Vec<f32> { (0..size).map(|_| rng.random_range(-1.0..1.0)).collect() };
        let samples = case.batch + 5;
        let width = network.outputs() / case.heads;
        let mut start = uniform(network.layout().len());
        for tensor in network.layout().tensors() {
            let fan: usize = tensor.shape[1..].iter().product();
            let last = tensor.range.start >= network.layout().head().start;
            let scale = if last { case.scale } else { 1.5 } / (fan.max(2) as f32).sqrt();
            start[tensor.range.clone()].iter_mut().for_each(|value| *value *= scale);
        }
        let mut inputs = uniform(samples * network.inputs());
        if case.whole_inputs {
            inputs.iter_mut().for_each(|value| *value = (*value * 1.5 + 1.5).floor().clamp(0.0, 2.0));
        }
        let values = uniform(samples * width);
        let prior_mean = uniform(start.len());
        let prior_weight = uniform(start.len()).iter().map(|value| value.abs()).collect();
        let classes = (0..samples).map(|_| rng.random_range(0..width as u32)).collect();
        let batches = (0..case.steps)
            .map(|step| {
                let short = case.short_last && step + 1 == case.steps;
                let size = if short { case.batch.div_ceil(2) } else { case.batch };
                (0..size).map(|_| rng.random_range(0..samples as u32)).collect()
            })
            .collect();
        Self { start, inputs, classes, values, prior_mean, prior_weight, batches, key: rng.random() }
    }
}

/// The network under its heads.
fn network(case: &Case) -> Network {
    let network = Network::new(&case.input, &case.layers).unwrap();
    if case.heads == 1 { network } else { network.under_heads(case.heads).unwrap() }
}

fn compile(case: &Case, network: &Network) -> Option<(Emulated, usize)> {
    let request = TrainingRequest {
        network,
        part: case.part,
        loss: case.loss.into(),
        optimizer: case.optimizer.into(),
        prior: case.prior,
        weight_noise: case.noise.is_some(),
        heads: case.heads,
        batch: case.batch,
    };
    let kernel = general::kernel(&request, &case.limits).unwrap();
    assert!(kernel.shared_bytes <= case.limits.shared_bytes, "more shared memory than there is");
    Some((Emulated::compile_or_skip(&kernel)?, kernel.workspace))
}

/// Trains several clients in one launch; returns each one's parameters and losses.
fn launch(
    case: &Case,
    emulated: &Emulated,
    workspace: usize,
    clients: &[&Data],
) -> Vec<(Vec<f32>, Vec<f32>)> {
    let stride = (case.batch + 1).next_multiple_of(4);
    let buffers: Vec<_> = clients
        .iter()
        .map(|data| {
            let classes: Vec<i32> = data.classes.iter().map(|&class| class as i32).collect();
            let mut batches = vec![0_i32; data.batches.len() * stride];
            for (rows, list) in batches.chunks_exact_mut(stride).zip(&data.batches) {
                rows.iter_mut().zip(list).for_each(|(row, &index)| *row = index as i32);
                rows[stride - 1] = list.len() as i32;
            }
            let targets = match case.loss {
                Loss::CrossEntropy => classes.iter().map(|class| f32::from_bits(*class as u32)).collect(),
                Loss::Gaussian { .. } => data.values.clone(),
            };
            (
                Buffer::of("values", &data.start),
                Buffer::of("inputs", &data.inputs),
                Buffer::of("targets", &targets),
                Buffer::of("batches", &batches),
                Buffer::of("prior mean", &data.prior_mean),
                Buffer::of("prior weight", &data.prior_weight),
                Buffer::<f32>::uninitialised("workspace", workspace),
                Buffer::of("counter", &[0_i32; 32]),
                Buffer::<f32>::uninitialised("losses", data.batches.len()),
            )
        })
        .collect();
    let jobs: Vec<Job> = buffers
        .iter()
        .zip(clients)
        .map(|(buffer, data)| Job {
            values: buffer.0.address(),
            inputs: buffer.1.address(),
            targets: buffer.2.address(),
            batches: buffer.3.address(),
            prior_mean: if case.prior { buffer.4.address() } else { 0 },
            prior_weight: if case.prior { buffer.5.address() } else { 0 },
            workspace: buffer.6.address(),
            counter: buffer.7.address(),
            losses: buffer.8.address(),
            noise_key: data.key,
            steps: data.batches.len() as i32,
            batch_stride: stride as i32,
        })
        .collect();
    let (linear, convolution) = case.noise.unwrap_or((0.0, 0.0));
    let settings = Settings::new(case.optimizer, case.loss, linear, convolution);
    let corrections =
        Correction::of_steps(case.optimizer, clients.iter().map(|data| data.batches.len()).max().unwrap());
    emulated
        .launch(&jobs, &corrections, settings)
        .unwrap_or_else(|error| panic!("the kernel failed: {error}"));
    buffers.iter().for_each(|buffer| buffer.6.check());
    buffers.iter().map(|buffer| (buffer.0.values(), buffer.8.values())).collect()
}

fn double(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// The same training by `fedsi_nn` in f64: parameters and losses.
fn expected(case: &Case, network: &Network, data: &Data) -> (Vec<f64>, Vec<f64>) {
    let layers = match case.part {
        Part::Nothing => network.layers_where(|_| false),
        Part::Body => network.body_layers(),
        Part::Head => network.head_layer(),
        Part::All => network.all_layers(),
    };
    if case.noise.is_some() {
        return noisy::train(case, network, data, &layers);
    }
    let mut trainer =
        Trainer::<f64>::new(network, layers, case.loss, case.optimizer, case.batch).with_heads(case.heads);
    if case.prior {
        trainer.set_prior(&double(&data.prior_mean), double(&data.prior_weight).into_iter());
    }
    let (mut parameters, inputs, values) = (double(&data.start), double(&data.inputs), double(&data.values));
    let targets = match case.loss {
        Loss::CrossEntropy => Targets::Classes(&data.classes),
        Loss::Gaussian { .. } => Targets::Values(&values),
    };
    let losses = data
        .batches
        .iter()
        .map(|rows| trainer.step(network, &mut parameters, &inputs, targets, rows))
        .collect();
    (parameters, losses)
}

/// Runs a case both ways; fails with the name and the tensor that differs.
pub fn check(name: &str, case: &Case) {
    let network = network(case);
    let Some((emulated, workspace)) = compile(case, &network) else { return };
    let data = Data::new(case, &network, 1);
    let (found, losses) = launch(case, &emulated, workspace, &[&data]).remove(0);
    let (wanted, wanted_losses) = expected(case, &network, &data);
    for (step, (loss, wanted)) in losses.iter().zip(&wanted_losses).enumerate() {
        let error = (f64::from(*loss) - wanted).abs();
        assert!(
            error <= 1e-5 * wanted.abs().max(0.1),
            "{name}: loss {loss} at step {step}, {wanted} expected"
        );
    }
    let mut failures = Vec::new();
    for tensor in network.layout().tensors() {
        let (mut error, mut change, mut size) = (0.0_f64, 0.0_f64, 0.0_f64);
        for index in tensor.range.clone() {
            let start = f64::from(data.start[index]);
            error += (f64::from(found[index]) - wanted[index]).powi(2);
            change += (wanted[index] - start).powi(2);
            size += start * start;
        }
        // What does not move is bit for bit as it was; what moves is rounded to f32.
        let allowed = if change == 0.0 { 0.0 } else { TOLERANCE * change.sqrt() + 1e-7 * size.sqrt() };
        if error.is_nan() || error.sqrt() > allowed {
            let relative = error.sqrt() / change.sqrt();
            failures.push(format!(
                "{} ({}) by {relative:.1e} of its change",
                tensor.name,
                case.layers[tensor.layer].name()
            ));
        }
    }
    assert!(failures.is_empty(), "{name}: wrong are {}", failures.join(", "));
}

/// Bits of a client's result by several orders of threads, alone and beside another client of other steps.
pub fn bits_of(case: &Case) -> Option<Vec<Vec<u32>>> {
    let network = network(case);
    let (mut emulated, workspace) = compile(case, &network)?;
    let data = Data::new(case, &network, 1);
    let longer = Data::new(&Case { steps: case.steps + 2, ..case.clone() }, &network, 2);
    let mut found = Vec::new();
    for order in Order::SEVERAL {
        emulated.order = order;
        for clients in [vec![&data], vec![&data, &longer]] {
            let (values, losses) = launch(case, &emulated, workspace, &clients).remove(0);
            found.push(values.iter().chain(&losses).map(|value| value.to_bits()).collect());
        }
    }
    Some(found)
}
