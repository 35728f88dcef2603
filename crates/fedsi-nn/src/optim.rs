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
        let rule = self.advance();
        let mut start = 0;
        for index in 0..self.spans.len() {
            let span = self.spans[index].clone();
            let own = start..start + span.len();
            start = own.end;
            vectorised(
                #[inline(always)]
                || self.apply(&rule, own, &mut parameters[span.clone()], &gradient[span]),
            );
        }
    }

    /// Begins the next step: what it does, which [`Self::apply`] then does, piece by piece.
    pub(crate) fn advance(&mut self) -> Rule<T> {
        self.steps = self.steps.saturating_add(1);
        match self.spec {
            OptimizerSpec::Adam { rate, beta1, beta2, epsilon } => {
                let correction1 = 1.0 - beta1.powi(self.steps);
                let correction2 = (1.0 - beta2.powi(self.steps)).sqrt();
                Rule::Adam(AdamStep {
                    rate: T::of(rate / correction1),
                    keep1: T::of(1.0 - beta1),
                    beta2: T::of(beta2),
                    keep2: T::of(1.0 - beta2),
                    scale: T::of(1.0 / correction2),
                    epsilon: T::of(epsilon),
                })
            }
            OptimizerSpec::Sgd { rate, momentum: 0.0 } => Rule::Descent { rate: T::of(rate) },
            OptimizerSpec::Sgd { rate, momentum } => {
                Rule::Momentum { rate: T::of(rate), momentum: T::of(momentum) }
            }
        }
    }

    /// The step at hand for a run of parameters; `own` is their place among those that move. To be called within
    /// [`vectorised`].
    #[inline(always)]
    pub(crate) fn apply(&mut self, rule: &Rule<T>, own: Range<usize>, parameters: &mut [T], gradient: &[T]) {
        match rule {
            Rule::Adam(adam) => {
                adam.apply(parameters, gradient, &mut self.first[own.clone()], &mut self.second[own]);
            }
            Rule::Descent { rate } => descend(parameters, gradient, *rate),
            Rule::Momentum { rate, momentum } => {
                // PyTorch starts the velocity at the first gradient: the same as from zero, undamped.
                let velocity = &mut self.first[own];
                for (velocity, &slope) in velocity.iter_mut().zip(gradient) {
                    *velocity = *momentum * *velocity + slope;
                }
                descend(parameters, velocity, *rate);
            }
        }
    }
}

/// Parameters of which denominators are held at a time.
const HELD: usize = 256;

/// [`Optimizer::apply`] for two optimisers of one kind that made the same number of steps, on parameters of their own. In
/// Adam one division serves a parameter of each: divisions are most of the cost of a step.
#[inline(always)]
pub(crate) fn apply_both<T: Scalar>(
    optimizers: &mut [Optimizer<T>; 2],
    rule: &Rule<T>,
    own: Range<usize>,
    [one, two]: [&mut [T]; 2],
    gradients: [&[T]; 2],
) {
    let [first, second] = optimizers;
    let Rule::Adam(adam) = rule else {
        first.apply(rule, own.clone(), one, gradients[0]);
        second.apply(rule, own, two, gradients[1]);
        return;
    };
    let mut held = [[T::zero(); HELD]; 2];
    for start in (0..own.len()).step_by(HELD) {
        let here = start..(start + HELD).min(own.len());
        let place = own.start + here.start..own.start + here.end;
        let [left, right] = &mut held;
        let (left, right) = (&mut left[..here.len()], &mut right[..here.len()]);
        let (slopes, moments) = (&gradients[0][here.clone()], &mut first.first[place.clone()]);
        adam.moments(slopes, moments, &mut first.second[place.clone()], left);
        let (slopes, moments) = (&gradients[1][here.clone()], &mut second.first[place.clone()]);
        adam.moments(slopes, moments, &mut second.second[place.clone()], right);
        // Denominators are at least epsilon: their product is far from the smallest number.
        for (left, right) in left.iter_mut().zip(right) {
            let inverse = adam.rate / (*left * *right);
            (*left, *right) = (*right * inverse, *left * inverse);
        }
        let [left, right] = &held;
        descend_by(&mut one[here.clone()], &first.first[place.clone()], left);
        descend_by(&mut two[here], &second.first[place], right);
    }
}

/// A step against each direction, each with a rate of its own.
#[inline(always)]
fn descend_by<T: Scalar>(parameters: &mut [T], directions: &[T], rates: &[T]) {
    for ((parameter, &direction), &rate) in parameters.iter_mut().zip(directions).zip(rates) {
        *parameter -= rate * direction;
    }
}

#[inline(always)]
fn descend<T: Scalar>(parameters: &mut [T], direction: &[T], rate: T) {
    for (parameter, &slope) in parameters.iter_mut().zip(direction) {
        *parameter -= rate * slope;
    }
}

/// What one step does, its constants worked out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule<T> {
    Adam(AdamStep<T>),
    Descent { rate: T },
    Momentum { rate: T, momentum: T },
}

/// The constants of one step of Adam, bias corrections folded in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamStep<T> {
    rate: T,
    keep1: T,
    beta2: T,
    keep2: T,
    scale: T,
    epsilon: T,
}

impl<T: Scalar> AdamStep<T> {
    #[inline(always)]
    fn apply(&self, parameters: &mut [T], gradient: &[T], first: &mut [T], second: &mut [T]) {
        let moments = first.iter_mut().zip(second.iter_mut());
        for ((parameter, &slope), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let denominator = self.update(slope, first, second);
            *parameter -= self.rate * *first / denominator;
        }
    }

    /// Updates the moments, and says what a step divides by.
    #[inline(always)]
    fn moments(&self, gradient: &[T], first: &mut [T], second: &mut [T], denominators: &mut [T]) {
        let moments = first.iter_mut().zip(second.iter_mut());
        for ((denominator, &slope), (first, second)) in denominators.iter_mut().zip(gradient).zip(moments) {
            *denominator = self.update(slope, first, second);
        }
    }

    /// One parameter's moments after another slope; returns what its step divides by.
    #[inline(always)]
    fn update(&self, slope: T, first: &mut T, second: &mut T) -> T {
        // Squares of gradients below this are subnormal, which would slow the loop a hundredfold once a client
        // has learnt its samples by heart; steps along such gradients are below 1e-7 of the learning rate.
        let floor = Float::sqrt(T::min_positive_value()) * T::of(1e4);
        let slope = if Float::abs(slope) < floor { T::zero() } else { slope };
        *first += (slope - *first) * self.keep1;
        *second = self.beta2 * *second + self.keep2 * slope * slope;
        Float::sqrt(*second) * self.scale + self.epsilon
    }
}
