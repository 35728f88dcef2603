//! Files that are whole or not there.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, PersistError};
use thiserror::Error;

/// A file or folder that cannot be written.
#[derive(Debug, Error)]
#[error("cannot write {path}: {source}", path = path.display())]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

/// Says of an error of the system which file it was about.
pub(crate) fn write_failed(path: &Path) -> impl FnOnce(std::io::Error) -> WriteError + '_ {
    move |source| WriteError { path: path.to_owned(), source }
}

/// Writes a file under a temporary name, syncs it and renames it: after a crash there is the old file, the new
/// one, or none, and never half a file.
///
/// # Errors
/// What the system says, with the path.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write(path, bytes, |file| file.persist(path))
}

/// Like [`write_whole`], but fails where the file exists: of two processes one gets it.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write(path, bytes, |file| file.persist_noclobber(path))
}

fn write(
    path: &Path,
    bytes: &[u8],
    rename: impl FnOnce(NamedTempFile) -> Result<File, PersistError>,
) -> Result<(), WriteError> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let write = || {
        let mut file = temporary().tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        rename(file).map_err(|error| error.error)?;
        // Elsewhere a folder cannot be opened, and a rename needs no such help.
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    };
    write().map_err(write_failed(path))
}

/// A temporary file that, once renamed, is as readable as any other file: the user's umask decides.
fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fedsi-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}
