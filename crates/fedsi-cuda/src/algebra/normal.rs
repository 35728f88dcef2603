//! Sums of `B' B` on the device.

use std::sync::{Mutex, PoisonError};

use cudarc::driver::{CudaSlice, PushKernelArg as _};
use fedsi_bayes::{JacobianFactors, NormalMatrix, PosteriorError};

use super::factorise::{Eigen, InverseFactor, Outcome, eigen_on_device, inverse_factor_on_device};
use super::jacobian::DeviceJacobian;
use super::lane::{Lane, grid};
use super::reported;
use crate::error::CudaError;

/// The lower triangle, column after column, on the device.
#[derive(Debug)]
pub(super) struct DeviceNormal {
    // Before the lane: memory goes back before somebody else gets the stream.
    matrix: CudaSlice<f64>,
    /// Rows of a Jacobian, multiplied out.
    expanded: Option<CudaSlice<f64>>,
    size: usize,
    lane: Lane,
    /// Held while the lane works: clones of a posterior's family may ask from several threads.
    busy: Mutex<()>,
}

impl DeviceNormal {
    pub(super) fn new(lane: Lane, size: usize) -> Result<Self, CudaError> {
        Ok(Self { matrix: lane.zeros(size * size)?, expanded: None, size, lane, busy: Mutex::new(()) })
    }

    fn add_rows(&mut self, jacobian: &JacobianFactors<'_>) -> Result<(), CudaError> {
        let device = DeviceJacobian::new(&self.lane, jacobian)?;
        let at_once = DeviceJacobian::rows_at_once(self.size, 1).min(device.rows());
        let mut expanded = match self.expanded.take() {
            Some(expanded) if expanded.len() >= at_once * self.size => expanded,
            _ => self.lane.zeros(at_once * self.size)?,
        };
        for first in (0..device.rows()).step_by(at_once.max(1)) {
            let rows = at_once.min(device.rows() - first);
            device.expand(&self.lane, first, rows, &mut expanded)?;
            self.lane.add_outer(&mut self.matrix, 1.0, &expanded, self.size, rows)?;
        }
        self.expanded = Some(expanded);
        Ok(())
    }
}

impl DeviceNormal {
    /// `I + scale * matrix`.
    fn shifted(&self, scale: f64) -> Result<CudaSlice<f64>, CudaError> {
        let mut found = self.lane.zeros::<f64>(self.size * self.size)?;
        let size = self.size as u32;
        let stream = self.lane.stream()?;
        let mut launch = stream.launch_builder(&self.lane.kernels().shifted);
        launch.arg(&mut found).arg(&self.matrix).arg(&scale).arg(&size);
        // SAFETY: both matrices have size x size values.
        unsafe { launch.launch(grid(self.size, self.size)) }.map_err(CudaError::call("shifted"))?;
        Ok(found)
    }

    fn factorised(&self, scale: f64) -> Result<Outcome<InverseFactor>, CudaError> {
        inverse_factor_on_device(&self.lane, self.shifted(scale)?, self.size)
    }

    fn decomposed(&self) -> Result<Outcome<Eigen>, CudaError> {
        let copy = self.lane.stream()?.clone_dtod(&self.matrix).map_err(CudaError::call("cuMemcpyDtoD"))?;
        eigen_on_device(&self.lane, copy, self.size)
    }
}

impl NormalMatrix for DeviceNormal {
    fn add(&mut self, jacobian: &JacobianFactors<'_>) -> Result<(), PosteriorError> {
        self.add_rows(jacobian).map_err(reported)
    }

    fn on_device(&self) -> bool {
        true
    }

    fn diagonal(&self) -> Result<Vec<f64>, PosteriorError> {
        let _alone = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        self.lane.diagonal(&self.matrix, self.size).map_err(reported)
    }

    fn inverse_factor(&self, scale: f64) -> Result<(f64, Vec<f64>), PosteriorError> {
        let _alone = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        self.factorised(scale).map_err(reported)?.or_not_positive()
    }

    fn eigen(&self) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
        // A column that is not finite shows in its square.
        if !self.diagonal()?.iter().sum::<f64>().is_finite() {
            return Err(PosteriorError::NotPositive);
        }
        let _alone = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        self.decomposed().map_err(reported)?.or_not_positive()
    }

    fn into_lower(self: Box<Self>) -> Result<Vec<f64>, PosteriorError> {
        self.lane.download(&self.matrix, self.size * self.size).map_err(reported)
    }
}
