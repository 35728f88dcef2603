//! Linear algebra on a GPU beside that on one thread, to 1e-10; and, when asked for, its times:
//! `FEDSI_MNIST=FOLDER cargo test --release -p fedsi-cuda --test algebra -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

mod algebra_support;

use std::sync::Arc;
use std::time::Instant;

use algebra_support::{Backed, mnist, problem_data, random, trained};
use cudarc::driver::CudaContext;
use fedsi_bayes::{
    Form, Laplace, Likelihood, LinearAlgebra, LinearisedNetwork, PosteriorFamily, Predictive, Prior, Problem,
    SingleThread, Subnetwork,
};
use fedsi_cuda::CudaError;
use fedsi_cuda::algebra::CudaAlgebra;
use fedsi_nn::{LayerSpec, Network};
use fedsi_random::{Purpose, Streams};

/// The device, or nothing where there is none: the test is then skipped, and says so.
fn device() -> Option<CudaAlgebra> {
    // SAFETY: only looks whether the libraries can be opened.
    let present =
        unsafe { cudarc::driver::sys::is_culib_present() && cudarc::nvrtc::sys::is_culib_present() };
    if !present || CudaContext::device_count().unwrap_or(0) == 0 {
        println!("skipped: no GPU");
        return None;
    }
    let context = CudaContext::new(0).expect("a GPU that the driver shows");
    let compile = |source: &str, entry: &str| {
        let compiled =
            cudarc::nvrtc::compile_ptx(source).map_err(|error| CudaError::Compile(error.to_string()))?;
        let module = context.load_module(compiled).map_err(|error| CudaError::Compile(error.to_string()))?;
        module.load_function(entry).map_err(|error| CudaError::Compile(error.to_string()))
    };
    Some(CudaAlgebra::new(Arc::clone(&context), &compile).expect("cuBLAS and cuSOLVER"))
}

fn whole_device() -> Option<Arc<dyn LinearAlgebra>> {
    Some(Arc::new(device()?.with_everything_on_the_device()))
}

/// The largest distance, in units of the largest value.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    a.iter().zip(b).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs() / scale))
}

fn networks() -> Vec<(&'static str, Network)> {
    use LayerSpec::{Conv, Flatten, Linear, Relu, Tanh};
    let convolution = Conv(fedsi_nn::ConvSpec { out: 3, kernel: 3, stride: 1, padding: 0 });
    vec![
        ("mlp", Network::new(&[12], &[Linear(30), Relu, Linear(8), Tanh, Linear(4)]).unwrap()),
        ("cnn", Network::new(&[1, 6, 6], &[convolution, Relu, Flatten, Linear(9), Relu, Linear(3)]).unwrap()),
    ]
}

/// Every form of a posterior and its predictions, on the device and on one thread.
#[test]
fn posteriors_agree_with_those_of_one_thread() {
    let Some(device) = whole_device() else { return };
    for (name, network) in networks() {
        let (parameters, inputs) = problem_data(&network, 150);
        let (train, test) = inputs.split_at(120 * network.inputs());
        let selected: Vec<usize> = (0..network.layout().len()).filter(|index| index % 3 != 1).collect();
        let prior = vec![0.7; selected.len()];
        let fit = |algebra: &Arc<dyn LinearAlgebra>, form, tolerance| {
            let network = Backed { network: network.clone(), algebra: Arc::clone(algebra) };
            let problem =
                Problem::new(Arc::new(network), parameters.clone(), train, Likelihood::Categorical).unwrap();
            let family = PosteriorFamily::new(&problem, &selected, &prior, tolerance, form).unwrap();
            let posterior = family.into_posterior().unwrap();
            let found = (
                posterior.marginal_variances(),
                posterior.log_determinant_ratio(),
                posterior.rank(),
                posterior.certificate(),
            );
            let range = 0..parameters.len();
            let subnetwork = Subnetwork::new(selected.clone(), range.clone()).unwrap();
            let explanation = subnetwork.explain(problem.network().layout(), 0, range);
            let laplace = Laplace::from_posterior(
                Arc::clone(problem.network()),
                parameters.clone(),
                Likelihood::Categorical,
                posterior,
                explanation,
            )
            .unwrap();
            (found, laplace.outputs(test).unwrap().covariance)
        };
        let cpu: Arc<dyn LinearAlgebra> = Arc::new(SingleThread);
        for (form, tolerance) in [
            (Some(Form::Samples), 0.0),
            (Some(Form::Parameters), 0.0),
            (Some(Form::Projection), 0.05),
            (None, 0.0),
            (None, 0.05),
        ] {
            let (expected, outputs) = fit(&cpu, form, tolerance);
            let (found, device_outputs) = fit(&device, form, tolerance);
            let what = format!("{name} {form:?} {tolerance}");
            assert!(distance(&found.0, &expected.0) < 1e-10, "{what}: marginal variances");
            assert!(
                (found.1 - expected.1).abs() < 1e-10 * expected.1.abs().max(1.0),
                "{what}: log determinant"
            );
            assert_eq!(found.2, expected.2, "{what}: rank");
            assert!((found.3 - expected.3).abs() < 1e-8, "{what}: certificate");
            assert!(distance(&device_outputs, &outputs) < 1e-10, "{what}: covariances of outputs");
            let (again, outputs_again) = fit(&device, form, tolerance);
            assert_eq!(again, found, "{what}: the same bits");
            assert_eq!(outputs_again, device_outputs, "{what}: the same bits of outputs");
        }
    }
}

/// More samples than parameters and a tolerance: a pivoted factor of `B' B`, on the device.
#[test]
fn directions_and_prior_searches_agree() {
    let Some(device) = whole_device() else { return };
    let network =
        Network::new(&[6], &[LayerSpec::Linear(10), LayerSpec::Relu, LayerSpec::Linear(3)]).unwrap();
    let (parameters, inputs) = problem_data(&network, 460);
    let (train, test) = inputs.split_at(400 * 6);
    let scales = [0.01, 0.3, 1.0, 8.0];
    let find = |algebra: &Arc<dyn LinearAlgebra>, tolerance: f64| {
        let backed = Backed { network: network.clone(), algebra: Arc::clone(algebra) };
        let problem =
            Problem::new(Arc::new(backed), parameters.clone(), train, Likelihood::Categorical).unwrap();
        let prior = Prior::isotropic(0..70, 0.5);
        let selection = problem.choose_all(&prior).unwrap();
        let fit = problem.fit(&selection, tolerance).unwrap();
        let mut rng = Streams::new(1).stream(Purpose::PriorDraws, 0, 0);
        let how = Predictive::Differences;
        let searched = problem
            .probabilities_at_scales(&selection, tolerance, &scales, test, how, 0, &mut rng)
            .unwrap()
            .concat();
        (fit.posterior().rank(), fit.posterior().marginal_variances(), searched)
    };
    let cpu: Arc<dyn LinearAlgebra> = Arc::new(SingleThread);
    for tolerance in [0.0, 0.5] {
        let (expected, found) = (find(&cpu, tolerance), find(&device, tolerance));
        assert_eq!(found.0, expected.0, "{tolerance}: rank");
        assert!(distance(&found.1, &expected.1) < 1e-10, "{tolerance}: marginal variances");
        assert!(distance(&found.2, &expected.2) < 1e-9, "{tolerance}: probabilities");
    }
}

#[test]
fn factorisations_agree_and_refuse_what_is_not_positive() {
    let Some(device) = whole_device() else { return };
    for size in [1, 5, 64, 300] {
        let values = random(size * size, 3);
        let mut matrix = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..size {
                let product: f64 =
                    (0..size).map(|k| values[row * size + k] * values[column * size + k]).sum();
                matrix[row * size + column] = product + if row == column { 1.0 } else { 0.0 };
            }
        }
        let (expected, factor) = SingleThread.inverse_factor(matrix.clone(), size).unwrap();
        let (found, device_factor) = device.inverse_factor(matrix.clone(), size).unwrap();
        assert!((found - expected).abs() < 1e-10 * expected.abs().max(1.0), "{size}: log determinant");
        assert!(distance(&device_factor, &factor) < 1e-10, "{size}: inverse factor");
        let (expected, _) = SingleThread.eigen(&matrix, size).unwrap();
        let (found, vectors) = device.eigen(&matrix, size).unwrap();
        assert!(distance(&found, &expected) < 1e-10, "{size}: eigenvalues");
        for (value, vector) in found.iter().zip(vectors.chunks_exact(size)) {
            let image: Vec<f64> = matrix
                .chunks_exact(size)
                .map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
                .collect();
            let scaled: Vec<f64> = vector.iter().map(|entry| value * entry).collect();
            assert!(distance(&image, &scaled) < 1e-9, "{size}: an eigenvector");
        }
        matrix[0] = -1.0;
        assert!(device.inverse_factor(matrix, size).is_err(), "{size}: not positive definite");
    }
}

/// Clients' threads work at once, and none gets another's numbers.
#[test]
fn threads_work_side_by_side() {
    let Some(device) = whole_device() else { return };
    let matrix = |seed: u64| {
        let mut matrix = random(200 * 200, seed);
        for index in 0..200 {
            matrix[index * 201] = 300.0;
        }
        matrix
    };
    let alone: Vec<_> = (0..6).map(|seed| device.inverse_factor(matrix(seed), 200).unwrap()).collect();
    std::thread::scope(|scope| {
        for (seed, alone) in alone.iter().enumerate() {
            let (device, matrix) = (&device, &matrix);
            scope.spawn(move || {
                for _ in 0..5 {
                    assert_eq!(&device.inverse_factor(matrix(seed as u64), 200).unwrap(), alone);
                }
            });
        }
    });
}

/// Times on one core, on all cores and on the device, of clients of MNIST in a folder.
#[test]
#[ignore = "a measurement; needs FEDSI_MNIST"]
fn measure() {
    let Ok(folder) = std::env::var("FEDSI_MNIST") else {
        println!("skipped: FEDSI_MNIST names no folder");
        return;
    };
    let network =
        Network::new(&[784], &[LayerSpec::Linear(100), LayerSpec::Relu, LayerSpec::Linear(10)]).unwrap();
    let mut algebras: Vec<(&str, Arc<dyn LinearAlgebra>)> = vec![("one thread", Arc::new(SingleThread))];
    if let Some(device) = device() {
        algebras.push(("GPU", Arc::new(device)));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores");
    for (size, train_count, test_count, tolerances) in
        [("large", 4500, 1500, &[1.0, 0.1, 0.0][..]), ("small", 250, 4750, &[1.0, 0.1, 0.0][..])]
    {
        let (inputs, labels) = mnist(&folder, train_count + test_count);
        let (train, test) = inputs.split_at(train_count * 784);
        let parameters = trained(&network, train, &labels[..train_count]);
        for (name, algebra) in &algebras {
            let backed = Backed { network: network.clone(), algebra: Arc::clone(algebra) };
            let backed: Arc<dyn LinearisedNetwork> = Arc::new(backed);
            let problem =
                Problem::new(Arc::clone(&backed), parameters.clone(), train, Likelihood::Categorical)
                    .unwrap();
            let prior = Prior::isotropic(0..78_500, 1.0);
            let rule = fedsi_bayes::selection::rules::Random;
            let mut rng = Streams::new(1).stream(Purpose::Selection, 0, 0);
            let selection = problem.choose(&prior, &rule, 3925, &mut rng).unwrap();
            println!("MNIST-{size}, {name}");
            for &tolerance in tolerances {
                let mut fit = problem.fit(&selection, tolerance).unwrap();
                let begin = Instant::now();
                for _ in 0..2 {
                    fit = problem.fit(&selection, tolerance).unwrap();
                }
                let seconds = begin.elapsed().as_secs_f64() / 2.0;
                let posterior = fit.posterior();
                let mean = posterior.marginal_variances().iter().sum::<f64>() / 3925.0;
                let (rank, bound) = (posterior.rank(), posterior.certificate());
                println!(
                    "  tolerance {tolerance}: fit {seconds:.4} s, rank {rank}, certificate {bound:.2e}, mean variance {mean:.6}"
                );
                let begin = Instant::now();
                let outputs = fit.outputs(test).unwrap();
                let seconds = begin.elapsed().as_secs_f64();
                println!("    {} predictions {seconds:.4} s", outputs.len());
                if std::env::var("FEDSI_SIDE_BY_SIDE").is_ok() {
                    let begin = Instant::now();
                    std::thread::scope(|scope| {
                        for _ in 0..10 {
                            scope.spawn(|| problem.fit(&selection, tolerance).unwrap());
                        }
                    });
                    println!("    ten clients at once, fit {:.4} s", begin.elapsed().as_secs_f64());
                }
            }
            let scales: Vec<f64> = (0..25).map(|step| 10_f64.powf(-3.0 + 0.25 * f64::from(step))).collect();
            let mut rng = Streams::new(1).stream(Purpose::PriorDraws, 0, 0);
            let begin = Instant::now();
            let asked = &test[..300.min(test_count) * 784];
            problem
                .probabilities_at_scales(
                    &selection,
                    0.1,
                    &scales,
                    asked,
                    Predictive::Differences,
                    0,
                    &mut rng,
                )
                .unwrap();
            println!("  prior search, 25 scales, 300 samples: {:.4} s", begin.elapsed().as_secs_f64());
        }
    }
}
