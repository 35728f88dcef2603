//! Steps of training on the GPU and on the CPU, on the same batches.

use fedsi_cuda::CudaNetwork;
use fedsi_fl::network::{Batches, ClientNetwork, NativeNetwork, PointTraining, PriorPull, TrainingData};
use fedsi_fl::parameters::Part;
use fedsi_nn::{ConvSpec, LayerSpec, Loss, Network, OptimizerSpec, PoolSpec, Targets};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use rand::RngExt as _;

use crate::gpu::{gpu, relative_error};

/// A hundred times f32's rounding: sums of hundreds of products in another order.
const TOLERANCE: f64 = 1e-5;

/// Whether two values differ by rounding; what is not a number does not.
fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-5
}

fn rng(purpose: Purpose) -> ChaCha8Rng {
    Streams::new(7).stream(purpose, 0, 0)
}

/// The networks of the paper, and one with everything else.
fn networks() -> Vec<(&'static str, Vec<usize>, Vec<LayerSpec>)> {
    let conv = |out, kernel, stride, padding| LayerSpec::Conv(ConvSpec { out, kernel, stride, padding });
    vec![
        ("the paper's MLP", vec![784], vec![LayerSpec::Linear(100), LayerSpec::Relu, LayerSpec::Linear(10)]),
        (
            "the paper's CNN",
            vec![3, 32, 32],
            vec![
                conv(6, 5, 1, 0),
                LayerSpec::Relu,
                LayerSpec::MaxPool(PoolSpec::square(2)),
                conv(16, 5, 1, 0),
                LayerSpec::Relu,
                LayerSpec::MaxPool(PoolSpec::square(2)),
                LayerSpec::Flatten,
                LayerSpec::Linear(120),
                LayerSpec::Relu,
                LayerSpec::Linear(84),
                LayerSpec::Relu,
                LayerSpec::Linear(10),
            ],
        ),
        (
            "strides, padding and other activations",
            vec![2, 9, 7],
            vec![
                conv(5, 3, 2, 1),
                LayerSpec::Silu,
                LayerSpec::AvgPool(PoolSpec { window: 2, stride: 1 }),
                LayerSpec::Flatten,
                LayerSpec::Linear(13),
                LayerSpec::Gelu,
                LayerSpec::Linear(7),
                LayerSpec::Tanh,
                LayerSpec::Linear(10),
            ],
        ),
    ]
}

struct Case {
    network: Network,
    inputs: Vec<f32>,
    labels: Vec<u32>,
    start: Vec<f32>,
}

const SAMPLES: usize = 120;

impl Case {
    fn new(input: &[usize], layers: &[LayerSpec]) -> Self {
        let network = Network::new(input, layers).unwrap();
        let mut draws = rng(Purpose::Partition);
        let inputs = (0..SAMPLES * network.inputs()).map(|_| draws.random_range(-1.0..1.0)).collect();
        let labels = (0..SAMPLES).map(|_| draws.random_range(0..network.outputs() as u32)).collect();
        let start = network.initialise(&mut rng(Purpose::Initialisation));
        Self { network, inputs, labels, start }
    }

    fn training(&self, part: Part, optimizer: OptimizerSpec) -> PointTraining<'_> {
        let targets = Targets::Classes(&self.labels);
        PointTraining {
            part,
            optimizer,
            loss: Loss::CrossEntropy,
            data: TrainingData { id: None, inputs: &self.inputs, targets },
            prior: None,
            weight_noise: 0.0,
            convolution_noise: 0.0,
        }
    }

    fn trained(
        &self,
        network: &dyn ClientNetwork,
        training: &PointTraining<'_>,
        batch: usize,
    ) -> (Vec<f32>, f64) {
        let mut values = self.start.clone();
        let mut draws = rng(Purpose::Batches);
        let mut batches = Batches::shuffled(SAMPLES, 1, batch, &mut draws);
        let loss = network.train(training, &mut values, &mut batches).unwrap();
        (values, loss)
    }

    fn compare(&self, name: &str, device: &std::sync::Arc<fedsi_cuda::Device>, training: &PointTraining<'_>) {
        let cuda = CudaNetwork::new(device, self.network.clone()).unwrap();
        let native = NativeNetwork::new(self.network.clone());
        // One batch of everything, and three with a short one.
        for batch in [SAMPLES, 50] {
            let (expected, expected_loss) = self.trained(&native, training, batch);
            let (found, loss) = self.trained(&cuda, training, batch);
            let error = relative_error(&self.start, &expected, &found);
            assert!(error < TOLERANCE, "{name}, batches of {batch}: {error:e}");
            assert!(
                (loss - expected_loss).abs() < 1e-4,
                "{name}, batches of {batch}: {loss} {expected_loss}"
            );
            let (again, _) = self.trained(&cuda, training, batch);
            assert_eq!(found, again, "{name}, batches of {batch}: other bits in a repetition");
        }
    }
}

#[test]
fn steps_on_the_gpu_are_those_of_the_cpu() {
    let Some(device) = gpu("steps_on_the_gpu_are_those_of_the_cpu") else { return };
    let sgd = OptimizerSpec::Sgd { rate: 0.05, momentum: 0.0 };
    for (name, input, layers) in networks() {
        let case = Case::new(&input, &layers);
        for part in [Part::All, Part::Body, Part::Head] {
            case.compare(&format!("{name}, {part:?}, SGD"), &device, &case.training(part, sgd));
        }
        let momentum = OptimizerSpec::Sgd { rate: 0.05, momentum: 0.9 };
        case.compare(&format!("{name}, momentum"), &device, &case.training(Part::All, momentum));
        let mean: Vec<f32> = case.start.iter().map(|value| value * 0.9 + 0.01).collect();
        let weights: Vec<f32> = (0..mean.len()).map(|index| 0.1 * (index % 5) as f32).collect();
        let prior = PriorPull { mean: &mean, weights: &weights };
        for part in [Part::All, Part::Body, Part::Head] {
            let training = PointTraining { prior: Some(prior), ..case.training(part, sgd) };
            case.compare(&format!("{name}, {part:?}, a prior"), &device, &training);
        }
    }
}

/// Adam divides by the root of a mean of squares: where a gradient is nearly 0, rounding decides its sign, and a whole step
/// follows. So the bulk must agree, not each parameter.
#[test]
fn adam_on_the_gpu_is_that_of_the_cpu_but_for_vanishing_gradients() {
    let Some(device) = gpu("adam_on_the_gpu_is_that_of_the_cpu_but_for_vanishing_gradients") else { return };
    for (name, input, layers) in networks() {
        let case = Case::new(&input, &layers);
        let cuda = CudaNetwork::new(&device, case.network.clone()).unwrap();
        let native = NativeNetwork::new(case.network.clone());
        for part in [Part::All, Part::Body] {
            let training = case.training(part, OptimizerSpec::adam(1e-3));
            let (expected, _) = case.trained(&native, &training, 50);
            let (found, _) = case.trained(&cuda, &training, 50);
            let far = expected.iter().zip(&found).filter(|(a, b)| !close(**a, **b)).count();
            assert!(far * 1000 < found.len(), "{name}, {part:?}: {far} of {} differ", found.len());
        }
    }
}

#[test]
fn weight_noise_has_the_right_size() {
    let Some(device) = gpu("weight_noise_has_the_right_size") else { return };
    for (name, input, layers) in networks() {
        let case = Case::new(&input, &layers);
        let cuda = CudaNetwork::new(&device, case.network.clone()).unwrap();
        let native = NativeNetwork::new(case.network.clone());
        // The mean loss under noise, over some draws: its excess over the loss without noise follows the noise's variance. So
        // much noise that the excess is far above the spread of the draws.
        let loss = |network: &dyn ClientNetwork, noise: f64| {
            let still = OptimizerSpec::Sgd { rate: 1e-12, momentum: 0.0 };
            let training = PointTraining {
                weight_noise: noise,
                convolution_noise: noise,
                ..case.training(Part::Body, still)
            };
            let mut draws = rng(Purpose::Batches);
            let losses = (0..40).map(|_| {
                let mut batches = Batches::shuffled(SAMPLES, 1, SAMPLES, &mut draws);
                network.train(&training, &mut case.start.clone(), &mut batches).unwrap()
            });
            losses.sum::<f64>() / 40.0
        };
        let noise = if case.network.inputs() < 200 { 1.0 } else { 0.2 };
        let excess = |network: &dyn ClientNetwork| loss(network, noise) - loss(network, 0.0);
        let (expected, found) = (excess(&native), excess(&cuda));
        assert!(
            expected > 0.05 && (found / expected - 1.0).abs() < 0.3,
            "{name}: {found} on the GPU, {expected} on the CPU"
        );
    }
}

#[test]
fn outputs_and_features_are_those_of_the_cpu() {
    let Some(device) = gpu("outputs_and_features_are_those_of_the_cpu") else { return };
    for (name, input, layers) in networks() {
        let case = Case::new(&input, &layers);
        let cuda = CudaNetwork::new(&device, case.network.clone()).unwrap();
        let native = NativeNetwork::new(case.network.clone());
        let close = |what: &str, expected: Vec<f32>, found: Vec<f32>| {
            assert_eq!(expected.len(), found.len(), "{name}, {what}");
            let far = expected.iter().zip(&found).find(|(a, b)| !close(**a, **b));
            assert_eq!(far, None, "{name}, {what}");
        };
        let (start, inputs) = (&case.start, &case.inputs);
        close("outputs", native.outputs(start, inputs).unwrap(), cuda.outputs(start, inputs).unwrap());
        close("features", native.features(start, inputs).unwrap(), cuda.features(start, inputs).unwrap());
        let heads: Vec<f32> = case.start[case.network.layout().head()].repeat(3);
        let of_heads =
            |network: &dyn ClientNetwork| network.outputs_of_heads(start, &heads, inputs).unwrap().concat();
        close("outputs of heads", of_heads(&native), of_heads(&cuda));
        assert!(cuda.outputs(start, &[]).unwrap().is_empty(), "{name}: no rows");
    }
}
