//! How many runs fit into the memory that is free.

use fedsi_fl::memory;

/// How many runs of this size fit into the memory that is free, with a fifth of it left alone; at least 1. Where the
/// system does not report it: no limit.
pub(crate) fn runs_that_fit(bytes: u64) -> usize {
    let Some(free) = memory::available() else { return usize::MAX };
    usize::try_from((free / 5 * 4) / bytes.max(1)).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_always_fits() {
        assert_eq!(runs_that_fit(u64::MAX), 1);
        assert!(runs_that_fit(1) > 1);
    }
}
