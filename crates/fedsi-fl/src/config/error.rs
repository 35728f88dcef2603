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
    /// The text is no TOML.
    #[error("{origin} is not valid TOML{place}: {reason}")]
    Syntax {
        /// The file or flag.
        origin: String,
        /// Line and column, where known.
        place: String,
        /// The parser's words.
        reason: String,
    },
    /// A setting on the command line that is none.
    #[error("`--set {text}`: expected KEY=VALUE, as in `--set training.batch=20`")]
    Assignment {
        /// What was given.
        text: String,
    },
    /// A key that does not exist.
    #[error("unknown key `{key}` in {origin}{hint}; `fedsi config` shows all keys")]
    UnknownKey {
        /// The whole key.
        key: String,
        /// The file or flag.
        origin: String,
        /// The nearest known key.
        hint: String,
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
    /// A network that does not fit together, or does not fit the data.
    #[error("`model.body` makes no network: {0}")]
    Network(#[from] fedsi_nn::NetworkError),
    /// A subnetwork that cannot be chosen.
    #[error("`fedsi.rule` and `fedsi.subnetwork` choose nothing of `model.body`: {0}")]
    Subnetwork(fedsi_bayes::SelectionError),
}

/// ` (did you mean ...?)`, where one of the known names is near.
pub(crate) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
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
