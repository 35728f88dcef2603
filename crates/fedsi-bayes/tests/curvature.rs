//! The diagonal against squares of the Jacobian's columns.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_bayes::Curvature;
use support::{numbers, relative_error, zoo};

#[test]
fn the_diagonal_agrees_with_the_columns_of_the_jacobian() {
    for case in zoo() {
        let network = &case.network;
        let all = network.layout().len();
        let selected: Vec<usize> = (0..all).collect();
        let ggn = case.ggn(&selected);
        let diagonal: Vec<f64> = (0..all).map(|index| ggn[index * all + index]).collect();
        let (jacobian, _) = case.jacobian(&case.inputs, &selected);
        let mut squares = vec![0.0; all];
        for row in jacobian.chunks_exact(all) {
            for (sum, value) in squares.iter_mut().zip(row) {
                *sum += value * value;
            }
        }
        for range in
            [0..all, network.layout().body(), network.layout().head(), 3..all - 2, all / 2..all / 2 + 1]
        {
            let found = Curvature::diagonal(&case.problem(), range.clone()).unwrap();
            if range.is_empty() {
                assert!(found.ggn.is_empty());
                continue;
            }
            let error = relative_error(&found.ggn, &diagonal[range.clone()]);
            assert!(error < 1e-12, "{} {range:?}: ggn {error:e}", case.name);
            let error = relative_error(&found.jacobian, &squares[range.clone()]);
            assert!(error < 1e-12, "{} {range:?}: jacobian {error:e}", case.name);
        }
    }
}

#[test]
fn many_samples_sum_up() {
    let mut case = zoo().swap_remove(1);
    let inputs = numbers(5, 700 * case.network.inputs());
    let range = case.network.layout().body();
    case.inputs.clone_from(&inputs);
    let whole = Curvature::diagonal(&case.problem(), range.clone()).unwrap();
    let mut sum = vec![0.0; range.len()];
    for part in inputs.chunks(90 * case.network.inputs()) {
        case.inputs = part.to_vec();
        let part = Curvature::diagonal(&case.problem(), range.clone()).unwrap();
        for (sum, value) in sum.iter_mut().zip(part.ggn) {
            *sum += value;
        }
    }
    assert!(relative_error(&whole.ggn, &sum) < 1e-13);
}

#[test]
fn parameters_without_influence_have_exactly_no_curvature() {
    let zoo = zoo();
    let case = zoo.iter().find(|case| case.name == "relu, dead units").unwrap();
    let range = case.network.layout().body();
    let found = Curvature::diagonal(&case.problem(), range).unwrap();
    // Three of eight units are dead: their weights and biases.
    assert!(found.ggn[..18].iter().chain(&found.ggn[48..51]).all(|&value| value == 0.0));
    assert!(found.ggn[18..48].iter().all(|&value| value > 0.0));
}
