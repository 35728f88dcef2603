//! Settings of `FedBABU`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Tuned;

/// Settings of the method fedbabu.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedbabuConfig {
    /// What is tuned at the end: head, or all.
    pub tune: Tuned,
}

impl FedbabuConfig {
    /// As published.
    pub(in crate::config) const DEFAULTS: Self = Self { tune: Tuned::Head };
}
