//! Networks and numbers that kernels are tested on: odd sizes, every kind of layer.

use fedsi_nn::{ConvSpec, LayerSpec, Network, PoolSpec};

/// Small networks that together have every kind of layer.
pub(crate) fn networks() -> Vec<(&'static str, Network)> {
    use LayerSpec::{
        AvgPool, Conv, Flatten, Gelu, Identity, LeakyRelu, Linear, MaxPool, Relu, Sigmoid, Silu, Softplus,
        Tanh,
    };
    let conv = |out, kernel, stride, padding| Conv(ConvSpec { out, kernel, stride, padding });
    let all: [(&str, &[usize], Vec<LayerSpec>); 6] = [
        ("a head alone", &[5], vec![Linear(3)]),
        ("an MLP", &[37], vec![Linear(43), Relu, Linear(7)]),
        (
            "a deep MLP",
            &[9],
            vec![
                Linear(13),
                Tanh,
                Linear(11),
                Silu,
                Identity,
                Linear(5),
                Softplus,
                Linear(6),
                Sigmoid,
                Gelu,
                Linear(2),
            ],
        ),
        (
            "a CNN",
            &[1, 12, 11],
            vec![
                conv(5, 3, 1, 0),
                Relu,
                MaxPool(PoolSpec::square(2)),
                conv(6, 3, 1, 1),
                MaxPool(PoolSpec::square(2)),
                LeakyRelu(0.2),
                Flatten,
                Linear(17),
                Relu,
                Linear(4),
            ],
        ),
        (
            "a CNN with strides",
            &[3, 13, 9],
            vec![
                conv(7, 3, 2, 1),
                Tanh,
                AvgPool(PoolSpec { window: 3, stride: 2 }),
                Gelu,
                conv(4, 2, 1, 1),
                Flatten,
                Linear(3),
            ],
        ),
        (
            "overlapping windows",
            &[2, 9, 10],
            vec![
                MaxPool(PoolSpec { window: 3, stride: 1 }),
                conv(3, 5, 1, 2),
                MaxPool(PoolSpec { window: 3, stride: 2 }),
                Flatten,
                Softplus,
                Linear(5),
                LeakyRelu(-0.5),
                Linear(9),
            ],
        ),
    ];
    all.into_iter().map(|(name, input, specs)| (name, Network::new(input, &specs).unwrap())).collect()
}

/// Numbers between -1 and 1 that f32 has exactly.
pub(crate) fn numbers(seed: u32, count: usize) -> Vec<f64> {
    let mut state = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(((state >> 33) as i32 - (1 << 30)) as f32 / (1 << 30) as f32)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The same in f32.
pub(crate) fn singles(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

/// Fails where the two differ by more than `tolerance` times the largest expected value (at least 1); says where.
pub(crate) fn assert_close(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: another number of values");
    let scale = expected.iter().fold(1.0_f64, |largest, value| largest.max(value.abs()));
    let worst = found
        .iter()
        .zip(expected)
        .map(|(&found, &expected)| (f64::from(found) - expected).abs())
        .enumerate()
        // What is no number is worst.
        .max_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or_else(|| a.1.is_nan().cmp(&b.1.is_nan())));
    if let Some((place, gap)) = worst {
        let wrong = found
            .iter()
            .zip(expected)
            .filter(|&(&found, &expected)| {
                let close = (f64::from(found) - expected).abs() <= tolerance * scale;
                !close
            })
            .count();
        assert!(
            gap <= tolerance * scale,
            "{what}: value {place} of {} is {}, expected {} ({wrong} values differ by more than {tolerance:e} of {scale})",
            found.len(),
            found[place],
            expected[place]
        );
    }
}
