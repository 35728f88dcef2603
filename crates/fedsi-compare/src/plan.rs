//! What is asked for: methods and seeds; from that a config and a folder for every run, and which are done.

use std::fs;
use std::path::{Path, PathBuf};

use fedsi_data::DatasetName;
use fedsi_fl::methods::{METHODS, Method, find};
use fedsi_fl::record::Summary;
use fedsi_fl::{Checked, Config, ConfigError};
use toml::{Table, Value};

use crate::CompareError;

/// A person's settings with these keys laid over them.
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
        let what = "--methods is empty; name methods with commas between, or `all`".to_owned();
        return Err(CompareError::Nothing { what });
    }
    for (index, name) in names.iter().enumerate() {
        find(name)?;
        if names[..index].contains(name) {
            return Err(CompareError::Duplicate { name: (*name).to_owned() });
        }
    }
    Ok(METHODS.iter().copied().filter(|method| names.contains(&method.name)).collect())
}

/// So many seeds from the first one on.
///
/// # Errors
/// No seeds, or more than there are.
pub(crate) fn seeds(first: u64, count: usize) -> Result<Vec<u64>, CompareError> {
    let nothing = |what: String| CompareError::Nothing { what };
    if count == 0 {
        return Err(nothing("--seeds 0 compares nothing; ask for at least 1, better 3".to_owned()));
    }
    let last = u64::try_from(count - 1).ok().and_then(|more| first.checked_add(more));
    match last.filter(|&last| i64::try_from(last).is_ok()) {
        Some(last) => Ok((first..=last).collect()),
        None => Err(nothing(format!("--seeds {count} from seed {first} on: seeds end at 2^63 - 1"))),
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
    /// The run of a method on a seed, with these values on top of the person's settings.
    pub(crate) fn new(
        method: &'static Method,
        seed: u64,
        values: &[(&str, Value)],
        settings: &Settings<'_>,
    ) -> Result<Self, CompareError> {
        let config = settings(&[values, &identity(method, seed)].concat())?;
        Ok(Self { method, seed, config, folder: format!("{}-s{seed}", method.name) })
    }

    /// What a person calls it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} s{}", self.method.name, self.seed)
    }

    /// What its folder below `parent` holds. Keys in `open` may differ: they are not decided yet.
    ///
    /// # Errors
    /// A finished run with other settings, unless it may be replaced.
    pub(crate) fn state(&self, parent: &Path, force: bool, open: &[&str]) -> Result<State, CompareError> {
        let path = parent.join(&self.folder);
        // A summary comes last: without a whole one the run is not finished.
        let summary = fs::read(path.join("summary.json")).ok();
        let Some(summary) = summary.and_then(|bytes| serde_json::from_slice::<Summary>(&bytes).ok()) else {
            return Ok(State::Missing);
        };
        // A run without its config was being replaced when the process was killed.
        if !path.join("config.toml").exists() {
            return Ok(State::Missing);
        }
        match self.difference(&path, open) {
            None => {
                if summary.version != env!("CARGO_PKG_VERSION") {
                    tracing::warn!("{} was made by fedsi {}", path.display(), summary.version);
                }
                Ok(State::Finished(Box::new(summary)))
            }
            Some(_) if force => Ok(State::Missing),
            Some(difference) => Err(CompareError::Differs { path, difference }),
        }
    }

    /// Whether its folder holds just this run, begun and not finished: it can go on.
    pub(crate) fn was_begun(&self, parent: &Path) -> bool {
        let path = parent.join(&self.folder);
        !path.join("summary.json").exists()
            && path.join("config.toml").exists()
            && self.difference(&path, &[]).is_none()
    }

    fn difference(&self, path: &Path, open: &[&str]) -> Option<String> {
        let written = match read_config(&path.join("config.toml")) {
            Ok(written) => written,
            Err(reason) => return Some(format!("its config.toml cannot be read ({reason})")),
        };
        first_difference(&settings_table(&written), &settings_table(&self.config), "", open)
    }
}

/// Method and seed as keys.
pub(crate) fn identity(method: &Method, seed: u64) -> [(&'static str, Value); 2] {
    let seed = Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX));
    [("method", Value::String(method.name.to_owned())), ("seed", seed)]
}

/// What a run's folder holds.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// The run that is planned, complete.
    Finished(Box<Summary>),
    /// Nothing, half a run, or one to be replaced.
    Missing,
}

fn read_config(path: &PathBuf) -> Result<Config, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    toml::from_str(&text).map_err(|error| error.message().replace('\n', " "))
}

/// The settings that decide what a run gives: not its threads and checkpoints, nor a data folder that is never looked
/// into.
pub(crate) fn settings_table(config: &Config) -> Table {
    let mut config = config.clone();
    config.threads = 0;
    config.checkpoint = fedsi_fl::config::CheckpointConfig::defaults();
    if config.data.dataset == DatasetName::Digits {
        config.data.dir = PathBuf::new();
    }
    // A config that was read or checked can be written.
    Table::try_from(&config).unwrap_or_default()
}

/// The first key in which two tables differ, with both values.
pub(crate) fn first_difference(there: &Table, here: &Table, prefix: &str, open: &[&str]) -> Option<String> {
    let mut keys: Vec<&String> = here.keys().collect();
    keys.extend(there.keys().filter(|key| !here.contains_key(*key)));
    keys.into_iter().find_map(|key| {
        let whole = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (there.get(key), here.get(key)) {
            (Some(Value::Table(there)), Some(Value::Table(here))) => {
                first_difference(there, here, &whole, open)
            }
            (there, here) if there == here || open.contains(&whole.as_str()) => None,
            (there, here) => {
                let text = |value: Option<&Value>| value.map_or("not set".to_owned(), Value::to_string);
                Some(format!("`{whole}` is {} there and {} here", text(there), text(here)))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_listed_in_one_order() {
        let names = |list: &str| -> Vec<&str> { methods(list).unwrap().iter().map(|m| m.name).collect() };
        assert_eq!(names("fedavg, fedsi"), ["fedsi", "fedavg"]);
        assert_eq!(names("all").len(), METHODS.len());
        assert!(methods("fedsi,fedsi").unwrap_err().to_string().contains("twice"));
        assert!(methods("fedsy").unwrap_err().to_string().contains("did you mean `fedsi`?"));
        assert!(methods(" ,").unwrap_err().is_bad_input());
    }

    #[test]
    fn seeds_go_up() {
        assert_eq!(seeds(4, 3).unwrap(), [4, 5, 6]);
        assert!(seeds(1, 0).is_err());
        assert!(seeds(i64::MAX as u64, 2).is_err());
    }

    #[test]
    fn the_first_difference_is_named_with_both_values() {
        let table = |text: &str| text.parse::<Table>().unwrap();
        let (one, other) = (table("a = 1\n[b]\nc = 2\nd = 3"), table("a = 1\n[b]\nc = 5\nd = 6"));
        assert_eq!(first_difference(&one, &other, "", &[]).unwrap(), "`b.c` is 2 there and 5 here");
        assert_eq!(first_difference(&one, &other, "", &["b.c"]).unwrap(), "`b.d` is 3 there and 6 here");
        assert_eq!(first_difference(&one, &one, "", &[]), None);
    }
}
