//! Time and memory of one client's posterior, over a subnetwork and over the whole body, and of a search over prior
//! variances: `one_client [mlp|cnn] [samples] [tolerance] [test samples]`.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use fedsi_bayes::{Curvature, Likelihood, PosteriorFamily, Predictive, Prior, Problem, Selection};
use fedsi_nn::{ConvSpec, LayerSpec, Loss, Network, OptimizerSpec, PoolSpec, Targets, Trainer};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

/// Classes of the synthetic data: each a pattern.
const CLASSES: usize = 10;

/// Directions in which the samples of all classes vary, as strokes and shades do.
const VARIATIONS: usize = 20;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("mlp", String::as_str);
    let samples: usize = arguments.get(1).map_or(Ok(250), |text| text.parse())?;
    let tolerance: f64 = arguments.get(2).map_or(Ok(0.0), |text| text.parse())?;
    let tests: usize = arguments.get(3).map_or(Ok(4750), |text| text.parse())?;
    let (network, count) = match name {
        "cnn" => (cnn()?, 4281),
        _ => (mlp()?, 3925),
    };
    let (inputs, labels) = data(&network, samples + tests);
    let (train, test) = inputs.split_at(samples * network.inputs());
    let parameters = trained(&network, train, &labels[..samples]);
    let body = network.layout().body();
    let selected = chosen(body.end, count);
    let prior = vec![1.0; count];
    let problem = Problem::new(Arc::new(network), parameters, train, Likelihood::Categorical)?;
    println!("{name}: {samples} samples, {count} of {} parameters, tolerance {tolerance}", body.len());

    let begin = Instant::now();
    let curvature = Curvature::diagonal(&problem, body.clone())?;
    let alive = curvature.ggn.iter().filter(|&&value| value > 0.0).count();
    println!("curvature: {:.4} s, {alive} parameters alive", begin.elapsed().as_secs_f64());

    for _ in 0..3 {
        let begin = Instant::now();
        let family = PosteriorFamily::new(&problem, &selected, &prior, tolerance, None)?;
        let formed = begin.elapsed().as_secs_f64();
        println!("family: {formed:.4} s, {:?}", family.form());
        drop(family);
        let begin = Instant::now();
        let posterior =
            PosteriorFamily::new(&problem, &selected, &prior, tolerance, None)?.into_posterior()?;
        let variances = posterior.marginal_variances();
        let seconds = begin.elapsed().as_secs_f64();
        let mean = variances.iter().sum::<f64>() / variances.len() as f64;
        println!(
            "fit: {seconds:.4} s, rank {}, certificate {:.3e}, mean variance {mean:.6}, log determinant {:.6}",
            posterior.rank(),
            posterior.certificate(),
            posterior.log_determinant_ratio(),
        );
    }
    println!("memory after fit: {}", peak_memory());
    let selection = problem.choose_indices(&Prior::isotropic(body.clone(), 1.0), selected)?;
    predict(&problem, &selection, tolerance, test)?;
    search(&problem, &selection, tolerance, test)?;
    // The variance of an output adds up over all parameters.
    let variance = count as f64 / body.len() as f64;
    let whole = problem.choose_all(&Prior::isotropic(body, variance))?;
    println!("the whole body:");
    predict(&problem, &whole, tolerance, test)?;
    search(&problem, &whole, tolerance, test)
}

fn predict(
    problem: &Problem<'_>,
    selection: &Selection,
    tolerance: f64,
    test: &[f64],
) -> Result<(), Failure> {
    let begin = Instant::now();
    let fitted = problem.fit(selection, tolerance)?;
    let seconds = begin.elapsed().as_secs_f64();
    let (rank, certificate) = (fitted.posterior().rank(), fitted.posterior().certificate());
    println!("fit: {seconds:.4} s, rank {rank}, certificate {certificate:.3e}");
    let begin = Instant::now();
    let outputs = fitted.outputs(test)?;
    let seconds = begin.elapsed().as_secs_f64();
    let mean = outputs.covariance.iter().step_by(CLASSES + 1).sum::<f64>() / outputs.mean.len() as f64;
    println!("outputs: {seconds:.4} s for {} samples, mean variance {mean:.6}", outputs.len());
    println!("memory: {}", peak_memory());
    Ok(())
}

/// A search over prior variances: all of them at once, and one after the other.
fn search(problem: &Problem<'_>, selection: &Selection, tolerance: f64, test: &[f64]) -> Result<(), Failure> {
    let scales: Vec<f64> = (0..25).map(|step| 10_f64.powf(-3.0 + 0.25 * f64::from(step))).collect();
    let mut rng = Streams::new(1).stream(Purpose::PriorDraws, 0, 0);
    let how = Predictive::Differences;
    let begin = Instant::now();
    let found = problem.probabilities_at_scales(selection, tolerance, &scales, test, how, 0, &mut rng)?;
    println!("search: {:.4} s for {} scales", begin.elapsed().as_secs_f64(), found.len());
    println!("memory: {}", peak_memory());
    let one = [1.0];
    let begin = Instant::now();
    for fit in problem.fit_scales(selection, tolerance, &one)? {
        let single = fit?.probabilities(test, how, 0, &mut rng)?;
        let gaps = single.iter().zip(&found[12]).map(|(a, b)| (a - b).abs());
        println!(
            "one scale by itself: {:.4} s, probabilities differ by at most {:.1e}",
            begin.elapsed().as_secs_f64(),
            gaps.fold(0.0, f64::max)
        );
    }
    Ok(())
}

fn mlp() -> Result<Network, Failure> {
    Ok(Network::new(&[784], &[LayerSpec::Linear(100), LayerSpec::Relu, LayerSpec::Linear(CLASSES)])?)
}

fn cnn() -> Result<Network, Failure> {
    use LayerSpec::{Conv, Flatten, Linear, MaxPool, Relu};
    let conv = |out| Conv(ConvSpec { out, kernel: 5, stride: 1, padding: 0 });
    let pool = MaxPool(PoolSpec::square(2));
    let first = [conv(6), Relu, pool.clone(), conv(16), Relu, pool, Flatten];
    let layers = [&first[..], &[Linear(120), Relu, Linear(84), Relu, Linear(CLASSES)]].concat();
    Ok(Network::new(&[3, 32, 32], &layers)?)
}

fn data(network: &Network, samples: usize) -> (Vec<f64>, Vec<u32>) {
    let width = network.inputs();
    let mut rng = Streams::new(1).stream(Purpose::Digits, 0, 0);
    let mut uniform = move || 2.0 * rng.random::<f64>() - 1.0;
    let patterns: Vec<f64> = (0..CLASSES * width).map(|_| uniform()).collect();
    let variations: Vec<f64> = (0..VARIATIONS * width).map(|_| uniform()).collect();
    let mut inputs = Vec::with_capacity(samples * width);
    let mut labels = Vec::with_capacity(samples);
    for sample in 0..samples {
        // Five of the ten classes, as in the paper's clients.
        let label = sample % (CLASSES / 2);
        let strengths: Vec<f64> = (0..VARIATIONS).map(|_| uniform()).collect();
        for pixel in 0..width {
            let varied: f64 = strengths
                .iter()
                .enumerate()
                .map(|(k, strength)| strength * variations[k * width + pixel])
                .sum();
            let value = 0.25 * patterns[label * width + pixel] + 0.25 * varied + 0.1 * uniform();
            inputs.push(value.clamp(-1.0, 1.0));
        }
        labels.push(label as u32);
    }
    (inputs, labels)
}

fn trained(network: &Network, inputs: &[f64], labels: &[u32]) -> Vec<f64> {
    let mut rng = Streams::new(1).stream(Purpose::Initialisation, 0, 0);
    let mut parameters: Vec<f64> = network.initialise(&mut rng);
    let adam = OptimizerSpec::adam(1e-3);
    let mut trainer = Trainer::new(network, network.all_layers(), Loss::CrossEntropy, adam, 50);
    let rows: Vec<u32> = (0..labels.len() as u32).collect();
    let mut loss = 0.0;
    let epochs = (12_000 / labels.len()).clamp(3, 60);
    for _ in 0..epochs {
        loss = 0.0;
        for batch in rows.chunks(50) {
            let mean = trainer.step(network, &mut parameters, inputs, Targets::Classes(labels), batch);
            loss += mean * batch.len() as f64 / labels.len() as f64;
        }
    }
    println!("trained: {epochs} epochs, loss {loss:.4}");
    parameters
}

/// `count` of the first `all` parameters, at random.
fn chosen(all: usize, count: usize) -> Vec<usize> {
    let mut rng = Streams::new(1).stream(Purpose::Partition, 0, 0);
    let mut order: Vec<usize> = (0..all).collect();
    for place in 0..count {
        let other = rng.random_range(place..all);
        order.swap(place, other);
    }
    order.truncate(count);
    order.sort_unstable();
    order
}

/// The most memory this process ever had, as the kernel tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.map_or_else(
        || "unknown".to_owned(),
        |line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "),
    )
}
