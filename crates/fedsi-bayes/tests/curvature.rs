//! The diagonal against squares of the Jacobian's columns.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_bayes::Curvature;
use support::{Problem, numbers, relative_error, zoo};

#[test]
fn the_diagonal_agrees_with_the_columns_of_the_jacobian() {
    for problem in zoo() {
        let Problem { network, parameters, inputs, likelihood, .. } = &problem;
        let all = network.layout().len();
        let selected: Vec<usize> = (0..all).collect();
        let ggn = problem.ggn(&selected);
        let diagonal: Vec<f64> = (0..all).map(|index| ggn[index * all + index]).collect();
        let (jacobian, _) = problem.jacobian(inputs, &selected);
        let mut squares = vec![0.0; all];
        for row in jacobian.chunks_exact(all) {
            for (sum, value) in squares.iter_mut().zip(row) {
                *sum += value * value;
            }
        }
        for range in
            [0..all, network.layout().body(), network.layout().head(), 3..all - 2, all / 2..all / 2 + 1]
        {
            let found = Curvature::diagonal(network, parameters, inputs, likelihood, range.clone());
            if range.is_empty() {
                assert!(found.ggn.is_empty());
                continue;
            }
            let error = relative_error(&found.ggn, &diagonal[range.clone()]);
            assert!(error < 1e-12, "{} {range:?}: ggn {error:e}", problem.name);
            let error = relative_error(&found.jacobian, &squares[range.clone()]);
            assert!(error < 1e-12, "{} {range:?}: jacobian {error:e}", problem.name);
        }
    }
}

#[test]
fn many_samples_sum_up() {
    let problem = &zoo()[1];
    let Problem { network, parameters, likelihood, .. } = problem;
    let inputs = numbers(5, 700 * network.inputs());
    let range = network.layout().body();
    let whole = Curvature::diagonal(network, parameters, &inputs, likelihood, range.clone());
    let mut sum = vec![0.0; range.len()];
    for part in inputs.chunks(90 * network.inputs()) {
        let part = Curvature::diagonal(network, parameters, part, likelihood, range.clone());
        for (sum, value) in sum.iter_mut().zip(part.ggn) {
            *sum += value;
        }
    }
    assert!(relative_error(&whole.ggn, &sum) < 1e-13);
}

#[test]
fn parameters_without_influence_have_exactly_no_curvature() {
    let zoo = zoo();
    let problem = zoo.iter().find(|problem| problem.name == "relu, dead units").unwrap();
    let Problem { network, parameters, inputs, likelihood, .. } = problem;
    let range = network.layout().body();
    let found = Curvature::diagonal(network, parameters, inputs, likelihood, range);
    // Three of eight units are dead: their weights and biases.
    assert!(found.ggn[..18].iter().chain(&found.ggn[48..51]).all(|&value| value == 0.0));
    assert!(found.ggn[18..48].iter().all(|&value| value > 0.0));
}
