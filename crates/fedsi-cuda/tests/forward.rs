//! Outputs and features by the kernel of `src/forward`, run on a CPU, beside fedsi-nn in f64.
#![allow(clippy::unwrap_used, clippy::panic)]

mod emulator;

use emulator::networks::{assert_close, networks, numbers, singles};
use emulator::{Buffer, Emulated, Order};
use fedsi_cuda::forward::{self, ForwardJob, ForwardKind};
use fedsi_cuda::kernel::DeviceLimits;
use fedsi_nn::{Network, Tape};

fn expected(network: &Network, kind: ForwardKind, values: &[f64], inputs: &[f64]) -> Vec<f64> {
    let rows = inputs.len() / network.inputs();
    let mut tape = Tape::new(network, rows);
    tape.inputs_mut(network, rows).copy_from_slice(inputs);
    match kind {
        ForwardKind::Outputs => tape.forward(network, values).to_vec(),
        ForwardKind::Features => tape.forward_body(network, values).to_vec(),
    }
}

/// Clients with these numbers of rows, in one launch.
fn compare(
    name: &str,
    network: &Network,
    limits: &DeviceLimits,
    kind: ForwardKind,
    rows: &[usize],
    order: Order,
) {
    let kernel = forward::kernel(network, limits, kind).unwrap();
    let Some(mut emulated) = Emulated::compile_or_skip(&kernel) else { return };
    emulated.order = order;
    let width = if kind == ForwardKind::Outputs { network.outputs() } else { network.features() };
    let mut jobs = Vec::new();
    let mut clients = Vec::new();
    for (client, &rows) in rows.iter().enumerate() {
        let values: Vec<f64> =
            numbers(client as u32, network.layout().len()).iter().map(|x| 0.5 * x).collect();
        let inputs = numbers(100 + client as u32, rows * network.inputs());
        let on_device = (
            Buffer::of("values", &singles(&values)),
            Buffer::of("inputs", &singles(&inputs)),
            Buffer::<f32>::uninitialised("outputs", rows * width),
            Buffer::<f32>::uninitialised("workspace", kernel.workspace),
        );
        jobs.push(ForwardJob {
            values: on_device.0.address(),
            inputs: on_device.1.address(),
            outputs: on_device.2.address(),
            workspace: on_device.3.address(),
            rows: rows as i32,
            unused: 0,
        });
        let values: Vec<f64> = on_device.0.values().iter().map(|&value| f64::from(value)).collect();
        clients.push((on_device, expected(network, kind, &values, &inputs)));
    }
    emulated.launch_jobs_alone(&jobs).unwrap_or_else(|error| panic!("{name}, {kind:?}: {error}"));
    for (client, ((_, _, outputs, workspace), expected)) in clients.iter().enumerate() {
        workspace.check();
        assert_close(&format!("{name}, {kind:?}, client {client}"), &outputs.values(), expected, 2e-6);
    }
}

#[test]
fn any_network_in_shared_memory() {
    for (name, network) in networks() {
        compare(name, &network, &DeviceLimits::H200, ForwardKind::Outputs, &[1, 8, 21], Order::Reverse);
    }
}

#[test]
fn networks_that_shared_memory_does_not_hold() {
    let small = DeviceLimits { shared_bytes: 64, ..DeviceLimits::H200 };
    for (name, network) in networks().into_iter().skip(1) {
        let kernel = forward::kernel(&network, &small, ForwardKind::Outputs).unwrap();
        assert!(kernel.shared_bytes == 0 && kernel.workspace > 0, "{name} is not in the workspace");
        compare(name, &network, &small, ForwardKind::Outputs, &[6, 1], Order::Shuffled(3));
    }
}

#[test]
fn features_are_the_outputs_of_the_body() {
    for (name, network) in networks() {
        compare(name, &network, &DeviceLimits::H200, ForwardKind::Features, &[5], Order::Forward);
    }
}

#[test]
fn more_rows_than_the_blocks_take_at_once_and_none() {
    let (name, network) = networks().swap_remove(1);
    compare(name, &network, &DeviceLimits::H200, ForwardKind::Outputs, &[1100, 0, 513], Order::Forward);
}
