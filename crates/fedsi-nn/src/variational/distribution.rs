//! A distribution of independent normals.

use std::ops::Range;

use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::Scalar;
use crate::scalar::vectorised;

/// An independent normal for each parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanField<T> {
    /// Means.
    pub mean: Vec<T>,
    /// Standard deviations, above 0.
    pub deviation: Vec<T>,
}

impl<T: Scalar> MeanField<T> {
    /// `KL(self || other)`, summed over all parameters, in f64: for each
    /// `ln(t/s) + (s^2 + (m - n)^2) / (2 t^2) - 1/2`, with m and s its own, n and t the other's.
    ///
    /// # Panics
    /// If the two are of different lengths.
    #[must_use]
    pub fn divergence(&self, other: &Self) -> f64 {
        assert_eq!(self.mean.len(), other.mean.len(), "distributions of different parameters");
        let own = self.mean.iter().zip(&self.deviation);
        let others = other.mean.iter().zip(&other.deviation);
        own.zip(others)
            .map(|((&m, &s), (&n, &t))| {
                let (s, t, gap) = (s.double(), t.double(), m.double() - n.double());
                (t / s).ln() + (s * s + gap * gap) / (2.0 * t * t) - 0.5
            })
            .sum()
    }

    /// Writes one draw of all parameters to `parameters`.
    pub fn sample_into(&self, parameters: &mut Vec<T>, rng: &mut impl Rng) {
        parameters.clear();
        parameters.extend(self.mean.iter().zip(&self.deviation).map(|(&mean, &deviation)| {
            let draw: f64 = StandardNormal.sample(rng);
            mean + deviation * T::of(draw)
        }));
    }
}

/// A distribution as it is trained: deviations are `softplus(rho)`, so that any step keeps them above 0.
#[derive(Clone, Debug)]
pub(super) struct Parameterised<T> {
    pub(super) mean: Vec<T>,
    pub(super) rho: Vec<T>,
    /// `softplus(rho)`.
    pub(super) deviation: Vec<T>,
    /// Its derivative in rho.
    pub(super) slope: Vec<T>,
    pub(super) variance: Vec<T>,
}

impl<T: Scalar> Parameterised<T> {
    pub(super) const fn empty() -> Self {
        Self {
            mean: Vec::new(),
            rho: Vec::new(),
            deviation: Vec::new(),
            slope: Vec::new(),
            variance: Vec::new(),
        }
    }

    /// Starts from this distribution.
    pub(super) fn set(&mut self, from: &MeanField<T>) {
        let size = from.mean.len();
        self.mean.clear();
        self.mean.extend_from_slice(&from.mean);
        for values in [&mut self.rho, &mut self.deviation, &mut self.slope, &mut self.variance] {
            values.resize(size, T::zero());
        }
        vectorised(
            #[inline(always)]
            || {
                for (rho, &deviation) in self.rho.iter_mut().zip(&from.deviation) {
                    *rho = deviation.inverse_softplus();
                }
            },
        );
        vectorised(
            #[inline(always)]
            || self.refresh(0..size),
        );
    }

    /// Works deviations, slopes and variances of some parameters out after rho has changed. To be called within
    /// [`vectorised`].
    #[inline(always)]
    pub(super) fn refresh(&mut self, range: Range<usize>) {
        let rho = &self.rho[range.clone()];
        let (deviation, slope) = (&mut self.deviation[range.clone()], &mut self.slope[range.clone()]);
        let variance = &mut self.variance[range];
        let found = deviation.iter_mut().zip(slope).zip(variance);
        for (&rho, ((deviation, slope), variance)) in rho.iter().zip(found) {
            let (value, derivative) = rho.softplus();
            *deviation = value;
            *slope = derivative;
            *variance = value * value;
        }
    }

    pub(super) fn distribution(&self) -> MeanField<T> {
        MeanField { mean: self.mean.clone(), deviation: self.deviation.clone() }
    }
}
