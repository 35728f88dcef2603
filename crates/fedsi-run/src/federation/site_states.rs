//! What a client keeps, in files at its own site.

use std::fs;
use std::path::{Path, PathBuf};

use fedsi_fl::parameters::Parameters;
use fedsi_fl::site::{SiteStateError, SiteStates};
use thiserror::Error;

use crate::checkpoint::{decode_state, encode_state};
use crate::files::{Readers, create_folder, remove_file, remove_temporary_in, write_failed, write_for};

/// A file for each version, named by its round, with a checksum: whole and durable when the site answers.
#[derive(Debug)]
pub(super) struct StateFiles {
    folder: PathBuf,
}

/// A file or folder that cannot be read.
#[derive(Debug, Error)]
#[error("{path}: {source}", path = path.display())]
struct ReadError {
    path: PathBuf,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl StateFiles {
    /// In this folder, which is made where it is missing.
    pub(super) fn open(folder: &Path) -> Result<Self, crate::WriteError> {
        create_folder(folder, Readers::Owner)?;
        remove_temporary_in(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, round: u64) -> PathBuf {
        self.folder.join(format!("{round:08}.state"))
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> SiteStateError {
    SiteStateError::Failed(Box::new(ReadError { path: path.to_owned(), source: source.into() }))
}

impl SiteStates for StateFiles {
    fn versions(&self) -> Result<Vec<u64>, SiteStateError> {
        let entries = fs::read_dir(&self.folder).map_err(|error| unreadable(&self.folder, error))?;
        let round = |name: &str| name.strip_suffix(".state")?.parse().ok();
        let mut versions: Vec<u64> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str().and_then(round)).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    fn get(&self, round: u64) -> Result<Option<Parameters>, SiteStateError> {
        let path = self.path(round);
        match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&path, error)),
            Ok(bytes) => decode_state(&bytes)
                .map(Some)
                .map_err(|error| SiteStateError::Damaged(Box::new(ReadError { path, source: error.into() }))),
        }
    }

    fn put(&self, round: u64, state: &Parameters) -> Result<(), SiteStateError> {
        let path = self.path(round);
        let write = || {
            let bytes =
                encode_state(state).map_err(|error| write_failed(&path)(std::io::Error::other(error)))?;
            write_for(Readers::Owner, &path, &bytes)
        };
        write().map_err(|error: crate::WriteError| SiteStateError::Failed(Box::new(error)))
    }

    fn remove_before(&self, round: u64) {
        for version in self.versions().unwrap_or_default().into_iter().filter(|&version| version < round) {
            // One that stays costs disk space, and the next request tries again.
            let _ = remove_file(&self.path(version));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: f32) -> Parameters {
        Parameters::Point(vec![value, 2.0])
    }

    #[test]
    fn versions_are_kept_until_they_are_not_needed() {
        let scratch = tempfile::tempdir().unwrap();
        let states = StateFiles::open(&scratch.path().join("states")).unwrap();
        assert_eq!((states.versions().unwrap(), states.get(3).unwrap()), (vec![], None));
        for round in [3, 7, 12] {
            states.put(round, &point(round as f32)).unwrap();
        }
        states.put(7, &point(70.0)).unwrap();
        states.remove_before(7);
        assert_eq!(states.versions().unwrap(), [7, 12]);
        // Another process sees the same.
        let again = StateFiles::open(&scratch.path().join("states")).unwrap();
        assert_eq!((again.get(7).unwrap(), again.get(12).unwrap()), (Some(point(70.0)), Some(point(12.0))));
        let file = scratch.path().join("states/00000012.state");
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        let error = again.get(12).unwrap_err();
        assert!(matches!(error, SiteStateError::Damaged(_)), "{error}");
        let error = error.to_string();
        assert!(error.contains("00000012.state") && error.contains("checksum"), "{error}");
        // What the system cannot read is not lost.
        fs::create_dir(scratch.path().join("states/00000013.state")).unwrap();
        let error = again.get(13).unwrap_err();
        assert!(matches!(error, SiteStateError::Failed(_)), "{error}");
    }
}
