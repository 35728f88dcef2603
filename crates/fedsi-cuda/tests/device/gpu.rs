//! The GPU that tests run on, where there is one.

use std::io::Write as _;
use std::sync::Arc;

use fedsi_cuda::{Device, shared_device};

/// The GPU. Where there is none the test says that it was skipped; with `FEDSI_REQUIRE_GPU=1` it fails.
pub(crate) fn gpu(test: &str) -> Option<Arc<Device>> {
    match shared_device() {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(
                std::env::var_os("FEDSI_REQUIRE_GPU").is_none_or(|value| value != "1"),
                "{test} needs a GPU: {error}"
            );
            // Not `eprintln`, whose output is hidden where a test passes.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: no GPU: {error}");
            None
        }
    }
}

/// The root of the mean square of the differences, relative to how far the expected values moved from `start`.
pub(crate) fn relative_error(start: &[f32], expected: &[f32], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let square = |a: f32, b: f32| (f64::from(a) - f64::from(b)).powi(2);
    let error: f64 = expected.iter().zip(found).map(|(&a, &b)| square(a, b)).sum();
    let change: f64 = expected.iter().zip(start).map(|(&a, &b)| square(a, b)).sum();
    (error / change.max(f64::MIN_POSITIVE)).sqrt()
}
