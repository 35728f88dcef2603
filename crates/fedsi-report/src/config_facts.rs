//! What a page says of a run's settings, from its `config.toml`.

use std::path::Path;

/// Settings that captions speak of; each is absent where a file of another version has no such key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConfigFacts {
    /// `data.dataset`.
    dataset: Option<String>,
    /// `data.files.name`.
    name: Option<String>,
    /// `data.files.train`.
    train: Option<String>,
    /// `fedsi.rule`.
    pub(crate) rule: Option<String>,
    /// `partition.pooled_client`.
    pub(crate) has_pooled_client: bool,
    /// `calibration.own_classes`.
    pub(crate) is_over_own_classes: bool,
}

impl ConfigFacts {
    /// Nothing of a text that is no TOML.
    pub(crate) fn of(config: &str) -> Self {
        let Ok(table) = config.parse::<toml::Table>() else { return Self::default() };
        let value = |keys: &[&str]| -> Option<&toml::Value> {
            let mut place = table.get(*keys.first()?)?;
            for key in &keys[1..] {
                place = place.get(key)?;
            }
            Some(place)
        };
        let find = |keys: &[&str]| value(keys)?.as_str().map(str::to_owned);
        let is_set = |keys: &[&str]| value(keys).and_then(toml::Value::as_bool).unwrap_or(false);
        Self {
            dataset: find(&["data", "dataset"]),
            name: find(&["data", "files", "name"]),
            train: find(&["data", "files", "train"]),
            rule: find(&["fedsi", "rule"]),
            has_pooled_client: is_set(&["partition", "pooled_client"]),
            is_over_own_classes: is_set(&["calibration", "own_classes"]),
        }
    }

    /// Whether the data is somebody's own: then it has no size, small or large.
    pub(crate) fn is_own(&self) -> bool {
        self.dataset.as_deref() == Some("files")
    }

    /// What the data is called, where it is somebody's own table.
    pub(crate) fn own_title(&self) -> Option<String> {
        let (name, train) = (self.name.as_deref()?, self.train.as_deref()?);
        self.is_own().then(|| fedsi_data::display_name(&fedsi_run::own_data_title(name, Path::new(train))))
    }

    /// Whether parameters are chosen at random.
    pub(crate) fn is_random_rule(&self) -> bool {
        self.rule.as_deref() == Some("random")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_where_they_are() {
        let text = "[data]\ndataset = \"files\"\n[data.files]\nname = \"files\"\ntrain = \"/a/patients.csv\"\n[fedsi]\nrule = \"random\"\n";
        let found = ConfigFacts::of(text);
        assert!(found.is_own() && found.is_random_rule());
        assert_eq!(found.own_title().as_deref(), Some("patients"));
        let digits = ConfigFacts::of("[data]\ndataset = \"digits\"\n");
        assert_eq!((digits.own_title(), digits.is_own(), digits.rule), (None, false, None));
        assert!(!digits.is_over_own_classes);
        assert!(ConfigFacts::of("[calibration]\nown_classes = true\n").is_over_own_classes);
        assert_eq!(ConfigFacts::of("= no TOML"), ConfigFacts::default());
    }
}
