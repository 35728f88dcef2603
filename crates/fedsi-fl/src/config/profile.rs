//! Profiles: sets of defaults that a method has.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A set of defaults. A method that declares no paper profile has one set for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// What a search on held-out training data found best; see docs/calibrated.md.
    Calibrated,
    /// The paper's settings to the letter; see docs/paper-profile.md.
    Paper,
}

impl Profile {
    /// Both, in the order in which help texts list them.
    pub const ALL: [Self; 2] = [Self::Calibrated, Self::Paper];
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Calibrated => "calibrated",
            Self::Paper => "paper",
        })
    }
}
