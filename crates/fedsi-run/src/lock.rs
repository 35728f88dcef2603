//! A folder's lock: one process at a time changes what is in it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::files::{WriteError, remove_file, write_failed};

/// The file that is locked. It stays in its folder only while somebody works there, or where somebody was killed.
pub(crate) const LOCK: &str = ".fedsi-lock";

/// A folder that no other process changes. The system releases the lock however this process ends.
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    /// Held, not read. None where the file system has no locks.
    file: Option<File>,
}

impl FolderLock {
    /// Locks a folder that exists; `None` where another process holds it. A file system without locks is named in the
    /// log, and the folder used without.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn acquire(folder: &Path) -> Result<Option<Self>, WriteError> {
        let path = folder.join(LOCK);
        loop {
            if std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
                return Err(write_failed(&path)(not_a_file()));
            }
            let mut options = OpenOptions::new();
            let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
            let file = opened.map_err(write_failed(&path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(reason)) => {
                    tracing::warn!(
                        "{} cannot be locked ({reason}): see to it that no other fedsi works there",
                        folder.display()
                    );
                    return Ok(Some(Self { path, file: None }));
                }
            }
            // Whoever held it before may have removed the file meanwhile: then the lock is on a file that nobody else
            // will look at.
            if is_at(&file, &path).map_err(write_failed(&path))? {
                return Ok(Some(Self { path, file: Some(file) }));
            }
        }
    }

    /// Whether the folder under its name is still the one that is locked: it may have been renamed, and another made.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.file.as_ref().is_none_or(|file| is_at(file, &self.path).unwrap_or(false))
    }
}

impl Drop for FolderLock {
    /// The file is removed while it is locked: whoever opened it before sees that it is gone. One that stays, because the
    /// process was killed, is in nobody's way.
    fn drop(&mut self) {
        if self.file.is_some() && !std::thread::panicking() {
            let _ = remove_file(&self.path);
        }
    }
}

/// A link, or anything else in the lock's place.
fn not_a_file() -> std::io::Error {
    std::io::Error::new(ErrorKind::AlreadyExists, "it is not a regular file")
}

/// Whether an open file is the one of this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let own = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok((own.dev(), own.ino()) == (found.dev(), found.ino())),
        Ok(_) => Err(not_a_file()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether an open file is the one of this name: elsewhere a file that is open is not removed.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> std::io::Result<bool> {
    path.try_exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nothing_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        let held = FolderLock::acquire(scratch.path()).unwrap().unwrap();
        // A lock belongs to an open file: the same process meets it too.
        assert!(FolderLock::acquire(scratch.path()).unwrap().is_none());
        drop(held);
        drop(FolderLock::acquire(scratch.path()).unwrap().expect("what was dropped is free"));
        assert!(!scratch.path().join(LOCK).exists());
    }

    /// However many come and go at once, no two hold it together.
    #[test]
    fn a_lock_that_is_removed_while_others_wait_is_held_by_one() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let scratch = tempfile::tempdir().unwrap();
        let (inside, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while passed.load(Ordering::SeqCst) < 500 {
                        let Some(lock) = FolderLock::acquire(scratch.path()).unwrap() else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                        passed.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let mine = scratch.path().join("mine");
        std::fs::write(&mine, "years of work").unwrap();
        std::os::unix::fs::symlink(&mine, scratch.path().join(LOCK)).unwrap();
        assert!(FolderLock::acquire(scratch.path()).is_err());
        assert_eq!(std::fs::read(&mine).unwrap(), b"years of work");
        std::fs::remove_file(scratch.path().join(LOCK)).unwrap();
        std::os::unix::fs::symlink(scratch.path().join("nowhere"), scratch.path().join(LOCK)).unwrap();
        assert!(FolderLock::acquire(scratch.path()).is_err());
        assert!(!scratch.path().join("nowhere").exists(), "what a link points to is not made");
    }
}
