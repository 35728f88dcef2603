//! Mixes of classes: drawing them, and turning shares into whole numbers.

use fedsi_random::ChaCha8Rng;
use rand::RngExt as _;
use rand_distr::{Distribution as _, Gamma};

use crate::error::DataError;
use crate::spec::{PartitionKind, PartitionSpec};

/// Refuses a concentration that no Dirichlet distribution has, where one is to be drawn from.
pub(crate) fn check_concentration(spec: &PartitionSpec) -> Result<(), DataError> {
    let concentration = spec.concentration;
    if spec.kind == PartitionKind::Dirichlet && !(1e-6..=1e9).contains(&concentration) {
        return Err(DataError::setting(
            "partition.concentration",
            concentration,
            "a number from 1e-6 (one class per client) to 1e9 (all clients alike)",
        ));
    }
    Ok(())
}

/// Draws shares of `classes` classes, summing to 1, from the symmetric Dirichlet distribution.
pub(crate) fn dirichlet(concentration: f64, classes: usize, stream: &mut ChaCha8Rng) -> Vec<f64> {
    // Gamma(a) = Gamma(a + 1) * U^(1/a), kept as logarithms: for a small concentration every share but one
    // would underflow, and where all of them do, there would be nothing to divide by.
    let Ok(gamma) = Gamma::new(concentration + 1.0, 1.0) else { return vec![1.0 / classes as f64; classes] };
    let logs: Vec<f64> = (0..classes)
        .map(|_| {
            let boost: f64 = 1.0 - stream.random::<f64>();
            libm::log(gamma.sample(stream)) + libm::log(boost) / concentration
        })
        .collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| libm::exp(log - largest)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Divides `total` in whole numbers as nearly as possible in proportion to the weights (largest remainders;
/// ties go to the lower index). The sum is exact; all zeros where no weight is positive.
pub(crate) fn apportion(weights: &[f64], total: usize) -> Vec<usize> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return vec![0; weights.len()];
    }
    let quotas: Vec<f64> = weights.iter().map(|weight| weight / sum * total as f64).collect();
    let mut counts: Vec<usize> = quotas.iter().map(|quota| quota.floor() as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).filter(|&at| weights[at] > 0.0).collect();
    order.sort_by(|&a, &b| quotas[b].fract().total_cmp(&quotas[a].fract()).then(a.cmp(&b)));
    let mut given: usize = counts.iter().sum();
    // Rounding may also have made the floors one too large in all.
    for &at in order.iter().rev() {
        if given > total && counts[at] > 0 {
            counts[at] -= 1;
            given -= 1;
        }
    }
    for &at in order.iter().cycle().take(total.saturating_sub(given)) {
        counts[at] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_random::{Purpose, Streams};
    use proptest::prelude::*;

    #[test]
    fn concentration_decides_how_alike_clients_are() {
        let largest_share = |concentration: f64| {
            let shares = (0..200).map(|client| {
                let mut stream = Streams::new(1).stream(Purpose::Partition, client, 0);
                dirichlet(concentration, 10, &mut stream).into_iter().fold(0.0, f64::max)
            });
            shares.sum::<f64>() / 200.0
        };
        assert!(largest_share(1e-6) > 0.999);
        assert!((0.3..0.7).contains(&largest_share(0.5)));
        assert!(largest_share(1e6) < 0.11);
    }

    proptest! {
        #[test]
        fn shares_are_exact_in_sum_and_near_in_proportion(
            weights in prop::collection::vec(0.0_f64..10.0, 1..12),
            total in 0_usize..10_000,
        ) {
            let counts = apportion(&weights, total);
            let sum: f64 = weights.iter().sum();
            if sum > 0.0 {
                prop_assert_eq!(counts.iter().sum::<usize>(), total);
                for (&count, weight) in counts.iter().zip(&weights) {
                    prop_assert!((count as f64 - weight / sum * total as f64).abs() < 1.0 + 1e-6);
                }
            }
        }
    }
}
