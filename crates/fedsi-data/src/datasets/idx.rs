//! Datasets in the four files of MNIST: images and labels in the IDX format, plain or packed (`.gz`).

use std::path::{Path, PathBuf};

use super::{image_pool, missing};
use crate::checksum;
use crate::dataset::{CheckReport, DataForm, Dataset, DatasetDefaults, SplitReport};
use crate::error::{DataError, shown};
use crate::federation::{Federation, Task};
use crate::pool::Pooled;
use crate::read::idx;
use crate::spec::{PartitionSpec, Size};

const CLASSES: usize = 10;

/// What these datasets hold: grey images of 28 x 28 in ten classes.
pub(super) const FORM: DataForm<'static> =
    DataForm { input_shape: &[1, 28, 28], task: Task::Classification { classes: CLASSES } };

/// Training and test samples of the official sets.
pub(super) const SAMPLES: (usize, usize) = (60_000, 10_000);

/// The official images and labels: training, then test.
const FILES: [[&str; 2]; 2] = [
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
    ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
];

/// The paper's partitions and rounds. The weight noise had the lowest loss on held-out training data
/// (docs/calibrated.md): it slows training down, and helps where rounds are many and samples few.
pub(super) fn defaults(size: Size) -> DatasetDefaults {
    let partition = match size {
        Size::Small => PartitionSpec::labels(10, 50, 950),
        Size::Large => PartitionSpec::labels(10, 900, 300),
    };
    DatasetDefaults { rounds: 800, weight_noise: 0.3, ..DatasetDefaults::new(partition) }
}

/// Reads the official training and test sets, pools them, training first, and divides them among clients.
pub(super) fn open(
    dataset: &dyn Dataset,
    dir: &Path,
    partition: &PartitionSpec,
    seed: u64,
) -> Result<Box<dyn Federation>, DataError> {
    let folder = dir.join(dataset.name());
    let find =
        |name: &str| idx::locate(&folder, name).ok_or_else(|| missing(dataset, dir, &folder.join(name)));
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    // All files are sought before the first is read.
    let paths = FILES.map(|[images, labels]| (find(images), find(labels)));
    for (image_path, label_path) in paths {
        let image_path = image_path?;
        let mut part = idx::read_labelled(&image_path, &label_path?, CLASSES)?;
        if part.size != [28, 28] {
            let [height, width] = part.size;
            let found = format!("images of {height} x {width}");
            let advice = "open other images as dataset = \"files\"";
            return Err(DataError::malformed(&image_path, "byte 8", found, "28 x 28", advice));
        }
        images.append(&mut part.images);
        labels.append(&mut part.labels);
    }
    let pool = image_pool(dataset, CLASSES, images, labels);
    Ok(Box::new(Pooled::new(pool, partition, false, seed)?))
}

/// The files that [`open`] reads.
pub(super) fn input_files(dataset: &dyn Dataset, dir: &Path) -> Vec<PathBuf> {
    let folder = dir.join(dataset.name());
    FILES.iter().flatten().filter_map(|name| idx::locate(&folder, name)).collect()
}

/// Reads what is there of the official files; `None` where the dataset has no folder.
pub(super) fn check(dataset: &dyn Dataset, dir: &Path) -> Option<CheckReport> {
    let folder = dir.join(dataset.name());
    if !folder.is_dir() {
        return None;
    }
    let mut report = CheckReport::new(dataset, folder.clone());
    for (name, files) in ["train", "test"].into_iter().zip(FILES) {
        let [images, labels] = files
            .map(|file| idx::locate(&folder, file).ok_or_else(|| missing(dataset, dir, &folder.join(file))));
        let read = images.and_then(|images| Ok((idx::read_labelled(&images, &labels?, CLASSES)?, images)));
        match read {
            Ok((part, images)) => {
                let [height, width] = part.size;
                if part.size != [28, 28] {
                    report
                        .problems
                        .push(format!("{}: images of {height} x {width}, expected 28 x 28", shown(&images)));
                }
                report.splits.push(SplitReport::count(name, &part.labels, CLASSES));
            }
            Err(error) => report.problems.push(error.to_string()),
        }
    }
    if report.problems.is_empty() {
        report.official = dataset.files().iter().try_fold(true, |all, file| {
            let (_, right) = checksum::is_there(file, &folder).ok()??;
            Some(all && right)
        });
    }
    Some(report)
}
