//! Checks of single values; the ranges stand beside the fields.

use std::ops::RangeInclusive;

use super::ConfigError;

/// A whole number within a range.
pub(super) fn whole(
    key: &'static str,
    found: usize,
    allowed: RangeInclusive<usize>,
    expected: &str,
) -> Result<(), ConfigError> {
    if allowed.contains(&found) {
        return Ok(());
    }
    Err(ConfigError::value(key, found, expected))
}

/// A finite number that meets a condition.
pub(super) fn number(
    key: &'static str,
    found: f64,
    accepts: impl Fn(f64) -> bool,
    expected: &str,
) -> Result<(), ConfigError> {
    if found.is_finite() && accepts(found) {
        return Ok(());
    }
    Err(ConfigError::value(key, found, expected))
}
