//! Parts of a network: what is shared, kept or trained.

use std::fmt;
use std::ops::Range;

use fedsi_nn::{LayerSet, Layout, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a network's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// No parameter.
    Nothing,
    /// Everything below the last linear layer: the representation.
    Body,
    /// The last linear layer: the decision.
    Head,
    /// Every parameter.
    All,
}

impl Part {
    /// Where the part lies in the flat parameters.
    #[must_use]
    pub fn range(self, layout: &Layout) -> Range<usize> {
        match self {
            Self::Nothing => 0..0,
            Self::Body => layout.body(),
            Self::Head => layout.head(),
            Self::All => 0..layout.len(),
        }
    }

    /// The layers of the part.
    #[must_use]
    pub fn layers(self, network: &Network) -> LayerSet {
        match self {
            Self::Nothing => network.layers_where(|_| false),
            Self::Body => network.body_layers(),
            Self::Head => network.head_layer(),
            Self::All => network.all_layers(),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "nothing",
            Self::Body => "body",
            Self::Head => "head",
            Self::All => "all",
        })
    }
}
