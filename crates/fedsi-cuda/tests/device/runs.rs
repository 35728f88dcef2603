//! Whole federations on the GPU: every method, beside the CPU.

use std::sync::Arc;

use fedsi_cuda::{CudaExecutor, CudaNetwork, Device};
use fedsi_data::Federation;
use fedsi_fl::config::Overrides;
use fedsi_fl::simulation::Evaluation;
use fedsi_fl::{Checked, Registry, Simulation, resolve};
use toml::Value;

use crate::gpu::gpu;

fn config(method: &str, more: &[(&str, Value)]) -> Checked {
    let mut given = vec![
        ("method".to_owned(), Value::String(method.to_owned())),
        ("rounds".to_owned(), Value::Integer(30)),
        ("partition.clients".to_owned(), Value::Integer(6)),
        ("federation.participants".to_owned(), Value::Integer(4)),
        ("training.epochs".to_owned(), Value::Integer(5)),
        ("tuning.epochs".to_owned(), Value::Integer(5)),
    ];
    given.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    resolve(&[Overrides::from_assignments("a test", given).unwrap()]).unwrap().check().unwrap()
}

fn on_gpu(device: &Arc<Device>, config: &Checked, data: &Arc<dyn Federation>) -> Simulation {
    let network = config.network(data.input_shape(), data.task()).unwrap();
    let network = Arc::new(CudaNetwork::new(device, network).unwrap());
    let (own, samples) = (Arc::clone(&network), Arc::clone(data));
    Simulation::with_network(config, Arc::clone(data), network, 4, |client| {
        Ok(Box::new(CudaExecutor::new(Arc::clone(client), own, samples, 2)?))
    })
    .unwrap()
}

fn accuracy(evaluation: &Evaluation) -> f64 {
    evaluation.scores().unwrap().accuracy().unwrap()
}

#[test]
fn every_method_learns_as_much_as_on_the_cpu() {
    let Some(device) = gpu("every_method_learns_as_much_as_on_the_cpu") else { return };
    for method in Registry::builtin().methods() {
        let config = config(method.name, &[]);
        let data: Arc<dyn Federation> = Arc::from(config.open_data().unwrap());
        let found = on_gpu(&device, &config, &data).run().unwrap();
        let expected = Simulation::new(&config, Arc::clone(&data)).unwrap().run().unwrap();
        for client in &found.clients {
            assert_eq!(client.problem, None, "{}, client {}", method.name, client.client);
        }
        let (found, expected) = (accuracy(&found), accuracy(&expected));
        assert!(
            (found - expected).abs() < 0.05,
            "{}: {found} on the GPU, {expected} on the CPU",
            method.name
        );
    }
}

#[test]
fn the_same_bits_twice_and_whoever_is_beside() {
    let Some(device) = gpu("the_same_bits_twice_and_whoever_is_beside") else { return };
    for method in ["fedavg", "fedsi", "bpfed", "fedpop"] {
        let config = config(method, &[]);
        let data: Arc<dyn Federation> = Arc::from(config.open_data().unwrap());
        let shared = |device: &Arc<Device>| {
            let mut simulation = on_gpu(device, &config, &data);
            simulation.round().unwrap();
            simulation.round().unwrap();
            simulation.global_parameters().unwrap()
        };
        let first = shared(&device);
        assert_eq!(first, shared(&device), "{method}: other bits in a repetition");
        let beside: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| shared(&device))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(beside.iter().all(|other| *other == first), "{method}: other bits beside other runs");
    }
}

#[test]
fn a_run_goes_on_from_one_to_the_other() {
    let Some(device) = gpu("a_run_goes_on_from_one_to_the_other") else { return };
    let config = config("fedsi", &[]);
    let data: Arc<dyn Federation> = Arc::from(config.open_data().unwrap());
    let mut first = on_gpu(&device, &config, &data);
    first.round().unwrap();
    first.round().unwrap();
    let mut second = Simulation::new(&config, Arc::clone(&data)).unwrap();
    second.restore(first.snapshot().unwrap()).unwrap();
    let mixed = accuracy(&second.run().unwrap());
    let whole = accuracy(&Simulation::new(&config, Arc::clone(&data)).unwrap().run().unwrap());
    assert!((mixed - whole).abs() < 0.08, "{mixed} over both, {whole} on the CPU");
}
