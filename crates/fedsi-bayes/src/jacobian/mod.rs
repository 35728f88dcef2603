//! The Jacobian of a batch in the selected parameters, kept in factors.
//!
//! In a linear layer the derivative of an output in the weight (h, d) is `G[h] x[d]`: the backpropagated output
//! times the input. So the Jacobian's columns of linear layers are never multiplied out: [`WeightedJacobian`]
//! holds `G` (rows x units) and each unit's selected inputs (samples x inputs). Columns of convolutions, sums
//! of such products over positions, are held as they are; so are all columns of a network of another library.

mod column_set;
mod gram;
mod normal;
mod products;

pub(crate) use column_set::ColumnSet;
use column_set::Unit;

use fedsi_nn::vectorised;

/// `B = F J diag(scale)` on some samples: J the Jacobian in the subnetwork, F a few rows for each sample (a
/// factor of the likelihood's curvature, or every output by itself).
#[derive(Clone, Debug)]
pub(crate) struct WeightedJacobian {
    /// The rows of sample n are `offsets[n]..offsets[n + 1]`.
    pub(crate) offsets: Vec<usize>,
    /// Selected inputs times their scale, `[samples, unit's columns]`: each distinct matrix once.
    pub(crate) inputs: Vec<Vec<f64>>,
    /// Which of these belongs to each unit: ascending.
    pub(crate) places: Vec<usize>,
    /// Backpropagated rows at the units: `[rows, units]`.
    pub(crate) gains: Vec<f64>,
    /// The dense columns, times their scale: `[rows, unstructured]`.
    pub(crate) dense: Vec<f64>,
}

impl WeightedJacobian {
    /// No samples.
    pub(crate) fn empty(subnetwork: &ColumnSet) -> Self {
        Self {
            offsets: vec![0],
            inputs: vec![Vec::new(); subnetwork.units.len()],
            places: (0..subnetwork.units.len()).collect(),
            gains: Vec::new(),
            dense: Vec::new(),
        }
    }

    pub(crate) fn samples(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// The distinct matrices of inputs.
    pub(crate) fn distinct_inputs(&self) -> &[Vec<f64>] {
        &self.inputs
    }

    /// Which of these belongs to each unit.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// `[rows, units]`.
    pub(crate) fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// `[rows, unstructured]`.
    pub(crate) fn dense(&self) -> &[f64] {
        &self.dense
    }

    const fn units(&self) -> usize {
        self.places.len()
    }

    /// The selected inputs of a unit, `[samples, unit's columns]`.
    fn inputs_of(&self, unit: usize) -> &[f64] {
        &self.inputs[self.places[unit]]
    }

    /// The gains of one sample, `[its rows, units]`.
    fn gains_of(&self, sample: usize) -> &[f64] {
        &self.gains[self.offsets[sample] * self.units()..self.offsets[sample + 1] * self.units()]
    }

    /// Squared length of every column: the diagonal of `B' B`. A sum of squares, so that a parameter without
    /// influence has exactly 0.
    pub(crate) fn column_squares(&self, subnetwork: &ColumnSet) -> Vec<f64> {
        let mut squares = vec![0.0; subnetwork.columns()];
        let units = self.units();
        let mut strength = vec![0.0; self.samples() * units];
        for (sample, strength) in strength.chunks_exact_mut(units.max(1)).enumerate() {
            vectorised(
                #[inline(always)]
                || {
                    for row in self.gains_of(sample).chunks_exact(units) {
                        for (sum, &gain) in strength.iter_mut().zip(row) {
                            *sum += gain * gain;
                        }
                    }
                },
            );
        }
        for (index, unit) in subnetwork.units.iter().enumerate() {
            let width = unit.columns.len();
            let squares = &mut squares[unit.columns.clone()];
            for (sample, inputs) in self.inputs_of(index).chunks_exact(width).enumerate() {
                let strength = strength[sample * units + index];
                if strength != 0.0 {
                    for (sum, &x) in squares.iter_mut().zip(inputs) {
                        *sum += strength * x * x;
                    }
                }
            }
        }
        let width = subnetwork.unstructured();
        if width > 0 {
            let squares = &mut squares[subnetwork.structured..];
            for row in self.dense.chunks_exact(width) {
                for (sum, &value) in squares.iter_mut().zip(row) {
                    *sum += value * value;
                }
            }
        }
        squares
    }

    /// For each sample and unit, the sum over the unit's columns of `variance x^2`: `[samples, units]`.
    fn unit_variances(&self, subnetwork: &ColumnSet, variance: Option<&[f64]>) -> Vec<f64> {
        let units = self.units();
        let mut sums = vec![0.0; self.samples() * units];
        for (index, unit) in subnetwork.units.iter().enumerate() {
            let width = unit.columns.len();
            let of = |unit: &Unit| variance.map(|variance| &variance[unit.columns.clone()]);
            let variance = of(unit);
            if index > 0
                && self.places[index] == self.places[index - 1]
                && of(&subnetwork.units[index - 1]) == variance
            {
                for sums in sums.chunks_exact_mut(units) {
                    sums[index] = sums[index - 1];
                }
                continue;
            }
            for (sample, inputs) in self.inputs_of(index).chunks_exact(width).enumerate() {
                sums[sample * units + index] = vectorised(
                    #[inline(always)]
                    || match variance {
                        Some(variance) => inputs.iter().zip(variance).map(|(&x, &v)| v * x * x).sum::<f64>(),
                        None => inputs.iter().map(|&x| x * x).sum::<f64>(),
                    },
                );
            }
        }
        sums
    }

    /// Squared length of every row: the diagonal of `B B'`.
    pub(crate) fn row_squares(&self, subnetwork: &ColumnSet) -> Vec<f64> {
        let units = self.units();
        let variances = self.unit_variances(subnetwork, None);
        let width = subnetwork.unstructured();
        let mut squares = Vec::with_capacity(self.rows());
        for sample in 0..self.samples() {
            let variances = &variances[sample * units..][..units];
            for row in self.offsets[sample]..self.offsets[sample + 1] {
                let gains = &self.gains[row * units..][..units];
                let linear: f64 = gains.iter().zip(variances).map(|(&g, &v)| g * g * v).sum();
                let dense: f64 = self.dense[row * width..][..width].iter().map(|&value| value * value).sum();
                squares.push(linear + dense);
            }
        }
        squares
    }

    /// Adds those rows of `other` that `keep` names, and the samples they belong to. `other` is of the same columns and
    /// scale.
    pub(crate) fn absorb(&mut self, subnetwork: &ColumnSet, other: &Self, keep: &[bool]) {
        if self.rows() == 0 {
            self.inputs = vec![Vec::new(); other.inputs.len()];
            self.places.clone_from(&other.places);
        }
        let (units, width) = (self.units(), subnetwork.unstructured());
        for sample in 0..other.samples() {
            let rows = other.offsets[sample]..other.offsets[sample + 1];
            let before = self.rows();
            let mut after = before;
            for row in rows.filter(|&row| keep[row]) {
                self.gains.extend_from_slice(&other.gains[row * units..][..units]);
                self.dense.extend_from_slice(&other.dense[row * width..][..width]);
                after += 1;
            }
            if after > before {
                self.offsets.push(after);
                for (to, from) in self.inputs.iter_mut().zip(&other.inputs) {
                    let width = from.len() / other.samples();
                    to.extend_from_slice(&from[sample * width..][..width]);
                }
            }
        }
    }

    /// Those columns that `keep` names, for [`ColumnSet::restrict`].
    pub(crate) fn restrict(&self, subnetwork: &ColumnSet, keep: &[bool]) -> Self {
        let alive: Vec<bool> =
            subnetwork.units.iter().map(|unit| keep[unit.columns.clone()].contains(&true)).collect();
        let (mut inputs, mut places): (Vec<Vec<f64>>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut before: Option<(usize, &[bool])> = None;
        for (index, unit) in subnetwork.units.iter().enumerate().filter(|&(index, _)| alive[index]) {
            let own = (self.places[index], &keep[unit.columns.clone()]);
            if before != Some(own) {
                inputs.push(kept(self.inputs_of(index), own.1));
            }
            places.push(inputs.len() - 1);
            before = Some(own);
        }
        Self {
            offsets: self.offsets.clone(),
            inputs,
            places,
            gains: kept(&self.gains, &alive),
            dense: kept(&self.dense, &keep[subnetwork.structured..]),
        }
    }
}

/// Those values of each row that `keep` names.
fn kept(values: &[f64], keep: &[bool]) -> Vec<f64> {
    if keep.is_empty() || !keep.contains(&false) {
        return values.to_vec();
    }
    let places: Vec<usize> = (0..keep.len()).filter(|&place| keep[place]).collect();
    let rows = values.chunks_exact(keep.len());
    rows.flat_map(|row| places.iter().map(|&place| row[place])).collect()
}
