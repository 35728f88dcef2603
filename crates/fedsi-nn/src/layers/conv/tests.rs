//! Every pass beside the definition of a convolution, written out, over random shapes.

use fedsi_random::{Purpose, Streams};
use rand::{Rng, RngExt as _};

use super::Conv2d;
use crate::Scalar;

/// Calls `visit(output, weight, input)` with the places of every product of a convolution of one sample.
fn products(conv: &Conv2d, mut visit: impl FnMut(usize, usize, usize)) {
    for output in 0..conv.outputs() {
        let (out, position) = (output / conv.positions(), output % conv.positions());
        let (row, column) = (position / conv.out_width, position % conv.out_width);
        for tap in 0..conv.taps() {
            let place = conv.tap(tap);
            let y = (row * conv.stride + place.y).checked_sub(conv.padding).filter(|&y| y < conv.height);
            let x = (column * conv.stride + place.x).checked_sub(conv.padding).filter(|&x| x < conv.width);
            if let (Some(y), Some(x)) = (y, x) {
                let input = (place.channel * conv.height + y) * conv.width + x;
                visit(output, out * conv.taps() + tap, input);
            }
        }
    }
}

pub(super) fn random_conv(rng: &mut impl Rng) -> Conv2d {
    let kernel: usize = rng.random_range(1..=5);
    // More padding than the kernel reaches is allowed, if pointless.
    let padding = rng.random_range(0..=kernel);
    let stride = if rng.random_bool(0.8) { 1 } else { rng.random_range(2..=3) };
    let sides = kernel.saturating_sub(2 * padding).max(1)..=20;
    let (height, width) = (rng.random_range(sides.clone()), rng.random_range(sides));
    Conv2d {
        channels: rng.random_range(1..=9),
        height,
        width,
        out: rng.random_range(1..=17),
        kernel,
        stride,
        padding,
        out_height: (height + 2 * padding - kernel) / stride + 1,
        out_width: (width + 2 * padding - kernel) / stride + 1,
    }
}

fn assert_close<T: Scalar>(ours: &[T], theirs: &[f64], tolerance: f64, what: &str, conv: &Conv2d) {
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let error = (ours.double() - theirs).abs();
        assert!(error <= tolerance * (1.0 + theirs.abs()), "{what} {index} of {conv:?}: off by {error}");
    }
}

fn compare<T: Scalar>(tolerance: f64) {
    for case in 0..150 {
        let mut rng = Streams::new(7).stream(Purpose::Initialisation, case, 0);
        let conv = random_conv(&mut rng);
        let batch = rng.random_range(1..=10);
        let mut values =
            |length: usize| -> Vec<T> { (0..length).map(|_| T::of(rng.random_range(-1.0..1.0))).collect() };
        let parameters = values(conv.weights() + conv.out);
        let (x, dy) = (values(batch * conv.inputs()), values(batch * conv.outputs()));
        // What other layers leave in scratch space and outputs must not be seen.
        let mut scratch = vec![T::nan(); conv.scratch()];
        let (mut y, mut dx) = (vec![T::nan(); dy.len()], vec![T::nan(); x.len()]);
        let mut gradient = vec![T::nan(); parameters.len()];
        conv.forward(&parameters, &x, &mut y, batch, &mut scratch);
        scratch.fill(T::nan());
        conv.input_gradient(&parameters, &dy, &mut dx, batch, &mut scratch);
        scratch.fill(T::nan());
        conv.parameter_gradient(&x, &dy, batch, &mut gradient, &mut scratch);

        let (mut plain_y, mut plain_dx) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
        let mut plain_gradient = vec![0.0; parameters.len()];
        for (index, (value, dy)) in plain_y.iter_mut().zip(&dy).enumerate() {
            let bias = conv.weights() + index / conv.positions() % conv.out;
            *value = parameters[bias].double();
            plain_gradient[bias] += dy.double();
        }
        for sample in 0..batch {
            let (x, dy) = (&x[sample * conv.inputs()..], &dy[sample * conv.outputs()..]);
            let plain_y = &mut plain_y[sample * conv.outputs()..];
            let plain_dx = &mut plain_dx[sample * conv.inputs()..];
            products(&conv, |output, weight, input| {
                plain_y[output] += parameters[weight].double() * x[input].double();
                plain_dx[input] += parameters[weight].double() * dy[output].double();
                plain_gradient[weight] += dy[output].double() * x[input].double();
            });
        }
        assert_close(&y, &plain_y, tolerance, "output", &conv);
        assert_close(&dx, &plain_dx, tolerance, "input gradient", &conv);
        assert_close(&gradient, &plain_gradient, tolerance, "parameter gradient", &conv);
    }
}

#[test]
fn agrees_with_the_definition_in_single_precision() {
    compare::<f32>(1e-3);
}

#[test]
fn agrees_with_the_definition_in_double_precision() {
    compare::<f64>(1e-11);
}
