use rand_distr::{Distribution as _, StandardNormal};

use super::*;

fn normal(seed: u64, count: usize) -> Vec<f64> {
    let mut rng = fedsi_random::Streams::new(seed).stream(fedsi_random::Purpose::Partition, 0, 0);
    (0..count).map(|_| StandardNormal.sample(&mut rng)).collect()
}

/// Rows of 12 values around one of two class means, with little variance in the last eight values.
fn samples(seed: u64, count: usize) -> (Vec<f64>, Vec<u32>) {
    let labels: Vec<u32> = (0..count).map(|row| if row % 2 == 0 { 3 } else { 7 }).collect();
    let mut values = normal(seed, count * 12);
    for (row, &label) in values.chunks_exact_mut(12).zip(&labels) {
        row[4..].iter_mut().for_each(|value| *value *= 0.1);
        row[0] += if label == 3 { -4.0 } else { 4.0 };
    }
    (values, labels)
}

/// A mode whose features are these rows, and whose logits are for the two classes.
fn responses(values: &[f64]) -> Responses {
    let logits = values.chunks_exact(12).flat_map(|row| [-row[0], row[0]]).collect();
    Responses { features: values.to_vec(), logits: Some(logits) }
}

fn fitted() -> Strangeness {
    let (values, labels) = samples(1, 80);
    Strangeness::fit(80, &values, &[responses(&values)], Some(&labels)).unwrap()
}

/// The same of a regression.
fn without_logits(values: &[f64]) -> Responses {
    Responses { features: values.to_vec(), logits: None }
}

fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}

#[test]
fn the_axes_are_those_of_a_matrix_worked_by_hand() {
    // Rows (3, 3), (-3, -3), (1, -1), (-1, 1): squares 36 along (1, 1) and 4 along (1, -1).
    let rows = [3., 3., -3., -3., 1., -1., -1., 1.];
    let axes = PrincipalAxes::fit(&rows, 2, 4, 2).unwrap();
    assert!((axes.variances[0] - 9.0).abs() < 1e-12 && (axes.variances[1] - 1.0).abs() < 1e-12);
    assert!((axes.directions[0].abs() - 0.5_f64.sqrt()).abs() < 1e-7);
    assert!((axes.directions[0] - axes.directions[1]).abs() < 1e-7);
    let first = PrincipalAxes::fit(&rows, 2, 4, 1).unwrap();
    assert!((first.rest - 1.0).abs() < 1e-12 && (first.total() - 10.0).abs() < 1e-12);
}

#[test]
fn fewer_rows_than_columns_have_the_same_axes() {
    // The same rows among zeros: products of rows instead of columns.
    let wide: Vec<f64> = [[3., 3.], [-3., -3.]].iter().flat_map(|row| [0., row[0], 0., row[1], 0.]).collect();
    let axes = PrincipalAxes::fit(&wide, 5, 2, 3).unwrap();
    assert_eq!(axes.rank(), 1, "only one direction varies");
    assert!((axes.variances[0] - 18.0).abs() < 1e-9 && axes.rest.abs() < 1e-9);
    assert!((axes.directions[1].abs() - 0.5_f64.sqrt()).abs() < 1e-7 && axes.directions[0].abs() < 1e-7);
}

#[test]
fn a_distance_worked_by_hand() {
    // Four points around 0, variances 8/3 and 2/3 with three degrees of freedom; 0.3 of their mean, 0.5, is added.
    let rows = [2., 0., -2., 0., 0., 1., 0., -1.];
    let distances = ClassDistances::fit(&rows, 2, None).unwrap();
    let found = distances.scores(&[2., 1.]);
    let expected = (4.0_f64 / (8.0 / 3.0 + 0.5) + 1.0 / (2.0 / 3.0 + 0.5)).sqrt();
    assert!((found[0] - expected).abs() < 1e-6, "{found:?} {expected}");
}

#[test]
fn new_samples_of_the_same_kind_are_usual() {
    let strangeness = fitted();
    let (values, _) = samples(2, 400);
    let scores = strangeness.scores(&values, &[responses(&values)]).unwrap();
    let (centre, above) = (mean(&scores), scores.iter().filter(|score| **score > 3.0).count());
    assert!(centre.abs() < 0.3, "{centre}");
    assert!(above < 20, "{above} of 400 above 3");
}

#[test]
fn unseen_classes_noise_and_too_little_detail_are_strange() {
    let strangeness = fitted();
    let (values, _) = samples(2, 100);
    let usual = mean(&strangeness.scores(&values, &[responses(&values)]).unwrap());
    let changed = |change: fn(usize, &mut f64)| {
        let mut changed = values.clone();
        changed
            .chunks_exact_mut(12)
            .for_each(|row| row.iter_mut().enumerate().for_each(|(at, x)| change(at, x)));
        mean(&strangeness.scores(&changed, &[responses(&changed)]).unwrap())
    };
    let between = changed(|at, value| {
        if at == 0 {
            *value = 0.0;
        }
    });
    let noisy = changed(|at, value| {
        if at >= 4 {
            *value *= 10.0;
        }
    });
    let flat = changed(|at, value| {
        if at >= 4 {
            *value = 0.0;
        }
    });
    for (name, found) in [("between the classes", between), ("noise", noisy), ("no detail", flat)] {
        assert!(found > usual + 1.0, "{name}: {found} beside {usual}");
    }
}

/// Turning all features the same way, or the units of the inputs, changes no distance.
#[test]
fn units_and_rotations_do_not_matter() {
    let (values, labels) = samples(1, 80);
    let turned: Vec<f64> = values
        .chunks_exact(12)
        .flat_map(|row| {
            let (a, b) = (0.6 * row[0] + 0.8 * row[1], 0.6 * row[1] - 0.8 * row[0]);
            let mut row: Vec<f64> = row.iter().map(|value| 5.0 * value + 2.0).collect();
            (row[0], row[1]) = (5.0 * a + 2.0, 5.0 * b + 2.0);
            row
        })
        .collect();
    let one = Strangeness::fit(80, &values, &[without_logits(&values)], Some(&labels)).unwrap();
    let other = Strangeness::fit(80, &turned, &[without_logits(&turned)], Some(&labels)).unwrap();
    let scores = one.scores(&values, &[without_logits(&values)]).unwrap();
    for (a, b) in scores.iter().zip(other.scores(&turned, &[without_logits(&turned)]).unwrap()) {
        assert!((a - b).abs() < 1e-3, "{a} {b}");
    }
}

/// What excites no class is stranger, though it is as near to one as before.
#[test]
fn small_logits_are_strange() {
    let strangeness = fitted();
    let (values, _) = samples(2, 50);
    let usual = responses(&values);
    let logits = usual.logits.as_ref().map(|logits| logits.iter().map(|logit| 0.2 * logit).collect());
    let weak = Responses { logits, ..usual.clone() };
    let (usual, weak) =
        (strangeness.scores(&values, &[usual]).unwrap(), strangeness.scores(&values, &[weak]).unwrap());
    assert!(usual.iter().zip(&weak).all(|(usual, weak)| weak > usual));
}

#[test]
fn equal_modes_score_as_one() {
    let (values, labels) = samples(1, 80);
    let one = fitted();
    let two =
        Strangeness::fit(80, &values, &[responses(&values), responses(&values)], Some(&labels)).unwrap();
    let (new, _) = samples(3, 20);
    let first = one.scores(&new, &[responses(&new)]).unwrap();
    let second = two.scores(&new, &[responses(&new), responses(&new)]).unwrap();
    assert!(first.iter().zip(second).all(|(a, b)| (a - b).abs() < 1e-9));
}

#[test]
fn what_cannot_be_fitted_or_scored_is_refused() {
    let (mut values, labels) = samples(1, 80);
    assert!(
        Strangeness::fit(9, &values[..9 * 12], &[responses(&values[..9 * 12])], Some(&labels[..9])).is_none()
    );
    let fitted = fitted();
    assert!(fitted.is_sound());
    assert!(fitted.scores(&values[..12], &[without_logits(&values[..11])]).is_none(), "another width");
    assert!(fitted.scores(&values[..12], &[]).is_none(), "no modes");
    assert!(fitted.scores(&values[..12], &[without_logits(&values[..12])]).is_none(), "no logits");
    values[5] = f64::NAN;
    assert!(Strangeness::fit(80, &values, &[responses(&values)], Some(&labels)).is_none());
    let mut unsound = fitted.clone();
    unsound.modes[0].distances.centre.pop();
    assert!(!unsound.is_sound());
}

#[test]
fn constant_features_and_a_single_class_are_no_obstacle() {
    let (values, _) = samples(1, 80);
    let constant = Responses { features: vec![0.5; 80 * 3], logits: Some(vec![1.0; 80 * 2]) };
    let fitted = Strangeness::fit(80, &values, std::slice::from_ref(&constant), Some(&[4; 80])).unwrap();
    let scores = fitted.scores(&values, &[constant]).unwrap();
    assert!(scores.iter().all(|score| score.is_finite()));
}

/// What is far from everything is strange, whatever the network makes of it and however few samples there are.
#[test]
fn far_away_is_stranger_in_every_direction() {
    for count in [12, 40, 200] {
        let inputs: Vec<f64> = (0..count * 3).map(|at| ((at * 37 % 101) as f64 / 50.0) - 1.0).collect();
        let labels: Vec<u32> = (0..count as u32).map(|row| u32::from(row % 7 == 0)).collect();
        let respond = |inputs: &[f64]| {
            let features: Vec<f64> =
                inputs.chunks(3).flat_map(|x| [x[0] + x[1], x[1] - x[2], x[2]]).collect();
            let logits = features.chunks(3).flat_map(|f| [2.0 * f[0], -f[1]]).collect();
            vec![Responses { features, logits: Some(logits) }]
        };
        let fitted = Strangeness::fit(count, &inputs, &respond(&inputs), Some(&labels)).unwrap();
        for direction in [[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [0.0, 0.0, 1.0], [1.0, -1.0, 0.0]] {
            let at = |far: f64| {
                let input: Vec<f64> = direction.iter().map(|d| far * d).collect();
                fitted.scores(&input, &respond(&input)).unwrap()[0]
            };
            let (near, far, further) = (at(20.0), at(100.0), at(1000.0));
            assert!(
                near > 3.0 && far > near && further > far,
                "{count} {direction:?}: {near} {far} {further}"
            );
        }
    }
}
