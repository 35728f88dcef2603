//! How far features are from those of the classes a client has: the relative Mahalanobis distance.

use super::axes::{PrincipalAxes, centred, mean_of};

/// Most axes of features; the others share one variance.
const FEATURE_AXES: usize = 128;

/// What is added to every variance, as a share of their mean: features outnumber what few samples determine.
const RIDGE: f64 = 0.3;

/// How many times the expected squared distance from all training features counts as far from everything.
const FAR: f64 = 10.0;

/// Gaussians of the features of training samples: one around each class, of one covariance within classes, and one around
/// them all. What is far from every class, yet no further from all together than usual, is as strange as what is far
/// from both: the difference of the two distances sees either, and leaves out what only says how much a sample has of
/// everything (Ren et al., 2021).
#[derive(Clone, Debug, PartialEq)]
pub struct ClassDistances {
    /// The mean of each class, one after another; empty where there are not several classes to tell apart.
    pub means: Vec<f64>,
    /// How samples vary around the mean of their class; none where there are not several classes.
    pub within: Option<PrincipalAxes>,
    /// The mean of all.
    pub centre: Vec<f64>,
    /// How samples vary around the mean of all.
    pub overall: PrincipalAxes,
}

impl ClassDistances {
    /// Fits features of samples, with a mean for each of these classes where there are labels. None where numbers are not
    /// finite.
    pub(super) fn fit(features: &[f64], width: usize, labels: Option<&[u32]>) -> Option<Self> {
        let count = features.len().checked_div(width)?;
        let centre = mean_of(features, width);
        let around = centred(features, &centre);
        let overall = PrincipalAxes::fit(&around, width, count.saturating_sub(1), FEATURE_AXES)?;
        let mut classes: Vec<u32> = labels.unwrap_or_default().to_vec();
        classes.sort_unstable();
        classes.dedup();
        let labels = labels.unwrap_or_default();
        if classes.is_empty() || count <= classes.len() {
            return Some(Self { means: Vec::new(), within: None, centre, overall });
        }
        let mut means = Vec::with_capacity(classes.len() * width);
        let mut residuals = Vec::with_capacity(features.len());
        for &class in &classes {
            let rows = features.chunks_exact(width).zip(labels).filter(|(_, label)| **label == class);
            let own: Vec<f64> = rows.flat_map(|(row, _)| row.iter().copied()).collect();
            let mean = mean_of(&own, width);
            residuals.extend(centred(&own, &mean));
            means.extend(mean);
        }
        let within = PrincipalAxes::fit(&residuals, width, count - classes.len(), FEATURE_AXES)?;
        Some(Self { means, within: Some(within), centre, overall })
    }

    /// Values of a row of features.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.centre.len()
    }

    /// The distance from the nearest class less that from all of them, in squares of standard deviations, the latter no more
    /// than a few times what is expected: what is far from everything is strange. With no classes the latter alone, not
    /// squared. O(features x axes + classes x features) a row.
    pub(super) fn scores(&self, features: &[f64]) -> Vec<f64> {
        let overall: Vec<f64> = distances(&self.overall, features, &self.centre).flatten().collect();
        let Some(within) = &self.within else {
            return overall.into_iter().map(f64::sqrt).collect();
        };
        let mut nearest = vec![f64::INFINITY; overall.len()];
        for found in distances(within, features, &self.means) {
            nearest.iter_mut().zip(found).for_each(|(least, distance)| *least = least.min(distance));
        }
        let most = FAR * self.overall.expected_distance(added(&self.overall));
        nearest.iter().zip(overall).map(|(near, all)| near - all.min(most)).collect()
    }

    pub(super) fn is_sound(&self) -> bool {
        let width = self.width();
        let classes = match &self.within {
            None => self.means.is_empty(),
            Some(within) => {
                within.is_sound()
                    && within.width == width
                    && !self.means.is_empty()
                    && self.means.len().is_multiple_of(width)
            }
        };
        classes
            && self.overall.is_sound()
            && self.overall.width == width
            && self.means.iter().chain(&self.centre).all(|value| value.is_finite())
    }
}

/// What is added to every variance. Variances of features that never vary are 0: it is then a number too small to matter.
fn added(axes: &PrincipalAxes) -> f64 {
    (RIDGE * axes.total() / axes.width as f64).max(f64::from(f32::MIN_POSITIVE))
}

/// Squared Mahalanobis distances of rows from one of these centres after another: each centre's for all rows.
fn distances<'a>(
    axes: &'a PrincipalAxes,
    rows: &'a [f64],
    centres: &'a [f64],
) -> impl Iterator<Item = Vec<f64>> + 'a {
    let added = added(axes);
    let (width, rank) = (axes.width, axes.rank());
    let (of_rows, of_centres) = (axes.coordinates(rows), axes.coordinates(centres));
    centres.chunks_exact(width).enumerate().map(move |(at, centre)| {
        let centre_own = &of_centres[at * rank..(at + 1) * rank];
        let distance = |(row, values): (usize, &[f64])| {
            let own = &of_rows[row * rank..(row + 1) * rank];
            let away = own.iter().zip(centre_own).map(|(a, b)| (a - b).powi(2));
            let (mut along, mut explained) = (0.0, 0.0);
            for (square, variance) in away.zip(&axes.variances) {
                along += square / (variance + added);
                explained += square;
            }
            let whole: f64 = values.iter().zip(centre).map(|(a, b)| (a - b).powi(2)).sum();
            along + (whole - explained).max(0.0) / (axes.rest + added)
        };
        rows.chunks_exact(width).enumerate().map(distance).collect()
    })
}
