//! `B B'`, the Gram matrix of rows: of the size of the data.

use fedsi_nn::vectorised;

use super::{ColumnSet, WeightedJacobian};
use crate::dense::{multiply, multiply_add, rows, rows_mut, strided, strided_mut};

/// Samples of one block of columns.
const BLOCK: usize = 32;

impl WeightedJacobian {
    /// Some columns of `B B'`, below the rows of sample `first`: column `c` is that of row `chosen[c]`
    /// (ascending), written to `into[c * stride..]`.
    ///
    /// With `C_h[i, j]` the inner product of two samples' inputs at unit h, the entry of rows a (of sample i)
    /// and b (of sample j) is `sum_h G[a, h] C_h[i, j] G[b, h]`. Cost for each chosen sample: all inner
    /// products (samples x columns) and rows x units multiplications, for each chosen row rows x units more.
    pub(crate) fn gram_columns(
        &self,
        subnetwork: &ColumnSet,
        chosen: &[usize],
        first: usize,
        into: &mut [f64],
        stride: usize,
    ) {
        let start = self.offsets[first];
        if chosen.is_empty() || start == self.rows() {
            return;
        }
        let mut done = 0;
        while done < chosen.len() {
            // Up to BLOCK distinct samples at a time.
            let mut samples: Vec<usize> = Vec::with_capacity(BLOCK);
            let mut groups: Vec<usize> = vec![done];
            let mut end = done;
            while let Some(&row) = chosen.get(end) {
                if samples.last().is_none_or(|&sample| row >= self.offsets[sample + 1]) {
                    if samples.len() == BLOCK {
                        break;
                    }
                    samples.push(self.offsets.partition_point(|&offset| offset <= row) - 1);
                    groups.push(end);
                }
                end += 1;
                if let Some(last) = groups.last_mut() {
                    *last = end;
                }
            }
            let into = &mut into[done * stride..];
            self.linear_columns(&samples, &groups, chosen, first, into, stride);
            done = end;
        }
        let width = subnetwork.unstructured();
        if width > 0 {
            let mut picked = Vec::with_capacity(chosen.len() * width);
            for &row in chosen {
                picked.extend_from_slice(&self.dense[row * width..][..width]);
            }
            let below = rows(&self.dense[start * width..], self.rows() - start, width);
            let into = strided_mut(into, chosen.len(), self.rows() - start, stride);
            multiply_add(into, 1.0, rows(&picked, chosen.len(), width), below.transpose());
        }
    }

    /// The part of linear layers. The chosen rows of `samples[i]` are `chosen[groups[i]..groups[i + 1]]`.
    #[allow(clippy::too_many_arguments)]
    fn linear_columns(
        &self,
        samples: &[usize],
        groups: &[usize],
        chosen: &[usize],
        first: usize,
        into: &mut [f64],
        stride: usize,
    ) {
        let units = self.units();
        let start = self.offsets[first];
        if units == 0 {
            for column in 0..groups[samples.len()] - groups[0] {
                into[column * stride..][..self.rows() - start].fill(0.0);
            }
            return;
        }
        let mut own_inputs: Vec<Vec<f64>> = Vec::with_capacity(self.inputs.len());
        for inputs in &self.inputs {
            let width = inputs.len() / self.samples();
            let own = samples.iter().flat_map(|sample| &inputs[sample * width..][..width]);
            own_inputs.push(own.copied().collect());
        }
        let mut own_gains: Vec<f64> = Vec::new();
        for &row in &chosen[groups[0]..groups[samples.len()]] {
            own_gains.extend_from_slice(&self.gains[row * units..][..units]);
        }
        let mut products = vec![0.0; self.inputs.len() * samples.len() * BLOCK];
        let mut turned = vec![0.0; units * BLOCK];
        let mut weighted = Vec::new();
        for begin in (first..self.samples()).step_by(BLOCK) {
            let end = (begin + BLOCK).min(self.samples());
            let count = end - begin;
            for (index, (own, inputs)) in own_inputs.iter().zip(&self.inputs).enumerate() {
                let width = own.len() / samples.len();
                let own = rows(own, samples.len(), width);
                let others = rows(&inputs[begin * width..], count, width);
                let into = &mut products[index * samples.len() * count..];
                multiply(rows_mut(into, samples.len(), count), own, others.transpose());
            }
            let range = self.offsets[begin]..self.offsets[end];
            let gains = &self.gains[range.start * units..range.end * units];
            for own in 0..samples.len() {
                // Unit by unit to sample by sample, to match the gains.
                for (unit, &place) in self.places.iter().enumerate() {
                    let products = &products[(place * samples.len() + own) * count..][..count];
                    for (other, &product) in products.iter().enumerate() {
                        turned[other * units + unit] = product;
                    }
                }
                weighted.clear();
                weighted.extend_from_slice(gains);
                vectorised(
                    #[inline(always)]
                    || {
                        let mut rest = &mut weighted[..];
                        for (other, products) in turned.chunks_exact(units).take(count).enumerate() {
                            let rows = self.offsets[begin + other + 1] - self.offsets[begin + other];
                            let (own, after) = std::mem::take(&mut rest).split_at_mut(rows * units);
                            rest = after;
                            for row in own.chunks_exact_mut(units) {
                                for (value, &product) in row.iter_mut().zip(products) {
                                    *value *= product;
                                }
                            }
                        }
                    },
                );
                let group = groups[own] - groups[0]..groups[own + 1] - groups[0];
                let left = rows(&own_gains[group.start * units..], group.len(), units);
                let right = rows(&weighted, range.len(), units);
                let into = &mut into[group.start * stride + range.start - start..];
                multiply(strided_mut(into, group.len(), range.len(), stride), left, right.transpose());
            }
        }
    }

    /// `B B'`: its lower triangle, column after column.
    pub(crate) fn gram(&self, subnetwork: &ColumnSet) -> Vec<f64> {
        let size = self.rows();
        let mut gram = vec![0.0; size * size];
        for first in (0..self.samples()).step_by(BLOCK) {
            let chosen = self.offsets[first]..self.offsets[(first + BLOCK).min(self.samples())];
            let place = chosen.start * size + chosen.start;
            let chosen: Vec<usize> = chosen.collect();
            if !chosen.is_empty() {
                self.gram_columns(subnetwork, &chosen, first, &mut gram[place..], size);
            }
        }
        gram
    }

    /// For each sample the block `B_n diag(variance) B_n'` of its own rows: the covariance of the rows if the
    /// columns were independent. Samples have the same number of rows here.
    pub(crate) fn independent_covariances(&self, subnetwork: &ColumnSet, variance: &[f64]) -> Vec<f64> {
        let sums = self.unit_variances(subnetwork, Some(variance));
        self.covariances_of(subnetwork, &sums, &variance[subnetwork.structured..].iter())
    }

    /// The same for several variances of each column: `variances` is `[columns, count]`.
    pub(crate) fn independent_covariances_each(
        &self,
        subnetwork: &ColumnSet,
        variances: &[f64],
        count: usize,
    ) -> Vec<Vec<f64>> {
        let units = self.units();
        let mut sums = vec![0.0; count * self.samples() * units];
        let mut own = vec![0.0; self.samples() * count];
        let mut squares = Vec::new();
        for (index, unit) in subnetwork.units.iter().enumerate() {
            let width = unit.columns.len();
            if index == 0 || self.places[index] != self.places[index - 1] {
                squares.clear();
                squares.extend(self.inputs_of(index).iter().map(|&x| x * x));
            }
            let squares = rows(&squares, self.samples(), width);
            let variances = rows(&variances[unit.columns.start * count..], width, count);
            multiply(rows_mut(&mut own, self.samples(), count), squares, variances);
            for (sample, own) in own.chunks_exact(count).enumerate() {
                for (which, &sum) in own.iter().enumerate() {
                    sums[(which * self.samples() + sample) * units + index] = sum;
                }
            }
        }
        let dense = &variances[subnetwork.structured * count..];
        let of = |which: usize| {
            let sums = &sums[which * self.samples() * units..][..self.samples() * units];
            self.covariances_of(subnetwork, sums, &dense.iter().skip(which).step_by(count))
        };
        (0..count).map(of).collect()
    }

    /// The blocks, from each sample's variance at each unit and the variance of each dense column.
    fn covariances_of<'v>(
        &self,
        subnetwork: &ColumnSet,
        sums: &[f64],
        variance: &(impl Iterator<Item = &'v f64> + Clone),
    ) -> Vec<f64> {
        let units = self.units();
        let count = self.rows().checked_div(self.samples()).unwrap_or(0);
        let width = subnetwork.unstructured();
        let mut blocks = vec![0.0; self.samples() * count * count];
        let mut scaled = Vec::new();
        for (sample, block) in blocks.chunks_exact_mut((count * count).max(1)).enumerate() {
            if units > 0 {
                let gains = self.gains_of(sample);
                scaled.clear();
                for row in gains.chunks_exact(units) {
                    scaled.extend(row.iter().zip(&sums[sample * units..]).map(|(&gain, &sum)| gain * sum));
                }
                let right = rows(gains, count, units).transpose();
                multiply(rows_mut(block, count, count), rows(&scaled, count, units), right);
            }
            if width > 0 {
                let own = &self.dense[self.offsets[sample] * width..][..count * width];
                scaled.clear();
                for row in own.chunks_exact(width) {
                    scaled
                        .extend(row.iter().zip(variance.clone()).map(|(&value, &variance)| value * variance));
                }
                let right = strided(own, count, width, width).transpose();
                multiply_add(rows_mut(block, count, count), 1.0, rows(&scaled, count, width), right);
            }
        }
        blocks
    }
}
