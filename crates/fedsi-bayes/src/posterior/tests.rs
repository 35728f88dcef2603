//! Both searches for pivots, on the same data.

use fedsi_nn::{LayerSpec, Network};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

use super::projection::Projection;
use crate::collect::{Collector, columns_of};
use crate::likelihood::Likelihood;

#[test]
fn both_ways_of_finding_pivots_take_in_the_same() {
    let layers = [LayerSpec::Linear(9), LayerSpec::Tanh, LayerSpec::Linear(5)];
    let network = Network::new(&[6], &layers).unwrap();
    let mut rng = Streams::new(5).stream(Purpose::Batches, 0, 0);
    let parameters: Vec<f64> = (0..network.layout().len()).map(|_| rng.random::<f64>() - 0.5).collect();
    let inputs: Vec<f64> = (0..80 * 6).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect();
    let selected: Vec<usize> = (0..network.layout().len()).collect();
    let subnetwork = columns_of(&network, &selected);
    let mut collector = Collector::new(&network, &parameters, &subnetwork, 80);
    let (_, jacobian) = collector.collect(&inputs, Some(&Likelihood::Categorical), None).unwrap();
    let trace: f64 = jacobian.row_squares(&subnetwork).iter().sum();
    for tolerance in [1.0, 1e-2, 1e-5] {
        for by_columns in [false, true] {
            let found = Projection::with_pivots(&jacobian, &subnetwork, tolerance, f64::INFINITY, by_columns)
                .unwrap();
            let (projection, bound) = found.unwrap();
            assert!(bound <= tolerance);
            let rank = projection.rank;
            let kept: f64 = (0..rank).map(|index| projection.core[index * rank + index]).sum();
            // The trace left out bounds nothing from below, but is at most the rank it takes times the bound.
            assert!(trace - kept <= tolerance * if by_columns { 1.0 } else { 320.0 } + 1e-9);
            assert!(rank < subnetwork.columns());
        }
    }
}
