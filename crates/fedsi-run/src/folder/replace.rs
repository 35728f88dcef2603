//! Replacing a run: its files are set aside, and removed once the new run has started.
//!
//! | step | after a crash |
//! |---|---|
//! | `config.toml` is moved into `.fedsi-replaced`, then everything else | the old run is put back |
//! | the new `config.toml` is written, the data opened | the old run is put back |
//! | `config.toml` in `.fedsi-replaced` is removed | the new run stands, and can be resumed |
//! | everything else in it is removed | the new run stands, the rest is removed |
//!
//! Each decides by one rename or removal, and only whoever holds the folder's lock takes any of these steps.

use std::fs;
use std::path::Path;

use super::FolderError;
use super::contents::{CONFIG, has_config, names, remove_run};
use crate::files::{Readers, WriteError, create_folder, remove_empty_folder, remove_file_for_good, rename};

/// Holds the files of a run that is being replaced, until the new one has started.
pub(super) const ASIDE: &str = ".fedsi-replaced";

/// Moves a run's files into a hidden folder within its own: its config first, which says that all of it belongs there.
pub(super) fn set_aside(path: &Path, own: &[&str]) -> Result<(), WriteError> {
    let aside = path.join(ASIDE);
    create_folder(&aside, Readers::Owner)?;
    for name in names().filter(|name| own.contains(name)) {
        rename(&path.join(name), &aside.join(name))?;
    }
    Ok(())
}

/// The new run has started: the old one is gone from here on, and its files are removed.
pub(super) fn commit(path: &Path) -> Result<(), WriteError> {
    let aside = path.join(ASIDE);
    remove_file_for_good(&aside.join(CONFIG))?;
    remove_run(&aside)
}

/// The new run never started: what was set aside is put back, its config last, which says that all of it is there.
pub(super) fn roll_back(path: &Path) -> Result<(), WriteError> {
    let aside = path.join(ASIDE);
    if fs::symlink_metadata(aside.join(CONFIG)).is_ok() {
        remove_file_for_good(&path.join(CONFIG))?;
        for name in names().rev() {
            let from = aside.join(name);
            if fs::symlink_metadata(&from).is_ok() {
                rename(&from, &path.join(name))?;
            }
        }
    }
    remove_empty_folder(&aside);
    Ok(())
}

/// Ends a replacement that a crash cut short. Says whether an old run was put back.
pub(super) fn recover(path: &Path) -> Result<bool, FolderError> {
    let aside = path.join(ASIDE);
    if has_config(&aside)? {
        roll_back(path)?;
        tracing::warn!(
            "{}: a process that was replacing the run in it was stopped; the run is back as it was",
            path.display()
        );
        return Ok(true);
    }
    // Without its config it was given up already.
    remove_run(&aside)?;
    Ok(false)
}
