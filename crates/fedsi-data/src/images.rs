//! MNIST, Fashion-MNIST and CIFAR-10 as pools.

use std::path::Path;

use crate::catalogue::{CIFAR_BATCHES, CIFAR_FOLDER, IDX_FILES, entry};
use crate::error::DataError;
use crate::federation::Task;
use crate::pool::{Inputs, Pool, PoolTargets};
use crate::read::{cifar, idx};
use crate::spec::DatasetName;

const CLASSES: usize = 10;

/// Reads MNIST or Fashion-MNIST: the official training and test sets pooled, training first.
pub(crate) fn open_idx(dataset: DatasetName, dir: &Path) -> Result<Pool, DataError> {
    let folder = dir.join(dataset.as_str());
    let find = |name: &str| {
        idx::locate(&folder, name).ok_or_else(|| DataError::MissingDataset {
            dataset,
            dir: dir.to_path_buf(),
            missing: folder.join(name),
        })
    };
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    // All files are sought before the first is read.
    let paths = IDX_FILES.map(|[images, labels]| (find(images), find(labels)));
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
    Ok(pool(dataset, vec![1, 28, 28], images, labels))
}

/// Reads CIFAR-10: the five training batches and the test batch pooled, in this order.
pub(crate) fn open_cifar(dir: &Path) -> Result<Pool, DataError> {
    let dataset = DatasetName::Cifar10;
    let folder = dir.join(dataset.as_str()).join(CIFAR_FOLDER);
    let paths = CIFAR_BATCHES.map(|name| folder.join(name));
    if let Some(missing) = paths.iter().find(|path| !path.is_file()) {
        let missing = missing.clone();
        return Err(DataError::MissingDataset { dataset, dir: dir.to_path_buf(), missing });
    }
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for path in &paths {
        cifar::read_batch(path, &mut images, &mut labels)?;
    }
    Ok(pool(dataset, vec![3, 32, 32], images, labels))
}

fn pool(dataset: DatasetName, shape: Vec<usize>, images: Vec<u8>, labels: Vec<u32>) -> Pool {
    let names = entry(dataset).class_names;
    Pool {
        rows: labels.len(),
        shape,
        inputs: Inputs::Bytes(images),
        targets: PoolTargets::Classes(labels),
        task: Task::Classification { classes: CLASSES },
        class_names: (!names.is_empty()).then(|| names.iter().map(|&name| name.to_owned()).collect()),
        columns: None,
        owners: None,
        train_rows: None,
    }
}
