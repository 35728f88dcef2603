//! The names of the rules.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A way to choose a subnetwork of a given size.
///
/// Each parameter r has a marginal posterior variance `v_r = 1/(h_r + 1/g_r)`, from the diagonal h of the
/// Gauss-Newton matrix and the prior variance g, and a sensitivity `j_r`, the summed squared derivative of the
/// outputs in it. The rules differ in what they make of these.
///
/// | Name | Takes | Random |
/// |---|---|---|
/// | `variance` | the largest `v_r` (FedSI's paper) | no |
/// | `live` | the largest `v_r` where `h_r > 0` | no |
/// | `predictive` | the largest `v_r * j_r` | no |
/// | `leverage` | a draw weighted by `v_r * j_r` | yes |
/// | `random` | a uniform draw | yes |
/// | `magnitude` | the largest absolute values | no |
/// | `layers:0,3.weight` | everything in the named layers and tensors | no |
///
/// It is written as its name, in configurations as on the command line:
///
/// ```
/// use fedsi_bayes::Rule;
/// assert_eq!("live".parse(), Ok(Rule::Live));
/// assert_eq!("layers:0,3.weight".parse(), Ok(Rule::Layers(vec!["0".into(), "3.weight".into()])));
/// assert_eq!(Rule::Predictive.to_string(), "predictive");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Rule {
    /// The largest marginal variances: nearest to the full posterior in 2-Wasserstein distance if parameters
    /// were independent. It favours parameters that the data says nothing about.
    Variance,
    /// The largest marginal variances among parameters with curvature; the others, by variance, only where
    /// those are too few.
    Live,
    /// The largest contributions to the variance of the outputs, each parameter taken by itself.
    Predictive,
    /// A draw without replacement, weighted by the contribution to the variance of the outputs. Like
    /// [`Random`](Self::Random) it spreads over the network, where `predictive` may pile up on few units, but no
    /// choice is spent on a parameter that moves no output while another is left.
    Leverage,
    /// A uniform draw without replacement.
    Random,
    /// The largest absolute values.
    Magnitude,
    /// All parameters of the named layers (`0`) and tensors (`0.weight`), in PyTorch's naming; the size that is
    /// asked for does not apply.
    Layers(Vec<String>),
}

/// What comes before the names of layers.
const LAYERS: &str = "layers:";

impl Rule {
    /// Every rule, in the order they are listed to a user; [`Layers`](Self::Layers) without its names.
    pub const ALL: [Self; 7] = [
        Self::Variance,
        Self::Live,
        Self::Predictive,
        Self::Leverage,
        Self::Random,
        Self::Magnitude,
        Self::Layers(Vec::new()),
    ];

    /// The rule's name, without the layers.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Variance => "variance",
            Self::Live => "live",
            Self::Predictive => "predictive",
            Self::Leverage => "leverage",
            Self::Random => "random",
            Self::Magnitude => "magnitude",
            Self::Layers(_) => "layers",
        }
    }

    /// How the rule is written: its name, or a pattern where it takes names of layers.
    #[must_use]
    pub const fn usage(&self) -> &'static str {
        match self {
            Self::Layers(_) => "layers:NAME,...",
            other => other.name(),
        }
    }

    /// The rule's idea in one sentence, for help texts.
    #[must_use]
    pub const fn idea(&self) -> &'static str {
        match self {
            Self::Variance => {
                "The largest marginal posterior variances, as in the paper; often parameters the data says \
                 nothing about."
            }
            Self::Live => {
                "The largest marginal posterior variances among the parameters that the data says anything about."
            }
            Self::Predictive => {
                "The largest contributions to the variance of the outputs: marginal variance times summed \
                 squared derivative."
            }
            Self::Leverage => {
                "Drawn at random without replacement, weighted by the contribution to the variance of the \
                 outputs."
            }
            Self::Random => "Drawn at random without replacement, all parameters alike.",
            Self::Magnitude => "The parameters of the largest absolute value.",
            Self::Layers(_) => {
                "All parameters of the named layers or tensors, in PyTorch's naming, such as \
                 layers:0,3.weight; the size does not apply."
            }
        }
    }

    /// Whether the choice depends on the random numbers it is given.
    #[must_use]
    pub const fn is_random(&self) -> bool {
        matches!(self, Self::Leverage | Self::Random)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layers(names) => f.pad(&format!("{LAYERS}{}", names.join(","))),
            other => f.pad(other.name()),
        }
    }
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleNameError {
    /// No rule has this name.
    #[error("unknown selection rule {0:?}: expected {known}", known = known())]
    Unknown(String),
    /// `layers` without the name of a layer, or with an empty one.
    #[error(
        "selection rule {0:?} lacks the name of a layer: expected layers:NAME,... such as layers:0,3.weight"
    )]
    NoLayer(String),
}

/// `variance, live, ... or layers:NAME,...`
fn known() -> String {
    let [others @ .., last] = Rule::ALL.each_ref().map(Rule::usage);
    format!("{} or {last}", others.join(", "))
}

impl FromStr for Rule {
    type Err = RuleNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(list) = text.strip_prefix(LAYERS) {
            let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
            if names.iter().any(String::is_empty) {
                return Err(RuleNameError::NoLayer(text.to_owned()));
            }
            return Ok(Self::Layers(names));
        }
        match Self::ALL.into_iter().find(|rule| rule.name() == text) {
            Some(Self::Layers(_)) => Err(RuleNameError::NoLayer(text.to_owned())),
            Some(rule) => Ok(rule),
            None => Err(RuleNameError::Unknown(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Rule {
    type Error = RuleNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

/// A string; its description has every rule with its idea.
impl JsonSchema for Rule {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::Rule").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut description = String::from("How the subnetwork is chosen.");
        let mut plain = Vec::new();
        for rule in &Self::ALL {
            // Writing to a string cannot fail.
            let _ = write!(description, "\n- {}: {}", rule.usage(), rule.idea());
            if !matches!(rule, Self::Layers(_)) {
                plain.push(rule.name());
            }
        }
        let pattern = format!("^({}|{LAYERS}[^,]+(,[^,]+)*)$", plain.join("|"));
        json_schema!({ "type": "string", "description": description, "pattern": pattern })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_rule() -> impl Iterator<Item = Rule> {
        Rule::ALL.into_iter().map(|rule| match rule {
            Rule::Layers(_) => Rule::Layers(vec!["0".into(), "3.weight".into()]),
            other => other,
        })
    }

    #[test]
    fn names_survive_a_round_trip() {
        for rule in every_rule() {
            let text = rule.to_string();
            assert_eq!(text.parse::<Rule>().unwrap(), rule);
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
        }
        assert_eq!("layers: 0 , 2.bias".parse::<Rule>().unwrap().to_string(), "layers:0,2.bias");
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "wasserstein".parse::<Rule>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown selection rule \"wasserstein\": expected variance, live, predictive, leverage, random, \
             magnitude or layers:NAME,..."
        );
        for text in ["layers", "layers:", "layers:0,,2"] {
            assert_eq!(text.parse::<Rule>(), Err(RuleNameError::NoLayer(text.into())));
        }
        let error = serde_json::from_str::<Rule>("\"Live\"").unwrap_err().to_string();
        assert!(error.starts_with("unknown selection rule \"Live\": expected variance"), "{error}");
    }

    #[test]
    fn the_schema_is_a_string_that_explains_every_rule() {
        let schema = serde_json::to_value(schemars::schema_for!(Rule)).unwrap();
        assert_eq!(schema["type"], "string");
        let description = schema["description"].as_str().unwrap();
        for rule in Rule::ALL {
            assert!(description.contains(rule.idea()), "{rule}");
            assert!(rule.idea().ends_with('.') && !rule.idea().contains("  "), "{}", rule.idea());
        }
        assert_eq!(
            schema["pattern"],
            "^(variance|live|predictive|leverage|random|magnitude|layers:[^,]+(,[^,]+)*)$"
        );
    }
}
