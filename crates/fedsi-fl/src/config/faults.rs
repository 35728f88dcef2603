//! Settings of simulated faults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::range::number;

/// What happens to participants, simulated: shares of them, 0 to 1, together at most 1. The same clients fail in the
/// same rounds for every method and number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultsConfig {
    /// Share that never answers, and does not work either.
    pub drop: f64,
    /// Share that works but answers past the round's deadline.
    pub straggle: f64,
    /// Share whose message arrives damaged, in one of the ways docs/faults.md lists.
    pub corrupt: f64,
}

impl FaultsConfig {
    /// Nobody fails.
    pub(crate) const NONE: Self = Self { drop: 0.0, straggle: 0.0, corrupt: 0.0 };

    /// Whether anybody may fail.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.drop + self.straggle + self.corrupt > 0.0
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in
            [("faults.drop", self.drop), ("faults.straggle", self.straggle), ("faults.corrupt", self.corrupt)]
        {
            number(key, value, |x| (0.0..=1.0).contains(&x), "a share from 0 to 1")?;
        }
        let all = self.drop + self.straggle + self.corrupt;
        let together = "with faults.drop and faults.straggle it must be at most 1";
        // Shares such as 0.7 + 0.2 + 0.1 may miss 1 by a rounding.
        number("faults.corrupt", self.corrupt, |_| all <= 1.0 + 1e-12, together)
    }
}
