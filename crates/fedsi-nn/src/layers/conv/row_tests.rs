//! Passes of several rows at once beside the same row by row, over random shapes, choices and patterns of zeros.

use fedsi_random::{Purpose, Streams};
use rand::{Rng, RngExt as _};

use super::columns::{ColumnScratch, Columns, ConvColumns};
use super::scatter::ScatterScratch;
use super::tests::random_conv;
use super::{Conv2d, total};
use crate::Scalar;

/// One case: a convolution, its parameters, one sample and the slopes of some rows.
struct Case<T> {
    conv: Conv2d,
    parameters: Vec<T>,
    image: Vec<T>,
    rows: usize,
    slopes: Vec<T>,
    chosen: Vec<usize>,
}

fn values<T: Scalar>(rng: &mut impl Rng, count: usize) -> Vec<T> {
    (0..count).map(|_| T::of(rng.random_range(-1.0..1.0))).collect()
}

impl<T: Scalar> Case<T> {
    /// Zeros at the same places of all rows, as pooling leaves them, and some more of single rows.
    fn new(number: u64) -> Self {
        let mut rng = Streams::new(5).stream(Purpose::Initialisation, number, 0);
        let conv = random_conv(&mut rng);
        let rows = rng.random_range(1..=13);
        let density = [0.0, 0.1, 0.3, 0.6, 1.0][rng.random_range(0..5)];
        let active: Vec<bool> = (0..conv.outputs()).map(|_| rng.random_bool(density)).collect();
        let mut slopes: Vec<T> = values(&mut rng, rows * conv.outputs());
        for row in slopes.chunks_exact_mut(conv.outputs()) {
            for (slope, &active) in row.iter_mut().zip(&active) {
                if !active || rng.random_bool(0.1) {
                    *slope = T::zero();
                }
            }
        }
        let all = conv.weights() + conv.out;
        let share = [0.05, 0.4, 1.0][rng.random_range(0..3)];
        Self {
            parameters: values(&mut rng, all),
            image: values(&mut rng, conv.inputs()),
            chosen: (0..all).filter(|_| rng.random_bool(share)).collect(),
            conv,
            rows,
            slopes,
        }
    }

    /// The derivatives in the parameters `chosen`, `[rows, chosen]`.
    fn derivatives(&self, arch: pulp::Arch, chosen: &[usize], scratch: &mut ColumnScratch<T>) -> Vec<T> {
        // More room than needed, which must stay as it was.
        let stride = chosen.len() + 3;
        let mut values = vec![T::of(7.0); self.rows * stride];
        let columns = ConvColumns::new(self.conv, chosen);
        let into = Columns { values: &mut values, stride };
        columns.derivatives_on(arch, &self.image, &self.slopes, into, scratch);
        let mut found = Vec::new();
        for row in values.chunks_exact(stride) {
            found.extend_from_slice(&row[..chosen.len()]);
            assert!(row[chosen.len()..].iter().all(|&value| value == T::of(7.0)), "beyond the columns");
        }
        found
    }

    fn input_gradients(&self, arch: pulp::Arch, scratch: &mut ScatterScratch<T>) -> Vec<T> {
        let mut dx = vec![T::nan(); self.rows * self.conv.inputs()];
        let Self { conv, parameters, slopes, rows, .. } = self;
        conv.input_gradient_of_rows_on(arch, parameters, slopes, &mut dx, *rows, scratch);
        dx
    }
}

/// The derivative of one row in one parameter, from its definition.
fn derivative<T: Scalar>(conv: &Conv2d, image: &[T], slopes: &[T], index: usize) -> T {
    if index >= conv.weights() {
        return total(&slopes[(index - conv.weights()) * conv.positions()..][..conv.positions()]);
    }
    let (channel, tap) = (index / conv.taps(), conv.tap(index % conv.taps()));
    let mut sum = T::zero();
    for position in 0..conv.positions() {
        let (row, column) = (position / conv.out_width, position % conv.out_width);
        let place = [row * conv.stride + tap.y, column * conv.stride + tap.x];
        let [Some(y), Some(x)] = place.map(|at| at.checked_sub(conv.padding)) else { continue };
        if y < conv.height && x < conv.width {
            let pixel = image[(tap.channel * conv.height + y) * conv.width + x];
            sum += slopes[channel * conv.positions() + position] * pixel;
        }
    }
    sum
}

fn assert_close<T: Scalar>(ours: &[T], theirs: &[T], tolerance: f64, what: &str, conv: &Conv2d) {
    assert_eq!(ours.len(), theirs.len(), "{what} of {conv:?}");
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let error = (ours.double() - theirs.double()).abs();
        assert!(error <= tolerance * (1.0 + theirs.double().abs()), "{what} {index} of {conv:?}: {error:e}");
    }
}

fn compare<T: Scalar + Default>(tolerance: f64) {
    let arch = pulp::Arch::new();
    let mut scratch = (ColumnScratch::default(), ScatterScratch::default());
    for number in 0..150 {
        let case = Case::<T>::new(number);
        let (conv, slopes) = (case.conv, case.slopes.chunks_exact(case.conv.outputs()));
        let found = case.derivatives(arch, &case.chosen, &mut scratch.0);
        let each = |slopes| case.chosen.iter().map(move |&index| (slopes, index));
        let expected: Vec<T> = slopes
            .clone()
            .flat_map(each)
            .map(|(slopes, index)| derivative(&conv, &case.image, slopes, index))
            .collect();
        assert_close(&found, &expected, tolerance, "derivative", &conv);

        let found = case.input_gradients(arch, &mut scratch.1);
        let mut expected = vec![T::nan(); found.len()];
        let mut memory = vec![T::nan(); conv.scratch()];
        for (slopes, dx) in slopes.zip(expected.chunks_exact_mut(conv.inputs())) {
            conv.input_gradient(&case.parameters, slopes, dx, 1, &mut memory);
        }
        assert_close(&found, &expected, tolerance, "input gradient", &conv);
    }
}

#[test]
fn several_rows_at_once_are_the_rows_one_by_one() {
    compare::<f32>(1e-4);
    compare::<f64>(1e-12);
}

/// A column's bits depend on the column alone: not on which others are chosen with it, not on the width of vectors.
#[test]
fn bits_depend_neither_on_other_columns_nor_on_the_machine() {
    let mut archs = vec![pulp::Arch::new()];
    #[cfg(target_arch = "x86_64")]
    archs.extend(pulp::x86::V3::try_new().map(pulp::Arch::V3));
    let mut scratch = (ColumnScratch::default(), ScatterScratch::default());
    for number in 0..80 {
        let case = Case::<f64>::new(number);
        let all: Vec<usize> = (0..case.parameters.len()).collect();
        let whole = case.derivatives(archs[0], &all, &mut scratch.0);
        let gradients = case.input_gradients(archs[0], &mut scratch.1);
        for &arch in &archs {
            let part = case.derivatives(arch, &case.chosen, &mut scratch.0);
            let rows = whole.chunks_exact(all.len());
            let expected: Vec<f64> =
                rows.flat_map(|row| case.chosen.iter().map(|&index| row[index])).collect();
            assert!(part == expected, "derivatives of {:?} on {arch:?}", case.conv);
            let found = case.input_gradients(arch, &mut scratch.1);
            assert!(found == gradients, "input gradients of {:?} on {arch:?}", case.conv);
        }
    }
}

/// What is not a number is not taken for zero.
#[test]
fn slopes_that_are_no_numbers_are_not_left_out() {
    let mut case = Case::<f64>::new(3);
    case.slopes.fill(0.0);
    case.slopes[0] = f64::NAN;
    let all: Vec<usize> = (0..case.parameters.len()).collect();
    let found = case.derivatives(pulp::Arch::new(), &all, &mut ColumnScratch::default());
    assert!(found[case.conv.weights()].is_nan(), "the bias of the first channel");
}
