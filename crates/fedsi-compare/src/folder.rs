//! The folder of a comparison: continued by the same comparison, worked in by one process at a time, and never
//! mixed with anything else.

use std::fs;
use std::path::{Path, PathBuf};

use fedsi_run::{FolderError, FolderLock};

use crate::CompareError;

/// What is compared here: written first, and what identifies the folder of a comparison.
const MARKER: &str = "compare.toml";

/// First words of that file.
const SIGNATURE: &str = "# Written by fedsi";

/// The key of the most runs at work side by side: seconds of runs that are reused were measured under it.
const SIDE_BY_SIDE: &str = "side_by_side";

/// The section of what is compared, and within it what came of it.
pub(crate) const SECTION: &str = "compare";
pub(crate) const MADE: &str = "made";

/// What `compare.toml` in a folder says.
pub(crate) fn read_marker(folder: &Path) -> Result<toml::Table, CompareError> {
    let path = folder.join(MARKER);
    let text = fs::read_to_string(&path).map_err(|error| CompareError::content(&path, &error))?;
    text.parse().map_err(|error: toml::de::Error| CompareError::content(&path, &error.message()))
}

/// A comparison's folder that no other process works in.
#[derive(Debug)]
pub struct CompareFolder {
    path: PathBuf,
    /// Held, not read.
    _lock: FolderLock,
}

impl CompareFolder {
    /// The folder, if it may hold this comparison; taken at once where it holds one already, and none where there
    /// is nothing yet: then nothing is written before [`Self::create`].
    ///
    /// # Errors
    /// A folder that holds something else, or that another process works in.
    pub fn inspect(path: &Path) -> Result<Option<Self>, CompareError> {
        if !path.exists() {
            return Ok(None);
        }
        if !path.is_dir() {
            return Err(FolderError::NotAFolder { path: path.to_owned() }.into());
        }
        if fs::read(path.join(MARKER)).is_ok_and(|text| text.starts_with(SIGNATURE.as_bytes())) {
            return Self::lock(path).map(Some);
        }
        let unreadable = |source| FolderError::CannotBeRead { path: path.to_owned(), source };
        let entries = fs::read_dir(path).map_err(unreadable)?;
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
        match names.filter(|name| !name.starts_with(".fedsi-")).min() {
            None => Ok(None),
            Some(name) => Err(CompareError::Foreign { path: path.to_owned(), name }),
        }
    }

    /// Makes the folder and takes it.
    ///
    /// # Errors
    /// A folder that cannot be made, or that another process was quicker to take.
    pub fn create(path: &Path) -> Result<Self, CompareError> {
        let unusable = |source| FolderError::CannotBeMade { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(unusable)?;
        Self::lock(path)
    }

    fn lock(path: &Path) -> Result<Self, CompareError> {
        match FolderLock::acquire(path)? {
            Some(lock) => {
                fedsi_run::remove_temporary(path)?;
                Ok(Self { path: path.to_owned(), _lock: lock })
            }
            None => Err(CompareError::InUse { path: path.to_owned() }),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The most runs that were ever at work side by side here; 0 where none was.
    pub(crate) fn side_by_side(&self) -> usize {
        let Ok(marker) = read_marker(&self.path) else { return 0 };
        let made = marker.get(SECTION).and_then(|section| section.get(MADE)).and_then(toml::Value::as_table);
        // 0.2 had it without a section.
        let value = made.unwrap_or(&marker).get(SIDE_BY_SIDE).and_then(toml::Value::as_integer);
        value.and_then(|value| usize::try_from(value).ok()).unwrap_or(0)
    }

    /// Writes down what is compared: settings that `fedsi compare` takes, and in `[compare.made]` what came of them.
    pub(crate) fn write_marker(&self, marker: &toml::Table, side_by_side: usize) -> Result<(), CompareError> {
        let mut marker = marker.clone();
        let number = i64::try_from(side_by_side).unwrap_or(i64::MAX);
        let empty = || toml::Value::Table(toml::Table::new());
        let section = marker.entry(SECTION).or_insert_with(empty);
        if let Some(section) = section.as_table_mut()
            && let Some(made) = section.entry(MADE).or_insert_with(empty).as_table_mut()
        {
            made.insert(SIDE_BY_SIDE.to_owned(), toml::Value::Integer(number));
        }
        let text = format!(
            "{SIGNATURE} {}: what is compared here. `fedsi compare` with this file compares the same again.\n{marker}",
            env!("CARGO_PKG_VERSION")
        );
        Ok(fedsi_run::write_whole(&self.path.join(MARKER), text.as_bytes())?)
    }

    /// Removes results that new runs are about to replace.
    pub(crate) fn remove_results(&self) -> Result<(), CompareError> {
        for name in ["compare.json", "report.html"] {
            fedsi_run::remove_file(&self.path.join(name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("c");
        assert!(CompareFolder::inspect(&path).unwrap().is_none());
        let held = CompareFolder::create(&path).unwrap();
        held.write_marker(&toml::Table::new(), 3).unwrap();
        assert_eq!(held.side_by_side(), 3);
        // A lock belongs to an open file: the same process meets it too.
        let error = CompareFolder::inspect(&path).unwrap_err();
        assert!(error.is_bad_input());
        assert!(error.to_string().contains("in use"), "{error}");
        drop(held);
        assert!(CompareFolder::inspect(&path).unwrap().is_some());
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(CompareFolder::inspect(scratch.path()).unwrap().is_none());
        fs::write(scratch.path().join("notes.txt"), "mine").unwrap();
        let error = CompareFolder::inspect(scratch.path()).unwrap_err().to_string();
        assert!(error.contains("notes.txt"), "{error}");
    }
}
