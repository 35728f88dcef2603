//! What can be wrong with a config.

use std::path::PathBuf;

use thiserror::Error;

/// A config that cannot run. Each message is one line: what, where, what was expected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the config {path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not TOML.
    #[error("{origin} is not valid TOML{place}: {reason}")]
    Syntax {
        /// The file or flag.
        origin: String,
        /// Line and column, where known.
        place: String,
        /// The parser's words.
        reason: String,
    },
    /// Text that is no setting.
    #[error("`{text}`: expected KEY=VALUE, as in training.batch_size=20")]
    Assignment {
        /// What was given.
        text: String,
    },
    /// A key that does not exist.
    #[error("unknown key `{key}` in {origin}{hint}")]
    UnknownKey {
        /// The whole key.
        key: String,
        /// The file or flag.
        origin: String,
        /// The nearest known key.
        hint: String,
    },
    /// A key that has another name now.
    #[error("`{key}` is now `{new}`; use the new name in {origin}")]
    RenamedKey {
        /// The whole key.
        key: String,
        /// The file or flag.
        origin: String,
        /// What it is called now.
        new: &'static str,
    },
    /// A value of the wrong type.
    #[error("`{key}`: {reason}")]
    Type {
        /// The whole key.
        key: String,
        /// What was found and expected.
        reason: String,
    },
    /// A value out of range.
    #[error("`{key}` = {found} is not usable: {expected}")]
    Value {
        /// The whole key.
        key: &'static str,
        /// The value.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// A method that does not exist.
    #[error("unknown method `{name}`{hint}; known: {known}")]
    UnknownMethod {
        /// The name given.
        name: String,
        /// The nearest known name.
        hint: String,
        /// All names.
        known: String,
    },
    /// A dataset that does not exist.
    #[error("`data.dataset`: {0}")]
    UnknownDataset(#[from] fedsi_data::UnknownDataset),
    /// A network that does not fit together, or does not fit the data.
    #[error("`model.body` is not a valid network: {0}")]
    Network(#[from] fedsi_nn::NetworkError),
    /// A selection rule that does not exist.
    #[error("`fedsi.rule`: {0}")]
    Rule(#[from] fedsi_bayes::RuleNameError),
    /// A method whose declaration is inconsistent.
    #[error("the declaration of the method `{method}` is inconsistent: {source}")]
    Procedure {
        /// The method.
        method: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A subnetwork that cannot be chosen.
    #[error("`fedsi.rule` and `fedsi.subnetwork` cannot select parameters of `model.body`: {0}")]
    Subnetwork(#[from] fedsi_bayes::SelectionError),
}

impl ConfigError {
    /// A value out of range.
    pub(crate) fn value(
        key: &'static str,
        found: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Value { key, found: found.to_string(), expected: expected.into() }
    }
}

/// ` (did you mean ...?)`, where one of the known names is near.
pub fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(known.map(|candidate| (strsim::jaro_winkler(name, candidate), candidate)))
}

/// The hint for the candidate most like what was given, if it is alike at all; likeness is 0 to 1.
pub(crate) fn nearest<'a>(candidates: impl Iterator<Item = (f64, &'a str)>) -> String {
    candidates
        .filter(|&(likeness, _)| likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!(" (did you mean `{candidate}`?)"))
        .unwrap_or_default()
}
