//! What a config says of a comparison, in its section `[compare]`: what `fedsi compare` reads, and `compare.toml` has.

use fedsi_fl::ConfigError;
use fedsi_fl::config::Overrides;
use serde::Deserialize;

/// The section. Arguments win over it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    methods: Option<Names>,
    pub(super) seeds: Option<usize>,
    pub(super) reference: Option<String>,
    pub(super) tune: Option<bool>,
    pub(super) tune_rounds: Option<usize>,
    pub(super) tune_finalists: Option<usize>,
    pub(super) tune_seeds: Option<usize>,
    columns: Option<Names>,
    with: Option<Names>,
    /// What fedsi itself wrote down of a comparison: nothing to go by.
    #[serde(rename = "made")]
    _made: Option<toml::Table>,
}

/// A text with commas, or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of texts")]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl Names {
    fn list(&self) -> Vec<String> {
        match self {
            Self::One(text) => {
                text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
            }
            Self::Several(all) => all.clone(),
        }
    }
}

impl Section {
    /// Takes the section out of these layers, where one has it.
    pub(super) fn take(layers: &mut [Overrides]) -> Result<Self, ConfigError> {
        let mut found = Self::default();
        for layer in layers {
            if let Some(table) = layer.take_section("compare")? {
                found = toml::Value::Table(table).try_into().map_err(|error: toml::de::Error| {
                    let reason = error.message().trim().replace('\n', " ");
                    ConfigError::Type { key: "compare".to_owned(), reason }
                })?;
            }
        }
        Ok(found)
    }

    /// The methods with commas between; all where nothing is said.
    pub(super) fn methods(&self) -> String {
        self.methods.as_ref().map_or_else(|| "all".to_owned(), |names| names.list().join(","))
    }

    pub(super) fn columns(&self) -> Vec<String> {
        self.columns.as_ref().map(Names::list).unwrap_or_default()
    }

    pub(super) fn with(&self) -> Vec<String> {
        self.with.as_ref().map(Names::list).unwrap_or_default()
    }
}
