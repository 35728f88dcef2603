//! `NAME=FILE`: another tool's predictions as one more method.

use std::path::{Path, PathBuf};

use fedsi_fl::methods::find;

use crate::CompareError;

/// What stands for the seed in a file's name.
const SEED: &str = "{seed}";

/// Longest name.
const LONGEST: usize = 40;

/// Another tool's predictions: its name, and a file for every seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalMethod {
    /// The name in tables.
    pub name: String,
    /// The file; `{seed}` in it stands for the seed.
    pub file: String,
}

impl ExternalMethod {
    /// From `NAME=FILE`.
    ///
    /// # Errors
    /// Text of another form, a name that is a method's or cannot be shown.
    pub fn parse(text: &str) -> Result<Self, CompareError> {
        let bad = |reason: String| CompareError::With { given: text.to_owned(), reason };
        let (name, file) =
            text.split_once('=').map(|(name, file)| (name.trim(), file.trim())).unwrap_or_default();
        if name.is_empty() || file.is_empty() {
            return Err(bad("expected NAME=FILE, as in torch=predictions-{seed}.csv".to_owned()));
        }
        if find(name).is_ok() {
            return Err(bad(format!("`{name}` is a method of fedsi's: choose another name")));
        }
        let is_plain = |letter: char| letter.is_alphanumeric() || " ._+-".contains(letter);
        if name.chars().count() > LONGEST || !name.chars().all(is_plain) || name.starts_with('.') {
            return Err(bad(format!(
                "a name has at most {LONGEST} letters, digits, blanks and . _ + -, and does not begin with a dot"
            )));
        }
        Ok(Self { name: name.to_owned(), file: file.to_owned() })
    }

    /// Whether these can be compared beside each other on so many seeds.
    ///
    /// # Errors
    /// Two of one name, one file for several seeds.
    pub(crate) fn check_all(all: &[Self], seeds: usize) -> Result<(), CompareError> {
        for (place, one) in all.iter().enumerate() {
            let bad = |reason: String| {
                Err(CompareError::With { given: format!("{}={}", one.name, one.file), reason })
            };
            if all[..place].iter().any(|other| other.folder_name() == one.folder_name()) {
                return bad(format!("there are two of the name `{}`", one.name));
            }
            if seeds > 1 && !one.file.contains(SEED) {
                return bad(format!(
                    "one file for {seeds} seeds, and each has test rows of its own: write {SEED} where the file's name has \
                     the seed"
                ));
            }
        }
        Ok(())
    }

    /// The file of a seed.
    #[must_use]
    pub fn path(&self, seed: u64) -> PathBuf {
        PathBuf::from(self.file.replace(SEED, &seed.to_string()))
    }

    /// Where a seed's predictions are kept, within the comparison's folder.
    #[must_use]
    pub fn folder(&self, seed: u64) -> String {
        format!("with/{}-s{seed}", self.folder_name())
    }

    /// The name as a folder's: the same on every file system.
    fn folder_name(&self) -> String {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "._+-".contains(letter) { letter } else { '_' }
        };
        self.name.chars().map(plain).collect::<String>().to_lowercase()
    }

    /// The same with an absolute path.
    #[must_use]
    pub fn absolute(&self) -> Self {
        let file = std::path::absolute(Path::new(&self.file))
            .map_or_else(|_| self.file.clone(), |path| path.display().to_string());
        Self { name: self.name.clone(), file }
    }
}

impl std::fmt::Display for ExternalMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.file)
    }
}
