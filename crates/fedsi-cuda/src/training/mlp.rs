//! The fast kernel for linear - ReLU - linear: a cluster of blocks a client, weights and Adam's moments in registers
//! (`kernels/mlp.cu`).

use fedsi_fl::parameters::Part;
use fedsi_nn::LayerSpec;

use super::{LossKind, OptimizerKind, TrainingRequest};
use crate::kernel::{DeviceLimits, Kernel, Launch};

/// What every source ends with; its constants come first.
const PARTS: [&str; 8] = [
    include_str!("../../kernels/job.cuh"),
    include_str!("../../kernels/random.cuh"),
    include_str!("../../kernels/mlp_intrinsics.cuh"),
    include_str!("../../kernels/mlp_shared.cuh"),
    include_str!("../../kernels/mlp_products.cuh"),
    include_str!("../../kernels/mlp_head.cuh"),
    include_str!("../../kernels/mlp_helper.cuh"),
    include_str!("../../kernels/mlp.cu"),
];

const WARP: usize = 32;
/// Warps of a block that multiply.
const PRODUCT_WARPS: usize = 7;
/// Those and the one that helps them.
const THREADS: u32 = 256;
/// Hidden units of a block.
const UNITS: usize = 16;
/// Samples, and features, of a tensor core's tile.
const TILE: usize = 8;
/// Most blocks of a cluster on every GPU that has clusters.
const LARGEST_CLUSTER: usize = 8;
/// Most tiles of features of a warp: 12 registers each for weights and moments.
const MOST_TILES: usize = 14;
/// Most samples of a batch: four threads each.
const LARGEST_BATCH: usize = PRODUCT_WARPS * WARP / 4;
/// Most classes: a lane each for the biases.
const MOST_CLASSES: usize = WARP;

/// The kernel for this request, or `None` where it does not apply: another network than linear - ReLU - linear, another
/// optimiser than Adam, another loss than cross-entropy, several heads, a head that moves alone, inputs that are no multiple
/// of 4, sizes beyond registers or shared memory, a GPU without clusters.
///
/// It takes at least networks of up to 784 inputs, 128 hidden units and 12 classes with batches of up to 50 on an H200.
#[must_use]
pub fn kernel(request: &TrainingRequest<'_>, limits: &DeviceLimits) -> Option<Kernel> {
    let sizes = Sizes::of(request).filter(|sizes| limits.has_clusters() && sizes.fit())?;
    let shared_bytes = u32::try_from(sizes.shared_bytes()).ok()?;
    if shared_bytes > limits.shared_bytes {
        return None;
    }
    Some(Kernel {
        source: sizes.source(),
        entry: "train",
        blocks_per_client: u32::try_from(sizes.cluster()).ok()?,
        threads: THREADS,
        shared_bytes,
        workspace: sizes.workspace(),
        launch: Launch::Cluster,
    })
}

/// What the source depends on.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    inputs: usize,
    hidden: usize,
    classes: usize,
    batch: usize,
    first_layer: usize,
    head_layer: usize,
    train_head: bool,
    prior: bool,
    weight_noise: bool,
}

impl Sizes {
    /// Of a request that is of the right kind, whether it fits or not.
    fn of(request: &TrainingRequest<'_>) -> Option<Self> {
        let train_head = match request.part {
            Part::All => true,
            Part::Body => false,
            Part::Nothing | Part::Head => return None,
        };
        if request.loss != LossKind::CrossEntropy
            || request.optimizer != OptimizerKind::Adam
            || request.heads != 1
        {
            return None;
        }
        // `flatten` and `identity` change no value.
        let mut layers = request
            .network
            .specs()
            .iter()
            .enumerate()
            .filter(|(_, layer)| !matches!(layer, LayerSpec::Flatten | LayerSpec::Identity));
        match (layers.next(), layers.next(), layers.next(), layers.next()) {
            (
                Some((first_layer, &LayerSpec::Linear(hidden))),
                Some((_, LayerSpec::Relu)),
                Some((head_layer, &LayerSpec::Linear(classes))),
                None,
            ) => Some(Self {
                inputs: request.network.inputs(),
                hidden,
                classes,
                batch: request.batch,
                first_layer,
                head_layer,
                train_head,
                prior: request.prior,
                weight_noise: request.weight_noise,
            }),
            _ => None,
        }
    }

    /// Whether the division of the work over blocks and warps has room for these sizes; shared memory is apart.
    fn fit(&self) -> bool {
        self.inputs.is_multiple_of(4)
            && self.inputs <= MOST_TILES * PRODUCT_WARPS * TILE
            && self.cluster() <= LARGEST_CLUSTER
            && self.classes <= MOST_CLASSES
            && (1..=LARGEST_BATCH).contains(&self.batch)
    }

    /// Blocks of a client. At least two: copies to all blocks of a cluster are for clusters of several, and a block without
    /// units does no harm.
    fn cluster(&self) -> usize {
        self.hidden.div_ceil(UNITS).max(2)
    }

    /// Tiles of features of a warp, in one half or two as in `mlp_shared.cuh`.
    const fn warp_tiles(&self) -> usize {
        let tiles = self.inputs.div_ceil(TILE);
        let halves = if tiles > PRODUCT_WARPS { 2 } else { 1 };
        halves * tiles.div_ceil(halves * PRODUCT_WARPS)
    }

    /// Values of global memory of a client: the prior in the order of the registers.
    fn workspace(&self) -> usize {
        if self.prior { self.cluster() * PRODUCT_WARPS * self.warp_tiles() * 8 * WARP } else { 0 }
    }

    /// The size of `Shared` in `mlp_shared.cuh`, member by member; the source checks it.
    fn shared_bytes(&self) -> usize {
        let Self { batch, classes, .. } = *self;
        let head_noise = self.weight_noise && self.train_head;
        let padded_batch = batch.next_multiple_of(TILE);
        let padded_inputs = PRODUCT_WARPS * self.warp_tiles() * TILE;
        let row = if padded_inputs % 16 == 8 { padded_inputs } else { padded_inputs + 8 };
        let logit_row = (classes + usize::from(head_noise)).next_multiple_of(4);
        let inputs = batch * row;
        let partial = PRODUCT_WARPS * batch * (UNITS + 4);
        let logits = self.cluster() * batch * logit_row;
        let hidden = batch * UNITS;
        let hidden_gradient = padded_batch * UNITS;
        let logit_gradient = batch * logit_row;
        let weight2 = logit_row * UNITS;
        let biases = UNITS + WARP;
        let losses = padded_batch;
        let unit_draws = if self.weight_noise { batch * UNITS } else { 4 };
        let logit_draws = if head_noise { (batch * classes).next_multiple_of(4) } else { 4 };
        let input_norms = padded_batch;
        let batches = 2 * (2 * padded_batch + 4);
        let noise_key = 4;
        let values = inputs
            + partial
            + logits
            + hidden
            + hidden_gradient
            + logit_gradient
            + weight2
            + biases
            + losses
            + unit_draws
            + logit_draws
            + input_norms
            + batches
            + noise_key;
        let barriers = 6;
        4 * values + 8 * barriers
    }

    fn source(&self) -> String {
        let Self { inputs, hidden, classes, batch, first_layer, head_layer, train_head, prior, weight_noise } =
            *self;
        let (cluster, shared_bytes) = (self.cluster(), self.shared_bytes());
        let mut source = format!(
            "constexpr int INPUTS = {inputs};\n\
             constexpr int HIDDEN = {hidden};\n\
             constexpr int CLASSES = {classes};\n\
             constexpr int BATCH = {batch};\n\
             constexpr int CLUSTER = {cluster};\n\
             constexpr int FIRST_LAYER = {first_layer};\n\
             constexpr int HEAD_LAYER = {head_layer};\n\
             constexpr bool TRAIN_HEAD = {train_head};\n\
             constexpr bool PRIOR = {prior};\n\
             constexpr bool WEIGHT_NOISE = {weight_noise};\n\
             constexpr int SHARED_BYTES = {shared_bytes};\n"
        );
        for part in PARTS {
            source.push('\n');
            source.push_str(part);
        }
        source
    }
}

#[cfg(test)]
mod tests {
    use fedsi_nn::Network;

    use super::*;

    fn network(inputs: usize, hidden: usize, classes: usize) -> Network {
        let layers = [LayerSpec::Linear(hidden), LayerSpec::Relu, LayerSpec::Linear(classes)];
        Network::new(&[inputs], &layers).unwrap()
    }

    const fn request(network: &Network) -> TrainingRequest<'_> {
        TrainingRequest {
            network,
            part: Part::All,
            loss: LossKind::CrossEntropy,
            optimizer: OptimizerKind::Adam,
            prior: false,
            weight_noise: false,
            heads: 1,
            batch: 50,
        }
    }

    fn takes(request: &TrainingRequest<'_>) -> bool {
        kernel(request, &DeviceLimits::H200).is_some()
    }

    #[test]
    fn a_cluster_of_seven_blocks_takes_mnists_network() {
        let network = network(784, 100, 10);
        let kernel = kernel(&request(&network), &DeviceLimits::H200).unwrap();
        assert_eq!((kernel.entry, kernel.launch), ("train", Launch::Cluster));
        assert_eq!((kernel.blocks_per_client, kernel.threads, kernel.workspace), (7, 256, 0));
        // `sizeof(Shared)`, as nvcc counts it.
        assert_eq!(kernel.shared_bytes, 214_816);
        for line in [
            "constexpr int INPUTS = 784;",
            "constexpr int HIDDEN = 100;",
            "constexpr int CLASSES = 10;",
            "constexpr int BATCH = 50;",
            "constexpr int CLUSTER = 7;",
            "constexpr int FIRST_LAYER = 0;",
            "constexpr int HEAD_LAYER = 2;",
            "constexpr bool TRAIN_HEAD = true;",
            "constexpr bool PRIOR = false;",
            "constexpr bool WEIGHT_NOISE = false;",
            "constexpr int SHARED_BYTES = 214816;",
        ] {
            assert!(kernel.source.lines().any(|found| found == line), "no line `{line}`");
        }
        assert!(!kernel.source.contains("#include"), "the source has to stand alone");
        assert_eq!(kernel.source.matches("extern \"C\" __global__").count(), 1);
        assert_eq!(kernel.source.matches("struct Job {").count(), 1);
    }

    #[test]
    fn what_moves_the_prior_and_the_noise_are_constants() {
        let network = network(784, 100, 10);
        let request =
            TrainingRequest { part: Part::Body, prior: true, weight_noise: true, ..request(&network) };
        let kernel = kernel(&request, &DeviceLimits::H200).unwrap();
        for line in [
            "constexpr bool TRAIN_HEAD = false;",
            "constexpr bool PRIOR = true;",
            "constexpr bool WEIGHT_NOISE = true;",
        ] {
            assert!(kernel.source.lines().any(|found| found == line), "no line `{line}`");
        }
        // 7 blocks x 7 warps x 14 tiles x 2 (weight, mean) x 32 lanes x 4 entries.
        assert_eq!(kernel.workspace, 175_616);
    }

    #[test]
    fn layers_that_change_no_value_only_shift_the_indices() {
        let layers = [
            LayerSpec::Flatten,
            LayerSpec::Identity,
            LayerSpec::Linear(30),
            LayerSpec::Relu,
            LayerSpec::Linear(5),
        ];
        let network = Network::new(&[1, 8, 8], &layers).unwrap();
        let kernel = kernel(&request(&network), &DeviceLimits::H200).unwrap();
        assert_eq!(kernel.blocks_per_client, 2);
        for line in
            ["constexpr int INPUTS = 64;", "constexpr int FIRST_LAYER = 2;", "constexpr int HEAD_LAYER = 4;"]
        {
            assert!(kernel.source.lines().any(|found| found == line), "no line `{line}`");
        }
    }

    #[test]
    fn other_networks_are_refused() {
        let linear = LayerSpec::Linear;
        for layers in [
            vec![linear(10)],
            vec![linear(20), linear(10)],
            vec![linear(20), LayerSpec::Tanh, linear(10)],
            vec![LayerSpec::Relu, linear(20), linear(10)],
            vec![linear(20), LayerSpec::Relu, LayerSpec::Relu, linear(10)],
            vec![linear(20), LayerSpec::Relu, linear(20), LayerSpec::Relu, linear(10)],
        ] {
            let network = Network::new(&[64], &layers).unwrap();
            assert!(!takes(&request(&network)), "{layers:?}");
        }
    }

    #[test]
    fn other_training_is_refused() {
        let network = network(784, 100, 10);
        let good = request(&network);
        assert!(takes(&good));
        assert!(!takes(&TrainingRequest { part: Part::Head, ..good }), "the head alone");
        assert!(!takes(&TrainingRequest { part: Part::Nothing, ..good }), "nothing moves");
        assert!(!takes(&TrainingRequest { loss: LossKind::Gaussian, ..good }), "a Gaussian loss");
        assert!(!takes(&TrainingRequest { optimizer: OptimizerKind::Sgd, ..good }), "SGD");
        assert!(!takes(&TrainingRequest { optimizer: OptimizerKind::Momentum, ..good }), "momentum");
        assert!(!takes(&TrainingRequest { heads: 2, ..good }), "two heads");
        assert!(!takes(&TrainingRequest { batch: 0, ..good }), "an empty batch");
    }

    #[test]
    fn sizes_that_fit_are_taken_and_others_refused() {
        for (inputs, hidden, blocks) in [(4, 1, 2), (64, 32, 2), (64, 33, 3), (784, 128, 8)] {
            let network = network(inputs, hidden, 10);
            let kernel = kernel(&request(&network), &DeviceLimits::H200).unwrap();
            assert_eq!(kernel.blocks_per_client, blocks, "{hidden} hidden units");
        }
        for (inputs, hidden, classes, batch, fits) in [
            (4, 1, 1, 1, true),
            (784, 128, 10, 50, true),
            (784, 128, 12, 50, true),
            (64, 32, 32, 56, true),
            (784, 129, 10, 50, false), // more than eight blocks
            (788, 100, 10, 50, false), // registers
            (783, 100, 10, 50, false), // rows are not multiples of 16 bytes
            (64, 32, 33, 50, false),   // a lane a class
            (64, 32, 10, 57, false),   // four threads a sample
            (784, 100, 10, 56, false), // shared memory
        ] {
            let network = network(inputs, hidden, classes);
            let request = TrainingRequest { batch, prior: true, weight_noise: true, ..request(&network) };
            assert_eq!(takes(&request), fits, "{inputs}-{hidden}-{classes}, batches of {batch}");
        }
    }

    #[test]
    fn gpus_without_clusters_or_with_little_shared_memory_are_refused() {
        let network = network(784, 100, 10);
        let request = request(&network);
        let older = DeviceLimits { architecture: 80, ..DeviceLimits::H200 };
        assert_eq!(kernel(&request, &older), None);
        let needed = kernel(&request, &DeviceLimits::H200).unwrap().shared_bytes;
        let exact = DeviceLimits { shared_bytes: needed, ..DeviceLimits::H200 };
        assert!(kernel(&request, &exact).is_some());
        let less = DeviceLimits { shared_bytes: needed - 1, ..DeviceLimits::H200 };
        assert_eq!(kernel(&request, &less), None);
    }
}
