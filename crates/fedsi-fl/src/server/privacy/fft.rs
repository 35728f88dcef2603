//! The fast Fourier transform of a power of two of complex numbers: the same bits on every processor, and an error that is
//! known.

/// A complex number: real and imaginary part.
pub(super) type Complex = (f64, f64);

/// The largest relative error of [`transform`] in the Euclidean norm, for `size` numbers: `log2(size) (u + 4 sqrt(2) u)`
/// with the unit roundoff u = 2^-53 (Higham, Accuracy and Stability of Numerical Algorithms, theorem 24.2), rounded up.
pub(super) fn relative_error(size: usize) -> f64 {
    f64::from(size.ilog2()) * 8.0 * (f64::EPSILON / 2.0)
}

pub(super) fn multiply(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// `a^exponent` by repeated squaring.
pub(super) fn power(mut a: Complex, mut exponent: u64) -> Complex {
    let mut product = (1.0, 0.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = multiply(product, a);
        }
        a = multiply(a, a);
        exponent >>= 1;
    }
    product
}

/// `sum_j values[j] exp(-2 pi i j k / n)` in place of `values[k]`; n must be a power of two, at least 2. The inverse is the
/// same of the conjugates, divided by n. Cost: `n log2(n) / 2` butterflies.
pub(super) fn transform(values: &mut [Complex]) {
    let size = values.len();
    debug_assert!(size.is_power_of_two() && size > 1);
    for at in 0..size {
        let reversed = at.reverse_bits() >> (usize::BITS - size.ilog2());
        if at < reversed {
            values.swap(at, reversed);
        }
    }
    let turn = |at: usize| {
        let (sin, cos) = libm::sincos(std::f64::consts::TAU * at as f64 / size as f64);
        (cos, -sin)
    };
    let roots: Vec<Complex> = (0..size / 2).map(turn).collect();
    let mut half = 1;
    while half < size {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            let turns = roots.iter().step_by(size / (2 * half));
            for ((a, b), &root) in low.iter_mut().zip(high).zip(turns) {
                let turned = multiply(root, *b);
                (*a, *b) = ((a.0 + turned.0, a.1 + turned.1), (a.0 - turned.0, a.1 - turned.1));
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_fourier_transform() {
        for size in [2_usize, 8, 64, 256] {
            let value = |at: usize| ((at as f64 * 0.7).sin(), (at as f64 * 1.3).cos());
            let mut found: Vec<Complex> = (0..size).map(value).collect();
            transform(&mut found);
            for (k, found) in found.iter().enumerate() {
                let term = |j: usize| {
                    let angle = -std::f64::consts::TAU * (j * k % size) as f64 / size as f64;
                    multiply(value(j), (angle.cos(), angle.sin()))
                };
                let sum = (0..size).map(term).fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
                let far = (found.0 - sum.0).abs().max((found.1 - sum.1).abs());
                assert!(far < 1e-12 * size as f64, "size {size}, {k}: {found:?}, not {sum:?}");
            }
        }
    }

    #[test]
    fn powers_are_products() {
        let root = (0.6, 0.8);
        let product = (0..13).fold((1.0, 0.0), |product, _| multiply(product, root));
        let found = power(root, 13);
        assert!((found.0 - product.0).abs() < 1e-14 && (found.1 - product.1).abs() < 1e-14);
        assert_eq!(power(root, 0), (1.0, 0.0));
    }
}
