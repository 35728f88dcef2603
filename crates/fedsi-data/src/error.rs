//! What can go wrong between a user's files and a federation.

use std::path::{Path, PathBuf};

use crate::spec::{DatasetName, PartitionKind};

/// A name that no dataset has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dataset `{name}`{}; known: {}", did_you_mean(nearest.as_deref()), known.join(", "))]
pub struct UnknownDataset {
    /// The name given.
    pub name: String,
    /// The known name most like it, where one is alike at all.
    pub nearest: Option<String>,
    /// All known names.
    pub known: Vec<String>,
}

impl UnknownDataset {
    /// Looks for the nearest of the known names.
    pub(crate) fn new<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<String> = known.map(str::to_owned).collect();
        let likeness = |known: &&String| strsim::jaro_winkler(name, known);
        let alike = known.iter().filter(|known| likeness(known) > 0.75);
        let nearest = alike.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).cloned();
        Self { name: name.to_owned(), nearest, known }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// Why data could not be opened, partitioned, checked or fetched.
///
/// Every message is one line that names the thing at fault, what was found there, what was expected, and what
/// to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// No dataset has this name.
    #[error("data.dataset: {0}")]
    Unknown(#[from] UnknownDataset),
    /// A known dataset is not in the data folder.
    #[error(
        "no {dataset} in {dir}: {missing} is missing; fetch it, or set data.dir to a folder that holds {dataset}/",
        dir = shown(dir),
        missing = shown(missing)
    )]
    MissingDataset {
        /// The dataset asked for.
        dataset: DatasetName,
        /// The data folder that was searched.
        dir: PathBuf,
        /// The first file that is missing.
        missing: PathBuf,
    },
    /// The operating system refused to read or write.
    #[error("cannot {action} {}: {source}", shown(path))]
    Io {
        /// What was being done: "read", "create", "rename".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file does not hold what its format, or its neighbours, promise.
    #[error("{}: {place}: found {found}, expected {expected}; {advice}", shown(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file: "byte 4", "line 17, column age".
        place: String,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
        /// What to do.
        advice: &'static str,
    },
    /// A setting has a value that cannot work.
    #[error("{key} = {found}: expected {expected}")]
    Setting {
        /// The key in the configuration, such as `partition.clients`.
        key: &'static str,
        /// Its value.
        found: String,
        /// The values that would do.
        expected: String,
    },
    /// A site's summary of its table cannot be used.
    #[error("a site's summary of its table: found {found}, expected {expected}; describe its rows again")]
    Summary {
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: String,
    },
    /// Sites contradict each other, or what one sent cannot be used.
    #[error("{subject}: found {found}, expected {expected}; {advice}")]
    Site {
        /// Whose or what: `site "Turku"`, `a site's description`.
        subject: String,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
        /// What to do.
        advice: String,
    },
    /// The pool has too few samples for so many clients.
    #[error(
        "partition.clients = {clients}: the pool of {rows} samples feeds at most {feasible} clients under \
         partition `{kind}`, where each needs {per_client}; lower partition.clients{}, or partition.train \
         and partition.test",
        if *feasible > 0 { format!(" to {feasible}") } else { String::new() }
    )]
    TooManyClients {
        /// How samples were to be divided.
        kind: PartitionKind,
        /// The number of clients asked for.
        clients: usize,
        /// The largest number that works, 0 where not even one does.
        feasible: usize,
        /// Samples each client needs.
        per_client: usize,
        /// Samples in the pool.
        rows: usize,
    },
    /// A client would have nothing to train on.
    #[error("client {client}: no training samples; expected at least one; {advice}")]
    EmptyClient {
        /// The client's name, or its number.
        client: String,
        /// What to do.
        advice: &'static str,
    },
    /// The dataset is not one that can be downloaded.
    #[error("{dataset} cannot be fetched: {why}")]
    NotFetchable {
        /// The dataset.
        dataset: String,
        /// What it is instead.
        why: &'static str,
    },
    /// Every mirror failed.
    #[error(
        "cannot fetch {file}: {failures}; try again later, give another mirror, or copy the file there by hand"
    )]
    Fetch {
        /// The file wanted.
        file: String,
        /// Each mirror with its failure, on one line.
        failures: String,
    },
}

impl DataError {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), source }
    }

    pub(crate) fn malformed(
        path: &Path,
        place: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self::Malformed {
            path: path.to_path_buf(),
            place: place.into(),
            found: found.into(),
            expected: expected.into(),
            advice,
        }
    }

    /// Of the site with this name.
    pub(crate) fn site(
        name: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::sites(format!("site {}", quoted(name)), found, expected, advice)
    }

    /// Of a message between sites, or of all of them.
    pub(crate) fn sites(
        subject: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (found, expected) = (one_line(&found.into()), one_line(&expected.into()));
        Self::Site { subject: subject.into(), found, expected, advice: advice.into() }
    }

    pub(crate) fn setting(
        key: &'static str,
        found: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Setting { key, found: one_line(&found.to_string()), expected: expected.into() }
    }
}

/// A path as a message shows it: control characters escaped, so that a message stays one line.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.chars().any(char::is_control) { text.escape_debug().to_string() } else { text.into_owned() }
}

/// Text from a file as a message shows it: in quotes, control characters escaped, long text cut short.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut cut: String = text.chars().take(LONGEST).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("\"{}\"", cut.escape_debug())
}

/// A message of someone else's, without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_the_path() {
        let error = DataError::malformed(
            Path::new("a\nb.csv"),
            "line 2",
            quoted("x\ny"),
            "a number",
            "correct the cell",
        );
        assert_eq!(
            error.to_string(),
            "a\\nb.csv: line 2: found \"x\\ny\", expected a number; correct the cell"
        );
    }

    #[test]
    fn long_text_is_cut() {
        assert!(quoted(&"x".repeat(1000)).len() < 60);
    }
}
