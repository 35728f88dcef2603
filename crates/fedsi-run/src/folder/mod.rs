//! The folder of a run: taken by one run, never by two, and left as it was found by a run that never starts.

mod contents;
mod error;
mod replace;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fedsi_fl::Checked;
use fedsi_fl::config::commented;

pub(crate) use contents::CONFIG;
pub(crate) use contents::remove_leftovers;
pub use contents::{RUN_PLOTS, remove_temporary};
pub use error::FolderError;

use crate::files::{remove_file, write_new};
use crate::lock::FolderLock;
use crate::naming::data_label;
pub(crate) use contents::has_signed_config;
use contents::{Contents, SIGNATURE};
use replace::ASIDE;

/// A folder that belongs to one run; its `config.toml` is written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Whether the files of an older run are set aside.
    replaces: bool,
    /// The folders made for this run, innermost first.
    created: Vec<PathBuf>,
    /// Whether `config.toml` is this run's.
    owned: bool,
    /// No other process works here.
    lock: Option<FolderLock>,
}

impl RunFolder {
    /// Takes `runs/<method>-<dataset>-<size>-s<seed>` below `parent`, with a number appended where that is
    /// taken.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn claim_default(parent: &Path, config: &Checked) -> Result<Self, FolderError> {
        let (runs, name) = (parent.join("runs"), default_name(config));
        let mut path = runs.join(&name);
        let mut number = 1_u64;
        loop {
            match Self::claim(&path, false, config) {
                Err(error) if error.is_taken() => {
                    number += 1;
                    path = runs.join(format!("{name}-{number}"));
                }
                claimed => return claimed,
            }
        }
    }

    /// Takes a folder for a run and writes `config.toml` into it: a new folder, an empty one, or with `force`
    /// one that holds a run and nothing else, whose files are set aside until the new run has started and are
    /// put back if it never does.
    ///
    /// # Errors
    /// A folder that holds something already, is in use, or cannot be made.
    pub fn claim(path: &Path, force: bool, config: &Checked) -> Result<Self, FolderError> {
        if path.exists() {
            // Whatever is refused is not touched, not even by a lock.
            if !path.is_dir() {
                return Err(FolderError::NotAFolder { path: path.to_owned() });
            }
            refuse_others(path, &Contents::of(path)?)?;
        }
        let missing =
            path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let created = missing.map(Path::to_owned).collect();
        let mut folder = Self { path: path.to_owned(), replaces: false, created, owned: false, lock: None };
        match folder.take(force, config) {
            Ok(()) => Ok(folder),
            Err(error) => {
                folder.abandon();
                Err(error)
            }
        }
    }

    fn take(&mut self, force: bool, config: &Checked) -> Result<(), FolderError> {
        let path = self.path.clone();
        self.lock = Some(make_and_lock(&path)?);
        if Contents::of(&path)?.aside {
            replace::recover(&path)?;
        }
        // Looked at again: until now another process may have changed it.
        let contents = Contents::of(&path)?;
        refuse_others(&path, &contents)?;
        remove_temporary(&path)?;
        if !contents.own.is_empty() {
            if !has_signed_config(&path) {
                return Err(FolderError::ForeignFiles { path });
            }
            if !force {
                return Err(FolderError::HoldsARun { path });
            }
            self.replaces = true;
            replace::set_aside(&path, &contents.own)?;
        }
        let text = format!("{SIGNATURE} {}.\n{}", env!("CARGO_PKG_VERSION"), commented(config)?);
        match write_new(&path.join(CONFIG), text.as_bytes()) {
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {
                Err(FolderError::JustTaken { path })
            }
            written => {
                self.owned = written.is_ok();
                Ok(written?)
            }
        }
    }

    /// Takes the folder of a run that stopped, to continue it. A replacement that was cut short ends first.
    ///
    /// # Errors
    /// A folder that holds no run, or one that another process works in.
    pub fn reopen(path: &Path) -> Result<Self, FolderError> {
        if !path.is_dir() {
            return Err(FolderError::Missing { path: path.to_owned() });
        }
        if !has_signed_config(path) && !has_signed_config(&path.join(ASIDE)) {
            return Err(FolderError::NoRun { path: path.to_owned() });
        }
        let lock = lock(path)?;
        if Contents::of(path)?.aside {
            replace::recover(path)?;
        }
        let contents = Contents::of(path)?;
        if let Some(link) = contents.link {
            return Err(FolderError::Link { path: link });
        }
        if !has_signed_config(path) {
            return Err(FolderError::NoRun { path: path.to_owned() });
        }
        remove_temporary(path)?;
        let lock = Some(lock);
        Ok(Self { path: path.to_owned(), replaces: false, created: Vec::new(), owned: true, lock })
    }

    /// Ends what a crash cut short in this folder. Of a replacement the run that was to be replaced is put back; of a
    /// complete run what only an unfinished one needs is removed, the key of private draws with it. Whoever reads a run
    /// calls this first; it costs two looks where there is nothing to do.
    ///
    /// # Errors
    /// A replacement in a folder that another process works in, or that cannot be changed.
    pub fn recover(path: &Path) -> Result<(), FolderError> {
        if path.join("summary.json").exists() && contents::has_leftovers(path) {
            match FolderLock::acquire(path) {
                Ok(Some(_lock)) => remove_leftovers(path)?,
                // Whoever holds it does so, or will.
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!("checkpoints of a complete run could not be removed: {error}");
                }
            }
        }
        if !fs::symlink_metadata(path.join(ASIDE)).is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        let _lock = lock(path)?;
        replace::recover(path)?;
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether what is written under the folder's name still goes into this folder.
    ///
    /// # Errors
    /// The folder was renamed or removed.
    pub(crate) fn check_held(&self) -> Result<(), FolderError> {
        match self.lock.as_ref().is_none_or(FolderLock::is_held) {
            true => Ok(()),
            false => Err(FolderError::Moved { path: self.path.clone() }),
        }
    }

    /// The run has started: what it replaces is removed.
    pub(crate) fn keep(&mut self) -> Result<(), FolderError> {
        if std::mem::take(&mut self.replaces) {
            replace::commit(&self.path)?;
        }
        Ok(())
    }

    /// What the folder held before, while it is set aside.
    pub(crate) fn replaced(&self) -> Option<PathBuf> {
        self.replaces.then(|| self.path.join(ASIDE))
    }

    /// The run never started: leaves everything as it was found. Best effort, because the error that led here is
    /// the one to report, and what does not succeed is done by whoever comes next.
    pub(crate) fn abandon(self) {
        if self.replaces {
            let _ = replace::roll_back(&self.path);
        } else if self.owned {
            let _ = remove_file(&self.path.join(CONFIG));
        }
        // Its file is in the folder.
        drop(self.lock);
        for folder in &self.created {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn default_name(config: &Checked) -> String {
    format!("{}-{}-s{}", config.method, data_label(config), config.seed)
}

/// A folder with anything but a run in it, or with links in a run's place, is nobody's to write into.
fn refuse_others(path: &Path, contents: &Contents) -> Result<(), FolderError> {
    if let Some(link) = &contents.link {
        return Err(FolderError::Link { path: link.clone() });
    }
    match &contents.foreign {
        // The folder itself may be a person's, named like a run's.
        Some(name) if name.contains('/') && !contents.aside && !has_signed_config(path) => {
            Err(FolderError::ForeignFiles { path: path.to_owned() })
        }
        Some(name) => Err(FolderError::ForeignEntry { path: path.to_owned(), name: name.clone() }),
        None => Ok(()),
    }
}

/// The lock of a folder that exists.
fn lock(path: &Path) -> Result<FolderLock, FolderError> {
    FolderLock::acquire(path)?.ok_or_else(|| FolderError::InUse { path: path.to_owned() })
}

/// Makes a folder where it is missing and locks it; again where another process removes it in between.
fn make_and_lock(path: &Path) -> Result<FolderLock, FolderError> {
    loop {
        if let Err(source) = fs::create_dir_all(path) {
            return Err(FolderError::CannotBeMade { path: path.to_owned(), source });
        }
        match lock(path) {
            Err(FolderError::Write(error)) if error.source.kind() == ErrorKind::NotFound => {}
            locked => return locked,
        }
    }
}
