//! Draws of parameters from their posterior.

use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};

use super::{Covariance, Posterior};
use crate::dense::{cholesky, multiply, multiply_add, multiply_subtract_lower, rows, rows_mut};
use crate::error::PosteriorError;

/// Draws computed at a time.
const BLOCK: usize = 64;

impl Posterior {
    /// `count` draws of the selected parameters, each as its distance from the point of linearisation: `[count, selected]`.
    /// The first of them are the same however many are asked for.
    ///
    /// Cost: where the covariance is held as a reduction of the prior, [`Self::rank`]^2 x live parameters and a
    /// factorisation of size rank, once; for each draw, two products of the factor with a vector.
    ///
    /// # Errors
    /// A factor that is not finite.
    pub fn draws(&self, count: usize, rng: &mut dyn Rng) -> Result<Vec<f64>, PosteriorError> {
        let root = Root::of(self)?;
        let mut all = Vec::with_capacity(count * self.selected.len());
        let mut remaining = count;
        while remaining > 0 {
            let block = remaining.min(BLOCK);
            remaining -= block;
            let (mut normals, mut further) = (Vec::new(), Vec::new());
            for _ in 0..block {
                normals.extend(StandardNormal.sample_iter(&mut *rng).take(self.selected.len()).map(number));
                further.extend(StandardNormal.sample_iter(&mut *rng).take(root.rank).map(number));
            }
            root.apply(&mut normals, &further);
            all.extend(normals);
        }
        Ok(all)
    }
}

/// Says which kind of number is drawn.
const fn number(normal: f64) -> f64 {
    normal
}

/// A linear map from independent standard normals, one for each selected parameter and `rank` more, to the posterior.
struct Root<'a> {
    /// Selected parameters.
    size: usize,
    rank: usize,
    /// Positions of the parameters that the factor covers.
    live: &'a [usize],
    /// What the normal of each selected parameter is multiplied by in the end.
    deviation: Vec<f64>,
    /// W; in units of the prior's standard deviations where the covariance is a reduction of the prior.
    factor: Vec<f64>,
    /// R' with `R R' = I - W' W`, for a reduction.
    rest: Option<Vec<f64>>,
}

impl<'a> Root<'a> {
    fn of(posterior: &'a Posterior) -> Result<Self, PosteriorError> {
        let size = posterior.selected.len();
        let live = posterior.live.order.as_slice();
        let mut deviation: Vec<f64> = posterior.prior_variance.iter().map(|v| v.sqrt()).collect();
        Ok(match &posterior.covariance {
            Covariance::Independent { variance } => {
                let deviation = variance.iter().map(|v| v.sqrt()).collect();
                Self { size, rank: 0, live: &[], deviation, factor: Vec::new(), rest: None }
            }
            Covariance::Reduction { rank, factor } => {
                let mut factor = factor.clone();
                for (row, &position) in factor.chunks_exact_mut((*rank).max(1)).zip(live) {
                    row.iter_mut().for_each(|value| *value /= deviation[position]);
                }
                let rest = Some(root_of_rest(&factor, live.len(), *rank)?);
                Self { size, rank: *rank, live, deviation, factor, rest }
            }
            Covariance::Whole { rank, factor } => {
                for &position in live {
                    deviation[position] = 1.0;
                }
                Self { size, rank: *rank, live, deviation, factor: factor.clone(), rest: None }
            }
        })
    }

    /// Turns rows of standard normals into draws. Of live parameters, with a covariance `W W'`: `W u`. With
    /// `I - W W'`: `z - W (W' z + R u)`, whose covariance is `I - 2 W W' + W (W' W + R R') W'`.
    fn apply(&self, normals: &mut [f64], further: &[f64]) {
        let (count, live) = (normals.len() / self.size.max(1), self.live.len());
        if self.rank > 0 && count > 0 {
            let factor = rows(&self.factor, live, self.rank);
            let further = rows(further, count, self.rank);
            let mut own = vec![0.0; count * live];
            match &self.rest {
                None => multiply(rows_mut(&mut own, count, live), further, factor.transpose()),
                Some(rest) => {
                    for (own, draw) in own.chunks_exact_mut(live).zip(normals.chunks_exact(self.size)) {
                        for (value, &position) in own.iter_mut().zip(self.live) {
                            *value = draw[position];
                        }
                    }
                    let mut inner = vec![0.0; count * self.rank];
                    let (n, r) = (count, self.rank);
                    multiply(rows_mut(&mut inner, n, r), further, rows(rest, r, r));
                    multiply_add(rows_mut(&mut inner, n, r), 1.0, rows(&own, n, live), factor);
                    multiply_add(rows_mut(&mut own, n, live), -1.0, rows(&inner, n, r), factor.transpose());
                }
            }
            for (own, draw) in own.chunks_exact(live).zip(normals.chunks_exact_mut(self.size)) {
                for (&value, &position) in own.iter().zip(self.live) {
                    draw[position] = value;
                }
            }
        }
        for draw in normals.chunks_exact_mut(self.size.max(1)) {
            for (value, deviation) in draw.iter_mut().zip(&self.deviation) {
                *value *= deviation;
            }
        }
    }
}

/// R' with `R R' = I - W' W`: row after row, upper triangular. Where the data determines a direction to all digits, rounding
/// may leave nothing of it: as much is then added as rounding can have taken.
fn root_of_rest(factor: &[f64], live: usize, rank: usize) -> Result<Vec<f64>, PosteriorError> {
    let mut rest = vec![0.0; rank * rank];
    if rank == 0 {
        return Ok(rest);
    }
    let factor = rows(factor, live, rank);
    multiply_subtract_lower(rows_mut(&mut rest, rank, rank).transpose_mut(), factor.transpose(), factor);
    let mut added = 0.0;
    loop {
        let mut root = rest.clone();
        for index in 0..rank {
            root[index * rank + index] += 1.0 + added;
        }
        match cholesky(&mut root, rank) {
            Ok(_) => {
                // The other triangle is not the factor's.
                for column in 1..rank {
                    root[column * rank..][..column].fill(0.0);
                }
                return Ok(root);
            }
            Err(error) if added > 1e-6 || rest.iter().any(|value| !value.is_finite()) => return Err(error),
            Err(_) => added = (8.0_f64 * added).max(rank as f64 * f64::EPSILON),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fedsi_nn::{LayerSpec, Network};
    use fedsi_random::{Purpose, Streams};
    use rand::RngExt as _;

    use super::*;
    use crate::{Form, Likelihood, PosteriorFamily, Prior, Problem};

    fn problem(inputs: &[f64]) -> Problem<'_> {
        let layers = [LayerSpec::Linear(4), LayerSpec::Relu, LayerSpec::Linear(3)];
        let network = Network::new(&[3], &layers).unwrap();
        let mut rng = Streams::new(5).stream(Purpose::Batches, 0, 0);
        let mut parameters: Vec<f64> =
            (0..network.layout().len()).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect();
        // A unit that is never active: parameters without curvature.
        parameters[12] = -50.0;
        Problem::new(Arc::new(network), parameters, inputs, Likelihood::Categorical).unwrap()
    }

    /// The map's square is the covariance, in every form.
    #[test]
    fn draws_have_the_posteriors_covariance() {
        let mut rng = Streams::new(6).stream(Purpose::Batches, 0, 0);
        let inputs: Vec<f64> = (0..9 * 3).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect();
        let problem = problem(&inputs);
        let selected: Vec<usize> = (0..problem.parameters().len()).filter(|index| index % 5 != 1).collect();
        let prior: Vec<f64> = (0..selected.len()).map(|index| 0.2 + 0.1 * index as f64).collect();
        let size = selected.len();
        let full = |form| {
            let family = PosteriorFamily::new(&problem, &selected, &prior, 1e-9, Some(form)).unwrap();
            family.into_posterior().unwrap()
        };
        let independent = problem.choose_independent(&Prior::isotropic(0..31, 0.7)).unwrap();
        let independent = problem.fit(&independent, 0.0).unwrap();
        for posterior in [
            full(Form::Samples),
            full(Form::Parameters),
            full(Form::Projection),
            independent.posterior().clone(),
        ] {
            let root = Root::of(&posterior).unwrap();
            let size = if root.rank == 0 { 31 } else { size };
            let count = size + root.rank;
            let (mut normals, mut further) = (vec![0.0; count * size], vec![0.0; count * root.rank]);
            for index in 0..size {
                normals[index * size + index] = 1.0;
            }
            for index in 0..root.rank {
                further[(size + index) * root.rank + index] = 1.0;
            }
            root.apply(&mut normals, &further);
            for (place, expected) in posterior.covariance().iter().enumerate() {
                let (a, b) = (place / size, place % size);
                let found: f64 = normals.chunks_exact(size).map(|row| row[a] * row[b]).sum();
                assert!((found - expected).abs() < 1e-10, "{a} {b}: {found} is not {expected}");
            }
        }
    }

    #[test]
    fn the_first_draws_do_not_depend_on_how_many_follow() {
        let inputs: Vec<f64> = (0..27).map(|index| (f64::from(index) * 0.7).sin()).collect();
        let problem = problem(&inputs);
        let selection = problem.choose_all(&Prior::isotropic(0..31, 1.0)).unwrap();
        let fit = problem.fit(&selection, 0.0).unwrap();
        let draw = |count| {
            let mut rng = Streams::new(1).stream(Purpose::Prediction, 0, 0);
            fit.posterior().draws(count, &mut rng).unwrap()
        };
        let (few, many) = (draw(3), draw(2 * BLOCK + 5));
        assert_eq!(many.len(), (2 * BLOCK + 5) * 31);
        for (few, many) in few.iter().zip(&many) {
            assert!((few - many).abs() < 1e-12);
        }
        assert!(draw(0).is_empty());
    }
}
