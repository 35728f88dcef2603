//! A look at what a data folder holds.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::catalogue::{CIFAR_BATCHES, CIFAR_FOLDER, IDX_FILES, entry};
use crate::error::{DataError, shown};
use crate::fetch::unpack::SUMS;
use crate::fetch::verify;
use crate::read::{cifar, idx};
use crate::spec::DatasetName;

/// What is in a dataset's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The dataset.
    pub dataset: DatasetName,
    /// Its folder.
    pub folder: PathBuf,
    /// The shape of one input.
    pub input_shape: Vec<usize>,
    /// Training and test samples, as far as they can be read.
    pub splits: Vec<SplitReport>,
    /// Whether every file has the official bytes; `None` where that cannot be known.
    pub official: Option<bool>,
    /// What keeps the dataset from being opened, one line each; empty: nothing.
    pub problems: Vec<String>,
}

/// The samples of an official split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitReport {
    /// "train" or "test".
    pub name: &'static str,
    /// How many samples.
    pub samples: usize,
    /// How many of each class.
    pub per_class: Vec<usize>,
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match self.official {
            Some(true) => "official bytes",
            Some(false) => "not the official bytes",
            None => "origin unknown",
        };
        let state = if self.problems.is_empty() { bytes } else { "cannot be used" };
        write!(f, "{}: {} in {}", self.dataset, state, shown(&self.folder))?;
        for split in &self.splits {
            let shape: Vec<String> = self.input_shape.iter().map(ToString::to_string).collect();
            let counts: Vec<String> = split.per_class.iter().map(ToString::to_string).collect();
            write!(f, "\n  {:<5} {} samples of {}", split.name, split.samples, shape.join("x"))?;
            write!(f, "\n        per class {}", counts.join(" "))?;
        }
        for problem in &self.problems {
            write!(f, "\n  problem: {problem}")?;
        }
        Ok(())
    }
}

/// Reads every known dataset found in a data folder. Problems are reported, never an error; no report where no
/// dataset is there. Costs reading everything once or twice.
#[must_use]
pub fn check(dir: &Path) -> Vec<CheckReport> {
    [DatasetName::Mnist, DatasetName::FashionMnist, DatasetName::Cifar10]
        .into_iter()
        .filter(|dataset| dir.join(dataset.as_str()).is_dir())
        .map(
            |dataset| {
                if dataset == DatasetName::Cifar10 { check_cifar(dir) } else { check_idx(dataset, dir) }
            },
        )
        .collect()
}

fn new_report(dataset: DatasetName, folder: PathBuf) -> CheckReport {
    let input_shape = entry(dataset).input_shape.to_vec();
    CheckReport { dataset, folder, input_shape, splits: Vec::new(), official: None, problems: Vec::new() }
}

fn count(name: &'static str, labels: &[u32]) -> SplitReport {
    let mut per_class = vec![0; 10];
    for &label in labels {
        if let Some(count) = per_class.get_mut(label as usize) {
            *count += 1;
        }
    }
    SplitReport { name, samples: labels.len(), per_class }
}

fn check_idx(dataset: DatasetName, dir: &Path) -> CheckReport {
    let folder = dir.join(dataset.as_str());
    let mut report = new_report(dataset, folder.clone());
    for (name, files) in ["train", "test"].into_iter().zip(IDX_FILES) {
        let [images, labels] = files.map(|file| {
            idx::locate(&folder, file).ok_or_else(|| DataError::MissingDataset {
                dataset,
                dir: dir.to_path_buf(),
                missing: folder.join(file),
            })
        });
        let read = images.and_then(|images| Ok((idx::read_labelled(&images, &labels?, 10)?, images)));
        match read {
            Ok((part, images)) => {
                let [height, width] = part.size;
                if part.size != [28, 28] {
                    report
                        .problems
                        .push(format!("{}: images of {height} x {width}, expected 28 x 28", shown(&images)));
                }
                report.splits.push(count(name, &part.labels));
            }
            Err(error) => report.problems.push(error.to_string()),
        }
    }
    if report.problems.is_empty() {
        report.official = entry(dataset).files.iter().try_fold(true, |all, file| {
            let (_, right) = verify::is_there(file, &folder).ok()??;
            Some(all && right)
        });
    }
    report
}

fn check_cifar(dir: &Path) -> CheckReport {
    let dataset = DatasetName::Cifar10;
    let folder = dir.join(dataset.as_str()).join(CIFAR_FOLDER);
    let mut report = new_report(dataset, folder.clone());
    let (train, test) = CIFAR_BATCHES.split_at(CIFAR_BATCHES.len() - 1);
    for (name, batches) in [("train", train), ("test", test)] {
        let mut labels = Vec::new();
        for batch in batches {
            let path = folder.join(batch);
            if !path.is_file() {
                let missing = DataError::MissingDataset { dataset, dir: dir.to_path_buf(), missing: path };
                report.problems.push(missing.to_string());
            } else if let Err(error) = cifar::read_batch(&path, &mut Vec::new(), &mut labels) {
                report.problems.push(error.to_string());
            }
        }
        report.splits.push(count(name, &labels));
    }
    if report.problems.is_empty() {
        report.official = has_noted_sums(&folder);
    }
    report
}

/// Compares the batches with the sums that were noted when the official archive was unpacked. Batches that came in
/// another way have no such note, and may well be the official images.
fn has_noted_sums(folder: &Path) -> Option<bool> {
    let text = std::fs::read_to_string(folder.join(SUMS)).ok()?;
    let noted = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once("  ").filter(|(_, file)| *file == name).map(|(sum, _)| sum))
    };
    CIFAR_BATCHES.into_iter().try_fold(true, |all, name| {
        let (sum, _) = verify::digest(File::open(folder.join(name)).ok()?, u64::MAX - 1).ok()?;
        Some(all && noted(name)? == sum)
    })
}
