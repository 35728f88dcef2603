//! Writes the source of the fast kernel for linear - ReLU - linear, and how it is launched, for nvcc, NVRTC or a profiler:
//!
//! `cargo run -p fedsi-cuda --example mlp_kernel -- 784 100 10 50 all prior noise > kernel.cu`

use std::error::Error;
use std::io::Write as _;

use fedsi_cuda::kernel::DeviceLimits;
use fedsi_cuda::training::{LossKind, OptimizerKind, TrainingRequest, mlp};
use fedsi_fl::parameters::Part;
use fedsi_nn::{LayerSpec, Network};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [inputs, hidden, classes, batch, options @ ..] = arguments.as_slice() else {
        return Err("usage: mlp_kernel INPUTS HIDDEN CLASSES BATCH [all|body] [prior] [noise]".into());
    };
    let layers = [
        LayerSpec::Flatten,
        LayerSpec::Linear(hidden.parse()?),
        LayerSpec::Relu,
        LayerSpec::Linear(classes.parse()?),
    ];
    let has = |option: &str| options.iter().any(|given| given == option);
    let network = Network::new(&[inputs.parse()?], &layers)?;
    let request = TrainingRequest {
        network: &network,
        part: if has("body") { Part::Body } else { Part::All },
        loss: LossKind::CrossEntropy,
        optimizer: OptimizerKind::Adam,
        prior: has("prior"),
        weight_noise: has("noise"),
        heads: 1,
        batch: batch.parse()?,
    };
    let kernel =
        mlp::kernel(&request, &DeviceLimits::H200).ok_or("the fast kernel does not take these sizes")?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "// {} blocks of {} threads a client in a cluster, {} bytes of shared memory, a workspace of {} values",
        kernel.blocks_per_client, kernel.threads, kernel.shared_bytes, kernel.workspace
    )?;
    out.write_all(kernel.source.as_bytes())?;
    Ok(())
}
