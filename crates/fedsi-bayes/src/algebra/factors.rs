//! A Jacobian in factors, as other implementations of linear algebra see it.

use std::ops::Range;

use crate::jacobian::{ColumnSet, WeightedJacobian};

/// The Jacobian B of some samples, in factors.
///
/// Its first [`structured`](Self::structured) columns belong to units of linear layers: in the columns of unit u, row r (of
/// sample n) is `gains[r, u]` times the unit's inputs of sample n. The others are dense.
#[derive(Clone, Copy, Debug)]
pub struct JacobianFactors<'a> {
    pub(crate) jacobian: &'a WeightedJacobian,
    pub(crate) subnetwork: &'a ColumnSet,
}

impl<'a> JacobianFactors<'a> {
    pub(crate) const fn new(jacobian: &'a WeightedJacobian, subnetwork: &'a ColumnSet) -> Self {
        Self { jacobian, subnetwork }
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.jacobian.samples()
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.jacobian.rows()
    }

    /// How many columns there are.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.subnetwork.columns()
    }

    /// The rows of sample n are `offsets[n]..offsets[n + 1]`.
    #[must_use]
    pub fn offsets(&self) -> &'a [usize] {
        &self.jacobian.offsets
    }

    /// Columns of linear layers, which come first.
    #[must_use]
    pub const fn structured(&self) -> usize {
        self.subnetwork.structured
    }

    /// The columns of each unit, in their order.
    pub fn units(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        self.subnetwork.units.iter().map(|unit| unit.columns.clone())
    }

    /// Which of [`Self::inputs`] belongs to each unit.
    #[must_use]
    pub fn input_of_unit(&self) -> &'a [usize] {
        self.jacobian.places()
    }

    /// The distinct matrices of units' inputs, `[samples, unit's columns]`.
    #[must_use]
    pub fn inputs(&self) -> &'a [Vec<f64>] {
        self.jacobian.distinct_inputs()
    }

    /// `[rows, units]`.
    #[must_use]
    pub fn gains(&self) -> &'a [f64] {
        self.jacobian.gains()
    }

    /// The dense columns: `[rows, columns - structured]`.
    #[must_use]
    pub fn dense(&self) -> &'a [f64] {
        self.jacobian.dense()
    }

    /// B multiplied out: `[rows, columns]`. For checks: of real data it is far larger than its factors.
    #[must_use]
    pub fn multiplied_out(&self) -> Vec<f64> {
        let (units, columns) = (self.input_of_unit().len(), self.columns());
        let dense = columns - self.structured();
        let mut whole = vec![0.0; self.rows() * columns];
        for (sample, pair) in self.offsets().windows(2).enumerate() {
            for row in pair[0]..pair[1] {
                let into = &mut whole[row * columns..][..columns];
                for (unit, (range, &place)) in self.units().zip(self.input_of_unit()).enumerate() {
                    let inputs = &self.inputs()[place][sample * range.len()..][..range.len()];
                    for (value, input) in into[range].iter_mut().zip(inputs) {
                        *value = self.gains()[row * units + unit] * input;
                    }
                }
                into[self.structured()..].copy_from_slice(&self.dense()[row * dense..][..dense]);
            }
        }
        whole
    }
}
