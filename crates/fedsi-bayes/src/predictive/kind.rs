//! The names of the predictives.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How class probabilities come from the distribution N(m, S) of the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Predictive {
    /// `softmax(m)`: the point estimate, without its uncertainty.
    Map,
    /// `softmax(m_k / sqrt(1 + pi/8 S_kk))`: each logit by its own variance. Closed form; it may reorder classes.
    Probit,
    /// `softmax(m / sqrt(1 + pi/8 s))` with one s a sample, the mean variance of the differences between the
    /// top logit and the others. Closed form; it never reorders classes, and with two it is the probit
    /// approximation of the logistic's mean.
    Differences,
    /// The mean of `softmax(f)` over draws f ~ N(m, S): right as the number of draws grows.
    MonteCarlo,
    /// The mean of the Dirichlet that the Laplace bridge matches to N(m, S) (Hobbhahn et al., 2022). Closed
    /// form.
    Bridge,
}

impl Predictive {
    /// Every predictive, in the order they are listed to a user.
    pub const ALL: [Self; 5] = [Self::Map, Self::Probit, Self::Differences, Self::MonteCarlo, Self::Bridge];

    /// The name in configurations and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Probit => "probit",
            Self::Differences => "differences",
            Self::MonteCarlo => "monte-carlo",
            Self::Bridge => "bridge",
        }
    }
}

impl fmt::Display for Predictive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The name of an unknown predictive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown predictive {0:?}: expected map, probit, differences, monte-carlo or bridge")]
pub struct UnknownPredictive(pub String);

impl FromStr for Predictive {
    type Err = UnknownPredictive;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownPredictive(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        for kind in Predictive::ALL {
            assert_eq!(kind.to_string().parse::<Predictive>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<Predictive>(&format!("\"{kind}\"")).unwrap(), kind);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "laplace".parse::<Predictive>().unwrap_err().to_string();
        for kind in Predictive::ALL {
            assert!(error.contains(kind.as_str()), "{error}");
        }
    }

    #[test]
    fn the_schema_names_every_kind() {
        let schema = serde_json::to_string(&schemars::schema_for!(Predictive)).unwrap();
        for kind in Predictive::ALL {
            assert!(schema.contains(&format!("\"{kind}\"")), "{schema}");
        }
    }
}
