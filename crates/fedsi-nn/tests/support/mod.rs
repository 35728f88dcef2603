//! Networks and numbers that several tests use.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use fedsi_nn::{ConvSpec, LayerSpec, Network, PoolSpec};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

pub fn conv(out: usize, kernel: usize, stride: usize, padding: usize) -> LayerSpec {
    LayerSpec::Conv(ConvSpec { out, kernel, stride, padding })
}

/// One network for every layer and every path through it, by name.
pub fn zoo() -> Vec<(&'static str, Network)> {
    use LayerSpec::{
        AvgPool, Flatten, Gelu, Identity, LeakyRelu, Linear, MaxPool, Relu, Sigmoid, Silu, Softplus, Tanh,
    };
    let strided = PoolSpec { window: 3, stride: 2 };
    let networks: Vec<(&str, Vec<usize>, Vec<LayerSpec>)> = vec![
        ("linear alone", vec![4], vec![Linear(3)]),
        ("relu", vec![4], vec![Linear(6), Relu, Linear(3)]),
        ("leaky relu", vec![4], vec![Linear(6), LeakyRelu(0.1), Linear(3)]),
        ("tanh, deep", vec![4], vec![Linear(5), Tanh, Linear(4), Tanh, Linear(2)]),
        ("sigmoid", vec![4], vec![Linear(6), Sigmoid, Linear(3)]),
        ("silu", vec![4], vec![Linear(6), Silu, Linear(3)]),
        ("softplus", vec![4], vec![Linear(6), Softplus, Linear(1)]),
        ("flatten first", vec![2, 3, 2], vec![Flatten, Linear(6), Tanh, Linear(3)]),
        ("conv", vec![2, 6, 5], vec![conv(3, 3, 1, 0), Tanh, Flatten, Linear(3)]),
        ("conv padded", vec![2, 5, 4], vec![conv(3, 3, 1, 1), Tanh, Flatten, Linear(3)]),
        ("conv strided", vec![2, 7, 6], vec![conv(3, 3, 2, 0), Tanh, Flatten, Linear(3)]),
        ("conv strided padded", vec![2, 7, 6], vec![conv(3, 4, 3, 2), Tanh, Flatten, Linear(3)]),
        ("conv 1x1", vec![3, 4, 4], vec![conv(2, 1, 1, 0), Tanh, Flatten, Linear(2)]),
        (
            "max pool",
            vec![1, 8, 8],
            vec![conv(2, 3, 1, 0), MaxPool(PoolSpec::square(2)), Flatten, Linear(4), Relu, Linear(3)],
        ),
        (
            "max pool, odd",
            vec![1, 7, 7],
            vec![conv(2, 3, 1, 0), MaxPool(PoolSpec::square(2)), Flatten, Linear(3)],
        ),
        ("max pool, strided", vec![2, 9, 8], vec![conv(2, 2, 1, 0), MaxPool(strided), Flatten, Linear(3)]),
        (
            "average pool",
            vec![1, 8, 8],
            vec![conv(2, 3, 1, 0), AvgPool(PoolSpec::square(2)), Flatten, Linear(3)],
        ),
        (
            "average pool, strided",
            vec![2, 9, 8],
            vec![conv(2, 2, 1, 0), AvgPool(strided), Flatten, Linear(3)],
        ),
        ("gelu", vec![4], vec![Linear(6), Gelu, Linear(3)]),
        ("identity", vec![4], vec![Identity, Linear(6), Identity, Tanh, Identity, Linear(3)]),
        ("identity of images", vec![2, 6, 5], vec![conv(3, 3, 1, 0), Identity, Tanh, Flatten, Linear(3)]),
        (
            "two convolutions",
            vec![3, 14, 14],
            vec![
                conv(4, 5, 1, 0),
                Relu,
                MaxPool(PoolSpec::square(2)),
                conv(5, 3, 1, 0),
                Tanh,
                Flatten,
                Linear(6),
                Relu,
                Linear(4),
            ],
        ),
    ];
    networks.into_iter().map(|(name, input, specs)| (name, Network::new(&input, &specs).unwrap())).collect()
}

/// `count` numbers in [-1, 1) from a seed.
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut rng = Streams::new(seed).stream(Purpose::Batches, 0, 0);
    (0..count).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect()
}

/// Largest difference relative to the largest expected value.
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    let scale = expected.iter().fold(0.0_f64, |top, value| top.max(value.abs()));
    let gap = found.iter().zip(expected).fold(0.0_f64, |top, (a, b)| top.max((a - b).abs()));
    if gap == 0.0 { 0.0 } else { gap / scale }
}
