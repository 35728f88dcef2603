//! The folder of a run: taken by one run, never by two, and left as it was found by a run that never starts.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fedsi_fl::config::commented;
use fedsi_fl::{Checked, ConfigError};
use thiserror::Error;

use crate::files::{WriteError, write_failed, write_new};
use crate::naming::data_label;

/// Why a folder cannot be a run's. Each message is one line; what to do about it is for the program to say.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// There is a file of that name.
    #[error("{path} is not a folder", path = path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("{path} cannot be created ({source})", path = path.display())]
    CannotBeMade {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It cannot be looked into.
    #[error("{path} cannot be read ({source})", path = path.display())]
    CannotBeRead {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds something that no run writes.
    #[error("{path} holds `{name}`, which is not part of a run", path = path.display())]
    ForeignEntry {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        name: String,
    },
    /// It holds files named like a run's that no run wrote.
    #[error("{path} holds files that fedsi did not write", path = path.display())]
    ForeignFiles {
        /// The folder.
        path: PathBuf,
    },
    /// It holds a run, and replacing it was not requested.
    #[error("{path} holds a run already", path = path.display())]
    HoldsARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another run was quicker.
    #[error("{path} was just taken by another run", path = path.display())]
    JustTaken {
        /// The folder.
        path: PathBuf,
    },
    /// Another process works in it.
    #[error("{path} is in use by another fedsi; wait until it ends, or stop it", path = path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// There is no such folder to continue a run in.
    #[error("{path} is not the folder of a run", path = path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// It holds no run to continue.
    #[error("{path} holds no run that fedsi wrote; a run's folder has its config.toml", path = path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// A process ended while it replaced the run in it.
    #[error("{path} holds a run that was being replaced when the process ended", path = path.display())]
    HalfReplaced {
        /// The folder.
        path: PathBuf,
    },
    /// The config cannot be written as text.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl FolderError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Write(_))
    }

    /// Whether the folder belongs to something else: another one may do.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        matches!(
            self,
            Self::ForeignEntry { .. }
                | Self::ForeignFiles { .. }
                | Self::HoldsARun { .. }
                | Self::JustTaken { .. }
                | Self::InUse { .. }
        )
    }
}

/// Everything a run writes into its folder.
const ENTRIES: [&str; 10] = [
    "config.toml",
    "metrics.jsonl",
    "summary.json",
    "predictions.safetensors",
    "report_data.safetensors",
    // What 0.1 called it.
    "exhibits.safetensors",
    "report.html",
    "plots",
    "checkpoint",
    "clients",
];

/// First words of a run's `config.toml`: what tells it from one that a person keeps in the same place.
const SIGNATURE: &str = "# Written by fedsi";

/// Prefix of temporary files and folders.
const HIDDEN: &str = ".fedsi-";

/// Holds the files of a run that is being replaced, until the new one has started.
const ASIDE: &str = ".fedsi-replaced";

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
    /// Its `config.toml`, locked: no other process works here. The system releases the lock however this process ends.
    lock: Option<File>,
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
    /// A folder that holds something already, or cannot be made.
    pub fn claim(path: &Path, force: bool, config: &Checked) -> Result<Self, FolderError> {
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
        if path.exists() && !path.is_dir() {
            return Err(FolderError::NotAFolder { path });
        }
        if let Err(source) = fs::create_dir_all(&path) {
            return Err(FolderError::CannotBeMade { path, source });
        }
        let entries = entries(&path)?;
        if let Some(foreign) = entries.iter().find(|name| !is_own(name)) {
            let name = foreign.clone();
            return Err(FolderError::ForeignEntry { path, name });
        }
        if entries.iter().any(|name| ENTRIES.contains(&name.as_str()) || name == ASIDE) {
            if !is_run(&path) {
                return Err(FolderError::ForeignFiles { path });
            }
            if !force {
                return Err(FolderError::HoldsARun { path });
            }
            // The run to be replaced must not be running.
            drop(lock(&path)?);
            self.set_aside(&entries)?;
        }
        let text = format!("{SIGNATURE} {}.\n{}", env!("CARGO_PKG_VERSION"), commented(config)?);
        match write_new(&path.join("config.toml"), text.as_bytes()) {
            // Another run was quicker.
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {
                Err(FolderError::JustTaken { path })
            }
            written => {
                self.owned = written.is_ok();
                written?;
                self.lock = lock(&path)?;
                Ok(())
            }
        }
    }

    /// Takes the folder of a run that stopped, to continue it.
    ///
    /// # Errors
    /// A folder that holds no run, or one that another process works in.
    pub fn reopen(path: &Path) -> Result<Self, FolderError> {
        let owned = || path.to_owned();
        if !path.is_dir() {
            return Err(FolderError::Missing { path: owned() });
        }
        if !is_run(path) {
            return Err(FolderError::NoRun { path: owned() });
        }
        if !path.join("config.toml").exists() {
            return Err(FolderError::HalfReplaced { path: owned() });
        }
        let lock = lock(path)?;
        Ok(Self { path: path.to_owned(), replaces: false, created: Vec::new(), owned: true, lock })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the old run's files into a hidden folder within.
    fn set_aside(&mut self, entries: &[String]) -> Result<(), FolderError> {
        let aside = self.path.join(ASIDE);
        // A folder that is there already was left by a replacement that a crash cut short: it holds nothing newer.
        fs::create_dir_all(&aside).map_err(write_failed(&aside))?;
        self.replaces = true;
        for name in entries.iter().filter(|name| ENTRIES.contains(&name.as_str())) {
            let (from, to) = (self.path.join(name), aside.join(name));
            if to.is_dir() {
                fs::remove_dir_all(&to).map_err(write_failed(&to))?;
            }
            fs::rename(&from, to).map_err(write_failed(&from))?;
        }
        Ok(())
    }

    /// The run has started: what it replaces is removed.
    pub(crate) fn keep(&mut self) -> Result<(), FolderError> {
        if std::mem::take(&mut self.replaces) {
            let aside = self.path.join(ASIDE);
            fs::remove_dir_all(&aside).map_err(write_failed(&aside))?;
        }
        Ok(())
    }

    /// The run never started: leaves everything as it was found. Best effort, because the error that led here is
    /// the one to report.
    pub(crate) fn abandon(self) {
        if self.owned {
            let _ = fs::remove_file(self.path.join("config.toml"));
        }
        if self.replaces {
            let aside = self.path.join(ASIDE);
            for name in ENTRIES {
                let _ = fs::rename(aside.join(name), self.path.join(name));
            }
            let _ = fs::remove_dir(aside);
        }
        for folder in &self.created {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn default_name(config: &Checked) -> String {
    format!("{}-{}-s{}", config.method, data_label(config), config.seed)
}

/// The lock on a run's config; none where there is no config, or where the file system knows no locks.
fn lock(path: &Path) -> Result<Option<File>, FolderError> {
    let Ok(file) = File::open(path.join("config.toml")) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(FolderError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn entries(path: &Path) -> Result<Vec<String>, FolderError> {
    let unreadable = |source| FolderError::CannotBeRead { path: path.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn is_own(name: &str) -> bool {
    ENTRIES.contains(&name) || name.starts_with(HIDDEN)
}

/// Whether fedsi wrote the config there, or moved the one it had written aside.
fn is_run(path: &Path) -> bool {
    let signed = |config: PathBuf| fs::read(config).is_ok_and(|text| text.starts_with(SIGNATURE.as_bytes()));
    signed(path.join("config.toml")) || signed(path.join(ASIDE).join("config.toml"))
}
