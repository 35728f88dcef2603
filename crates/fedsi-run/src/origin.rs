//! What a run is made from: its data, identified by digests, and where what its clients keep is.

use std::fs;
use std::path::{Path, PathBuf};

use fedsi_data::{DataDigest, hexadecimal};
use fedsi_fl::{Checked, Config};
use fedsi_random::SecretKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::files::{Readers, WriteError, create_folder, write_failed, write_for};
use crate::settings::settings_text;

/// `run.json`.
pub(crate) const FILE: &str = "run.json";

/// `run.json` is there and is not what a run writes.
#[derive(Debug, Error)]
#[error("{path} cannot be read ({reason})", path = path.display())]
pub struct OriginError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// What a run is made from, in `run.json` and in each of its checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// What identifies its data.
    pub data: DataDigest,
    /// Under privacy, where the id of a run must not follow from its data: random digits in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The folder of what clients keep between rounds, where that is on disk: no other run has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<PathBuf>,
}

impl Origin {
    /// Of a run that begins now. Makes the folder for what clients keep, where that is on disk.
    pub(crate) fn new(config: &Config, data: DataDigest) -> Result<Self, WriteError> {
        let parent = &config.checkpoint.state_dir;
        let states = match parent.as_os_str().is_empty() {
            true => None,
            false => Some(unique_folder(parent)?),
        };
        let nonce = match config.privacy.is_on() {
            true => Some(random_digits()?),
            false => None,
        };
        Ok(Self { data, nonce, states })
    }

    /// The same where the folder for what clients keep is below another parent now: it may have been moved.
    pub(crate) fn relocated(mut self, config: &Config) -> Self {
        let parent = &config.checkpoint.state_dir;
        if let Some(name) = self.states.as_deref().and_then(Path::file_name) {
            let moved = (!parent.as_os_str().is_empty()).then(|| parent.join(name));
            match moved {
                Some(moved)
                    if !moved.is_dir() && self.states.as_ref().is_some_and(|known| known.is_dir()) => {}
                moved => self.states = moved,
            }
        }
        self
    }

    /// Notes that what clients keep is of the run in this folder. A run that was renamed takes it along; where the run that
    /// it belongs to is still there, as after a copy, it stays that one's.
    ///
    /// # Errors
    /// It belongs to another run.
    pub(crate) fn own_states(&self, run: &Path) -> Result<(), StatesError> {
        let Some(states) = self.states.as_ref().filter(|states| states.is_dir()) else { return Ok(()) };
        if let Some(owner) = self.other_owner(run) {
            return Err(StatesError::Owned { states: states.clone(), owner });
        }
        let whole = fs::canonicalize(run).unwrap_or_else(|_| run.to_owned());
        Ok(write_for(Readers::Owner, &states.join(OWNER), whole.to_string_lossy().as_bytes())?)
    }

    /// The folder for what clients keep, where it is this run's to remove.
    pub(crate) fn removable_states(&self, run: &Path) -> Option<&Path> {
        self.states.as_deref().filter(|_| self.other_owner(run).is_none())
    }

    /// Another run that what clients keep belongs to, and that is still there.
    fn other_owner(&self, run: &Path) -> Option<PathBuf> {
        let states = self.states.as_ref()?;
        let owner = PathBuf::from(fs::read_to_string(states.join(OWNER)).ok()?);
        let here = fs::canonicalize(run).unwrap_or_else(|_| run.to_owned());
        let theirs = || Self::read(&owner).ok().flatten().and_then(|origin| origin.states);
        (owner != here && theirs().is_some_and(|theirs| theirs.file_name() == states.file_name()))
            .then_some(owner)
    }

    /// Reads `run.json` in a run's folder; none where there is none.
    ///
    /// # Errors
    /// A file that is there and is not what a run writes.
    pub fn read(folder: &Path) -> Result<Option<Self>, OriginError> {
        let path = folder.join(FILE);
        let unreadable = |reason: String| OriginError { path: path.clone(), reason };
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.to_string()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), WriteError> {
        let path = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| write_failed(&path)(error.into()))?;
        // The digest of few rows tells who guesses them.
        write_for(Readers::Owner, &path, text.as_bytes())
    }
}

/// Which run's folder what clients keep belongs to: a file in theirs.
pub(crate) const OWNER: &str = "owner";

/// Why what clients keep cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StatesError {
    /// It is another run's.
    #[error(
        "what clients keep in {states} is of the run in {owner}, of which this is a copy",
        states = states.display(),
        owner = owner.display()
    )]
    Owned {
        /// Where it is.
        states: PathBuf,
        /// Whose it is.
        owner: PathBuf,
    },
    /// That it is this run's cannot be noted.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Digits that no other run has, from the system's generator.
pub(crate) fn random_digits() -> Result<String, WriteError> {
    let key =
        SecretKey::generate().map_err(|error| write_failed(Path::new(FILE))(std::io::Error::other(error)))?;
    Ok(hexadecimal(&key.bytes()[..16]))
}

/// A new folder, which only the user can read.
fn unique_folder(parent: &Path) -> Result<PathBuf, WriteError> {
    create_folder(parent, Readers::Umask)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix("run-").rand_bytes(12);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let made = builder.tempdir_in(parent);
    Ok(made.map_err(write_failed(parent))?.keep())
}

/// What tells a run's models from those of any other: its settings and its data. Under privacy random digits stand in for
/// the data, because what is published must not tell of rows that have no noise.
///
/// # Errors
/// Settings that cannot be written as JSON.
pub fn run_id(config: &Checked, origin: &Origin) -> Result<String, serde_json::Error> {
    let mut hash = Sha256::new();
    hash.update(settings_text(config)?);
    match &origin.nonce {
        Some(nonce) => hash.update(nonce),
        None => {
            hash.update(&origin.data.partition);
            origin.data.files.iter().for_each(|file| hash.update(&file.sha256));
        }
    }
    Ok(hexadecimal(&hash.finalize()[..16]))
}
