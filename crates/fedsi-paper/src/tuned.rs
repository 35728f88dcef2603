//! What the search that is the same for every method chose: `tuned.toml`, made by `fedsi compare --tune` on seeds from 1 on,
//! which no table is made on. The trials behind it are in `experiments/tuning/`.

use std::sync::LazyLock;

use serde::Deserialize;
use toml::{Table, Value};

use crate::assignment::Assignment;

/// The file, which tests keep readable.
static TUNED: LazyLock<Table> =
    LazyLock::new(|| include_str!("../tuned.toml").parse().unwrap_or_else(|_| Table::new()));

/// A method's values on a dataset and size; none where it was not tuned there, and has its defaults.
#[must_use]
pub fn values(tuned_on: &str, method: &str) -> Vec<Assignment> {
    let found = TUNED.get(tuned_on).and_then(|section| section.get(method)).and_then(Value::as_table);
    found.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// How much a search tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Rounds of a trial.
    pub rounds: usize,
    /// Rounds of the trials that decided between the best of the search and the defaults; none where the search decided.
    pub finalist_rounds: Option<usize>,
    /// The seeds, from 1 on, whose mean score counted.
    pub seeds: usize,
}

/// The search on this dataset and size; none where nothing was tuned.
#[must_use]
pub fn search(tuned_on: &str) -> Option<Search> {
    TUNED.get("search")?.get(tuned_on)?.clone().try_into().ok()
}

impl Search {
    /// What was tried, for a sentence.
    #[must_use]
    pub fn about(self) -> String {
        let decided = match self.finalist_rounds {
            Some(rounds) => format!(", then the best trial against the defaults at {rounds}"),
            None => String::new(),
        };
        let seeds = match self.seeds {
            1 => "seed 1".to_owned(),
            count => format!("the mean of seeds 1 to {count}"),
        };
        format!("trials of {} rounds{decided}, {seeds}", self.rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{ENTRIES, Source};

    /// Each value is one that the search tries, of a method that the tables tune.
    #[test]
    fn the_file_holds_what_the_search_tries() {
        let file: Table = include_str!("../tuned.toml").parse().unwrap();
        assert!(!file.is_empty(), "tuned.toml is empty");
        for (set, methods) in file.iter().filter(|(set, _)| *set != "search") {
            let methods = methods.as_table().unwrap();
            for entry in ENTRIES.iter().filter(|entry| entry.source == Source::Tuned) {
                let found = methods.get(entry.method).and_then(Value::as_table);
                let found = found.unwrap_or_else(|| panic!("{set}: {} was not tuned", entry.method));
                let grid = fedsi_compare::tune::grid(entry.method().unwrap());
                for (key, value) in found {
                    let tried = grid.iter().filter(|(own, _)| own == key).flat_map(|(_, values)| values);
                    let value = value.as_float().unwrap();
                    assert!(
                        tried.clone().any(|tried| *tried == value),
                        "{set}: {} has {key} = {value}, which the search does not try",
                        entry.method
                    );
                }
            }
        }
    }

    /// The values with the lowest score among the trials of so many rounds (none: those of the search), in the mean over the
    /// seeds, on each of which they were tried.
    fn best_trial(method: &serde_json::Value, rounds: Option<usize>, seeds: usize) -> serde_json::Value {
        let mut scores: Vec<(serde_json::Value, Vec<f64>)> = Vec::new();
        for trial in method["trials"].as_array().unwrap() {
            if trial["rounds"].as_u64() != rounds.map(|rounds| rounds as u64) {
                continue;
            }
            let score = trial["held_out_nll"].as_f64().unwrap();
            match scores.iter_mut().find(|(values, _)| *values == trial["values"]) {
                Some((_, all)) => all.push(score),
                None => scores.push((trial["values"].clone(), vec![score])),
            }
        }
        assert!(scores.iter().all(|(_, all)| all.len() == seeds), "{}: not on {seeds} seeds", method["name"]);
        let sum = |all: &[f64]| all.iter().sum::<f64>();
        scores.into_iter().min_by(|a, b| sum(&a.1).total_cmp(&sum(&b.1))).unwrap().0
    }

    /// What is compiled in is what the trials that are written down chose.
    #[test]
    fn the_file_holds_what_the_trials_chose() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/tuning");
        let file: Table = include_str!("../tuned.toml").parse().unwrap();
        for (set, methods) in file.iter().filter(|(set, _)| *set != "search") {
            let trials = std::fs::read_to_string(folder.join(format!("{set}.json"))).unwrap();
            let trials: serde_json::Value = serde_json::from_str(&trials).unwrap();
            let search = search(set).unwrap_or_else(|| panic!("{set}: nothing is said of the search"));
            let number = |value: &serde_json::Value| value.as_u64().map(|number| number as usize);
            let tuning = &trials["tuning"];
            assert_eq!(number(&tuning["rounds"]), Some(search.rounds), "{set}");
            assert_eq!(number(&tuning["finalists"]["rounds"]), search.finalist_rounds, "{set}");
            assert_eq!(
                (number(&tuning["seed"]), number(&tuning["seeds"]).unwrap_or(1)),
                (Some(1), search.seeds),
                "{set}"
            );
            for found in trials["methods"].as_array().unwrap() {
                let name = found["name"].as_str().unwrap();
                let own = serde_json::to_value(&methods[name]).unwrap();
                assert_eq!(own, found["tuned"], "{set}: {name}");
                // Those for all rounds decide, where there are any.
                let best = best_trial(found, search.finalist_rounds, search.seeds);
                assert_eq!(best, found["tuned"], "{set}: {name} has not the best of the trials that decide");
            }
            for entry in ENTRIES.iter().filter(|entry| entry.source == Source::Short) {
                let all = trials["methods"].as_array().unwrap();
                let found = all.iter().find(|found| found["name"] == entry.method).unwrap();
                let own = serde_json::to_value(&methods[entry.id]).unwrap();
                let best = best_trial(found, None, search.seeds);
                assert_eq!(best, own, "{set}: {} has not the best of the trials of 200 rounds", entry.id);
            }
        }
    }
}
