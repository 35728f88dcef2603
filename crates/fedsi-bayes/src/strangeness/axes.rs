//! Principal axes of rows around 0: the directions in which they vary most, and how much is left.

use crate::dense::{multiply, multiply_add_lower, rows, rows_mut, symmetric_eigen};

/// The directions in which rows vary most, at most so many, and the variance along each; of the other directions their
/// mean variance. Directions are rounded to single precision, as files hold them.
#[derive(Clone, Debug, PartialEq)]
pub struct PrincipalAxes {
    /// Values of a row.
    pub width: usize,
    /// Orthonormal directions, one after another.
    pub directions: Vec<f64>,
    /// The variance along each, descending.
    pub variances: Vec<f64>,
    /// The mean variance along all other directions; 0 where there are none.
    pub rest: f64,
}

impl PrincipalAxes {
    /// The axes of rows that vary around 0, whose squares are divided by `freedom`. None where numbers are not finite.
    ///
    /// Cost: a product and an eigendecomposition of the smaller of rows x rows and columns x columns.
    pub(super) fn fit(centred: &[f64], width: usize, freedom: usize, most: usize) -> Option<Self> {
        let count = centred.len().checked_div(width)?;
        let total = centred.iter().map(|value| value * value).sum::<f64>() / freedom.max(1) as f64;
        if !total.is_finite() {
            return None;
        }
        // The same eigenvalues either way, but for zeros.
        let by_rows = count < width;
        let size = count.min(width);
        let mut moments = vec![0.0; size * size];
        let view = rows(centred, count, width);
        let square = if by_rows { (view, view.transpose()) } else { (view.transpose(), view) };
        // Lower row after row is upper column after column: symmetric, and the solver reads the lower one.
        multiply_add_lower(rows_mut(&mut moments, size, size), square.0, square.1);
        let (values, vectors) = symmetric_eigen(&mut moments, size)?;
        let (mut directions, mut variances) = (Vec::new(), Vec::new());
        // Ascending, so that the largest are last. What is 0 but for rounding has no direction.
        let least = values.last().copied().unwrap_or(0.0) * 1e-10;
        for (&value, vector) in values.iter().zip(vectors.chunks_exact(size.max(1))).rev().take(most) {
            if value <= least || value <= 0.0 {
                break;
            }
            if by_rows {
                let mut direction = vec![0.0; width];
                multiply(rows_mut(&mut direction, 1, width), rows(vector, 1, size), view);
                let norm = value.sqrt();
                directions.extend(direction.iter().map(|entry| single(entry / norm)));
            } else {
                directions.extend(vector.iter().copied().map(single));
            }
            variances.push(value / freedom.max(1) as f64);
        }
        let others = width - variances.len();
        let rest =
            if others == 0 { 0.0 } else { (total - variances.iter().sum::<f64>()).max(0.0) / others as f64 };
        Some(Self { width, directions, variances, rest })
    }

    /// How many axes there are.
    pub(super) const fn rank(&self) -> usize {
        self.variances.len()
    }

    /// The mean squared Mahalanobis distance of what these axes were fitted to, with this added to every variance.
    pub(super) fn expected_distance(&self, added: f64) -> f64 {
        let along: f64 = self.variances.iter().map(|variance| variance / (variance + added)).sum();
        let others = self.width.saturating_sub(self.rank()) as f64;
        along + others * self.rest / (self.rest + added)
    }

    /// The sum of the variances in all directions.
    pub(super) fn total(&self) -> f64 {
        self.variances.iter().sum::<f64>() + self.rest * (self.width - self.rank()) as f64
    }

    /// The coordinates of rows along the axes: a matrix product.
    pub(super) fn coordinates(&self, values: &[f64]) -> Vec<f64> {
        let (count, rank) = (values.len() / self.width, self.rank());
        let mut found = vec![0.0; count * rank];
        if count > 0 && rank > 0 {
            let directions = rows(&self.directions, rank, self.width);
            multiply(
                rows_mut(&mut found, count, rank),
                rows(values, count, self.width),
                directions.transpose(),
            );
        }
        found
    }

    /// Whether its parts belong together and are finite.
    pub(super) fn is_sound(&self) -> bool {
        self.width > 0
            && self.rank() <= self.width
            && Some(self.directions.len()) == self.rank().checked_mul(self.width)
            && self.directions.iter().all(|value| value.is_finite())
            && self.variances.iter().chain([&self.rest]).all(|value| value.is_finite() && *value >= 0.0)
    }
}

/// The nearest number of single precision.
pub(super) fn single(value: f64) -> f64 {
    f64::from(value as f32)
}

/// The mean of rows, rounded to single precision.
pub(super) fn mean_of(values: &[f64], width: usize) -> Vec<f64> {
    let count = (values.len() / width.max(1)).max(1) as f64;
    let mut mean = vec![0.0; width];
    for row in values.chunks_exact(width.max(1)) {
        mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    mean.into_iter().map(|sum| single(sum / count)).collect()
}

/// Rows less a centre.
pub(super) fn centred(values: &[f64], centre: &[f64]) -> Vec<f64> {
    values.chunks_exact(centre.len()).flat_map(|row| row.iter().zip(centre).map(|(a, b)| a - b)).collect()
}

/// The sum of squares.
pub(super) fn square(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}
