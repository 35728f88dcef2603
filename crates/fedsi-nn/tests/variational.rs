//! Mean-field inference: the divergence, the gradient, and what it converges to where the answer is known.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_nn::{
    LayerSpec, Loss, MeanField, Network, OptimizerSpec, ParameterGradient, Scalar as _, Tape, Targets,
    VariationalTrainer,
};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use support::{numbers, relative_error, zoo};

fn stream(seed: u64) -> ChaCha8Rng {
    Streams::new(seed).stream(Purpose::Batches, 0, 0)
}

fn distribution(seed: u64, size: usize) -> MeanField<f64> {
    let deviation = numbers(seed + 50, size).iter().map(|x| 0.05 + 0.2 * x.abs()).collect();
    MeanField { mean: numbers(seed, size), deviation }
}

/// Against the definition, `E_q[ln q - ln p]`, by quadrature of one dimension; and zero only for equals.
#[test]
fn the_divergence_is_the_integral_it_stands_for() {
    let normal = |x: f64, m: f64, s: f64| {
        (-(x - m) * (x - m) / (2.0 * s * s)).exp() / (s * (2.0 * std::f64::consts::PI).sqrt())
    };
    let mut sum = 0.0;
    let (mut q, mut p) =
        (MeanField { mean: vec![], deviation: vec![] }, MeanField { mean: vec![], deviation: vec![] });
    for (m, s, n, t) in
        [(0.0, 1.0, 0.0, 1.0), (1.0, 0.5, -0.3, 1.2), (0.2, 2.0, 0.1, 0.7), (-3.0, 0.05, -3.1, 0.04)]
    {
        let (steps, from, to) = (200_000, m - 12.0 * s, m + 12.0 * s);
        let width = (to - from) / f64::from(steps);
        let integral: f64 = (0..steps)
            .map(|step| from + (f64::from(step) + 0.5) * width)
            .map(|x| {
                let log = |m: f64, s: f64| -(x - m) * (x - m) / (2.0 * s * s) - s.ln();
                width * normal(x, m, s) * (log(m, s) - log(n, t))
            })
            .sum();
        let one = |mean, deviation| MeanField { mean: vec![mean], deviation: vec![deviation] };
        let found = one(m, s).divergence(&one(n, t));
        assert!(
            (found - integral).abs() < 1e-6,
            "KL(N({m}, {s}) || N({n}, {t})): {found}, expected {integral}"
        );
        sum += found;
        q.mean.push(m);
        q.deviation.push(s);
        p.mean.push(n);
        p.deviation.push(t);
    }
    assert!((q.divergence(&p) - sum).abs() < 1e-12, "a sum over parameters");
    assert_eq!(q.divergence(&q), 0.0);
}

/// With the draws held, the gradient in means and variances is that of finite differences: for every layer, on every
/// path (linear layers draw outputs, convolutions weights).
#[test]
fn the_reparameterised_gradient_is_that_of_finite_differences() {
    const BATCH: usize = 3;
    const STEP: f64 = 1e-6;
    for (name, network) in zoo() {
        let size = network.layout().len();
        let mean = numbers(1, size);
        let variance: Vec<f64> = numbers(2, size).iter().map(|x| 0.01 + 0.1 * x.abs()).collect();
        let inputs = numbers(3, BATCH * network.inputs());
        let weights = numbers(4, BATCH * network.outputs());
        let mut tape = Tape::new(&network, BATCH);
        let mut value = |mean: &[f64], variance: &[f64]| -> f64 {
            tape.inputs_mut(&network, BATCH).copy_from_slice(&inputs);
            let outputs = tape.forward_sampled(&network, mean, variance, &mut stream(9));
            outputs.iter().zip(&weights).map(|(output, weight)| output * weight).sum()
        };
        let slope = |values: &[f64], index: usize, of: &mut dyn FnMut(&[f64]) -> f64| {
            let (mut above, mut below) = (values.to_vec(), values.to_vec());
            (above[index], below[index]) = (values[index] + STEP, values[index] - STEP);
            (of(&above) - of(&below)) / (2.0 * STEP)
        };
        let in_mean: Vec<f64> =
            (0..size).map(|index| slope(&mean, index, &mut |mean| value(mean, &variance))).collect();
        let in_variance: Vec<f64> =
            (0..size).map(|index| slope(&variance, index, &mut |variance| value(&mean, variance))).collect();

        value(&mean, &variance);
        tape.outputs_and_gradient(&network).1.copy_from_slice(&weights);
        let mut gradient = ParameterGradient::new(&network);
        let mut variance_gradient = vec![0.0; size];
        let layers = network.all_layers();
        tape.backward_sampled(&network, &mean, &variance, &layers, &mut gradient, &mut variance_gradient);
        let (off, spread_off) =
            (relative_error(gradient.values(), &in_mean), relative_error(&variance_gradient, &in_variance));
        assert!(off < 1e-6, "{name}: the gradient in the means is off by {off:e}");
        assert!(spread_off < 1e-6, "{name}: the gradient in the variances is off by {spread_off:e}");
    }
}

/// The step's whole gradient, divergence included, in means and rho; then the reference's own.
#[test]
fn a_step_descends_loss_and_divergence_together() {
    let (_, network) = zoo().swap_remove(3);
    let size = network.layout().len();
    let (start, reference) = (distribution(1, size), distribution(7, size));
    let inputs = numbers(3, 4 * network.inputs());
    let labels = [0, 1, 1, 0];
    let (rows, weight, still) = ([2, 0, 3, 1], 0.3, OptimizerSpec::Sgd { rate: 0.0, momentum: 0.0 });
    let mut trainer = VariationalTrainer::new(&network, network.all_layers(), Loss::CrossEntropy, still, 4);
    let mut objective = |q: &MeanField<f64>| {
        trainer.begin(q, &reference, weight, None);
        let targets = Targets::Classes(&labels);
        let loss = trainer.step(&network, &inputs, targets, &rows, &mut stream(9));
        let (mean, rho) = trainer.gradients();
        (loss + weight * q.divergence(&reference), mean.to_vec(), rho.to_vec())
    };
    let (_, in_mean, in_rho) = objective(&start);
    let step = 1e-6;
    let mut numeric = |shift: &dyn Fn(&mut MeanField<f64>, usize, f64)| -> Vec<f64> {
        let value = |objective: &mut dyn FnMut(&MeanField<f64>) -> f64, index, by| {
            let mut moved = start.clone();
            shift(&mut moved, index, by);
            objective(&moved)
        };
        let mut of = |q: &MeanField<f64>| objective(q).0;
        (0..size).map(|i| (value(&mut of, i, step) - value(&mut of, i, -step)) / (2.0 * step)).collect()
    };
    let means = numeric(&|q, index, by| q.mean[index] += by);
    let rhos = numeric(&|q, index, by| {
        q.deviation[index] = (q.deviation[index].inverse_softplus() + by).softplus().0;
    });
    assert!(relative_error(&in_mean, &means) < 1e-6, "in the means");
    assert!(relative_error(&in_rho, &rhos) < 1e-6, "in rho");

    // The reference moves down the same divergence: with SGD by the gradient itself.
    let rate = 1e-3;
    let sgd = OptimizerSpec::Sgd { rate, momentum: 0.0 };
    let mut trainer = VariationalTrainer::new(&network, network.all_layers(), Loss::CrossEntropy, sgd, 4);
    trainer.begin(&start, &reference, 0.0, Some(1));
    trainer.step(&network, &inputs, Targets::Classes(&labels), &rows, &mut stream(9));
    let (q, moved) = (trainer.distribution(), trainer.reference());
    for index in 0..size {
        let slope = |shift: &dyn Fn(&mut MeanField<f64>, f64)| {
            let at = |by| {
                let mut other = reference.clone();
                shift(&mut other, by);
                q.divergence(&other)
            };
            (at(step) - at(-step)) / (2.0 * step)
        };
        let in_mean = slope(&|p, by| p.mean[index] += by);
        let expected = reference.mean[index] - rate * in_mean;
        assert!((moved.mean[index] - expected).abs() < 1e-6 * expected.abs().max(1.0), "mean {index}");
        let shifted = |p: &mut MeanField<f64>, by: f64| {
            p.deviation[index] = (p.deviation[index].inverse_softplus() + by).softplus().0;
        };
        let expected = (reference.deviation[index].inverse_softplus() - rate * slope(&shifted)).softplus().0;
        assert!((moved.deviation[index] / expected - 1.0).abs() < 1e-5, "deviation {index}");
    }
}

/// A drawn output has the mean and variance that independent parameters give it.
#[test]
fn drawn_outputs_are_those_of_drawn_parameters() {
    let network = Network::new(&[6], &[LayerSpec::Linear(3)]).unwrap();
    let q = distribution(1, 21);
    let variance: Vec<f64> = q.deviation.iter().map(|s| s * s).collect();
    let input = numbers(2, 6);
    let mut tape = Tape::new(&network, 1);
    tape.inputs_mut(&network, 1).copy_from_slice(&input);
    let exact = tape.forward(&network, &q.mean).to_vec();
    let (draws, mut rng) = (20_000, stream(7));
    let (mut sums, mut squares) = ([0.0; 3], [0.0; 3]);
    for _ in 0..draws {
        for (index, (drawn, exact)) in
            tape.forward_sampled(&network, &q.mean, &variance, &mut rng).iter().zip(&exact).enumerate()
        {
            sums[index] += drawn - exact;
            squares[index] += (drawn - exact) * (drawn - exact);
        }
    }
    for index in 0..3 {
        let weights = &variance[6 * index..][..6];
        let expected = variance[18 + index] + weights.iter().zip(&input).map(|(v, x)| v * x * x).sum::<f64>();
        let (mean, found) = (sums[index] / f64::from(draws), squares[index] / f64::from(draws));
        assert!(mean.abs() < 4.0 * (expected / f64::from(draws)).sqrt(), "output {index}: mean {mean}");
        assert!((found / expected - 1.0).abs() < 0.05, "output {index}: {found}, expected {expected}");
    }
}

/// Bayesian linear regression has a known posterior. The best independent normals have its mean, and for variances the
/// inverses of its precision's diagonal.
#[test]
fn it_converges_to_the_best_factorised_posterior_of_a_conjugate_case() {
    let network = Network::new(&[2], &[LayerSpec::Linear(1)]).unwrap();
    let (samples, noise, prior_deviation) = (40, 0.5, 0.8);
    let inputs: Vec<f64> = numbers(1, 2 * samples);
    let targets: Vec<f64> = inputs
        .chunks_exact(2)
        .zip(numbers(2, samples))
        .map(|(x, e)| 0.7 * x[0] - 1.1 * x[1] + 0.3 + 0.5 * e)
        .collect();
    // Precision and right-hand side of the exact posterior of (w0, w1, b).
    let mut precision = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for (x, y) in inputs.chunks_exact(2).zip(&targets) {
        let x = [x[0], x[1], 1.0];
        for row in 0..3 {
            right[row] += x[row] * y / (noise * noise);
            for column in 0..3 {
                precision[row][column] += x[row] * x[column] / (noise * noise);
            }
        }
    }
    for (index, row) in precision.iter_mut().enumerate() {
        row[index] += 1.0 / (prior_deviation * prior_deviation);
    }
    let exact = solve(precision, right);

    let prior = MeanField { mean: vec![0.0; 3], deviation: vec![prior_deviation; 3] };
    let rows: Vec<u32> = (0..samples as u32).collect();
    let loss = Loss::Gaussian { noise };
    let (mut q, mut rng) = (prior.clone(), stream(3));
    // Ever smaller steps: what is left of the draws' noise averages out.
    for rate in [1e-2, 3e-3, 1e-3, 3e-4, 1e-4] {
        let adam = OptimizerSpec::adam(rate);
        let mut trainer = VariationalTrainer::new(&network, network.all_layers(), loss, adam, samples);
        trainer.begin(&q, &prior, 1.0 / samples as f64, None);
        for _ in 0..4000 {
            trainer.step(&network, &inputs, Targets::Values(&targets), &rows, &mut rng);
        }
        q = trainer.distribution();
    }
    for index in 0..3 {
        let deviation = 1.0 / precision[index][index].sqrt();
        let gap = (q.mean[index] - exact[index]).abs();
        assert!(gap < 0.05 * deviation, "mean {index}: {} is {gap} from {}", q.mean[index], exact[index]);
        let ratio = q.deviation[index] / deviation;
        assert!(
            (ratio - 1.0).abs() < 0.03,
            "deviation {index}: {} instead of {deviation}",
            q.deviation[index]
        );
    }
}

/// Cramer's rule.
fn solve(matrix: [[f64; 3]; 3], right: [f64; 3]) -> [f64; 3] {
    let determinant = |m: [[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let whole = determinant(matrix);
    std::array::from_fn(|column| {
        let mut replaced = matrix;
        replaced.iter_mut().zip(right).for_each(|(row, value)| row[column] = value);
        determinant(replaced) / whole
    })
}

#[test]
fn a_step_allocates_nothing_and_moves_only_its_layers() {
    for (name, network) in zoo() {
        let size = network.layout().len();
        let single = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
        let start = distribution(1, size);
        let start = MeanField { mean: single(&start.mean), deviation: single(&start.deviation) };
        let inputs = single(&numbers(2, 8 * network.inputs()));
        let labels: Vec<u32> = (0..8).map(|row| row % network.outputs() as u32).collect();
        let rows: Vec<u32> = (0..8).collect();
        let (adam, head) = (OptimizerSpec::adam(1e-2), network.head_layer());
        let mut trainer = VariationalTrainer::new(&network, head, Loss::CrossEntropy, adam, 8);
        trainer.begin(&start, &start, 0.1, Some(1));
        let mut rng = stream(5);
        let mut step = || trainer.step(&network, &inputs, Targets::Classes(&labels), &rows, &mut rng);
        step(); // room for the draws
        let counted = allocation_counter::measure(|| {
            step();
        });
        assert_eq!(counted.count_total, 0, "{name}: allocations in a step");
        let (q, body) = (trainer.distribution(), network.layout().body());
        assert_eq!(q.mean[body.clone()], start.mean[body.clone()], "{name}: the frozen body's means moved");
        assert_ne!(q.deviation[network.layout().head()], start.deviation[network.layout().head()], "{name}");
        let still = relative_error(
            &q.deviation[body.clone()].iter().map(|&x| f64::from(x)).collect::<Vec<_>>(),
            &start.deviation[body].iter().map(|&x| f64::from(x)).collect::<Vec<_>>(),
        );
        assert!(still < 1e-5, "{name}: the frozen body's deviations moved by {still:e}");
    }
}

/// The reference moves after every so many steps, and only then.
#[test]
fn a_reference_follows_after_its_inner_steps() {
    let network = Network::new(&[6], &[LayerSpec::Linear(3)]).unwrap();
    let start = distribution(1, 21);
    let (inputs, labels, rows) = (numbers(2, 24), [0, 1, 2, 0], [0, 1, 2, 3]);
    let adam = OptimizerSpec::adam(1e-2);
    let mut trainer = VariationalTrainer::new(&network, network.all_layers(), Loss::CrossEntropy, adam, 4);
    trainer.begin(&start, &start, 0.1, Some(3));
    let mut before = trainer.reference().mean;
    for step in 1..=9 {
        trainer.step(&network, &inputs, Targets::Classes(&labels), &rows, &mut stream(9));
        let after = trainer.reference().mean;
        assert_eq!(before != after, step % 3 == 0, "step {step}");
        before = after;
    }
}
