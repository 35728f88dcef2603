//! How much of an input lies outside the directions in which training inputs vary most.

use super::axes::{PrincipalAxes, centred, mean_of, square};

/// Most axes of inputs.
const INPUT_AXES: usize = 32;

/// Training samples for each axis, at least.
const SAMPLES_AN_AXIS: usize = 4;

/// Smallest remainder, as a share of the inputs' variance: its logarithm is taken.
const FLOOR: f64 = 1e-6;

/// The principal axes of training inputs. What they leave of an input (its fine detail, where it is an image) is
/// typically about as much as they leave of training inputs: noise has more, blur less.
#[derive(Clone, Debug, PartialEq)]
pub struct InputDetail {
    /// The mean input.
    pub centre: Vec<f64>,
    /// The directions in which inputs vary most.
    pub axes: PrincipalAxes,
}

impl InputDetail {
    /// Fits inputs. None where numbers are not finite.
    pub(super) fn fit(inputs: &[f64], width: usize, most: usize) -> Option<Self> {
        let count = inputs.len().checked_div(width)?;
        let centre = mean_of(inputs, width);
        let axes = PrincipalAxes::fit(&centred(inputs, &centre), width, count.saturating_sub(1), most)?;
        Some(Self { centre, axes })
    }

    /// Axes for so many samples of so many values: some detail is always left.
    pub(super) fn axes_for(count: usize, width: usize) -> usize {
        INPUT_AXES.min(count / SAMPLES_AN_AXIS).min(width / 2)
    }

    /// Logarithms of the square of what the axes leave. O(values x axes) a row.
    pub(super) fn scores(&self, inputs: &[f64]) -> Vec<f64> {
        let rank = self.axes.rank();
        let floor = (FLOOR * self.axes.total()).max(f64::from(f32::MIN_POSITIVE));
        let away = centred(inputs, &self.centre);
        let coordinates = self.axes.coordinates(&away);
        let left = |(at, row): (usize, &[f64])| {
            (square(row) - square(&coordinates[at * rank..(at + 1) * rank])).max(0.0) + floor
        };
        away.chunks_exact(self.axes.width).enumerate().map(|row| left(row).ln()).collect()
    }

    pub(super) fn is_sound(&self) -> bool {
        self.axes.is_sound()
            && self.centre.len() == self.axes.width
            && self.centre.iter().all(|value| value.is_finite())
    }
}
