//! Settings of `FedPop`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::range::{number, whole};

/// Settings of the method fedpop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedpopConfig {
    /// Langevin steps on the head in a round.
    #[schemars(range(min = 1))]
    pub steps: usize,
    /// How many of them are discarded; fewer than all.
    pub discard: usize,
    /// Step size, above 0. Chains diverge where it is above 4 over the largest curvature.
    pub step: f64,
    /// Steps of the chain that is run at the end, on the final body: the first half is discarded, and of the rest as many
    /// as `samples` are kept, evenly spaced. Their passes stop at the features. 0: the samples of the last rounds are used,
    /// which are of other bodies.
    pub final_steps: usize,
    /// Prior variance of the head's parameters, above 0.
    pub prior_variance: f64,
    /// Newest samples of the head that a client keeps and predicts with.
    #[schemars(range(min = 1))]
    pub samples: usize,
}

impl FedpopConfig {
    /// Steps a round and the prior as published; the step and the last chain so that it mixes (docs/baselines.md).
    pub(in crate::config) const DEFAULTS: Self =
        Self { steps: 10, discard: 5, step: 1e-2, final_steps: 10_000, prior_variance: 1.0, samples: 30 };

    pub(in crate::config) fn check(&self) -> Result<(), ConfigError> {
        whole("fedpop.steps", self.steps, 1..=1 << 20, "between 1 and 1048576 steps")?;
        let fewer = "fewer than fedpop.steps: at least one step is kept";
        whole("fedpop.discard", self.discard, 0..=self.steps - 1, fewer)?;
        let positive = "a finite number above 0";
        number("fedpop.step", self.step, |x| x > 0.0, positive)?;
        number("fedpop.prior_variance", self.prior_variance, |x| x > 0.0, positive)?;
        let enough = "0, or from twice fedpop.samples to 1048576 steps";
        let least = if self.final_steps == 0 { 0 } else { 2 * self.samples };
        whole("fedpop.final_steps", self.final_steps, least..=1 << 20, enough)?;
        whole("fedpop.samples", self.samples, 1..=1 << 20, "between 1 and 1048576 samples")
    }
}
