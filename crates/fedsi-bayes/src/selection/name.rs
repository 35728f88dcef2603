//! Rules by name, as a config has them.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::Rules;

/// The text that names a rule, in a config as on the command line: `variance`, `layers:0,3.weight`. Which rule that is
/// depends on the list it is looked up in: [`Rules::find`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleName(String);

impl RuleName {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RuleName {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for RuleName {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Why a name gives no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleNameError {
    /// No rule has this name.
    #[error("unknown selection rule {name:?}: expected {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// How the rules there are are written.
        known: String,
    },
    /// A rule that needs arguments and has none, or not the ones it takes.
    #[error("selection rule {name:?} lacks its arguments: expected {usage}")]
    Arguments {
        /// The text asked for.
        name: String,
        /// How the rule is written.
        usage: String,
    },
    /// A rule of that name is there already.
    #[error("there already is a selection rule {name:?}: give the new one another name")]
    Taken {
        /// The name.
        name: String,
    },
    /// A name that no config could refer to.
    #[error("{name:?} cannot be the name of a selection rule: expected some text without a colon")]
    Unwritable {
        /// The name.
        name: String,
    },
}

/// A string; its description has every built-in rule with its summary.
impl JsonSchema for RuleName {
    fn schema_name() -> Cow<'static, str> {
        "RuleName".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::RuleName").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut description = String::from("How the subnetwork is chosen.");
        let rules = Rules::builtin();
        for (usage, summary) in rules.list() {
            // Writing to a string cannot fail.
            let _ = write!(description, "\n- {usage}: {summary}");
        }
        json_schema!({ "type": "string", "description": description })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::selection::rules::{Layers, Live};
    use crate::selection::{Candidates, SelectionError, SelectionRule, Subnetwork};

    fn find(text: &str) -> Result<Arc<dyn SelectionRule>, RuleNameError> {
        Rules::builtin().find(&RuleName::from(text))
    }

    #[test]
    fn names_find_their_rules() {
        for text in ["variance", "live", "predictive", "leverage", "random", "magnitude", "layers:0,3.weight"]
        {
            assert_eq!(find(text).unwrap().name(), text);
            let json = serde_json::to_string(&RuleName::from(text)).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<RuleName>(&json).unwrap().as_str(), text);
        }
        assert_eq!(find("layers: 0 , 2.bias").unwrap().name(), "layers:0,2.bias");
        let live: Arc<dyn SelectionRule> = Arc::new(Live);
        assert!(*find("live").unwrap() == *live, "rules of one name are equal");
        assert!(*find("random").unwrap() != *live);
        assert!(Layers::new(Vec::<String>::new()).is_none());
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        assert_eq!(
            find("wasserstein").unwrap_err().to_string(),
            "unknown selection rule \"wasserstein\": expected variance, live, predictive, leverage, random, \
             magnitude or layers:NAME,..."
        );
        for text in ["layers", "layers:", "layers:0,,2"] {
            assert!(matches!(find(text), Err(RuleNameError::Arguments { .. })), "{text}");
        }
        for text in ["Live", "", ":", "live:3", " live"] {
            assert!(matches!(find(text), Err(RuleNameError::Unknown { .. })), "{text}");
        }
    }

    #[derive(Debug)]
    struct First(&'static str);

    impl SelectionRule for First {
        fn name(&self) -> &str {
            self.0
        }

        fn summary(&self) -> &str {
            "The first ones."
        }

        fn select(
            &self,
            candidates: &Candidates<'_>,
            size: usize,
            _: &mut dyn rand::Rng,
        ) -> Result<Subnetwork, SelectionError> {
            candidates.largest((0..candidates.len()).map(|offset| -(offset as f64)), size)
        }
    }

    #[test]
    fn rules_can_be_added_under_names_of_their_own() {
        let mut rules = Rules::builtin();
        rules.add(Arc::new(First("first"))).unwrap();
        assert_eq!(rules.find(&"first".into()).unwrap().summary(), "The first ones.");
        assert!(rules.find(&"frist".into()).unwrap_err().to_string().ends_with("NAME,... or first"));
        assert!(matches!(rules.add(Arc::new(First("live"))), Err(RuleNameError::Taken { .. })));
        assert!(matches!(rules.add(Arc::new(First("layers"))), Err(RuleNameError::Taken { .. })));
        for name in ["", "a:b", " a"] {
            assert!(matches!(rules.add(Arc::new(First(name))), Err(RuleNameError::Unwritable { .. })));
        }
        let parse = |text: &str| (text == "1").then(|| Arc::new(First("first:1")) as Arc<dyn SelectionRule>);
        assert!(matches!(rules.add_parsed("first", "first:N", "", parse), Err(RuleNameError::Taken { .. })));
        rules.add_parsed("nth", "nth:N", "The n-th.", parse).unwrap();
        assert_eq!(rules.find(&"nth:1".into()).unwrap().name(), "first:1");
        assert!(matches!(rules.find(&"nth:2".into()), Err(RuleNameError::Arguments { .. })));
        assert!(rules.list().any(|(usage, summary)| (usage, summary) == ("nth:N", "The n-th.")));
    }

    #[test]
    fn the_schema_is_a_string_that_explains_every_rule() {
        let schema = serde_json::to_value(schemars::schema_for!(RuleName)).unwrap();
        assert_eq!(schema["type"], "string");
        let description = schema["description"].as_str().unwrap();
        for (usage, summary) in Rules::builtin().list() {
            assert!(description.contains(&format!("\n- {usage}: {summary}")), "{usage}");
            assert!(summary.ends_with('.') && !summary.contains("  "), "{summary}");
        }
    }
}
