//! `B' B`, the Gauss-Newton matrix itself: of the size of the parameters.

use fedsi_nn::vectorised;

use super::{ColumnSet, WeightedJacobian};
use crate::dense::{multiply_add, multiply_add_lower, rows, strided_mut};

/// Samples multiplied at once.
const BLOCK: usize = 128;

impl WeightedJacobian {
    /// Adds `B' B` to `matrix`: its upper triangle, row after row.
    ///
    /// The block of units h and g, in any two linear layers, is `X_h' diag(M[h, g]) X_g` with `M_n = G_n' G_n`:
    /// one multiplication for each sample, not one for each row. Samples at which h is inactive are skipped.
    pub(crate) fn add_normal(&self, subnetwork: &ColumnSet, matrix: &mut [f64]) {
        let units = self.units();
        let size = subnetwork.columns();
        let dense = subnetwork.unstructured();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut mixed = vec![0.0; units];
        for (index, unit) in subnetwork.units.iter().enumerate() {
            let (own, rest) = (unit.columns.len(), size - unit.columns.start);
            let mut sample = 0;
            while sample < self.samples() {
                left.clear();
                right.clear();
                let mut count = 0;
                while sample < self.samples() && count < BLOCK {
                    if self.mix(sample, index, &mut mixed) {
                        left.extend_from_slice(&self.inputs_of(index)[sample * own..][..own]);
                        let from = right.len();
                        right.resize(from + rest, 0.0);
                        self.scaled_inputs(subnetwork, sample, index, &mixed, &mut right[from..]);
                        self.mixed_dense(sample, index, &mut right[from + rest - dense..]);
                        count += 1;
                    }
                    sample += 1;
                }
                if count > 0 {
                    let into = &mut matrix[unit.columns.start * size + unit.columns.start..];
                    let left = rows(&left, count, own).transpose();
                    multiply_add(strided_mut(into, own, rest, size), 1.0, left, rows(&right, count, rest));
                }
            }
        }
        if dense > 0 && self.rows() > 0 {
            let place = subnetwork.structured * size + subnetwork.structured;
            // Row-major upper is the transpose of the triangle that the product writes.
            let into = strided_mut(&mut matrix[place..], dense, dense, size).transpose_mut();
            let own = rows(&self.dense, self.rows(), dense);
            multiply_add_lower(into, own.transpose(), own);
        }
    }

    /// `M_n[unit, ..]`, from the unit itself on; whether the unit is active at the sample at all.
    fn mix(&self, sample: usize, unit: usize, into: &mut [f64]) -> bool {
        let units = self.units();
        into[unit..].fill(0.0);
        let mut active = false;
        for row in self.gains_of(sample).chunks_exact(units) {
            let gain = row[unit];
            if gain != 0.0 {
                active = true;
                vectorised(
                    #[inline(always)]
                    || {
                        for (sum, &other) in into[unit..].iter_mut().zip(&row[unit..]) {
                            *sum += gain * other;
                        }
                    },
                );
            }
        }
        active
    }

    /// The inputs of all units from `unit` on, each times its entry of `mixed`.
    fn scaled_inputs(
        &self,
        subnetwork: &ColumnSet,
        sample: usize,
        unit: usize,
        mixed: &[f64],
        into: &mut [f64],
    ) {
        vectorised(
            #[inline(always)]
            || {
                let mut place = 0;
                for (index, own) in subnetwork.units.iter().enumerate().skip(unit) {
                    let width = own.columns.len();
                    let factor = mixed[index];
                    if factor != 0.0 {
                        let inputs = &self.inputs_of(index)[sample * width..][..width];
                        for (value, &input) in into[place..][..width].iter_mut().zip(inputs) {
                            *value = factor * input;
                        }
                    }
                    place += width;
                }
            },
        );
    }

    /// The sample's rows of the convolutions' columns, summed with the unit's gains.
    fn mixed_dense(&self, sample: usize, unit: usize, into: &mut [f64]) {
        let (units, width) = (self.units(), into.len());
        for row in self.offsets[sample]..self.offsets[sample + 1] {
            let gain = self.gains[row * units + unit];
            for (sum, &value) in into.iter_mut().zip(&self.dense[row * width..][..width]) {
                *sum += gain * value;
            }
        }
    }
}
