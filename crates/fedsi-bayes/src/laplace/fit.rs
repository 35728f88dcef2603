//! From a selection to posteriors.

use std::sync::Arc;

use super::fitted::{Evidence, Laplace};
use super::select::{Selection, Structure};
use crate::error::PosteriorError;
use crate::posterior::{Posterior, PosteriorFamily, is_exact_faster};
use crate::problem::Problem;

impl Problem<'_> {
    /// The posterior over a selection.
    ///
    /// With `tolerance` 0 it is exact; with a positive one every variance `v` comes out between `v` and
    /// `(1 + tolerance) v`, at a cost that follows how many directions the data determines. A selection without
    /// correlations is exact at any tolerance.
    ///
    /// # Errors
    /// A tolerance or prior variance out of range, a selection made for another network, derivatives that are not
    /// finite, a covariance beyond 16 GiB; a network that cannot be evaluated.
    pub fn fit(&self, selection: &Selection, tolerance: f64) -> Result<Laplace, PosteriorError> {
        let (posterior, without_curvature) =
            self.posterior(selection, &selection.prior_variance, tolerance)?;
        Ok(self.fitted(selection, posterior, without_curvature))
    }

    /// Whether a fit with tolerance 0 takes less time than one with a tolerance: where a device does the products, and the data is
    /// so large that the directions that matter would be searched for row by row. What it takes more of is memory: a number
    /// for each pair of parameters.
    #[must_use]
    pub fn is_exact_faster(&self, selection: &Selection) -> bool {
        selection.structure == Structure::Full && is_exact_faster(self, selection.subnetwork.indices())
    }

    /// [`Self::fit`] for several prior variances, each a scale of the selection's. What does not depend on the scale
    /// is computed once, here; each posterior then costs one factorisation, when the iterator comes to it.
    ///
    /// # Errors
    /// As for [`Self::fit`].
    pub fn fit_scales<'s>(
        &'s self,
        selection: &'s Selection,
        tolerance: f64,
        scales: &'s [f64],
    ) -> Result<ScaledFits<'s>, PosteriorError> {
        let family = match (&selection.structure, scales) {
            (Structure::Independent { .. }, _) | (Structure::Full, [] | [_]) => None,
            (Structure::Full, _) => {
                // Tighter for the largest scale, which stretches what is left out.
                let tolerance = tolerance / scales.iter().copied().fold(1.0, f64::max);
                let indices = selection.subnetwork.indices();
                Some(PosteriorFamily::new(self, indices, &selection.prior_variance, tolerance, None)?)
            }
        };
        Ok(ScaledFits { problem: self, selection, tolerance, scales: scales.iter(), family })
    }

    /// The posterior, and how many of its parameters have no curvature.
    fn posterior(
        &self,
        selection: &Selection,
        prior_variance: &[f64],
        tolerance: f64,
    ) -> Result<(Posterior, usize), PosteriorError> {
        let indices = selection.subnetwork.indices();
        match &selection.structure {
            Structure::Independent { ggn } => {
                let posterior = Posterior::independent(&**self.network(), indices, prior_variance, ggn)?;
                let with_curvature = ggn.iter().filter(|&&curvature| curvature > 0.0).count();
                Ok((posterior, indices.len() - with_curvature))
            }
            Structure::Full => {
                let family = PosteriorFamily::new(self, indices, prior_variance, tolerance, None)?;
                let without_curvature = family.without_curvature();
                Ok((family.into_posterior()?, without_curvature))
            }
        }
    }

    /// Joins a posterior with what it was fitted to.
    fn fitted(&self, selection: &Selection, posterior: Posterior, without_curvature: usize) -> Laplace {
        let evidence = self.log_likelihood().map(|log_likelihood| {
            let indices = selection.subnetwork.indices().iter().enumerate();
            let mean = |place: usize| selection.prior_mean.as_ref().map_or(0.0, |mean| mean[place]);
            let moved = indices.map(|(place, &index)| (self.parameters()[index] - mean(place)).powi(2));
            let variances = posterior.prior_variance().iter();
            let prior_quadratic = moved.zip(variances).map(|(square, variance)| square / variance).sum();
            Evidence { log_likelihood, prior_quadratic }
        });
        Laplace {
            network: Arc::clone(self.network()),
            parameters: Arc::clone(self.parameters()),
            likelihood: self.likelihood().clone(),
            posterior,
            explanation: selection.explain(self, without_curvature),
            evidence,
        }
    }
}

/// The posteriors of [`Problem::fit_scales`], in the order of the scales.
#[derive(Debug)]
pub struct ScaledFits<'s> {
    problem: &'s Problem<'s>,
    selection: &'s Selection,
    tolerance: f64,
    scales: std::slice::Iter<'s, f64>,
    /// What the scales share; none where they share nothing.
    family: Option<PosteriorFamily>,
}

impl Iterator for ScaledFits<'_> {
    type Item = Result<Laplace, PosteriorError>;

    fn next(&mut self) -> Option<Self::Item> {
        let &scale = self.scales.next()?;
        let found = match &self.family {
            Some(family) => family.posterior(scale).map(|posterior| (posterior, family.without_curvature())),
            None => {
                let prior: Vec<f64> =
                    self.selection.prior_variance.iter().map(|variance| scale * variance).collect();
                self.problem.posterior(self.selection, &prior, self.tolerance)
            }
        };
        Some(found.map(|(posterior, without)| self.problem.fitted(self.selection, posterior, without)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.scales.size_hint()
    }
}
