//! Adam and SGD, step for step as PyTorch defines them.

use std::ops::Range;

use num_traits::Float;

use crate::Scalar;
use crate::scalar::vectorised;

/// Which optimiser, with which settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptimizerSpec {
    /// Adam (Kingma and Ba 2015), without weight decay.
    Adam {
        /// Learning rate.
        rate: f64,
        /// Decay of the mean of gradients.
        beta1: f64,
        /// Decay of the mean of squared gradients.
        beta2: f64,
        /// Added to the root of the latter.
        epsilon: f64,
    },
    /// Stochastic gradient descent, `velocity = momentum * velocity + gradient`.
    Sgd {
        /// Learning rate.
        rate: f64,
        /// 0 for plain descent.
        momentum: f64,
    },
}

impl OptimizerSpec {
    /// Adam with PyTorch's defaults: betas 0.9 and 0.999, epsilon 1e-8.
    #[must_use]
    pub const fn adam(rate: f64) -> Self {
        Self::Adam { rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

/// An optimiser's memory for some ranges of the parameters.
#[derive(Clone, Debug)]
pub struct Optimizer<T> {
    spec: OptimizerSpec,
    spans: Vec<Range<usize>>,
    steps: i32,
    first: Vec<T>,
    second: Vec<T>,
}

impl<T: Scalar> Optimizer<T> {
    /// Fresh state for the parameters in `spans`. Memory: two values a parameter (Adam), one (SGD with
    /// momentum) or none.
    #[must_use]
    pub fn new(spec: OptimizerSpec, spans: Vec<Range<usize>>) -> Self {
        let size = spans.iter().map(ExactSizeIterator::len).sum();
        let (first, second) = match spec {
            OptimizerSpec::Adam { .. } => (size, size),
            OptimizerSpec::Sgd { momentum, .. } => (if momentum == 0.0 { 0 } else { size }, 0),
        };
        Self { spec, spans, steps: 0, first: vec![T::zero(); first], second: vec![T::zero(); second] }
    }

    /// Forgets everything, keeps the memory.
    pub fn reset(&mut self) {
        self.steps = 0;
        self.first.fill(T::zero());
        self.second.fill(T::zero());
    }

    /// One step down `gradient`, both in the order of the flat parameters.
    pub fn step(&mut self, parameters: &mut [T], gradient: &[T]) {
        self.advance();
        let mut start = 0;
        for index in 0..self.spans.len() {
            let span = self.spans[index].clone();
            let own = start..start + span.len();
            start = own.end;
            self.apply(own, &mut parameters[span.clone()], &gradient[span]);
        }
    }

    /// Begins the next step; [`Self::apply`] then makes it, piece by piece.
    pub(crate) const fn advance(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }

    /// The step at hand for a run of parameters; `own` is their place among those that move.
    pub(crate) fn apply(&mut self, own: Range<usize>, parameters: &mut [T], gradient: &[T]) {
        match self.spec {
            OptimizerSpec::Adam { rate, beta1, beta2, epsilon } => {
                let correction1 = 1.0 - beta1.powi(self.steps);
                let correction2 = (1.0 - beta2.powi(self.steps)).sqrt();
                let adam = AdamStep {
                    rate: T::of(rate / correction1),
                    keep1: T::of(1.0 - beta1),
                    beta2: T::of(beta2),
                    keep2: T::of(1.0 - beta2),
                    scale: T::of(1.0 / correction2),
                    epsilon: T::of(epsilon),
                };
                adam.apply(parameters, gradient, &mut self.first[own.clone()], &mut self.second[own]);
            }
            OptimizerSpec::Sgd { rate, momentum: 0.0 } => {
                descend(parameters, gradient, T::of(rate));
            }
            OptimizerSpec::Sgd { rate, momentum } => {
                // PyTorch starts the velocity at the first gradient: the same as from zero, undamped.
                let (velocity, momentum) = (&mut self.first[own], T::of(momentum));
                vectorised(
                    #[inline(always)]
                    || {
                        for (velocity, &slope) in velocity.iter_mut().zip(gradient) {
                            *velocity = momentum * *velocity + slope;
                        }
                    },
                );
                descend(parameters, velocity, T::of(rate));
            }
        }
    }
}

fn descend<T: Scalar>(parameters: &mut [T], direction: &[T], rate: T) {
    vectorised(
        #[inline(always)]
        || {
            for (parameter, &slope) in parameters.iter_mut().zip(direction) {
                *parameter -= rate * slope;
            }
        },
    );
}

/// The constants of one step of Adam, bias corrections folded in.
struct AdamStep<T> {
    rate: T,
    keep1: T,
    beta2: T,
    keep2: T,
    scale: T,
    epsilon: T,
}

impl<T: Scalar> AdamStep<T> {
    fn apply(&self, parameters: &mut [T], gradient: &[T], first: &mut [T], second: &mut [T]) {
        let Self { rate, keep1, beta2, keep2, scale, epsilon } = *self;
        // Squares of gradients below this are subnormal, which would slow the loop a hundredfold once a client
        // has learnt its samples by heart; steps along such gradients are below 1e-7 of the learning rate.
        let floor = Float::sqrt(T::min_positive_value()) * T::of(1e4);
        vectorised(
            #[inline(always)]
            || {
                let moments = first.iter_mut().zip(second.iter_mut());
                for ((parameter, &slope), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments)
                {
                    let slope = if Float::abs(slope) < floor { T::zero() } else { slope };
                    *first += (slope - *first) * keep1;
                    *second = beta2 * *second + keep2 * slope * slope;
                    *parameter -= rate * *first / (Float::sqrt(*second) * scale + epsilon);
                }
            },
        );
    }
}
