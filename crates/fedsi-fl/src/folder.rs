//! The folder of a run: taken by one run, never by two, and left as it was found by a run that never starts.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::config::{Checked, commented};
use crate::files::write_new;
use crate::run::dataset_name;
use crate::{Config, RunError};

/// Everything a run writes into its folder.
const ENTRIES: [&str; 9] = [
    "config.toml",
    "metrics.jsonl",
    "summary.json",
    "predictions.safetensors",
    "exhibits.safetensors",
    "report.html",
    "plots",
    "checkpoint",
    "clients",
];

/// First words of a run's `config.toml`: what tells it from one that a person keeps in the same place.
const SIGNATURE: &str = "# Written by fedsi";

/// Prefix of what is there for moments only.
const HIDDEN: &str = ".fedsi-";

/// Where a run that is being replaced waits.
const ASIDE: &str = ".fedsi-replaced";

/// A folder that belongs to one run; its `config.toml` is written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Whether an older run waits aside.
    replaces: bool,
    /// The folders made for this run, innermost first.
    created: Vec<PathBuf>,
    /// Whether `config.toml` is this run's.
    owned: bool,
    /// Its `config.toml`, locked: no other process works here. The system lets go of it however this one ends.
    lock: Option<File>,
}

impl RunFolder {
    /// Takes `runs/<method>-<dataset>-<size>-s<seed>` below `parent`, with a number appended where that is
    /// taken.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn claim_default(parent: &Path, config: &Checked) -> Result<Self, RunError> {
        let (runs, name) = (parent.join("runs"), default_name(config));
        let mut path = runs.join(&name);
        let mut number = 1_u64;
        loop {
            match Self::claim(&path, false, config) {
                Err(RunError::OutputTaken { .. }) => {
                    number += 1;
                    path = runs.join(format!("{name}-{number}"));
                }
                claimed => return claimed,
            }
        }
    }

    /// Takes a folder for a run and writes `config.toml` into it: a new folder, an empty one, or with `force`
    /// one that holds a run and nothing else, whose files wait aside until the new run is under way and come
    /// back if it never starts.
    ///
    /// # Errors
    /// A folder that holds something already, or cannot be made.
    pub fn claim(path: &Path, force: bool, config: &Checked) -> Result<Self, RunError> {
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

    fn take(&mut self, force: bool, config: &Checked) -> Result<(), RunError> {
        let path = self.path.clone();
        let taken = |found: String, remedy| RunError::OutputTaken { path: path.clone(), found, remedy };
        let another = "choose another folder with --out";
        if path.exists() && !path.is_dir() {
            return Err(RunError::OutputUnusable { path, reason: "is no folder".to_owned() });
        }
        if let Err(error) = fs::create_dir_all(&path) {
            return Err(RunError::OutputUnusable { path, reason: format!("cannot be made ({error})") });
        }
        let entries = entries(&path)?;
        if let Some(foreign) = entries.iter().find(|name| !is_own(name)) {
            return Err(taken(format!("holds `{foreign}`, which is no part of a run"), another));
        }
        if entries.iter().any(|name| ENTRIES.contains(&name.as_str()) || name == ASIDE) {
            if !is_run(&path) {
                return Err(taken("holds files that fedsi did not write".to_owned(), another));
            }
            if !force {
                let remedy = "choose another folder with --out, or --force to replace it";
                return Err(taken("holds a run already".to_owned(), remedy));
            }
            // The one to be replaced must not be at work.
            drop(lock(&path)?);
            self.set_aside(&entries)?;
        }
        let text = format!("{SIGNATURE} {}.\n{}", env!("CARGO_PKG_VERSION"), commented(config)?);
        match write_new(&path.join("config.toml"), text.as_bytes()) {
            // Another run was quicker.
            Err(RunError::Write { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                Err(taken("was just taken by another run".to_owned(), another))
            }
            written => {
                self.owned = written.is_ok();
                written?;
                self.lock = lock(&path)?;
                Ok(())
            }
        }
    }

    /// Takes the folder of a run that stopped, to go on in it.
    ///
    /// # Errors
    /// A folder that holds no run, or one that another process works in.
    pub fn reopen(path: &Path) -> Result<Self, RunError> {
        let refused =
            |reason: &str| RunError::NotResumable { path: path.to_owned(), reason: reason.to_owned() };
        if !path.is_dir() {
            return Err(refused("is no folder of a run"));
        }
        if !is_run(path) {
            return Err(refused("holds no run that fedsi wrote; a run's folder has its config.toml"));
        }
        if !path.join("config.toml").exists() {
            let words = "holds a run that was being replaced when the process ended; start it anew with fedsi run --force";
            return Err(refused(words));
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
    fn set_aside(&mut self, entries: &[String]) -> Result<(), RunError> {
        let aside = self.path.join(ASIDE);
        // One that is there already is left of a replacement that a crash cut short: nothing newer is in it.
        fs::create_dir_all(&aside).map_err(RunError::write(&aside))?;
        self.replaces = true;
        for name in entries.iter().filter(|name| ENTRIES.contains(&name.as_str())) {
            let (from, to) = (self.path.join(name), aside.join(name));
            if to.is_dir() {
                fs::remove_dir_all(&to).map_err(RunError::write(&to))?;
            }
            fs::rename(&from, to).map_err(RunError::write(&from))?;
        }
        Ok(())
    }

    /// The run is under way: what it replaces goes.
    pub(crate) fn keep(&mut self) -> Result<(), RunError> {
        if std::mem::take(&mut self.replaces) {
            let aside = self.path.join(ASIDE);
            fs::remove_dir_all(&aside).map_err(RunError::write(&aside))?;
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

fn default_name(config: &Config) -> String {
    format!("{}-{}-s{}", config.method, data_label(config), config.seed)
}

/// The dataset and its size as part of a file's name, whatever the data is called.
#[must_use]
pub fn data_label(config: &Config) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let dataset: String = dataset_name(config).chars().map(plain).take(80).collect();
    format!("{dataset}-{}", config.data.size)
}

/// The lock on a run's config; none where there is no config, or where the file system knows no locks.
fn lock(path: &Path) -> Result<Option<File>, RunError> {
    let Ok(file) = File::open(path.join("config.toml")) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(RunError::OutputTaken {
            path: path.to_owned(),
            found: "is in use by another fedsi".to_owned(),
            remedy: "wait until it ends, or stop it",
        }),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn entries(path: &Path) -> Result<Vec<String>, RunError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(RunError::write(path))? {
        names.push(entry.map_err(RunError::write(path))?.file_name().to_string_lossy().into_owned());
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
