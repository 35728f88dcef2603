//! Methods and seeds, and from them a config and a folder for every run, and which are done.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use fedsi_fl::methods::{METHODS, Method, find};
use fedsi_fl::{Checked, ConfigError};
use fedsi_run::settings::{DataPaths, first_difference, read_config};
use fedsi_run::{Origin, RunError, RunFolder, Summary, run_id};
use toml::Value;

use crate::CompareError;
use crate::external::ExternalMethod;
use crate::pool::FileDigests;

/// The user's settings with these keys laid over them.
pub type Settings<'a> = dyn Fn(&[(&str, Value)]) -> Result<Checked, ConfigError> + Sync + 'a;

/// The methods in a list with commas between, or `all`; in the order in which methods are always listed.
///
/// # Errors
/// An unknown name (with the nearest known one), one that is there twice, no name.
pub fn methods(list: &str) -> Result<Vec<&'static Method>, CompareError> {
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names == ["all"] {
        return Ok(METHODS.to_vec());
    }
    if names.is_empty() {
        return Err(CompareError::NoMethods);
    }
    let mut found: Vec<&'static str> = Vec::with_capacity(names.len());
    for name in names {
        let name = find(name)?.name;
        if found.contains(&name) {
            return Err(CompareError::Duplicate { name: name.to_owned() });
        }
        found.push(name);
    }
    Ok(METHODS.iter().copied().filter(|method| found.contains(&method.name)).collect())
}

/// The place of the method that the others are tested against: the one that is named (methods first, then other tools'
/// predictions); else `fedsi`, where it is compared, else the first. It does not depend on any result.
///
/// # Errors
/// An unknown name (with the nearest known one), or a method that is not compared.
pub(crate) fn reference(
    methods: &[&'static Method],
    external: &[ExternalMethod],
    wanted: Option<&str>,
) -> Result<usize, CompareError> {
    let place = |name: &str| methods.iter().position(|method| method.name == name);
    let Some(name) = wanted.map(str::trim) else { return Ok(place(DEFAULT_REFERENCE).unwrap_or(0)) };
    if let Some(found) = external.iter().position(|one| one.name == name) {
        return Ok(methods.len() + found);
    }
    let name = find(name)?.name;
    let names = methods.iter().map(|method| method.name).chain(external.iter().map(|one| one.name.as_str()));
    place(name).ok_or_else(|| CompareError::Reference {
        name: name.to_owned(),
        methods: names.collect::<Vec<_>>().join(", "),
    })
}

/// What others are tested against where nothing else is asked for.
const DEFAULT_REFERENCE: &str = "fedsi";

/// The most seeds of a comparison: each is a run of every method.
const MOST_SEEDS: usize = 100_000;

/// So many seeds from the first one on.
///
/// # Errors
/// No seeds, or more than there are or anybody can run.
pub fn seeds(first: u64, count: usize) -> Result<Vec<u64>, CompareError> {
    if count == 0 {
        return Err(CompareError::NoSeeds);
    }
    if count > MOST_SEEDS {
        return Err(CompareError::TooManySeeds { count, most: MOST_SEEDS });
    }
    let last = u64::try_from(count - 1).ok().and_then(|more| first.checked_add(more));
    match last.filter(|&last| i64::try_from(last).is_ok()) {
        Some(last) => Ok((first..=last).collect()),
        None => Err(CompareError::SeedRange { first, count }),
    }
}

/// One run of the comparison.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Its method.
    pub method: &'static Method,
    /// Its seed.
    pub seed: u64,
    /// Its complete settings.
    pub config: Checked,
    /// Its folder's name within that of the comparison.
    pub folder: String,
}

impl PlannedRun {
    /// The run of a method on a seed, with these values on top of the user's settings, in a folder named after both.
    ///
    /// # Errors
    /// Settings that no run can have.
    pub fn new(
        method: &'static Method,
        seed: u64,
        values: &[(&str, Value)],
        settings: &Settings<'_>,
    ) -> Result<Self, CompareError> {
        let config = settings(&[values, &identity(method, seed)].concat())?;
        Ok(Self { method, seed, config, folder: format!("{}-s{seed}", method.name) })
    }

    /// The same run in another folder.
    #[must_use]
    pub fn in_folder(self, folder: String) -> Self {
        Self { folder, ..self }
    }

    /// Its name in messages: its folder's.
    #[must_use]
    pub fn name(&self) -> String {
        self.folder.clone()
    }

    /// What its folder below `parent` holds. Keys in `undecided` may differ: they are not decided yet.
    ///
    /// # Errors
    /// A run with other settings that is finished or has come some way, or a summary that cannot be read, unless the run
    /// may be replaced.
    pub(crate) fn state(
        &self,
        parent: &Path,
        force: bool,
        undecided: &[&str],
        files: &FileDigests,
    ) -> Result<RunState, CompareError> {
        let path = parent.join(&self.folder);
        RunFolder::recover(&path)?;
        // A summary comes last: without one the run is not finished. One that is there and cannot be read may be of a
        // finished run: only `force` replaces that.
        let summary = match read_summary(&path.join("summary.json")) {
            Err(_) if force => return Ok(RunState::Missing),
            summary => summary?,
        };
        if !path.join("config.toml").exists() {
            return Ok(RunState::Missing);
        }
        if let Some(difference) = self.difference(&path, undecided) {
            return match summary {
                _ if force => Ok(RunState::Missing),
                Some(_) => Err(CompareError::Differs { path, difference }),
                None if has_come_some_way(&path) => Err(CompareError::UnfinishedDiffers { path, difference }),
                None => Ok(RunState::Missing),
            };
        }
        let origin = match Origin::read(&path) {
            Err(_) if force => return Ok(RunState::Missing),
            origin => origin.map_err(RunError::from)?,
        };
        let id = summary.as_ref().and_then(|summary| summary.run.as_ref());
        let data = match (&origin, id) {
            (Some(origin), Some(id)) if run_id(&self.config, origin).ok().as_ref() != Some(id) => {
                Err("its config.toml or run.json is not the one that it was made with".to_owned())
            }
            (Some(origin), _) => self.data_change(origin, files),
            (None, Some(_)) => Err("its run.json is gone, which says on which data it was made".to_owned()),
            (None, None) => Ok(Some("it does not say on which data it was made: reused as it is".to_owned())),
        };
        Ok(match (summary, data) {
            (_, Err(reason)) => RunState::Outdated { reason },
            (Some(summary), Ok(note)) => RunState::Finished { summary: Box::new(summary), note },
            (None, Ok(_)) => RunState::Unfinished,
        })
    }

    /// Whether a run was made on the data as it is now: what is to be said of that where nobody can know, or why not.
    fn data_change(&self, origin: &Origin, files: &FileDigests) -> Result<Option<String>, String> {
        match files.of(&self.config) {
            Ok(now) => match origin.data.changed_file(&now) {
                Some(change) => Err(format!("it was made on other data: {change}")),
                None => Ok(None),
            },
            Err(reason) => {
                Ok(Some(format!("its data cannot be compared with what it was made on: {reason}")))
            }
        }
    }

    fn difference(&self, path: &Path, undecided: &[&str]) -> Option<String> {
        let written = match read_config(path) {
            Ok(written) => written,
            Err(reason) => return Some(format!("its config.toml cannot be read ({reason})")),
        };
        first_difference(&written, &self.config, DataPaths::Compare, undecided)
            .unwrap_or_else(|error| Some(format!("its settings cannot be compared ({error})")))
    }
}

/// Whether rounds of an unfinished run are saved.
fn has_come_some_way(path: &Path) -> bool {
    let holds = |name: &str| fs::metadata(path.join(name)).is_ok_and(|file| file.len() > 0);
    let checkpoints = fs::read_dir(path.join("checkpoint")).is_ok_and(|mut entries| entries.next().is_some());
    checkpoints || holds("metrics.jsonl")
}

/// A run's summary; `None` where there is no such file.
pub(crate) fn read_summary(path: &Path) -> Result<Option<Summary>, CompareError> {
    let unreadable = |reason: String| CompareError::UnreadableSummary { path: path.to_owned(), reason };
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Method and seed as keys.
pub(crate) fn identity(method: &Method, seed: u64) -> [(&'static str, Value); 2] {
    let seed = Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX));
    [("method", Value::String(method.name.to_owned())), ("seed", seed)]
}

/// What a run's folder holds.
#[derive(Clone, Debug)]
pub(crate) enum RunState {
    /// The run that is planned, complete.
    Finished {
        /// What it says of itself.
        summary: Box<Summary>,
        /// What should be said of its data.
        note: Option<String>,
    },
    /// The run that is planned, begun: it can be resumed.
    Unfinished,
    /// The run that is planned, on data that has changed since: to be made again.
    Outdated {
        /// What changed.
        reason: String,
    },
    /// Nothing, or a run to be replaced.
    Missing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_data::Size;
    use fedsi_fl::Config;

    #[test]
    fn methods_are_listed_in_one_order() {
        let names = |list: &str| -> Vec<&str> { methods(list).unwrap().iter().map(|m| m.name).collect() };
        assert_eq!(names("fedavg, fedsi"), ["fedsi", "fedavg"]);
        assert_eq!(names("all").len(), METHODS.len());
        assert_eq!(names("FedAvg,FEDSI,LG-FedAvg"), ["fedsi", "fedavg", "lg-fedavg"]);
        assert!(methods("fedsi,FedSI").unwrap_err().to_string().contains("`fedsi` is listed twice"));
        assert!(methods("fedsy").unwrap_err().to_string().contains("did you mean `fedsi`?"));
        assert!(methods(" ,").unwrap_err().is_bad_input());
    }

    #[test]
    fn the_reference_is_named_or_ours() {
        let of = |list: &str, wanted| reference(&methods(list).unwrap(), &[], wanted);
        assert_eq!(of("fedavg,fedbabu,fedsi", None).unwrap(), 0);
        assert_eq!(methods("fedavg,fedbabu").unwrap()[of("fedavg,fedbabu", None).unwrap()].name, "fedavg");
        assert_eq!(of("fedavg,fedbabu,fedsi", Some(" fedbabu ")).unwrap(), 2);
        let error = of("fedavg,fedbabu", Some("fedper")).unwrap_err();
        assert!(error.is_bad_input());
        assert_eq!(
            error.to_string(),
            "the reference `fedper` is not among the methods compared: fedavg, fedbabu"
        );
        assert!(of("fedavg", Some("fedav")).unwrap_err().to_string().contains("did you mean `fedavg`?"));
    }

    /// Only an absent summary means a run that is not finished: a damaged one is named, and replaced by force alone.
    #[test]
    fn a_summary_that_cannot_be_read_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let settings = |_: &[(&str, Value)]| Config::defaults("fedavg", "digits", Size::Small)?.check();
        let run = PlannedRun::new(methods("fedavg").unwrap()[0], 1, &[], &settings).unwrap();
        let files = FileDigests::default();
        let state = |force| run.state(scratch.path(), force, &[], &files);
        assert!(matches!(state(false), Ok(RunState::Missing)), "there is no folder");
        let folder = scratch.path().join(&run.folder);
        fs::create_dir(&folder).unwrap();
        assert!(matches!(state(false), Ok(RunState::Missing)), "there is no summary");
        fs::write(folder.join("summary.json"), "{\"method\": \"fed").unwrap();
        let error = state(false).unwrap_err();
        assert!(error.is_bad_input());
        assert!(error.to_string().contains("fedavg-s1/summary.json cannot be read"), "{error}");
        assert!(matches!(state(true), Ok(RunState::Missing)), "it may be replaced");
    }

    #[test]
    fn seeds_go_up() {
        assert_eq!(seeds(4, 3).unwrap(), [4, 5, 6]);
        assert!(seeds(1, 0).is_err());
        assert!(seeds(i64::MAX as u64, 2).is_err());
    }
}
