//! `B' Y` and `B W`: products with tall matrices, by structure.

use std::ops::Range;

use faer::MatRef;

use super::{ColumnSet, WeightedJacobian};
use crate::dense::{multiply, multiply_add, rows, rows_mut, strided, strided_mut};

/// Values of the intermediate matrices: they should stay in the cache.
const BLOCK_VALUES: usize = 1 << 18;

impl WeightedJacobian {
    /// `B' Y` for Y `[rows, width]`: `[columns, width]`. If `upper`, Y is upper triangular.
    ///
    /// At each unit h and sample n, G's rows of n collapse Y's rows of n to one; the unit's inputs spread it
    /// over its columns. Cost: (rows x units + samples x columns) x width multiplications, about half of them
    /// for a triangular Y.
    pub(crate) fn transpose_times(
        &self,
        subnetwork: &ColumnSet,
        y: MatRef<'_, f64>,
        upper: bool,
    ) -> Vec<f64> {
        let width = y.ncols();
        let mut product = vec![0.0; subnetwork.columns() * width];
        if width == 0 || self.rows() == 0 {
            return product;
        }
        let units = self.units();
        let breadth = width.min(256);
        let block = (BLOCK_VALUES / (units * breadth).max(1)).clamp(16, 512);
        let mut collapsed = vec![0.0; block.min(self.samples()) * units * breadth];
        for left in (0..width).step_by(breadth) {
            let right = (left + breadth).min(width);
            let last = if upper { right.min(self.rows()) } else { self.rows() };
            // Samples with a row above `last`: those below meet zeros of Y only.
            let samples = self.offsets.partition_point(|&offset| offset < last).min(self.samples());
            for begin in (0..samples).step_by(block) {
                let range = begin..(begin + block).min(samples);
                self.collapse(y, left..right, range.clone(), &mut collapsed);
                self.spread(subnetwork, &collapsed, left..right, range, width, &mut product);
            }
            let dense = subnetwork.unstructured();
            if dense > 0 {
                let into = &mut product[subnetwork.structured * width + left..];
                let own = rows(&self.dense, last, dense);
                let y = y.submatrix(0, left, last, right - left);
                multiply(strided_mut(into, dense, right - left, width), own.transpose(), y);
            }
        }
        product
    }

    /// `G_n' Y_n` for each sample of the range: `[samples, units, columns of Y]`.
    fn collapse(&self, y: MatRef<'_, f64>, columns: Range<usize>, samples: Range<usize>, into: &mut [f64]) {
        let (units, breadth) = (self.units(), columns.len());
        if units == 0 {
            return;
        }
        for (into, sample) in into.chunks_exact_mut(units * breadth).zip(samples) {
            let count = self.offsets[sample + 1] - self.offsets[sample];
            let gains = rows(self.gains_of(sample), count, units);
            let own = y.submatrix(self.offsets[sample], columns.start, count, breadth);
            multiply(rows_mut(into, units, breadth), gains.transpose(), own);
        }
    }

    fn spread(
        &self,
        subnetwork: &ColumnSet,
        collapsed: &[f64],
        columns: Range<usize>,
        samples: Range<usize>,
        width: usize,
        product: &mut [f64],
    ) {
        let (units, breadth) = (self.units(), columns.len());
        for (index, unit) in subnetwork.units.iter().enumerate() {
            let own = unit.columns.len();
            let inputs = rows(&self.inputs_of(index)[samples.start * own..], samples.len(), own);
            let collapsed = strided(&collapsed[index * breadth..], samples.len(), breadth, units * breadth);
            let into = &mut product[unit.columns.start * width + columns.start..];
            multiply_add(strided_mut(into, own, breadth, width), 1.0, inputs.transpose(), collapsed);
        }
    }

    /// `B W` for W `[columns, width]`: `[rows, width]`. If `upper`, W is upper triangular.
    ///
    /// Cost: (rows x units + samples x columns) x width multiplications.
    pub(crate) fn times(
        &self,
        subnetwork: &ColumnSet,
        w: &[f64],
        width: usize,
        upper: bool,
        product: &mut Vec<f64>,
    ) {
        product.clear();
        product.resize(self.rows() * width, 0.0);
        if width == 0 || self.rows() == 0 {
            return;
        }
        let units = self.units();
        let breadth = width.min(512);
        let block = (BLOCK_VALUES / (units * breadth).max(1)).clamp(16, 512);
        let mut gathered = vec![0.0; block.min(self.samples()) * units * breadth];
        for left in (0..width).step_by(breadth) {
            let right = (left + breadth).min(width);
            let breadth = right - left;
            // Rows of W from `right` on are zero in these columns.
            let present = if upper {
                subnetwork.units.partition_point(|unit| unit.columns.start < right)
            } else {
                units
            };
            for begin in (0..self.samples()).step_by(block) {
                let end = (begin + block).min(self.samples());
                for (index, unit) in subnetwork.units.iter().enumerate().take(present) {
                    let own = unit.columns.len();
                    let inputs = rows(&self.inputs_of(index)[begin * own..], end - begin, own);
                    let w = strided(&w[unit.columns.start * width + left..], own, breadth, width);
                    let into = &mut gathered[index * breadth..];
                    multiply(strided_mut(into, end - begin, breadth, units * breadth), inputs, w);
                }
                if present == 0 {
                    continue;
                }
                for sample in begin..end {
                    let count = self.offsets[sample + 1] - self.offsets[sample];
                    let gains = strided(self.gains_of(sample), count, present, units);
                    let gathered = rows(&gathered[(sample - begin) * units * breadth..], present, breadth);
                    let into = &mut product[self.offsets[sample] * width + left..];
                    multiply(strided_mut(into, count, breadth, width), gains, gathered);
                }
            }
            let dense = subnetwork.unstructured();
            if dense > 0 {
                let w = strided(&w[subnetwork.structured * width + left..], dense, breadth, width);
                let into = strided_mut(&mut product[left..], self.rows(), breadth, width);
                multiply_add(into, 1.0, rows(&self.dense, self.rows(), dense), w);
            }
        }
    }
}
