//! Functions applied to every value alike.

use num_traits::Float;

use crate::Scalar;
use crate::scalar::vectorised;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    Relu,
    LeakyRelu(f64),
    Tanh,
    Sigmoid,
    Silu,
    Softplus,
    Gelu,
}

impl Activation {
    pub(crate) fn forward<T: Scalar>(self, x: &[T], y: &mut [T]) {
        match self {
            Self::Relu => map(x, y, |x| if x > T::zero() { x } else { T::zero() }),
            Self::LeakyRelu(slope) => {
                let slope = T::of(slope);
                map(x, y, |x| if x > T::zero() { x } else { slope * x });
            }
            Self::Tanh => map(x, y, Float::tanh),
            Self::Sigmoid => map(x, y, sigmoid),
            Self::Silu => map(x, y, |x| x * sigmoid(x)),
            Self::Softplus => {
                map(x, y, |x| Float::max(x, T::zero()) + Float::ln_1p(Float::exp(-Float::abs(x))));
            }
            Self::Gelu => map(x, y, |x| x * x.normal_distribution()),
        }
    }

    /// Turns the gradient in the outputs into the gradient in the inputs, in place. Takes both what went in
    /// and what came out: each function differentiates most cheaply from one of them.
    pub(crate) fn input_gradient<T: Scalar>(self, x: &[T], y: &[T], gradient: &mut [T]) {
        match self {
            Self::Relu => scale(y, gradient, |y| if y > T::zero() { T::one() } else { T::zero() }),
            Self::LeakyRelu(slope) => {
                let slope = T::of(slope);
                scale(x, gradient, |x| if x > T::zero() { T::one() } else { slope });
            }
            Self::Tanh => scale(y, gradient, |y| T::one() - y * y),
            Self::Sigmoid => scale(y, gradient, |y| y * (T::one() - y)),
            Self::Silu => scale(x, gradient, |x| {
                let s = sigmoid(x);
                s + x * s * (T::one() - s)
            }),
            Self::Softplus => scale(x, gradient, sigmoid),
            Self::Gelu => {
                let (half, root) = (T::of(0.5), T::of(std::f64::consts::TAU.sqrt().recip()));
                scale(x, gradient, |x| x.normal_distribution() + x * root * Float::exp(-half * x * x));
            }
        }
    }
}

fn sigmoid<T: Scalar>(x: T) -> T {
    T::one() / (T::one() + Float::exp(-x))
}

fn map<T: Scalar>(from: &[T], to: &mut [T], function: impl Fn(T) -> T) {
    vectorised(
        #[inline(always)]
        || {
            for (to, &from) in to.iter_mut().zip(from) {
                *to = function(from);
            }
        },
    );
}

fn scale<T: Scalar>(from: &[T], gradient: &mut [T], derivative: impl Fn(T) -> T) {
    vectorised(
        #[inline(always)]
        || {
            for (gradient, &from) in gradient.iter_mut().zip(from) {
                *gradient *= derivative(from);
            }
        },
    );
}
