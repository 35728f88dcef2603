//! The golden case of a FedSI round as `fedsi_round.py` writes it: see there for what each field means.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedsi_nn::{LayerSpec, Network};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What the engine draws at random, taken as given by the script.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Draws {
    pub seed: u64,
    pub head: Vec<f32>,
    /// Per client, per epoch: the order of its samples.
    pub batches: Vec<Vec<Vec<u32>>>,
}

#[derive(Debug, Deserialize)]
pub struct Round {
    pub network: Sizes,
    pub settings: Settings,
    pub server: Gaussian,
    pub clients: Vec<Client>,
    pub aggregates: Vec<Aggregate>,
}

#[derive(Debug, Deserialize)]
pub struct Sizes {
    pub inputs: usize,
    pub hidden: usize,
    pub classes: usize,
}

#[derive(Debug, Deserialize)]
pub struct Settings {
    pub rate: f64,
    pub batch: usize,
    pub epochs: usize,
    pub share: f64,
    pub alpha: f64,
}

/// Of the body.
#[derive(Debug, Deserialize)]
pub struct Gaussian {
    pub mean: Vec<f32>,
    pub variance: Vec<f32>,
}

#[derive(Debug, Deserialize)]
pub struct Client {
    pub inputs: Vec<Vec<f32>>,
    pub labels: Vec<u32>,
    pub trained: Vec<f32>,
    pub trained_f64: Vec<f64>,
    pub loss: f64,
    pub dead_units: Vec<usize>,
    pub diag_ggn: Vec<f64>,
    pub marginal_variances: Vec<f64>,
    pub rules: BTreeMap<String, Posterior>,
}

#[derive(Debug, Deserialize)]
pub struct Posterior {
    pub selected: Vec<usize>,
    pub precision: Vec<f64>,
    pub covariance: Vec<f64>,
    pub upload_variances: Vec<f32>,
}

#[derive(Debug, Deserialize)]
pub struct Aggregate {
    pub rule: String,
    pub weighting: String,
    pub average: String,
    pub mean: Vec<f32>,
    pub variance: Vec<f32>,
}

/// The case, with the draws it was made from.
pub fn load() -> (Round, Draws) {
    (read("fedsi_round.json"), draws())
}

pub fn draws() -> Draws {
    read(DRAWS)
}

/// The file that holds the draws.
pub const DRAWS: &str = "fedsi_round_draws.json";

pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap()
}

impl Round {
    /// Linear, ReLU and the head.
    pub fn network(&self) -> Network {
        let Sizes { inputs, hidden, classes } = self.network;
        let layers = [LayerSpec::Linear(hidden), LayerSpec::Relu, LayerSpec::Linear(classes)];
        Network::new(&[inputs], &layers).unwrap()
    }
}

impl Client {
    /// All samples, row by row.
    pub fn flat_inputs(&self) -> Vec<f32> {
        self.inputs.concat()
    }
}

/// `max|a - b|`.
pub fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    let difference = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // A NaN counts as the largest difference there is.
    difference.fold(0.0_f64, |most, value| if value.is_nan() { f64::INFINITY } else { most.max(value) })
}

/// `max|a - b| / max|b|`.
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    distance(found, expected) / expected.iter().fold(0.0_f64, |most, value| most.max(value.abs()))
}

/// The largest distance between two rows of positive or negative floats, counted in representable values.
pub fn units_apart(found: &[f32], expected: &[f32]) -> u32 {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    let distance = |(a, b): (&f32, &f32)| match (a.is_finite() && b.is_finite(), a.is_sign_negative()) {
        (true, negative) if negative == b.is_sign_negative() => a.to_bits().abs_diff(b.to_bits()),
        _ => u32::MAX,
    };
    found.iter().zip(expected).map(distance).max().unwrap_or(0)
}

/// The same values in double precision.
pub fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}
