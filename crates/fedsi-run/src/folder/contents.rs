//! Which files in a folder are a run's: nothing else there is ever changed.

use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use super::FolderError;
use super::replace::ASIDE;
use crate::files::{WriteError, is_temporary, remove_empty_folder, remove_file, remove_temporary_in};
use crate::lock::LOCK;

/// What tells a run's folder from any other, and is written first.
pub(crate) const CONFIG: &str = "config.toml";

/// First words of a run's `config.toml`: what tells it from one that a person keeps in the same place.
pub(super) const SIGNATURE: &str = "# Written by fedsi";

/// A run's files.
const FILES: [&str; 11] = [
    CONFIG,
    "run.json",
    "metrics.jsonl",
    "summary.json",
    "predictions.safetensors",
    "predictions.csv",
    "data.json",
    "report_data.safetensors",
    // What 0.1 called it.
    "exhibits.safetensors",
    "report.html",
    // Written by `fedsi ood`, into a complete run.
    "ood.json",
];

/// A run's folders, in which all files are its own.
const FOLDERS: [&str; 3] = ["checkpoint", "clients", "plots"];

/// The plots of a run's page, each an SVG and a PNG, and a PDF where it was asked for: fedsi-report draws no others.
pub const RUN_PLOTS: [&str; 15] = [
    "bytes",
    "clients",
    "entropy",
    "error-by-deviation",
    "held-out",
    "interval-coverage",
    "learning-curve",
    "partition",
    "reliability",
    "residuals",
    "risk-coverage",
    "seconds",
    "subnetwork-layers",
    "subnetwork-map",
    "subnetwork-overlap",
];

/// Whether a run writes a file of this name into this folder of its own.
fn is_file_of(folder: &str, name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match folder {
        "clients" => name.strip_suffix(".safetensors").is_some_and(number),
        "checkpoint" => {
            let round = name.strip_prefix("round-").and_then(|rest| rest.strip_suffix(".fedsi"));
            name == "server.safetensors" || name == crate::evaluation_log::FILE || round.is_some_and(number)
        }
        "plots" => {
            let plot = [".svg", ".png", ".pdf"].iter().find_map(|end| name.strip_suffix(end));
            plot.is_some_and(|plot| RUN_PLOTS.contains(&plot))
        }
        _ => false,
    }
}

/// What a folder holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The names of a run's files and folders that are there.
    pub(super) own: Vec<&'static str>,
    /// Something else, as a path within the folder: the first by name.
    pub(super) foreign: Option<String>,
    /// The first symbolic link among the run's own names.
    pub(super) link: Option<PathBuf>,
    /// Whether a run that is being replaced is set aside here.
    pub(super) aside: bool,
}

impl Contents {
    /// Looks at a folder and at a run's folders in it. Costs their names.
    pub(super) fn of(path: &Path) -> Result<Self, FolderError> {
        let mut all = Self::default();
        let mut foreign = Vec::new();
        for (name, kind) in entries(path)? {
            let place = path.join(&name);
            if name == LOCK {
                if !kind.is_file() {
                    all.link.get_or_insert(place);
                }
                continue;
            }
            if name == ASIDE {
                match kind.is_dir() {
                    true => all.aside = true,
                    false => drop(all.link.get_or_insert(place)),
                }
            } else if is_temporary(&name) && kind.is_file() {
                // Nobody's: removed by whoever holds the lock.
            } else if let Some(own) = FILES.iter().find(|&&own| own == name) {
                all.add(own, kind, FileType::is_file, place, &mut foreign);
            } else if let Some(own) = FOLDERS.iter().find(|&&own| own == name) {
                all.add(own, kind, FileType::is_dir, place.clone(), &mut foreign);
                if kind.is_dir() {
                    all.look_into(own, &place, &mut foreign)?;
                }
            } else {
                foreign.push(name);
            }
        }
        all.foreign = foreign.into_iter().min();
        Ok(all)
    }

    fn add(
        &mut self,
        own: &'static str,
        kind: FileType,
        expected: fn(&FileType) -> bool,
        place: PathBuf,
        foreign: &mut Vec<String>,
    ) {
        if kind.is_symlink() {
            self.link.get_or_insert(place);
        } else if expected(&kind) {
            self.own.push(own);
        } else {
            foreign.push(own.to_owned());
        }
    }

    fn look_into(&mut self, own: &str, place: &Path, foreign: &mut Vec<String>) -> Result<(), FolderError> {
        for (name, kind) in entries(place)? {
            if is_temporary(&name) && kind.is_file() {
                continue;
            }
            if kind.is_symlink() && is_file_of(own, &name) {
                self.link.get_or_insert(place.join(name));
            } else if !kind.is_file() || !is_file_of(own, &name) {
                foreign.push(format!("{own}/{name}"));
            }
        }
        Ok(())
    }
}

/// What only an unfinished run needs: its checkpoints and its record of evaluated clients.
fn leftovers(path: &Path) -> Vec<PathBuf> {
    let folder = path.join("checkpoint");
    let names = entries(&folder).unwrap_or_default().into_iter();
    let own = names.filter(|(name, kind)| kind.is_file() && is_file_of("checkpoint", name));
    own.filter(|(name, _)| name != "server.safetensors").map(|(name, _)| folder.join(name)).collect()
}

/// Whether anything is left that only an unfinished run needs.
pub(super) fn has_leftovers(path: &Path) -> bool {
    !leftovers(path).is_empty()
}

/// Removes what only an unfinished run needs: all that can be removed, whichever cannot.
pub(crate) fn remove_leftovers(path: &Path) -> Result<(), WriteError> {
    leftovers(path).iter().map(|file| remove_file(file)).fold(Ok(()), Result::and)
}

/// Removes temporary files of killed processes from the folder of a run or comparison. Only whoever holds its lock may.
///
/// # Errors
/// A file that cannot be removed.
pub fn remove_temporary(path: &Path) -> Result<(), WriteError> {
    remove_temporary_in(path)?;
    FOLDERS.iter().try_for_each(|name| remove_temporary_in(&path.join(name)))
}

/// The names in a folder and what they are, links not followed, in the order of names.
fn entries(path: &Path) -> Result<Vec<(String, FileType)>, FolderError> {
    let unreadable = |source| FolderError::CannotBeRead { path: path.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push((name, entry.file_type().map_err(unreadable)?));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The names of everything a run may have at the top of its folder, its config first.
pub(super) fn names() -> impl DoubleEndedIterator<Item = &'static str> {
    FILES.into_iter().chain(FOLDERS)
}

/// Removes a run's files from a folder, and then the folder; what is not a run's stays, and is named in the log.
pub(super) fn remove_run(path: &Path) -> Result<(), WriteError> {
    for name in FILES {
        remove_file(&path.join(name))?;
    }
    for folder in FOLDERS {
        let place = path.join(folder);
        if !fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        for (name, kind) in entries(&place).unwrap_or_default() {
            if kind.is_file() && (is_file_of(folder, &name) || is_temporary(&name)) {
                remove_file(&place.join(name))?;
            }
        }
        remove_empty_folder(&place);
    }
    remove_empty_folder(path);
    if path.exists() {
        tracing::warn!("{} holds files that are not a run's: they stay there", path.display());
    }
    Ok(())
}

/// Whether fedsi wrote the config in this folder.
pub(crate) fn has_signed_config(path: &Path) -> bool {
    fs::read(path.join(CONFIG)).is_ok_and(|text| text.starts_with(SIGNATURE.as_bytes()))
}

/// Whether a config is in this folder, whoever wrote it. One that cannot be looked at is no reason to say no.
pub(super) fn has_config(path: &Path) -> Result<bool, FolderError> {
    let path = path.join(CONFIG);
    path.try_exists().map_err(|source| FolderError::CannotBeRead { path, source })
}
