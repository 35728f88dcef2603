//! The runs and comparisons below a folder, as far as their files tell: nothing is changed, and nothing that is not fedsi's
//! is an error.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fedsi_fl::scores::Scores;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::folder::has_signed_config;
use crate::lock::LOCK;
use crate::naming::dataset_name;
use crate::settings::read_config;

/// Folders below folders that are looked into.
const DEPTH: usize = 6;

/// A run or a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its folder.
    pub folder: PathBuf,
    /// run or comparison.
    pub kind: &'static str,
    /// The method's name; of a comparison all of them.
    pub methods: Vec<String>,
    /// The dataset's name.
    pub dataset: Option<String>,
    /// The seed; of a comparison all of them.
    pub seeds: Vec<u64>,
    /// Rounds that were asked for.
    pub rounds: Option<u64>,
    /// How far it is.
    #[serde(flatten)]
    pub state: State,
    /// The scores of a complete run; of a comparison none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<Scores>,
    /// When its newest file that says so was written: seconds since 1970.
    pub seconds: Option<u64>,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum State {
    /// All its files are there.
    Complete,
    /// A process works on it.
    Running {
        /// Rounds that are done.
        round: u64,
    },
    /// It can be resumed.
    Stopped {
        /// Rounds that are done.
        round: u64,
    },
    /// It can be neither used nor resumed.
    Broken {
        /// Why.
        reason: String,
    },
}

/// What of `summary.json` is needed, of any version.
#[derive(Deserialize)]
struct SummaryOutline {
    method: String,
    dataset: String,
    seed: u64,
    rounds: u64,
    #[serde(flatten)]
    scores: Scores,
}

/// Everything below a folder, by path; the runs of a comparison are not listed one by one, unless it is the folder
/// itself. Symbolic links and hidden folders are not followed, nor what cannot be read. Costs a look at every folder, and the
/// summary or config of every run.
#[must_use]
pub fn list_runs(folder: &Path) -> Vec<Listed> {
    let mut found = Vec::new();
    match look_at(folder) {
        Some(run) if run.kind == "run" => found.push(run),
        _ => descend(folder, DEPTH, &mut found),
    }
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    found
}

fn descend(folder: &Path, depth: usize, found: &mut Vec<Listed>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        match look_at(&entry.path()) {
            Some(one) => found.push(one),
            None if depth > 1 => descend(&entry.path(), depth - 1, found),
            None => {}
        }
    }
}

/// The run or comparison that a folder is.
fn look_at(folder: &Path) -> Option<Listed> {
    if has_signed_config(folder) || folder.join("summary.json").is_file() {
        return Some(run(folder));
    }
    comparison(folder)
}

fn run(folder: &Path) -> Listed {
    let summary = folder.join("summary.json");
    let empty = Listed {
        folder: folder.to_owned(),
        kind: "run",
        methods: Vec::new(),
        dataset: None,
        seeds: Vec::new(),
        rounds: None,
        state: State::Complete,
        scores: None,
        seconds: written(&summary),
    };
    let broken = |reason: String| State::Broken { reason };
    if summary.is_file() {
        let parsed = fs::read(&summary).map_err(|error| error.to_string());
        let parsed = parsed
            .and_then(|text| serde_json::from_slice(&text).map_err(|error| format!("summary.json: {error}")));
        return match parsed {
            Err(reason) => Listed { state: broken(reason), ..empty },
            Ok(SummaryOutline { method, dataset, seed, rounds, scores }) => Listed {
                methods: vec![method],
                dataset: Some(dataset),
                seeds: vec![seed],
                rounds: Some(rounds),
                state: State::Complete,
                scores: Some(scores),
                ..empty
            },
        };
    }
    let metrics = folder.join("metrics.jsonl");
    let empty =
        Listed { seconds: written(&metrics).or_else(|| written(&folder.join("config.toml"))), ..empty };
    match read_config(folder) {
        Err(error) => Listed { state: broken(error.to_string()), ..empty },
        Ok(config) => {
            let round = last_round(&metrics);
            let (methods, seeds) = (vec![config.method.clone()], vec![config.seed]);
            let (rounds, dataset) = (Some(config.rounds as u64), config.data.dataset.as_str().to_owned());
            // Settings that cannot be used have no data: then it is what they call it.
            let dataset = config.check().map_or(dataset, |config| dataset_name(&config));
            Listed {
                methods,
                dataset: Some(dataset),
                seeds,
                rounds,
                state: if is_locked(folder) { State::Running { round } } else { State::Stopped { round } },
                ..empty
            }
        }
    }
}

/// A folder with a `compare.json` that has methods and seeds.
fn comparison(folder: &Path) -> Option<Listed> {
    let path = folder.join("compare.json");
    let content: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let names = content["methods"].as_array()?.iter().filter_map(|method| method["name"].as_str());
    let seeds = content["seeds"].as_array()?.iter().filter_map(Value::as_u64);
    Some(Listed {
        folder: folder.to_owned(),
        kind: "comparison",
        methods: names.map(str::to_owned).collect(),
        dataset: content["dataset"].as_str().map(str::to_owned),
        seeds: seeds.collect(),
        rounds: content["rounds"].as_u64(),
        state: State::Complete,
        scores: None,
        seconds: written(&path),
    })
}

/// The last round that a record speaks of; a last line that is cut short does not count.
fn last_round(metrics: &Path) -> u64 {
    let text = fs::read_to_string(metrics).unwrap_or_default();
    let round = |line: &str| serde_json::from_str::<Value>(line).ok()?["round"].as_u64();
    text.lines().rev().find_map(round).unwrap_or(0)
}

/// Whether a process holds the folder's lock. Looked at for a moment, by a lock that others can share.
fn is_locked(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn written(path: &Path) -> Option<u64> {
    let modified: SystemTime = fs::metadata(path).ok()?.modified().ok()?;
    Some(modified.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_fedsis_is_passed_over() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("notes/config.toml", "mine = true");
        write("notes/compare.json", "[1, 2]");
        write("a.txt", "text");
        write(".hidden/summary.json", "{}");
        write("deep/er/broken/summary.json", "{");
        write(
            "deep/whole/summary.json",
            r#"{"method": "fedsi", "dataset": "d", "seed": 3, "rounds": 5, "rmse": 1.5, "mae": 1.0, "nll": 2.0,
                "coverage_50": null, "coverage_80": null, "coverage_90": null, "coverage_95": null}"#,
        );
        write(
            "c/compare.json",
            r#"{"methods": [{"name": "x"}, {"name": "y"}], "seeds": [1, 2], "rounds": 4}"#,
        );
        write("c/x-s1/summary.json", "{");
        let found = list_runs(scratch.path());
        let names: Vec<String> = found
            .iter()
            .map(|one| one.folder.strip_prefix(scratch.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["c", "deep/er/broken", "deep/whole"]);
        assert_eq!((found[0].kind, found[0].methods.len(), found[0].seeds.len()), ("comparison", 2, 2));
        assert!(matches!(found[1].state, State::Broken { .. }), "{:?}", found[1]);
        assert_eq!((found[2].seeds.as_slice(), &found[2].state), (&[3][..], &State::Complete));
        assert_eq!(
            list_runs(&scratch.path().join("c")).len(),
            1,
            "the runs of a comparison, where it is asked for"
        );
        assert_eq!(list_runs(&scratch.path().join("deep/whole")).len(), 1, "a run itself");
        assert!(list_runs(&scratch.path().join("nowhere")).is_empty());
    }
}
