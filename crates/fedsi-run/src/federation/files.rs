//! The files that both ends of a federation have: its settings and what its sites agreed on.

use std::fs;
use std::path::Path;

use fedsi_data::hexadecimal;
use fedsi_fl::config::{Overrides, commented};
use fedsi_fl::{Checked, Registry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::RunError;
use crate::federation_error::FederationError;
use crate::files::{Readers, WriteError, create_folder, write_failed, write_for};
use crate::folder::FolderError;
use crate::lock::FolderLock;
use crate::settings::{DataPaths, first_difference};

/// The settings.
pub(super) const CONFIG: &str = "config.toml";

/// What sites agreed on about their data, as bytes that only they understand.
pub(super) const AGREEMENT: &str = "agreement";

/// The first line of a federation's settings: what a run's folder has is another.
const SIGNATURE: &str = "# Settings of a federation, written by fedsi";

/// The digest of what sites agreed on.
pub(super) fn agreement_digest(agreement: Option<&[u8]>) -> Option<String> {
    agreement.map(|bytes| hexadecimal(&Sha256::digest(bytes)))
}

/// Makes a folder where it is missing and locks it: for the owner alone where it will hold what is nobody else's.
pub(super) fn take(path: &Path, readers: Readers) -> Result<FolderLock, RunError> {
    create_folder(path, readers)?;
    FolderLock::acquire(path)?.ok_or_else(|| FolderError::InUse { path: path.to_owned() }.into())
}

/// Writes settings and agreement, each whole or not at all.
pub(super) fn write_setup(path: &Path, config: &Checked, agreement: Option<&[u8]>) -> Result<(), RunError> {
    if let Some(agreement) = agreement {
        write_for(Readers::Owner, &path.join(AGREEMENT), agreement)?;
    }
    let text = format!("{SIGNATURE} {}.\n{}", env!("CARGO_PKG_VERSION"), commented(config)?);
    Ok(write_for(Readers::Umask, &path.join(CONFIG), text.as_bytes())?)
}

/// The settings that were written.
pub(super) fn read_config(path: &Path) -> Result<Checked, RunError> {
    let registry = Registry::builtin();
    let config = registry.resolve(&[Overrides::from_saved(&path.join(CONFIG))?])?;
    Ok(registry.check(config)?)
}

/// What sites agreed on, with the digest that it must have.
pub(super) fn read_agreement(path: &Path, digest: Option<&str>) -> Result<Option<Vec<u8>>, FederationError> {
    let Some(digest) = digest else { return Ok(None) };
    let file = path.join(AGREEMENT);
    let damaged = |reason: String| FederationError::Damaged { path: file.clone(), reason };
    let bytes = fs::read(&file).map_err(|error| damaged(error.to_string()))?;
    match agreement_digest(Some(&bytes)).as_deref() == Some(digest) {
        true => Ok(Some(bytes)),
        false => Err(damaged("it is not what was written".to_owned())),
    }
}

/// Whether these settings give the results of those that the folder has. Where data lies does not matter.
pub(super) fn expect_settings(path: &Path, config: &Checked) -> Result<(), RunError> {
    let there = read_config(path)?;
    let difference = first_difference(&there, config, DataPaths::Ignore, &[])
        .map_err(|error| write_failed(path)(std::io::Error::other(error)))?;
    match difference {
        None => Ok(()),
        Some(difference) => other(path, "config", difference),
    }
}

/// What was given is not what the folder began with.
pub(super) fn other<T>(path: &Path, what: &'static str, difference: String) -> Result<T, RunError> {
    Err(FederationError::Other { path: path.to_owned(), what, difference }.into())
}

/// Writes a JSON file whole.
pub(super) fn write_json(path: &Path, readers: Readers, content: &impl Serialize) -> Result<(), WriteError> {
    let text = serde_json::to_string_pretty(content).map_err(|error| write_failed(path)(error.into()))?;
    write_for(readers, path, text.as_bytes())
}

/// Reads a JSON file; none where there is none.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FederationError> {
    let damaged = |reason: String| FederationError::Damaged { path: path.to_owned(), reason };
    match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(damaged(error.to_string())),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(error.to_string())),
    }
}

/// Whether a folder is empty but for what a start that was cut short leaves.
pub(super) fn expect_unused(path: &Path) -> Result<(), RunError> {
    let cannot = |source| FolderError::CannotBeRead { path: path.to_owned(), source };
    for entry in fs::read_dir(path).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name().to_string_lossy().into_owned();
        let own = name == AGREEMENT || name == CONFIG && is_signed(path);
        if !own && !name.starts_with(crate::files::HIDDEN) {
            return Err(FederationError::ForeignEntry { path: path.to_owned(), name }.into());
        }
    }
    Ok(())
}

fn is_signed(path: &Path) -> bool {
    fs::read_to_string(path.join(CONFIG)).is_ok_and(|text| text.starts_with(SIGNATURE))
}
