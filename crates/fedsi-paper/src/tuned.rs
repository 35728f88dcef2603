//! What the search that is the same for every method chose: `tuned.toml`, made by `fedsi compare --tune` on seed 1, which
//! no table is made on. The trials behind it are in `experiments/tuning/`.

use std::sync::LazyLock;

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

/// Whether anything was tuned on this dataset and size.
#[must_use]
pub fn is_tuned(tuned_on: &str) -> bool {
    TUNED.contains_key(tuned_on)
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
        for (set, methods) in &file {
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

    /// The values of the trial with the lowest score among these.
    fn best_trial(
        method: &serde_json::Value,
        wanted: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let trials = method["trials"].as_array().unwrap().iter().filter(|trial| wanted(trial));
        let score = |trial: &serde_json::Value| trial["held_out_nll"].as_f64().unwrap();
        trials.min_by(|a, b| score(a).total_cmp(&score(b))).unwrap()["values"].clone()
    }

    /// What is compiled in is what the trials that are written down chose.
    #[test]
    fn the_file_holds_what_the_trials_chose() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/tuning");
        let file: Table = include_str!("../tuned.toml").parse().unwrap();
        for (set, methods) in &file {
            let trials = std::fs::read_to_string(folder.join(format!("{set}.json"))).unwrap();
            let trials: serde_json::Value = serde_json::from_str(&trials).unwrap();
            for found in trials["methods"].as_array().unwrap() {
                let name = found["name"].as_str().unwrap();
                let own = serde_json::to_value(&methods[name]).unwrap();
                assert_eq!(own, found["tuned"], "{set}: {name}");
                // Those for all rounds decide.
                let best = best_trial(found, |trial| trial["rounds"] == 800);
                assert_eq!(
                    best, found["tuned"],
                    "{set}: {name} has not the best of the trials of 800 rounds"
                );
            }
            for entry in ENTRIES.iter().filter(|entry| entry.source == Source::Short) {
                let all = trials["methods"].as_array().unwrap();
                let found = all.iter().find(|found| found["name"] == entry.method).unwrap();
                let own = serde_json::to_value(&methods[entry.id]).unwrap();
                let best = best_trial(found, |trial| trial["rounds"].is_null());
                assert_eq!(best, own, "{set}: {} has not the best of the trials of 200 rounds", entry.id);
            }
        }
    }
}
