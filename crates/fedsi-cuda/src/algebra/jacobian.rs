//! A Jacobian in factors on the device, multiplied out some rows at a time.

use cudarc::driver::{CudaSlice, PushKernelArg as _};
use fedsi_bayes::JacobianFactors;

use super::lane::{Lane, check_length, grid};
use crate::error::CudaError;

/// Values of a Jacobian that are multiplied out at once: 128 MiB.
const EXPANDED_VALUES: usize = 1 << 24;

/// The factors of a Jacobian, on the device.
pub(super) struct DeviceJacobian {
    inputs: CudaSlice<f64>,
    gains: CudaSlice<f64>,
    dense: CudaSlice<f64>,
    sample_of_row: CudaSlice<u32>,
    unit_of_column: CudaSlice<u32>,
    first_input_of_column: CudaSlice<u64>,
    width_of_column: CudaSlice<u32>,
    rows: usize,
    columns: usize,
    structured: usize,
    units: usize,
}

impl DeviceJacobian {
    /// Copies the factors: samples x columns of distinct units, and rows x units.
    pub(super) fn new(lane: &Lane, jacobian: &JacobianFactors<'_>) -> Result<Self, CudaError> {
        let mut starts = Vec::with_capacity(jacobian.inputs().len());
        let mut total = 0;
        for inputs in jacobian.inputs() {
            starts.push(total as u64);
            total += inputs.len();
        }
        let mut inputs = lane.zeros::<f64>(total)?;
        for (own, &start) in jacobian.inputs().iter().zip(&starts) {
            if !own.is_empty() {
                let start = start as usize;
                let mut into = inputs.slice_mut(start..start + own.len());
                lane.stream()?.memcpy_htod(own, &mut into).map_err(CudaError::call("cuMemcpyHtoD"))?;
            }
        }
        let structured = jacobian.structured();
        let mut unit_of_column = Vec::with_capacity(structured);
        let mut first_input_of_column = Vec::with_capacity(structured);
        let mut width_of_column = Vec::with_capacity(structured);
        for (unit, (range, &place)) in jacobian.units().zip(jacobian.input_of_unit()).enumerate() {
            for offset in 0..range.len() {
                unit_of_column.push(unit as u32);
                first_input_of_column.push(starts[place] + offset as u64);
                width_of_column.push(range.len() as u32);
            }
        }
        let mut sample_of_row = Vec::with_capacity(jacobian.rows());
        for (sample, pair) in jacobian.offsets().windows(2).enumerate() {
            sample_of_row.resize(pair[1], sample as u32);
        }
        Ok(Self {
            inputs,
            gains: lane.upload(jacobian.gains())?,
            dense: lane.upload(jacobian.dense())?,
            sample_of_row: lane.upload(&sample_of_row)?,
            unit_of_column: lane.upload(&unit_of_column)?,
            first_input_of_column: lane.upload(&first_input_of_column)?,
            width_of_column: lane.upload(&width_of_column)?,
            rows: jacobian.rows(),
            columns: jacobian.columns(),
            structured,
            units: jacobian.input_of_unit().len(),
        })
    }

    /// Rows that are multiplied out at once, a multiple of `group`.
    pub(super) fn rows_at_once(columns: usize, group: usize) -> usize {
        (EXPANDED_VALUES / columns.max(1) / group.max(1)).max(1) * group.max(1)
    }

    /// Multiplies the rows `first..first + rows` out: `[rows, columns]`.
    pub(super) fn expand(
        &self,
        lane: &Lane,
        first: usize,
        rows: usize,
        out: &mut CudaSlice<f64>,
    ) -> Result<(), CudaError> {
        if rows == 0 || self.columns == 0 {
            return Ok(());
        }
        check_length("expand_rows", out.len() >= rows * self.columns && first + rows <= self.rows)?;
        let (first_row, rows_now) = (first as u32, rows as u32);
        let (columns, structured, units) = (self.columns as u32, self.structured as u32, self.units as u32);
        let stream = lane.stream()?;
        let mut launch = stream.launch_builder(&lane.kernels().expand_rows);
        launch.arg(out).arg(&self.inputs).arg(&self.gains).arg(&self.dense).arg(&self.sample_of_row);
        launch.arg(&self.unit_of_column).arg(&self.first_input_of_column).arg(&self.width_of_column);
        launch.arg(&first_row).arg(&rows_now).arg(&columns).arg(&structured).arg(&units);
        // SAFETY: the arguments are those of the kernel, in its order; `out` has room for rows x columns values and the rows
        // exist, as was checked; the tables of columns and rows were made from the same factors as the matrices they index.
        unsafe { launch.launch(grid(self.columns, rows)) }.map_err(CudaError::call("expand_rows"))?;
        Ok(())
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }
}
