//! Files that are whole or not there, and changes of folders: every change that this crate makes on a disk.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{PathPersistError, TempPath};
use thiserror::Error;

use crate::crash_points::pass;

/// Prefix of names that are hidden and fedsi's: temporary files, locks, what is being replaced.
pub(crate) const HIDDEN: &str = ".fedsi-";

/// Random letters at the end of a temporary file's name.
const TEMPORARY_LETTERS: usize = 6;

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

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Whoever the user's umask lets.
    Umask,
    /// The user alone: people's models and what names people.
    Owner,
}

impl Readers {
    /// The same for a file in this folder: in one that only its owner can read everything is its owner's, wherever it is
    /// copied to.
    fn within(self, folder: &Path) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            if fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o077 == 0) {
                return Self::Owner;
            }
        }
        #[cfg(not(unix))]
        let _ = folder;
        self
    }

    #[cfg(unix)]
    const fn mode(self, all: u32, own: u32) -> u32 {
        match self {
            Self::Umask => all,
            Self::Owner => own,
        }
    }
}

/// Writes a file under a temporary name, syncs it and renames it: after a crash there is the old file, the new
/// one, or none, and never half a file. A symbolic link of that name is replaced, not followed.
///
/// # Errors
/// What the system says, with the path.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_for(Readers::Umask, path, bytes)
}

/// The same for chosen readers.
///
/// # Errors
/// As [`write_whole`].
pub fn write_for(readers: Readers, path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write(readers, Sync::Now, path, bytes, |file, path| file.persist(path))
}

/// Like [`write_for`], for a file that is never in memory as a whole: `content` writes it.
///
/// # Errors
/// As [`write_whole`].
pub(crate) fn write_streamed(
    readers: Readers,
    path: &Path,
    content: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
) -> Result<(), WriteError> {
    let folder = parent(path);
    let write = || {
        pass(path);
        let mut file = temporary(readers.within(folder)).tempfile_in(folder)?;
        file.disable_cleanup(cfg!(feature = "crash-points"));
        let mut buffered = std::io::BufWriter::new(&mut file);
        content(&mut buffered)?;
        buffered.flush()?;
        drop(buffered);
        pass(path);
        file.as_file().sync_all()?;
        file.disable_cleanup(false);
        file.into_temp_path().persist(path).map_err(|error| error.error)?;
        sync_folder(folder)
    };
    write().map_err(write_failed(path))
}

/// Like [`write_whole`], but fails where the file exists.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write(Readers::Umask, Sync::Now, path, bytes, |file, path| file.persist_noclobber(path))
}

/// Like [`write_for`] the owner alone, but not synced: whoever needs the file to last syncs it.
pub(crate) fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write(Readers::Owner, Sync::Later, path, bytes, |file, path| file.persist(path))
}

/// When a file is made to last a power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sync {
    Now,
    Later,
}

/// The folder of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn write(
    readers: Readers,
    sync: Sync,
    path: &Path,
    bytes: &[u8],
    rename: fn(TempPath, &Path) -> Result<(), PathPersistError>,
) -> Result<(), WriteError> {
    let folder = parent(path);
    let write = || {
        pass(path);
        let mut file = temporary(readers.within(folder)).tempfile_in(folder)?;
        // A process that is killed leaves its temporary file: a crash that a test makes must not clean up either.
        file.disable_cleanup(cfg!(feature = "crash-points"));
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(first)?;
        pass(path);
        file.write_all(rest)?;
        if sync == Sync::Now {
            file.as_file().sync_all()?;
        }
        pass(path);
        file.disable_cleanup(false);
        rename(file.into_temp_path(), path).map_err(|error| error.error)?;
        if sync == Sync::Now { sync_folder(folder) } else { Ok(()) }
    };
    write().map_err(write_failed(path))
}

/// A temporary file that, once renamed, its readers can read.
fn temporary(readers: Readers) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(HIDDEN).rand_bytes(TEMPORARY_LETTERS);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(readers.mode(0o666, 0o600)));
    #[cfg(not(unix))]
    let _ = readers;
    builder
}

/// A file that a killed process left under its temporary name.
pub(crate) fn is_temporary(name: &str) -> bool {
    let random = name.strip_prefix(HIDDEN).filter(|random| random.len() == TEMPORARY_LETTERS);
    random.is_some_and(|random| random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Removes what killed processes left in a folder, where it is there.
pub(crate) fn remove_temporary_in(folder: &Path) -> Result<(), WriteError> {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && is_temporary(&entry.file_name().to_string_lossy()) {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}

/// Makes renames within a folder last.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    // Elsewhere a folder cannot be opened, and a rename needs no such help.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Makes a folder and those above it where they are missing. One that is there stays as it is; a symbolic link in its
/// place is refused.
///
/// # Errors
/// What the system says, with the path.
pub fn create_folder(path: &Path, readers: Readers) -> Result<(), WriteError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => {
            let reason = std::io::Error::new(ErrorKind::AlreadyExists, "it is there and is not a folder");
            return Err(write_failed(path)(reason));
        }
        Err(_) => {}
    }
    pass(path);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, readers.within(parent(path)).mode(0o777, 0o700));
    #[cfg(not(unix))]
    let _ = readers;
    builder.create(path).map_err(write_failed(path))
}

/// A file to append to, made where it is missing.
pub(crate) fn open_to_append(path: &Path, readers: Readers) -> Result<File, WriteError> {
    pass(path);
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, readers.within(parent(path)).mode(0o666, 0o600));
    #[cfg(not(unix))]
    let _ = readers;
    options.open(path).map_err(write_failed(path))
}

/// Appends bytes; they are not synced.
pub(crate) fn append(file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    pass(path);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    file.write_all(first).map_err(write_failed(path))?;
    pass(path);
    file.write_all(rest).map_err(write_failed(path))
}

/// Takes a file or folder from everybody but its owner, and what is made in the folder later as well; a link is left alone.
/// Elsewhere than on Unix nothing changes.
///
/// # Errors
/// What the system says, with the path.
pub fn for_owner_only(path: &Path) -> Result<(), WriteError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let found = fs::symlink_metadata(path).map_err(write_failed(path))?;
        if found.is_symlink() {
            return Ok(());
        }
        let mut permissions = found.permissions();
        permissions.set_mode(permissions.mode() & 0o700);
        fs::set_permissions(path, permissions).map_err(write_failed(path))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Moves a file or folder within one file system, and makes that last.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), WriteError> {
    pass(from);
    fs::rename(from, to).map_err(write_failed(from))?;
    for folder in [from.parent(), to.parent()].into_iter().flatten() {
        sync_folder(folder).map_err(write_failed(folder))?;
    }
    Ok(())
}

/// Removes a file; one that is not there is no error.
///
/// # Errors
/// What the system says, with the path.
pub fn remove_file(path: &Path) -> Result<(), WriteError> {
    pass(path);
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(write_failed(path)(error)),
        _ => Ok(()),
    }
}

/// Removes a file, and makes that last before anything else changes.
pub(crate) fn remove_file_for_good(path: &Path) -> Result<(), WriteError> {
    remove_file(path)?;
    path.parent().map_or(Ok(()), sync_folder).map_err(write_failed(path))
}

/// Removes a folder that is empty; one that is not stays, and one that is not there is no error.
pub(crate) fn remove_empty_folder(path: &Path) {
    pass(path);
    let _ = fs::remove_dir(path);
}
