//! The privacy loss distribution of the sampled Gaussian mechanism: the tightest bound there is, but for what a grid costs.
//!
//! A round adds noise N(0, sigma^2) to a sum in which one client is with chance q, in its own direction at most 1 long. What
//! an observer sees of that client is the pair M = (1 - q) N(0, sigma^2) + q N(1, sigma^2) with it and N = N(0, sigma^2)
//! without it; no neighbouring pair is easier to tell apart (Zhu, Dong and Wang 2022). The loss is ln(M/N) for x ~ M where the
//! client is removed, ln(N/M) for x ~ N where it is added. Losses of rounds add up, and
//!
//! ```text
//! delta(epsilon) = E[(1 - exp(epsilon - sum of losses))+]
//! ```
//!
//! Everything is rounded so that this can only grow. It grows where a loss grows; and where the loss is spread over the two
//! ends of an interval such that E[exp(-loss)] stays (Jensen: the function is convex in exp(-loss)), which costs the square
//! of a step where plain rounding costs a step (Doroshenko et al. 2022, "connect the dots"). Losses beyond the grid count
//! as infinite, sums beyond the window and the error of the Fourier transform are bounded and added to delta.

use super::fft::{self, Complex};

/// Points of the grid.
const POINTS: usize = 1 << 14;

/// Which share of delta each kind of tail may take.
const TAIL: f64 = 1e-4;

/// Relative error of a normal tail that is allowed for: arguments and the error function are each good to a few units of
/// 2^-53, magnified by at most the square of an argument.
const TAIL_ERROR: f64 = 1e-10;

/// Which of the two neighbours is the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Remove,
    Add,
}

/// The Gaussian mechanism on a sum in which each client is with chance `q`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SampledGaussian {
    pub(super) q: f64,
    pub(super) sigma: f64,
}

/// Losses of one round on a grid, none smaller than it is.
struct Grid {
    /// The distance of neighbouring losses.
    step: f64,
    /// The smallest loss, in steps.
    first: i64,
    /// The chance of each loss.
    chances: Vec<f64>,
    /// The chance of a loss beyond the grid.
    beyond: f64,
}

impl SampledGaussian {
    /// A bound on epsilon after so many rounds, at least 1; infinite where this way of counting gives none.
    pub(super) fn epsilon(self, rounds: u64, delta: f64) -> f64 {
        if self.q >= 1.0 {
            return gaussian_epsilon((rounds as f64).sqrt() / self.sigma, delta);
        }
        let of = |direction| self.epsilon_of(direction, rounds, delta).unwrap_or(f64::INFINITY);
        of(Direction::Remove).max(of(Direction::Add))
    }

    fn epsilon_of(self, direction: Direction, rounds: u64, delta: f64) -> Option<f64> {
        // A normal tail beyond z is at most exp(-z^2 / 2).
        let z = (-2.0 * (TAIL * delta / rounds as f64).ln()).sqrt();
        let ends = [-z * self.sigma, 1.0 + z * self.sigma].map(|x| self.loss(x));
        let (low, high) = match direction {
            Direction::Remove => (ends[0], ends[1]),
            Direction::Add => (-ends[1], -ends[0]),
        };
        let mut grid = self.grid(direction, low, high, (high - low) / (POINTS - 4) as f64)?;
        let (mut bottom, top) = grid.window(rounds, delta)?;
        let wanted = (top - bottom) / (POINTS - 4) as f64;
        if wanted > grid.step {
            grid = self.grid(direction, low, high, wanted)?;
            bottom = grid.window(rounds, delta)?.0;
        }
        grid.epsilon(rounds, delta, bottom)
    }

    /// ln(M/N) at x.
    fn loss(self, x: f64) -> f64 {
        let shift = (2.0 * x - 1.0) / (2.0 * self.sigma * self.sigma);
        let (outside, inside) = ((-self.q).ln_1p(), self.q.ln() + shift);
        outside.max(inside) + (-(outside - inside).abs()).exp().ln_1p()
    }

    /// Where ln(M/N) has this value; `side` is -1 or 1 and says to which side it may be wrong. Minus infinity where the
    /// loss is never so small.
    fn place(self, loss: f64, side: f64) -> f64 {
        let grown = loss.exp_m1() / self.q;
        let grown = grown + side * 4.0 * f64::EPSILON * grown.abs();
        // ln(1 + (e^loss - 1) / q), without overflow.
        let log = match loss {
            loss if loss > 700.0 => loss - self.q.ln(),
            _ if grown <= -1.0 => return f64::NEG_INFINITY,
            _ => grown.ln_1p(),
        };
        self.sigma * self.sigma * log + 0.5
    }

    /// The chances of a loss above this one, under the true and under the other neighbour. The first is rounded up.
    fn tails(self, direction: Direction, loss: f64) -> (f64, f64) {
        let Self { q, sigma } = self;
        let above = |x: f64, mean: f64| libm::erfc((x - mean) / (sigma * std::f64::consts::SQRT_2)) / 2.0;
        let (with, without) = match direction {
            Direction::Remove => {
                let x = self.place(loss, -1.0);
                let without = above(x, 0.0);
                ((1.0 - q) * without + q * above(x, 1.0), without)
            }
            Direction::Add => {
                let x = self.place(-loss, 1.0);
                let without = above(-x, 0.0);
                (without, (1.0 - q) * without + q * above(-x, -1.0))
            }
        };
        ((with * (1.0 + TAIL_ERROR)).min(1.0), without)
    }

    /// The losses of one round between `low` and `high`. Those below are counted as `low`, those above as infinite.
    fn grid(self, direction: Direction, low: f64, high: f64, step: f64) -> Option<Grid> {
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let sound = step > 0.0 && first.abs().max(last.abs()) < 1e15 && last - first < POINTS as f64;
        if !sound {
            return None;
        }
        let count = (last - first) as usize;
        let mut chances = vec![0.0; count + 1];
        let (mut true_above, mut other_above) = self.tails(direction, first * step);
        chances[0] = 1.0 - true_above;
        for at in 0..count {
            let loss = (first + at as f64) * step;
            let (next_true, next_other) = self.tails(direction, (first + at as f64 + 1.0) * step);
            let next_true = next_true.min(true_above);
            let mass = true_above - next_true;
            // What of it goes to the upper end, with all that rounding may have taken from it.
            let upper = if loss < 700.0 {
                let factor = loss.exp();
                let slack = TAIL_ERROR * mass + f64::EPSILON * (true_above + factor * other_above);
                let excess = mass - factor * (other_above - next_other) + 32.0 * slack;
                (excess / -(-step).exp_m1()).clamp(0.0, mass)
            } else {
                mass
            };
            chances[at] += mass - upper;
            chances[at + 1] += upper;
            (true_above, other_above) = (next_true, next_other);
        }
        Some(Grid { step, first: first as i64, chances, beyond: true_above })
    }
}

impl Grid {
    fn loss(&self, at: usize) -> f64 {
        (self.first + at as i64) as f64 * self.step
    }

    /// `ln E[exp(s loss)]` of the losses on the grid, for s of either sign, by Horner's rule.
    fn log_moment(&self, s: f64) -> f64 {
        let shrink = (-s.abs() * self.step).exp();
        let sum = |sum: f64, chance: &f64| sum * shrink + chance;
        if s > 0.0 {
            s * self.loss(self.chances.len() - 1) + self.chances.iter().fold(0.0, sum).ln()
        } else {
            s * self.loss(0) + self.chances.iter().rev().fold(0.0, sum).ln()
        }
    }

    /// Between which values the sum of the losses of all rounds lies, but for a share of delta at each end: Chernoff's
    /// bound at the best of some exponents.
    fn window(&self, rounds: u64, delta: f64) -> Option<(f64, f64)> {
        let (rounds, tail) = (rounds as f64, (TAIL * delta).ln());
        let mean: f64 = self.chances.iter().enumerate().map(|(at, chance)| chance * self.loss(at)).sum();
        let squares = self.chances.iter().enumerate().map(|(at, p)| p * (self.loss(at) - mean).powi(2));
        let deviation = squares.sum::<f64>().sqrt().max(self.step);
        // Near where a normal distribution of this variance has its best.
        let best = (-2.0 * tail / rounds).sqrt() / deviation;
        let exponents = (-8..=4).map(|power| best * 2.0_f64.powf(f64::from(power) / 2.0));
        let (mut bottom, mut top) = (f64::NEG_INFINITY, f64::INFINITY);
        for s in exponents {
            top = top.min((rounds * self.log_moment(s) - tail) / s);
            bottom = bottom.max((tail - rounds * self.log_moment(-s)) / s);
        }
        (bottom.is_finite() && top.is_finite() && top > bottom).then_some((bottom, top))
    }

    /// The smallest epsilon at which delta after so many rounds is as wanted; sums of losses are looked at from `bottom`
    /// upwards, over as many steps as there are points.
    fn epsilon(&self, rounds: u64, delta: f64, bottom: f64) -> Option<f64> {
        let bottom = (bottom / self.step).floor();
        // A sum above the window would be counted as a small one: its chance is added. One below is counted as a large one.
        let beyond = rounds as f64 * self.beyond;
        let top = (bottom + POINTS as f64) * self.step;
        let wrapped = self.chance_above(rounds, delta, top);
        let norm = self.chances.iter().map(|chance| chance * chance).sum::<f64>().sqrt();
        let transform = transform_error(rounds, norm);
        let left = delta * (1.0 - 1e-9) - beyond - wrapped - transform;
        if !(left > 0.0 && bottom.abs() < 1e15) {
            return None;
        }
        let sums = self.convolved(rounds);
        // The sum of all first losses, and from there to the bottom, around the circle.
        let start = (bottom as i128 - i128::from(rounds) * i128::from(self.first)).rem_euclid(POINTS as i128);
        // From above: the chance of larger sums, and the same weighted with exp(their distance below).
        let (mut above, mut weighted, shrink) = (0.0, 0.0, (-self.step).exp());
        for at in (0..POINTS).rev() {
            let loss = (bottom + at as f64) * self.step;
            // delta(epsilon) = above - exp(epsilon - loss) weighted between this loss and the next above.
            if above - weighted * shrink > left {
                let next = loss + self.step;
                return Some((next + ((above - left) / weighted).ln()).clamp(loss, next).max(0.0));
            }
            if loss < 0.0 {
                return Some(0.0);
            }
            let chance = sums[(at + start as usize) % POINTS].max(0.0);
            above += chance;
            weighted = weighted * shrink + chance;
        }
        Some((bottom * self.step).max(0.0))
    }

    /// A bound on the chance that the sum of the losses of all rounds is above `top`.
    fn chance_above(&self, rounds: u64, delta: f64, top: f64) -> f64 {
        // At the best exponents for a bound of this size.
        let mean: f64 = self.chances.iter().enumerate().map(|(at, chance)| chance * self.loss(at)).sum();
        let room = (top - rounds as f64 * mean).max(self.step);
        let best = -2.0 * (TAIL * delta).ln() / room;
        let exponents = (-4..=6).map(|power| best * 2.0_f64.powf(f64::from(power) / 2.0));
        let bound = |s: f64| (rounds as f64 * self.log_moment(s) - s * top).exp();
        exponents.map(bound).filter(|bound| !bound.is_nan()).fold(1.0, f64::min) * (1.0 + 1e-6)
    }

    /// The chances of the sums of the losses of all rounds, around a circle of [`POINTS`] steps.
    fn convolved(&self, rounds: u64) -> Vec<f64> {
        let mut values: Vec<Complex> = self.chances.iter().map(|&chance| (chance, 0.0)).collect();
        values.resize(POINTS, (0.0, 0.0));
        fft::transform(&mut values);
        for value in &mut values {
            let (real, imaginary) = fft::power(*value, rounds);
            *value = (real, -imaginary);
        }
        fft::transform(&mut values);
        values.into_iter().map(|(real, _)| real / POINTS as f64).collect()
    }
}

/// How much the Fourier transforms can change the chance of any set of sums, where the chances of one round have this
/// Euclidean norm.
///
/// With k the relative error of a transform and n points, the first is off by at most `k sqrt(n) norm`; its values are at
/// most 1 in size, so that their powers are off by T times as much (and `3 T u` by their own rounding, below k); the
/// second keeps norms up to `sqrt(n)` and adds k of its own. A sum of n values is at most `sqrt(n)` times their norm.
fn transform_error(rounds: u64, norm: f64) -> f64 {
    let (error, root) = (fft::relative_error(POINTS), (POINTS as f64).sqrt());
    let powers = rounds as f64 * error;
    // Values slightly above 1 in size grow in their power.
    let growth = (powers * root).exp();
    root * norm * (2.0 * powers * growth + error)
}

/// The epsilon of the Gaussian mechanism whose means are `distance` standard deviations apart: exact (Balle and Wang 2018),
/// rounded up.
fn gaussian_epsilon(distance: f64, delta: f64) -> f64 {
    let tail = |z: f64| libm::erfc(z / std::f64::consts::SQRT_2) / 2.0;
    let found = |epsilon: f64| {
        let (one, other) = (epsilon / distance - distance / 2.0, epsilon / distance + distance / 2.0);
        // e^epsilon times the second tail, without overflow; nothing where the tail is below the smallest number.
        let second = (epsilon + tail(other).ln()).exp();
        tail(one) * (1.0 + TAIL_ERROR) - second * (1.0 - TAIL_ERROR)
    };
    let (mut low, mut high) = (0.0, 1.0);
    if found(low) <= delta {
        return 0.0;
    }
    while found(high) > delta {
        (low, high) = (high, 2.0 * high);
        if high > 1e300 {
            return f64::INFINITY;
        }
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if found(middle) > delta { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `delta(epsilon)` of one round by numeric integration, the larger of both directions.
    fn exact_delta(q: f64, sigma: f64, epsilon: f64) -> f64 {
        let (from, to, points) = (-14.0 * sigma - 1.0, 2.0 + 14.0 * sigma, 200_000);
        let step = (to - from) / f64::from(points);
        let (mut removed, mut added) = (0.0, 0.0);
        for at in 0..points {
            let z = from + (f64::from(at) + 0.5) * step;
            let density = |mean: f64| {
                (-(z - mean).powi(2) / (2.0 * sigma * sigma)).exp() / (sigma * std::f64::consts::TAU.sqrt())
            };
            let (without, with) = (density(0.0), (1.0 - q) * density(0.0) + q * density(1.0));
            removed += (with - epsilon.exp() * without).max(0.0) * step;
            added += (without - epsilon.exp() * with).max(0.0) * step;
        }
        removed.max(added)
    }

    /// At the epsilon that is found for one round delta is what was asked for, to four digits and never more.
    #[test]
    fn one_round_is_exact() {
        for (q, sigma) in [(1.0, 1.0), (0.5, 1.0), (0.1, 0.5), (0.1, 2.0), (0.01, 0.7), (0.9, 3.0)] {
            for delta in [1e-3, 1e-5, 1e-7] {
                let epsilon = SampledGaussian { q, sigma }.epsilon(1, delta);
                let found = exact_delta(q, sigma, epsilon);
                assert!(found <= delta * (1.0 + 1e-7), "q {q}, sigma {sigma}: {epsilon} gives {found}");
                assert!(
                    found > 0.999 * delta || epsilon == 0.0,
                    "q {q}, sigma {sigma}: {found}, not {delta}"
                );
            }
        }
    }

    /// With a chance of nearly 1 rounds are those of the Gaussian mechanism, which is known exactly: a bound for many rounds
    /// that is not below it, and near.
    #[test]
    fn many_rounds_without_sampling_are_one_gaussian() {
        for (sigma, rounds) in [(0.5, 3), (1.0, 60), (4.0, 1000), (50.0, 20_000)] {
            let found = SampledGaussian { q: 1.0 - 1e-9, sigma }.epsilon(rounds, 1e-5);
            let exact = SampledGaussian { q: 1.0, sigma }.epsilon(rounds, 1e-5);
            let near = found >= exact * (1.0 - 1e-6) && found <= exact * 1.002;
            assert!(near, "sigma {sigma}, {rounds} rounds: {found}, exact {exact}");
        }
    }

    /// Never a loss that is too small: the chances on the grid, added up from above, are at least the true ones.
    #[test]
    fn the_grid_of_one_round_bounds_delta_everywhere() {
        for (q, sigma, step) in [(0.1, 1.0, 0.05), (0.5, 0.6, 0.2), (0.01, 2.0, 0.001)] {
            let mechanism = SampledGaussian { q, sigma };
            for (direction, low, high) in [(Direction::Remove, -0.8, 8.0), (Direction::Add, -8.0, 0.8)] {
                let grid = mechanism.grid(direction, low, high, step).unwrap();
                let whole: f64 = grid.chances.iter().sum::<f64>() + grid.beyond;
                assert!((whole - 1.0).abs() < 1e-9, "{whole}");
                for epsilon in [-0.5_f64, 0.0, 0.013, 0.3, 0.77, 2.0, 5.0] {
                    let term = |(at, chance): (usize, &f64)| {
                        chance * (1.0 - (epsilon - grid.loss(at)).exp()).max(0.0)
                    };
                    let found = grid.chances.iter().enumerate().map(term).sum::<f64>() + grid.beyond;
                    let (one, other) = mechanism.tails(direction, epsilon);
                    let exact = one - epsilon.exp() * other;
                    assert!(found >= exact - 1e-12, "{direction:?} at {epsilon}: {found} is below {exact}");
                }
            }
        }
    }

    /// Settings at the ends of what a config allows give a bound or none, never a number that is not one.
    #[test]
    fn extremes_give_a_bound_or_none() {
        for q in [1e-9, 1e-4, 0.5, 0.999_999, 1.0] {
            for sigma in [0.01, 1.0, 1e6] {
                for rounds in [1, 1000, 10_000_000] {
                    for delta in [1e-300, 1e-5, 0.9] {
                        let found = SampledGaussian { q, sigma }.epsilon(rounds, delta);
                        assert!(found >= 0.0, "q {q}, sigma {sigma}, {rounds} rounds, {delta}: {found}");
                    }
                }
            }
        }
    }
}
